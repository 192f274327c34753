"""`optimize` where click rates change over the periods of a log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.estimators.trend import item_trends

K, CONTEXTS, ITEMS, DAYS, RECORDS = 5, 30, 8, 14, 800
THETA = 1 / np.log2(np.arange(2, K + 2))
EXAMINED = 1 / np.arange(1, K + 1) ** 0.7


class Drifting:
    """Items whose attraction changes by 5 % a day, and a ranker that sorts by that of the day."""

    def __init__(self, seed: int, *, each: bool, follows: bool) -> None:
        rng = np.random.default_rng(seed)
        time = np.arange(DAYS) - (DAYS - 1) / 2
        sign = rng.choice([-1, 1], (CONTEXTS, ITEMS)) if each else np.ones((CONTEXTS, ITEMS))
        start = 0.03 + 0.45 * rng.beta(0.8, 1.6, (CONTEXTS, ITEMS))
        self.attraction = start[:, :, None] * 1.05 ** (sign[:, :, None] * time)
        score = np.log(self.attraction if follows else self.attraction[:, :, [DAYS // 2]])
        score = score + 0.5 * rng.standard_normal((CONTEXTS, ITEMS, 1)) + np.zeros(DAYS)
        context = np.repeat(np.arange(CONTEXTS), RECORDS)
        day = rng.integers(0, DAYS, len(context))
        lists = np.argsort(-score, axis=1)[context, :, day]
        row = np.flatnonzero(rng.random(len(lists)) < 0.1)
        i = rng.integers(0, K, len(row))
        j = (i + 1 + rng.integers(0, ITEMS - 1, len(row))) % ITEMS
        lists[row, i], lists[row, j] = lists[row, j], lists[row, i]
        lists = lists[:, :K]
        rates = self.attraction[context[:, None], lists, day[:, None]] * EXAMINED
        clicks = (rng.random(rates.shape) < rates).astype(np.int8)
        columns: dict[str, Any] = {
            "context": context,
            "items": list(lists),
            "clicks": list(clicks),
            "day": day,
        }
        self.log = fc.read_log(pa.table(columns), period="day")

    def value(self, best: fc.Optimized, day: int | None = None) -> float:
        """What a policy is worth on a day, or on average."""
        rates = self.attraction.mean(axis=2) if day is None else self.attraction[:, :, day]
        found = 0.0
        for row in best.policy.table.to_pylist():
            items = [row[f"item_{k + 1}"] for k in range(K)]
            worth = float(rates[row["context"], items] * EXAMINED @ THETA)
            found += row["probability"] * worth / CONTEXTS
        return found


@pytest.mark.parametrize("seed", [61_001, 61_002])
def test_a_ranker_that_follows_trends_of_items_does_not_flatter_what_is_chosen(seed: int):
    """Items stood at the top on their good days: the honest value was 15 % too high."""
    world = Drifting(seed, each=True, follows=True)
    best = fc.optimize(world.log, metric=f"dcg@{K}")
    truth = world.value(best)
    assert best.value == pytest.approx(truth, rel=0.06)
    assert best["low"][0] is None or best["low"][0] <= truth <= best["high"][0]
    assert any("each its own way" in note for note in best.notes)


def test_a_trend_of_all_items_is_said_and_the_interval_reaches_the_end_of_the_log():
    world = Drifting(61_003, each=False, follows=False)
    best = fc.optimize(world.log, metric=f"dcg@{K}")
    assert best["verdict"] == ["better"]
    assert best["low"][0] <= world.value(best, DAYS - 1) <= best["high"][0]
    assert any("rise by 5." in note or "rise by 4." in note for note in best.notes)


def test_sums_of_a_trend_are_those_of_a_loop_over_slots():
    rng = np.random.default_rng(61_004)
    slots = [
        (f"q{rng.integers(3)}", [*rng.permutation(4)[:2].tolist()], int(rng.integers(5)))
        for _ in range(300)
    ]
    clicks = rng.integers(0, 2, (300, 2))
    log = fc.read_log(
        {
            "context": [s[0] for s in slots],
            "items": [s[1] for s in slots],
            "clicks": clicks.tolist(),
            "day": [s[2] for s in slots],
        },
        period="day",
    )
    p = np.array([1.0, 0.6])
    expected = np.zeros(5)
    for context in ("q0", "q1", "q2"):
        for item in range(4):
            mine = [
                (p[k], float(clicks[i, k]), day)
                for i, (x, items, day) in enumerate(slots)
                for k in range(2)
                if x == context and items[k] == item
            ]
            e, w, t = np.array(mine).T
            mean = (e * t).sum() / e.sum()
            score = ((t - mean) * w).sum()
            information = w.sum() / e.sum() * (e * (t - mean) ** 2).sum()
            s, i = float(score), float(information)
            expected += [s, i, s * s, s * i, i * i]
    found = item_trends(batches_of(fc.tally(log)), "clicks", p)
    assert found is not None
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-10)


@pytest.mark.parametrize(("each", "said"), [(True, True), (False, False)])
def test_an_evaluation_says_that_items_change(each: bool, said: bool):
    world = Drifting(61_005, each=each, follows=True)
    lists = {"context": list(range(CONTEXTS)), "items": [list(range(K))] * CONTEXTS}
    found = fc.evaluate(world.log, lists, metrics=f"dcg@{K}")
    assert any("each its own way" in note for note in found.notes) == said
