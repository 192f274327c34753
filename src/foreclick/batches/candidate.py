"""A policy in the numbers of a batch: its lists and its slots, by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foreclick.batches.arrays import (
    Bools,
    Floats,
    Ints,
    expanded,
    numbered,
    plain_values,
    starts_of,
    sums,
)
from foreclick.batches.batch import EMPTY, Batch
from foreclick.policies import ListRows, LogView, Policy, SlotRows

Rows = TypeVar("Rows", ListRows, SlotRows)
_ITEMS = 2**32  # more than there are items of a context


@dataclass(frozen=True, eq=False)
class CodedLists:
    """The lists of a policy, in lexicographic order of their pairs, each once.

    Attributes:
        context: Shape (M,).
        pairs: Shape (M, D): the pair of each slot, `EMPTY` where nothing is shown.
        mass: Shape (M,): how likely each is.
    """

    context: Ints
    pairs: Ints
    mass: Floats

    @cached_property
    def prefix(self) -> Ints:
        """Shape (M, D): the number of the list's beginning down to each position.

        That of the first list with this beginning, at every position: sorted by it, the beginnings
        of a context are in one order, whatever other contexts there are.
        """
        new = np.ones(self.pairs.shape, dtype=np.bool_)
        if len(self.pairs):
            new[1:] = self.pairs[1:] != self.pairs[:-1]
            new[1:] |= (self.context[1:] != self.context[:-1])[:, None]
            np.logical_or.accumulate(new, axis=1, out=new)
        first = np.where(new, np.arange(len(new))[:, None], 0)
        return np.maximum.accumulate(first, axis=0)


@dataclass(frozen=True, eq=False)
class CodedSlots:
    """The pairs that a policy shows, and how likely each is at each position.

    Attributes:
        pair: Shape (Q,), rising.
        context: Shape (Q,).
        mass: Shape (Q, D).
    """

    pair: Ints
    context: Ints
    mass: Floats


class Coding:
    """The numbers in which policies are compared with a batch, and with each other.

    Pairs that the log never showed have numbers from P on, the same for every policy.

    Args:
        batch: the log's records.
        depth: D, down to which position policies are asked.
    """

    def __init__(self, batch: Batch, depth: int) -> None:
        self.batch, self.depth = batch, depth
        self.view = LogView(batch.contexts, batch.items, depth)
        self._starts = starts_of(batch.context_value, len(batch.contexts))
        self._keys: Ints = np.zeros(0, dtype=np.int64)
        self._numbers: Ints = np.zeros(0, dtype=np.int64)

    def spread(self, rows: Rows) -> Rows:
        """Rows of context values as rows of contexts: of a split context, once for each part."""
        if len(self.batch.contexts) == self.batch.context_count:
            return rows
        size = (self._starts[1:] - self._starts[:-1])[rows.context]
        context = expanded(self._starts[:-1][rows.context], size)
        row = np.repeat(np.arange(len(rows.context)), size)
        others: list[Any] = [column[row] for column in rows[1:]]
        return type(rows)(context, *others)

    def pairs(self, context: Ints, item: Ints) -> Ints:
        """The pair of each slot, `EMPTY` where there is no item."""
        batch = self.batch
        found = np.full(len(item), EMPTY, dtype=np.int64)
        logged = np.flatnonzero((item >= 0) & (item < len(batch.items)))
        key = context[logged].astype(np.int64) * max(len(batch.items), 1) + item[logged]
        at = np.searchsorted(batch.pair_key, key)
        hit = at < batch.pair_count
        hit[hit] = batch.pair_key[at[hit]] == key[hit]
        found[logged[hit]] = at[hit]
        new = np.flatnonzero((found == EMPTY) & (item >= 0))
        if len(new):
            found[new] = self._unseen(context[new].astype(np.int64) * _ITEMS + item[new])
        return found

    def _unseen(self, keys: Ints) -> Ints:
        """The numbers of pairs that the log never showed."""
        more = np.setdiff1d(keys, self._keys)
        if len(more):
            more = self._by_value(more)
            numbers = self.batch.pair_count + len(self._keys) + np.arange(len(more))
            both = np.concatenate([self._keys, more])
            order = np.argsort(both)
            self._keys = both[order]
            self._numbers = np.concatenate([self._numbers, numbers])[order]
        return self._numbers[np.searchsorted(self._keys, keys)]

    def _by_value(self, keys: Ints) -> Ints:
        """Keys of pairs, those of a context in the order of their items' values.

        The numbers of items depend on what other contexts of the batch have shown; the order in
        which the values of pairs are added up must not.
        """
        items, at = np.unique(keys % _ITEMS, return_inverse=True)
        rank = np.empty(len(items), dtype=np.int64)
        by_value = pc.sort_indices(self.view.values.take(pa.array(items)))
        rank[np.asarray(by_value)] = np.arange(len(items))
        return keys[np.lexsort((rank[at], keys // _ITEMS))]

    def items_of(self, pair: Ints) -> Ints:
        """The item of each pair, by the numbers of the view."""
        found = np.empty(len(pair), dtype=np.int64)
        logged = pair < self.batch.pair_count
        found[logged] = self.batch.pair_item[pair[logged]]
        if not logged.all():
            by_number = np.empty(len(self._keys), dtype=np.int64)
            by_number[self._numbers - self.batch.pair_count] = self._keys % _ITEMS
            found[~logged] = by_number[pair[~logged] - self.batch.pair_count]
        return found

    def values(self, item: Ints) -> NDArray[Any]:
        """The values of items: an array of integers, or of text."""
        return plain_values(self.view.values)[item]


class Candidate:
    """A policy in the numbers of a batch.

    Args:
        coding: the numbers.
        policy: any policy.
        within: Shape (X,): the contexts that it is asked for; all by default.
    """

    def __init__(self, coding: Coding, policy: Policy, within: Bools | None = None) -> None:
        self.coding, self.policy, self.depth = coding, policy, coding.depth
        self.batch, self.within = coding.batch, within

    @cached_property
    def _known(self) -> Bools:
        return self.policy.known(self.coding.view)

    @cached_property
    def known(self) -> Bools:
        """Shape (X,): the contexts that the policy has an answer for, of those it is asked for."""
        found = self._known[self.batch.context_value]
        return found if self.within is None else found & self.within

    @property
    def shared(self) -> int:
        """How many values of contexts the policy and the batch have in common."""
        return int(self._known.sum())

    @property
    def strange_items(self) -> set[Any] | None:
        """The items that it shows, if the log shows none of them in the same context."""
        pairs = self.lists.pairs.ravel() if self.policy.complete else self.slots.pair
        if np.any((pairs >= 0) & (pairs < self.batch.pair_count)):
            return None
        return set(self.coding.values(self.coding.items_of(pairs[pairs != EMPTY])).tolist())

    @cached_property
    def lists(self) -> CodedLists:
        """The lists that the policy shows."""
        rows = self._asked(self.coding.spread(self.policy.list_rows(self.coding.view)))
        pairs = self.coding.pairs(np.repeat(rows.context, self.depth), rows.items.ravel())
        return _once(rows.context, pairs.reshape(rows.items.shape), rows.mass[None])[0]

    @property
    def list_mass(self) -> Floats:
        """Shape (1, M): how likely each list is."""
        return self.lists.mass[None]

    @property
    def slot_mass(self) -> Floats:
        """Shape (1, Q, D): how likely each pair is at each position."""
        return self.slots.mass[None]

    @cached_property
    def slots(self) -> CodedSlots:
        """The pairs that the policy shows."""
        if self.policy.complete:
            row, at = np.nonzero(self.lists.pairs != EMPTY)
            mass = self.lists.mass[row]
            context: Ints = self.lists.context[row]
            position: Ints = at
            pair = self.lists.pairs[row, at]
        else:
            rows = self._asked(self.coding.spread(self.policy.slot_rows(self.coding.view)))
            context, position, mass = rows.context, rows.position, rows.mass
            pair = self.coding.pairs(context, rows.item)
        found, number = numbered(pair, int(pair.max(initial=-1)) + 1)
        of = np.zeros(len(found), dtype=np.int64)
        of[number] = context
        shape = len(found), self.depth
        at = number * self.depth + position
        return CodedSlots(found, of, sums(at, mass, shape[0] * shape[1]).reshape(shape))

    def _asked(self, rows: Rows) -> Rows:
        """The rows of the contexts that are asked for."""
        if self.within is None:
            return rows
        some = np.flatnonzero(self.within[rows.context])
        kept: list[Any] = [column[some] for column in rows]
        return type(rows)(*kept)


class Several(Candidate):
    """Several policies in the numbers of a batch: whatever any of them shows.

    Args:
        members: C policies, in the same numbers.
    """

    def __init__(self, members: Sequence[Candidate]) -> None:
        one = members[0]
        super().__init__(one.coding, one.policy, one.within)
        self.members = members

    @cached_property
    def _lists(self) -> tuple[CodedLists, Floats]:
        each = [member.lists for member in self.members]
        context, pairs = (
            np.concatenate([getattr(lists, name) for lists in each])
            for name in ("context", "pairs")
        )
        return _once(context, pairs, _apart([lists.mass for lists in each]))

    @cached_property
    def lists(self) -> CodedLists:
        """The lists that any of them shows."""
        return self._lists[0]

    @property
    def list_mass(self) -> Floats:
        """Shape (C, M): how likely each list is, by policy."""
        return self._lists[1]

    @cached_property
    def slots(self) -> CodedSlots:
        """The pairs that any of them shows."""
        each = [member.slots for member in self.members]
        pair, context = (
            np.concatenate([getattr(slots, name) for slots in each]) for name in ("pair", "context")
        )
        found, first = np.unique(pair, return_index=True)
        return CodedSlots(found, context[first], self._slot_mass(found).sum(axis=0))

    @property
    def slot_mass(self) -> Floats:
        """Shape (C, Q, D): how likely each pair is at each position, by policy."""
        return self._slot_mass(self.slots.pair)

    def _slot_mass(self, pair: Ints) -> Floats:
        found = np.zeros((len(self.members), len(pair), self.depth))
        for mass, member in zip(found, self.members, strict=True):
            mass[np.searchsorted(pair, member.slots.pair)] = member.slots.mass
        return found


def _apart(masses: Sequence[Floats]) -> Floats:
    """Shape (C, Σ M): the masses of C policies one after the other, each in a row of its own."""
    found = np.zeros((len(masses), sum(map(len, masses))))
    start = 0
    for row, mass in zip(found, masses, strict=True):
        row[start : start + len(mass)] = mass
        start += len(mass)
    return found


def _once(context: Ints, pairs: Ints, mass: Floats) -> tuple[CodedLists, Floats]:
    """Lists in lexicographic order, each once; and shape (C, M), how likely each is in C ways.

    Args:
        context: Shape (rows,).
        pairs: Shape (rows, D).
        mass: Shape (C, rows).
    """
    order = np.lexsort((*pairs.T[::-1], context))
    context, pairs, mass = context[order], pairs[order], mass[:, order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (pairs[1:] != pairs[:-1]).any(axis=1) | (context[1:] != context[:-1])
    number, count = np.cumsum(new) - 1, int(new.sum())
    each = np.stack([sums(number, row, count) for row in mass])
    return CodedLists(context[new], pairs[new], each.sum(axis=0)), each


def matched_prefixes(batch: Batch, lists: CodedLists, depth: int) -> Ints:
    """Shape (M, depth): which prefix of the log (`Batch.prefix`) each list begins with, or -1.

    A position beyond the log's last is matched by a list that shows nothing there.
    """
    first = begin_alike(batch.context_lists, batch.lists, lists.context, lists.pairs[:, :depth])
    level = np.minimum(np.arange(depth), batch.depth - 1)
    found = batch.prefix[np.maximum(first, 0), level] if len(batch.lists) else first
    return np.where(first >= 0, found, -1)


def begin_alike(starts: Ints, lists: Ints, context: Ints, wanted: Ints) -> Ints:
    """Shape (M, D): the first list that begins as each wanted one does down to a position, or -1.

    Args:
        starts: Shape (X + 1,): where the lists of each context begin.
        lists: Shape (L, K): pairs, in lexicographic order within a context.
        context: Shape (M,): of each wanted list.
        wanted: Shape (M, D): its pairs.
    """
    low: Ints = starts[context]
    high: Ints = starts[context + 1]
    found = np.full(wanted.shape, -1, dtype=np.int64)
    for k in range(wanted.shape[1]):
        pair = wanted[:, k]
        if k < lists.shape[1]:
            column = lists[:, k]
            low, high = (
                _bisect(column, low, high, pair, right=False),
                _bisect(column, low, high, pair, right=True),
            )
        else:
            high = np.where(pair == EMPTY, high, low)
        there = low < high
        found[there, k] = low[there]
    return found


def _bisect(column: Ints, low: Ints, high: Ints, value: Ints, *, right: bool) -> Ints:
    """Where each value belongs between low and high, a part of the column that rises."""
    low, high = low.copy(), high.copy()
    open_: Bools = low < high
    while open_.any():
        middle = (low + high) // 2
        at = column[np.where(open_, middle, 0)]
        up = open_ & ((at <= value) if right else (at < value))
        low = np.where(up, middle + 1, low)
        high = np.where(open_ & ~up, middle, high)
        open_ = low < high
    return low
