"""A tally read as batches of whole contexts: kept if they are small, read anew if they are not.

Contexts are independent and every sum adds, so all statistics are one map over batches and one sum
over contexts. The sum is taken context by context, in their order, so that it has the same bits
however the contexts were dealt to batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick._tally import Tally
from foreclick.batches.arrays import Floats, Ints
from foreclick.batches.batch import Batch
from foreclick.batches.encode import Codebook, Codes, encode
from foreclick.engines import default_engine
from foreclick.logs import CONTEXT, PERIOD

T = TypeVar("T")

BATCH_SLOTS = 2_000_000
"""Rows times positions of a batch: a few hundred MB while it is worked on."""

KEPT_SLOTS = 60_000_000
"""Rows times positions up to which all batches of a tally stay in memory, about 1 GB."""


class Batches:
    """The batches of a tally, in the order of their contexts.

    Args:
        tally: the log.
        slots: rows times positions of a batch, at most, unless a single context has more.
    """

    def __init__(self, tally: Tally, slots: int = BATCH_SLOTS) -> None:
        self.tally, self.shape = tally, tally.shape
        rows = _sorted_rows(tally)
        self.codebook = _codebook(rows, tally)
        self.rows = rows.num_rows
        self.limit = max(slots // self.shape.depth, 1)
        self._rows = rows
        self._kept: list[Batch] | None = None

    def __iter__(self) -> Iterator[Batch]:
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Batch] = []
        small = self.rows * self.shape.depth <= KEPT_SLOTS
        for rows in whole_contexts(self._rows.to_batches(), self.limit):
            batch = encode(rows, self.shape, self.codebook)
            if small:
                kept.append(batch)
            yield batch
        if small:
            self._kept = kept

    def map(self, work: Callable[[Batch], T]) -> Iterator[T]:
        """What `work` makes of each batch, in the order of contexts."""
        return map(work, self)


def batches_of(tally: Tally) -> Batches:
    """The batches of a tally, which stay with it."""
    key = "batches", id(tally.table.op())
    if key not in tally.learnt:
        tally.learnt[key] = Batches(tally)
    return tally.learnt[key]  # type: ignore[no-any-return]


def _sorted_rows(tally: Tally) -> pa.Table:
    home = default_engine()
    table = home.show(tally.engine.fetch(tally.table))
    return home.fetch(
        table.order_by([ibis.asc(key, nulls_first=True) for key in tally.shape.order])
    )


def _codebook(rows: pa.Table, tally: Tally) -> Codebook:
    shape = tally.shape
    periods = Codes.of(rows[PERIOD]) if shape.period else None
    return Codebook(periods, {name: Codes.of(rows[name]) for name in shape.segments})


def whole_contexts(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Rows in order of their contexts, in tables of about `rows` rows that cut no context."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count > rows:
            table = pa.Table.from_batches(held)
            end = _end(table[CONTEXT], rows)
            if end is None:  # the context may go on in the next batch
                held = [table.combine_chunks().to_batches()[0]]
                break
            yield table.slice(0, end)
            held, count = table.slice(end).to_batches(), count - end
    if count:
        yield pa.Table.from_batches(held)


def _end(context: pa.ChunkedArray, rows: int) -> int | None:
    """Where to cut: before the context of the last row allowed, or else behind it."""
    here = context[rows]
    before = pc.index(context, here).as_py()
    if before:
        return int(before)
    others = pc.index(pc.not_equal(context, here), True).as_py()
    return int(others) if others > 0 else None


class Totals:
    """Sums over contexts, by stratum and name, each added in the order of contexts.

    However contexts were dealt to batches, every sum has the same bits.
    """

    def __init__(self, strata: int = 1) -> None:
        self.strata = strata
        self._sums: dict[Any, Floats] = {}
        self._largest: dict[Any, Floats] = {}

    def add(self, name: Any, values: Floats, stratum: Ints) -> None:  # noqa: ANN401 - a dict's key
        """Add the values of contexts, shape (X, …), to the sums of that name."""
        before = self._sums.get(name)
        if before is None:
            before = np.zeros((self.strata, *values.shape[1:]))
        if self.strata == 1:
            # cumsum adds one after the other, where sum and add.reduce would pair them up.
            self._sums[name] = np.cumsum(np.concatenate([before, values]), axis=0)[-1:]
        else:
            width = before[0].size  # one index for all axes: add.at is faster so
            at = stratum[:, None] * width + np.arange(width)
            np.add.at(before.ravel(), at.ravel(), values.ravel())
            self._sums[name] = before

    def most(self, name: Any, values: Floats, stratum: Ints) -> None:  # noqa: ANN401 - a dict's key
        """Take the largest of the values of contexts, shape (X,), which are at least 0."""
        found = self._largest.setdefault(name, np.zeros(self.strata))
        np.maximum.at(found, stratum, values)

    def sum(self, name: Any) -> Floats:  # noqa: ANN401 - a dict's key
        """Shape (strata, …); 0 for what was never added."""
        return self._sums.get(name, np.zeros(self.strata))

    def largest(self, name: Any) -> Floats:  # noqa: ANN401 - a dict's key
        """Shape (strata,)."""
        return self._largest.get(name, np.zeros(self.strata))
