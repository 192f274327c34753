"""What a ladder estimates of a candidate, where that comes from, and how far records move it.

The value is Σ_x n_x Σ_g h_g r_g over the candidate's cells. Strengths given, a rate moves with the
counts of its own cell and with the rate of the rung below, which moves with all of its cells. So
the estimate moves by A_g (c_g(t) − r_g n_g(t)) for a record t, summed over the cells of the top:
the influence function of a weighted estimator, with A for the weight.

A comes down the ladder as rates do. With H the candidate's exposure that gets its rate from a cell,
of its own or by backing off,

    A = H / (n + s) + A' s / (n + s),        A = H / n on the last rung.

The log's rate needs the counts of all contexts, and A there needs what of the candidate reaches
it: three maps over batches, `count`, `values`, `influence`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Bools, Candidate, Cluster, Floats, Ints, padded, sums
from foreclick.batches.arrays import numbered
from foreclick.estimators.ladder.rates import (
    CandidateCells,
    LogCells,
    Reach,
    Rungs,
    candidate_cells,
    exposure_at,
    log_cells,
    reward_of,
    sums_of_each,
)
from foreclick.estimators.ladder.shrinkage import base_rate
from foreclick.estimators.ladder.spec import Fitted
from foreclick.metrics import Metric

VALUES = 4_000_000
"""Numbers of pairs of estimates times cells that are in memory at a time: 32 MB."""


class Counted(NamedTuple):
    """What the contexts of a batch pass on to the log's rung.

    Attributes:
        n: Shape (X,): records.
        c: Shape (X,): clicks.
        stratum: Shape (X,).
    """

    n: Floats
    c: Floats
    stratum: Ints


class Coarse(NamedTuple):
    """The log's rung, which contexts share.

    Attributes:
        stratum: Shape (all contexts,).
        n: Shape (strata,): records that reach the rung.
        rate: Shape (strata,).
    """

    stratum: Ints
    n: Floats
    rate: Floats


@dataclass(frozen=True, eq=False)
class Influence:
    """How far the records of a batch move the estimates of M metrics.

    Attributes:
        factor: Shape (M, G): A of each cell of the log's top.
        rate: Shape (G,): r of each cell of the log's top.
        unsettled: Shape (X, M): the variance of Σ h r that shrinkage hides.
        weighted: Shape (X, M): Σ n A over the cells of the top.
        squared: Shape (X, M): Σ n A².
    """

    batch: Batch
    reward: str
    log: LogCells
    factor: Floats
    rate: Floats
    unsettled: Floats
    weighted: Floats
    squared: Floats

    def per_record(self, i: int) -> Floats:
        """Shape (R,): Σ A (w − r) over the slots of one record of each row, for metric i."""
        top, batch = self.log.top, self.batch
        factor = np.append(self.factor[i], 0.0)  # of the cell beyond the last: nothing is shown
        expected = (factor * np.append(self.rate, 0.0))[top].sum(axis=1)
        earned = reward_of(batch, self.reward)
        moved = factor[top[batch.row_list[earned.row], earned.position]] * earned.value
        return np.asarray(sums(earned.row, moved, len(batch.n)) - expected[batch.row_list])

    def by_cluster(self, i: int, kind: Cluster) -> Floats:
        """Shape (X, T): Σ A (w − r) over the records of each context in each cluster."""
        batch, count = self.batch, self.batch.cluster_count[kind]
        key = batch.row_context.astype(np.int64) * count + batch.clusters[kind]
        moved = self.per_record(i) * batch.n
        return sums(key, moved, batch.context_count * count).reshape(-1, count)


class _Placed(NamedTuple):
    """A candidate's cells in a batch, with rates and with its exposure on every rung.

    Attributes:
        cells: of the batch and the candidate.
        rates: Shape (G_j,) by rung.
        expected: Shape (G_j,) by rung: what the rung below expects.
        used: Shape (Q,): the top's cells that the candidate shows.
        h: Shape (C × M, Q): their exposure, times records; of several candidates, one after the
            other.
    """

    cells: CandidateCells
    rates: list[Floats]
    expected: list[Floats]
    used: Ints
    h: Floats


class LadderEstimate:
    """The estimates of one ladder for one candidate, by maps over the batches of a log.

    First `count` every batch, then take `values` of every batch, then `influence` of every batch;
    the numbers of batches say which is which. Exposures and credits are times records, n_x.

    Args:
        fit: the ladder.
        metrics: M metrics of the same reward.
        strata: how many parts of the log are estimated apart.
        counted: what `count` found for the same fit, reward and batches; to share among candidates.
    """

    def __init__(
        self,
        fit: Fitted,
        metrics: Sequence[Metric],
        strata: int = 1,
        counted: dict[int, Counted] | None = None,
    ) -> None:
        self.fit, self.metrics, self.strata = fit, list(metrics), strata
        self.counted: dict[int, Counted] = {} if counted is None else counted
        self._taken: dict[int, Bools] = {}
        self._reach: dict[int, Floats] = {}
        self._placed: tuple[int, Candidate, _Placed] | None = None

    # --- first map: counts ------------------------------------------------------------------------

    def count(self, number: int, batch: Batch, taken: Bools | None = None) -> None:
        """Note what a batch passes on to the log's rung.

        Args:
            number: of the batch.
            batch: its records.
            taken: Shape (X,): the contexts that take part; others are left out of everything.
        """
        if taken is not None:
            self._taken[number] = taken
        if number not in self.counted:
            passed = self._log(batch).rungs.passed_on()
            self.counted[number] = Counted(*passed, batch.stratum.astype(np.int64))

    def _log(self, batch: Batch) -> LogCells:
        return log_cells(batch, self.fit, self.metrics[0].reward)

    @cached_property
    def coarse(self) -> Coarse:
        """The log's rung; sums are taken in the order of contexts."""
        found = [self.counted[number] for number in sorted(self.counted)]
        n, c, stratum = (
            np.concatenate([getattr(f, k) for f in found]) for k in ("n", "c", "stratum")
        )
        if self._taken:
            taken = np.concatenate([self._taken[number] for number in sorted(self.counted)])
            n, c = n * taken, c * taken
        n, c = sums(stratum, n, self.strata), sums(stratum, c, self.strata)
        return Coarse(stratum, n, base_rate(n, c))

    def _stratum(self, number: int) -> Ints:
        """Shape (X,): the stratum of each context of a batch."""
        return self.counted[number].stratum

    def _base(self, number: int) -> Floats:
        """Shape (X,): the rate that each context of a batch backs off to."""
        return self.coarse.rate[self._stratum(number)]

    # --- second map: values -----------------------------------------------------------------------

    def values(self, number: int, batch: Batch, candidate: Candidate) -> dict[str, Floats]:
        """What each context adds to the estimates, and on which rungs its rates were found.

        Returns:
            Shape (X, M): `credit` Σ h r; `borrowed`, that of items never shown; `mass` Σ h;
            `covered`, the part of it whose items were shown; `cells`, how many the candidate uses;
            `seen`, how many of them were logged. Shape (X, M, J): `share`, the part of the mass
            whose rate comes from each of J rungs.
        """
        placed = self._place(number, batch, candidate)
        rungs, used, h = placed.cells.rungs, placed.used, placed.h
        context, count = rungs.end[0][used], batch.context_count
        item = _item_of(rungs, used)
        shares, reach = _shares(placed)
        self._reach[number] = sums_of_each(context, reach, count)
        counted, credit = (h > 0).astype(np.float64), h * placed.rates[0][used]
        shown = rungs.n[-2][item] > 0
        found = {
            "credit": credit,
            "borrowed": credit * ~shown,
            "mass": h,
            "covered": h * shown,
            "cells": counted,
            "seen": counted * (rungs.n[0][used] > 0),
        }
        by_context = {name: sums_of_each(context, v, count).T for name, v in found.items()}
        share = np.stack([sums_of_each(context, h * row, count).T for row in shares], axis=2)
        return by_context | {"share": share}

    def _place(self, number: int, batch: Batch, candidate: Candidate) -> _Placed:
        """The candidate's cells in a batch; the last result is kept."""
        if self._placed is not None and self._placed[:2] == (number, candidate):
            return self._placed[2]
        cells = candidate_cells(batch, candidate, self.fit, self._log(batch))
        rates, expected = cells.rungs.rates(self._base(number))
        used, at = numbered(cells.cell, len(cells.rungs.n[0]))
        shown = batch.context_n[cells.context] * cells.mass
        if number in self._taken:
            shown = shown * self._taken[number][cells.context]
        counted = shown[:, None] * self._theta(candidate.depth)[:, cells.position]
        h = sums_of_each(at, np.concatenate(counted), len(used))
        found = _Placed(cells, rates, expected, used, h)
        self._placed = number, candidate, found
        return found

    def _theta(self, depth: int) -> Floats:
        """Shape (M, depth)."""
        return np.stack([padded(metric.theta, depth) for metric in self.metrics])

    def scored(self, number: int, batch: Batch, candidate: Candidate) -> Floats:
        """Shape (lists, M): the value of each of the candidate's lists, Σ_k θ_k r."""
        cells = candidate_cells(batch, candidate, self.fit, self._log(batch), by_list=True)
        rate = cells.rungs.rates(self._base(number))[0][0][cells.cell]
        worth = rate * self._theta(candidate.depth)[:, cells.position]
        return sums_of_each(cells.listed, worth, len(candidate.lists.mass)).T

    # --- third map: influence ---------------------------------------------------------------------

    @cached_property
    def _base_factors(self) -> Floats:
        """Shape (M, strata): A of the log's rung."""
        total = np.concatenate([self._reach[number] for number in sorted(self.counted)], axis=1)
        reach, n = sums_of_each(self.coarse.stratum, total, self.strata), self.coarse.n
        return np.divide(reach, n, out=np.zeros_like(reach), where=n > 0)

    def influence(self, number: int, batch: Batch, candidate: Candidate) -> Influence:
        """How far the records of a batch move the estimates."""
        placed = self._place(number, batch, candidate)
        rungs = placed.cells.rungs
        reached, factors = self._factors(number, placed)
        log = self._log(batch)
        count = len(log.rungs.n[0])
        factor, n = factors[0][:, :count], log.rungs.n[0]
        context = rungs.end[0][:count]
        return Influence(
            batch=batch,
            reward=self.metrics[0].reward,
            log=log,
            factor=factor,
            rate=placed.rates[0][:count],
            unsettled=rungs.unsettled(reached, factors[1:], placed.expected).T,
            weighted=sums_of_each(context, n * factor, batch.context_count).T,
            squared=sums_of_each(context, n * factor * factor, batch.context_count).T,
        )

    def _factors(
        self, number: int, placed: _Placed, first: int = 0
    ) -> tuple[list[Reach], list[Floats]]:
        """By rung, what of the candidate reaches its cells; and from rung `first` on, their A."""
        base = self._base_factors[:, self._stratum(number)]
        if number in self._taken:
            base = base * self._taken[number]
        reached = placed.cells.rungs.reached(placed.used, placed.h)
        return reached, placed.cells.rungs.factors(reached, base, first)

    def unsettled(
        self, number: int, batch: Batch, candidate: Candidate, pairs: tuple[Ints, Ints]
    ) -> Iterator[tuple[slice, Floats]]:
        """The covariances of Σ h r that shrinkage hides: some pairs at a time.

        Args:
            number: of the batch.
            batch: its records.
            candidate: one, or several; of C of them and M metrics there are C × M estimates.
            pairs: of estimates.

        Yields:
            Which of the pairs, and of each, shape (X, pairs), its covariance.
        """
        placed = self._place(number, batch, candidate)
        reached, lower = self._factors(number, placed, first=1)
        size = max(VALUES // max(*(len(each.cells) for each in reached), batch.context_count), 1)
        for start in range(0, len(pairs[0]), size):
            some = slice(start, start + size)
            mine = pairs[0][some], pairs[1][some]
            yield some, placed.cells.rungs.unsettled(reached, lower, placed.expected, mine).T


def _shares(placed: _Placed) -> tuple[list[Floats], Floats]:
    """By rung, shape (Q,): which share of a used cell's rate comes from it.

    And shape (M, Q): the exposure of used cells that reaches the log's rung.
    """
    left, reach, found = np.ones(len(placed.used)), placed.h, []
    at, rungs = placed.used, placed.cells.rungs
    for j in range(len(rungs)):
        passed = rungs.borrowed[j][at]
        found.append(left * (1 - passed))
        left = left * passed
        reach = reach * (passed * exposure_at(rungs.exposed[j], at))
        at = rungs.below[j][at]
    return [*found, left], reach


def _item_of(rungs: Rungs, cells: Ints) -> Ints:
    """The cell of the rung "item" that each cell of the top leads to."""
    for below in rungs.below[:-2]:
        cells = below[cells]
    return cells
