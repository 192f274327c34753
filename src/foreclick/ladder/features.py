"""Words: what rankers say of a (context, item) pair by where they place it, day by day.

A ranker's *word* is the share s of its lists that have the item, and u, the mean normal score of
its rank above that of the last position (0 where it is not listed).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from foreclick.allowances import OVERLAP_MISFIT
from foreclick.batches import EMPTY, Batch, Floats, Ints, sums
from foreclick.batches.arrays import numbered

CALM = -12.0, 2.0
"""Bounds of the logarithm of a rate."""


def steps(depth: int) -> Floats:
    """Shape (K,): the normal score of each rank, of four times as many, above that of the last."""
    share = 1 - (np.arange(1, depth + 1) - 0.375) / (4 * depth + 0.25)
    z = np.array([NormalDist().inv_cdf(each) for each in share])
    return np.asarray(z - z[-1])


# --- what a batch shows, by pair and day ----------------------------------------------------------


class Seen:
    """The pairs of a batch on each day: R *turns* in the order of pair and day, of U cells.

    Args:
        batch: the records.
        dated: whether periods say what came before what.

    Attributes:
        cell: Shape (rows, K): the cell (pair, day, position) of every slot; U where it is empty.
        turn: Shape (U,): the turn of each cell; `position`: its position.
        pair: Shape (R,); `n`: records.
        word: Shape (R, 4): the powers of production's word up to the day.
        whole: Shape (P, 4): those of its word of all days.
    """

    def __init__(self, batch: Batch, *, dated: bool) -> None:
        k, rows = batch.depth, len(batch.n)
        self.batch, self.dated = batch, dated
        days = batch.cluster_count["period"] if dated else 1
        day = batch.clusters["period"].astype(np.int64) if dated else np.zeros(rows, np.int64)
        lists = batch.lists[batch.row_list]
        row, at = np.nonzero(lists != EMPTY)
        key = (lists[row, at].astype(np.int64) * days + day[row]) * k + at
        cells, number = numbered(key, batch.pair_count * days * k)
        self.cell = np.full((rows, k), len(cells))
        self.cell[row, at] = number
        self.position = cells % k
        turns, self.turn = numbered(cells // k, batch.pair_count * days)
        self.pair, self.day, self.days = turns // days, turns % days, days
        self.starts = np.flatnonzero(np.diff(self.pair, prepend=-1))
        self.shown = self.pair[self.starts]
        cell_n = sums(number, batch.n[row], len(cells))
        self.n = sums(self.turn, cell_n, len(turns))
        self.height = sums(self.turn, cell_n * steps(k)[self.position], len(turns))
        # Records of the context up to and with the day.
        here, of_row = numbered(
            batch.row_context * np.int64(days) + day, batch.context_count * days
        )
        until = self.until(here // days, sums(of_row, batch.n, len(here)))
        asked = batch.pair_context[self.pair] * np.int64(days) + turns % days
        self.records = until[np.searchsorted(here, asked)]
        both = np.column_stack([self.n, self.height])
        word = np.column_stack([self.so_far(one) for one in both.T]) / self.records[:, None]
        self.word, self.whole = powers(word), powers(production_words(batch))

    @staticmethod
    def until(group: Ints, values: Floats) -> Floats:
        """Running sums of values within groups, which come one after the other."""
        running = np.cumsum(values)
        first = np.flatnonzero(np.diff(group, prepend=-1))
        size = np.diff(np.append(first, len(group)))
        return np.asarray(running - np.repeat((running - values)[first], size))

    @cached_property
    def first_cell(self) -> Ints:
        """Shape (R,): the first cell of each turn, whose cells stand together."""
        return np.flatnonzero(np.diff(self.turn, prepend=-1))

    @cached_property
    def first_turn(self) -> Ints:
        """Shape (P + 1,): the first turn of each pair, whose turns stand together."""
        return np.asarray(np.searchsorted(self.pair, np.arange(self.batch.pair_count + 1)))

    def so_far(self, values: Floats) -> Floats:
        """Shape (R,): sums over a pair's turns up to and with each."""
        return self.until(self.pair, values)

    def by_pair(self, values: Floats) -> Floats:
        """Shape (P, …): sums over the turns of each pair."""
        totals = np.zeros((self.batch.pair_count, *values.shape[1:]))
        if len(self.starts):
            totals[self.shown] = np.add.reduceat(values, self.starts, axis=0)
        return totals

    def by_turn(self, values: Floats) -> Floats:
        """Shape (R,): sums over the cells of each turn."""
        return np.add.reduceat(values, self.first_cell) if len(values) else np.zeros(0)


def seen(batch: Batch, *, dated: bool) -> Seen:
    """The pairs of a batch by day, kept with it."""
    return batch.cached(("seen", dated), lambda: Seen(batch, dated=dated))


def powers(own: Floats) -> Floats:
    """Shape (N, 4): 1, s, u and s² of production's words, shape (N, 2)."""
    share, height = own.T
    return np.column_stack([np.ones(len(own)), share, height, share**2])


class Words(NamedTuple):
    """Columns of words: powers of production's word, alone or times the words of V candidates.

    F = 4 + 4 V: 1, s, u, s²; then s_c, u_c, s_c s and u_c u of all candidates.

    Attributes:
        share, height: Shape (N, V): s_c and u_c.
    """

    share: Floats
    height: Floats

    @classmethod
    def of(cls, others: Floats) -> Words:
        """Of candidates whose words are of shape (V, N, 2)."""
        return cls(*np.ascontiguousarray(others.transpose(2, 1, 0)))

    def factors(self) -> Iterator[tuple[int, slice, Floats]]:
        """Some columns: which power of production's word they are times which values (N, …)."""
        count = self.share.shape[1]
        for power in range(4):
            yield power, slice(power, power + 1), np.ones((len(self.share), 1))
        if count:
            both = self.share, self.height
            for number, (power, own) in enumerate(zip((0, 0, 1, 2), both * 2, strict=True)):
                yield power, slice(4 + number * count, 4 + (number + 1) * count), own

    def columns(self, powers: Floats) -> Floats:
        """Shape (N, F): the columns, of powers (N, 4) or whatever stands for them."""
        table = np.empty((len(powers), 4 + 4 * self.share.shape[1]))
        for power, columns, own in self.factors():
            np.multiply(own, powers[:, power, None], out=table[:, columns])
        return table

    def sums(self, powers: Floats) -> Floats:
        """Shape (F,): the sums of the columns."""
        return np.concatenate([powers[:, power] @ own for power, _, own in self.factors()])

    def weighted(self, beta: Floats) -> Floats:
        """Shape (N, 4): what each power of production's word is multiplied by, for β · columns."""
        factors_of_powers = np.zeros((len(self.share), 4))
        for power, columns, own in self.factors():
            factors_of_powers[:, power] += own @ beta[columns]
        return factors_of_powers


def production_words(batch: Batch) -> Floats:
    """Shape (P, 2): production's word of the whole log."""
    counts = np.stack([batch.shown.sum(axis=1), batch.shown @ steps(batch.depth)], axis=1)
    return np.asarray(counts / np.maximum(batch.context_n, 1e-300)[batch.pair_context][:, None])


def expected_rates(words: Floats, beta: Floats) -> Floats:
    """Shape (N,): what β expects of pairs, or turns, with these words, shape (N, F)."""
    return np.asarray(np.exp(np.clip(words @ beta, *CALM)))


def production_expects(batch: Batch, beta: Floats) -> Floats:
    """Shape (P,): what β expects of the pairs of a batch by production's word alone."""
    return expected_rates(powers(production_words(batch)), beta)


def by_row(left: Floats, at: Ints, values: Floats) -> Floats:
    """Shape (V, R): Σ_k left values[at], of slots (R, K) and values (G, V); 0 where at is G."""
    from scipy import sparse  # noqa: PLC0415 - slow to import

    rows, depth = left.shape
    some = (left.ravel(), at.ravel(), np.arange(0, left.size + 1, depth))
    slots = sparse.csr_array(some, shape=(rows, len(values) + 1))
    return np.asarray((slots @ np.vstack([values, np.zeros(values.shape[1])])).T)


# --- how alike two rankers are --------------------------------------------------------------------

LEAST_OUTSIDE = 0.2
"""The least share of what a candidate shows that is taken to be out of production's reach."""

DOUBTFUL = 0.03
"""By so much must it fit better, for each unit of that share."""


class Alike(NamedTuple):
    """How alike two rankers are: scores of a pool of items, normal, with a correlation.

    Attributes:
        pool, correlation: of what both can show.
        outside: the share of what the candidate shows that production cannot; `most`: what it may
            be at most.
    """

    pool: float
    correlation: float
    outside: float = 0.0
    most: float = 0.0


def alike(listed: Floats, both: Floats, *, same_retrieval: bool = False) -> Alike:
    """The pool, the correlation and the outside by which production shows what a candidate does.

    With f_k the share of what the candidate has at rank k that production has in its list, were
    all within its reach, it has (1 − w) f_k. A small w is not told from another shape of f.

    Args:
        listed: Shape (K,): what the candidate shows at each rank.
        both: Shape (K,): which part of it production's lists have, too.
        same_retrieval: whether production can show all that the candidate can.
    """
    from scipy.special import ndtr, ndtri  # noqa: PLC0415 - slow to import

    depth = len(listed)
    shared = both / np.maximum(listed, 1e-300)
    weight = listed / max(listed.sum(), 1e-300)
    rho = np.linspace(0, 0.99, 67)[:, None, None]
    outside = np.arange(0, 0.05 if same_retrieval else 0.8, 0.05)
    best = np.full(len(outside), np.inf)
    fits = [Alike(4.0 * depth, 0.0)] * len(outside)
    for pool in depth * 1.25 * 1.3 ** np.arange(13):
        z, cut = _heights(depth, pool), ndtri(1 - depth / pool)
        curve = ndtr((rho * z - cut) / np.sqrt(1 - rho**2))
        cost = (((1 - outside[:, None]) * curve - shared) ** 2) @ weight
        for j, at in enumerate(cost.argmin(axis=0)):
            if cost[at, j] < best[j]:
                best[j] = cost[at, j]
                fits[j] = Alike(float(pool), float(rho[at, 0, 0]), float(outside[j]))
    root = np.sqrt(best)
    most = float(outside[root <= root.min() + OVERLAP_MISFIT].max(initial=0.0))
    at = int(np.argmin(best + (DOUBTFUL * outside) ** 2))
    return fits[at if outside[at] >= LEAST_OUTSIDE else 0]._replace(most=most)


def _heights(depth: int, pool: float) -> Floats:
    """Shape (K,): the normal scores of the first ranks of a pool; nothing is below its last."""
    from scipy.special import ndtri  # noqa: PLC0415 - slow to import

    rank = np.minimum(np.arange(1, depth + 1), pool)
    return np.asarray(ndtri(1 - (rank - 0.375) / (pool + 0.25)))


class Below(NamedTuple):
    """Where production has items that it never showed, shape (N,) each.

    Attributes:
        gap: how far below its last position, if it can show them at all.
        reach: how likely it shows an item that the candidate has at this rank.
    """

    gap: Floats
    reach: Floats

    def outside(self, share: float) -> Floats:
        """How likely each is out of reach, if such a share of what the candidate shows is."""
        return np.asarray(share / np.maximum(share + (1 - share) * (1 - self.reach), 1e-12))


def below(word: Floats, depth: int, alike: Alike) -> Below:
    """Where production has items that it never showed.

    Args:
        word: Shape (N, K): how likely the candidate shows it at each position.
        depth: K of production's lists.
        alike: how alike both rankers are.
    """
    from scipy.special import log_ndtr, ndtr, ndtri  # noqa: PLC0415 - slow to import

    pool, rho, *_ = alike
    rest = np.sqrt(1 - rho**2)
    cut = ndtri(1 - depth / pool)
    z = word @ _heights(word.shape[1], pool) / np.maximum(word.sum(axis=1), 1e-300)
    h = (cut - rho * z) / rest
    less = np.exp(-(h**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(h))
    return Below(np.maximum(cut - (rho * z - rest * less), 0.0), ndtr(-h))
