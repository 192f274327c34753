"""Places that exchange items: which of them can be compared, and curves from small matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_PASSES = 500
_CLOSE = 1e-12


@dataclass(frozen=True)
class Graph:
    """How places exchanged items: by place, and by pairs of places.

    Attributes:
        clicks: of items that stood at several places.
        items: how many such items stood at the place.
        both: how many of them stood at both places.
        won: [j, k]: Σ w_j n_k / (n_j + n_k) over items that stood at both; the ratio of
            [j, k] to [k, j] is that of p_j to p_k.
    """

    clicks: Floats
    items: Floats
    both: Floats
    won: Floats

    @classmethod
    def of(cls, row: Mapping[str, Any], size: int) -> Graph:
        """The graph of one row of sums; none of them: nothing was exchanged."""
        vectors = (vector_of(row, stem, size) for stem in ("w", "items"))
        return cls(*vectors, *(matrix_of(row, stem, size) for stem in ("both", "won")))

    @cached_property
    def beats(self) -> Booleans:
        """[j, k]: whether a chain of exchanges says that p_j is not 0 beside p_k."""
        return _chained(self.won > 0)

    @cached_property
    def linked(self) -> Booleans:
        """[j, k]: whether a chain of exchanges leads from one place to the other."""
        return _chained(self.both > 0)

    @cached_property
    def reference(self) -> int:
        """The place that is 1: the first, or else the first of the largest part of the places.

        Places can be compared that beat each other, if only by way of others: then, and only then,
        the likelihood has a maximum (Ford, 1957).
        """
        mutual = self.beats & self.beats.T
        size = mutual.sum(axis=1)
        return 0 if size[0] > 1 else int(np.argmax(size))

    @cached_property
    def told(self) -> Booleans:
        """The places whose p is a number above 0."""
        return np.asarray((self.beats & self.beats.T)[self.reference], dtype=np.bool_)

    @cached_property
    def nothing(self) -> Booleans:
        """The places that are 0 beside the reference: they lose every exchange."""
        at = self.reference
        return np.asarray(self.beats[at] & ~self.beats[:, at], dtype=np.bool_)

    @property
    def free(self) -> NDArray[np.int64]:
        """The places whose p is estimated: those told but for the reference."""
        told = np.flatnonzero(self.told)
        return np.asarray(told[told != self.reference], dtype=np.int64)

    def with_zeros(self, p: Floats) -> Floats:
        """A curve of the places told, 0 at those that lose, and NaN elsewhere."""
        return np.where(self.told, p, np.where(self.nothing, 0.0, np.nan))

    def only(self, covariance: Floats) -> Floats:
        """A covariance, NaN but for the places told."""
        return np.where(np.outer(self.told, self.told), covariance, np.nan)

    def inverse(self, information: Floats) -> Floats:
        """The inverse of an information about log p, 0 at the reference."""
        free = self.free
        found = np.zeros_like(information)
        found[np.ix_(free, free)] = np.linalg.inv(information[np.ix_(free, free)])
        return found

    def score(self, p: Floats, won: Floats) -> Floats:
        """The derivative by log p of Σ_jk won_jk log(p_j / (p_j + p_k)), over the places told."""
        share = self._share(p)
        return np.asarray((won * share.T - won.T * share).sum(axis=1), dtype=np.float64)

    def information(self, p: Floats) -> Floats:
        """The derivative of minus that score."""
        share = self._share(p)
        weight = (self.won + self.won.T) * share * share.T
        return np.asarray(np.diag(weight.sum(axis=1)) - weight, dtype=np.float64)

    def _share(self, p: Floats) -> Floats:
        """[j, k]: p_j / (p_j + p_k), and 0 where one of them is not told."""
        among = np.outer(self.told, self.told) & ~np.eye(len(p), dtype=bool)
        return np.divide(
            p[:, None], p[:, None] + p[None, :], out=np.zeros_like(self.won), where=among
        )


def _chained(links: Booleans) -> Booleans:
    """Which places are reached from which, in any number of steps."""
    found = links | np.eye(len(links), dtype=bool)
    for _ in range(len(links).bit_length()):  # each time chains of twice the length
        found = found @ found
    return found


def vector_of(row: Mapping[str, Any], stem: str, size: int) -> Floats:
    """The columns stem_0 … of a row; those that are missing, or NULL, are 0."""
    return np.array([row.get(f"{stem}_{j}") or 0 for j in range(size)], float)


def matrix_of(row: Mapping[str, Any], stem: str, size: int) -> Floats:
    """The columns stem_j_k of a row; where only k ≤ j is there, it is symmetric."""
    places = range(size)
    found = [
        [row.get(f"{stem}_{j}_{k}", row.get(f"{stem}_{k}_{j}")) or 0 for k in places]
        for j in places
    ]
    return np.array(found, float).reshape(size, size)


def newton_step(graph: Graph, p: Floats, g: Floats, h: Floats) -> tuple[Floats, Floats]:
    """A step of log p towards the maximum, and the information there.

    Args:
        graph: which places are told.
        p: where the sums were taken.
        g: Σ c/D n_k.
        h: Σ c/D² n_j n_k.
    """
    mine = np.where(graph.told, p, 0.0)
    expected = mine * g
    information = np.diag(expected) - np.outer(mine, mine) * h
    free = graph.free
    step = np.zeros_like(p)
    score = (graph.clicks - expected)[free]
    step[free] = np.linalg.solve(information[np.ix_(free, free)], score)
    return _safe(step), information


def bradley_terry(graph: Graph) -> Floats:
    """The p of AllPairs: the maximum of Σ_jk won_jk log(p_j / (p_j + p_k)), of the places told."""
    told, free = graph.told, graph.free
    won = np.where(np.outer(told, told), graph.won, 0.0)
    p = np.where(told, 1.0, 0.0)
    for _ in range(_PASSES):
        score = graph.score(p, won)
        step = np.zeros_like(p)
        step[free] = np.linalg.solve(graph.information(p)[np.ix_(free, free)], score[free])
        step = _safe(step)
        p = p * np.exp(step)
        if np.abs(step).max(initial=0.0) < _CLOSE:
            break
    return p


def _safe(step: Floats) -> Floats:
    """Newton's step, no longer than what surely climbs.

    Along a step d the curvature of these likelihoods changes by exp(max d − min d) at most, so that
    a step of spread 1 gains more than half of what Newton's parabola promises.
    """
    spread = float(np.ptp(step)) if len(step) else 0.0
    return step / max(spread, 1.0)
