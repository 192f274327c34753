"""If this fails, production shows other lists than those that were evaluated."""

import hashlib
import itertools
import re
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import ForeclickWarning
from tests.cases import tables

# Lists of different length, equal probabilities, a hole, a list in parts, a softmax in float32.
LISTS: list[tuple[str, list[Any], float]] = [
    *(("even", list(items), 1 / 6) for items in itertools.permutations(["a", "b|c", "zoë"])),
    ("lengths", ["a"], 0.5),
    ("lengths", ["a", "b", "c", "d"], 0.2),
    ("lengths", ["b", None, "c"], 0.2),
    ("lengths", ["c", "b"], 0.1),
    ("parts", ["a", "b"], 0.25),
    ("parts", ["b", "a"], 0.5),
    ("parts", ["a", "b"], 0.25),
    ("softmax", ["a"], float(np.float32(0.3333333))),
    ("softmax", ["b"], float(np.float32(0.6666666))),
    ("sure", ["a", "b", "c"], 1.0),
]
TABLE = pa.Table.from_pylist(
    [{"context": context, "items": items, "probability": p} for context, items, p in LISTS]
)
CONTEXTS = [*dict.fromkeys(context for context, _, _ in LISTS), "unknown", None]
TWO = {"context": ["q", "q"], "items": [[1, 2], [2, 1]], "probability": [0.7, 0.3]}


def requests_of(ids, contexts=("q",), kind=None):
    """One request an id, in each context in turn."""
    where = list(itertools.islice(itertools.cycle(contexts), len(ids)))
    return pa.table({"request": list(ids), "context": pa.array(where, kind)})


def by_request(shown):
    """What each request was shown, as a picker says it."""
    return {
        row["request"]: (None if row["items"] is None else tuple(row["items"]), row["propensity"])
        for row in shown.to_pylist()
    }


def warned(call):
    """What a call gives, and the library's own warnings; Ibis has others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    return found, [w for w in caught if w.category is ForeclickWarning]


def drawn_by_hand(lists, request, seed):
    """As documented: the list at u, for lists in falling order of different probabilities."""
    text = f"foreclick:{seed}:{request}"
    number = int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:7], 16)
    ends = itertools.accumulate(Fraction(p) for p in lists.values())
    return next(i for i, end in zip(lists, ends, strict=True) if Fraction(number, 16**7) < end)


# --- one draw, everywhere -------------------------------------------------------------------------


def test_a_request_is_shown_the_same_list_by_every_engine_and_by_the_picker(engine):
    texts = [*(f"request-{i}" for i in range(1_400)), "", "東京🦆", "O'Brien", "a\\b"]
    table = engine.load(TABLE)
    policy = fc.Lists(table)
    here, there = fc.Lists(TABLE).serving(seed=5), policy.serving(seed=5)
    numbers = [*range(1_000), -7, 2**62 + 1]
    for ids in (texts, numbers):
        requests = requests_of(ids, CONTEXTS, pa.string())
        expected = {
            row["request"]: here(row["request"], row["context"]) for row in requests.to_pylist()
        }
        assert {r: there(r, requests["context"][i].as_py()) for i, r in enumerate(ids)} == expected
        source = requests if ids is texts else engine.load(requests)  # from elsewhere, from there
        shown, complaints = warned(lambda source=source: policy.sample(source, seed=5))
        assert len(complaints) == 1
        assert shown.column_names == ["request", "context", "items", "propensity"]
        assert by_request(shown) == expected
        assert shown["context"].type == pa.string()
        assert shown["items"].type == pa.list_(pa.string())
        seen = {items for items, _ in expected.values()}
        assert seen == {tuple(items) for _, items, _ in LISTS} | {None}


def test_the_draw_is_the_one_that_is_documented():
    lists = {(3, 1): 0.45, (1,): 0.3, (1, 2, 3): 0.2, (2, 9): 0.05}
    policy = fc.Lists(tables.lists_table({1: dict(reversed(lists.items()))}))
    for seed in (0, 1, 2**40, -1):
        picker = policy.serving(seed=seed)
        for request in range(500):
            expected = drawn_by_hand(lists, request, seed)
            assert picker(request, 1) == (expected, lists[expected])


@pytest.mark.parametrize(("policy", "asked"), [(7, "7"), ("7", 7), (7, 7), ("7", "7")])
def test_ids_and_contexts_count_by_their_text(policy, asked):
    lists = fc.Lists(TWO | {"context": [policy] * 2})
    picker = lists.serving()
    found = by_request(lists.sample(requests_of(range(50), [asked])))
    assert (
        found == {i: picker(i, asked) for i in range(50)} == {i: picker(str(i), "7") for i in found}
    )
    assert None not in {items for items, _ in found.values()}


# --- how often ------------------------------------------------------------------------------------


def test_a_ranking_shows_its_list():
    twice = fc.Ranking({"context": ["q", "q", "r"], "items": [[2, 1], [2, 1], [3]]})
    shown = by_request(twice.sample(requests_of(range(10), ["q", "r"])))
    assert set(shown.values()) == {((2, 1), 1.0), ((3,), 1.0)}
    scored = fc.Ranking.from_scores({"item": [1, 2], "score": [0.1, 0.2]}, context=None)
    shown = by_request(scored.sample({"request": [1, 2]}, context=None))
    assert set(shown.values()) == {scored.serving()("r", 0)} == {((2, 1), 1.0)}


# --- the next log ---------------------------------------------------------------------------------


def test_what_was_shown_is_a_log_with_known_propensities():
    policy = fc.Lists(TWO)
    shown, _ = warned(lambda: policy.sample(requests_of(range(3_000), ["q", "q", "new"])))
    clicks = [
        None if i is None else [int(item == 1) for item in i] for i in shown["items"].to_pylist()
    ]
    clicked = shown.append_column("clicks", pa.array(clicks, pa.list_(pa.int64())))
    log = fc.read_log(clicked, propensity="propensity", where="items IS NOT NULL")
    assert (log.rows, log.shape.propensity) == (2_000, "list")
    dropped = fc.read_log(clicked, propensity="propensity", invalid="drop")
    assert dropped.rows == 2_000
    found = fc.evaluate(
        log, policy, estimators="list", metrics="clicks@1", logging="propensity", confidence=None
    )
    # every weight is 1: what is estimated is what was shown
    first = sum(i[0] == 1 for i in shown["items"].to_pylist() if i)
    assert found["value"] == pytest.approx([first / 2_000])


# --- what goes wrong ------------------------------------------------------------------------------


def test_contexts_without_a_list_are_counted_with_an_example_and_a_remedy():
    requests = {"request": [1, 2, 3], "context": ["q", "z", None]}
    policy = fc.Lists(TWO)
    shown, (complaint,) = warned(lambda: policy.sample(requests))
    message = r".*no list for 2 of 3 requests, for example for request [23] in context .*null.*Add"
    assert re.match(message, str(complaint.message))
    assert complaint.filename == __file__
    found = by_request(shown)
    assert found[2] == found[3] == (None, None)
    picker = policy.serving()
    assert picker(2, "z") == picker(3, None) == (None, None)
