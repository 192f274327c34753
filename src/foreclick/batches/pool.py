"""Work on many parts of a log: in this process, in several, or in the tasks of a cluster.

What travels is rows of a tally, of whole contexts, and the values that the work gives for each
context. A worker encodes its rows itself. Values come back in the order of contexts, and the same
code works on the same rows, so sums have the same bits wherever it was done.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

import pyarrow as pa

from foreclick.batches.batch import Batch
from foreclick.batches.encode import Codebook, encode
from foreclick.errors import EngineError
from foreclick.logs import CONTEXT, Shape
from foreclick.tallies.base import Tally
from foreclick.tallies.files import whole_contexts

Part = TypeVar("Part")
Answer = TypeVar("Answer")


def pooled(
    work: Callable[[Part], Answer], parts: Iterable[Part], workers: int = 1
) -> Iterator[Answer]:
    """What `work` makes of each part, in their order; a few parts are in memory at a time.

    Args:
        work: goes to other processes, and so do parts and answers: all must be picklable.
        parts: what is worked on.
        workers: how many processes work at a time; 1: this one.
    """
    rest = iter(parts)
    first = list(islice(rest, 2)) if workers > 1 else []
    if len(first) < 2:
        yield from map(work, chain(first, rest))
        return
    try:  # before any process has started
        pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise EngineError(
            f"workers={workers}: this question cannot be sent to other processes ({error}). Define "
            "its functions (of a click model, say) in a module rather than as a lambda or within "
            "a function; or use fc.settings(workers=1)."
        ) from error
    # Forks of a process that has threads may hang, and an engine has threads.
    context = get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_end_with_parent, initargs=(reader,)
    )
    with reader, writer, pool:  # of which none survives this process, or the end of the work
        waiting: deque[Future[Answer]] = deque()
        try:
            for part in chain(first, rest):
                waiting.append(pool.submit(work, part))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException as error:  # also of a reader that wants no more: GeneratorExit
            writer.close()
            if not isinstance(error, BrokenProcessPool):
                raise
            raise EngineError(
                f"one of {workers} worker processes was killed, probably because memory ran out. "
                "Use fewer, such as fc.settings(workers=1)."
            ) from error


def _end_with_parent(line: Connection) -> None:
    """End this worker when the other end of a pipe is closed, as it is when the parent dies.

    Python's own workers would wait for work forever. Ctrl-C is heard by the parent, who decides.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        with suppress(EOFError, OSError):
            line.recv()
        os._exit(1)  # in the middle of whatever the main thread does

    threading.Thread(target=wait, daemon=True).start()


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


def in_cluster(tally: Tally, work: RowsWork[Answer]) -> Iterator[Answer]:
    """What the work gives for every batch of a tally that stays in its cluster, in order."""
    context = tally.stored.kinds.field(CONTEXT).type
    schema = pa.schema({CONTEXT: context, _PAYLOAD: pa.binary()})
    answers = tally.engine.mapped(tally.stored, tally.shape.order, work.task, schema)
    for payload in answers.sort_by(CONTEXT)[_PAYLOAD]:
        yield pickle.loads(payload.as_py())  # noqa: S301 - of our own workers, made just now
