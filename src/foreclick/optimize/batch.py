"""Rows of counts as contexts that can be looked at one by one: Arrow to NumPy."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.logs import CONTEXT, ITEM, N
from foreclick.models import POSITION
from foreclick.optimize.answers import ALL, CREDIT, FOLD, NOBODY, OFFERED
from foreclick.optimize.rates import Climbing, Counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Bools = NDArray[np.bool_]


class Lists(NamedTuple):
    """Lists, and what a log has of them.

    Attributes:
        items: Shape (m, K): items by number, `NOBODY` for a hole.
        n, c: Shape (m,) and (m, K): how often each was shown, and its clicks.
        offered: Shape (m,): which of them are to choose from; the others only tell of clicks.
    """

    items: Integers
    n: Floats
    c: Floats
    offered: Bools


class View(NamedTuple):
    """One context.

    Attributes:
        items: L values.
        n, c: Shape (L, D): how often each was shown at each position, and its clicks there.
        rate, off: Shape (L, D): rates by the ladder, and their variance; empty without one.
        lists: those to choose from, if not every order of the items.
    """

    context: Hashable
    items: list[Hashable]
    n: Floats
    c: Floats
    records: float
    rate: Floats
    off: Floats
    lists: Lists | None = None


@dataclass(frozen=True)
class Batch:
    """The counts of some contexts, fold by fold.

    Attributes:
        contexts, items: values; items come in the order of their contexts.
        folds: the counts of each fold; `whole`: of all together.
        owner: Shape (m,): the context of each list, if lists were given; `lists`: by fold.
    """

    contexts: list[Hashable]
    items: list[Hashable]
    folds: list[Counts]
    whole: Counts
    owner: Integers | None = None
    lists: tuple[Lists, ...] = ()

    @classmethod
    def of_slots(cls, rows: pa.Table, folds: int, depth: int) -> Batch:
        """From (context, fold, item, position) → n, c; position 0 has a context's records."""
        contexts, context, fold, n = _read(rows)
        position = rows[POSITION].to_numpy().astype(np.int64)
        slot = position > 0
        records = np.zeros((folds, len(contexts)))
        np.add.at(records, (fold[~slot], context[~slot]), n[~slot])
        values, code = _coded(rows[ITEM].filter(pa.array(slot)))
        owner, items, row = _within(context[slot], values, code)
        where = fold[slot], row, position[slot] - 1
        shape = folds, len(owner), max(int(position.max(initial=0)), depth)
        c = rows[CREDIT].to_numpy()[slot]
        counts = _summed(where, n[slot], shape), _summed(where, c, shape), records
        return cls._of(contexts, items, owner, *counts)

    @classmethod
    def of_lists(cls, rows: pa.Table, folds: int, depth: int) -> Batch:
        """From (context, fold, item_1, …) → n, c_1, …, and whether the list is offered."""
        contexts, context, fold, n = _read(rows)
        width = sum(name.startswith(f"{ITEM}_") for name in rows.column_names)
        columns = [rows[f"{ITEM}_{k}"] for k in range(1, width + 1)]
        values, code = _coded(pa.chunked_array([chunk for c in columns for chunk in c.chunks]))
        code = code.reshape(width, len(n)).T
        c = np.stack([rows[f"{CREDIT}_{k}"].to_numpy() for k in range(1, width + 1)], axis=1)
        which, k = np.nonzero(code >= 0)
        owner, items, row = _within(context[which], values, code[which, k])
        records = np.zeros((folds, len(contexts)))
        np.add.at(records, (fold, context), n)
        shape, where = (folds, len(owner), width), (fold[which], row, k)
        counts = _summed(where, n[which], shape), _summed(where, c[which, k], shape), records
        batch = cls._of(contexts, items, owner, *counts)
        # Lists that differ further down than the metric counts are one.
        shown = np.full((len(n), width), NOBODY)
        shown[which, k] = row
        cut = np.column_stack([context, shown[:, :depth]])
        lists, number = np.unique(cut, axis=0, return_inverse=True)
        number = number.ravel()
        some = np.zeros(len(lists), dtype=np.bool_)
        some[number[rows[OFFERED].to_numpy(zero_copy_only=False)]] = True
        found = []
        for part in range(folds):
            mine = fold == part
            list_n = np.zeros(len(lists))
            np.add.at(list_n, number[mine], n[mine])
            list_c = np.zeros((len(lists), depth))
            np.add.at(list_c, number[mine], c[mine, :depth])
            found.append(Lists(lists[:, 1:], list_n, list_c, some))
        return replace(batch, owner=lists[:, 0], lists=tuple(found))

    @classmethod
    def _of(
        cls,
        contexts: list[Hashable],
        items: list[Hashable],
        owner: Integers,
        n: Floats,
        c: Floats,
        records: Floats,
    ) -> Batch:
        folds = [Counts(owner, *of) for of in zip(n, c, records, strict=True)]
        whole = Counts(owner, n.sum(axis=0), c.sum(axis=0), records.sum(axis=0))
        return cls(contexts, items, folds, whole)

    def views(self, fold: int, climbing: Climbing | None) -> Iterator[View]:
        """Every context, by all records (`ALL`), or by those outside of a fold.

        Contexts without records there, and for a fold those without records in it, are left out:
        nothing could be told of them, or nobody would ask.
        """
        counts = self.whole if fold == ALL else self.whole.without(self.folds[fold])
        rate, off = climbing.rates(counts) if climbing else (counts.n[:, :0], counts.n[:, :0])
        numbers = np.arange(len(self.contexts) + 1)
        starts = np.searchsorted(counts.owner, numbers)
        cuts = None if self.owner is None else np.searchsorted(self.owner, numbers)
        for x, context in enumerate(self.contexts):
            mine = slice(starts[x], starts[x + 1])
            asked = fold == ALL or self.folds[fold].records[x] > 0
            if counts.records[x] <= 0 or not asked or starts[x] == starts[x + 1]:
                continue
            lists = None
            if cuts is not None:
                lists = self._listed(slice(cuts[x], cuts[x + 1]), fold, int(starts[x]))
            yield View(
                context,
                self.items[mine],
                counts.n[mine],
                counts.c[mine],
                float(counts.records[x]),
                rate[mine],
                off[mine],
                lists,
            )

    def _listed(self, mine: slice, fold: int, first: int) -> Lists:
        """The lists of a context, with items counted from its first."""
        used = [part for number, part in enumerate(self.lists) if number != fold]
        items = self.lists[0].items[mine]
        return Lists(
            np.where(items == NOBODY, NOBODY, items - first),
            np.sum([part.n[mine] for part in used], axis=0),
            np.sum([part.c[mine] for part in used], axis=0),
            self.lists[0].offered[mine],
        )


def _read(rows: pa.Table) -> tuple[list[Hashable], Integers, Integers, Floats]:
    """The contexts, and for each row its context by number, its fold, and its records."""
    contexts, context = _coded(rows[CONTEXT])
    return contexts, context, rows[FOLD].to_numpy().astype(np.int64), rows[N].to_numpy()


def _coded(column: pa.ChunkedArray) -> tuple[list[Hashable], Integers]:
    """The values in order, and the number of each row's; -1 for none.

    In order, so that ties between items are decided alike wherever the rows come from.
    """
    encoded = column.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    order = pc.sort_indices(encoded.dictionary)
    rank = np.full(len(order) + 1, -1, dtype=np.int64)  # the last is that of none, -1
    rank[order.to_numpy()] = np.arange(len(order))
    index = np.asarray(encoded.indices.fill_null(-1), dtype=np.int64)
    return encoded.dictionary.take(order).to_pylist(), rank[index]


def _within(
    context: Integers, values: list[Hashable], code: Integers
) -> tuple[Integers, list[Hashable], Integers]:
    """Items of contexts: whose each is, which it is, and the number of each row's."""
    size = max(len(values), 1)
    pair, row = np.unique(context * size + code, return_inverse=True)
    return pair // size, [values[i] for i in (pair % size).tolist()], row.ravel()


def _summed(where: tuple[Integers, ...], values: NDArray[Any], shape: tuple[int, ...]) -> Floats:
    at = np.ravel_multi_index(where, shape)
    sums = np.bincount(at, values.astype(np.float64), int(np.prod(shape)))
    return np.asarray(sums, dtype=np.float64).reshape(shape)
