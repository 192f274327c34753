"""Marginals: what item-position probabilities can answer, and what they cannot."""

import foreclick as fc
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
