"""Work on many parts of a log: in this process, in several, or in the tasks of a cluster.

What travels is rows of a tally, of whole contexts, and the values that the work gives for each
context. A worker encodes its rows itself. Values come back in the order of contexts, and the same
code works on the same rows, so sums have the same bits wherever it was done.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from subprocess import PIPE, Popen
from typing import Any, Generic, TypeVar

import pyarrow as pa

from foreclick.batches.batch import Batch
from foreclick.batches.encode import Codebook, encode
from foreclick.batches.worker import START
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
    pool = _Pool(_pickled(work, workers), workers)
    with ThreadPoolExecutor(workers) as threads:  # each waits for the process that it started
        waiting: deque[Future[Answer]] = deque()
        try:
            for part in chain(first, rest):
                waiting.append(threads.submit(pool.answer, part))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # also of a reader that wants no more
            for future in waiting:
                future.cancel()
            pool.stop()


def _pickled(work: Callable[[Part], Answer], workers: int) -> bytes:
    """The work as other processes can load it: they have modules, but not the script."""
    reason = "it is defined in the script or notebook itself"
    try:
        found = pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        found, reason = b"__main__", str(error)
    if b"__main__" not in found:
        return found
    raise EngineError(
        f"workers={workers}: this question cannot be sent to other processes ({reason}). Define "
        "its functions (of a click model, say) in a module rather than in the script, as a lambda "
        "or within a function; or use fc.settings(workers=1)."
    )


class _Pool:
    """Worker processes, each of which is started by the thread that sends it parts.

    They start from a module of their own (`batches.worker`), so a script needs no guard. A process
    that has threads, as an engine has, must not be forked.
    """

    def __init__(self, work: bytes, workers: int) -> None:
        self.work, self.workers, self.stopped = work, workers, False
        self.own, self.all = threading.local(), list[Popen[bytes]]()

    def answer(self, part: Any) -> Any:  # noqa: ANN401 - whatever the work takes and gives
        """What the work makes of a part, in this thread's process."""
        try:
            if not hasattr(self.own, "process"):
                self.own.process = self._started()
            return self._asked(self.own.process, pickle.dumps(part))
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise EngineError(
                f"one of {self.workers} worker processes was killed, probably because memory ran "
                "out. Use fewer, such as fc.settings(workers=1)."
            ) from error

    def _started(self) -> Popen[bytes]:
        command = [sys.executable, "-c", START]
        process = Popen(command, stdin=PIPE, stdout=PIPE)  # noqa: S603 - this Python, our program
        self.all.append(process)
        if self.stopped:
            process.kill()
        self._asked(process, pickle.dumps(sys.path) + self.work)
        return process

    def _asked(self, process: Popen[bytes], message: bytes) -> Any:  # noqa: ANN401
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        process.stdin.write(message)
        process.stdin.flush()
        done, answer = pickle.load(process.stdout)  # noqa: S301 - of our own process
        if not done:
            raise answer
        return answer

    def stop(self) -> None:
        """End all processes, now."""
        self.stopped = True
        for process in self.all:
            process.kill()
            with process:  # which closes its pipes and waits for its end
                pass


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
