"""If this fails, an optimised policy is not the best, or is told to be better than it is."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.unexplored import one_log

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.ladder.fit import production_fit
from foreclick.optimization import counts
from foreclick.optimization.counts import dealt_at_random
from foreclick.optimization.optimize import Optimized
from tests.answers import answer, close, same
from tests.cases.plain import EXAMINED, sorted_log
from tests.cases.tables import log_table
from tests.truth import ladder as ladder_oracle
from tests.truth.oracle import Record, dcg_at

K, ITEMS = 3, 5
THETA = dcg_at(K)
METRIC = f"dcg@{K}"
PLAIN: dict[str, Any] = {"pessimism": 0, "judge": None, "metrics": METRIC}
LADDER = fc.Ladder("ip", (1.0, 0.7, 0.4))


def some_records(seed: int, contexts: int = 3, records: int = 60) -> list[Record]:
    """Lists of three of five items, some far more often than others."""
    rng = np.random.default_rng(seed)
    found = []
    for x in range(contexts):
        rates = rng.random((ITEMS, K))
        lists = [tuple(rng.permutation(ITEMS)[:K].tolist()) for _ in range(6)]
        for which in rng.choice(6, records, p=np.arange(1, 7) / 21):
            clicks = tuple(float(rng.random() < rates[a, k]) for k, a in enumerate(lists[which]))
            found.append(Record(f"q{x}", lists[which], clicks))
    return found


def rows_of(best: Optimized) -> dict[str, dict[tuple[Any, ...], float]]:
    found: dict[str, dict[tuple[Any, ...], float]] = defaultdict(dict)
    for row in best.policy.table.to_pylist():
        items = tuple(v for c, v in row.items() if c.startswith("item_") and v is not None)
        found[row["context"]][items] = row["probability"]
    return found


def marginals(lists: dict[tuple[Any, ...], float]) -> np.ndarray:
    h = np.zeros((ITEMS, K))
    for items, mass in lists.items():
        for k, a in enumerate(items):
            h[a, k] += mass
    return h


# --- the ladder's optimum -------------------------------------------------------------------------


def test_the_ladder_s_best_list_is_the_best_of_all():
    records = some_records(9)
    tally = fc.tally(fc.read_log(log_table(records)))
    best = fc.optimize(tally, estimators=LADDER, **PLAIN)
    fit = production_fit(batches_of(tally), LADDER, "clicks")
    truth = ladder_oracle.Truth.of(fit)
    every = dict.fromkeys(itertools.permutations(range(ITEMS), K), 1.0)
    for context, lists in rows_of(best).items():
        own = [r for r in records if r.context == context]
        seen = sorted({item for r in own for item in r.items})
        rate = truth.solve(own, {a: 0.0 for a in every if set(a) <= set(seen)}).rate
        ((chosen, mass),) = lists.items()
        worth = {
            a: fit.spec.unit * sum(THETA[k] * rate["position", i, k + 1] for k, i in enumerate(a))
            for a in every
            if set(a) <= set(seen)
        }
        assert mass == 1
        assert close(worth[chosen], max(worth.values()), 1e-9)


# --- an honest value ------------------------------------------------------------------------------


def test_its_value_is_that_of_policies_chosen_without_the_records_that_judge_them():
    records = some_records(10, records=90)
    days = [i % 6 for i in range(len(records))]
    log = fc.read_log(log_table(records, day=days), period="day")
    asked: dict[str, Any] = {"estimators": "ip", "pessimism": 1, "metrics": METRIC}
    best = fc.optimize(log, judge="ip", **asked)
    total = 0.0
    for fold in range(2):
        held = [r for r, d in zip(records, days, strict=True) if d % 2 == fold]
        others = [r for r, d in zip(records, days, strict=True) if d % 2 != fold]
        chosen = fc.optimize(fc.read_log(log_table(others)), judge=None, **asked)
        new = [r for r in chosen.policy.table.to_pylist() if r["changed"]]
        assert new
        policy = fc.Lists(pa.Table.from_pylist(new), items=[f"item_{k + 1}" for k in range(K)])
        told = answer(fc.read_log(log_table(held)), policy, "ip", METRIC, missing="production")
        total += told["value"] * len(held)
    assert close(best.value, total / len(records), 1e-9)
    assert best.naive > best.value


@pytest.mark.parametrize("apart", [{}, {"unit": "user"}])
def test_noise_is_worth_nothing(apart: dict[str, Any]):
    """All lists are alike: the naive optimum finds errors, and the honest value says so."""
    rng = np.random.default_rng(3)
    records = [
        Record(
            f"q{i % 20}",
            tuple(rng.permutation(6)[:3].tolist()),
            tuple((rng.random(3) < 0.3).astype(float)),
        )
        for i in range(6000)
    ]
    table = log_table(records, user=[f"u{i}" for i in rng.integers(0, 900, 6000)])
    best = fc.optimize(
        fc.read_log(table, **apart),
        metrics="clicks@3",
        estimators="ip",
        pessimism=0,
        judge="ip",
    )
    (row,) = best.to_dicts()
    assert best.naive > best.production + 0.2
    assert row["low"] < 0.9 < row["high"]
    careful = fc.optimize(fc.read_log(table, **apart), metrics="clicks@3", judge=None)
    assert careful["changed"][0] <= 5


# --- what is asked besides ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def log() -> fc.Log:
    return fc.read_log(log_table(some_records(11)))


@pytest.mark.parametrize("estimator", [LADDER, "ip", "item"])
def test_what_is_pinned_is_there_and_what_is_banned_is_nowhere(
    log: fc.Log,
    estimator: Any,  # noqa: ANN401
):
    logged = sorted({r.items for r in some_records(11) if r.context == "q0"})
    pinned, banned = (
        logged[0][1],
        next(a for a in range(ITEMS) if any(x[1] == logged[0][1] and a not in x for x in logged)),
    )
    best = fc.optimize(
        log,
        estimators=estimator,
        pinned={"context": ["q0"], "item": [pinned], "position": [2]},
        banned={"context": ["q0"], "item": [banned]},
        **PLAIN,
    )
    for items in rows_of(best)["q0"]:
        assert items[1] == pinned
        assert banned not in items
    nowhere = fc.optimize(log, estimators=LADDER, banned=[4], **PLAIN)
    assert not any(4 in items for lists in rows_of(nowhere).values() for items in lists)


@pytest.mark.parametrize("estimator", [LADDER, "ip", "item"])
@pytest.mark.parametrize("change", [0.0, 0.2])
def test_a_first_step_is_no_longer_than_allowed(log: fc.Log, estimator: Any, change: float):  # noqa: ANN401
    best = fc.optimize(log, estimators=estimator, max_change=change, **PLAIN)
    records = some_records(11)
    for context, lists in rows_of(best).items():
        mine = [r for r in records if r.context == context]
        shown = marginals(
            {a: sum(r.items == a for r in mine) / len(mine) for a in {r.items for r in mine}}
        )
        moved = np.maximum(marginals(lists) - shown, 0).sum() / K
        assert moved <= change + 1e-8
    if change:
        assert best.naive > best.production


def test_production_stays_where_nothing_is_sure():
    rng = np.random.default_rng(1)
    lists = [(1, 2), (2, 1)]
    sure = [Record("sure", lists[i % 2], (float(i % 2), 0.0)) for i in range(400)]
    unsure = [
        Record("unsure", lists[i % 2], tuple((rng.random(2) < 0.3).astype(float)))
        for i in range(400)
    ]
    log = fc.read_log(log_table(sure + unsure))
    best = fc.optimize(log, metrics="clicks@1")
    rows = {row["context"]: row for row in best.contexts.to_pylist()}
    assert (rows["sure"]["why"], rows["unsure"]["why"]) == ("changed", "nothing sure")
    assert best["changed"] == [1]
    assert rows_of(best)["sure"] == {(2,): 1.0}
    assert rows_of(best)["unsure"] == {(1,): 0.5, (2,): 0.5}
    assert fc.optimize(log, metrics="clicks@1", pessimism=0, judge=None)["changed"] == [2]


def test_what_only_the_whole_log_is_sure_of_has_no_honest_value():
    """Some gain by all records, none by half of them: then nothing was shown to be gained."""
    lists = [(1, 2), (2, 1)]
    records = [Record("q", lists[i % 2], (float(i % 20 in (1, 3, 5, 2)), 0.0)) for i in range(200)]
    log = fc.read_log(log_table(records))
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
    log = fc.read_log(log_table(records))
    asked: dict[str, Any] = {"metrics": "clicks@2", "judge": None, "pessimism": 5}
    assert fc.optimize(log, **asked)["changed"] == [0]
    constraints: list[dict[str, Any]] = [
        {"banned": ["2"]},
        {"pinned": {"context": ["q"], "item": [2], "position": [1]}},
    ]
    for one in constraints:
        assert fc.optimize(log, **asked, **one)["changed"] == [1]
    assert all(2 not in items for items in rows_of(fc.optimize(log, **asked, banned=[2]))["q"])


# --- the same everywhere --------------------------------------------------------------------------


def test_a_policy_of_several_parts_is_the_same(monkeypatch: pytest.MonkeyPatch):
    table = log_table(some_records(15, contexts=7, records=80))
    first = fc.optimize(fc.read_log(table), metrics=METRIC)
    monkeypatch.setattr(counts, "SLOTS", 8)
    again = fc.optimize(fc.read_log(table), metrics=METRIC)
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
