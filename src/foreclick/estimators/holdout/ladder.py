"""Errors of a ladder: every case predicted from what the other folds leave on each rung.

Rungs down to the context are worked out batch by batch; the log's is known only after the last one.
But a prediction is linear in the rate ρ that the context borrows from it, V̂ = α + β ρ, and ρ is one
number for a fold. So the sums of squared errors are kept as the coefficients of a polynomial in ρ,
and one pass is enough:

    Σ w (α + β ρ − V)² = Σ w δ² + 2 ρ Σ w δ β + ρ² Σ w β²,    δ = α − V
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Floats, Ints, Totals, padded, sums
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.estimators.cells import Ask
from foreclick.estimators.holdout.cells import Cases, Cut, fold_cells, runs, training
from foreclick.estimators.ladder.rates import slot_examination
from foreclick.estimators.ladder.shrinkage import base_rate, borrowed, climb, descend
from foreclick.estimators.ladder.spec import Fitted


class LadderErrors:
    """Sums of errors, by fold, of a ladder and several metrics of one reward.

    Args:
        asks: the metrics.
        fit: the ladder, with the strengths and the examination of the whole log.
        folds: T.
        forward: whether only earlier folds predict a fold.
    """

    def __init__(self, asks: Sequence[Ask], fit: Fitted, folds: int, *, forward: bool) -> None:
        self.asks, self.fit, self.folds, self.forward = asks, fit, folds, forward
        self._whole, self._by_fold = Totals(), Totals(folds)

    def add(self, cut: Cut, cases: Cases) -> None:
        """Add the errors in the contexts of a batch."""
        found = _climbed(cut, self.asks[0], self.fit)
        everyone = np.zeros(len(found.passed_whole), dtype=np.int64)
        self._whole.add("passed", found.passed_whole, everyone)
        self._by_fold.add("passed", found.passed_own, cut.case_fold)
        for ask in self.asks:
            weight = found.n * padded(ask.metric.theta, cut.batch.depth)[found.position]
            alpha, beta = (
                (sums(found.case, weight * part, len(cut.case_n)) / cut.case_n)[cases.number]
                for part in (found.rate, found.share)
            )
            delta, w = alpha - cases.truth[ask.metric], cases.weight
            parts = [w * delta**2, w * delta * beta, w * beta**2, w * delta, w * beta]
            self._by_fold.add(ask, np.stack(parts, axis=1), cut.case_fold[cases.number])

    def sums(self) -> dict[Ask, tuple[Floats, Floats]]:
        """Shape (T, 1) each: the squared errors and the errors."""
        rho, found = self._shared_rate(), {}
        for ask in self.asks:
            dd, db, bb, d, b = self._by_fold.sum(ask).T
            squared = dd + 2 * rho * db + rho**2 * bb
            found[ask] = np.maximum(squared, 0.0)[:, None], (d + rho * b)[:, None]
        return found

    def _shared_rate(self) -> Floats:
        """Shape (T,): the rate that contexts borrow from the log, for each fold."""
        counts = _Counts(*self._by_fold.sum("passed").T, *self._whole.sum("passed").T)
        log = np.zeros(self.folds, dtype=np.int64)
        return base_rate(*counts.left(log, forward=self.forward))


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
    for rung in _rungs(cut, fit, top.cell, slots, examination[listed, position]):
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


def _rungs(cut: Cut, fit: Fitted, cell: Ints, slots: _Slots, exposed: Floats) -> Iterator[_Rung]:
    """The rungs from the top to the context, whose entries are the cases.

    Args:
        cut: the records.
        fit: the ladder.
        cell: Shape (E,): the cells of the top rung, by entry.
        slots: the entries of the top rung.
        exposed: Shape (E,): the examination of each entry of the top rung.
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
            own = value_of_each(cell, exposed)
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
            exposed = value_of_each(below, exposed)
            slots, cell = slots.merged(below), next_cell
