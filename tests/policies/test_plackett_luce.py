"""Plackett–Luce as a policy, against the enumeration of all its lists."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.errors import OptionError, PolicyError
from tests.answers import answer, assert_as_oracle, assert_same_rows, log_of, repeated, settled
from tests.truth import random_logs
from tests.truth.oracle import Record

# The marginals come from a quadrature, which promises 1e-10.
EXACT = 1e-9

MODELS = ["list", "prefix", "ip", "item"]
RECORDS = [
    *repeated(
        ((1, 2, 3, 4), (1, 0, 1, 0)),
        ((2, 1, 3, 4), (1, 1, 0, 0)),
        ((4, 3), (0, 1)),
        ((1, 2, 9), (0, 1, 1)),
        times=2,
    ),
    *repeated(((1, 2, 3), (0, 1, 0)), ((3, 1, 2), (1, 0, 1)), times=4, context="r"),
]
SCORES: dict[Any, Any] = {"q": {1: 0.3, 2: 1.1, 3: -0.7, 4: 0.0}, "r": {1: -1.0, 2: 0.5, 3: 2.0}}


def table(scores):
    rows = [(c, item, s) for c, items in scores.items() for item, s in items.items()]
    context, item, score = zip(*rows, strict=True)
    return {"context": context, "item": item, "score": score}


def enumerated(scores, temperature=1.0, k=None):
    """Every list with its probability, from the definition."""
    policy: dict[str, dict[tuple[int, ...], float]] = {}
    for context, items in scores.items():
        length = min(k or len(items), len(items))
        policy[context] = {
            one: math.prod(
                math.exp(items[a] / temperature)
                / sum(math.exp(s / temperature) for b, s in items.items() if b not in one[:j])
                for j, a in enumerate(one)
            )
            for one in itertools.permutations(items, length)
        }
    return policy


def assert_enumerated(
    scores, records, metrics, models=("list", "ip"), missing="production", **options
):
    """Lists and slots are what a policy is asked for; all models once are enough."""
    policy = enumerated(scores, **options)
    found = fc.evaluate(
        log_of(records),
        fc.PlackettLuce(table(scores), **options),
        estimators=models,
        metrics=metrics,
        clip=[1.5, math.inf],
        missing=missing,
        clusters=None,
    )
    assert_as_oracle(found, records, policy, EXACT, missing=missing)
    return found


def test_equals_the_enumeration_of_all_lists():
    """Also where the log shows shorter lists, and an item the policy does not have."""
    found = assert_enumerated(SCORES, RECORDS, ["clicks@2", "dcg@4"], MODELS)
    assert all(0 < row["covered"] < 1 for row in settled(found) if row["estimator"] == "list")


def test_equals_a_lists_policy_of_all_permutations():
    log = log_of(RECORDS)
    asked: dict[Any, Any] = {"estimators": ["list", "item"], "metrics": "clicks@3"}
    found = fc.evaluate(log, fc.PlackettLuce(table(SCORES)), **asked, clusters=None)
    lists = fc.evaluate(
        log, fc.Lists(random_logs.lists_table(enumerated(SCORES))), **asked, clusters=None
    )
    assert_same_rows(found, lists, EXACT)


@pytest.mark.parametrize("temperature", [0.25])
def test_the_temperature_divides_the_scores(temperature):
    assert_enumerated(SCORES, RECORDS, "clicks@3", temperature=temperature)


def test_towards_0_it_is_the_ranking_by_score():
    log = log_of(RECORDS)
    scores: dict[Any, Any] = {"q": {1: 0.5, 2: 1.1, 3: 0.0, 4: -1.0}, "r": {1: 1.0, 2: 0.5, 3: 2.0}}
    asked: dict[Any, Any] = {"estimators": ["list", "ip"], "metrics": "clicks@3"}
    cold = fc.evaluate(
        log, fc.PlackettLuce(table(scores), temperature=1e-3), **asked, clusters=None
    )
    ranking = fc.evaluate(log, fc.Ranking.from_scores(table(scores)), **asked, clusters=None)
    assert_same_rows(cold, ranking, EXACT)


@pytest.mark.parametrize("k", [1, 3])
def test_k_cuts_its_lists(k):
    assert_enumerated(SCORES, RECORDS, "clicks@3", k=k)


def test_k_beyond_its_items_shows_them_all():
    log = log_of(RECORDS)
    row = answer(log, fc.PlackettLuce(table(SCORES), k=10), "list", "clicks@4")
    assert row == answer(log, fc.PlackettLuce(table(SCORES)), "list", "clicks@4")


def test_more_items_than_the_metric_counts():
    scores: dict[Any, Any] = {
        "q": {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4},
        "r": {1: 2.0, 3: 1.0, 5: 0.0, 6: -1.0},
    }
    assert_enumerated(scores, RECORDS, ["clicks@1", "clicks@2"])


def test_a_metric_deeper_than_its_lists():
    scores: dict[Any, Any] = {"q": {1: 0.1, 2: 0.2}, "r": {3: 2.0}}
    assert_enumerated(scores, RECORDS, "dcg@5")


def test_items_unknown_to_the_log_are_uncovered_and_no_mass_is_lost():
    scores: dict[Any, Any] = {
        "q": {1: 0.5, 2: 0.0, 77: 1.0, 78: 0.2},
        "r": {1: 1.0, 2: 1.0, 99: 1.0},
    }
    found = assert_enumerated(scores, RECORDS, "clicks@3")
    assert all(row["covered"] < 1 for row in settled(found))


def test_nothing_in_common_is_no_answer():
    scores: dict[Any, Any] = {"q": {71: 0.5, 72: 0.0}, "r": {73: 1.0}}
    found = fc.evaluate(
        log_of(RECORDS),
        fc.PlackettLuce(table(scores)),
        estimators=[*MODELS, "rctr"],
        metrics="dcg@2",
        clusters=None,
    )
    assert found["value"] == [None] * 5
    assert found["covered"] == [0.0] * 5


def test_items_of_text():
    records = [Record(r.context, tuple(f"i{a}" for a in r.items), r.clicks) for r in RECORDS]
    scores: dict[Any, Any] = {
        c: {f"i{a}": s for a, s in items.items()} for c, items in SCORES.items()
    }
    assert_enumerated(scores, records, "clicks@3")


def test_a_missing_context_follows_the_rule_for_missing_ones():
    with pytest.raises(PolicyError, match="no list for 1 context of the log, for example 'r'"):
        answer(log_of(RECORDS), fc.PlackettLuce(table({"q": SCORES["q"]})))
    assert_enumerated({"q": SCORES["q"]}, RECORDS, "clicks@2", missing="drop")


def test_one_context_for_all():
    records = repeated(((1, 2), (1, 0)), ((2, 1), (0, 1)), context=0)
    log = fc.read_log(
        {"items": [list(r.items) for r in records], "clicks": [list(r.clicks) for r in records]},
        context=None,
    )
    policy = fc.PlackettLuce({"item": [1, 2], "score": [1.0, 0.0]}, context=None)
    found = fc.evaluate(log, policy, estimators=["list", "ip"], metrics="clicks@2", clusters=None)
    assert_as_oracle(found, records, enumerated({0: {1: 1.0, 2: 0.0}}), EXACT)


@pytest.mark.parametrize("temperature", [0, -1, math.inf, math.nan])
def test_a_temperature_that_is_none_is_refused_with_what_to_use(temperature):
    with pytest.raises(OptionError, match=r"Ranking\.from_scores, else a number above 0"):
        fc.PlackettLuce(table(SCORES), temperature=temperature)


def test_scores_are_checked_where_the_policy_is_made():
    with pytest.raises(PolicyError, match="item 2 of context 'q' has the score nan"):
        fc.PlackettLuce(table({"q": {1: 0.0, 2: math.nan}}))
    with pytest.raises(PolicyError, match="item 1 stands 2 times"):
        fc.PlackettLuce({"context": ["q"] * 2, "item": [1, 1], "score": [0.0, 1.0]})


def test_an_infinite_score_is_refused():
    with pytest.raises(PolicyError, match="finite"):
        fc.PlackettLuce(table({"q": {1: 0.0, 2: math.inf}}))


def test_lists_of_no_items_are_refused():
    with pytest.raises(OptionError, match="k=0"):
        fc.PlackettLuce(table(SCORES), k=0)


def test_many_random_policies_at_once():
    """Twenty contexts of up to four items, in one call."""
    rng = np.random.default_rng(5)
    records: list[Record] = []
    scores: dict[str, dict[int, float]] = {}
    for i in range(20):
        items = np.arange(10, 10 + int(rng.integers(1, 5)))
        for _ in range(5):
            shown = rng.permutation(np.append(items, 50))[: int(rng.integers(1, 4))]
            clicks = tuple((rng.random(len(shown)) < 0.5) * 1.0)
            records.append(Record(f"c{i}", tuple(shown.tolist()), clicks))
        drawn = rng.normal(0, 2, len(items))
        scores[f"c{i}"] = dict(zip(items.tolist(), drawn.tolist(), strict=True))
    assert_enumerated(scores, records, ["clicks@1", "dcg@3"], MODELS)
