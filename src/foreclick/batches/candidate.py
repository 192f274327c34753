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
    numbered,
    sums,
    value_of_each,
)
from foreclick.batches.batch import EMPTY, Batch, new_prefixes
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
        new = new_prefixes(self.context, self.pairs)
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
        depth: D, the last position that counts.
    """

    def __init__(self, batch: Batch, depth: int) -> None:
        self.batch, self.depth = batch, depth
        self.view = LogView(batch.contexts, batch.items, depth)
        # Context and item as one number, rising, and the number of each pair.
        self._keys: Ints = batch.pair_context.astype(np.int64) * _ITEMS + batch.pair_item
        self._numbers: Ints = np.arange(batch.pair_count)

    def pairs(self, context: Ints, item: Ints, *, add: bool = True) -> Ints:
        """The pair of each slot; `EMPTY`: no item, or a new pair that is not to be added."""
        pair = np.full(len(item), EMPTY, dtype=np.int64)
        slots = np.flatnonzero(item >= 0)
        keys = context[slots].astype(np.int64) * _ITEMS + item[slots]
        at, known = self._find(keys)
        if add and not known.all():
            self._add(np.unique(keys[~known]))
            at, known = self._find(keys)
        pair[slots[known]] = self._numbers[at[known]]
        return pair

    def _find(self, keys: Ints) -> tuple[Ints, Bools]:
        """Where each key belongs, and whether it is there."""
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        return at, known

    def _add(self, keys: Ints) -> None:
        """Number pairs that the log never showed, by their keys, which rise.

        Those of a context get numbers in the order of their items' values. The numbers of items
        depend on what other contexts of the batch have shown; the order in which the values of
        pairs are added up must not.
        """
        items, item = np.unique(keys % _ITEMS, return_inverse=True)
        rank = np.argsort(pc.sort_indices(self.view.values.take(pa.array(items))))
        order = np.lexsort((rank[item], keys // _ITEMS))
        numbers, at = len(self._keys) + np.argsort(order), np.searchsorted(self._keys, keys)
        self._keys = np.insert(self._keys, at, keys)
        self._numbers = np.insert(self._numbers, at, numbers)

    def items_of(self, pair: Ints) -> Ints:
        """The item of each pair, by the numbers of the view."""
        items = np.empty(len(self._keys), dtype=np.int64)
        items[self._numbers] = self._keys % _ITEMS
        return items[pair]

    def values(self, item: Ints) -> NDArray[Any]:
        """The values of items: an array of integers, or of text."""
        values = self.view.values
        if pa.types.is_integer(values.type):
            return np.asarray(values)[item]
        return np.array(values.to_pylist(), dtype=object)[item]


class Candidate:
    """A policy in the numbers of a batch.

    Args:
        coding: the numbers.
        policy: any policy.
        within: Shape (X,): the contexts in which it is used; all by default.
    """

    def __init__(self, coding: Coding, policy: Policy, within: Bools | None = None) -> None:
        self.coding, self.policy, self.depth = coding, policy, coding.depth
        self.batch, self.within = coding.batch, within

    @cached_property
    def _known(self) -> Bools:
        return self.policy.known(self.coding.view)

    @cached_property
    def known(self) -> Bools:
        """Shape (X,): the contexts that the policy has lists for, among those where it is used."""
        return self._known if self.within is None else self._known & self.within

    @property
    def shared(self) -> int:
        """How many contexts the policy and the batch have in common."""
        return int(self._known.sum())

    @property
    def unknown_items(self) -> set[Any] | None:
        """The items that it shows, if the log shows none of them in the same context."""
        pairs = self.lists.pairs.ravel() if self.policy.complete else self.slots.pair
        if np.any((pairs >= 0) & (pairs < self.batch.pair_count)):
            return None
        return set(self.coding.values(self.coding.items_of(pairs[pairs != EMPTY])).tolist())

    @cached_property
    def lists(self) -> CodedLists:
        """The lists that the policy shows."""
        rows = self._rows(self.policy.list_rows(self.coding.view))
        pairs = self.coding.pairs(np.repeat(rows.context, self.depth), rows.items.ravel())
        return _once(rows.context, pairs.reshape(rows.items.shape), rows.mass[None])[0]

    @cached_property
    def begins(self) -> Ints:
        """Shape (M, D): which prefix of the log (`Batch.prefix`) each list begins with, or -1.

        A position beyond the log's last is matched by a list that shows nothing there.
        """
        batch, lists = self.batch, self.lists
        first = begin_alike(batch.context_lists, batch.lists, lists.context, lists.pairs)
        level = np.minimum(np.arange(self.depth), batch.depth - 1)
        prefix = batch.prefix[np.maximum(first, 0), level] if len(batch.lists) else first
        return np.where(first >= 0, prefix, -1)

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
        position: Ints
        if self.policy.complete:
            row, position = np.nonzero(self.lists.pairs != EMPTY)
            mass, context = self.lists.mass[row], self.lists.context[row]
            pair = self.lists.pairs[row, position]
        else:
            rows = self._rows(self.policy.slot_rows(self.coding.view))
            context, position, mass = rows.context, rows.position, rows.mass
            pair = self.coding.pairs(context, rows.item)
        pairs, number = numbered(pair, int(pair.max(initial=-1)) + 1)
        size = len(pairs) * self.depth
        masses = sums(number * self.depth + position, mass, size).reshape(-1, self.depth)
        return CodedSlots(pairs, value_of_each(number, context.astype(np.int64)), masses)

    def _rows(self, rows: Rows) -> Rows:
        """Rows without those of contexts where the policy is not used."""
        if self.within is None:
            return rows
        some = np.flatnonzero(self.within[rows.context])
        columns: list[Any] = [column[some] for column in rows]
        return type(rows)(*columns)


class CandidateSet(Candidate):
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
        context = np.concatenate([lists.context for lists in each])
        pairs = np.concatenate([lists.pairs for lists in each])
        # (C, Σ M): the masses of a policy stand in its row, at its lists.
        policy = np.repeat(np.arange(len(each)), [len(lists.mass) for lists in each])
        mass = np.concatenate([lists.mass for lists in each])
        return _once(context, pairs, np.where(policy == np.arange(len(each))[:, None], mass, 0.0))

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
        pair, first = np.unique(np.concatenate([s.pair for s in each]), return_index=True)
        context = np.concatenate([s.context for s in each])[first]
        mass = np.zeros((len(pair), self.depth))
        for own in each:
            mass[np.searchsorted(pair, own.pair)] += own.mass
        return CodedSlots(pair, context, mass)

    @property
    def slot_mass(self) -> Floats:
        """Shape (C, Q, D): how likely each pair is at each position, by policy."""
        pair = self.slots.pair
        masses = np.zeros((len(self.members), len(pair), self.depth))
        for mass, member in zip(masses, self.members, strict=True):
            mass[np.searchsorted(pair, member.slots.pair)] = member.slots.mass
        return masses


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
    first = np.full(wanted.shape, -1, dtype=np.int64)
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
        first[there, k] = low[there]
    return first


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
