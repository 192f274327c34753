"""Errors of a ladder: every case predicted from what the other folds leave on each rung.

Rungs down to the context are worked out batch by batch; those that contexts share, classes and the
whole log, are known only after the last one. But a prediction is linear in the rate ρ that the
context borrows from them, V̂ = α + β ρ, and ρ is one number for a class and a fold. So the sums of
squared errors are kept as the coefficients of a polynomial in ρ, and one pass is enough:

    Σ w (α + β ρ − V)² = Σ w δ² + 2 ρ Σ w δ β + ρ² Σ w β²,    δ = α − V
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from foreclick.batches import EMPTY, Batch, Batches, Floats, Ints, Totals, padded, sums
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.errors import ModelError
from foreclick.estimators.cells import Ask
from foreclick.estimators.holdout.cells import Cases, Cut, fold_cells, runs, training
from foreclick.estimators.ladder.rates import log_cells, slot_examination
from foreclick.estimators.ladder.shrinkage import base_rate, borrowed, climb, descend
from foreclick.estimators.ladder.spec import Fitted
from foreclick.words import number_of


class LadderErrors:
    """Sums of errors, by fold, of a ladder and several metrics of one reward.

    Args:
        asks: the metrics.
        fit: the ladder, with the strengths and the examination of the whole log.
        folds: T.
        classes: of contexts, by the segments of the ladder.
        forward: whether only earlier folds predict a fold.
    """

    def __init__(
        self, asks: Sequence[Ask], fit: Fitted, folds: int, classes: Classes, *, forward: bool
    ) -> None:
        self.asks, self.fit, self.folds, self.forward = asks, fit, folds, forward
        self.classes, count = classes, len(classes.numbers)
        self._whole, self._by_fold = Totals(count), Totals(count * folds)

    def add(self, cut: Cut, cases: Cases) -> None:
        """Add the errors in the contexts of a batch."""
        found = _climbed(cut, self.asks[0], self.fit)
        number = self.classes.of_contexts(cut.batch)
        context_class = np.searchsorted(self.classes.numbers, number)
        stratum = context_class[cut.case_context] * self.folds + cut.case_fold
        self._whole.add("passed", found.passed_whole, context_class)
        self._by_fold.add("passed", found.passed_own, stratum)
        for ask in self.asks:
            weight = found.n * padded(ask.metric.theta, cut.batch.depth)[found.position]
            alpha, beta = (
                (sums(found.case, weight * part, len(cut.case_n)) / cut.case_n)[cases.number]
                for part in (found.rate, found.share)
            )
            delta, w = alpha - cases.truth[ask.metric], cases.weight
            parts = [w * delta**2, w * delta * beta, w * beta**2, w * delta, w * beta]
            self._by_fold.add(ask, np.stack(parts, axis=1), stratum[cases.number])

    def sums(self) -> dict[Ask, tuple[Floats, Floats]]:
        """Shape (T, 1) each: the squared errors and the errors."""
        rho, found = self._shared_rate(), {}
        for ask in self.asks:
            dd, db, bb, d, b = self._by_fold.sum(ask).T.reshape(5, -1, self.folds)
            squared = (dd + 2 * rho * db + rho**2 * bb).sum(axis=0)
            found[ask] = np.maximum(squared, 0.0)[:, None], (d + rho * b).sum(axis=0)[:, None]
        return found

    def _shared_rate(self) -> Floats:
        """Shape (classes, T): the rate that a context of each class borrows, for each fold."""
        numbers, fold = self.classes.numbers, np.arange(self.folds)
        strengths = self.fit.strengths[len(self.fit.strengths) - len(self.classes.segments) :]
        counts = _Counts(*self._by_fold.sum("passed").T, *self._whole.sum("passed").T)
        rungs = []
        for size, s in zip(self.classes.sizes[1:], strengths, strict=True):
            coarser, below = np.unique(numbers % size, return_inverse=True)
            rung = _Rung(
                s=s,
                cell=np.repeat(np.arange(len(numbers)), self.folds),
                below=(below[:, None] * self.folds + fold).ravel(),
                cell_below=below,
                sizes=(len(coarser) * self.folds, len(coarser)),
            )
            rungs.append((rung, *counts.left(rung.cell, forward=self.forward)))
            counts, numbers = counts.passed_on(*rungs[-1]), coarser
        log = np.zeros(self.folds, dtype=np.int64)
        rate = base_rate(*counts.left(log, forward=self.forward))
        for rung, n, c in reversed(rungs):
            rate = descend(n, c, rung.s, rate[rung.below])
        return rate.reshape(-1, self.folds)


@dataclass(frozen=True, eq=False)
class Classes:
    """What contexts have in common: the values of their segments, as one number.

    Attributes:
        segments: the finest first.
        sizes: the classes by segment j and those after it are numbered below `sizes[j]`; the last
            is 1, that of the whole log.
        numbers: Shape (C,), rising: the classes that occur.
    """

    segments: Sequence[str]
    sizes: Sequence[int]
    numbers: Ints

    @classmethod
    def of(cls, batches: Batches, segments: Sequence[str]) -> Classes:
        """The classes of a log; refused where a context has several."""
        counts = [len(batches.codebook.segments[segment]) for segment in segments]
        sizes = [math.prod(counts[j:]) for j in range(len(counts) + 1)]
        found, several = np.zeros(1 - min(len(segments), 1), dtype=np.int64), []
        for batch in batches if segments else ():
            classes = cls(segments, sizes, found)
            of_row, of_context = classes._of_rows(batch), classes.of_contexts(batch)
            mixed = np.unique(batch.row_context[of_row != of_context[batch.row_context]])
            several += batch.contexts.take(pa.array(mixed)).to_pylist()
            found = np.union1d(found, of_row)
        if several:
            raise ModelError(
                f"{number_of(len(several), 'context')} with several values of "
                f"{', '.join(segments)}, for example {several[0]!r}, so it is no class of "
                "contexts. Name a column that says the same of every record of a context, or make "
                "it part of the context."
            )
        return cls(segments, sizes, found)

    def _of_rows(self, batch: Batch) -> Ints:
        codes = [batch.segments[segment].astype(np.int64) for segment in self.segments]
        found = np.zeros(len(batch.n), dtype=np.int64)
        for code, size in zip(codes, self.sizes[1:], strict=True):
            found += code * size
        return found

    def of_contexts(self, batch: Batch) -> Ints:
        """Shape (X,): the number of each context's class."""
        found = np.zeros(batch.context_count, dtype=np.int64)
        found[batch.row_context] = self._of_rows(batch)
        return found


# --- rungs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rung:
    """The entries of a rung (its cells in every fold), and where they belong on the rung below.

    Attributes:
        s: the strength.
        cell: Shape (E,), sorted: the cell of each entry.
        below: Shape (E,): the entry of the rung below.
        cell_below: Shape (G,): the cell of the rung below.
        sizes: how many entries and cells the rung below has.
        exposed: Shape (G,): how much a record of a cell exposes the cell below.
    """

    s: float
    cell: Ints
    below: Ints
    cell_below: Ints
    sizes: tuple[int, int]
    exposed: Floats | None = None

    @property
    def entry_exposed(self) -> Floats | float:
        """Shape (E,)."""
        return 1.0 if self.exposed is None else self.exposed[self.cell]


class _Counts(NamedTuple):
    """Records and clicks on a rung.

    Attributes:
        own_n: Shape (E,): records that a fold adds to a cell.
        own_c: Shape (E,): clicks.
        whole_n: Shape (G,): records of all folds.
        whole_c: Shape (G,): clicks.
    """

    own_n: Floats
    own_c: Floats
    whole_n: Floats
    whole_c: Floats

    def left(self, cell: Ints, *, forward: bool) -> tuple[Floats, Floats]:
        """Shape (E,) each: records and clicks that each fold is predicted from."""
        n = training(self.own_n, cell, self.whole_n, forward=forward)
        return n, training(self.own_c, cell, self.whole_c, forward=forward)

    def passed_on(self, rung: _Rung, n: Floats, c: Floats) -> _Counts:
        """The counts of the rung below.

        What a cell passes on is no sum over folds. But a cell that a fold has no part in passes on
        the same with the fold and without, so a fold adds Σ borrowed(with it) − borrowed(left).
        """
        s, below, exposed, size = rung.s, rung.below, rung.entry_exposed, rung.sizes[0]
        with_n, with_c = climb(n + self.own_n, c + self.own_c, s, below, size, exposed)
        left_n, left_c = climb(n, c, s, below, size, exposed)
        every = 1.0 if rung.exposed is None else rung.exposed
        whole = climb(self.whole_n, self.whole_c, s, rung.cell_below, rung.sizes[1], every)
        return _Counts(with_n - left_n, with_c - left_c, *whole)


class _Climbed(NamedTuple):
    """What the rungs of a context say of the entries of the top rung.

    Attributes:
        n: Shape (E,): records held out.
        case: Shape (E,).
        position: Shape (E,), from 0.
        rate: Shape (E,): the click rate, where contexts share no rungs.
        share: Shape (E,): which share of the rate that the context borrows is added to it.
        passed_own: Shape (Q, 2): records and clicks that the case adds to what its context passes
            on to the rungs that contexts share.
        passed_whole: Shape (X, 2): records and clicks that the context passes on.
    """

    n: Floats
    case: Ints
    position: Ints
    rate: Floats
    share: Floats
    passed_own: Floats
    passed_whole: Floats


def _climbed(cut: Cut, ask: Ask, fit: Fitted) -> _Climbed:
    """Climb from the top rung to the context, and come back with rates."""
    batch, depth, k = cut.batch, cut.batch.depth, np.arange(cut.batch.depth)
    keys = {  # of each slot on the rungs that know its list, rising with the context
        "list": np.arange(batch.lists.size).reshape(batch.lists.shape),
        "prefix": batch.prefix.astype(np.int64) * depth + k,
        "position": batch.slot,
    }
    rungs_of = fit.ladder.rungs
    top = fold_cells(cut, np.where(batch.lists == EMPTY, EMPTY, keys[rungs_of[0]]))
    listed = top.of_slots(np.repeat(cut.showing_list[:, None], depth, axis=1))
    position = top.of_slots(np.broadcast_to(k, top.slot_entry.shape))
    n = top.total(np.repeat(cut.showing_n, depth))
    c = top.credit(ask.metric, np.ones(depth))
    counts = _Counts(n, c, top.whole(n), top.whole(c))
    rungs = []
    examination = slot_examination(batch, fit, ask.metric.reward)
    units = {name: key[listed, position] for name, key in keys.items()}
    slots = _Slots(top.case, units | {"item": units["position"] // depth})
    lean = log_cells(batch, fit, ask.metric.reward).lean
    known = _Exposed(examination[listed, position], None if lean is None else lean.relative)
    for rung in _rungs(cut, fit, top.cell, slots, known):
        rungs.append((rung, *counts.left(rung.cell, forward=cut.forward)))
        counts = counts.passed_on(*rungs[-1])
    rate, share = np.zeros(len(cut.case_n)), np.ones(len(cut.case_n))
    for rung, n_left, c_left in reversed(rungs):
        exposed = rung.entry_exposed
        rate = descend(n_left, c_left, rung.s, rate[rung.below] * exposed)
        share = share[rung.below] * exposed * borrowed(n_left, rung.s)
    passed_own = np.stack([counts.own_n, counts.own_c], axis=1)
    passed_whole = np.stack([counts.whole_n, counts.whole_c], axis=1)
    return _Climbed(n, top.case, position, rate, share, passed_own, passed_whole)


class _Slots(NamedTuple):
    """What the entries of a rung stand for.

    Attributes:
        case: Shape (E,).
        units: Shape (E,) by rung: the number of the cell there, rising with the context.
    """

    case: Ints
    units: dict[str, Ints]

    def merged(self, below: Ints) -> _Slots:
        """The entries of the rung below, given which of them each entry belongs to."""
        units = {name: value_of_each(below, unit) for name, unit in self.units.items()}
        return _Slots(value_of_each(below, self.case), units)


class _Exposed(NamedTuple):
    """How much a record of a cell exposes the cell below.

    Attributes:
        entry: Shape (E,): the examination of each entry of the top rung.
        pair: Shape (P,): what features say of each pair, if the ladder has a table of items.
    """

    entry: Floats
    pair: Floats | None


def _rungs(cut: Cut, fit: Fitted, cell: Ints, slots: _Slots, exposed: _Exposed) -> Iterator[_Rung]:
    """The rungs from the top to the context, whose entries are the cases.

    Args:
        cut: the records.
        fit: the ladder.
        cell: Shape (E,): the cells of the top rung, by entry.
        slots: the entries of the top rung.
        exposed: by entry of the top rung, and by pair.
    """
    contexts = cut.batch.context_count
    names = fit.ladder.rungs
    for j, (name, below_name) in enumerate(pairwise(names)):
        s, own = fit.strengths[j], None
        if name == "context":
            every = np.arange(len(slots.case))
            yield _Rung(s, cell, every, np.arange(contexts), (len(every), contexts))
            return
        if j == fit.ladder.exposing:
            own = value_of_each(cell, exposed.entry)
        elif name == "item" and exposed.pair is not None:
            own = value_of_each(cell, exposed.pair[slots.units["item"]])
        if below_name == "context":
            below, next_cell = slots.case, cut.case_context
            sizes = len(cut.case_n), contexts
        else:
            unit = slots.units[below_name]
            key = unit * cut.folds + cut.case_fold[slots.case]
            found, below = numbered(key, (int(unit.max(initial=-1)) + 1) * cut.folds)
            next_cell = runs(found // cut.folds)
            sizes = len(found), int(next_cell.max(initial=-1)) + 1
        yield _Rung(s, cell, below, value_of_each(cell, next_cell[below]), sizes, own)
        if below_name == "context":
            slots, cell = _Slots(np.arange(len(cut.case_n)), {}), next_cell
        else:
            exposed = exposed._replace(entry=value_of_each(below, exposed.entry))
            slots, cell = slots.merged(below), next_cell
