"""How far an estimate would move from log to log: covariances of sums over clusters of records.

Records of one cluster (a day, a bucket of users) vary together, clusters do not. With the sums s_c
of the influence of all records of cluster c, over n records in all,

    Cov = G / (G − 1) Σ_c s_c s_cᵀ        of G clusters.

**Two kinds at once.** Records of one day vary together, and so do those of one user. A pair of
records counts if it shares the day or the user, so the sums over days and over users count the
pairs that share both twice (Cameron, Gelbach and Miller, 2011):

    Cov = Cov_day + Cov_user − Cov_both

**Days with memory.** If a good day is followed by good days, neighbouring days vary together, too.
Newey and West's covariance with L lags counts them, by weights that fall to 0 (1987),

    Cov = G / (G − 1) / (1 − ⅔ (L + 1) / G) (Γ_0 + Σ_{l ≤ L} (1 − l / (L + 1)) (Γ_l + Γ_lᵀ)),
    Γ_l = Σ_d s_d s_{d−l}ᵀ,

the factor for what the estimated mean takes away. It has few degrees of freedom,
3/2 G / (L + 1) − 1. A change against production on the same days hardly has memory: what makes a
day good for one makes it good for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from foreclick.batches import Floats, Ints

BOTH = "both"
"""The kind of clusters that share a period and a unit."""

LAGS = 4
"""Days back that a day may remember."""

_ENOUGH = 10  # periods; fewer say nothing of how they follow each other


class ByCluster(NamedTuple):
    """Sums of influence over the clusters of one kind.

    Attributes:
        kind: "period", "unit", or BOTH for a bucket of users in a period.
        sums: Shape (clusters, 2): Σψ / n and Σφ / n.
        present: Shape (clusters,): the numbers of these clusters in the log, in order.
    """

    kind: str
    sums: Floats
    present: Ints

    @property
    def sign(self) -> float:
        """Whether its covariance is added, or was counted twice and is taken off."""
        return -1.0 if self.kind == BOTH else 1.0


@dataclass(frozen=True)
class Spread:
    """The covariance of an estimate and production's mean, over samples like the log.

    Attributes:
        covariance: Shape (2, 2): of V̂ and F̂.
        freedom: degrees of freedom of Student's t; infinite for independent records.
        clusters: over how many clusters it was taken: periods, if there are any.
        parts: sums over clusters, for joint use with other candidates; none for independent
            records.
        alone: what of the variance of V̂ the candidate shares with no other: of its sample, if it is
            one, and of what a ladder borrowed from other cells, unless that is paired.
        borrowed: what of `alone` is of what a ladder borrowed.
        slips: Shape (D,): what a ladder borrowed, where it is paired, or how far an examination
            that was learnt puts it off: its variance is Σ slips², and its covariance with another
            candidate, by the same estimator, the product of both.
        memory: what the variance of V̂ has besides if neighbouring periods vary together; it may
            be below 0.
        memory_freedom: the degrees of freedom with it.
    """

    covariance: Floats
    freedom: float
    clusters: float
    parts: tuple[ByCluster, ...] = ()
    alone: float = 0.0
    borrowed: float = 0.0
    slips: Floats = field(default_factory=lambda: np.zeros(0))
    memory: float = 0.0
    memory_freedom: float = np.inf

    @property
    def kind(self) -> str:
        """Whose records vary together: of several kinds, the first."""
        return self.parts[0].kind if self.parts else "record"

    def wider(self, alone: float, borrowed: float = 0.0) -> Spread:
        """The same with a variance that the candidate shares with no other.

        Args:
            alone: the variance.
            borrowed: what of it is of what a ladder borrowed.
        """
        wider = self.plus(np.array([[alone, 0.0], [0.0, 0.0]]))
        return replace(wider, alone=alone, borrowed=borrowed)

    def paired(self, slips: Floats) -> Spread:
        """The same with what a ladder borrowed as the candidate shares it with others.

        Args:
            slips: Shape (D,): whose products with those of others say how alike they are.
        """
        size = float(slips @ slips)
        if not size:
            return self
        scaled = slips * np.sqrt(self.borrowed / size)
        return replace(self, alone=self.alone - self.borrowed, borrowed=0.0, slips=scaled)

    def off_by(self, slips: Floats) -> Spread:
        """The same with an error that candidates share, each so far as its slips say."""
        return replace(self.plus(np.diag([float(slips @ slips), 0.0])), slips=slips)

    def plus(self, more: Floats) -> Spread:
        """The same with another covariance on top."""
        return replace(self, covariance=self.covariance + more)

    def against(self, other: Spread | None) -> Floats | None:
        """Shape (2, 2): the covariance with another candidate's estimate, not with production's."""
        return None if other is None else between([self, other])


def between(spreads: Sequence[Spread]) -> Floats:
    """Shape (C, C): the covariance of several estimates from the same log.

    Clusters tell it exactly. Of independent records only the variances are known here, and
    covariances are taken to be 0 but for what ladders borrowed, which makes a difference look more
    uncertain than it is.
    """
    shapes = [[(p.kind, len(p.sums)) for p in spread.parts] for spread in spreads]
    if shapes[0] and all(shape == shapes[0] for shape in shapes):
        return joint_covariance(spreads)[:-1, :-1]
    found = _slips(spreads)
    np.fill_diagonal(found, [spread.covariance[0, 0] for spread in spreads])
    return found


def clustered(parts: Sequence[ByCluster]) -> Spread:
    """The spread of sums over clusters of one kind, or of two and of both."""
    counts = [len(part.sums) for part in parts if part.kind != BOTH]
    found = Spread(
        covariance_of([(part, part.sums) for part in parts]),
        freedom=min(counts) - 1,
        clusters=counts[0],
        parts=tuple(parts),
    )
    days = parts[0].sums
    if parts[0].kind != "period" or len(days) < _ENOUGH:
        return replace(found, memory_freedom=found.freedom)
    remembered = newey_west(days[:, 0]) - float(_outer(days)[0, 0])
    freedom = min(1.5 * len(days) / (LAGS + 1) - 1, found.freedom)
    return replace(found, memory=remembered, memory_freedom=freedom)


def newey_west(sums: Floats, lags: int = LAGS) -> float:
    """The variance of the total of sums in order, of which neighbours vary together.

    Args:
        sums: Shape (G,): they add up to about 0.
        lags: how far back one of them may remember.
    """
    count = len(sums)
    centred = sums - sums.mean()
    found = float(centred @ centred)
    for lag in range(1, lags + 1):
        found += 2 * (1 - lag / (lags + 1)) * float(centred[lag:] @ centred[:-lag])
    lost = 1 - 2 / 3 * (lags + 1) / count
    return max(found, 0.0) * count / (count - 1) / lost


def joint_covariance(spreads: Sequence[Spread]) -> Floats:
    """The covariance of several candidates and production, which is last, from the same clusters.

    The sums over clusters give it. What cells hide that were hardly seen is known of each candidate
    against production; two candidates share it as far as their clusters move together. What comes
    of a candidate's own sample it shares with nobody. Production borrows nothing.
    """
    last, slips = len(spreads), _slips(spreads)
    number = _numbers(spreads)
    each = [spreads[j] for j in np.unique(number, return_index=True)[1]]
    columns = [
        (part, np.stack([*(s.parts[j].sums[:, 0] for s in each), part.sums[:, 1]], axis=1))
        for j, part in enumerate(spreads[0].parts)
    ]
    whose = np.append(number, len(each))
    shown = covariance_of(columns)[np.ix_(whose, whose)]
    hidden = np.zeros(last)
    for j, spread in enumerate(spreads):
        extra = spread.covariance - shown[np.ix_([j, last], [j, last])]
        extra[0, 0] -= spread.alone + slips[j, j]
        # Only differences are asked for, so all that a difference hides may stand with one side.
        hidden[j] = max(float(extra[0, 0] - 2 * extra[0, 1] + extra[1, 1]), 0.0)
    scale = np.sqrt(np.diag(shown)[:last])
    both = np.outer(scale, scale)
    alike = shown[:last, :last] / np.where(both > 0, both, 1.0)
    np.fill_diagonal(alike, 1.0)
    found = shown.copy()
    found[:last, :last] += alike * np.sqrt(np.outer(hidden, hidden))
    found[:last, :last] += np.diag([spread.alone for spread in spreads]) + slips
    return np.asarray(found, dtype=np.float64)


def _numbers(spreads: Sequence[Spread]) -> Ints:
    """Shape (C,): from 0; candidates that have the same sums over all clusters have the same."""
    numbers: dict[bytes, int] = {}
    keys = (b"".join(part.sums[:, 0].tobytes() for part in spread.parts) for spread in spreads)
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def _slips(spreads: Sequence[Spread]) -> Floats:
    """Shape (C, C): the covariance of what ladders borrowed for candidates of one pairing."""
    each = np.zeros((len(spreads), max(len(spread.slips) for spread in spreads)))
    for row, spread in zip(each, spreads, strict=True):
        row[: len(spread.slips)] = spread.slips
    return np.asarray(each @ each.T)


def covariance_of(columns: Sequence[tuple[ByCluster, Floats]]) -> Floats:
    """Σ ± G / (G − 1) Σ_c s_c s_cᵀ over kinds of clusters; of several, no variance is below 0.

    Where one would be, eigenvalues below 0 are cut. Estimates are scaled alike before, so that none
    is rounded, or cut, as one is that varies far more.
    """
    parts = [(part.sign, _outer(sums)) for part, sums in columns]
    found = np.sum([sign * outer for sign, outer in parts], axis=0)
    if len(parts) == 1:
        return np.asarray(found)
    size = np.sqrt(np.sum([np.diag(outer) for sign, outer in parts if sign > 0], axis=0))
    unit = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(found / unit / unit[:, None])
    if values[0] >= 0:
        return np.asarray(found)
    root = unit[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root @ root.T)


def _outer(sums: Floats) -> Floats:
    return np.asarray(sums.T @ sums * (len(sums) / max(len(sums) - 1, 1)))
