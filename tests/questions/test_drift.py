"""Logs whose click rates change over their periods."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.estimators import Question
from foreclick.estimators.trend import drift_covariance, item_trends

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


def test_optimize_says_how_click_rates_change():
    for each, said in ((True, "each its own way"), (False, "all items alike")):
        world = Drifting(61_003, each=each, follows=False)
        best = fc.optimize(world.log, metric=f"dcg@{K}")
        assert sum(said in note for note in best.notes) == 1


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

    def records(self, context: str) -> int:
        return sum(x == context for x, _, _ in self.slots)

    def late(self, context: str, item: int, k: int) -> float:
        """How far a slot's mean day is from that of its context, beyond chance."""
        every = np.array([day for x, _, day in self.slots if x == context])
        at, _, _, t = self.of(context, item)
        own = t[at == k]
        away = (own.mean() - every.mean()) ** 2 - every.var() / len(own)
        return float(np.sqrt(max(away, 0.0)))

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


@pytest.mark.parametrize("missing", ["production", "drop"])
def test_the_way_to_the_end_of_the_log_is_that_of_a_loop_over_items(
    missing: Literal["production", "drop"],
):
    """Slopes drawn from a normal distribution, by Gauss and Hermite; q2 has no list."""
    shown, metric, spread = Shown(), fc.Metric([1.0, 0.4]), 0.2
    lists = {"q0": [3, 1], "q1": [0, 7]}
    node, weight = np.polynomial.hermite_e.hermegauss(40)
    expected, same = np.zeros((2, 2)), 0.0
    for context, item in PAIRS:
        k, e, w, t = shown.of(context, item)
        f = v = float((np.array(metric.theta)[k.astype(int)] * w).sum())
        if context in lists:
            at = [j for j in range(2) if lists[context][j] == item]
            own = sum(metric.theta[j] * P[j] for j in at) * w.sum() / e.sum()
            v = shown.records(context) * own
        elif missing == "drop":
            continue
        way = 4 - (e * t).sum() / e.sum()
        off = (weight @ (np.exp(spread * node * way) - 1) ** 2) / weight.sum()
        expected += np.outer([v, f], [v, f]) * off
        if context in lists:
            same += v * spread * sum(shown.late(context, item, j) for j in at)
    expected[0, 0] += (same / 2) ** 2
    candidate = fc.Ranking({"context": list(lists), "items": list(lists.values())})
    ladder = fc.Ladder("ip", [3.0, 2.0, 1.0], P.tolist())
    question = Question(candidate, [ladder], [metric], missing=missing, clusters=("period",))
    found = drift_covariance(shown.tally, question, metric, P, spread)
    assert found[0] == pytest.approx(expected, rel=1e-9)


LISTS = {"context": list(range(CONTEXTS)), "items": [list(range(K))] * CONTEXTS}


def test_an_evaluation_says_nothing_of_items_that_change_alike():
    world = Drifting(61_005, each=False, follows=True)
    found = fc.evaluate(world.log, LISTS, metrics=f"dcg@{K}", estimators="ladder")
    assert not any("each its own way" in note for note in found.notes)


def test_an_evaluation_says_that_items_change_and_reaches_the_end_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
):
    """Without an allowance, the interval is too high for a value that is a fifth too high."""
    world = Drifting(61_006, each=True, follows=True)
    end = float((world.attraction[:, :K, -1] * EXAMINED @ THETA).mean())
    asked: Any = {"metrics": f"dcg@{K}", "estimators": "ladder"}
    found = fc.evaluate(world.log, LISTS, **asked)
    assert any("each its own way" in note for note in found.notes)
    assert found["low"][0] <= end <= found["high"][0]
    compared = fc.compare(world.log, {"new": LISTS}, metric=f"dcg@{K}", estimator="ladder")
    assert compared["low"] == pytest.approx(found["change_low"], rel=1e-9)
    assert compared["high"] == pytest.approx(found["change_high"], rel=1e-9)
    verb = "foreclick.analysis.evaluate"
    monkeypatch.setattr(f"{verb}.within_periods", lambda _, estimators, __: estimators)
    monkeypatch.setattr(f"{verb}.with_drift", lambda _, __, sums: (sums, []))
    without = fc.evaluate(world.log, LISTS, **asked)
    assert end < without["low"][0]
