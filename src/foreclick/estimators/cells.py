"""Cells: the slots of the log, and of the candidate, grouped as a click model says.

Everything that an estimator of the paper needs is here as arrays over *atoms* and *cells*. An atom
is a slot of the candidate's cells: it has a position (so θ_k and e_k), the candidate's probability
of it, and its number in the log's `SlotCounts`. A cell is a set of atoms of one context. For `ip`,
`prefix` and `list` every atom is its own cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from foreclick.batches import (
    EMPTY,
    Batch,
    Bools,
    Candidate,
    Floats,
    Ints,
    Reward,
    padded,
    sums,
)
from foreclick.batches.arrays import numbered, starts_of
from foreclick.batches.encode import Codes
from foreclick.batches.matching import begin_alike, matched_prefixes
from foreclick.estimators.ladder.spec import Ladder
from foreclick.estimators.slots import (
    Counted,
    SlotCounts,
    context_slots,
    list_slots,
    pair_slots,
    prefix_slots,
)
from foreclick.estimators.spec import LearntCurve, Weighted
from foreclick.metrics import SHOWN, Metric
from foreclick.models import MODELS, ClickModel, Slots

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def by_hazard(model: ClickModel, metric: Metric) -> bool:
    """Whether an estimate is a product of hazards (see `first_clicks`), not a sum over cells.

    A first click depends on all that stands above it. `list` and `prefix` cells know what that is,
    and cells without items do not mind; a cell of a single slot needs the slots above it.
    """
    return metric.first and model.sees_items and not model.over_lists


@dataclass(frozen=True)
class Ask:
    """One thing asked of cells: a model (for its examination), a metric, and the clips.

    A ladder is asked for what its cells are worth together with those of its other rungs.
    """

    model: ClickModel
    metric: Metric
    clips: tuple[float, ...]
    ladder: Ladder | None = None

    @classmethod
    def of(cls, estimator: Weighted | Ladder, metric: Metric) -> Ask:
        """What an estimator is asked for by one metric."""
        if metric.shown:
            # One cell a context, of which all is clicked: what is shown is known, whoever asks.
            clips = (math.inf,) * len(estimator.clip or (math.inf,))
            return cls(replace(MODELS["rcm"], name=estimator.name), metric, clips)
        ladder = estimator if isinstance(estimator, Ladder) else None
        return cls(estimator.model, metric, estimator.clip or (math.inf,), ladder)

    @property
    def cell(self) -> object:
        """Asks with the same cell are answered together.

        `item` and `pbm` differ only in what they sum. A `list` cell ends where its metric does.
        """
        if self.ladder is not None:
            return self.ladder, self.metric.reward
        if self.metric.shown:
            return SHOWN
        if self.hazard:
            return "hazard", self.model.cell
        return ("list", self.metric.depth) if self.model.cell == "list" else self.model.cell

    @property
    def curve(self) -> LearntCurve | None:
        """The examination, if it was learnt, so that it has errors."""
        found = self.model.examination
        return found if isinstance(found, LearntCurve) else None

    @property
    def hazard(self) -> bool:
        """Whether the answer is a product of hazards."""
        return by_hazard(self.model, self.metric)

    @property
    def theta(self) -> tuple[float, ...]:
        """θ_k of credit and exposure: the metric's; a hazard counts all positions alike."""
        return (1.0,) * self.metric.depth if self.hazard else self.metric.theta

    @cached_property
    def exposure(self) -> tuple[float, ...]:
        """e_k = θ_k p_k, for every position that the metric counts."""
        examined = self.model.examined(self.metric.depth)
        return tuple(t * p for t, p in zip(self.theta, examined, strict=True))


def counted(batch: Batch, metric: Metric, *, hazard: bool = False) -> Counted:
    """What a metric counts: the log's reward, or the first of each row.

    Of a hazard, only records that come as far as a slot could have clicked there.
    """
    if metric.shown:
        return Counted(metric.reward, batch.filled())
    if not metric.first:
        return Counted(metric.reward, batch.rewards[metric.reward])
    risk = batch.at_risk(metric.source) if hazard else None
    return Counted((metric.reward, hazard), batch.first(metric.source), risk)


def row_credit(batch: Batch, metric: Metric) -> Floats:
    """Shape (R,): Σ_k θ_k w_k of each row."""

    def make() -> Floats:
        reward = counted(batch, metric).reward
        theta = padded(metric.theta, batch.depth)
        return sums(reward.row, theta[reward.position] * reward.value, len(batch.n))

    return batch.keep(("credit", metric), make)  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Cells:
    """The candidate's cells by one click model, in one batch.

    Attributes:
        counts: the log's slots.
        slot: Shape (J,): the log's slot of each atom; `counts.size` if it was never shown.
        position: Shape (J,), from 0; 0 for whole lists.
        cell: Shape (J,): the cell of each atom.
        mass: Shape (J,): how likely the candidate shows the atom.
        context: Shape (G,): of each cell.
        key: Shape (J,), rising: what tells atoms apart, by which other policies are matched.
        filled: Shape (J, D): for whole lists, which positions show something.
    """

    counts: SlotCounts
    slot: Ints
    position: Ints
    cell: Ints
    mass: Floats
    context: Ints
    key: Ints
    filled: Bools | None = None
    _kept: dict[object, Any] = field(default_factory=dict)

    def keep(self, key: object, make: Callable[[], T]) -> T:
        """What `make` gives, made once."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """G."""
        return len(self.context)

    @property
    def batch(self) -> Batch:
        """The log's records."""
        return self.counts.batch

    def along(self, values: tuple[float, ...]) -> Floats:
        """Shape (J,): the value of each atom's position; of a whole list, the sum along it."""
        if self.filled is None:
            width = int(self.position.max(initial=0)) + 1
            return padded(values, max(width, len(values)))[self.position]
        found = np.zeros(len(self.filled))
        for shown, value in zip(self.filled.T, values, strict=False):
            found += shown * value  # a product of matrices adds in an order that lengths decide
        return found

    @cached_property
    def alone(self) -> bool:
        """Whether every atom is its own cell, under the same number."""
        return self.size == len(self.cell) and bool(np.all(self.cell == np.arange(self.size)))

    def by_cell(self, values: Floats) -> Floats:
        """Shape (G,): the sum over the atoms of each cell."""
        return values if self.alone else sums(self.cell, values, self.size)

    def n(self, counted: Counted) -> Floats:
        """Shape (J,): how many records show each atom, or are at risk there."""
        key = "n", counted.at_risk is None or counted.name
        return self.keep(key, lambda: self.counts.n(counted)[self.slot])

    def earned(self, counted: Counted, power: int = 1) -> Floats:
        """Shape (J,): the sum of the reward (or its square) of each atom."""
        key = "earned", counted.name, power
        return self.keep(key, lambda: self.counts.earned(counted, power)[self.slot])

    def counted(self, ask: Ask) -> Counted:
        """What an ask counts in these cells; of a whole list, what the list is worth."""
        if self.filled is None:
            return counted(self.batch, ask.metric, hazard=ask.hazard)
        worth = row_credit(self.batch, ask.metric)
        row = np.flatnonzero(worth)
        at = np.zeros(len(row), dtype=np.int64)
        return Counted(ask.metric, Reward(row, at, worth[row]))

    def theta(self, ask: Ask) -> Floats:
        """Shape (J,): θ of each atom; what a whole list is worth already has it."""
        return self.along(ask.theta) if self.filled is None else np.ones(len(self.slot))


def cells_of(candidate: Candidate, ask: Ask, depth: int | None = None) -> Cells:
    """The candidate's cells for an ask, and for all asks with the same `Ask.cell`.

    Args:
        candidate: the policy in the numbers of the batch.
        ask: says the click model.
        depth: where the lists of `list` cells end, if not where the metric does.
    """
    model = ask.model
    if model.cell == "list":
        return _list_cells(candidate, depth or ask.metric.depth)
    if model.cell == "prefix":
        return _prefix_cells(candidate)
    if callable(model.cell) or not model.sees_items:
        return _cells_by_function(candidate, model)
    return _pair_cells(candidate, alone="position" in model.cell)


def _pair_cells(candidate: Candidate, *, alone: bool) -> Cells:
    """An item: at each position alone (`ip`), or wherever it stands (`item`, `pbm`)."""
    counts, slots = pair_slots(candidate.batch), candidate.slots
    if alone:
        unit, position = np.nonzero(slots.mass > 0)
        cell, context = np.arange(len(unit)), slots.context[unit]
    else:
        unit, position = (index.ravel() for index in np.indices(slots.mass.shape))
        cell, context = unit, slots.context
    slot = _slot_of(counts, slots.pair[unit], position, candidate.batch.depth)
    key = slots.pair[unit] * candidate.depth + position
    return Cells(counts, slot, position, cell, slots.mass[unit, position], context, key)


def _slot_of(counts: SlotCounts, unit: Ints, position: Ints, depth: int) -> Ints:
    """The log's slot of a unit at a position; none for new pairs, and below the log's last one."""
    at = unit.astype(np.int64) * depth + position
    return np.where((position < depth) & (at < counts.size), at, counts.size)


def _cells_by_function(candidate: Candidate, model: ClickModel) -> Cells:
    """Cells by position, by nothing, or by a user's function of item and position."""
    batch, slots, depth = candidate.batch, candidate.slots, candidate.depth
    if model.sees_items:
        counts = pair_slots(batch)
        unit = np.union1d(np.arange(batch.pair_count), slots.pair)
        context = np.empty(len(unit), dtype=np.int64)
        logged = unit < batch.pair_count
        context[logged] = batch.pair_context[unit[logged]]
        own = np.searchsorted(unit, slots.pair)
        context[own] = slots.context
        mass = np.zeros((len(unit), depth))
        mass[own] = slots.mass
        items = candidate.coding.values(candidate.coding.items_of(unit))
    else:
        counts = context_slots(batch)
        unit = context = np.arange(batch.context_count)
        at = slots.context[:, None] * depth + np.arange(depth)
        mass = sums(at, slots.mass, batch.context_count * depth).reshape(-1, depth)
        items = np.zeros(len(unit), dtype=np.int64)
    row, position = (index.ravel() for index in np.indices(mass.shape))
    code = slot_codes(model, items, depth)[row, position]
    key = context[row] * (int(code.max(initial=0)) + 1) + code
    wanted = np.unique(key[mass[row, position] > 0])
    cell = np.searchsorted(wanted, key)
    there = cell < len(wanted)
    there[there] = wanted[cell[there]] == key[there]
    row, position, cell = row[there], position[there], cell[there]
    owner = np.zeros(len(wanted), dtype=np.int64)
    owner[cell] = context[row]
    slot = _slot_of(counts, unit[row], position, batch.depth)
    key = unit[row] * depth + position
    return Cells(counts, slot, position, cell, mass[row, position], owner, key)


def slot_codes(model: ClickModel, items: Any, depth: int) -> Ints:  # noqa: ANN401 - of any type
    """Shape (U, depth): a number for what a click model calls the cell of item and position.

    Numbers rise with the values, so they are in the same order whichever items a batch has. None
    and NaN are a value like any other.
    """
    row, position = (index.ravel() for index in np.indices((len(items), depth)))
    code: Ints = np.zeros(len(row), dtype=np.int64)
    for column in model.cell_of(Slots(items[row], position + 1)):
        values = pa.array(np.broadcast_to(np.asarray(column), code.shape), from_pandas=True)
        codes = Codes.of(values)
        key = code * max(len(codes), 1) + codes.number(values)
        code = numbered(key, int(key.max(initial=-1)) + 1)[1]
    return code.reshape(len(items), depth)


def _prefix_cells(candidate: Candidate) -> Cells:
    """An item below the same items."""
    batch, lists, depth = candidate.batch, candidate.lists, candidate.depth
    counts = prefix_slots(batch)
    row, position = np.nonzero(lists.pairs != EMPTY)
    number = lists.prefix[row, position] * depth + position
    key, first, cell = np.unique(number, return_index=True, return_inverse=True)
    cell = cell.ravel()
    matched = matched_prefixes(batch, lists, depth)[row[first], position[first]]
    start = padded([column.start for column in counts.columns], depth).astype(np.int64)
    slot = np.where(matched >= 0, matched + start[position[first]], counts.size)
    mass = sums(cell, lists.mass[row], len(first))
    own = np.arange(len(first))
    return Cells(counts, slot, position[first], own, mass, lists.context[row[first]], key)


def _list_cells(candidate: Candidate, end: int) -> Cells:
    """Whole lists, down to position `end`."""
    batch, lists = candidate.batch, candidate.lists
    end = min(end, candidate.depth)
    counts = list_slots(batch, end)
    number = lists.prefix[:, end - 1] if len(lists.pairs) else np.zeros(0, dtype=np.int64)
    found, first, cell = np.unique(number, return_index=True, return_inverse=True)
    matched = matched_prefixes(batch, lists, end)[first, end - 1] if len(first) else first
    slot = np.where(matched >= 0, matched, counts.size)
    mass = sums(cell, lists.mass, len(first))
    filled = lists.pairs[first, :end] != EMPTY
    own = np.arange(len(first))
    position = np.zeros(len(first), dtype=np.int64)
    key = found * candidate.depth + end - 1
    return Cells(counts, slot, position, own, mass, lists.context[first], key, filled)


def list_atoms(cells: Cells, candidate: Candidate, ask: Ask) -> Ints:
    """Shape (M, W): the atom of each slot of the candidate's lists, -1 for none.

    W is the depth of the lists, or 1 where a whole list is one cell.
    """
    lists, depth = candidate.lists, candidate.depth
    if cells.filled is not None:
        end = cells.filled.shape[1]
        key = lists.prefix[:, end - 1 : end] * depth + end - 1
        filled = np.ones(key.shape, dtype=np.bool_)
    else:
        filled = lists.pairs != EMPTY
        if ask.model.cell == "prefix":
            own = lists.prefix
        else:
            own = lists.pairs if ask.model.sees_items else lists.context[:, None]
        key = own * depth + np.arange(depth)
    return np.where(filled, _found(cells.key, key), -1)


def _found(keys: Ints, wanted: Ints) -> Ints:
    """Where each wanted key is among keys that rise, -1 for none."""
    at = np.searchsorted(keys, wanted)
    hit = at < len(keys)
    hit[hit] = keys[at[hit]] == wanted[hit]
    return np.where(hit, at, -1)


def other_mass(cells: Cells, candidate: Candidate, other: Candidate, ask: Ask) -> Floats:
    """Shape (J,): how likely another policy shows each atom of the candidate's cells."""
    depth = candidate.depth
    if ask.model.over_lists:
        end = depth if cells.filled is None else cells.filled.shape[1]
        mine, theirs = candidate.lists, other.lists
        starts = starts_of(mine.context, candidate.batch.context_count)
        alike = begin_alike(starts, mine.pairs, theirs.context, theirs.pairs[:, :end])
        row, position = np.nonzero((alike >= 0) & (theirs.pairs[:, :end] != EMPTY))
        if cells.filled is not None:
            row = np.flatnonzero(alike[:, end - 1] >= 0)
            position = np.full(len(row), end - 1)
        key = mine.prefix[alike[row, position], position] * depth + position
        mass = theirs.mass[row]
    else:
        slots = other.slots
        unit, position = np.nonzero(slots.mass > 0)
        own = slots.pair if ask.model.sees_items else slots.context
        key, mass = own[unit] * depth + position, slots.mass[unit, position]
    atom = _found(cells.key, key)
    return sums(atom[atom >= 0], mass[atom >= 0], len(cells.key))
