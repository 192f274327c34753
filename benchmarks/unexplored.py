"""What `optimize` does with logs that hardly explored: does it harm, and does its interval hold?

Position-based clicks on lists of five of eight items, which a ranker sorted by attraction, with or
without noise, and which never changed, or in which one list in two hundred had an item exchanged.
Nothing in such a log, or next to nothing, tells examination from attraction.

    python -m benchmarks unexplored --seed 66120000
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

import foreclick as fc
from benchmarks.study import Column, Row, Rows, study, total
from benchmarks.worlds import clicked

POSITIONS, ITEMS, CONTEXTS, RECORDS, DAYS = 5, 8, 40, 1_000, 14
THETA = 1 / np.log2(np.arange(2, POSITIONS + 2))
EXAMINED = 1 / np.arange(1, POSITIONS + 1) ** 0.7
HARM = 0.02

CASES: dict[str, tuple[float, float, int]] = {
    "never explored, sorted": (0.0, 0.0, 10),
    "never explored, with noise": (0.5, 0.0, 10),
    ".5 % of lists with a swap, sorted": (0.0, 0.005, 20),
    ".5 % of lists with a swap, with noise": (0.5, 0.005, 20),
}
"""Noise of the ranker, share of lists with a swap, and how many logs are drawn."""


def one_log(seed: int, noise: float, swaps: float) -> Row:
    """Draw a log, optimise, and compare with the truth.

    *Changed* contexts have a new policy, *harmed* ones lose more than `HARM` of production; *gain*
    is what the policy truly adds, as a share of production; *judged*: there is an interval; *held*:
    the truth is in it.
    """
    rng = np.random.default_rng(seed)
    attraction = 0.03 + 0.55 * rng.beta(0.8, 1.6, (CONTEXTS, ITEMS))
    score = np.log(attraction) + noise * rng.standard_normal(attraction.shape)
    context = np.repeat(np.arange(CONTEXTS), RECORDS)
    lists = np.argsort(-score, axis=1)[context]
    day = rng.integers(0, DAYS, len(context))
    if swaps:
        row = np.flatnonzero(rng.random(len(context)) < swaps)
        i = rng.integers(0, POSITIONS, len(context))[row]
        other = 1 + rng.integers(0, ITEMS - 1, len(context))[row]
        j = (i + other) % ITEMS
        lists[row, i], lists[row, j] = lists[row, j], lists[row, i]
    lists = lists[:, :POSITIONS]
    rates = attraction[context[:, None], lists] * EXAMINED
    log = fc.read_log(clicked(context, lists, rates, rng, day=day), period="day")
    best = fc.optimize(log, metrics=f"dcg@{POSITIONS}")
    production = np.bincount(context, rates @ THETA, CONTEXTS) / RECORDS
    value = np.zeros(CONTEXTS)
    for row_ in best.policy.table.to_pylist():
        x, items = row_["context"], [row_[f"item_{k + 1}"] for k in range(POSITIONS)]
        value[x] += row_["probability"] * float(attraction[x, items] * EXAMINED @ THETA)
    low, high = best["low"][0], best["high"][0]
    return {
        "changed": best["changed"][0],
        "harmed": int(np.sum(value < (1 - HARM) * production)),
        "gain": float(value.sum() / production.sum() - 1),
        "judged": low is not None,
        "held": low is not None and low <= value.mean() <= high,
        "verdict": best["verdict"][0],
    }


def verdicts(rows: Rows) -> str:
    """How often each verdict was given, where there is an interval."""
    said = Counter(row["verdict"] for row in rows if row["judged"])
    return ", ".join(f"{word} {count}" for word, count in sorted(said.items())) or "–"


@study(
    "unexplored",
    ["log"],
    "logs, changed contexts a log=changed:.1f",
    *map(total, ("harmed", "judged", "held")),
    Column("verdicts", verdicts),
    cases=list(CASES),
)
def unexplored(case: str, seed: int = 66_120_000) -> Iterator[Row]:
    """What `optimize` does with logs that hardly explored."""
    noise, swaps, logs = CASES[case]
    return ({"log": case} | one_log(seed + n, noise, swaps) for n in range(logs))
