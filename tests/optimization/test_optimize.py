"""If this fails, an optimised policy is not the best, or is told to be better than it is."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from benchmarks.unexplored import one_log

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.ladder.fit import production_fit
from foreclick.optimization import counts
from foreclick.optimization.counts import dealt_at_random
from tests.answers import close, log_of, same
from tests.cases.plain import EXAMINED, sorted_log
from tests.optimization.scenes import ITEMS, K, lists_of, moved, some_records
from tests.truth import ladder as ladder_oracle
from tests.truth.oracle import Record, dcg_at

THETA = dcg_at(K)
METRIC = f"dcg@{K}"
PLAIN: dict[str, Any] = {"pessimism": 0, "judge": None, "metrics": METRIC}
LADDER = fc.Ladder("ip", (1.0, 0.7, 0.4))


# --- the ladder's optimum -------------------------------------------------------------------------


def test_the_ladder_s_best_list_is_the_best_of_all():
    records = some_records(9, contexts=3, records=60)
    tally = fc.tally(log_of(records))
    truth = ladder_oracle.Truth.of(production_fit(batches_of(tally), LADDER, "clicks"))
    for context, lists in lists_of(fc.optimize(tally, estimators=LADDER, **PLAIN)).items():
        own = [r for r in records if r.context == context]
        seen = {item for r in own for item in r.items}
        every = dict.fromkeys(itertools.permutations(sorted(seen), K), 0.0)
        rate = truth.solve(own, every).rate
        worth = {a: truth.worth(rate, {a: 1.0}, THETA) for a in every}
        ((chosen, mass),) = lists.items()
        assert mass == 1
        assert close(worth[chosen], max(worth.values()), 1e-9)


# --- an honest value ------------------------------------------------------------------------------


@pytest.mark.parametrize("apart", [{}, {"unit": "user"}])
def test_noise_is_worth_nothing(apart: dict[str, Any]):
    """All lists are alike: the naive optimum finds errors, and the honest value says so."""
    rng = np.random.default_rng(3)
    table = {
        "context": [f"q{i % 20}" for i in range(6000)],
        "items": [rng.permutation(6)[:3].tolist() for _ in range(6000)],
        "clicks": (rng.random((6000, 3)) < 0.3).astype(int).tolist(),
        "user": rng.integers(0, 900, 6000),
    }
    log = fc.read_log(table, **apart)
    best = fc.optimize(log, metrics="clicks@3", estimators="ip", pessimism=0, judge="ip")
    assert best.naive > best.production + 0.2
    assert best["low"][0] < 0.9 < best["high"][0]
    assert fc.optimize(log, metrics="clicks@3", judge=None)["changed"][0] <= 5


# --- what is asked besides ------------------------------------------------------------------------


def test_what_is_pinned_is_there_and_what_is_banned_is_nowhere():
    """By the ladder; by weights, `test_programs` says so too."""
    records = some_records(11, contexts=3, records=60)
    log, first = log_of(records), min(r.items for r in records if r.context == "q0")
    banned = next(a for a in range(ITEMS) if a not in first)
    asked: dict[str, Any] = {"estimators": LADDER, **PLAIN}
    pins = {"context": ["q0"], "item": [first[1]], "position": [2]}
    best = fc.optimize(log, pinned=pins, banned={"context": ["q0"], "item": [banned]}, **asked)
    assert all(a[1] == first[1] and banned not in a for a in lists_of(best)["q0"])
    nowhere = lists_of(fc.optimize(log, banned=[4], **asked))
    assert not any(4 in items for lists in nowhere.values() for items in lists)


@pytest.mark.parametrize("estimator", [LADDER, "ip", "item"])
@pytest.mark.parametrize("change", [0.0, 0.2])
def test_a_first_step_is_no_longer_than_allowed(estimator: Any, change: float):  # noqa: ANN401
    records = some_records(11, contexts=3, records=60)
    best = fc.optimize(log_of(records), estimators=estimator, max_change=change, **PLAIN)
    for context, lists in lists_of(best).items():
        assert moved(lists, [r for r in records if r.context == context]) <= change + 1e-8
    assert not change or best.naive > best.production


def test_production_stays_where_nothing_is_sure():
    rng = np.random.default_rng(1)
    lists = [(1, 2), (2, 1)]
    sure = [Record("sure", lists[i % 2], (float(i % 2), 0.0)) for i in range(400)]
    unsure = [
        Record("unsure", lists[i % 2], tuple((rng.random(2) < 0.3).astype(float)))
        for i in range(400)
    ]
    log = log_of(sure + unsure)
    best = fc.optimize(log, metrics="clicks@1")
    rows = {row["context"]: row for row in best.contexts.to_pylist()}
    assert (rows["sure"]["why"], rows["unsure"]["why"]) == ("changed", "nothing sure")
    assert best["changed"] == [1]
    assert lists_of(best)["sure"] == {(2,): 1.0}
    assert lists_of(best)["unsure"] == {(1,): 0.5, (2,): 0.5}
    assert fc.optimize(log, metrics="clicks@1", pessimism=0, judge=None)["changed"] == [2]


def test_what_only_the_whole_log_is_sure_of_has_no_honest_value():
    """Some gain by all records, none by half of them: then nothing was shown to be gained."""
    lists = [(1, 2), (2, 1)]
    records = [Record("q", lists[i % 2], (float(i % 20 in (1, 3, 5, 2)), 0.0)) for i in range(200)]
    log = log_of(records)
    best = fc.optimize(log, metrics="clicks@1", pessimism=1.0)
    assert best["changed"] == [1]
    assert best.evaluation is None
    assert best.value == best.production < best.naive
    assert best["low"] == [None]
    assert any("Half of the log is too small to find an improvement" in note for note in best.notes)


def test_what_breaks_a_constraint_does_not_stay():
    """Nothing is sure to be better, but what is banned must go all the same."""
    rng = np.random.default_rng(5)
    records = [
        Record("q", tuple(rng.permutation(4)[:2].tolist()), (float(rng.random() < 0.3), 0.0))
        for _ in range(300)
    ]
    log = log_of(records)
    asked: dict[str, Any] = {"metrics": "clicks@2", "judge": None, "pessimism": 5}
    assert fc.optimize(log, **asked)["changed"] == [0]
    pins = {"context": ["q"], "item": [2], "position": [1]}
    assert fc.optimize(log, **asked, pinned=pins)["changed"] == [1]
    for banned in (["2"], [2]):
        best = fc.optimize(log, **asked, banned=banned)
        assert best["changed"] == [1]
        assert all(2 not in items for items in lists_of(best)["q"])


# --- the same everywhere --------------------------------------------------------------------------


def test_a_policy_of_several_parts_is_the_same(monkeypatch: pytest.MonkeyPatch):
    log = log_of(some_records(15, contexts=7, records=80))
    first = fc.optimize(log, metrics=METRIC)
    monkeypatch.setattr(counts, "SLOTS", 8)
    again = fc.optimize(log, metrics=METRIC)
    assert again.policy.table.column("context").num_chunks > 3
    assert again.policy.table.equals(first.policy.table)
    assert again.contexts.equals(first.contexts)
    (one,), (other,) = first.to_dicts(), again.to_dicts()
    assert same(one, other)
    assert again.notes == first.notes
    assert repr(again.policy) == repr(fc.Lists(first.policy.table))


# --- `optimize` on logs that hardly explored: where examination is a guess, production stays ------


@pytest.mark.parametrize("swaps", [0.0, 0.005])
@pytest.mark.parametrize(("noise", "seed"), [(0.0, 88_001), (0.5, 88_002)])
def test_it_harms_no_context_of_a_log_that_hardly_explored(seed: int, noise: float, swaps: float):
    found = one_log(seed, noise, swaps)
    assert found["harmed"] == 0
    assert found["verdict"] != "better" or found["gain"] > 0
    assert found["held"] or not found["judged"]


def test_a_log_that_explored_is_still_optimised():
    found = [one_log(seed, 0.5, 0.1) for seed in (88_003, 88_004, 88_005)]
    assert sum(one["verdict"] == "better" for one in found) >= 2
    assert min(one["gain"] for one in found) > 0.02


def test_a_known_examination_has_no_errors():
    log = sorted_log(88_004, swaps=0.005)
    known = fc.Ladder("ip", examination=tuple(EXAMINED))
    learnt, given = (
        fc.optimize(log, metrics="dcg@5", estimators=e, judge=None) for e in ("ladder-ip", known)
    )
    assert given["changed"][0] > learnt["changed"][0]


def test_records_are_dealt_as_chance_would():
    n = np.concatenate([np.full(2000, 10.0), np.full(2000, 1.0), [2.5]])
    seed = np.random.default_rng(0).integers(0, 2**28, len(n)).astype(np.uint64)
    row, fold, share = dealt_at_random(n, seed)
    counts = np.zeros((len(n), 2))
    counts[row, fold] = share
    assert np.allclose(counts.sum(axis=1), n)
    assert np.all(counts >= 0)
    assert abs(counts[:2000, 0].mean() - 5) < 4 * math.sqrt(10 / 4 / 2000)
    assert abs(counts[:2000, 0].var() / (10 / 4) - 1) < 0.15
    assert abs(counts[2000:4000, 0].mean() - 0.5) < 4 * math.sqrt(1 / 4 / 2000)
