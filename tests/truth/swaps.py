"""How much positions are examined, the slow way: whole records, loops, and no cleverness.

Written from the formulas: w ~ Poisson(n μ_xa p_k), maximised in turn over μ and p until nothing
moves; errors from the joint model of p and every μ, and from logs in which one cluster counts a
little more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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


def _arrays(counts: Counts) -> tuple[Floats, Floats]:
    """n and w, of shape (pairs, depth)."""
    n, w = np.array([*counts.values()]).transpose(1, 0, 2)
    return n, w


def alternating(counts: Counts, depth: int, passes: int = 200_000) -> Floats:
    """p by maximum likelihood, p_1 = 1; every position must be connected."""
    n, w = _arrays(counts)
    p = np.ones(depth)
    for _ in range(passes):
        mu = w.sum(axis=1) / (n @ p)
        new = w.sum(axis=0) / (mu @ n)
        new /= new[0]
        if np.abs(np.log(new / p)).max() < 1e-14:
            break
        p = new
    return p


def joint_covariance(counts: Counts, p: Floats) -> Floats:
    """Of log p_2 …: that part of the inverse information about log p_2 … and every log μ."""
    n, w = _arrays(counts)
    mean = n * p * (w.sum(axis=1) / (n @ p))[:, None]
    information = np.block([[np.diag(mean.sum(axis=0)), mean.T], [mean, np.diag(mean.sum(axis=1))]])
    inverse = np.linalg.inv(information[1:, 1:])  # p_1 is given
    return np.asarray(inverse[: len(p) - 1, : len(p) - 1], dtype=np.float64)


def moved_by(
    slots: Sequence[Slot], depth: int, method: Callable[..., Floats], step: float = 1e-4
) -> Floats:
    """How log p moves with the weight of each cluster, [cluster, position], by differences."""

    def log_p(cluster: object, times: float) -> Floats:
        own = [s._replace(n=s.n * times, w=s.w * times) for s in slots if s.cluster == cluster]
        rest = [s for s in slots if s.cluster != cluster]
        return np.asarray(np.log(method(counts_of(rest + own, depth), depth)))

    clusters = sorted({slot.cluster for slot in slots}, key=str)
    return np.array([(log_p(g, 1 + step) - log_p(g, 1 - step)) / (2 * step) for g in clusters])
