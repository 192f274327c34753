"""Cells of candidates: the slots that a click model gives one click rate.

An **atom** is a slot that a candidate shows: it has a position (so θ_k and e_k), each candidate's
probability of it, and its number among the log's slots. A **cell** is a group of atoms. For `ip`,
`prefix` and `list` every atom is its own cell.

Sizes: D positions of candidates, J atoms, G cells, A targets, C candidates. Columns come first in
shapes, so that each is one vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foreclick.batches import EMPTY, Batch, Bools, Candidate, Cluster, Floats, Ints, padded, sums
from foreclick.batches.arrays import expanded, numbered, parted, starts_of, taken, value_of_each
from foreclick.batches.candidate import begin_alike
from foreclick.batches.encode import Codes
from foreclick.estimation.slots import (
    RewardCounts,
    SlotCounts,
    curves_of,
    entry_earned,
    group_sums,
    list_reward,
    log_slots,
    reward_counts,
    slot_entries,
)
from foreclick.models import ClickModel, DisplayedSlots
from foreclick.question import Target

Objects: TypeAlias = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of candidates by one click model, in one batch.

    Attributes:
        counts: the log's slots.
        slot: Shape (J,): the log's slot of each atom; `counts.size` if it was never shown.
        position: Shape (J,), from 0; 0 for whole lists.
        cell: Shape (J,): the cell of each atom.
        mass: Shape (C, J): how likely each candidate shows the atom.
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

    @property
    def size(self) -> int:
        """G."""
        return len(self.context)

    @property
    def batch(self) -> Batch:
        """The log's records."""
        return self.counts.batch

    def exposure(self, target: Target) -> Floats:
        """Shape (J,): e of each atom, θ_k p(k | x); of a whole list, the sum along it."""
        model, depth = target.model, target.metric.depth
        if not model.by_context:
            return self.along(np.multiply(target.theta, model.examined(depth)))
        each = curves_of(self.batch, model, depth)[self.context[self.cell]] * target.theta
        if self.filled is None:
            return each[np.arange(len(each)), self.position]
        return np.asarray(sum(each[:, k] * shown for k, shown in enumerate(self.filled.T[:depth])))

    def along(self, values: Sequence[float] | Floats) -> Floats:
        """Shape (J,): the value of each atom's position; of a whole list, the sum along it."""
        if self.filled is None:
            width = int(self.position.max(initial=0)) + 1
            return padded(values, max(width, len(values)))[self.position]
        return np.asarray(self.filled @ padded(values, self.filled.shape[1]))

    @cached_property
    def are_atoms(self) -> bool:
        """Whether every atom is its own cell, under the same number."""
        return self.size == len(self.cell) and bool(np.all(self.cell == np.arange(self.size)))

    def by_cell(self, values: Floats) -> Floats:
        """Shape (…, G): the sum over the atoms of each cell."""
        return values if self.are_atoms else group_sums(self.cell, values, self.size)

    def reward_counts(self, target: Target) -> RewardCounts:
        """What a target counts in these cells; of a whole list, what the list earns."""
        if self.filled is not None:
            return list_reward(self.batch, target.metric)
        return reward_counts(self.batch, target.metric, hazard=target.hazard)

    def theta(self, target: Target) -> Floats:
        """Shape (J,): θ of each atom; what a whole list earns already has it."""
        return self.along(target.theta) if self.filled is None else np.ones(len(self.slot))


def cells_of(
    policies: Candidate, targets: list[Target], *, whole: bool = False, every: bool = False
) -> Cells:
    """The cells of candidates for targets of one group.

    Args:
        policies: the candidates.
        targets: of the group.
        whole: whether lists count in full length, not as far down as metrics.
        every: whether cells have atoms that neither the log nor a candidate shows.
    """
    model, end = targets[0].model, policies.depth
    if not whole:
        end = min(max(target.metric.depth for target in targets), end)
    if model.over_lists:
        return _list_cells(policies, end, whole=model.cell == "list")
    if callable(model.cell) or not model.sees_items:
        return _cells_by_function(policies, model, end, every=every)
    return _pair_cells(policies, end, by_position="position" in model.cell, every=every)


def _pair_cells(policies: Candidate, end: int, *, by_position: bool, every: bool) -> Cells:
    """An item: at each position alone (`ip`), or wherever it stands (`item`, `pbm`)."""
    counts, slots = log_slots(policies.batch, "pair"), policies.slots
    there = slots.mass[:, :end] > 0
    if not by_position:
        logged, deep = slots.pair < policies.batch.pair_count, min(end, policies.batch.depth)
        there[logged, :deep] |= policies.batch.shown[slots.pair[logged], :deep] > 0
        there |= every
    unit, position = np.nonzero(there)
    cell, context = unit, slots.context
    if by_position:
        cell, context = np.arange(len(unit)), slots.context[unit]
    slot = _slot_of(counts, slots.pair[unit], position, policies.batch.depth)
    key = slots.pair[unit] * policies.depth + position
    shown = policies.slot_mass[:, unit, position]
    return Cells(counts, slot, position, cell, shown, context, key)


def _slot_of(counts: SlotCounts, unit: Ints, position: Ints, depth: int) -> Ints:
    """The log's slot of a unit at a position; none for new pairs, and below the log's last one."""
    at = unit.astype(np.int64) * depth + position
    return np.where((position < depth) & (at < counts.size), at, counts.size)


def _cells_by_function(policies: Candidate, model: ClickModel, end: int, *, every: bool) -> Cells:
    """Cells by position, by nothing, or by a user's function of item and position."""
    batch, slots, depth = policies.batch, policies.slots, policies.depth
    each = policies.slot_mass[:, :, :end]  # (C, Q, end)
    if model.sees_items:
        counts = log_slots(batch, "pair")
        unit = np.union1d(np.arange(batch.pair_count), slots.pair)
        context = np.empty(len(unit), dtype=np.int64)
        logged = unit < batch.pair_count
        context[logged] = batch.pair_context[unit[logged]]
        own = np.searchsorted(unit, slots.pair)
        context[own] = slots.context
        items = policies.coding.values(policies.coding.items_of(unit))
    else:
        counts = log_slots(batch, "context")
        unit = context = np.arange(batch.context_count)
        own = slots.context  # type: ignore[assignment]
        items = np.zeros(len(unit), dtype=np.int64)
    mass = np.stack([group_sums(own, of.T, len(unit)).T for of in each])  # (C, U, end)
    row, position = (index.ravel() for index in np.indices(mass.shape[1:]))
    code = slot_codes(model, items, end)[row, position]
    codes = int(code.max(initial=0)) + 1
    shown = mass.max(axis=0, initial=0.0).ravel() > 0
    keys, number = numbered(context[row] * codes + code, batch.context_count * codes)
    wanted = value_of_each(number[shown], np.ones(int(shown.sum()), dtype=np.bool_), len(keys))
    slot = _slot_of(counts, unit[row], position, batch.depth)
    there = wanted[number] & (every | shown | (counts.shown[slot] > 0))
    row, position, slot = row[there], position[there], slot[there]
    cell, owner = (np.cumsum(wanted) - 1)[number[there]], (keys // codes)[wanted]
    return Cells(
        counts, slot, position, cell, mass[:, row, position], owner, unit[row] * depth + position
    )


def slot_codes(model: ClickModel, items: Ints | Objects, depth: int) -> Ints:
    """Shape (U, depth): a number for what a click model calls the cell of item and position.

    Numbers rise with the values, so they are in the same order whichever items a batch has. None
    and NaN are a value like any other.
    """
    row, position = (index.ravel() for index in np.indices((len(items), depth)))
    code: Ints = np.zeros(len(row), dtype=np.int64)
    for column in model.cell_of(DisplayedSlots(items[row], position + 1)):
        values = pa.array(np.broadcast_to(np.asarray(column), code.shape), from_pandas=True)
        codes = Codes.from_values(values)
        key = code * max(len(codes), 1) + codes.number(values)
        code = numbered(key, int(key.max(initial=-1)) + 1)[1]
    return code.reshape(len(items), depth)


def _list_cells(policies: Candidate, end: int, *, whole: bool) -> Cells:
    """An item below the same items; or whole lists, down to position `end`."""
    batch, lists, depth = policies.batch, policies.lists, policies.depth
    if whole:
        counts, starts = log_slots(batch, "list", end), np.zeros(depth, dtype=np.int64)
        row, position = np.arange(len(lists.pairs)), np.full(len(lists.pairs), end - 1)
    else:
        counts = log_slots(batch, "prefix")
        starts = padded([column.start for column in counts.columns], depth).astype(np.int64)
        row, position = np.nonzero(lists.pairs[:, :end] != EMPTY)
    number = lists.prefix[row, position] * depth + position
    key, cell = numbered(number, int(number.max(initial=-1)) + 1)
    mass = group_sums(cell, taken(policies.list_mass, row), len(key))
    first = value_of_each(cell, np.arange(len(number)), len(key))  # any one of it
    row, position, own = row[first], position[first], np.arange(len(key))
    matched = policies.begins[row, position]
    slot = np.where(matched >= 0, matched + starts[position], counts.size)
    filled = lists.pairs[row, :end] != EMPTY if whole else None
    if whole:
        position = np.zeros(len(key), dtype=np.int64)
    return Cells(counts, slot, position, own, mass, lists.context[row], key, filled)


def list_atoms(cells: Cells, policies: Candidate, target: Target) -> Ints:
    """Shape (M, W): the atom of each slot of the candidates' lists, -1 for none.

    W is the depth of the lists, or 1 where a whole list is one cell.
    """
    lists, depth = policies.lists, policies.depth
    if cells.filled is not None:
        end = cells.filled.shape[1]
        key = lists.prefix[:, end - 1 : end] * depth + end - 1
        return _found(cells.key, key)
    own = lists.pairs if target.model.sees_items else lists.context[:, None]
    own = lists.prefix if target.model.cell == "prefix" else own
    return np.where(lists.pairs != EMPTY, _found(cells.key, own * depth + np.arange(depth)), -1)


def _found(keys: Ints, wanted: Ints) -> Ints:
    """Where each wanted key is among keys that rise, -1 for none."""
    at = np.searchsorted(keys, wanted)
    hit = at < len(keys)
    hit[hit] = keys[at[hit]] == wanted[hit]
    return np.where(hit, at, -1)


def other_mass(cells: Cells, policies: Candidate, other: Candidate, target: Target) -> Floats:
    """Shape (J,): how likely another policy shows each atom of the candidates' cells."""
    depth = policies.depth
    if target.model.over_lists:
        end = depth if cells.filled is None else cells.filled.shape[1]
        first, second = policies.lists, other.lists
        starts = starts_of(first.context, policies.batch.context_count)
        alike = begin_alike(starts, first.pairs, second.context, second.pairs[:, :end])
        row, position = np.nonzero((alike >= 0) & (second.pairs[:, :end] != EMPTY))
        if cells.filled is not None:
            row = np.flatnonzero(alike[:, end - 1] >= 0)
            position = np.full(len(row), end - 1)
        key = first.prefix[alike[row, position], position] * depth + position
        mass = second.mass[row]
    else:
        slots = other.slots
        unit, position = np.nonzero(slots.mass > 0)
        own = slots.pair if target.model.sees_items else slots.context
        key, mass = own[unit] * depth + position, slots.mass[unit, position]
    atom = _found(cells.key, key)
    return sums(atom[atom >= 0], mass[atom >= 0], len(cells.key))


@dataclass(frozen=True, eq=False)
class CellEntries:
    """What the clusters of a log have of each cell: an entry for every cell in every cluster.

    Attributes:
        start: Shape (G + 1,): where the entries of each cell begin.
        cell: Shape (Q,), rising.
        cluster: Shape (Q,).
        earned: Shape (A, Q): the credit of the cell in the cluster.
        exposed: Shape (A, Q): its exposure there.
    """

    start: Ints
    cell: Ints
    cluster: Ints
    earned: Floats
    exposed: Floats

    def by_cell(self, values: Floats) -> Floats:
        """Shape (…, G): the sums over the clusters of each cell, of values (…, Q)."""
        return group_sums(self.cell, values, len(self.start) - 1)


def cell_entries(cells: Cells, kind: Cluster, targets: list[Target], shown: Bools) -> CellEntries:
    """What the clusters of a kind have of some cells.

    Args:
        cells: those of the candidates.
        kind: of clusters.
        targets: of one group.
        shown: Shape (G,): the cells that are wanted.
    """
    counts, clusters = cells.counts, cells.batch.cluster_count[kind]
    which = cells.reward_counts(targets[0])
    entries = slot_entries(counts, kind, which)
    atoms = np.flatnonzero(shown[cells.cell])
    atoms = atoms[entries.length[cells.slot[atoms]] > 0]
    slot = cells.slot[atoms]
    count = entries.length[slot]
    entry, atom = expanded(entries.start[slot].astype(np.int64), count), np.repeat(atoms, count)
    cell, cluster = taken(cells.cell, atom), taken(entries.cluster, entry)
    group = None
    if not cells.are_atoms:
        key, group = numbered(cell * clusters + cluster, cells.size * clusters)
        cell, cluster = parted(key, clusters)

    def by_entry(of_log: Floats, of_atom: Floats) -> Floats:
        values = taken(of_log, entry)
        values *= taken(of_atom, atom)
        return values if group is None else sums(group, values, len(cell))

    # What cells earn depends on the metric alone, which `item` and `pbm` share.
    of_metric = {
        target.metric: by_entry(
            entry_earned(counts, kind, cells.reward_counts(target)), cells.theta(target)
        )
        for target in {each.metric: each for each in targets}.values()
    }
    earned = [of_metric[target.metric] for target in targets]
    exposed = [by_entry(entries.n, cells.exposure(target)) for target in targets]
    start = np.append(0, np.cumsum(np.bincount(cell, minlength=cells.size)))
    return CellEntries(start, cell, cluster, np.stack(earned), np.stack(exposed))
