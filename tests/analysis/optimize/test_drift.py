"""Notes where click rates change over the periods of a log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.estimators.trend import item_trends

K, CONTEXTS, ITEMS, DAYS, RECORDS = 5, 30, 8, 14, 800
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


def test_trends_of_items_are_said():
    best = fc.optimize(Drifting(61_001, each=True, follows=True).log, metric=f"dcg@{K}")
    assert sum("each its own way" in note for note in best.notes) == 1


def test_a_trend_of_all_items_is_said():
    best = fc.optimize(Drifting(61_003, each=False, follows=False).log, metric=f"dcg@{K}")
    assert any("rise by 5." in note or "rise by 4." in note for note in best.notes)


class Shown:
    """Three hundred lists of two items, and what each item of a context has of them, by a loop."""

    def __init__(self) -> None:
        rng = np.random.default_rng(61_004)
        self.slots = [
            (f"q{rng.integers(3)}", [*rng.permutation(4)[:2].tolist()], int(rng.integers(5)))
            for _ in range(300)
        ]
        self.clicks = rng.integers(0, 2, (300, 2))
        columns = {
            "context": [s[0] for s in self.slots],
            "items": [s[1] for s in self.slots],
            "clicks": self.clicks.tolist(),
            "day": [s[2] for s in self.slots],
        }
        self.tally = fc.tally(fc.read_log(columns, period="day"))

    def of(self, context: str, item: int) -> np.ndarray:
        """Shape (4, slots): the position, its examination, the clicks and the day."""
        mine = [
            (k, P[k], float(self.clicks[i, k]), day)
            for i, (x, items, day) in enumerate(self.slots)
            for k in range(2)
            if x == context and items[k] == item
        ]
        return np.array(mine).T


P = np.array([1.0, 0.6])
PAIRS = [(context, item) for context in ("q0", "q1", "q2") for item in range(4)]


def test_sums_of_a_trend_are_those_of_a_loop_over_slots():
    shown, expected = Shown(), np.zeros(5)
    for context, item in PAIRS:
        _, e, w, t = shown.of(context, item)
        mean = (e * t).sum() / e.sum()
        score = ((t - mean) * w).sum()
        information = w.sum() / e.sum() * (e * (t - mean) ** 2).sum()
        s, i = float(score), float(information)
        expected += [s, i, s * s, s * i, i * i]
    found = item_trends(batches_of(shown.tally), "clicks", P)
    assert found is not None
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-10)


LISTS = {"context": list(range(CONTEXTS)), "items": [list(range(K))] * CONTEXTS}


def test_an_evaluation_says_nothing_of_items_that_change_alike():
    world = Drifting(61_005, each=False, follows=True)
    found = fc.evaluate(world.log, LISTS, metrics=f"dcg@{K}", estimators="ladder")
    assert not any("each its own way" in note for note in found.notes)


def test_an_evaluation_and_a_comparison_say_that_items_change():
    log = Drifting(61_006, each=True, follows=True).log
    found = fc.evaluate(log, LISTS, metrics=f"dcg@{K}", estimators="ladder")
    compared = fc.compare(log, {"new": LISTS}, metric=f"dcg@{K}", estimator="ladder")
    for result in (found, compared):
        assert any("each its own way" in note for note in result.notes)
    assert compared["low"] == pytest.approx(found["change_low"], rel=1e-9)
    assert compared["high"] == pytest.approx(found["change_high"], rel=1e-9)
