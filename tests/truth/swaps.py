"""How much positions are examined, the slow way: whole records, loops, and no cleverness.

Written from the formulas: w ~ Poisson(n μ_xa p_k), maximised in turn over μ and p until nothing
moves; errors from the joint model of p
and every μ, and from logs in which one cluster counts a little more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Slot(NamedTuple):
    """A slot that was filled n times and clicked w times."""

    context: object
    item: object
    position: int
    n: float
    w: float
    cluster: object = None


Counts = Mapping[tuple[object, object], tuple[Floats, Floats]]


def counts_of(
    slots: Iterable[Slot], depth: int
) -> dict[tuple[object, object], tuple[Floats, Floats]]:
    """(context, item) → n and w by position; of items that stood at two or more, with clicks."""
    found: dict[tuple[object, object], tuple[Floats, Floats]] = {}
    for slot in slots:
        if slot.position <= depth:
            n, w = found.setdefault((slot.context, slot.item), (np.zeros(depth), np.zeros(depth)))
            n[slot.position - 1] += slot.n
            w[slot.position - 1] += slot.w
    return {pair: (n, w) for pair, (n, w) in found.items() if (n > 0).sum() > 1 and w.sum() > 0}


def alternating(counts: Counts, depth: int, passes: int = 200_000) -> Floats:
    """p by maximum likelihood, p_1 = 1; every position must be connected."""
    n = np.array([n for n, _ in counts.values()])
    w = np.array([w for _, w in counts.values()])
    p = np.ones(depth)
    for _ in range(passes):
        mu = w.sum(axis=1) / (n @ p)
        new = w.sum(axis=0) / (mu @ n)
        new /= new[0]
        if np.abs(np.log(new / p)).max() < 1e-15:
            break
        p = new
    return p


def joint_covariance(counts: Counts, p: Floats) -> Floats:
    """Of log p_2 …: that part of the inverse information about log p_2 … and every log μ."""
    pairs, depth = list(counts.values()), len(p)
    free = depth - 1
    information = np.zeros((free + len(pairs), free + len(pairs)))
    for i, (n, w) in enumerate(pairs):
        mean = n * p * w.sum() / (n @ p)
        for k in range(depth):
            unit = np.zeros(free + len(pairs))
            unit[free + i] = 1.0
            if k:
                unit[k - 1] = 1.0
            information += mean[k] * np.outer(unit, unit)
    return np.asarray(np.linalg.inv(information)[:free, :free], dtype=np.float64)


def moved_by(slots: Sequence[Slot], depth: int, method: object, step: float = 1e-4) -> Floats:
    """How log p moves with the weight of each cluster, [cluster, position], by differences."""
    clusters = sorted({slot.cluster for slot in slots}, key=str)
    found = []
    for cluster in clusters:
        ends = []
        for sign in (1, -1):
            heavy = [
                s._replace(n=s.n * (1 + sign * step), w=s.w * (1 + sign * step))
                if s.cluster == cluster
                else s
                for s in slots
            ]
            ends.append(np.log(method(counts_of(heavy, depth), depth)))  # type: ignore[operator]
        found.append((ends[0] - ends[1]) / (2 * step))
    return np.array(found)
