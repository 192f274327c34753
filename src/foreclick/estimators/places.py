"""Places that exchange items: which of them can be compared, and curves from small matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foreclick.batches.arrays import Bools, Floats, Ints

_PASSES = 500
_CLOSE = 1e-12


@dataclass(frozen=True)
class Graph:
    """How S places exchanged items.

    Attributes:
        clicks: Shape (S,): clicks of items that stood at several places.
        items: Shape (S,): how many such items stood at the place.
        both: Shape (S, S): how many of them stood at both places.
        won: Shape (S, S): Σ w_j n_k / (n_j + n_k) over items that stood at both; the ratio of
            [j, k] to [k, j] is that of p_j to p_k.
    """

    clicks: Floats
    items: Floats
    both: Floats
    won: Floats

    @cached_property
    def beats(self) -> Bools:
        """Shape (S, S): whether a chain of exchanges says that p_j is not 0 relative to p_k."""
        return _chained(self.won > 0)

    @cached_property
    def linked(self) -> Bools:
        """Shape (S, S): whether a chain of exchanges leads from one place to the other."""
        return _chained(self.both > 0)

    @cached_property
    def comparable(self) -> Bools:
        """Shape (S, S): whether the ratio of p_j to p_k is a number.

        That is so if each beats the other, if only by way of further places: then, and only then,
        the likelihood has a maximum (Ford, 1957).
        """
        return np.asarray(self.beats & self.beats.T)

    @cached_property
    def reference(self) -> int:
        """The place with p = 1: the first, or else the first of the largest comparable part."""
        size = self.comparable.sum(axis=1)
        return 0 if size[0] > 1 else int(np.argmax(size))

    @cached_property
    def told(self) -> Bools:
        """Shape (S,): the places whose p is a number above 0."""
        return np.asarray(self.comparable[self.reference])

    @cached_property
    def nothing(self) -> Bools:
        """Shape (S,): the places with p = 0, because they lose every exchange."""
        at = self.reference
        return np.asarray(self.beats[at] & ~self.beats[:, at])

    @property
    def free(self) -> Ints:
        """The places whose p is estimated: those told except for the reference."""
        told = np.flatnonzero(self.told)
        return np.asarray(told[told != self.reference])

    def at(self, places: Ints) -> Graph:
        """The exchanges between some of the places."""
        square = np.ix_(places, places)
        return Graph(self.clicks[places], self.items[places], self.both[square], self.won[square])

    def with_zeros(self, p: Floats) -> Floats:
        """A curve of the places told, 0 at those that lose, and NaN elsewhere."""
        return np.where(self.told, p, np.where(self.nothing, 0.0, np.nan))

    def only(self, covariance: Floats) -> Floats:
        """A covariance of the places told, and NaN elsewhere."""
        return np.where(np.outer(self.told, self.told), covariance, np.nan)

    def inverse(self, information: Floats) -> Floats:
        """The inverse of an information about log p, 0 at the reference."""
        square = np.ix_(self.free, self.free)
        found = np.zeros_like(information)
        found[square] = np.linalg.inv(information[square])
        return found

    def share(self, p: Floats) -> Floats:
        """Shape (S, S): p_j / (p_j + p_k), and 0 where one of them is not told."""
        among = np.outer(self.told, self.told) & ~np.eye(len(p), dtype=np.bool_)
        return np.divide(
            p[:, None], p[:, None] + p[None, :], out=np.zeros_like(self.won), where=among
        )


def bradley_terry(graph: Graph) -> Floats:
    """The p of AllPairs: the maximum of Σ_jk won_jk log(p_j / (p_j + p_k)), of the places told."""
    p = np.where(graph.told, 1.0, 0.0)
    for _ in range(_PASSES):
        share = graph.share(p)
        score = (graph.won * share.T - graph.won.T * share).sum(axis=1)
        step = _step(graph, score, bradley_terry_information(graph, p))
        p = p * np.exp(step)
        if np.abs(step).max(initial=0.0) < _CLOSE:
            break
    return p


def bradley_terry_information(graph: Graph, p: Floats) -> Floats:
    """Shape (S, S): minus the second derivative of AllPairs' likelihood by log p."""
    share = graph.share(p)
    weight = (graph.won + graph.won.T) * share * share.T
    return np.asarray(np.diag(weight.sum(axis=1)) - weight)


def newton_step(graph: Graph, p: Floats, g: Floats, h: Floats) -> tuple[Floats, Floats]:
    """A step of log p towards the maximum of the likelihood, and the information there.

    Args:
        graph: which places are told.
        p: Shape (S,): where the sums were taken.
        g: Shape (S,): Σ c/D n_k.
        h: Shape (S, S): Σ c/D² n_j n_k.
    """
    p = np.where(graph.told, p, 0.0)
    information = likelihood_information(p, g, h)
    return _step(graph, graph.clicks - p * g, information), information


def likelihood_information(p: Floats, g: Floats, h: Floats) -> Floats:
    """Shape (S, S): minus the second derivative of the likelihood by log p; see `newton_step`."""
    return np.asarray(np.diag(p * g) - np.outer(p, p) * h)


def _step(graph: Graph, score: Floats, information: Floats) -> Floats:
    """Newton's step, no longer than what surely climbs.

    Along a step d the curvature of these likelihoods changes by exp(max d − min d) at most, so that
    a step of spread 1 gains more than half of what Newton's parabola promises.
    """
    free = graph.free
    step = np.zeros_like(score)
    step[free] = np.linalg.solve(information[np.ix_(free, free)], score[free])
    return np.asarray(step / max(float(np.ptp(step)), 1.0))


def _chained(links: Bools) -> Bools:
    """Shape (S, S): which places are reached from which, in any number of steps."""
    found = links | np.eye(len(links), dtype=np.bool_)
    for _ in range(len(links).bit_length()):  # each time chains of twice the length
        found = found @ found
    return found
