"""If this fails, a candidate's table is refused with a wrong remedy, or read as another."""

from typing import Any

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.engines import open_source
from foreclick.errors import InvalidLogError, PolicyError
from foreclick.policies import as_policy
from foreclick.policies.columns import policy_of
from tests.policies import shown_by

LOG: dict[str, Any] = {
    "query": ["q", "q", "r", "r"] * 10,
    "shown": [[1, 2], [2, 1], [3, 4], [4, 3]] * 10,
    "clicks": [[1, 0], [0, 1], [0, 0], [1, 0]] * 10,
}
NAMES = fc.tally(fc.read_log(LOG, context="query", items="shown")).names
LISTS = [[2, 1], [3, 4]]
QUERIES = ["q", "q", "r", "r"]
ITEMS = [1, 2, 3, 4]
SCORES = [0.1, 0.9, 0.8, 0.2]
RANKS = [2, 1, 1, 2]
TABLES: dict[str, dict[str, Any]] = {
    "called as in the log": {"query": ["q", "r"], "shown": LISTS},
    "called as here": {"context": ["q", "r"], "items": LISTS},
    "the list in a column per position": {"query": ["q", "r"], "item_1": [2, 3], "item_2": [1, 4]},
    "the only column of lists": {"query": ["q", "r"], "ranking": LISTS, "model": ["a", "a"]},
    "the only columns": {"search": ["q", "r"], "ranking": LISTS},
    "lists as text": {"query": ["q", "r"], "ranking": ["2,1", "3,4"]},
    "scores": {"query": QUERIES, "item": ITEMS, "score": SCORES, "model": ["a"] * 4},
    "scores of the only column left": {"query": QUERIES, "sku": ITEMS, "score": SCORES},
    "scores of other queries": {"search": QUERIES, "item": ITEMS, "score": SCORES},
    "positions": {"query": QUERIES, "item": ITEMS, "position": RANKS, "model": ["a"] * 4},
    "ranks of the only column left": {"query": QUERIES, "sku": ITEMS, "rank": RANKS},
    "ranks from 0": {"query": QUERIES, "sku": ITEMS, "rank": [1, 0, 0, 1]},
    "marginals": {"query": QUERIES, "item": ITEMS, "position": RANKS, "probability": [1.0] * 4},
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_the_policy_that_its_columns_say(name):
    assert shown_by(as_policy(TABLES[name], NAMES)) == {"q": [2, 1], "r": [3, 4]}


def test_lists_with_probabilities():
    table = {"query": ["q", "q"], "shown": [[1, 2], [2, 1]], "probability": [0.7, 0.3]}
    policy = as_policy(table, NAMES)
    assert isinstance(policy, fc.Lists)
    assert sorted(policy._arrow.table["n"].to_pylist()) == [0.3, 0.7]


def test_what_the_user_names_comes_first():
    table = {"query": QUERIES, "item": [9] * 4, "sku": ITEMS, "score": SCORES, "new": [1, 2, 3, 4]}
    named = {"item": "sku", "score": "new"}
    policy = policy_of(open_source(pa.table(table)), NAMES, named, 1, remedy=str)
    assert shown_by(policy) == {"q": [2], "r": [4]}


def test_columns_of_which_none_is_known_are_listed_with_the_remedy():
    with pytest.raises(PolicyError) as error:
        as_policy({"a": ["q", "r"], "b": ["en", "en"], "c": [1, 2]}, NAMES)
    assert str(error.value) == (
        "candidate: no column is known to hold the context and the items. It has the columns a, b, "
        "c. Name them: fc.Ranking(table, context='a', items='b')."
    )


def test_a_log_by_result_names_the_items_of_candidates():
    rows = {
        "list": [1, 1, 2, 2],
        "rank": [1, 2, 1, 2],
        "query": ["q"] * 4,
        "sku": [1, 2, 2, 1],
        "clicks": [1, 0, 0, 0],
    }
    log = fc.read_log(rows, context="query", long=("list", "rank"), items="sku")
    table = {"query": ["q"] * 2, "sku": [1, 2], "price": [3.0, 4.0], "score": [0.1, 0.2]}
    assert shown_by(as_policy(table, fc.tally(log).names)) == {"q": [2, 1]}


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_only_lists_of_contexts_that_are_asked_for_are_read(kind):
    numbers = list(range(100))
    written = numbers if kind == "integers" else list(map(str, numbers))
    table = open_source(pa.table({"query": written, "items": [[n, n + 1] for n in numbers]}))
    asked = open_source(pa.table({"context": [7, 9, 500]}))
    policy = as_policy(table, NAMES, contexts=asked)
    assert shown_by(policy) == {written[7]: [7, 8], written[9]: [9, 10]}


def test_a_list_without_a_context_is_noticed_among_those_asked_for():
    table = open_source(pa.table({"query": ["q", None], "items": [[1], [2]]}))
    with pytest.raises(InvalidLogError, match="context"):
        as_policy(table, NAMES, contexts=open_source(pa.table({"context": ["q"]})))


@pytest.mark.parametrize("order", [1, -1])
def test_an_example_of_what_cannot_match_is_the_same_in_any_order(order):
    table = {"query": ["q", "r"][::order], "shown": [["1", "2"], ["3", "4"]][::order]}
    with pytest.raises(PolicyError, match=r"the log has 1 \(integer\), the Ranking '1' \(text\)"):
        fc.evaluate(fc.read_log(LOG, context="query", items="shown"), table, metrics="clicks@1")
