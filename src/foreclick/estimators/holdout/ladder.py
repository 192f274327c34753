"""Errors of a ladder: every case predicted from what the other folds leave on each rung.

Rungs down to the context are worked out batch by batch; those that contexts share, classes and the
whole log, are known only after the last one. But a prediction is linear in the rate ρ that the
context borrows from them, V̂ = α + β ρ, and ρ is one number for a class and a fold. So the sums of
squared errors are kept as the coefficients of a polynomial in ρ, and one pass is enough:

    Σ w (α + β ρ − V)² = Σ w δ² + 2 ρ Σ w δ β + ρ² Σ w β²,    δ = α − V
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from foreclick.batches import EMPTY, Batch, Floats, Ints, Totals, padded, sums
from foreclick.batches.arrays import numbered
from foreclick.errors import ModelError
from foreclick.estimators.holdout.cells import Cases, Cut, fold_cells, list_cells, runs, training
from foreclick.estimators.ladder.shrinkage import base_rate, borrowed, climb, descend
from foreclick.sqlkernel.cells import Ask
from foreclick.sqlkernel.ladder import Fitted


class LadderErrors:
    """Sums of errors, by fold, of a ladder and several metrics of one reward.

    Args:
        asks: the metrics.
        fit: the ladder, with the strengths and the examination of the whole log.
        folds: T.
        values: how many values each segment of the ladder has.
        forward: whether only earlier folds predict a fold.
    """

    def __init__(
        self, asks: Sequence[Ask], fit: Fitted, folds: int, values: Sequence[int], *, forward: bool
    ) -> None:
        self.asks, self.fit, self.folds, self.forward = asks, fit, folds, forward
        self.values = values
        self.classes = _product(values)
        self._whole = Totals(self.classes)
        self._by_fold = Totals(self.classes * folds)

    def add(self, cut: Cut, cases: Cases) -> None:
        """Add the errors in the contexts of a batch."""
        found = _climbed(cut, self.asks[0], self.fit)
        context_class = classes_of(cut.batch, self.fit.ladder.segments, self.values)
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
            kept = np.broadcast_to(self._by_fold.sum(ask).T, (5, self.classes * self.folds))
            dd, db, bb, d, b = kept.reshape(5, self.classes, self.folds)
            squared = (dd + 2 * rho * db + rho**2 * bb).sum(axis=0)
            found[ask] = np.maximum(squared, 0.0)[:, None], (d + rho * b).sum(axis=0)[:, None]
        return found

    def _shared_rate(self) -> Floats:
        """Shape (classes, T): the rate that a context of each class borrows, for each fold."""
        strengths = self.fit.strengths[len(self.fit.strengths) - len(self.values) :]
        counts = _Counts(*self._by_fold.sum("passed").T, *self._whole.sum("passed").T)
        rungs = []
        for j, s in enumerate(strengths):
            here, size = _product(self.values[j:]), _product(self.values[j + 1 :])
            below = np.arange(here) % size  # the class without its finest segment
            fold = np.arange(self.folds)
            rung = _Rung(
                s=s,
                cell=np.repeat(np.arange(here), self.folds),
                below=(below[:, None] * self.folds + fold).ravel(),
                cell_below=below,
                sizes=(size * self.folds, size),
            )
            rungs.append((rung, *counts.left(rung.cell, forward=self.forward)))
            counts = counts.passed_on(*rungs[-1])
        log = np.zeros(self.folds, dtype=np.int64)
        rate = base_rate(*counts.left(log, forward=self.forward))
        for rung, n, c in reversed(rungs):
            rate = descend(n, c, rung.s, rate[rung.below])
        return rate.reshape(self.classes, self.folds)


def _product(values: Sequence[int]) -> int:
    return int(np.prod(values, dtype=np.int64))


def classes_of(batch: Batch, segments: Sequence[str], values: Sequence[int]) -> Ints:
    """Shape (X,): the number of each context's class, its segments together; the finest leads."""
    found = np.zeros(batch.context_count, dtype=np.int64)
    for segment, count in zip(segments, values, strict=True):
        code = np.zeros(batch.context_count, dtype=np.int64)
        code[batch.row_context] = batch.segments[segment]
        found = found * count + code
    return found


def check_classes(batches: Iterable[Batch], segments: Sequence[str]) -> None:
    """Refuse segments of which a context has several values."""
    several: list[object] = []
    for batch in batches if segments else ():
        mixed = np.zeros(batch.context_count, dtype=np.bool_)
        for segment in segments:
            code, first = batch.segments[segment], np.zeros(batch.context_count, dtype=np.int64)
            first[batch.row_context] = code
            mixed[batch.row_context[first[batch.row_context] != code]] = True
        several += batch.contexts.take(pa.array(np.flatnonzero(mixed))).to_pylist()
    if several:
        raise ModelError(
            f"{len(several):,} contexts have several values of {', '.join(segments)}, for example "
            f"{several[0]!r}, so it is no class of contexts. Name a column that says the "
            "same of every record of a context, or make it part of the context."
        )


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
    batch, ladder = cut.batch, fit.ladder
    depth = min(ask.metric.depth, batch.depth) if ladder.top == "list" else batch.depth
    numbers = list_cells(batch, ladder.model, depth).astype(np.int64)
    if ladder.top == "list":  # its cells are slots of lists
        numbers = np.where(numbers == EMPTY, EMPTY, numbers * depth + np.arange(depth))
    top = fold_cells(cut, numbers)
    slot = top.of_slots(batch.slot[cut.showing_list, :depth])
    n = top.total(np.repeat(cut.showing_n, depth))
    c = top.credit(ask.metric, np.ones(depth))
    counts = _Counts(n, c, top.whole(n), top.whole(c))
    rungs = []
    for rung in _rungs(cut, fit, top.cell, slot, top.case):
        rungs.append((rung, *counts.left(rung.cell, forward=cut.forward)))
        counts = counts.passed_on(*rungs[-1])
    rate, share = np.zeros(len(cut.case_n)), np.ones(len(cut.case_n))
    for rung, n_left, c_left in reversed(rungs):
        exposed = rung.entry_exposed
        rate = descend(n_left, c_left, rung.s, rate[rung.below] * exposed)
        share = share[rung.below] * exposed * borrowed(n_left, rung.s)
    passed_own = np.stack([counts.own_n, counts.own_c], axis=1)
    passed_whole = np.stack([counts.whole_n, counts.whole_c], axis=1)
    return _Climbed(n, top.case, slot % batch.depth, rate, share, passed_own, passed_whole)


def _rungs(cut: Cut, fit: Fitted, cell: Ints, slot: Ints, case: Ints) -> Iterator[_Rung]:
    """The rungs from the top to the context, whose entries are the cases.

    Args:
        cut: the records.
        fit: the ladder.
        cell: Shape (E,): the cells of the top rung, by entry.
        slot: Shape (E,): the slot of each entry, pair * K + position.
        case: Shape (E,): the case of each entry.
    """
    depth, examined = cut.batch.depth, padded(fit.examined, cut.batch.depth)
    names = fit.ladder.rungs
    for name, below_name, s in zip(names, names[1:], fit.strengths, strict=False):
        exposed = _first(cell, examined[slot % depth]) if name == "position" else None
        if name == "context":
            every, contexts = np.arange(len(case)), np.arange(cut.batch.context_count)
            yield _Rung(s, cell, every, contexts, (len(every), len(contexts)))
            return
        if below_name == "context":
            below, next_cell, next_case = case, cut.case_context, np.arange(len(cut.case_n))
            sizes = len(cut.case_n), cut.batch.context_count
        else:
            unit = slot if below_name == "position" else slot // depth
            size = cut.batch.pair_count * (depth if below_name == "position" else 1)
            key, below = numbered(unit * cut.folds + cut.case_fold[case], size * cut.folds)
            next_cell, next_case = runs(key // cut.folds), _first(below, case)
            sizes = len(key), int(next_cell.max(initial=-1)) + 1
        yield _Rung(s, cell, below, _first(cell, next_cell[below]), sizes, exposed)
        slot, case, cell = _first(below, slot), next_case, next_cell


def _first(group: Ints, values: Any) -> Any:  # noqa: ANN401 - numbers or codes
    """The value of each group, all of whose members have the same."""
    found = np.zeros(int(group.max(initial=-1)) + 1, dtype=values.dtype)
    found[group] = values
    return found
