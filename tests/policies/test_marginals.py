"""Marginals: what item-position probabilities can answer, and what they cannot."""

import math
from typing import Any

import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError, PolicyError
from tests.answers import answer, assert_as_oracle, assert_same_rows, clipped, log_of, repeated
from tests.truth import random_logs
from tests.truth.paper import paper

RECORDS = [
    *repeated(((1, 2, 3), (1, 0, 1)), ((2, 1, 3), (1, 1, 0)), ((3, 4), (0, 1)), times=2),
    *repeated(((1, 2, 3), (0, 1, 0)), ((4, 5), (1, 0)), times=4, context="r"),
]
POLICY: dict[Any, Any] = {
    "q": {(2, 1, 3): 0.5, (1, 2, 9): 0.3, (3, 1): 0.2},
    "r": {(5, 4): 0.9, (1, 2, 3): 0.1},
}
MODELS = paper(["ip", "item", "pbm", "rctr", "rcm"])


def table(**columns):
    return {
        "context": ["q", "q"],
        "item": [1, 2],
        "position": [1, 2],
        "probability": [1.0, 1.0],
    } | columns


def test_equal_the_lists_they_come_from_for_models_of_slots():
    log = log_of(RECORDS)
    marginals = fc.Marginals(random_logs.marginals_table(POLICY))
    asked: dict[Any, Any] = {
        "estimators": clipped(MODELS, [1, math.inf]),
        "metrics": ["clicks@2", "dcg@3"],
    }
    found = fc.evaluate(log, marginals, **asked, confidence=None)
    assert_as_oracle(found, RECORDS, POLICY)
    lists = fc.evaluate(log, fc.Lists(random_logs.lists_table(POLICY)), **asked, confidence=None)
    assert_same_rows(found, lists)


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


def test_less_than_1_is_a_list_that_is_sometimes_shorter():
    records = repeated(((1, 2), (1, 0)), ((2, 1), (0, 1)))
    policy = fc.Marginals(table(probability=[1.0, 0.5]))
    asked: Any = {"estimators": ["ip", "rctr"], "metrics": "dcg@2", "confidence": None}
    found = fc.evaluate(log_of(records), policy, **asked)
    assert_as_oracle(found, records, {"q": {(1, 2): 0.5, (1,): 0.5}})


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
