"""The likelihood of examination over pairs that moved: its maximum by Newton's method, gradients.

Sizes: M pairs that moved, S places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from foreclick.batches.arrays import Floats, Ints, accumulate, ratio
from foreclick.estimators.places import (
    Graph,
    bradley_terry,
    likelihood_information,
    newton_step,
)

_PASSES = 60  # of Newton's method; half a dozen are usual
_CLOSE = 1e-9  # a step so small leaves an error of its square, which is less than rounding


@dataclass(frozen=True, eq=False)
class Moves:
    """Pairs that stood at several places and were clicked.

    Attributes:
        pair: Shape (M,): the number of each in its batch.
        stratum: Shape (M,): the segment that it belongs to.
        n: Shape (M, S): how many records show it at each place.
        w: Shape (M, S): the clicks there.
    """

    pair: Ints
    stratum: Ints
    n: Floats
    w: Floats

    @classmethod
    def of(cls, n: Floats, w: Floats, stratum: Ints) -> Moves:
        """Those of the pairs, with counts of shape (P, S), that say something about p."""
        pair = np.flatnonzero(((n > 0).sum(axis=1) > 1) & (w.sum(axis=1) > 0))
        return cls(pair, stratum[pair], n[pair], w[pair])

    def at(self, places: Ints) -> Moves:
        """The counts at some of the places."""
        return Moves(self.pair, self.stratum, self.n[:, places], self.w[:, places])

    def rates(self, p: Floats) -> tuple[Floats, Floats]:
        """Shape (M,) each: D = Σ p n and μ = c / D, over the places that are told (p > 0).

        Args:
            p: Shape (strata, S), 0 where it is not told.
        """
        mine = p[self.stratum]
        total = (mine * self.n).sum(axis=1)
        return total, ratio(np.where(mine > 0, self.w, 0.0).sum(axis=1), total)


@dataclass
class Fit:
    """Where the search for the maximum of one segment is.

    Attributes:
        graph: which places can be compared.
        p: Shape (S,): 0 where it is not told.
        allpairs: Shape (S,): the same, by AllPairs.
        information: Shape (S, S): about log p.
        done: whether the maximum was found.
    """

    graph: Graph
    p: Floats
    allpairs: Floats
    information: Floats
    done: bool


def graphs_of(parts: Iterable[Moves], strata: int, size: int) -> list[Graph]:
    """Of each segment, which places exchanged items, and how clicks were shared between them."""
    clicks, items = np.zeros((2, strata, size))
    both, won = np.zeros((2, size, strata, size))
    for moves in parts:
        n, w, shown = moves.n, moves.w, moves.n > 0
        accumulate(clicks, moves.stratum, w)
        accumulate(items, moves.stratum, shown)
        for j in range(size):  # pairs that were not shown there, or not clicked, would add 0
            some = np.flatnonzero(shown[:, j])
            accumulate(both[j], moves.stratum[some], shown[some])
            some = np.flatnonzero(w[:, j])
            mine, own = n[some], n[some, j][:, None]
            accumulate(won[j], moves.stratum[some], w[some, j][:, None] * ratio(mine, mine + own))
    return [Graph(clicks[s], items[s], both[:, s], won[:, s]) for s in range(strata)]


def maximum(parts: Iterable[Moves], graphs: Sequence[Graph]) -> list[Fit]:
    """Newton's method, for all segments at once, from the answers of AllPairs.

    Args:
        parts: the pairs, in the order of contexts; gone through once per pass.
        graphs: of each segment, which places can be compared.
    """
    fits = [_start(graph) for graph in graphs]
    for _ in range(_PASSES):
        if all(fit.done for fit in fits):
            break
        g, h = _pass(parts, np.stack([fit.p for fit in fits]))
        for s, fit in enumerate(fits):
            if not fit.done:
                step, fit.information = newton_step(fit.graph, fit.p, g[s], h[:, s])
                fit.p = fit.p * np.exp(step)
                fit.done = bool(np.abs(step).max(initial=0.0) < _CLOSE)
    return fits


def information_at(moves: Moves, p: Floats) -> Floats:
    """Shape (S, S): what the pairs say about log p, at a given p."""
    g, h = _pass([moves], p[None])
    return likelihood_information(p, g[0], h[:, 0])


def _start(graph: Graph) -> Fit:
    p = bradley_terry(graph)
    alone = len(graph.free) == 0  # a single place is examined as much as itself
    return Fit(graph, p, p, np.zeros_like(graph.won), done=alone)


def _pass(parts: Iterable[Moves], p: Floats) -> tuple[Floats, Floats]:
    """The sums Σ c/D n_k, shape (strata, S), and Σ c/D² n_j n_k, shape (S, strata, S)."""
    strata, size = p.shape
    g, h = np.zeros((strata, size)), np.zeros((size, strata, size))
    for moves in parts:
        total, rate = moves.rates(p)
        over = ratio(rate, total)
        accumulate(g, moves.stratum, rate[:, None] * moves.n)
        for j in range(size):
            some = np.flatnonzero(moves.n[:, j])
            each = (over[some] * moves.n[some, j])[:, None] * moves.n[some]
            accumulate(h[j], moves.stratum[some], each)
    return g, h


class Gradients:
    """What one click, and one record, of a pair at a place add to the scores of all places.

    A click at place i adds flows f_k to the score of i and takes them from those of the other
    places k: q_k = p_k n_k / D by the likelihood, and by AllPairs the share p_k / (p_i + p_k)
    times n_k / (n_i + n_k). A record there is expected to earn μ p_i clicks; for AllPairs it is
    the derivative of its sums.
    """

    def __init__(self, moves: Moves, fits: Sequence[Fit]) -> None:
        p = np.stack([fit.p for fit in fits])
        total, rate = moves.rates(p)
        self.moves, self.p = moves, p[moves.stratum]
        self.expected = rate[:, None] * self.p
        self.q = ratio(self.p * moves.n, total[:, None])
        self.shares = np.stack([fit.graph.share(fit.allpairs) for fit in fits])

    def at(self, place: int) -> tuple[Ints, Floats, Floats]:
        """Of the G pairs that stood at a place, the gradients by a click and by a record.

        Returns:
            Shape (M + 1,): the number of each pair among them, G for the others and for none; and
            the two gradients by the likelihood and by AllPairs, shape (G + 1, 2 S), of which the
            last row is 0.
        """
        some = np.flatnonzero(self.moves.n[:, place] > 0)
        number = np.full(len(self.moves.pair) + 1, len(some))
        number[some] = np.arange(len(some))
        n, w, s = self.moves.n[some], self.moves.w[some], self.moves.stratum[some]
        theirs, ours = self.shares[s, :, place], self.shares[s, place, :]
        q, apart = self.q[some], ratio(n, n + n[:, [place]])
        of_click = q * (self.p[some, place] > 0)[:, None], apart * theirs
        lost = apart / (n + n[:, [place]]) * (w[:, [place]] * theirs + w * ours)
        of_record = -self.expected[some, place][:, None] * q, -lost
        return number, _balanced(of_click, place), _balanced(of_record, place)

    def of_pairs(self) -> Floats:
        """Shape (M, 2 S): what all clicks and records of each pair add to both scores."""
        n, w = self.moves.n, self.moves.w
        found = np.zeros((len(n), 2 * n.shape[1]))
        for place in range(n.shape[1]):
            at, click, record = self.at(place)
            some = np.flatnonzero(n[:, place] > 0)
            here = at[some]
            found[some] += w[some, place, None] * click[here] + n[some, place, None] * record[here]
        return found


def _balanced(flows: tuple[Floats, Floats], place: int) -> Floats:
    """Shape (G + 1, 2 S): what a place gets from the others, it gains and they lose."""
    count, size = flows[0].shape
    found = np.zeros((count + 1, 2, size))
    for which, flow in enumerate(flows):
        found[:-1, which] = -flow
        found[:-1, which, place] += flow.sum(axis=1)
    return found.reshape(count + 1, 2 * size)
