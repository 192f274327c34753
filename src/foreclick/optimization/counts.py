"""What a policy is chosen by, and what it is judged by: records in folds, counted by context.

Folds are made of whole periods or of whole buckets of units, where the log has them, and of single
records otherwise: then the n equal records of a row are dealt out at random, by a hash of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import (
    EMPTY,
    Batch,
    Batches,
    Bools,
    Coding,
    Floats,
    Ints,
    decode,
    row_schema,
    sums,
)
from foreclick.batches.batch import paired
from foreclick.engines import HASHES, hashed_here
from foreclick.engines.base import GOLDEN, mixed
from foreclick.logs import N
from foreclick.optimization.rates import ItemCounts
from foreclick.policies import Policy
from foreclick.tallies.base import FEW_PERIODS

ALL = -1  # The fold of policies that are chosen from all records

SLOTS = 500_000  # Positions of lists that are worked on at a time

_FINEST = 2.0**20  # rewards and propensities are hashed up to a millionth


class FoldedLog:
    """The records of a log in folds; iterated, every fold of a context is a context of its own.

    Args:
        batches: the log.
        count: how many folds there are.

    Attributes:
        by: what is never divided between folds: "period" if the log has enough of them, else
            "unit" if it has units, else "record"; None if there is one fold.
        codebook, rows: as `Batches` need them of their source. A row whose records are divided
            stands in several folds, which are not counted.
    """

    def __init__(self, batches: Batches, count: int) -> None:
        self.batches, self.count, self.codebook = batches, count, batches.codebook
        periods = self.codebook.periods
        known = 0 if periods is None else len(periods) - periods.values.null_count
        self.by: str | None = None
        if count > 1:
            rest = "unit" if batches.shape.unit else "record"
            self.by = "period" if known >= max(FEW_PERIODS, count) else rest
        self.rows = batches.rows * (count if self.by == "record" else 1)

    def of(self, batch: Batch) -> tuple[Batch, Ints]:
        """The batch, and the fold of each row; rows whose records are divided stand in it again.

        Returns:
            The batch, and the folds, shape (R,).
        """
        if self.by is None:
            return batch, np.zeros(len(batch.n), dtype=np.int64)
        if self.by != "record":  # one period after the other goes to the next fold
            return batch, batch.clusters[self.by] % self.count  # type: ignore[index]
        row, fold, n = dealt_at_random(batch.n, self.seeds(batch), self.count)
        return batch.take(row, n), fold

    def seeds(self, batch: Batch) -> Ints:
        """Shape (R,): a hash of all keys of each row as text, the same on every machine."""
        shape = self.batches.shape

        def make() -> Ints:
            schema = row_schema(shape, self.batches.tally.table.kinds)
            schema = schema.set(schema.get_field_index(N), pa.field(N, pa.float64()))
            rows, texts = decode(batch, shape, self.codebook, schema), [pa.scalar("__fold")]
            for name in shape.keys:
                column = rows[name]
                if pa.types.is_floating(column.type):  # engines write 1.0 in ways of their own
                    column = pc.floor(pc.multiply(column, _FINEST)).cast(pa.int64())
                texts.append(column.cast(pa.string()))
            keys = pc.binary_join_element_wise(
                *texts, ":", null_handling="replace", null_replacement=""
            )
            return np.array([hashed_here(key) for key in keys.to_pylist()], dtype=np.uint64)

        return cast("Ints", batch.keep("fold seeds", make))

    def portions(self, given: Policy | None = None) -> Iterator[tuple[Batch, Ints, Bools, int]]:
        """The log, some whole contexts after others.

        Args:
            given: lists that are added to those of the log.

        Yields:
            A batch; the fold of each row, shape (R,); which lists may be chosen, shape (L,): those
            given, or all; and how many contexts the log has before the batch.
        """
        before = 0
        for whole in self.batches:
            extended, offered = (whole, None) if given is None else with_lists(whole, given)
            may = np.ones(len(whole.lists), dtype=np.bool_) if offered is None else offered
            batch, fold = self.of(extended)
            starts = batch.context_lists
            for first, last in batch.portions(SLOTS):
                rows = slice(*np.searchsorted(batch.row_context, [first, last]))
                part = batch.between(first, last)
                yield part, fold[rows], may[starts[first] : starts[last]], before + first
            before += whole.context_count

    def __iter__(self) -> Iterator[Batch]:
        for part, fold, _, first in self.portions():
            split = part.split(fold, self.count)
            number = first + (split.context_value - part.context_value[0]).astype(np.int64)
            yield replace(
                split,
                contexts=pa.array(fold_number(number, split.stratum, self.count)),
                context_value=np.arange(len(number)),
                stratum=np.zeros_like(split.stratum),
            )


def fold_number(context: Ints, fold: Ints | int, count: int) -> Ints:
    """The name of a fold of a context, by the number of the context in the whole log."""
    return np.asarray(context * count + fold)


def dealt_at_random(n: Floats, seed: Ints, folds: int) -> tuple[Ints, Ints, Floats]:
    """Deal the n equal records of each row to folds, each to any of them alike.

    The counts are multinomial: fold by fold, a binomial share of what is left. What n has beyond a
    whole number goes with one more record.

    Args:
        n: Shape (R,): records of each row.
        seed: Shape (R,): what decides, 64 bits without sign.
        folds: how many there are.

    Returns:
        Row, fold and records of each share, in the order of rows.
    """
    from scipy import special  # noqa: PLC0415 - slow to import

    def uniform(of: Ints, stream: int) -> Floats:
        """A number between 0 and 1 for each seed, another one for each stream."""
        with np.errstate(over="ignore"):
            z = mixed((of + np.uint64(HASHES) * np.uint64(stream + 1)) * GOLDEN)
        return (np.asarray(z >> np.uint64(11), dtype=np.float64) + 0.5) / 2.0**53

    counts = np.zeros((len(n), folds))
    left = np.floor(n)
    for fold in range(folds - 1):
        some = np.flatnonzero(left)
        u, most, p = uniform(seed[some], fold), left[some], 1.0 / (folds - fold)
        # The smallest count whose probability to be that, or less, is at least u.
        share = np.clip(np.ceil(special.bdtrik(u, most, p)), 0, most)
        less = np.maximum(share - 1, 0)  # where the inverse is off by rounding
        counts[some, fold] = np.where(
            special.bdtr(less, most.astype(np.int64), p) >= u, less, share
        )
        left = left - counts[:, fold]
    counts[:, folds - 1] = left
    last = np.floor(uniform(seed, folds) * folds).astype(np.int64)
    counts[np.arange(len(n)), last] += n - np.floor(n)
    row, fold_of = np.nonzero(counts)
    return row, fold_of, counts[row, fold_of]


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of some contexts, fold by fold.

    Sizes: F folds, X contexts, P pairs of a context and an item, K positions, M lists that differ
    within the D positions that the metric counts.

    Attributes:
        contexts: (X,) values.
        items: (P,) values: the item of each pair.
        pair_context: Shape (P,): the context of each pair, rising.
        n: Shape (F, P, K): how many records show the pair at the position.
        c: Shape (F, P, K): their clicks there.
        records: Shape (F, X).
        lists: Shape (M, D): pairs, `EMPTY` where nothing is shown.
        list_context: Shape (M,), rising.
        list_n: Shape (F, M): how many records show the list.
        list_c: Shape (F, M, D): their clicks; (F, 0, D) if lists are not to choose from.
        offered: Shape (M,): which lists may be chosen.
        rows: how many rows of the log these are.
        first: the number of the first context among all contexts of the log.
    """

    contexts: pa.Array
    items: pa.Array
    pair_context: Ints
    n: Floats
    c: Floats
    records: Floats
    lists: Ints
    list_context: Ints
    list_n: Floats
    list_c: Floats
    offered: Bools
    rows: int
    first: int

    def slots(self, fold: int = ALL) -> ItemCounts:
        """The counts of all records, or of those outside of a fold."""
        each = self.n, self.c, self.records
        whole = (of.sum(axis=0) for of in each)
        if fold != ALL:
            whole = (np.maximum(of.sum(axis=0) - of[fold], 0.0) for of in each)
        return ItemCounts(self.pair_context, *whole)


def counts_of(
    folds: FoldedLog, reward: str, depth: int, *, by_list: bool = False, given: Policy | None = None
) -> Iterator[Counts]:
    """The counts of a log, some contexts at a time.

    Args:
        folds: the log.
        reward: whose clicks are counted.
        depth: D, how many positions the metric counts.
        by_list: whether the clicks of lists are counted too.
        given: lists to choose from, beside those of the log.
    """
    for batch, fold, may, first in folds.portions(given):

        def by_fold(of: Ints, group: Ints, values: Floats, count: int) -> Floats:
            """Shape (F, count): the sums of values by fold and group."""
            key = of.astype(np.int64) * count + group
            return sums(key, values, folds.count * count).reshape(folds.count, count)

        list_n = by_fold(fold, batch.row_list, batch.n, len(batch.lists))
        n = np.stack([batch.by_slot(batch.slot, np.repeat(of, batch.depth)) for of in list_n])
        # Lists that differ further down than the metric counts are one.
        number = batch.prefix[:, depth - 1]
        lists = np.flatnonzero(np.diff(number, prepend=-1))
        entries = batch.rewards[reward]
        clicks, click_fold = entries.value * batch.n[entries.row], fold[entries.row]
        slots = batch.pair_count * batch.depth
        c = by_fold(click_fold, batch.earned_slot(entries), clicks, slots + 1)[:, :slots]
        list_c = np.zeros((folds.count, 0))
        if by_list:
            at = number[batch.row_list[entries.row]] * depth + entries.position
            some = entries.position < depth
            list_c = by_fold(click_fold[some], at[some], clicks[some], len(lists) * depth)
        yield Counts(
            contexts=batch.contexts.take(pa.array(batch.context_value)),
            items=batch.items.take(pa.array(batch.pair_item)),
            pair_context=batch.pair_context,
            n=n,
            c=c.reshape(n.shape),
            records=np.stack([sums(batch.list_context, of, batch.context_count) for of in list_n]),
            lists=batch.lists[lists, :depth],
            list_context=batch.list_context[lists],
            list_n=np.stack([sums(number, of, len(lists)) for of in list_n]),
            list_c=list_c.reshape(folds.count, -1, depth),
            offered=sums(number, may, len(lists)) > 0,
            rows=len(batch.n),
            first=first,
        )


def with_lists(batch: Batch, policy: Policy) -> tuple[Batch, Bools]:
    """A batch with the lists of a policy among its own, though it has no records of them.

    Returns:
        The batch, and which of its lists are the policy's, shape (L,).
    """
    view = Coding(batch, batch.depth).view
    given = policy.list_rows(view)
    order = pc.sort_indices(view.values)
    rank = np.full(len(order) + 1, EMPTY)  # the last is that of no item
    rank[np.asarray(order)] = np.arange(len(order))
    items = rank[
        np.concatenate(
            [np.where(batch.lists == EMPTY, EMPTY, batch.pair_item[batch.lists]), given.items]
        )
    ]
    context = np.concatenate([batch.list_context, given.context])
    by_list = np.lexsort((*items.T[::-1], context))
    new = np.ones(len(by_list), dtype=np.bool_)
    same = items[by_list][1:] == items[by_list][:-1]
    new[1:] = ~same.all(axis=1) | (context[by_list][1:] != context[by_list][:-1])
    number = np.empty(len(by_list), dtype=np.int64)
    number[by_list] = np.cumsum(new) - 1
    offered = np.zeros(int(new.sum()), dtype=np.bool_)
    offered[number[len(batch.lists) :]] = True
    first = by_list[new]
    pair_context, pair_item, lists = paired(context[first], items[first], len(order))
    extended = replace(
        batch,
        items=view.values.take(order),
        pair_context=pair_context,
        pair_item=pair_item,
        lists=lists,
        list_context=context[first],
        row_list=number[: len(batch.lists)][batch.row_list],
        kept={},
    )
    return extended, offered
