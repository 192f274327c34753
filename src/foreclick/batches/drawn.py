"""Some contexts of a log: a share of them, drawn by the hash of their text, or those named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from foreclick.batches.arrays import Bools, Ints
from foreclick.batches.batch import Batch
from foreclick.batches.encode import Codebook, Codes, wide
from foreclick.batches.source import Batches, Source
from foreclick.logs import PERIOD


def some_contexts(
    batches: Batches, share: float, reading: Callable[[], object] | None = None
) -> Batches:
    """The batches of about that share of the contexts, with all their records.

    Args:
        batches: the log.
        share: 1 or more: all of them.
        reading: makes a pass over the log, unless it was made before; these are drawn beside it.
    """
    if share >= 1:
        return batches
    rows = round(share * batches.rows)
    source: Source = _Drawn(batches, share, batches.codebook, rows)
    if reading is not None and batches.asks and batches.fit_in_memory(rows):
        with batches.beside(partial(_some, share=share)) as some:
            reading()
        if some.found is not None:
            source = _There([each for each in some.found if len(each.n)], batches.codebook, rows)
    return Batches(batches.tally, source=source)


def _some(batch: Batch, share: float) -> Batch:
    return batch.among((batch.draws < share)[batch.row_context])


@dataclass(eq=False)
class _There:
    """Batches that are there."""

    batches: Sequence[Batch]
    codebook: Codebook
    rows: int

    def __iter__(self) -> Iterator[Batch]:
        yield from self.batches


def only_contexts(batches: Batches, taken: Sequence[Bools]) -> Batches:
    """The batches without the other contexts, as if the log had never had these, nor their periods.

    Args:
        batches: the log.
        taken: Shape (X,) by batch: the contexts that take part.
    """
    book, number = batches.codebook, None
    if book.periods is not None:
        there = np.zeros(len(book.periods), dtype=np.bool_)
        for batch, contexts in zip(batches, taken, strict=True):
            there[batch.clusters["period"][contexts[batch.row_context]]] = True
        periods = Codes(book.periods.values.filter(pa.array(there)))
        book, number = Codebook({**book.columns, PERIOD: periods}), np.cumsum(there) - 1
    return Batches(batches.tally, source=_Taken(batches, taken, book, batches.rows, number))


@dataclass(eq=False)
class _Drawn:
    """Batches without the contexts that are not in the sample."""

    batches: Batches
    share: float
    codebook: Codebook
    rows: int

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.batches:
            some = _some(batch, self.share)
            if len(some.n):
                yield some


@dataclass(eq=False)
class _Taken:
    """Batches without the contexts that were not taken; periods may have other numbers."""

    batches: Batches
    taken: Sequence[Bools]
    codebook: Codebook
    rows: int
    number: Ints | None = None

    def __iter__(self) -> Iterator[Batch]:
        for batch, contexts in zip(self.batches, self.taken, strict=True):
            some = batch.among(contexts[batch.row_context])
            if self.number is not None:
                clusters = {**some.clusters, "period": self.number[some.clusters["period"]]}
                count = wide(self.codebook.clusters("period"), len(some.n) * some.depth)
                counts = {**some.cluster_count, "period": count}
                some = replace(some, clusters=clusters, cluster_count=counts)
            if len(some.n):
                yield some
