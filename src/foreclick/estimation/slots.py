"""Slots and cells: what a log has of each, and what candidates show of them.

A **slot** is anything that a displayed position can be counted under: a pair at a position, a
context at a position, a prefix, a whole list, or the position of a single row. What the log shows
and earns is counted once per slot (`SlotCounts`). A click model groups slots into **cells**. An
**atom** is a slot of the candidates' cells: it has a position (so θ_k and e_k), each candidate's
probability of it, and its number among the log's slots. For `ip`, `prefix` and `list` every atom is
its own cell.

Sizes: R rows, K positions of the log, D of candidates, W of a line of slots, J atoms, G cells, A
targets, C candidates, E = A · C columns. Columns come first in shapes, so that each is one vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foreclick.batches import (
    EMPTY,
    Batch,
    Bools,
    Candidate,
    Cluster,
    Floats,
    Ints,
    Reward,
    padded,
    sums,
)
from foreclick.batches.arrays import expanded, narrowest, numbered, parted, starts_of, summed
from foreclick.batches.candidate import begin_alike, matched_prefixes
from foreclick.batches.encode import Codes
from foreclick.kept import KeptValues, kept
from foreclick.metrics import Metric
from foreclick.models import ClickModel, DisplayedSlots
from foreclick.question import Target

Unit: TypeAlias = Literal["pair", "context", "prefix", "list"]
"""What slots are of: an item in a context, or a context, each at its positions; an item with all
that stands above it; a whole list."""


def group_sums(group: Ints, values: NDArray[Any], count: int) -> Floats:
    """Shape (…, count): the sums of values, shape (…, N), by group, shape (N,)."""
    if values.ndim == 1:
        return sums(group, values, count)
    flat = values.reshape(math.prod(values.shape[:-1]), values.shape[-1])
    totals = np.empty((len(flat), count))
    for own, row in zip(totals, flat, strict=True):
        own[:] = sums(group, row, count)
    return totals.reshape(*values.shape[:-1], count)


@kept
def curves_of(batch: Batch, model: ClickModel, depth: int) -> Floats:
    """Shape (X, depth): p(k | x) of the contexts of a batch."""
    return np.array([model.examined(depth, x) for x in batch.contexts.to_pylist()])


# --- what the log has of slots --------------------------------------------------------------------


@dataclass(frozen=True)
class RewardCounts:
    """What is counted in slots: a reward, and the records that could have earned it.

    Attributes:
        name: the reward, or what whole lists earn by a metric.
        hazard: whether only records that come as far as a slot could have earned it there.
        reward: the entries that are not 0.
        at_risk: Shape (R, K): of a hazard, which positions of a row could have earned it.
    """

    name: str | Metric
    hazard: bool = False
    reward: Reward = field(compare=False, kw_only=True)
    at_risk: Bools | None = field(default=None, compare=False, kw_only=True)


def reward_counts(batch: Batch, metric: Metric, *, hazard: bool = False) -> RewardCounts:
    """What a metric counts: the log's reward, or the first of each row."""
    if metric.shown:
        return RewardCounts(metric.reward, reward=batch.filled())
    if not metric.first:
        return RewardCounts(metric.reward, reward=batch.rewards[metric.reward])
    risk = batch.at_risk(metric.source) if hazard else None
    return RewardCounts(metric.reward, hazard, reward=batch.first(metric.source), at_risk=risk)


def row_credit(batch: Batch, metric: Metric) -> Floats:
    """Shape (R,): Σ_k θ_k w_k of each row."""
    reward = reward_counts(batch, metric).reward
    theta = padded(metric.theta, batch.depth)
    return sums(reward.row, theta[reward.position] * reward.value, len(batch.n))


class ClusterRecords(NamedTuple):
    """Records of lines by cluster: one entry for every line that has any in a cluster.

    Attributes:
        line: Shape (Q,), rising.
        cluster: Shape (Q,), rising within a line.
        n: Shape (Q,): records.
    """

    line: Ints
    cluster: Ints
    n: Floats


def cluster_records(batch: Batch, line: Ints, kind: Cluster) -> ClusterRecords:
    """The records of lines, shape (R,) by row, in each cluster of a kind."""
    count = batch.cluster_count[kind]
    key = line.astype(np.int64) * count + batch.clusters[kind]
    keys, n = summed(key, batch.n, (int(line.max(initial=-1)) + 1) * count)
    return ClusterRecords(*parted(keys, count), n)


@kept
def list_records(batch: Batch, kind: Cluster) -> ClusterRecords:
    """The records of each list in each cluster of a kind."""
    return cluster_records(batch, batch.row_list, kind)


class Entries(NamedTuple):
    """Slots by cluster: those that have any records, position after position.

    Attributes:
        start: Shape (size + 1,): the first entry of each slot.
        held: Shape (size + 1,): how many entries each slot has; 0 for the last.
        key: for each position, Shape (E_k,): unit * T + cluster, rising.
        cluster: Shape (E,).
        n: Shape (E,): records.
    """

    start: Ints
    held: Ints
    key: list[Any]
    cluster: Ints
    n: Floats


@dataclass(frozen=True, eq=False)
class SlotCounts:
    """The slots of a batch, under numbers of their own.

    Attributes:
        batch: the log's records.
        line: Shape (R,): the line of `slot` that a row has.
        slot: Shape (lines, W): the slot of each position, `size` where nothing is shown.
        size: how many slots there are.
        columns: the slots of each position: one for every unit (a pair, a context) that can stand
            there.
        kept: what is counted in them, see `foreclick.kept`.
    """

    batch: Batch
    line: Ints
    slot: Ints
    size: int
    columns: tuple[slice, ...]
    kept: KeptValues = field(default_factory=dict)

    @cached_property
    def shown(self) -> Floats:
        """Shape (size + 1,): how many records show a slot; the last is 0."""
        line_n = sums(self.line, self.batch.n, len(self.slot))
        return self.ended(sums(self.slot, np.repeat(line_n, self.slot.shape[1]), self.size + 1))

    def n(self, counts: RewardCounts) -> Floats:
        """Shape (size + 1,): how many records could have earned a reward at a slot."""
        return self.shown if counts.at_risk is None else _at_risk(self, counts)

    def ended(self, values: Floats) -> Floats:
        """Shape (size + 1,): the same with 0 for no slot."""
        values[self.size] = 0.0
        return values

    def units(self, k: int) -> Ints:
        """Shape (lines,): which of the units each line has at a position; one beyond, for none."""
        column = self.columns[k]
        units, step = len(range(self.size)[column]), column.step or 1
        unit = (self.slot[:, k].astype(np.int64) - column.start + step - 1) // step
        return np.asarray(np.minimum(unit, units))


@kept
def _at_risk(slots: SlotCounts, counts: RewardCounts) -> Floats:
    """Shape (size + 1,): how many records are at risk at a slot; the last is 0."""
    weights = slots.batch.n[:, None] * np.asarray(counts.at_risk)
    return slots.ended(sums(slots.slot[slots.line], weights, slots.size + 1))


@kept
def earned_in(slots: SlotCounts, counts: RewardCounts, power: int = 1) -> Floats:
    """Shape (size + 1,): the sum of the reward (or its square) of each slot; the last is 0."""
    reward = counts.reward
    value = slots.batch.n[reward.row] * reward.value**power
    at = slots.slot[slots.line[reward.row], reward.position]
    return slots.ended(sums(at, value, slots.size + 1))


def slot_entries(slots: SlotCounts, kind: Cluster, counts: RewardCounts) -> Entries:
    """The slots that have records in a cluster, or records at risk."""
    return _slot_entries(slots, kind, None if counts.at_risk is None else counts)


@kept
def _slot_entries(slots: SlotCounts, kind: Cluster, risk: RewardCounts | None) -> Entries:
    """The same, whatever is counted, unless only some records are at risk."""
    batch, clusters = slots.batch, slots.batch.cluster_count[kind]
    line, cluster, n = slots.line, batch.clusters[kind], batch.n
    if risk is None:  # rows that differ in clicks alone are one
        own = line is batch.row_list  # most slots are of lists, and share their records
        line, cluster, n = list_records(batch, kind) if own else cluster_records(batch, line, kind)
    start = np.zeros(slots.size + 1, dtype=np.int32)
    count = np.zeros(slots.size + 1, dtype=np.int32)
    keys, entry_counts, before = [], [], 0
    for k, column in enumerate(slots.columns):
        here = n if risk is None else n * np.asarray(risk.at_risk)[:, k]
        size = len(range(slots.size)[column]) * clusters
        key, total = summed(slots.units(k)[line] * clusters + cluster, here, size)
        unit, of = parted(key, clusters)
        count[column] = own_count = np.bincount(unit, minlength=len(count[column]))
        start[column] = before + np.cumsum(own_count) - own_count
        before += len(key)
        keys.append(key)
        entry_counts.append((of.astype(np.int16), total))
    each, records = (np.concatenate(parts) for parts in zip(*entry_counts, strict=True))
    return Entries(start, count, keys, each, records)


@kept
def entry_earned(slots: SlotCounts, kind: Cluster, counts: RewardCounts) -> Floats:
    """Shape (E,): the sum of the reward of each of `slot_entries`."""
    entries, reward, batch = slot_entries(slots, kind, counts), counts.reward, slots.batch
    order = np.argsort(reward.position.astype(np.int16), kind="stable")
    ends = np.cumsum(np.bincount(reward.position, minlength=len(entries.key)))
    row = reward.row[order]
    line, cluster = slots.line[row], batch.clusters[kind][row]
    value, clusters = batch.n[row] * reward.value[order], batch.cluster_count[kind]
    parts = []
    for k, (key, end) in enumerate(zip(entries.key, ends.tolist(), strict=True)):
        some = slice(ends[k - 1] if k else 0, end)
        own = slots.units(k)[line[some]] * clusters + cluster[some]
        parts.append(sums(np.searchsorted(key, own), value[some], len(key)))
    return np.concatenate(parts)


def log_slots(batch: Batch, unit: Unit, depth: int = 0) -> SlotCounts:
    """The slots of a batch by unit, kept with it.

    Args:
        batch: the log's records.
        unit: see `Unit`.
        depth: the position down to which whole lists are told apart.
    """
    return _log_slots(batch, unit, min(depth, batch.depth))


@kept
def _log_slots(batch: Batch, unit: Unit, depth: int) -> SlotCounts:
    k, shown = batch.depth, batch.lists != EMPTY
    if unit == "list":
        at = batch.prefix[:, depth - 1 : depth].astype(np.int64)
        size = int(at[-1, 0]) + 1 if len(at) else 0
        return SlotCounts(batch, batch.row_list, at, size, (slice(0, size),))
    if unit == "prefix":
        counts = batch.prefix[-1] + 1 if len(shown) else np.zeros(k, dtype=int)
        end = np.cumsum(counts)
        first, size = end - counts, int(counts.sum())
        at = np.where(shown, batch.prefix + first, size)
        columns = tuple(map(slice, first.tolist(), end.tolist()))
        return SlotCounts(batch, batch.row_list, at, size, columns)
    if unit == "pair":
        size, slot = batch.pair_count * k, batch.slot
    else:
        size = batch.context_count * k
        kind = narrowest(size)
        first, position = batch.list_context * kind(k), np.arange(k).astype(kind)[:, None]
        slot = np.where(shown.T, first + position, kind(size)).T
    return SlotCounts(batch, batch.row_list, slot, size, side_by_side(size, k))


def side_by_side(size: int, depth: int) -> tuple[slice, ...]:
    """The slots of each position, if those of a unit are side by side."""
    return tuple(slice(k, size, depth) for k in range(depth))


# --- the candidates' cells ------------------------------------------------------------------------


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
    def alone(self) -> bool:
        """Whether every atom is its own cell, under the same number."""
        return self.size == len(self.cell) and bool(np.all(self.cell == np.arange(self.size)))

    def by_cell(self, values: Floats) -> Floats:
        """Shape (…, G): the sum over the atoms of each cell."""
        return values if self.alone else group_sums(self.cell, values, self.size)

    def reward_counts(self, target: Target) -> RewardCounts:
        """What a target counts in these cells; of a whole list, what the list is worth."""
        if self.filled is None:
            return reward_counts(self.batch, target.metric, hazard=target.hazard)
        worth = row_credit(self.batch, target.metric)
        row = np.flatnonzero(worth)
        at = np.zeros(len(row), dtype=np.int64)
        return RewardCounts(target.metric, reward=Reward(row, at, worth[row]))

    def theta(self, target: Target) -> Floats:
        """Shape (J,): θ of each atom; what a whole list is worth already has it."""
        return self.along(target.theta) if self.filled is None else np.ones(len(self.slot))


def cells_of(policies: Candidate, targets: list[Target], *, whole: bool = False) -> Cells:
    """The cells of candidates for targets of one group, as deep as their metrics, or whole."""
    model, end = targets[0].model, policies.depth
    if not whole:
        end = min(max(target.metric.depth for target in targets), end)
    if model.cell == "list":
        return _list_cells(policies, end)
    if model.cell == "prefix":
        return _prefix_cells(policies, end)
    if callable(model.cell) or not model.sees_items:
        return _cells_by_function(policies, model, end)
    return _pair_cells(policies, end, alone="position" in model.cell)


def _pair_cells(policies: Candidate, end: int, *, alone: bool) -> Cells:
    """An item: at each position alone (`ip`), or wherever it stands (`item`, `pbm`)."""
    counts, slots = log_slots(policies.batch, "pair"), policies.slots
    mass = slots.mass[:, :end]
    if alone:
        unit, position = np.nonzero(mass > 0)
        cell, context = np.arange(len(unit)), slots.context[unit]
    else:
        unit, position = (index.ravel() for index in np.indices(mass.shape))
        cell, context = unit, slots.context
    slot = _slot_of(counts, slots.pair[unit], position, policies.batch.depth)
    key = slots.pair[unit] * policies.depth + position
    shown = policies.slot_mass[:, unit, position]
    return Cells(counts, slot, position, cell, shown, context, key)


def _slot_of(counts: SlotCounts, unit: Ints, position: Ints, depth: int) -> Ints:
    """The log's slot of a unit at a position; none for new pairs, and below the log's last one."""
    at = unit.astype(np.int64) * depth + position
    return np.where((position < depth) & (at < counts.size), at, counts.size)


def _cells_by_function(policies: Candidate, model: ClickModel, end: int) -> Cells:
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
    key = context[row] * (int(code.max(initial=0)) + 1) + code
    wanted = np.unique(key[mass[:, row, position].max(axis=0, initial=0.0) > 0])
    cell = np.searchsorted(wanted, key)
    there = cell < len(wanted)
    there[there] = wanted[cell[there]] == key[there]
    row, position, cell = row[there], position[there], cell[there]
    owner = np.zeros(len(wanted), dtype=np.int64)
    owner[cell] = context[row]
    slot = _slot_of(counts, unit[row], position, batch.depth)
    return Cells(
        counts, slot, position, cell, mass[:, row, position], owner, unit[row] * depth + position
    )


def slot_codes(model: ClickModel, items: Any, depth: int) -> Ints:  # noqa: ANN401 - of any type
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


def _prefix_cells(policies: Candidate, end: int) -> Cells:
    """An item below the same items."""
    batch, lists, depth = policies.batch, policies.lists, policies.depth
    counts = log_slots(batch, "prefix")
    row, position = np.nonzero(lists.pairs[:, :end] != EMPTY)
    number = lists.prefix[row, position] * depth + position
    key, first, cell = np.unique(number, return_index=True, return_inverse=True)
    matched = matched_prefixes(batch, lists, depth)[row[first], position[first]]
    start = padded([column.start for column in counts.columns], depth).astype(np.int64)
    slot = np.where(matched >= 0, matched + start[position[first]], counts.size)
    mass = group_sums(cell.ravel(), policies.list_mass[:, row], len(first))
    own = np.arange(len(first))
    return Cells(counts, slot, position[first], own, mass, lists.context[row[first]], key)


def _list_cells(policies: Candidate, end: int) -> Cells:
    """Whole lists, down to position `end`."""
    batch, lists = policies.batch, policies.lists
    counts = log_slots(batch, "list", end)
    number = lists.prefix[:, end - 1] if len(lists.pairs) else np.zeros(0, dtype=np.int64)
    numbers, first, cell = np.unique(number, return_index=True, return_inverse=True)
    matched = matched_prefixes(batch, lists, end)[first, end - 1] if len(first) else first
    slot = np.where(matched >= 0, matched, counts.size)
    mass = group_sums(cell.ravel(), policies.list_mass, len(first))
    filled = lists.pairs[first, :end] != EMPTY
    own = np.arange(len(first))
    position = np.zeros(len(first), dtype=np.int64)
    key = numbers * policies.depth + end - 1
    return Cells(counts, slot, position, own, mass, lists.context[first], key, filled)


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
        totals = np.zeros((*values.shape[:-1], len(self.start) - 1))
        if len(self._some):  # reduceat has no empty runs
            totals[..., self._some] = np.add.reduceat(values, self.start[self._some], axis=-1)
        return totals

    @cached_property
    def _some(self) -> Ints:
        """The cells that have entries."""
        return np.flatnonzero(self.start[1:] > self.start[:-1])


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
    slot = cells.slot[atoms]
    count = entries.held[slot]
    entry = expanded(entries.start[slot].astype(np.int64), count)
    cell, cluster = np.repeat(cells.cell[atoms], count), entries.cluster[entry]
    group = None
    if not cells.alone:
        key, group = numbered(cell * clusters + cluster, cells.size * clusters)
        cell, cluster = parted(key, clusters)

    def by_entry(of_log: Floats, of_atom: Floats) -> Floats:
        values = of_log[entry]
        values *= np.repeat(of_atom[atoms], count)
        return values if group is None else sums(group, values, len(cell))

    earned = [
        by_entry(entry_earned(counts, kind, cells.reward_counts(target)), cells.theta(target))
        for target in targets
    ]
    exposed = [by_entry(entries.n, cells.exposure(target)) for target in targets]
    start = np.append(0, np.cumsum(np.bincount(cell, minlength=cells.size)))
    return CellEntries(start, cell, cluster, np.stack(earned), np.stack(exposed))
