"""Intervals where the click rates of items change over time, each its own way: `make trends`.

Rates change by so much a day, up or down, and production shows what was best in the middle of the
log, or follows the change. How often the interval of `evaluate` holds the candidate's value on the
last day, and its change against what production showed on average, with and without the allowance.

python -m benchmarks.trends --logs 60 --seed 1
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import foreclick as fc

POSITIONS, CONTEXTS, ITEMS, DAYS, RECORDS = 5, 30, 8, 14, 800
EVALUATE = "foreclick.analysis.evaluate"
METRIC = f"dcg@{POSITIONS}"
THETA = np.array(fc.Metric(METRIC).theta)
EXAMINED = 1 / np.arange(1, POSITIONS + 1) ** 0.7

Floats = NDArray[np.float64]


class Scene:
    """A world, its log, and a candidate: other lists of the same items.

    Args:
        seed: of all of it.
        trend: by how much the log of a rate changes a day, as a standard deviation over items.
        follows: whether production sorts by the rates of the day.
    """

    def __init__(self, seed: int, trend: float, *, follows: bool) -> None:
        rng = np.random.default_rng(seed)
        shape, time = (CONTEXTS, ITEMS), np.arange(DAYS) - (DAYS - 1) / 2
        start = 0.03 + 0.3 * rng.beta(0.8, 1.6, shape)
        slope = trend * rng.standard_normal(shape)
        self.rates = np.minimum(start[:, :, None] * np.exp(slope[:, :, None] * time), 1.0)
        score = np.log(self.rates if follows else self.rates[:, :, [DAYS // 2]])
        score = score + 0.5 * rng.standard_normal((*shape, 1)) + np.zeros(DAYS)
        context = np.repeat(np.arange(CONTEXTS), RECORDS)
        day = rng.integers(0, DAYS, len(context))
        lists = np.argsort(-score, axis=1)[context, :, day]
        row = np.flatnonzero(rng.random(len(lists)) < 0.3)
        i = rng.integers(0, POSITIONS, len(row))
        j = (i + 1 + rng.integers(0, ITEMS - 1, len(row))) % ITEMS
        lists[row, i], lists[row, j] = lists[row, j], lists[row, i]
        self.context, self.lists = context, lists[:, :POSITIONS]
        mean = self.rates[context[:, None], self.lists, day[:, None]] * EXAMINED
        clicks = (rng.random(mean.shape) < mean).astype(np.int8)
        columns = {"context": context, "items": list(self.lists), "clicks": list(clicks)}
        self.log = fc.read_log(pa.table(columns | {"day": day}), period="day")
        self.items = np.argsort(-start + 0.1 * rng.standard_normal(shape), axis=1)[:, :POSITIONS]

    @property
    def candidate(self) -> fc.Ranking:
        """One list for each context."""
        return fc.Ranking({"context": np.arange(CONTEXTS), "items": self.items.tolist()})

    def truth(self) -> tuple[float, float]:
        """The candidate's value on the last day, and how much more that is than production's."""
        end = self.rates[:, :, -1]
        value = (end[np.arange(CONTEXTS)[:, None], self.items] * EXAMINED @ THETA).mean()
        own = (end[self.context[:, None], self.lists] * EXAMINED @ THETA).mean()
        return float(value), float(value - own)


def held(scene: Scene, *, allowing: bool) -> tuple[bool, bool, bool, float]:
    """Whether trends are noted, whether value and change are held, and the width of the change."""
    if allowing:
        (row, *_), notes = _asked(scene)
    else:
        with (
            patch(f"{EVALUATE}.with_drift", lambda _, __, found: (found, [])),
            patch(f"{EVALUATE}.within_periods", lambda _, estimators, __: estimators),
        ):
            (row, *_), notes = _asked(scene)
    value, change = scene.truth()
    return (
        any("each its own way" in note for note in notes),
        row["low"] <= value <= row["high"],
        row["change_low"] <= change <= row["change_high"],
        (row["change_high"] - row["change_low"]) / row["production"],
    )


def _asked(scene: Scene) -> tuple[list[dict[str, float]], tuple[str, ...]]:
    found = fc.evaluate(scene.log, scene.candidate, metrics=METRIC)
    return found.to_dicts(), found.notes  # type: ignore[return-value]


def table(seed: int, logs: int) -> Iterator[str]:
    """A line for each kind of world."""
    yield "| change a day | ranker | allowed for | noted | value held | change held | width |"
    yield "|---|---|---|---|---|---|---|"
    for trend in (0.0, 0.02, 0.05):
        for follows in (False, True):
            scenes = [Scene(seed + i, trend, follows=follows) for i in range(logs)]
            for allowing in (False, True):
                found = np.mean([held(scene, allowing=allowing) for scene in scenes], axis=0)
                noted, value, change, width = found
                words = "follows" if follows else "stays", "yes" if allowing else "no"
                yield (
                    f"| {trend:.0%} | {words[0]} | {words[1]} | {noted:.0%} | {value:.0%} | "
                    f"{change:.0%} | {width:.1%} |"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=7_200_000)
    options = parser.parse_args()
    for line in table(options.seed, options.logs):
        print(line, flush=True)
