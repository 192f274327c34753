"""Marginals: what item-position probabilities can answer, and what they cannot."""

import math

import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError, PolicyError
from tests.answers import answer, log_of, repeated
from tests.truth.paper import paper

RECORDS = [
    *repeated(((1, 2, 3), (1, 0, 1)), ((2, 1, 3), (1, 1, 0)), ((3, 4), (0, 1)), times=2),
    *repeated(((1, 2, 3), (0, 1, 0)), ((4, 5), (1, 0)), times=4, context="r"),
]
MODELS = paper(["ip", "item", "pbm", "rctr", "rcm"])


def table(**columns):
    return {
        "context": ["q", "q"],
        "item": [1, 2],
        "position": [1, 2],
        "probability": [1.0, 1.0],
    } | columns


@pytest.mark.parametrize("model", ["list", "prefix", fc.ClickModel("mine", cell="prefix")])
def test_refuse_models_of_whole_lists_and_say_what_to_use(model):
    message = r"Marginals does not say how likely whole lists.*Use Lists or Ranking.*'ip', 'item'"
    with pytest.raises(PolicyError, match=message):
        answer(log_of(RECORDS), fc.Marginals(table()), model, missing="drop")


def rows(*slots):
    return dict(zip(table(), map(list, zip(*slots, strict=True)), strict=True))


def test_what_changes_nothing():
    log = log_of(repeated(((1, 2), (1, 0)), ((2, 1), (0, 1))))
    sure = [("q", 1, 1, 1.0), ("q", 2, 2, 1.0)]
    names = ("query", "doc", "rank", "p")
    for other in (
        fc.Marginals(rows(*sure, ("q", 2, 1, 0.0))),
        fc.Marginals(rows(*sure, ("q", 3, 3, 1.0))),  # below the metric
        fc.Marginals(dict(zip(names, table().values(), strict=True)), *names),
        fc.Marginals({**table(), "item_position": [1, 2]}, position="item_position"),
    ):
        assert answer(log, other) == answer(log, fc.Marginals(table()))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"position": [0, 1]}, r"position 0 in context 'q' \(1 such.*count from 1"),
        ({"position": [1.0, 2.0]}, "'position' must be an integer"),
        (
            {"position": [1, 1], "probability": [1.0, 0.75]},
            r"position 1 in context 'q' sum to 1\.75 \(1 such",
        ),
        (
            {"item": [1, 1], "probability": [1.0, 0.5]},
            r"item 1 in context 'q' sum to 1\.5 .*may exceed 1",
        ),
        *(
            ({"probability": [1.0, wrong]}, "probability null, NaN, too large, or not above 0")
            for wrong in (-0.5, math.nan, None)
        ),
        ({"position": None}, "position='position' is no column"),
        ({"probability": None}, "probability='probability' is no column"),
    ],
)
def test_what_are_no_marginals_is_refused(columns, message):
    given = {name: values for name, values in table(**columns).items() if values is not None}
    with pytest.raises((PolicyError, InvalidLogError), match=message):
        fc.Marginals(given)
