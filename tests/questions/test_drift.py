"""Logs whose click rates change over their periods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.inference import excess
from foreclick.learn.trend import drift_of

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


P = np.array([1.0, 0.6])


def slots(seed: int, days: int, rate: Any) -> tuple[list[Any], fc.Tally]:  # noqa: ANN401
    """Lists of two of four items; the rate of an item is a function of context, item and day."""
    rng = np.random.default_rng(seed)
    shown = [
        (f"q{rng.integers(3)}", rng.permutation(4)[:2].tolist(), int(rng.integers(days)))
        for _ in range(6000)
    ]
    clicks = [
        [int(rng.random() < rate(x, item, day) * P[k]) for k, item in enumerate(items)]
        for x, items, day in shown
    ]
    columns = {
        "context": [x for x, _, _ in shown],
        "items": [items for _, items, _ in shown],
        "clicks": clicks,
        "day": [day for _, _, day in shown],
    }
    rows = [(*row, own) for row, own in zip(shown, clicks, strict=True)]
    return rows, fc.tally(fc.read_log(columns, period="day"))


def test_a_drift_is_that_of_a_loop_over_items():
    """Scores, information and what is left over, of every item of a context by itself."""
    rows, tally = slots(61_004, 8, lambda _, item, day: 0.4 * 1.1 ** ((day - 4) * (-1) ** item))
    scores, scores_of = [], []
    for context in ("q0", "q1", "q2"):
        for item in range(4):
            e, w, t = np.array(
                [
                    (P[k], own[k], day)
                    for x, items, day, own in rows
                    for k in range(2)
                    if x == context and items[k] == item
                ]
            ).T
            mean = (e * t).sum() / e.sum()
            scores.append(((t - mean) * w).sum())
            scores_of.append(w.sum() / e.sum() * (e * (t - mean) ** 2).sum())
    s, i = np.array(scores), np.array(scores_of)
    common = s.sum() / i.sum()
    spread, z = excess(float(((s - common * i) ** 2).sum()), float(i.sum()), float(i @ i))
    found = drift_of(batches_of(tally), "clicks", P)
    assert z > 3
    assert found.spread == pytest.approx(spread, rel=1e-9)
    assert found.spread == pytest.approx(np.log(1.1), rel=0.3)
    assert (found.common, found.ahead) == (0, 3.5)


@pytest.mark.parametrize("days", [2, 8])
def test_chance_is_no_drift(days: int):
    _, tally = slots(61_008, days, lambda _, item, __: 0.2 + 0.1 * item)
    found = drift_of(batches_of(tally), "clicks", P)
    assert (found.common, found.spread, found.notes()) == (0, 0, [])


LISTS = {"context": list(range(CONTEXTS)), "items": [list(range(K))] * CONTEXTS}


def test_an_evaluation_says_that_items_change():
    """And that its interval does not allow for it."""
    world = Drifting(61_006, each=True, follows=True)
    found = fc.evaluate(world.log, LISTS, metrics=f"dcg@{K}", estimators="ladder")
    (note,) = [note for note in found.notes if "each its own way" in note]
    assert "the intervals do not allow for what it may be at the end of the log" in note
    compared = fc.compare(world.log, {"new": LISTS}, metrics=f"dcg@{K}", estimators="ladder")
    assert note in compared.notes
    assert compared["low"] == pytest.approx(found["change_low"], rel=1e-9)
    plain = fc.evaluate(world.log, LISTS, metrics=f"dcg@{K}", estimators="ip")
    assert not any("each its own way" in note for note in plain.notes)
