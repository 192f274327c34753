"""The oracle of what features say of items: every sum a loop over items, every fold fitted anew."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foreclick.engines import hashed_here

Vector = NDArray[np.float64]
Pair = tuple[Any, Any]
Counts = Mapping[Pair, tuple[float, float]]
"""Records and clicks by context and item."""

FOLDS = 5
RIDGES = [10 ** (j / 2) for j in range(-8, 3)]


def item_fold(item: Any) -> int:  # noqa: ANN401 - of any type
    return hashed_here(f"foreclick item:{item}") % FOLDS


def context_fold(context: Any, contexts: int) -> int:  # noqa: ANN401 - of any type
    return hashed_here(f"foreclick:{context}") % FOLDS if contexts >= 30 else 0


@dataclass(frozen=True)
class Features:
    """What is said of items, given coefficients.

    Attributes:
        table: features by item.
        beta: by fold of the context and of the item.
        contexts: how many contexts it was learnt from.
        limits: the lowest and the highest that may be said.
        spread: the variance of an item never shown, over its expectation.
    """

    table: Mapping[Any, Vector]
    beta: Mapping[tuple[int, int], Vector]
    contexts: int
    limits: tuple[float, float]
    spread: float = 0.0

    def has(self, item: Any) -> bool:  # noqa: ANN401 - of any type
        return item in self.table

    def relative(self, counts: Counts, s: float, more: Iterable[Pair]) -> dict[Pair, float]:
        """e of all items that were shown, and of more."""
        centre = {x: mean for x, (_, mean) in means(counts, self.table, s).items()}
        found = {}
        for x, a in {*counts, *more}:
            if a in self.table and x in centre:
                beta = self.beta[context_fold(x, self.contexts), item_fold(a)]
                e = 1 + float((self.table[a] - centre[x]) @ beta)
                found[x, a] = min(max(e, self.limits[0]), self.limits[1])
        return found


def means(
    counts: Counts, table: Mapping[Any, Vector], s: float, without: int | None = None
) -> dict[Any, tuple[float, Vector]]:
    """The mean rate and the mean features of each context, without a fold of items."""
    n: dict[Any, float] = defaultdict(float)
    c: dict[Any, float] = defaultdict(float)
    f: dict[Any, Any] = defaultdict(float)
    for (x, a), (records, clicks) in counts.items():
        if a in table and item_fold(a) != without:
            share = s / (records + s)
            n[x] += records * share
            c[x] += clicks * share
            f[x] = f[x] + records * share * table[a]
    return {x: (c[x] / n[x], f[x] / n[x]) for x in n}


def normal(
    counts: Counts,
    table: Mapping[Any, Vector],
    s: float,
    without: tuple[int | None, int | None] = (None, None),
) -> tuple[Vector, Vector]:
    """G and b, without a fold of contexts and a fold of items."""
    contexts = len({x for x, a in counts if a in table})
    width = len(next(iter(table.values())))
    gram, gained = np.zeros((width, width)), np.zeros(width)
    mean = means(counts, table, s, without[1])
    for (x, a), (n, c) in counts.items():
        alone = contexts < 30  # then all contexts are one fold, and none is left out
        if a not in table or item_fold(a) == without[1]:
            continue
        if not alone and context_fold(x, contexts) == without[0]:
            continue
        rate, centre = mean[x]
        z = table[a] - centre
        gram += n * s / (n + s) * rate * np.outer(z, z)
        gained += c * s / (n + s) * z
    return gram, gained


@dataclass(frozen=True)
class Learnt:
    """What is learnt from some items."""

    features: Features
    ridge: float
    explained: float
    items: int
    covariance: Vector


def learnt(counts: Counts, table: Mapping[Any, Vector], s: float) -> Learnt:
    """The ridge that predicts held-out items best, and all that follows from it."""
    contexts = len({x for x, a in counts if a in table})
    whole, _ = normal(counts, table, s)
    clicks = sum(c * s / (n + s) for (_, a), (n, c) in counts.items() if a in table)
    scale = np.sqrt(np.diag(whole) / clicks)
    folds = [(f, g) for f in range(FOLDS if contexts >= 30 else 1) for g in range(FOLDS)]
    sums = {fold: normal(counts, table, s, fold) for fold in folds}
    best: Any = None
    for ridge in RIDGES:
        prior = ridge * clicks * np.diag(scale**2)
        beta = {fold: np.linalg.solve(gram + prior, b) for fold, (gram, b) in sums.items()}
        usual = error = expected = 0.0
        items = 0
        for (x, a), (n, c) in counts.items():
            fold = context_fold(x, contexts), item_fold(a)
            mean = means(counts, table, s, fold[1]) if a in table else {}
            if x not in mean or mean[x][0] == 0:
                continue
            e = max(1 + float((table[a] - mean[x][1]) @ beta[fold]), 0.05)
            weight, items = n * s / (n + s), items + 1
            usual += weight * (c / n - mean[x][0]) ** 2
            error += weight * (c / n - mean[x][0] * e) ** 2
            expected += weight * mean[x][0] * e
        if best is None or error < best[0]:
            best = error, usual, expected, items, ridge, beta, prior
    error, usual, expected, items, ridge, beta, prior = best
    free = Features(table, beta, contexts, (-math.inf, math.inf))
    said = list(free.relative(counts, s, ()).values())
    limits = max(min(said), 0.05), max(*said, 1.0)
    features = Features(table, beta, contexts, limits, error / expected)
    covariance = _covariance(counts, table, s, prior, by_context=contexts >= 30)
    return Learnt(features, ridge, 1 - error / usual, items, covariance)


def _covariance(
    counts: Counts, table: Mapping[Any, Vector], s: float, prior: Vector, *, by_context: bool
) -> Vector:
    gram, gained = normal(counts, table, s)
    inverse = np.linalg.inv(gram + prior)
    beta, mean = inverse @ gained, means(counts, table, s)
    score: dict[Any, Any] = defaultdict(float)
    for (x, a), (n, c) in counts.items():
        if a in table:
            z = table[a] - mean[x][1]
            left = c - n * mean[x][0] * (1 + float(z @ beta))
            score[x if by_context else (x, a)] += s / (n + s) * left * z
    middle = sum(np.outer(each, each) for each in [*score.values(), prior @ beta])
    return np.asarray(inverse @ middle @ inverse)
