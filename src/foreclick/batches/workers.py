"""The map over batches elsewhere: in other processes, or in the tasks of a cluster.

What travels is rows of a tally, of whole contexts, and the values that the work gives for each
context. A worker encodes its rows itself. Values come back in the order of contexts, and the same
code works on the same rows, so sums have the same bits wherever it was done.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from foreclick.batches.batch import Batch
from foreclick.batches.encode import Codebook, encode
from foreclick.batches.pool import pooled
from foreclick.logs import CONTEXT, Shape
from foreclick.tallies.base import Tally
from foreclick.tallies.files import whole_contexts

Answer = TypeVar("Answer")
_PAYLOAD = "payload"


@dataclass(frozen=True)
class RowsWork(Generic[Answer]):
    """Work on rows of whole contexts.

    Attributes:
        shape: the columns of the log.
        codebook: what is numbered alike in all batches.
        work: what is done with a batch.
        rows: how many rows a batch has, about.
    """

    shape: Shape
    codebook: Codebook
    work: Callable[[Batch], Answer]
    rows: int

    def __call__(self, rows: pa.Table) -> Answer:
        """What the work gives for some whole contexts."""
        return self.work(encode(rows, self.shape, self.codebook))

    def task(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A task of a cluster: its rows in order, as answers with their first context."""
        for rows in whole_contexts(batches, self.rows):
            if rows.num_rows:
                payload = pickle.dumps(self(rows))
                first = rows[CONTEXT].slice(0, 1).combine_chunks()
                yield pa.record_batch({CONTEXT: first, _PAYLOAD: pa.array([payload])})


def in_processes(tally: Tally, work: RowsWork[Answer], workers: int) -> Iterator[Answer]:
    """What the work gives for every batch of a tally, by several processes, in order."""
    return pooled(work, whole_contexts(tally.sorted_batches(), work.rows), workers)


def in_cluster(tally: Tally, work: RowsWork[Answer]) -> Iterator[Answer]:
    """What the work gives for every batch of a tally that stays in its cluster, in order."""
    context = tally.stored.kinds.field(CONTEXT).type
    schema = pa.schema({CONTEXT: context, _PAYLOAD: pa.binary()})
    found = tally.engine.mapped(tally.stored, tally.shape.order, work.task, schema)
    for payload in found.sort_by(CONTEXT)[_PAYLOAD]:
        yield pickle.loads(payload.as_py())  # noqa: S301 - of our own workers, made just now
