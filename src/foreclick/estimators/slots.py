"""What a batch's log has of slots: how often each was shown, what it earned, and in which clusters.

A *slot* here is anything that a displayed position can be counted under: a pair at a position, a
context at a position, a prefix, a whole list, or the position of a single row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from foreclick.batches import EMPTY, Batch, Bools, Cluster, Floats, Ints, Reward, sums
from foreclick.batches.arrays import numbered

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
        of_row: Shape (R,): which of them each row belongs to.
    """

    line: Ints
    cluster: Ints
    n: Floats
    of_row: Ints


@dataclass(frozen=True, eq=False)
class Entries:
    """Slots by cluster: those that have any records.

    Attributes:
        start: Shape (size + 2,): where the entries of each slot begin; its end is the next.
        cluster: Shape (E,).
        number: Shape (D, W): the entry of every position of `Lines`, E where there is none.
    """

    start: Ints
    cluster: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.cluster)


@dataclass(frozen=True, eq=False)
class SlotCounts:
    """The slots of a batch, under numbers of their own.

    Attributes:
        batch: the log's records.
        line: Shape (R,): the line of `slot` that a row has.
        slot: Shape (lines, W): the slot of each position, `size` where nothing is shown.
        size: how many slots there are.
    """

    batch: Batch
    line: Ints
    slot: Ints
    size: int
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
            return self._ended(sums(self.at(reward), value, self.size + 1))

        return self._keep(("earned", counted.name, power), make)

    def at(self, reward: Reward) -> Ints:
        """Shape (E,): the slot of every entry of a reward."""
        return self.slot[self.line[reward.row], reward.position]

    def _ended(self, found: Floats) -> Floats:
        found[self.size] = 0.0
        return found

    # --- by cluster -------------------------------------------------------------------------------

    def lines(self, kind: Cluster) -> Lines:
        """The lines that have records in a cluster."""

        def make() -> Lines:
            batch, count = self.batch, self.batch.cluster_count[kind]
            key = self.line.astype(np.int64) * count + batch.clusters[kind]
            found, of_row = numbered(key, len(self.slot) * count)
            line, cluster = np.divmod(found, count)
            n = sums(of_row, batch.n, len(found))
            return Lines(line, cluster.astype(np.int32), n, of_row.astype(np.int32))

        if self.line is self.batch.row_list:  # most slots are of lists, and share their lines
            return self.batch.keep(("lines", kind), make)  # type: ignore[return-value]
        return self._keep(("lines", kind), make)

    def entries(self, kind: Cluster) -> Entries:
        """The slots that have records in a cluster."""

        def make() -> Entries:
            count, lines = self.batch.cluster_count[kind], self.lines(kind)
            key = self.slot[lines.line].astype(np.int64) * count + lines.cluster[:, None]
            found, number = numbered(key.ravel(), (self.size + 1) * count)
            last = int(np.searchsorted(found, self.size * count))  # those that show nothing
            slot, cluster = np.divmod(found[:last], count)
            number = np.minimum(number, last).astype(np.int32).reshape(key.shape)
            start = np.zeros(self.size + 2, dtype=np.int64)
            np.cumsum(np.bincount(slot, minlength=self.size + 1), out=start[1:])
            return Entries(start, cluster.astype(np.int32), number)

        return self._keep(("entries", kind), make)

    def entry_n(self, kind: Cluster, counted: Counted) -> Floats:
        """Shape (E,): records of each entry."""

        def make() -> Floats:
            entries, lines = self.entries(kind), self.lines(kind)
            if counted.at_risk is None:
                n = np.repeat(lines.n, self.slot.shape[1])
                return sums(entries.number, n, len(entries) + 1)[:-1]
            n = self.batch.n[:, None] * counted.at_risk
            return sums(entries.number[lines.of_row], n, len(entries) + 1)[:-1]

        return self._keep(("entry n", kind, counted.at_risk is None or counted.name), make)

    def entry_earned(self, kind: Cluster, counted: Counted) -> Floats:
        """Shape (E,): the sum of the reward of each entry."""

        def make() -> Floats:
            entries, reward = self.entries(kind), counted.reward
            number = entries.number[self.lines(kind).of_row[reward.row], reward.position]
            value = self.batch.n[reward.row] * reward.value
            return sums(number, value, len(entries) + 1)[:-1]

        return self._keep(("entry earned", kind, counted.name), make)


def pair_slots(batch: Batch) -> SlotCounts:
    """Pairs at positions: slot = pair * K + position."""

    def make() -> SlotCounts:
        return SlotCounts(batch, batch.row_list, batch.slot, batch.pair_count * batch.depth)

    return batch.keep("pair slots", make)  # type: ignore[return-value]


def context_slots(batch: Batch) -> SlotCounts:
    """Contexts at positions, whatever item is there: slot = context * K + position."""

    def make() -> SlotCounts:
        size = batch.context_count * batch.depth
        at = batch.list_context.astype(np.int64)[:, None] * batch.depth + np.arange(batch.depth)
        return SlotCounts(batch, batch.row_list, np.where(batch.lists == EMPTY, size, at), size)

    return batch.keep("context slots", make)  # type: ignore[return-value]


def prefix_slots(batch: Batch) -> SlotCounts:
    """Prefixes: an item with all that stands above it."""

    def make() -> SlotCounts:
        counts = batch.prefix[-1] + 1 if len(batch.lists) else np.zeros(batch.depth, dtype=int)
        first = np.cumsum(counts) - counts
        size = int(counts.sum())
        at = np.where(batch.lists == EMPTY, size, batch.prefix + first)
        return SlotCounts(batch, batch.row_list, at, size)

    return batch.keep("prefix slots", make)  # type: ignore[return-value]


def prefix_start(batch: Batch) -> Ints:
    """Shape (K,): the slot of the first prefix of each length."""
    counts = batch.prefix[-1] + 1 if len(batch.lists) else np.zeros(batch.depth, dtype=np.int64)
    return np.asarray(np.cumsum(counts) - counts)


def list_slots(batch: Batch, depth: int) -> SlotCounts:
    """Whole lists down to a position."""

    def make() -> SlotCounts:
        at = batch.prefix[:, min(depth, batch.depth) - 1 :][:, :1].astype(np.int64)
        size = int(at[-1, 0]) + 1 if len(at) else 0
        return SlotCounts(batch, batch.row_list, at, size)

    return batch.keep(("list slots", min(depth, batch.depth)), make)  # type: ignore[return-value]


def row_slots(batch: Batch, *, whole: bool) -> SlotCounts:
    """Every row on its own: its positions, or the whole of it."""
    rows = np.arange(len(batch.n))
    if whole:
        return SlotCounts(batch, rows, rows[:, None], len(rows))
    size = len(rows) * batch.depth
    at = rows[:, None] * batch.depth + np.arange(batch.depth)
    empty = (batch.lists == EMPTY)[batch.row_list]
    return SlotCounts(batch, rows, np.where(empty, size, at), size)
