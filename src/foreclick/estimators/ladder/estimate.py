"""What a ladder estimates of a candidate, where that comes from, and how far records move it.

The value is Σ_x n_x Σ_g h_g r_g over the candidate's cells. Strengths given, a rate moves with the
counts of its own cell and with the rate of the rung below, which moves with all of its cells. So
the estimate moves by A_g (c_g(t) − r_g n_g(t)) for a record t, summed over the cells of the top:
the influence function of a weighted estimator, with A for the weight.

A comes down the ladder as rates do. With H the candidate's exposure that gets its rate from a cell,
of its own or by backing off,

    A = H / (n + s) + A' s / (n + s),        A = H / n on the last rung.

Rates of classes and of the log need the counts of all contexts, and A there needs what of the
candidate reaches them: three maps over batches, `count`, `values`, `influence`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Batches, Bools, Candidate, Cluster, Floats, Ints, padded, sums
from foreclick.batches.arrays import accumulate, numbered, value_of_each
from foreclick.estimators.ladder.classes import classes_of
from foreclick.estimators.ladder.items import UNKNOWN
from foreclick.estimators.ladder.rates import (
    EACH,
    CandidateCells,
    LogCells,
    Pairs,
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
    """What the contexts of a batch pass on to the rungs that contexts share.

    Attributes:
        n: Shape (X,): records.
        c: Shape (X,): clicks.
        classes: Shape (C, X): the classes of each context, finest first.
        stratum: Shape (X,).
    """

    n: Floats
    c: Floats
    classes: Ints
    stratum: Ints


class Coarse(NamedTuple):
    """The rungs that contexts share, by stratum.

    Attributes:
        rungs: classes, if any.
        first: Shape (all contexts,): the cell of the first of these rungs, or of the log.
        n: Shape (strata,): records that reach the log's rung.
        rates: Shape (G,) each: by rung, the log's last.
        expected: Shape (G,) each: what the rung below expects of each class.
    """

    rungs: Rungs
    first: Ints
    n: Floats
    rates: list[Floats]
    expected: list[Floats]


@dataclass(frozen=True, eq=False)
class Influence:
    """How far the records of a batch move the estimates of M metrics.

    Attributes:
        factor: Shape (M, G): A of each cell of the log's top.
        rate: Shape (G,): r of each cell of the log's top.
        unsettled: Shape (X, M): the variance of Σ h r that shrinkage hides, but for classes.
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
        batches: the log, for the number of its classes.
        strata: how many parts of the log are estimated apart.
        counted: what `count` found for the same fit, reward and batches; to share among candidates.
    """

    def __init__(
        self,
        fit: Fitted,
        metrics: Sequence[Metric],
        batches: Batches,
        strata: int = 1,
        counted: dict[int, Counted] | None = None,
    ) -> None:
        self.fit, self.metrics, self.batches, self.strata = fit, list(metrics), batches, strata
        self.counted: dict[int, Counted] = {} if counted is None else counted
        self._taken: dict[int, Bools] = {}
        self._reach: dict[int, Floats] = {}
        self._placed: tuple[int, Candidate, _Placed] | None = None
        self._slopes: Floats | None = None

    # --- first map: counts ------------------------------------------------------------------------

    def count(self, number: int, batch: Batch, taken: Bools | None = None) -> None:
        """Note what a batch passes on to the rungs that contexts share.

        Args:
            number: of the batch.
            batch: its records.
            taken: Shape (X,): the contexts that take part; others are left out of everything.
        """
        if taken is not None:
            self._taken[number] = taken
        if number not in self.counted:
            classes = classes_of(batch, self.fit.ladder.segments, self.batches)
            passed = self._log(batch).rungs.passed_on()
            self.counted[number] = Counted(*passed, classes, batch.stratum.astype(np.int64))

    def _log(self, batch: Batch) -> LogCells:
        return log_cells(batch, self.fit, self.metrics[0].reward)

    @cached_property
    def _starts(self) -> dict[int, int]:
        """Where the contexts of each batch begin among all contexts."""
        order = sorted(self.counted)
        sizes = [len(self.counted[number].n) for number in order]
        return dict(zip(order, np.cumsum([0, *sizes]).tolist(), strict=False))

    @cached_property
    def coarse(self) -> Coarse:
        """The rungs that contexts share; sums are taken in the order of contexts."""
        found = [self.counted[number] for number in sorted(self.counted)]
        n, c, stratum = (
            np.concatenate([getattr(f, k) for f in found]) for k in ("n", "c", "stratum")
        )
        classes = np.concatenate([f.classes for f in found], axis=1)
        if self._taken:
            taken = np.concatenate([self._taken[number] for number in sorted(self.counted)])
            n, c = n * taken, c * taken
        cells = [_by_stratum(row, stratum, self.strata) for row in classes]
        below = [
            value_of_each(cell, other)
            for cell, other in zip(cells, [*cells, stratum][1:], strict=True)
        ]
        first, count = (cells[0], len(below[0])) if cells else (stratum, self.strata)
        n, c = sums(first, n, count), sums(first, c, count)
        if not cells:
            rungs = Rungs((), (), (), (), (), self.strata)
        else:
            given = self.fit.strengths[-len(cells) :]
            rungs = Rungs.climbed(given, n, c, below, [1.0] * len(below), self.strata)
            n, c = (sums(below[-1], passed, self.strata) for passed in rungs.passed_on())
        rates, expected = rungs.rates(base_rate(n, c))
        return Coarse(rungs, first, n, [*rates, base_rate(n, c)], expected)

    def _first(self, number: int) -> Ints:
        """Shape (X,): the cell of the first rung below each context of a batch."""
        start = self._starts[number]
        return self.coarse.first[start : start + len(self.counted[number].n)]

    def _base(self, number: int) -> Floats:
        """Shape (X,): the rate that each context of a batch backs off to."""
        return self.coarse.rates[0][self._first(number)]

    # --- second map: values -----------------------------------------------------------------------

    def values(self, number: int, batch: Batch, candidate: Candidate) -> dict[str, Floats]:
        """What each context adds to the estimates, and on which rungs its rates were found.

        Returns:
            Shape (X, M): `credit` Σ h r; `borrowed`, that of items never shown; `mass` Σ h;
            `covered`, the part of it whose items were shown; `cells`, how many the candidate uses;
            `seen`, how many of them were logged. Shape (X, M, J): `share`, the part of the mass
            whose rate comes from each of J sources.

            With a table of items, `borrowed` is what features leave open, and there are `doubted`,
            the mass of items never shown, likewise; and shape (X,) each, `predicted` and
            `unpredicted`, how many of these items features tell of, and how many they do not.
        """
        placed = self._place(number, batch, candidate)
        rungs, used, h = placed.cells.rungs, placed.used, placed.h
        context, count = rungs.end[0][used], batch.context_count
        item = _item_of(rungs, used)
        shares, reach = self._shares(number, placed, item)
        self._reach[number] = sums_of_each(context, reach, count)
        counted, credit = (h > 0).astype(np.float64), h * placed.rates[0][used]
        doubt = (rungs.n[-2][item] == 0) * self._doubt(placed.cells, item)
        found = {
            "credit": credit,
            "borrowed": credit * doubt,
            "mass": h,
            "covered": h * (rungs.n[-2][item] > 0),
            "cells": counted,
            "seen": counted * (rungs.n[0][used] > 0),
        }
        by_context = {name: sums_of_each(context, v, count).T for name, v in found.items()}
        if placed.cells.lean is not None:
            new = np.unique(item[(rungs.n[-2][item] == 0) & (h > 0).any(axis=0)])
            known = self._predicted(placed.cells, new)
            by_context["doubted"] = sums_of_each(context, h * doubt, count).T
            for name, some in (("predicted", known), ("unpredicted", ~known)):
                by_context[name] = sums(rungs.below[-2][new], some, count)
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

    def _predicted(self, cells: CandidateCells, item: Ints) -> Bools:
        """Which of some cells of the rung "item" features tell of."""
        if cells.lean is None:
            return np.zeros(len(item), dtype=np.bool_)
        return np.asarray(cells.lean.row[item] != UNKNOWN)

    def _doubt(self, cells: CandidateCells, item: Ints) -> Floats:
        """Shape (Q,): how much of what an item never shown was given is open."""
        features = self.fit.features
        if features is None or features.evidence is None:
            return np.ones(len(item))
        return np.where(self._predicted(cells, item), features.evidence.doubt, 1.0)

    def _shares(self, number: int, placed: _Placed, item: Ints) -> tuple[list[Floats], Floats]:
        """By source, shape (Q,): which share of a used cell's rate comes from it.

        And shape (M, Q): the exposure of used cells that reaches the rung below the contexts.

        Args:
            number: of the batch.
            placed: the candidate.
            item: Shape (Q,): the cells of the rung "item".
        """
        left, reach, found = np.ones(len(placed.used)), placed.h, []
        at: Ints = placed.used
        fine = placed.cells.rungs
        for rungs in (fine, self.coarse.rungs):
            for j in range(len(rungs)):
                passed = rungs.borrowed[j][at]
                found.append(left * (1 - passed))
                left = left * passed
                if placed.cells.lean is not None and j == len(rungs) - 2 and rungs is fine:
                    known = self._predicted(placed.cells, item)
                    found.append(left * known)
                    left = left * ~known
                if rungs is fine:
                    reach = reach * (passed * exposure_at(rungs.exposed[j], at))
                at = rungs.below[j][at]
            if rungs is fine:
                at = self._first(number)[at]
        return [*found, left], reach

    def scored(self, number: int, batch: Batch, candidate: Candidate) -> Floats:
        """Shape (lists, M): the value of each of the candidate's lists, Σ_k θ_k r."""
        cells = candidate_cells(batch, candidate, self.fit, self._log(batch), by_list=True)
        rate = cells.rungs.rates(self._base(number))[0][0][cells.cell]
        worth = rate * self._theta(candidate.depth)[:, cells.position]
        return sums_of_each(cells.listed, worth, len(candidate.lists.mass)).T

    # --- third map: influence ---------------------------------------------------------------------

    @cached_property
    def _coarse_factors(self) -> tuple[list[Reach], list[Floats]]:
        """By coarse rung, what of the candidate reaches its cells, and their A, shape (M, G)."""
        coarse = self.coarse
        total = np.concatenate([self._reach[number] for number in sorted(self.counted)], axis=1)
        count = len(coarse.rungs.n[0]) if len(coarse.rungs) else self.strata
        reach = [sums_of_each(coarse.first, total, count)]
        for j in range(len(coarse.rungs)):
            size = len(coarse.rungs.n[j + 1]) if j + 1 < len(coarse.rungs) else self.strata
            passed = reach[-1] * coarse.rungs.borrowed[j]
            reach.append(sums_of_each(coarse.rungs.below[j], passed, size))
        base = np.divide(reach[-1], coarse.n, out=np.zeros_like(reach[-1]), where=coarse.n > 0)
        reached = [Reach(np.arange(each.shape[1]), each) for each in reach[:-1]]
        return reached, coarse.rungs.factors(reached, base)

    def influence(self, number: int, batch: Batch, candidate: Candidate) -> Influence:
        """How far the records of a batch move the estimates."""
        placed = self._place(number, batch, candidate)
        rungs = placed.cells.rungs
        reached, factors = self._factors(number, placed)
        log = self._log(batch)
        count = len(log.rungs.n[0])
        factor, n = factors[0][:, :count], log.rungs.n[0]
        context = rungs.end[0][:count]
        self._add_slopes(batch, placed, reached[-2])
        return Influence(
            batch=batch,
            reward=self.metrics[0].reward,
            log=log,
            factor=factor,
            rate=placed.rates[0][:count],
            unsettled=self._unsettled(placed, reached, factors[1:], EACH),
            weighted=sums_of_each(context, n * factor, batch.context_count).T,
            squared=sums_of_each(context, n * factor * factor, batch.context_count).T,
        )

    def _factors(
        self, number: int, placed: _Placed, first: int = 0
    ) -> tuple[list[Reach], list[Floats]]:
        """By rung, what of the candidate reaches its cells; and from rung `first` on, their A."""
        base = self._coarse_factors[1][0][:, self._first(number)]
        if number in self._taken:
            base = base * self._taken[number]
        reached = placed.cells.rungs.reached(placed.used, placed.h)
        return reached, placed.cells.rungs.factors(reached, base, first)

    def unsettled(
        self, number: int, batch: Batch, candidate: Candidate, pairs: tuple[Ints, Ints]
    ) -> Iterator[tuple[slice, Floats]]:
        """The covariances of Σ h r that shrinkage hides, but for classes: some pairs at a time.

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
        self._add_slopes(batch, placed, reached[-2])
        size = max(VALUES // max(*(len(each.cells) for each in reached), batch.context_count), 1)
        for start in range(0, len(pairs[0]), size):
            some = slice(start, start + size)
            yield some, self._unsettled(placed, reached, lower, (pairs[0][some], pairs[1][some]))

    def _unsettled(
        self, placed: _Placed, reached: list[Reach], lower: list[Floats], pairs: Pairs
    ) -> Floats:
        found = placed.cells.rungs.unsettled(reached, lower, placed.expected, pairs)
        return (found + self._unpredictable(placed, reached[-2], pairs)).T

    def _unpredictable(self, placed: _Placed, reached: Reach, pairs: Pairs) -> Floats:
        """Shape (pairs, X): the variance of items never shown around what features say of them.

        It is that of items held out, instead of what the rung's strength says; which is taken off.
        """
        features, rungs, (one, other) = self.fit.features, placed.cells.rungs, pairs
        product = reached.h[one] * reached.h[other]
        found = np.zeros((len(product), len(rungs.n[-1])))
        if features is None:
            return found
        more = features.spread - 1 / rungs.strengths[-2]
        new = (rungs.n[-2][reached.cells] == 0) & self._predicted(placed.cells, reached.cells)
        variance = product * (more * new * placed.expected[-2][reached.cells])
        return found + sums_of_each(rungs.below[-2][reached.cells], variance, found.shape[1])

    def _add_slopes(self, batch: Batch, placed: _Placed, reached: Reach) -> None:
        """Note how far the estimates move with the coefficients of features.

        The rate of a context does not, for e is 1 on average over what it has shown.
        """
        features, lean, rungs = self.fit.features, placed.cells.lean, placed.cells.rungs
        if features is None or lean is None:
            return
        cells = reached.cells
        moved = rungs.borrowed[-2][cells] * placed.rates[-1][rungs.below[-2][cells]]
        each = (features.slopes(lean, cells) * moved[:, None]).T
        by_context = [
            sums_of_each(rungs.below[-2][cells], each * h, batch.context_count).T for h in reached.h
        ]
        if self._slopes is None:
            self._slopes = np.zeros((self.strata, len(reached.h), len(each)))
        accumulate(self._slopes, batch.stratum, np.stack(by_context, axis=1))

    def shared_unsettled(self, pairs: Pairs = EACH) -> Floats:
        """Shape (strata, pairs): the covariances of Σ h r by what contexts share.

        That is what shrinkage hides in classes of contexts, and the coefficients of features.
        """
        rungs, (one, other) = self.coarse.rungs, pairs
        reached, factors = self._coarse_factors
        found = np.zeros((self.strata, len(factors[0][one])))
        if len(rungs):
            by_class = rungs.unsettled(reached, factors[1:], self.coarse.expected, pairs)
            found += sums_of_each(rungs.below[-1], by_class, self.strata).T
        if self._slopes is not None and self.fit.features is not None:
            covariance = self.fit.features.covariance
            found += ((self._slopes[:, one] @ covariance) * self._slopes[:, other]).sum(axis=2)
        return found


def _item_of(rungs: Rungs, cells: Ints) -> Ints:
    """The cell of the rung "item" that each cell of the top leads to."""
    for below in rungs.below[:-2]:
        cells = below[cells]
    return cells


def _by_stratum(key: Ints, stratum: Ints, strata: int) -> Ints:
    """Consecutive numbers of keys, apart by stratum."""
    both = key * strata + stratum
    return numbered(both, int(both.max(initial=-1)) + 1)[1]
