"""What a batch's log has of slots: how often each was shown, what it earned, and in which clusters.

A *slot* here is anything that a displayed position can be counted under: a pair at a position, a
context at a position, a prefix, a whole list, or the position of a single row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from foreclick.batches import EMPTY, Batch, Bools, Cluster, Floats, Ints, Reward, sums
from foreclick.batches.arrays import parted, summed

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Counted:
    """What is counted in slots: a reward, and the records that could have earned it.

    Attributes:
        name: tells it from others of the same batch.
        reward: the entries that are not 0.
        at_risk: Shape (R, K): which positions of a row could have earned it; None: all shown.
    """

    name: object
    reward: Reward
    at_risk: Bools | None = None


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines of slots by cluster: those that have any records. Rows that differ in clicks are one.

    Attributes:
        line: Shape (D,), rising.
        cluster: Shape (D,).
        n: Shape (D,): records.
    """

    line: Ints
    cluster: Ints
    n: Floats


@dataclass(frozen=True, eq=False)
class Entries:
    """Slots by cluster: those that have any records, position after position.

    Attributes:
        start: Shape (size + 1,): the first entry of each slot.
        count: Shape (size + 1,): how many entries each slot has; 0 for the last.
        key: for each position, Shape (E_k,): unit * T + cluster, rising.
        n: Shape (E,): records.
        cluster: Shape (E,).
    """

    start: Ints
    count: Ints
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
    """

    batch: Batch
    line: Ints
    slot: Ints
    size: int
    columns: tuple[slice, ...]
    _kept: dict[object, Any] = field(default_factory=dict)

    def _keep(self, key: object, make: Callable[[], T]) -> T:
        """What `make` gives, made once."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[no-any-return]

    @property
    def row_slot(self) -> Ints:
        """Shape (R, W)."""
        return self.slot[self.line]

    def n(self, counted: Counted) -> Floats:
        """Shape (size + 1,): how many records show a slot, or are at risk there; the last is 0."""

        def make() -> Floats:
            if counted.at_risk is None:
                line_n = sums(self.line, self.batch.n, len(self.slot))
                weights = np.repeat(line_n, self.slot.shape[1])
                return self._ended(sums(self.slot, weights, self.size + 1))
            weights = self.batch.n[:, None] * counted.at_risk
            return self._ended(sums(self.row_slot, weights, self.size + 1))

        return self._keep(("n", counted.at_risk is None or counted.name), make)

    def earned(self, counted: Counted, power: int = 1) -> Floats:
        """Shape (size + 1,): the sum of the reward (or its square) of each slot; the last is 0."""

        def make() -> Floats:
            reward = counted.reward
            value = self.batch.n[reward.row] * reward.value**power
            return self._ended(sums(self.at(counted), value, self.size + 1))

        return self._keep(("earned", counted.name, power), make)

    def at(self, counted: Counted) -> Ints:
        """Shape (C,): the slot of every entry of the reward."""
        reward = counted.reward
        slots = lambda: self.slot[self.line[reward.row], reward.position]  # noqa: E731
        return self._keep(("at", counted.name), slots)

    def _ended(self, found: Floats) -> Floats:
        found[self.size] = 0.0
        return found

    # --- by cluster -------------------------------------------------------------------------------

    def entries(self, kind: Cluster, counted: Counted) -> Entries:
        """The slots that have records in a cluster, or records at risk."""

        def make() -> Entries:
            clusters = self.batch.cluster_count[kind]
            start = np.zeros(self.size + 1, dtype=np.int32)
            count = np.zeros(self.size + 1, dtype=np.int32)
            keys, found, before = [], [], 0
            for k, column in enumerate(self.columns):
                key, n = self._column_entries(kind, counted, k)
                unit, cluster = parted(key, clusters)
                count[column] = size = np.bincount(unit, minlength=len(count[column]))
                start[column] = before + np.cumsum(size) - size
                before += len(key)
                keys.append(key)
                found.append((cluster.astype(np.int16), n))
            each, n = (np.concatenate(parts) for parts in zip(*found, strict=True))
            return Entries(start, count, keys, each, n)

        return self._keep(("entries", kind, counted.at_risk is None or counted.name), make)

    def _column_entries(self, kind: Cluster, counted: Counted, k: int) -> tuple[Ints, Floats]:
        """The entries of one position: unit * T + cluster, rising, and records."""
        batch, unit = self.batch, self._units(k)
        clusters, units = batch.cluster_count[kind], len(range(self.size)[self.columns[k]])
        if counted.at_risk is None:
            lines = self._lines(kind)
            line, cluster, n = lines.line, lines.cluster, lines.n
        else:
            line, cluster, n = self.line, batch.clusters[kind], batch.n * counted.at_risk[:, k]
        return summed(unit[line] * clusters + cluster, n, units * clusters)

    def _units(self, k: int) -> Ints:
        """Shape (lines,): which of the units each line has at a position; one beyond, for none."""
        column = self.columns[k]
        units, step = len(range(self.size)[column]), column.step or 1
        unit = (self.slot[:, k].astype(np.int64) - column.start + step - 1) // step
        return np.asarray(np.minimum(unit, units))

    def entry_earned(self, kind: Cluster, counted: Counted) -> Floats:
        """Shape (E,): the sum of the reward of each entry."""

        def make() -> Floats:
            entries, reward, batch = self.entries(kind, counted), counted.reward, self.batch
            order = np.argsort(reward.position.astype(np.int16), kind="stable")
            ends = np.cumsum(np.bincount(reward.position, minlength=len(entries.key)))
            row = reward.row[order]
            line, cluster = self.line[row], batch.clusters[kind][row]
            value, clusters = batch.n[row] * reward.value[order], batch.cluster_count[kind]
            found = []
            for k, (key, end) in enumerate(zip(entries.key, ends.tolist(), strict=True)):
                some = slice(ends[k - 1] if k else 0, end)
                own = self._units(k)[line[some]] * clusters + cluster[some]
                found.append(sums(np.searchsorted(key, own), value[some], len(key)))
            return np.concatenate(found)

        return self._keep(("entry earned", kind, counted.name), make)

    def _lines(self, kind: Cluster) -> Lines:
        """The lines that have records in a cluster."""

        def make() -> Lines:
            batch, count = self.batch, self.batch.cluster_count[kind]
            key = self.line.astype(np.int64) * count + batch.clusters[kind]
            found, n = summed(key, batch.n, len(self.slot) * count)
            line, cluster = parted(found, count)
            return Lines(line, cluster, n)

        if self.line is self.batch.row_list:  # most slots are of lists, and share their lines
            return self.batch.keep(("lines", kind), make)  # type: ignore[return-value]
        return self._keep(("lines", kind), make)


def pair_slots(batch: Batch) -> SlotCounts:
    """Pairs at positions: slot = pair * K + position."""

    def make() -> SlotCounts:
        size = batch.pair_count * batch.depth
        columns = _side_by_side(size, batch.depth)
        return SlotCounts(batch, batch.row_list, batch.slot, size, columns)

    return batch.keep("pair slots", make)  # type: ignore[return-value]


def context_slots(batch: Batch) -> SlotCounts:
    """Contexts at positions, whatever item is there: slot = context * K + position."""

    def make() -> SlotCounts:
        size = batch.context_count * batch.depth
        first, filled = batch.list_context * np.int64(batch.depth), (batch.lists != EMPTY).T
        slot = np.where(filled, first + np.arange(batch.depth)[:, None], size).T
        columns = _side_by_side(size, batch.depth)
        return SlotCounts(batch, batch.row_list, slot, size, columns)

    return batch.keep("context slots", make)  # type: ignore[return-value]


def prefix_slots(batch: Batch) -> SlotCounts:
    """Prefixes: an item with all that stands above it."""

    def make() -> SlotCounts:
        counts = batch.prefix[-1] + 1 if len(batch.lists) else np.zeros(batch.depth, dtype=int)
        end = np.cumsum(counts)
        first, size = end - counts, int(counts.sum())
        at = np.where(batch.lists == EMPTY, size, batch.prefix + first)
        columns = tuple(map(slice, first.tolist(), end.tolist()))
        return SlotCounts(batch, batch.row_list, at, size, columns)

    return batch.keep("prefix slots", make)  # type: ignore[return-value]


def list_slots(batch: Batch, depth: int) -> SlotCounts:
    """Whole lists down to a position."""

    def make() -> SlotCounts:
        at = batch.prefix[:, min(depth, batch.depth) - 1 :][:, :1].astype(np.int64)
        size = int(at[-1, 0]) + 1 if len(at) else 0
        return SlotCounts(batch, batch.row_list, at, size, (slice(0, size),))

    return batch.keep(("list slots", min(depth, batch.depth)), make)  # type: ignore[return-value]


def row_slots(batch: Batch, *, whole: bool) -> SlotCounts:
    """Every row on its own: its positions, or the whole of it."""
    rows = np.arange(len(batch.n))
    if whole:
        return SlotCounts(batch, rows, rows[:, None], len(rows), (slice(0, len(rows)),))
    size = len(rows) * batch.depth
    at = rows[:, None] * batch.depth + np.arange(batch.depth)
    empty = (batch.lists == EMPTY)[batch.row_list]
    slot, columns = np.where(empty, size, at), _side_by_side(size, batch.depth)
    return SlotCounts(batch, rows, slot, size, columns)


def _side_by_side(size: int, depth: int) -> tuple[slice, ...]:
    """The slots of each position, if those of a unit are side by side."""
    return tuple(slice(k, size, depth) for k in range(depth))
