"""What a policy is chosen by: counts of items at positions and of lists, of some contexts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import EMPTY, Batch, Bools, Coding, Floats, Ints, sums
from foreclick.batches.batch import paired
from foreclick.optimization.cells import Context, ListCounts, Model, Rates
from foreclick.optimization.ladder import SlotCounts
from foreclick.policies import NO_ITEM, Policy

ALL = -1
"""The fold of policies that are chosen from all records."""


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
        list_c: Shape (F, M, D): their clicks.
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
    first: int = 0

    def slots(self, fold: int) -> SlotCounts:
        """The counts of all records (`ALL`), or of those outside of a fold."""
        whole = self.n.sum(axis=0), self.c.sum(axis=0), self.records.sum(axis=0)
        every = SlotCounts(self.pair_context, *whole)
        if fold == ALL:
            return every
        held_out = self.n[fold], self.c[fold], self.records[fold]
        return every.without(SlotCounts(self.pair_context, *held_out))

    def rates(self, fold: int, model: Model) -> Rates:
        """The ladder's rates by all records (`ALL`), or by those outside of a fold."""
        return model.rates(self.slots(fold))

    def each(
        self, fold: int, model: Model, *, by_list: bool, named: bool
    ) -> Iterator[tuple[int, int, Context]]:
        """Every context by all records (`ALL`), or by those outside of a fold.

        Contexts without records there are left out, and so are those without records in the fold,
        by which nothing would be judged.

        Args:
            fold: what is left out.
            model: gives rates, if it is a ladder.
            by_list: whether lists are to choose from.
            named: whether constraints name contexts or items.

        Yields:
            The number of the context, the number of its first pair, and its counts.
        """
        counts = self.slots(fold)
        rates = self.rates(fold, model)
        numbers = np.arange(len(self.contexts) + 1)
        pairs, lists = (
            np.searchsorted(of, numbers) for of in (self.pair_context, self.list_context)
        )
        some = (counts.records > 0) & (np.diff(pairs) > 0)
        if fold != ALL:
            some &= self.records[fold] > 0
        values = self.contexts.to_pylist() if named else []
        items = self.items.to_pylist() if named else []
        for x in np.flatnonzero(some).tolist():
            mine = slice(int(pairs[x]), int(pairs[x + 1]))
            yield (
                x,
                mine.start,
                Context(
                    counts.n[mine],
                    counts.c[mine],
                    float(counts.records[x]),
                    rates.rate[mine],
                    rates.variance[mine],
                    rates.step[mine],
                    rates.by_p and rates.by_p.at(mine),
                    self._lists(slice(lists[x], lists[x + 1]), fold, mine.start)
                    if by_list
                    else None,
                    values[x] if named else None,
                    items[mine],
                ),
            )

    def _lists(self, mine: slice, fold: int, first: int) -> ListCounts:
        """The lists of a context, with items counted from its first."""
        lists = self.lists[mine]
        used = np.arange(len(self.records)) != fold
        return ListCounts(
            np.where(lists == EMPTY, EMPTY, lists - first),
            self.list_n[used, mine].sum(axis=0),
            self.list_c[used, mine].sum(axis=0),
            self.offered[mine],
        )


@dataclass(frozen=True)
class Counting:
    """Counts a batch, some contexts at a time.

    Attributes:
        reward: whose clicks are counted.
        depth: D, how many positions the metric counts.
        folds: F.
        by_list: whether the clicks of lists are counted too.
        slots: about so many positions of lists are counted at a time.
    """

    reward: str
    depth: int
    folds: int
    by_list: bool
    slots: int

    def parts(
        self, batch: Batch, fold: Ints, offered: Bools | None = None, before: int = 0
    ) -> Iterator[Counts]:
        """The counts of a batch, some whole contexts after others.

        Args:
            batch: the records.
            fold: Shape (R,): the fold of each row.
            offered: Shape (L,): the lists that may be chosen; None for all.
            before: how many contexts the log has before this batch.
        """
        may = np.ones(len(batch.lists), dtype=np.bool_) if offered is None else offered
        starts = batch.context_lists
        for first, last in batch.portions(self.slots):
            rows = slice(*np.searchsorted(batch.row_context, [first, last]))
            part = batch.between(first, last)
            counts = self._counted(part, fold[rows], may[starts[first] : starts[last]])
            yield replace(counts, first=before + first)

    def _counted(self, batch: Batch, fold: Ints, offered: Bools) -> Counts:
        """The counts of a whole batch."""
        folds, depth = self.folds, self.depth
        list_n = self._by(fold, batch.row_list, batch.n, len(batch.lists))
        n = np.stack([batch.by_slot(batch.slot, np.repeat(of, batch.depth)) for of in list_n])
        # Lists that differ further down than the metric counts are one.
        number = batch.prefix[:, depth - 1]
        lists = np.flatnonzero(np.diff(number, prepend=-1))
        reward = batch.rewards[self.reward]
        clicks, click_fold = reward.value * batch.n[reward.row], fold[reward.row]
        slots = batch.pair_count * batch.depth
        c = self._by(click_fold, batch.earned_slot(reward), clicks, slots + 1)[:, :slots]
        list_c = np.zeros((folds, 0))
        if self.by_list:
            at = number[batch.row_list[reward.row]] * depth + reward.position
            some = reward.position < depth
            list_c = self._by(click_fold[some], at[some], clicks[some], len(lists) * depth)
        return Counts(
            contexts=batch.contexts.take(pa.array(batch.context_value)),
            items=batch.items.take(pa.array(batch.pair_item)),
            pair_context=batch.pair_context,
            n=n,
            c=c.reshape(n.shape),
            records=np.stack([sums(batch.list_context, of, batch.context_count) for of in list_n]),
            lists=batch.lists[lists, :depth],
            list_context=batch.list_context[lists],
            list_n=np.stack([sums(number, of, len(lists)) for of in list_n]),
            list_c=list_c.reshape(folds, -1, depth),
            offered=sums(number, offered, len(lists)) > 0,
            rows=len(batch.n),
        )

    def _by(self, fold: Ints, group: Ints, values: Floats, count: int) -> Floats:
        """Shape (F, count): the sums of values by fold and group."""
        key = fold.astype(np.int64) * count + group
        return sums(key, values, self.folds * count).reshape(self.folds, count)


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
    logged = np.where(batch.lists == EMPTY, NO_ITEM, batch.pair_item[batch.lists])
    items = rank[np.concatenate([logged, given.items])]
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
