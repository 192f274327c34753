"""How much each place is examined, from counts of items that stood at several places.

Under the position-based model an item a of context x earns w_xak clicks in n_xak records at place
k, with mean n_xak μ_xa p_k. With μ_xa profiled out, the Poisson log-likelihood is

    ℓ(p) = Σ_k w_k log p_k − Σ_xa c_xa log D_xa,     D_xa = Σ_k p_k n_xak,     c_xa = Σ_k w_xak,

concave in log p, and the same as that of which place got each click of an item: no number of items
biases it. A *pair* (x, a) that stood at one place only, or that was never clicked, has no
information; every pass of Newton's method sums score and information over the others.

Sizes: P pairs, M pairs that moved, S places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from foreclick.batches.arrays import Bools, Floats, Ints, accumulate, ratio

_PASSES = 60  # of Newton's method; half a dozen are usual
_CLOSE = 1e-9  # a step so small leaves an error of its square, which is less than rounding


class Moved(NamedTuple):
    """Pairs that stood at several places and were clicked, of one batch.

    Attributes:
        pair: Shape (M,): the number of each in its batch.
        n: Shape (M, S): how many records show it at each place.
        w: Shape (M, S): the clicks there.
        stratum: Shape (M,): the segment that it belongs to.
        context: Shape (M,): its context, in the numbers of the batch.
        period: Shape (M,): its period, where a pair is another one in each.
        records: Shape (strata, S): how many records fill each place, with all pairs.
    """

    pair: Ints
    n: Floats
    w: Floats
    stratum: Ints
    context: Ints
    period: Ints
    records: Floats

    @classmethod
    def from_counts(
        cls, n: Floats, w: Floats, groups: tuple[Ints, Ints, Ints] | None = None, strata: int = 1
    ) -> Moved:
        """Those of the pairs, with counts of shape (P, S), that have information about p.

        Args:
            n: Shape (P, S): records.
            w: Shape (P, S): clicks.
            groups: Shape (P,) each: stratum, context and period; 0 without.
            strata: how many there are.
        """
        stratum, context, period = groups or (np.zeros(len(n), dtype=np.intp),) * 3
        records = np.zeros((strata, n.shape[1]))
        accumulate(records, stratum, n)
        pair = np.flatnonzero(((n > 0).sum(axis=1) > 1) & (w.sum(axis=1) > 0))
        return cls(pair, n[pair], w[pair], stratum[pair], context[pair], period[pair], records)

    def shares(self, p: Floats) -> tuple[Floats, Floats, Floats]:
        """D = Σ p n and μ = c / D, shape (M,) each, and p n / D, (M, S), over places with p > 0.

        Args:
            p: Shape (strata, S), 0 where it is not identified.
        """
        examined = p[self.stratum] * self.n
        total = examined.sum(axis=1)
        clicks = np.where(p[self.stratum] > 0, self.w, 0.0).sum(axis=1)
        return total, ratio(clicks, total), ratio(examined, total[:, None])


@dataclass(frozen=True, eq=False)
class Exchanges:
    """How S places exchanged items.

    Attributes:
        clicks: Shape (S,): clicks of items that stood at several places.
        items: Shape (S,): how many such items stood at the place.
        records: Shape (S,): how many records fill the place.
        both: Shape (S, S): how many of the items stood at both places.
        wins: Shape (S, S): Σ w_j n_k / (n_j + n_k) over items that stood at both; the ratio of
            [j, k] to [k, j] is that of p_j to p_k.
    """

    clicks: Floats
    items: Floats
    records: Floats
    both: Floats
    wins: Floats

    @cached_property
    def dominates(self) -> Bools:
        """Shape (S, S): whether a chain of exchanges tells that p_j is not 0 relative to p_k."""
        return _chained(self.wins > 0)

    @cached_property
    def comparable(self) -> Bools:
        """Shape (S, S): whether the ratio of p_j to p_k is a number.

        That is so if each dominates the other, if only by way of further places: then, and only
        then, the likelihood has a maximum (Ford, 1957).
        """
        return np.asarray(self.dominates & self.dominates.T)

    @cached_property
    def reference(self) -> int:
        """The place with p = 1: the first, or else the first of the largest comparable part."""
        size = self.comparable.sum(axis=1)
        return 0 if size[0] > 1 else int(np.argmax(size))

    @property
    def identified(self) -> Bools:
        """Shape (S,): the places whose p is a number above 0."""
        return np.asarray(self.comparable[self.reference])

    @property
    def zero(self) -> Bools:
        """Shape (S,): the places with p = 0, because they lose every exchange."""
        at = self.reference
        return np.asarray(self.dominates[at] & ~self.dominates[:, at])

    @cached_property
    def free(self) -> Ints:
        """The places whose p is estimated: those identified except for the reference."""
        return np.flatnonzero(self.identified & (np.arange(len(self.clicks)) != self.reference))


def exchanges_of(parts: Iterable[Moved], strata: int, size: int) -> list[Exchanges]:
    """Of each segment, which places exchanged items, and how clicks were shared between them."""
    clicks, items, records = np.zeros((3, strata, size))
    both, wins = np.zeros((strata, size, size)), np.zeros((size, strata, size))
    for _, n, w, stratum, _, _, filled in parts:
        shown = (n > 0).astype(np.float64)
        accumulate(clicks, stratum, w)
        accumulate(items, stratum, shown)
        records += filled
        both += products(stratum, shown, shown, strata)
        for j in range(size):
            some = np.flatnonzero(w[:, j])  # the others would add 0
            share = ratio(n[some], n[some] + n[some, j, None])
            accumulate(wins[j], stratum[some], w[some, j, None] * share)
    return [Exchanges(clicks[s], items[s], records[s], both[s], wins[:, s]) for s in range(strata)]


def products(stratum: Ints, a: Floats, b: Floats, strata: int) -> Floats:
    """Shape (strata, S, S): Σ a_j b_k over the rows, shape (M, S) each, of every stratum."""
    if strata == 1:
        return (a.T @ b)[None]
    totals = np.zeros((a.shape[1], strata, b.shape[1]))
    for j, total in enumerate(totals):
        accumulate(total, stratum, a[:, j, None] * b)
    return totals.swapaxes(0, 1)


def _chained(links: Bools) -> Bools:
    """Shape (S, S): which places are reached from which, in any number of steps."""
    reached = links | np.eye(len(links), dtype=np.bool_)
    for _ in range(len(links).bit_length()):  # each time chains of twice the length
        reached = reached @ reached
    return reached


# --- the maximum ----------------------------------------------------------------------------------


class Maximum(NamedTuple):
    """The maximum of a concave likelihood, of each segment.

    Attributes:
        p: Shape (strata, S): 0 where it is not identified.
        information: Shape (strata, S, S): about log p.
        converged: Shape (strata,): whether it was found.
    """

    p: Floats
    information: Floats
    converged: Bools


def _curvature(parts: Iterable[Moved], p: Floats) -> tuple[Floats, Floats]:
    """The clicks that p expects, (strata, S), and the information about log p, (strata, S, S)."""
    expected, cross = np.zeros_like(p), np.zeros((*p.shape, p.shape[1]))
    for moved in parts:
        _, rate, share = moved.shares(p)
        clicks = rate[:, None] * p[moved.stratum] * moved.n
        accumulate(expected, moved.stratum, clicks)
        cross += products(moved.stratum, clicks, share, len(p))
    return expected, expected[:, :, None] * np.eye(p.shape[1]) - cross


def likelihood(parts: Iterable[Moved], places: Sequence[Exchanges], start: Floats) -> Maximum:
    """The maximum of ℓ, by Newton's method in log p for all segments at once.

    Along a step d the curvature of ℓ changes by exp(max d − min d) at most, so that a step of
    spread 1 gains more than half of what Newton's parabola promises: none is longer.

    Args:
        parts: the pairs, in the order of contexts, which every pass goes through.
        places: of each segment, which places can be compared.
        start: Shape (strata, S): the p to begin with, 0 where it is not identified.
    """
    clicks = np.stack([each.clicks for each in places])
    p, information = start.copy(), np.zeros((*start.shape, start.shape[1]))
    done = np.array([len(each.free) == 0 for each in places])
    for _ in range(_PASSES):
        if done.all():
            break
        expected, curvature = _curvature(parts, p)
        for s in np.flatnonzero(~done).tolist():
            free = places[s].free
            step = np.zeros(p.shape[1])
            residual = (clicks - expected)[s, free]
            step[free] = np.linalg.solve(curvature[s][np.ix_(free, free)], residual)
            step /= max(float(np.ptp(step)), 1.0)
            p[s] *= np.exp(step)
            information[s] = curvature[s]
            done[s] = np.abs(step).max() < _CLOSE
    return Maximum(p, information, done)
