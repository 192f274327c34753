"""A batch cut into folds, and the cells of a click model in every fold.

A **case** is a context in a fold: what is predicted, from the context's records in other folds. A
**showing** is a list in a fold. An **entry** is a cell in a fold. Only those with records are kept,
in the order of context, then of list or cell, then of fold; so memory is bounded by the records of
the batch, however many folds there are, and every sum within a context has an order of its own.

Sizes: R rows, L lists, P pairs, X contexts, K positions as in `Batch`; T folds, Q cases,
S showings, E entries, D positions that count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from foreclick.batches import EMPTY, Batch, Bools, Floats, Ints, sums
from foreclick.batches.arrays import numbered
from foreclick.estimators.cells import counted, row_credit, slot_codes
from foreclick.metrics import Metric
from foreclick.models import ClickModel

_ROUNDING = 1e-12  # of a difference of sums; a record in a cell of a trillion of them is less


def before(own: Floats, group: Ints) -> Floats:
    """Shape (E,): the sum of the values of the same group that come earlier.

    Args:
        own: Shape (E,): values.
        group: Shape (E,), sorted.
    """
    found = np.zeros(len(own))
    start = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(own) else group
    size = np.diff(np.append(start, len(own)))
    step = 1
    while len(start):
        more = size > step
        start, size = start[more], size[more]
        at = start + step
        found[at] = found[at - 1] + own[at - 1]
        step += 1
    return found


def training(own: Floats, group: Ints, whole: Floats, *, forward: bool) -> Floats:
    """Shape (E,): what is left to predict each fold from: the other folds, or the earlier ones.

    Args:
        own: Shape (E,): the sum of each fold itself.
        group: Shape (E,), sorted: the context or cell; its folds in order.
        whole: Shape (G,): the sum of each group over all folds.
        forward: whether only earlier folds predict a fold.
    """
    if forward:
        return before(own, group)
    left = whole[group] - own
    return np.where(left > own * _ROUNDING, left, 0.0)


@dataclass(frozen=True, eq=False)
class Cut:
    """The records of a batch, dealt to folds.

    Attributes:
        batch: only records that belong to a fold.
        fold: Shape (R,).
        folds: T.
        forward: whether only earlier folds predict a fold.
    """

    batch: Batch
    fold: Ints
    folds: int
    forward: bool = False

    @cached_property
    def _showings(self) -> tuple[Ints, Ints]:
        key = self.batch.row_list.astype(np.int64) * self.folds + self.fold
        return numbered(key, len(self.batch.lists) * self.folds)

    @property
    def row_showing(self) -> Ints:
        """Shape (R,)."""
        return self._showings[1]

    @cached_property
    def showing_list(self) -> Ints:
        """Shape (S,)."""
        return self._showings[0] // self.folds

    @cached_property
    def showing_fold(self) -> Ints:
        """Shape (S,)."""
        return self._showings[0] % self.folds

    @cached_property
    def showing_n(self) -> Floats:
        """Shape (S,): records."""
        return sums(self.row_showing, self.batch.n, len(self.showing_list))

    @cached_property
    def _cases(self) -> tuple[Ints, Ints]:
        context = self.batch.list_context[self.showing_list].astype(np.int64)
        key = context * self.folds + self.showing_fold
        return numbered(key, self.batch.context_count * self.folds)

    @property
    def showing_case(self) -> Ints:
        """Shape (S,)."""
        return self._cases[1]

    @cached_property
    def case_context(self) -> Ints:
        """Shape (Q,)."""
        return self._cases[0] // self.folds

    @cached_property
    def case_fold(self) -> Ints:
        """Shape (Q,)."""
        return self._cases[0] % self.folds

    @cached_property
    def case_n(self) -> Floats:
        """Shape (Q,): records held out."""
        return self.by_case(self.showing_n)

    @cached_property
    def training_n(self) -> Floats:
        """Shape (Q,): records that the case is predicted from."""
        whole = self.batch.context_n
        return training(self.case_n, self.case_context, whole, forward=self.forward)

    def by_case(self, values: Floats) -> Floats:
        """Shape (Q,): the sum of the values of showings, shape (S,)."""
        return sums(self.showing_case, values, len(self.case_context))

    def case_mean(self, metric: Metric) -> Floats:
        """Shape (Q,): the mean reward of a record of each case."""
        case = self.showing_case[self.row_showing]
        total = sums(case, self.batch.n * row_credit(self.batch, metric), len(self.case_context))
        return np.asarray(total / self.case_n)

    def showing_at_risk(self, metric: Metric) -> Floats:
        """Shape (S, K): records of each showing that get as far as a position without a click."""
        depth = self.batch.depth
        risk = self.batch.n[:, None] * self.batch.at_risk(metric.source)
        slot = self.row_showing[:, None] * depth + np.arange(depth)
        return sums(slot, risk, len(self.showing_list) * depth).reshape(-1, depth)


@dataclass(frozen=True, eq=False)
class Cases:
    """The cases that are judged.

    Attributes:
        number: Shape (J,): which cases of the cut.
        fold: Shape (J,).
        weight: Shape (J,).
        truth: Shape (J,) by metric: the mean reward that is to be predicted.
    """

    number: Ints
    fold: Ints
    weight: Floats
    truth: dict[Metric, Floats]


@dataclass(frozen=True, eq=False)
class FoldCells:
    """The cells of a click model in every fold.

    Attributes:
        cut: the records.
        slot_entry: Shape (S, D): the entry of each slot; E where it has none.
        cell: Shape (E,), sorted: the cell of each entry, from 0.
        case: Shape (E,): the case of each entry.
    """

    cut: Cut
    slot_entry: Ints
    cell: Ints
    case: Ints

    @cached_property
    def _cells(self) -> int:
        return int(self.cell.max(initial=-1)) + 1

    def total(self, values: Floats) -> Floats:
        """Shape (E,): the sum of the values of slots, shape (S, D)."""
        return sums(self.slot_entry, values, len(self.cell))

    def credit(self, metric: Metric, theta: Floats) -> Floats:
        """Shape (E,): Σ θ_k w_k of each entry."""
        batch, reward = self.cut.batch, counted(self.cut.batch, metric).reward
        row, position, value = (a[reward.position < self.slot_entry.shape[1]] for a in reward)
        entry = self.slot_entry[self.cut.row_showing[row], position]
        return sums(entry, batch.n[row] * value * theta[position], len(self.cell))

    def whole(self, own: Floats) -> Floats:
        """Shape (G,): the sum of each cell over all folds."""
        return sums(self.cell, own, self._cells)

    def training(self, own: Floats) -> Floats:
        """Shape (E,): the sum over the folds that each fold is predicted from."""
        return training(own, self.cell, self.whole(own), forward=self.cut.forward)

    def of_slots(self, values: Any) -> Any:  # noqa: ANN401 - numbers or codes
        """Shape (E,): the value of each entry's slots, (S, D), which all have the same."""
        found = np.zeros(len(self.cell) + 1, dtype=values.dtype)
        found[self.slot_entry] = values
        return found[:-1]


def fold_cells(cut: Cut, list_cells: Ints, wanted: Bools | None = None) -> FoldCells:
    """Number the cells in folds.

    Args:
        cut: the records.
        list_cells: Shape (L, D): the cell of each slot, rising with the context; `EMPTY` for none.
        wanted: Shape (G,): which cells are kept; None for all.
    """
    if wanted is not None:
        number = np.where(wanted, np.cumsum(wanted, dtype=np.int32) - 1, EMPTY)
        list_cells = np.append(number, EMPTY)[list_cells]
    cell = list_cells[cut.showing_list]
    slot = np.flatnonzero(cell != EMPTY)
    showing = slot // cell.shape[1]
    key = cell.ravel()[slot].astype(np.int64) * cut.folds + cut.showing_fold[showing]
    size = (int(list_cells.max(initial=-1)) + 1) * cut.folds
    found, number = numbered(key, size)
    entry = np.full(cell.shape, len(found))
    entry.ravel()[slot] = number
    case = np.zeros(len(found), dtype=np.int64)
    case[number] = cut.showing_case[showing]
    return FoldCells(cut, entry, runs(found // cut.folds), case)


def runs(group: Ints) -> Ints:
    """Shape (E,): the number, from 0, of each run of equal values."""
    return np.cumsum(np.append(False, group[1:] != group[:-1])) if len(group) else group


def useful(batch: Batch, list_cells: Ints, metrics: list[Metric]) -> Bools:
    """Shape (G,): the cells that earned something; others predict nothing."""
    found = np.zeros(int(list_cells.max(initial=-1)) + 2, dtype=np.bool_)
    for reward in {m.reward: counted(batch, m).reward for m in metrics}.values():
        row, position = (a[reward.position < list_cells.shape[1]] for a in reward[:2])
        found[list_cells[batch.row_list[row], position]] = True
    return found[:-1]  # the last is that of slots without a cell


# --- which cell a slot belongs to -----------------------------------------------------------------


def list_cells(batch: Batch, model: ClickModel, depth: int) -> Ints:
    """Shape (L, depth): the cell of each slot, `EMPTY` where nothing is shown.

    A `list` cell ends at the position `depth`.
    """
    pair, position = batch.lists[:, :depth], np.arange(depth)
    if model.cell == "list":
        cell = np.broadcast_to(batch.prefix[:, depth - 1 : depth], pair.shape)
    elif model.cell == "prefix":
        cell = batch.prefix[:, :depth].astype(np.int64) * depth + position
    elif callable(model.cell):
        cell = _cells_by_function(batch, model, depth)[pair, position]
    else:
        unit = pair if "item" in model.cell else batch.list_context[:, None]
        at = unit.astype(np.int64) * depth + position if "position" in model.cell else unit
        cell = np.broadcast_to(at, pair.shape)
    return np.where(pair == EMPTY, EMPTY, cell)


def _cells_by_function(batch: Batch, model: ClickModel, depth: int) -> Ints:
    """Shape (P + 1, depth): the cells of a user's own click model, apart by context; 0 for none."""
    code = slot_codes(model, batch.item_values[batch.pair_item], depth)
    cell = batch.pair_context.astype(np.int64)[:, None] * (int(code.max(initial=0)) + 1) + code
    number = numbered(cell.ravel(), int(cell.max(initial=-1)) + 1)[1]
    return np.append(number, np.zeros(depth, dtype=np.int64)).reshape(-1, depth)
