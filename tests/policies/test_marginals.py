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


def test_rows_of_probability_0_change_nothing():
    log = log_of(repeated(((1, 2), (1, 0)), ((2, 1), (0, 1))))
    padded = {
        "context": ["q"] * 3,
        "item": [1, 2, 2],
        "position": [1, 2, 1],
        "probability": [1.0, 1.0, 0.0],
    }
    assert answer(log, fc.Marginals(padded)) == answer(log, fc.Marginals(table()))


def test_positions_below_the_metric_do_not_count():
    log = log_of(repeated(((1, 2), (1, 0)), ((2, 1), (0, 1))))
    deeper = {
        "context": ["q"] * 3,
        "item": [1, 2, 3],
        "position": [1, 2, 3],
        "probability": [1.0] * 3,
    }
    assert answer(log, fc.Marginals(deeper)) == answer(log, fc.Marginals(table()))


def test_columns_may_have_any_name():
    log = log_of(repeated(((1, 2), (1, 0)), ((2, 1), (0, 1))))
    named = fc.Marginals(
        {"query": ["q", "q"], "doc": [1, 2], "rank": [1, 2], "p": [1.0, 1.0]},
        context="query",
        item="doc",
        position="rank",
        probability="p",
    )
    assert answer(log, named) == answer(log, fc.Marginals(table()))


def test_the_position_may_be_called_what_it_is():
    columns: dict[Any, Any] = {
        "context": ["q"],
        "item": [1],
        "item_position": [1],
        "probability": [1.0],
    }
    fc.Marginals(columns, position="item_position")


def test_positions_count_from_1():
    with pytest.raises(PolicyError, match=r"position 0 in context 'q' \(1 such.*count from 1"):
        fc.Marginals(table(position=[0, 1]))


def test_positions_are_integers():
    with pytest.raises(PolicyError, match="'position' must be an integer"):
        fc.Marginals(table(position=[1.0, 2.0]))


def test_a_position_holds_one_item():
    with pytest.raises(PolicyError, match=r"position 1 in context 'q' sum to 1\.75 \(1 such"):
        fc.Marginals(table(position=[1, 1], probability=[1.0, 0.75]))


def test_an_item_stands_at_one_position():
    with pytest.raises(PolicyError, match=r"item 1 in context 'q' sum to 1\.5 .*may exceed 1"):
        fc.Marginals(table(item=[1, 1], probability=[1.0, 0.5]))


def test_less_than_1_is_a_list_that_is_sometimes_shorter():
    log = log_of(repeated(((1, 2), (1, 0)), ((2, 1), (0, 1))))
    short: dict[Any, Any] = {"q": {(1, 2): 0.5, (1,): 0.5}}
    found = fc.evaluate(
        log,
        fc.Marginals(table(probability=[1.0, 0.5])),
        estimators=["ip", "rctr"],
        metrics="dcg@2",
        confidence=None,
    )
    assert_as_oracle(found, repeated(((1, 2), (1, 0)), ((2, 1), (0, 1))), short)


@pytest.mark.parametrize("wrong", [-0.5, math.nan, None])
def test_a_probability_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidLogError, match="probability null, NaN, too large, or not above 0"):
        fc.Marginals(table(probability=[1.0, wrong]))


@pytest.mark.parametrize("column", ["position", "probability"])
def test_a_missing_column_is_named(column):
    columns: dict[Any, Any] = {name: values for name, values in table().items() if name != column}
    with pytest.raises(PolicyError, match=f"{column}='{column}' is no column"):
        fc.Marginals(columns)
