"""If this fails, a candidate's table is refused with a wrong remedy, or read as another."""

from typing import Any

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.engines import open_source
from foreclick.errors import InvalidLogError, PolicyError
from foreclick.policies import as_policy
from foreclick.policies.columns import policy_of

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


def lists_of(policy: Any) -> list[tuple[str, list[int]]]:  # noqa: ANN401
    if isinstance(policy, fc.Marginals):
        rows = policy._slots.to_pyarrow().sort_by(
            [("context", "ascending"), ("place", "ascending")]
        )
        grouped = rows.group_by("context", use_threads=False).aggregate([("item_1", "list")])
        lists = grouped["item_1_list"].to_pylist()
    else:
        grouped = policy._arrow.table
        columns = [grouped[name].to_pylist() for name in policy._arrow.items]
        lists = list(map(list, zip(*columns, strict=True)))
    return sorted(zip(grouped["context"].to_pylist(), lists, strict=True))


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_the_policy_that_its_columns_say(name):
    policy = as_policy(TABLES[name], NAMES)
    assert lists_of(policy) == [("q", [2, 1]), ("r", [3, 4])]


def test_lists_with_probabilities():
    table = {"query": ["q", "q"], "shown": [[1, 2], [2, 1]], "probability": [0.7, 0.3]}
    policy = as_policy(table, NAMES)
    assert isinstance(policy, fc.Lists)
    assert sorted(policy._arrow.table["n"].to_pylist()) == [0.3, 0.7]


def test_what_the_user_names_comes_first():
    table = {"query": QUERIES, "item": [9] * 4, "sku": ITEMS, "score": SCORES, "new": [1, 2, 3, 4]}
    named = {"item": "sku", "score": "new"}
    policy = policy_of(open_source(pa.table(table)), NAMES, named, 1, remedy=str)
    assert lists_of(policy) == [("q", [2]), ("r", [4])]


UNCLEAR: dict[str, tuple[dict[str, Any], str, str]] = {
    "two columns that may be the item": (
        {"query": QUERIES, "sku": ITEMS, "shop": ITEMS, "score": SCORES},
        "the item",
        "fc.Ranking.from_scores(table, context='query', item='sku')",
    ),
    "a score that is called otherwise": (
        {"query": QUERIES, "item": ITEMS, "relevance": SCORES},
        "the score",
        "fc.Ranking.from_scores(table, context='query', item='item', score='relevance')",
    ),
    "a context that is called otherwise": (
        {"text": ["q", "r"], "locale": ["en", "en"], "items": LISTS},
        "the context",
        "fc.Ranking(table, context='text', items='items')",
    ),
    "nothing that is known": (
        {"a": ["q", "r"], "b": ["en", "en"], "c": [1, 2]},
        "the context and the items",
        "fc.Ranking(table, context='a', items='b')",
    ),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_unclear_columns_are_listed_with_the_remedy(name):
    table, missing, remedy = UNCLEAR[name]
    with pytest.raises(PolicyError) as error:
        as_policy(table, NAMES)
    assert str(error.value) == (
        f"candidate: no column is known to hold {missing}. It has the columns {', '.join(table)}. "
        f"Name them: {remedy}."
    )


def test_two_items_at_one_position():
    table = {"query": ["q"] * 3, "item": [1, 2, 3], "position": [1, 2, 2]}
    with pytest.raises(PolicyError, match="2 items stand at position 2 of context 'q'"):
        as_policy(table, NAMES)


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
    assert lists_of(as_policy(table, fc.tally(log).names)) == [("q", [2, 1])]


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_only_lists_of_contexts_that_are_asked_for_are_read(kind):
    numbers = list(range(100))
    written = numbers if kind == "integers" else list(map(str, numbers))
    table = open_source(pa.table({"query": written, "items": [[n, n + 1] for n in numbers]}))
    asked = open_source(pa.table({"context": [7, 9, 500]}))
    policy = as_policy(table, NAMES, contexts=asked)
    assert lists_of(policy) == [(written[7], [7, 8]), (written[9], [9, 10])]


def test_a_list_without_a_context_is_noticed_among_those_asked_for():
    table = open_source(pa.table({"query": ["q", None], "items": [[1], [2]]}))
    with pytest.raises(InvalidLogError, match="context"):
        as_policy(table, NAMES, contexts=open_source(pa.table({"context": ["q"]})))


@pytest.mark.parametrize("order", [1, -1])
def test_an_example_of_what_cannot_match_is_the_same_in_any_order(order):
    table = {"query": ["q", "r"][::order], "shown": [["1", "2"], ["3", "4"]][::order]}
    with pytest.raises(PolicyError, match=r"the log has 1 \(integer\), the Ranking '1' \(text\)"):
        fc.evaluate(fc.read_log(LOG, context="query", items="shown"), table, metrics="clicks@1")
