"""`optimize` on logs that hardly explored: where examination is a guess, production stays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.optimization.result import Optimized

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

    def value(self, best: Optimized) -> np.ndarray:
        """Shape (CONTEXTS,): what a policy is truly worth in each."""
        found = np.zeros(CONTEXTS)
        for row in best.policy.table.to_pylist():
            items = [row[f"item_{k + 1}"] for k in range(K)]
            rates = self.attraction[row["context"], items] * EXAMINED
            found[row["context"]] += row["probability"] * float(rates @ THETA)
        return found


@pytest.mark.parametrize("swaps", [0.0, 0.005])
@pytest.mark.parametrize(("noise", "seed"), [(0.0, 88_001), (0.5, 88_001), (0.5, 88_002)])
def test_it_harms_no_context_of_a_log_that_hardly_explored(seed: int, noise: float, swaps: float):
    world = World(seed, noise=noise, swaps=swaps)
    best = fc.optimize(world.log, metrics=f"dcg@{K}")
    value = world.value(best)
    assert (value >= 0.98 * world.production).all()
    assert best["verdict"][0] != "better" or value.mean() > world.production.mean()
    if best["low"][0] is not None:
        assert best["low"][0] <= value.mean() <= best["high"][0]


def test_a_log_that_explored_is_still_optimised():
    world = World(88_004, noise=0.5, swaps=0.1)
    best = fc.optimize(world.log, metrics=f"dcg@{K}")
    value = world.value(best)
    assert best["verdict"] == ["better"]
    assert value.mean() > 1.02 * world.production.mean()
    assert best["low"][0] <= value.mean() <= best["high"][0] * 1.02


def test_a_known_examination_has_no_errors():
    world = World(88_004, noise=0.5, swaps=0.005)
    known = fc.Ladder("ip", examination=tuple(EXAMINED))
    learnt, given = (
        fc.optimize(world.log, metrics=f"dcg@{K}", estimators=e, judge=None)
        for e in ("ladder-ip", known)
    )
    assert given["changed"][0] > learnt["changed"][0]
