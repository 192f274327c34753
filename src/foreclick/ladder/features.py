"""Rank features: where rankers place each (context, item) pair, day by day.

A ranker's features of a pair are its *share*, the share s of the ranker's lists that have the item,
and its *height* u, the mean normal score of its rank above that of the last position (0 where it is
not listed). Production's *rise* r is how much higher it places a pair of late than in the mean of
all days: rankers get better, so what they have come to prefer is better than what they gave up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Batch, Floats, Ints, sums
from foreclick.batches.arrays import numbered, taken
from foreclick.kept import kept

LOG_RATE_BOUNDS = -12.0, 2.0
"""Bounds of the logarithm of a rate."""

WITH_RISE = 5
"""Columns of production's features with its rise."""

HALF_LIVES = 2.0
"""How often the weight of a day halves from the end of the log to its beginning, in recent heights.

Chosen among 1, 2 and 4, on eight logs of the exam (`experiments/notes/reading.md`)."""


def rank_scores(depth: int) -> Floats:
    """Shape (K,): the normal score of each rank, of four times as many, above that of the last."""
    share = 1 - (np.arange(1, depth + 1) - 0.375) / (4 * depth + 0.25)
    z = np.array([NormalDist().inv_cdf(each) for each in share])
    return np.asarray(z - z[-1])


# --- what a batch shows, by pair and day ----------------------------------------------------------


class ListDays(NamedTuple):
    """The lists of a batch on each day, Z of them; by lists alone where days are not told apart.

    Attributes:
        list, day: Shape (Z,).
        n: Shape (Z,): records.
        of_row: Shape (rows,): the number of each row's.
    """

    list: Ints
    day: Ints
    n: Floats
    of_row: Ints

    @property
    def size(self) -> int:
        """Z."""
        return len(self.n)


@kept
def list_days(batch: Batch, *, dated: bool) -> ListDays:
    """The lists of a batch on each day."""
    rows, count = batch.row_list.astype(np.int64), len(batch.lists)
    if not dated:
        return ListDays(np.arange(count), np.zeros(count, np.int64), batch.list_n, rows)
    days = batch.cluster_count["period"]
    both, of_row = numbered(rows * days + batch.clusters["period"], count * days)
    return ListDays(both // days, both % days, sums(of_row, batch.n, len(both)), of_row)


class PairDays:
    """The pairs of a batch on each day: R pair-days, in the order of pair and day, of U cells.

    Args:
        batch: the records.
        dated: whether periods are in order.

    Attributes:
        lists: the lists by day.
        cell: Shape (Z, K): the cell (pair, day, position) of their slots; U where they are empty.
        pair_day: Shape (U,): the pair-day of each cell; `position`: its position; `cell_n`: its
            records.
        pair, day: Shape (R,); `n`: records; `height`: the sum of their normal scores.
        features: Shape (4, R): powers of production's features up to and with the day.
        whole_log: Shape (4, P): powers of its features of all days.
    """

    def __init__(self, batch: Batch, *, dated: bool) -> None:
        k, own = batch.depth, list_days(batch, dated=dated)
        self.batch, self.dated, self.lists = batch, dated, own
        days = batch.cluster_count["period"] if dated else 1
        lists = batch.lists[own.list]
        one, at = np.nonzero(lists != EMPTY)
        key = (lists[one, at].astype(np.int64) * days + own.day[one]) * k + at
        cells, number = numbered(key, batch.pair_count * days * k)
        self.cell = np.full((own.size, k), len(cells))
        self.cell[one, at] = number
        self.position = cells % k
        pair_days, self.pair_day = numbered(cells // k, batch.pair_count * days)
        self.pair, self.day, self.days = pair_days // days, pair_days % days, days
        self.starts = np.flatnonzero(np.diff(self.pair, prepend=-1))
        self.shown = self.pair[self.starts]
        self.cell_n = cell_n = sums(number, own.n[one], len(cells))
        self.n = sums(self.pair_day, cell_n, len(pair_days))
        self.height = sums(self.pair_day, cell_n * rank_scores(k)[self.position], len(pair_days))
        both = [self._until(one) for one in (self.n, self.height)]
        self.features = powers(np.stack(both) / self._records_until(own.n))
        self.whole_log = powers(production_features(batch))

    @cached_property
    def first_cell(self) -> Ints:
        """Shape (R,): the first cell of each pair-day, whose cells stand together."""
        return np.flatnonzero(np.diff(self.pair_day, prepend=-1))

    @cached_property
    def rise(self) -> Floats:
        """Shape (R,): r, of the days up to and with each."""
        weight, lists = recency(self.days), self.lists
        height = self._until(self.height * weight[self.day])
        return np.asarray(
            height / self._records_until(lists.n * weight[lists.day]) - self.features[2]
        )

    def _until(self, values: Floats) -> Floats:
        """Shape (R,): sums over a pair's days up to and with each."""
        return self.before(values) + values

    def _records_until(self, n: Floats) -> Floats:
        """Shape (R,): sums over a context's days up to and with each, of values of lists, (Z,)."""
        days, batch, own = self.days, self.batch, self.lists
        context = batch.list_context[own.list]
        here, of_list = numbered(context * np.int64(days) + own.day, batch.context_count * days)
        n = sums(of_list, n, len(here))
        until = sums_before(here // days, n) + n
        asked = batch.pair_context[self.pair] * np.int64(days) + self.day
        return np.asarray(until[np.searchsorted(here, asked)])

    @cached_property
    def slots(self) -> tuple[Ints, Ints]:
        """The slots (pair · K + position) that are shown, rising, and that of each cell, (U,)."""
        k, count = self.batch.depth, self.batch.pair_count
        return numbered(self.pair[self.pair_day] * np.int64(k) + self.position, count * k)

    def before(self, values: Floats) -> Floats:
        """Shape (R,): sums over a pair's days before each; exactly 0 before the first."""
        return sums_before(self.pair, values)

    def by_pair(self, values: Floats) -> Floats:
        """Shape (…, P): sums over the days of each pair."""
        totals = np.zeros((*values.shape[:-1], self.batch.pair_count))
        if len(self.starts):
            totals[..., self.shown] = np.add.reduceat(values, self.starts, axis=-1)
        return totals

    def by_pair_day(self, values: Floats) -> Floats:
        """Shape (R,): sums over the cells of each pair-day."""
        return np.add.reduceat(values, self.first_cell) if len(values) else np.zeros(0)


@kept
def pair_days(batch: Batch, *, dated: bool) -> PairDays:
    """The pairs of a batch by day."""
    return PairDays(batch, dated=dated)


def sums_before(group: Ints, values: Floats) -> Floats:
    """Sums of the values before each within groups, which come one after the other."""
    before = np.cumsum(values) - values
    first = np.flatnonzero(np.diff(group, prepend=-1))
    size = np.diff(np.append(first, len(group)))
    return np.asarray(before - np.repeat(before[first], size))


# --- columns of the regression --------------------------------------------------------------------


def powers(own: Floats) -> Floats:
    """Shape (4, N): 1, s, u and s² of production's features, shape (2, N)."""
    share, height = own
    return np.stack([np.ones(len(share)), share, height, share**2])


class CandidateFeatures(NamedTuple):
    """The features of V candidates, and the columns that the regression has with them.

    F = B + 4 V columns, powers of production's features alone or times those of candidates:
    1, s, u, s², and r where it counts; then s_c, u_c, s_c s and u_c u of all candidates.

    Attributes:
        share, height: Shape (N, V): s_c and u_c.
        alone: B, the columns of production's features alone.
    """

    share: Floats
    height: Floats
    alone: int

    @classmethod
    def of(cls, features: Floats, alone: int) -> CandidateFeatures:
        """Of candidates whose features are of shape (V, N, 2), beside B of production's alone."""
        share, height = np.ascontiguousarray(features.transpose(2, 1, 0))
        return cls(share, height, alone)

    def taken(self, at: Ints) -> CandidateFeatures:
        """Those of some pairs."""
        return self._replace(share=self.share[at], height=self.height[at])

    def factors(self) -> Iterator[tuple[int, slice, Floats]]:
        """Some columns: which power of production's features they are times which values (N, …)."""
        size, count = self.share.shape
        for power in range(self.alone):
            yield power, slice(power, power + 1), np.broadcast_to(np.ones(1), (size, 1))
        if count:
            both = self.share, self.height
            for number, (power, own) in enumerate(zip((0, 0, 1, 2), both * 2, strict=True)):
                first = self.alone + number * count
                yield power, slice(first, first + count), own

    def columns(self, powers: Floats) -> Floats:
        """Shape (N, F): the columns, of powers (B, N) or whatever stands for them."""
        table = np.empty((powers.shape[1], self.alone + 4 * self.share.shape[1]))
        for power, columns, own in self.factors():
            np.multiply(own, powers[power, :, None], out=table[:, columns])
        return table

    def sums(self, powers: Floats) -> Floats:
        """Shape (F,): the sums of the columns."""
        return np.concatenate([powers[power] @ own for power, _, own in self.factors()])

    def expected(self, powers: Floats, beta: Floats, at: Ints | None = None) -> Floats:
        """Shape (Z,): exp(β x) by powers (B, Z), of the pairs `at`; None: of all."""
        found = beta[: self.alone] @ powers
        if self.share.shape[1]:
            share, height, by_share, by_height = beta[self.alone :].reshape(4, -1)
            each = (
                self.share @ share + self.height @ height,
                self.share @ by_share,
                self.height @ by_height,
            )
            for own, power in zip(each, powers[:3], strict=True):
                found += power * (own if at is None else taken(own, at))
        return bounded_rates(found)


def production_features(batch: Batch) -> Floats:
    """Shape (2, P): production's share and height of each pair, of the whole log."""
    counts = np.stack([batch.shown.sum(axis=1), batch.shown @ rank_scores(batch.depth)])
    return np.asarray(counts / np.maximum(batch.context_n, 1e-300)[batch.pair_context])


def recency(days: int) -> Floats:
    """Shape (D,): the weight of each day in recent heights; they are ratios, so its scale is free.

    Weights do not depend on the day from which one looks back.
    """
    return np.asarray(2.0 ** (HALF_LIVES * np.arange(days) / days))


@kept
def production_rise(batch: Batch) -> Floats:
    """Shape (P,): r, production's rise of each pair, of the whole log."""
    weight = recency(batch.cluster_count["period"])[batch.clusters["period"]] * batch.n
    of_list = sums(batch.row_list, weight, len(batch.lists))
    one, at = np.nonzero(batch.lists != EMPTY)
    height = sums(
        batch.lists[one, at], of_list[one] * rank_scores(batch.depth)[at], batch.pair_count
    )
    records = sums(batch.list_context, of_list, batch.context_count)
    recent = height / np.maximum(records, 1e-300)[batch.pair_context]
    return np.asarray(recent - production_features(batch)[1])


def production_powers(batch: Batch, count: int) -> Floats:
    """Shape (B, P): powers of production's features of the whole log, and its rise if B is 5."""
    found = powers(production_features(batch))
    return found if count == len(found) else np.vstack([found, production_rise(batch)])


def bounded_rates(log_rates: Floats) -> Floats:
    """Rates by their logarithms, within bounds."""
    return np.asarray(np.exp(np.clip(log_rates, *LOG_RATE_BOUNDS)))


def expected_rates(x: Floats, beta: Floats) -> Floats:
    """Shape (N,): exp(β x), the expected rates at features x, shape (N, F)."""
    return bounded_rates(x @ beta)


def expected_by_production(batch: Batch, beta: Floats) -> Floats:
    """Shape (P,): exp(β x) of the pairs of a batch by production's features alone."""
    return bounded_rates(beta @ production_powers(batch, len(beta)))


def by_row(values: Floats, at: Ints, rates: Floats) -> Floats:
    """Shape (V, R): Σ_k values rates[at], of slots (R, K) and rates (G, V); 0 where at is G."""
    from scipy import sparse  # noqa: PLC0415 - slow to import

    rows, depth = values.shape
    some = (values.ravel(), at.ravel(), np.arange(0, values.size + 1, depth))
    slots = sparse.csr_array(some, shape=(rows, len(rates) + 1))
    return np.asarray((slots @ np.vstack([rates, np.zeros(rates.shape[1])])).T)
