"""Slots of a log: what it shows and earns at each.

A **slot** is anything that a displayed position can be counted under: a pair at a position, a
context at a position, a prefix, a whole list, or the position of a single row. What the log shows
and earns is counted once per slot (`SlotCounts`). A click model groups slots into cells, see
`estimation.cells`.

Sizes: R rows, K positions, W of a line of slots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from foreclick.batches import EMPTY, Batch, Bools, Cluster, Floats, Ints, Reward, padded, sums
from foreclick.batches.arrays import Numbers, narrowest, parted, summed
from foreclick.kept import KeptValues, kept
from foreclick.metrics import Metric
from foreclick.models import ClickModel

Unit: TypeAlias = Literal["pair", "context", "prefix", "list"]
"""What slots are of: an item in a context, or a context, each at its positions; an item with all
that stands above it; a whole list."""


def group_sums(group: Ints, values: Numbers, count: int) -> Floats:
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


@kept
def list_reward(batch: Batch, metric: Metric) -> RewardCounts:
    """What a metric counts of whole lists: what each row earns by it."""
    credit = row_credit(batch, metric)
    row = np.flatnonzero(credit)
    return RewardCounts(metric, reward=Reward(row, np.zeros_like(row), credit[row]))


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
        length: Shape (size + 1,): how many entries each slot has; 0 for the last.
        key: Shape (E_k,) by position: unit * T + cluster, of T clusters, rising.
        cluster: Shape (E,).
        n: Shape (E,): records.
    """

    start: Ints
    length: Ints
    key: list[Ints]
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
        if self.slot is self.batch.slot:
            return self.batch.slot_n
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
def reward_slots(slots: SlotCounts, counts: RewardCounts) -> Ints:
    """The slot of each entry of a reward."""
    return slots.slot[slots.line[counts.reward.row], counts.reward.position]


@kept
def earned_in(slots: SlotCounts, counts: RewardCounts, power: int = 1) -> Floats:
    """Shape (size + 1,): the sum of the reward (or its square) of each slot; the last is 0."""
    reward = counts.reward
    value = slots.batch.n[reward.row] * reward.value**power
    return slots.ended(sums(reward_slots(slots, counts), value, slots.size + 1))


def slot_entries(slots: SlotCounts, kind: Cluster, counts: RewardCounts | None = None) -> Entries:
    """The slots that have records in a cluster, or records at risk."""
    risk = counts is not None and counts.at_risk is not None
    return _slot_entries(slots, kind, counts if risk else None)


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
        keys.append(key.astype(narrowest(size + clusters)))
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
        at = np.searchsorted(key, own.astype(key.dtype))
        parts.append(sums(at, value[some], len(key)))
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
