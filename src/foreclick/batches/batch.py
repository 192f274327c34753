"""The batch: the records of some contexts, as integer-coded arrays.

Rows come in the tally's canonical order, so contexts, lists and prefixes are *runs*: one comparison
of neighbours numbers them. A (context, item) **pair** has a number; a **slot** is a pair at a
position, `pair * K + position`. Pairs are numbered in the order of context and item, so the lists
of a context are in lexicographic order of their pairs and can be found by bisection.

Sizes: R rows, L lists, P pairs, X contexts, K positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from foreclick.batches.arrays import (
    Bools,
    Floats,
    Ints,
    expanded,
    narrowest,
    numbered,
    ratio,
    starts_of,
    sums,
)
from foreclick.engines import HASHES, hashed_here
from foreclick.kept import KeptValues, forget
from foreclick.metrics import first_of

Cluster = Literal["period", "unit"]
"""Whose records vary together: those of a day (or week), or of a user."""

EMPTY = -1
"""The pair of a position that shows nothing."""


class Reward(NamedTuple):
    """A reward of the log where it is not 0, row after row.

    Attributes:
        row: Shape (E,).
        position: Shape (E,), from 0.
        value: Shape (E,).
    """

    row: Ints
    position: Ints
    value: Floats


class Drawn(NamedTuple):
    """How records were drawn from a larger log.

    Attributes:
        weight: Shape (R,): for how many of the log's records one of each row stands.
        inclusion: Shape (R,): π, the probability that its context was drawn.
    """

    weight: Floats
    inclusion: Floats

    def take(self, rows: Ints) -> Drawn:
        """Of some rows."""
        return Drawn(self.weight[rows], self.inclusion[rows])


@dataclass(frozen=True, eq=False)
class Batch:
    """The records of some contexts.

    Attributes:
        depth: K, the positions of a list.
        contexts: (X,) values, rising.
        items: (I,) values, rising.
        pair_context: Shape (P,).
        pair_item: Shape (P,).
        lists: Shape (L, K): the pair of each slot, `EMPTY` where nothing is shown.
        list_context: Shape (L,).
        row_list: Shape (R,).
        n: Shape (R,): how many records a row stands for.
        rewards: by name.
        clusters: Shape (R,) each: the number of each row's period, or bucket of units.
        cluster_count: how many of them the whole log has.
        segments: Shape (R,) each: the number of the segment's value.
        propensity: Shape (R,) or (R, K), if the log has them.
        drawn: of a log whose contexts were drawn, how; None: it has all of its records.
        kept: what only these records decide, see `foreclick.kept`.
    """

    depth: int
    contexts: pa.Array
    items: pa.Array
    pair_context: Ints
    pair_item: Ints
    lists: Ints
    list_context: Ints
    row_list: Ints
    n: Floats
    rewards: Mapping[str, Reward]
    clusters: Mapping[Cluster, Ints]
    cluster_count: Mapping[Cluster, int]
    segments: Mapping[str, Ints]
    propensity: Floats | None
    drawn: Drawn | None = None
    kept: KeptValues = field(default_factory=dict, init=False)

    @property
    def context_count(self) -> int:
        """X."""
        return len(self.contexts)

    @property
    def pair_count(self) -> int:
        """P."""
        return len(self.pair_context)

    # --- counts, made once ------------------------------------------------------------------------

    @cached_property
    def row_context(self) -> Ints:
        """Shape (R,)."""
        return self.list_context[self.row_list]

    @cached_property
    def list_n(self) -> Floats:
        """Shape (L,): records of each list."""
        return sums(self.row_list, self.n, len(self.lists))

    @cached_property
    def context_n(self) -> Floats:
        """Shape (X,): records of each context."""
        return sums(self.list_context, self.list_n, self.context_count)

    @cached_property
    def context_weight(self) -> Floats | None:
        """Shape (X,): for how many of the log's records one of each context stands."""
        if self.drawn is None:
            return None
        stands_for = sums(self.row_context, self.n * self.drawn.weight, self.context_count)
        return ratio(stands_for, self.context_n)

    @cached_property
    def context_inclusion(self) -> Floats | None:
        """Shape (X,): π of each context; of one that several tallies drew, the smallest."""
        if self.drawn is None:
            return None
        smallest = np.ones(self.context_count)
        np.minimum.at(smallest, self.row_context, self.drawn.inclusion)
        return smallest

    @cached_property
    def context_lists(self) -> Ints:
        """Shape (X + 1,): where the lists of each context begin."""
        return starts_of(self.list_context, self.context_count)

    @cached_property
    def context_pairs(self) -> Ints:
        """Shape (X + 1,): where the pairs of each context begin."""
        return starts_of(self.pair_context, self.context_count)

    @cached_property
    def slot(self) -> Ints:
        """Shape (L, K): pair * K + position; P * K, one beyond the last, where nothing is shown."""
        # Column after column in memory, because lists are summed position by position.
        lists, none = np.asfortranarray(self.lists), self.pair_count * self.depth
        kind = narrowest(none)
        at: Ints = lists * kind(self.depth) + np.arange(self.depth, dtype=kind)
        return np.asarray(np.where(lists == EMPTY, kind(none), at))

    @cached_property
    def slot_n(self) -> Floats:
        """Shape (P · K + 1,): records of each slot; the last is 0."""
        size = self.pair_count * self.depth
        records = sums(self.slot, np.repeat(self.list_n, self.depth), size + 1)
        records[size] = 0.0
        return records

    @property
    def shown(self) -> Floats:
        """Shape (P, K): how many records show each pair at each position."""
        return self.slot_n[:-1].reshape(self.pair_count, self.depth)

    @cached_property
    def prefix(self) -> Ints:
        """Shape (L, K): the number of the list's beginning down to each position."""
        new = new_prefixes(self.list_context, self.lists)
        return np.cumsum(new, axis=0, dtype=np.int32) - 1

    @cached_property
    def draws(self) -> Floats:
        """Shape (X,): a number from 0 to 1 for each context; below a share, it is in the sample.

        The hash of the context's text: it depends on nothing else in the log, nor on any question.
        """
        text = self.contexts.cast(pa.string()).fill_null("").to_pylist()
        hashes = np.array([hashed_here(f"foreclick:{t}") for t in text], dtype=np.int64)
        return np.asarray(hashes / HASHES)

    def by_slot(self, slot: Ints, values: Floats) -> Floats:
        """Shape (P, K): the sums of values by slot."""
        size = self.pair_count * self.depth
        return sums(slot, values, size + 1)[:size].reshape(self.pair_count, self.depth)

    # --- rewards ----------------------------------------------------------------------------------

    def forget(self) -> None:
        """Drop what is kept: it refers to the batch in turn, and so would hold it in memory."""
        forget(self)

    def reward_table(self, name: str) -> Floats:
        """Shape (R, K): a reward of every slot of the rows."""
        row, position, value = self.reward(name)
        table = np.zeros((len(self.n), self.depth))
        table[row, position] = value
        return table

    def reward(self, name: str) -> Reward:
        """A reward of the log, or the first clicks that a metric of these weighs."""
        source = first_of(name)
        return self.rewards[name] if source is None else self.first(source)

    def first(self, name: str) -> Reward:
        """The first reward of each row, as a reward of 1."""
        reward = self.rewards[name]
        new = np.ones(len(reward.row), dtype=np.bool_)
        new[1:] = reward.row[1:] != reward.row[:-1]
        return Reward(reward.row[new], reward.position[new], np.ones(int(new.sum())))

    def filled(self) -> Reward:
        """A reward of 1 for every position that shows something; not kept, because it is large."""
        row, position = np.nonzero((self.lists != EMPTY)[self.row_list])
        return Reward(row, position, np.ones(len(row)))

    def at_risk(self, name: str) -> Bools:
        """Shape (R, K): whether something is shown there, and no reward is above it."""
        first = self.first(name)
        last = np.full(len(self.n), self.depth)
        last[first.row] = first.position
        shown = (self.lists != EMPTY)[self.row_list]
        return np.asarray(shown & (np.arange(self.depth) <= last[:, None]))

    def earned_slot(self, reward: Reward) -> Ints:
        """Shape (E,): the slot of every entry of a reward."""
        return self.slot[self.row_list[reward.row], reward.position]

    # --- other batches of the same records --------------------------------------------------------

    def take(self, rows: Ints, n: Floats) -> Batch:
        """Some rows, or the same rows several times, in rising order, with other counts."""
        rewards = {}
        for name, reward in self.rewards.items():
            start = np.searchsorted(reward.row, rows)
            size = np.searchsorted(reward.row, rows, side="right") - start
            entry, row = expanded(start, size), np.repeat(np.arange(len(rows)), size)
            rewards[name] = Reward(row, reward.position[entry], reward.value[entry])
        return replace(
            self,
            row_list=self.row_list[rows],
            n=n,
            rewards=rewards,
            clusters={kind: code[rows] for kind, code in self.clusters.items()},
            segments={name: code[rows] for name, code in self.segments.items()},
            propensity=None if self.propensity is None else self.propensity[rows],
            drawn=None if self.drawn is None else self.drawn.take(rows),
        )

    def split(self, part: Ints, strata: int) -> Batch:
        """Every part of a context as a context of its own, called context * strata + part.

        Args:
            part: Shape (R,): the part of each row, below `strata`.
            strata: how many parts there are.
        """
        key = self.row_context.astype(np.int64) * strata + part
        order = np.lexsort((self.row_list, key))
        rows = self.take(order, self.n[order])
        groups, context = numbered(key[order], self.context_count * strata)
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (context[1:] != context[:-1]) | (rows.row_list[1:] != rows.row_list[:-1])
        first = np.flatnonzero(new)
        lists, list_context = self.lists[rows.row_list[first]], context[first]
        # Items by their number within the context, which are few: all keys then fit in a table.
        start = self.context_pairs[groups // strata]
        local = np.where(lists == EMPTY, EMPTY, lists - start[list_context][:, None])
        most = int(np.diff(self.context_pairs).max(initial=0))
        pair_context, pair_local, lists = paired(list_context, local, most)
        return replace(
            rows,
            contexts=pa.array(groups),
            pair_context=pair_context,
            pair_item=self.pair_item[start[pair_context] + pair_local],
            lists=lists,
            list_context=list_context,
            row_list=np.cumsum(new) - 1,
        )

    def among(self, some: Bools) -> Batch:
        """Some of the rows, shape (R,); what is left without records is gone."""
        rows = np.flatnonzero(some)
        taken = self.take(rows, self.n[rows])
        used, row_list = numbered(taken.row_list, len(self.lists))
        lists = self.lists[used]
        context, list_context = numbered(self.list_context[used], self.context_count)
        pair, number = numbered(lists[lists != EMPTY], self.pair_count)
        lists[lists != EMPTY] = number
        item, pair_item = numbered(self.pair_item[pair], len(self.items))
        return replace(
            taken,
            contexts=self.contexts.take(pa.array(context)),
            items=self.items.take(pa.array(item)),
            pair_context=np.searchsorted(context, self.pair_context[pair]),
            pair_item=pair_item,
            lists=lists,
            list_context=list_context,
            row_list=row_list,
        )

    def codes(self, name: str) -> Ints:
        """Shape (R,): the number of each row's value of a segment column, or of its period."""
        return self.segments[name] if name in self.segments else self.clusters["period"]

    def portions(self, slots: int) -> Iterator[tuple[int, int]]:
        """Whole contexts with about so many positions of lists together: the first, and the end."""
        starts, size, first = self.context_lists, max(slots // self.depth, 1), 0
        while first < self.context_count:
            last = int(np.searchsorted(starts, starts[first] + size, side="right")) - 1
            last = max(last, first + 1)
            yield first, last
            first = last

    def between(self, first: int, last: int) -> Batch:
        """The contexts from the first to before the last, which all have records."""
        some = np.zeros(len(self.n), dtype=np.bool_)
        some[slice(*np.searchsorted(self.row_context, [first, last]))] = True
        return self.among(some)

    def part(self, contexts: Bools) -> BatchPart:
        """The contexts of shape (X,) that are true and have records, as a batch of their own."""
        taken = contexts & (self.context_n > 0)
        if taken.all():
            sizes = self.context_count, self.pair_count, len(self.lists), len(self.n)
            return BatchPart(self, *map(np.arange, sizes))
        some = (
            taken,
            *(taken[owner] for owner in (self.pair_context, self.list_context, self.row_context)),
        )
        return BatchPart(self.among(some[-1]), *map(np.flatnonzero, some))

    def only(self, contexts: Bools) -> Batch:
        """The records of some contexts; the others stay, without records."""
        rows = np.flatnonzero(contexts[self.row_context])
        return self.take(rows, self.n[rows])


class BatchPart(NamedTuple):
    """Some contexts of a batch, as a batch of their own.

    Attributes:
        batch: their records.
        contexts, pairs, lists, rows: the numbers of its own in the whole batch.
    """

    batch: Batch
    contexts: Ints
    pairs: Ints
    lists: Ints
    rows: Ints

    def within(self, part: BatchPart) -> BatchPart:
        """A part of this part, by the numbers of the whole batch."""
        batch, *own = part
        return BatchPart(batch, *(of[at] for of, at in zip(self[1:], own, strict=True)))


def new_prefixes(context: Ints, lists: Ints) -> Bools:
    """Shape (L, K): whether a list begins otherwise than the one before it, down to a position.

    Args:
        context: Shape (L,), of each list.
        lists: Shape (L, K), in lexicographic order.
    """
    new = np.ones(lists.shape, dtype=np.bool_)
    new[1:] = (lists[1:] != lists[:-1]) | (context[1:] != context[:-1])[:, None]
    return np.logical_or.accumulate(new, axis=1)


def paired(list_context: Ints, items: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Number the (context, item) pairs of lists: context and item of each, and the lists in pairs.

    Args:
        list_context: Shape (L,).
        items: Shape (L, K): items by number, `EMPTY` for none.
        count: how many items there are.
    """
    size = max(count, 1)
    filled = items != EMPTY
    key = (list_context.astype(np.int64)[:, None] * size + items)[filled]
    most = (int(list_context.max(initial=-1)) + 1) * size
    pairs, number = numbered(key, most)
    lists = np.full(items.shape, EMPTY, dtype=np.int32)
    lists[filled] = number
    return (pairs // size).astype(np.int32), (pairs % size).astype(np.int32), lists
