"""Work that is no query: a Python function of the groups of a table, some groups at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing import get_context

import pyarrow as pa
import pyarrow.compute as pc

Work = Callable[[pa.Table], pa.Table]
Tell = Callable[[int], None]


@dataclass(frozen=True)
class Job:
    """What is done to each group of a table's rows, and how.

    Attributes:
        key: the column that tells groups apart; None if it does not matter where rows are cut.
        work: from the rows of some groups to rows of the answer. It goes to other processes, so
            it must be picklable.
        schema: the columns of the answer.
        workers: how many processes work at a time; 1: this one.
        rows: about so many are worked on at once, and held in memory.
        tell: is told how many rows are done.
    """

    key: str | None
    work: Work
    schema: pa.Schema
    workers: int = 1
    rows: int = 100_000
    tell: Tell = lambda _: None

    def done(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answer for rows that come in order of the key."""
        done = 0
        for size, answer in self._worked(self.chunks(batches)):
            yield from answer.cast(self.schema).to_batches()
            done += size
            self.tell(done)

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The rows in tables of about the wanted size, none of which has but a part of a group."""
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            held.append(batch)
            count += batch.num_rows
            if count < self.rows:
                continue
            table = pa.Table.from_batches(held)
            # The last group may go on in the next batch.
            end = count if self.key is None else pc.index(table[self.key], table[self.key][-1])
            end = end.as_py() if isinstance(end, pa.Scalar) else end
            if end:
                yield table.slice(0, end)
                held, count = table.slice(end).to_batches(), count - end
        if held:
            yield pa.Table.from_batches(held)

    def _worked(self, chunks: Iterable[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
        some, chunks = [], iter(chunks)
        if self.workers > 1:
            some = list(islice(chunks, 2))
        if len(some) < 2:  # noqa: PLR2004 - a single one is done before a process has started
            for chunk in chain(some, chunks):
                yield chunk.num_rows, self.work(chunk)
            return
        # Forks of a process that has threads may hang, and an engine has threads.
        with ProcessPoolExecutor(self.workers, mp_context=get_context("spawn")) as pool:
            waiting: deque[tuple[int, Future[pa.Table]]] = deque()
            for chunk in chain(some, chunks):
                waiting.append((chunk.num_rows, pool.submit(self.work, chunk)))
                if len(waiting) > 2 * self.workers:  # so that no more than these are in memory
                    size, first = waiting.popleft()
                    yield size, first.result()
            for size, rest in waiting:
                yield size, rest.result()
