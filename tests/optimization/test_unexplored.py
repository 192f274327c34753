"""`optimize` on logs that hardly explored: where examination is a guess, production stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick import Evaluation
from foreclick.inference import Evidence
from foreclick.optimization.result import widened
from foreclick.results import Value

K, CONTEXTS, ITEMS, DAYS = 5, 30, 8, 14
THETA = 1 / np.log2(np.arange(2, K + 2))
EXAMINED = 1 / np.arange(1, K + 1) ** 0.7


class World:
    """Position-based clicks on lists that a ranker with some noise sorted, now and then swapped."""

    def __init__(self, seed: int, *, noise: float, swaps: float, records: int = 800) -> None:
        rng = np.random.default_rng(seed)
        self.attraction = 0.03 + 0.55 * rng.beta(0.8, 1.6, (CONTEXTS, ITEMS))
        score = np.log(self.attraction) + noise * rng.standard_normal(self.attraction.shape)
        context = np.repeat(np.arange(CONTEXTS), records)
        lists = np.argsort(-score, axis=1)[context]
        row = np.flatnonzero(rng.random(len(lists)) < swaps)
        i = rng.integers(0, K, len(row))
        j = (i + 1 + rng.integers(0, ITEMS - 1, len(row))) % ITEMS
        lists[row, i], lists[row, j] = lists[row, j], lists[row, i]
        lists = lists[:, :K]
        rates = self.attraction[context[:, None], lists] * EXAMINED
        self.production = (rates @ THETA).reshape(CONTEXTS, -1).mean(axis=1)
        clicks = (rng.random(rates.shape) < rates).astype(np.int8)
        day = rng.integers(0, DAYS, len(context))
        columns = {"context": context, "items": list(lists), "clicks": list(clicks), "day": day}
        self.log = fc.read_log(pa.table({k: pa.array(v) for k, v in columns.items()}), period="day")

    def value(self, best: fc.Optimized) -> np.ndarray:
        """Shape (CONTEXTS,): what a policy is truly worth in each."""
        found = np.zeros(CONTEXTS)
        for row in best.policy.table.to_pylist():
            items = [row[f"item_{k + 1}"] for k in range(K)]
            rates = self.attraction[row["context"], items] * EXAMINED
            found[row["context"]] += row["probability"] * float(rates @ THETA)
        return found


@pytest.mark.parametrize("swaps", [0.0, 0.005])
@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("seed", [88_001, 88_002])
def test_it_harms_no_context_of_a_log_that_hardly_explored(seed: int, noise: float, swaps: float):
    world = World(seed, noise=noise, swaps=swaps)
    best = fc.optimize(world.log, metric=f"dcg@{K}")
    value = world.value(best)
    assert (value >= 0.98 * world.production).all()
    assert best["verdict"][0] != "better" or value.mean() > world.production.mean()
    if best["low"][0] is not None:
        assert best["low"][0] <= value.mean() <= best["high"][0]


def test_nothing_is_changed_where_no_item_ever_moved():
    best = fc.optimize(World(88_003, noise=0.5, swaps=0.0).log, metric=f"dcg@{K}")
    assert best["changed"] == [0]


def test_a_log_that_explored_is_still_optimised():
    world = World(88_004, noise=0.5, swaps=0.1)
    best = fc.optimize(world.log, metric=f"dcg@{K}")
    value = world.value(best)
    assert best["verdict"] == ["better"]
    assert value.mean() > 1.02 * world.production.mean()
    assert best["low"][0] <= value.mean() <= best["high"][0] * 1.02
    assert any("standard error" in note for note in best.notes)


def test_a_known_examination_has_no_errors():
    world = World(88_004, noise=0.5, swaps=0.005)
    known = fc.Ladder("ip", examination=tuple(EXAMINED))
    learnt, given = (
        fc.optimize(world.log, metric=f"dcg@{K}", estimator=e, folds=1)
        for e in ("ladder-ip", known)
    )
    assert given["changed"][0] > learnt["changed"][0]


# --- wider intervals ------------------------------------------------------------------------------

ROW: dict[str, Value] = {
    "estimator": "ladder",
    "metric": "dcg@5",
    "value": 1.1,
    "se": 0.03,
    "low": 1.04,
    "high": 1.16,
    "margin": 0.0,
    "production": 1.0,
    "change": 0.1,
    "change_low": 0.02,
    "change_high": 0.18,
    "lift": 0.1,
    "lift_low": 0.02,
    "lift_high": 0.18,
    "covered": 1.0,
    "verdict": "better",
}


SEEN = Evidence("ladder", "dcg@5", 0.1, 0.02, 0.18, 0.0, 0.0, 1.0, 1.0, 0.9, assumes=False)


def judged_so(*notes: str, seen: Evidence = SEEN, **row: Value) -> Evaluation:
    return Evaluation((ROW | row,), tuple(ROW), notes, evidence=(seen,))


def test_an_independent_error_adds_to_every_interval():
    judged = judged_so("Better: as it was.")
    found = widened(judged, 0.04, "a reason").to_dicts()[0]
    assert found["se"] == pytest.approx(0.05)
    assert (found["low"], found["high"]) == pytest.approx((1.0, 1.2))
    # The change reached .08, and .04 more standard errors reach as far: √2 × .08.
    assert found["change_low"] == pytest.approx(0.1 - 0.08 * 2**0.5)
    assert found["lift_high"] == pytest.approx(0.1 + 0.08 * 2**0.5)


def test_a_verdict_falls_if_the_wider_interval_leaves_it_open():
    judged = judged_so("Better: as it was.", "more")
    wide = widened(judged, 0.04, "a reason")
    assert wide["verdict"] == ["cannot tell"]
    assert wide.notes[0].startswith("Cannot tell: ")
    assert wide.notes[1:] == ("more", "a reason")
    assert widened(judged, 0.001, "a reason")["verdict"] == ["better"]
    assert widened(judged, 0.0, "a reason") is judged


def test_a_wider_verdict_has_the_confidence_that_was_asked_for_and_knows_what_is_new():
    better = widened(judged_so("Better: as it was."), 0.001, "a reason")
    assert "90% confidence" in better.notes[0]
    assert better.evidence[0].high == better["change_high"][0]
    ends: dict[str, Value] = {"change": -0.1, "change_low": -0.18, "change_high": -0.02}
    fallen = replace(SEEN, change=-0.1, low=-0.18, high=-0.02)
    for beyond, word in ((0.0, "worse"), (0.05, "cannot tell")):
        judged = judged_so(seen=replace(fallen, beyond=beyond), verdict="worse", **ends)
        assert widened(judged, 0.001, "a reason")["verdict"] == [word]
