"""A tally read as batches of whole contexts: kept if they are small, read anew if they are not.

Contexts are independent and every sum adds, so all statistics are one map over batches and one sum
over contexts. The sum is taken context by context, in their order, so that it has the same bits
however the contexts were dealt to batches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from foreclick.batches.batch import Batch
from foreclick.batches.encode import Codebook, Codes, encode
from foreclick.batches.pool import RowsWork, in_cluster, pooled
from foreclick.kept import KeptValues, forget, kept
from foreclick.logs import PERIOD
from foreclick.progress import MAP, READ, report_pass
from foreclick.tallies.base import Tally, distinct
from foreclick.tallies.files import whole_contexts

T = TypeVar("T")

BATCH_SLOTS = 1_000_000
"""Rows times positions of a batch: a few hundred MB while it is worked on.

Larger ones are no faster. Where contexts hardly repeat, each row brings pairs of its own, and the
slots of pairs are as many times more as a list has positions.
"""

BATCH_SUMS = 8_000_000
"""Rows times periods of a batch, for a context has sums of every period: as much memory again."""

KEPT_SLOTS = 70_000_000
"""Slots up to which all batches of a tally stay in memory, about 1 GB: positions of rows and pairs.

Where lists hardly repeat, as in a log of many contexts with a few records each, it is pairs of a
context and an item that fill the memory.
"""

PAIR_WEIGHT = 3
"""How many slots of rows the slots of a pair count for: what is counted of each stays, too."""


class Source(Protocol):
    """Where batches come from, in the order of their contexts, as often as they are read.

    Attributes:
        codebook: what is numbered alike in all batches.
        rows: how many rows of the tally they have.
    """

    codebook: Codebook
    rows: int

    def __iter__(self) -> Iterator[Batch]: ...


class Beside(Generic[T]):
    """What work gives for each batch that a pass goes through which somebody else makes.

    Attributes:
        work: from a batch to values of its contexts.
        found: what it gave, in the order of contexts; None before a pass has come to its end.
    """

    def __init__(self, work: Callable[[Batch], T]) -> None:
        self.work = work
        self.found: list[T] | None = None


class Batches:
    """The batches of a tally, in the order of their contexts.

    Args:
        tally: the log.
        slots: rows times positions of a batch, at most, unless a single context has more.
        source: where they come from; by default they are read from the tally.
        keep: slots up to which all batches stay in memory, see `KEPT_SLOTS`.

    Attributes:
        small: whether all batches stay in memory, as far as is known.
        limit: how many rows a batch has at most, unless a single context has more.
        elsewhere: whether the tally stays in a cluster, and is worked on there.
        kept: what only the log decides, see `foreclick.kept`.
    """

    _in_memory: list[Batch] | None = None

    def __init__(
        self,
        tally: Tally,
        slots: int = BATCH_SLOTS,
        *,
        source: Source | None = None,
        keep: int | None = None,
    ) -> None:
        self.tally, self.shape, self.source = tally, tally.shape, source
        self.elsewhere = source is None and tally.engine.maps
        if source is None:
            # What occurs in the whole log: the engine reads these columns alone.
            columns = [*([PERIOD] if tally.shape.period else []), *tally.shape.segments]
            codes = {name: Codes.from_values(distinct(tally.stored, name)) for name in columns}
            self.codebook = Codebook(codes)
            self.rows = tally.row_count()
        else:
            self.codebook, self.rows = source.codebook, source.rows
        periods = len(self.codebook.periods or (None,))
        self.limit = max(min(slots // tally.shape.depth, BATCH_SUMS // periods), 1)
        self._most = KEPT_SLOTS if keep is None else min(keep, KEPT_SLOTS)
        self.small = self.fit_in_memory(self.rows)
        self.kept: KeptValues = {}
        self._beside: list[Beside[Any]] = []

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        """Free the memory at once: what a batch keeps refers to the batch in turn.

        Not while Python ends, when modules are gone, and all memory is freed.
        """
        if ends():
            return
        for batch in self._in_memory or ():
            batch.forget()
        forget(self)

    def __iter__(self) -> Iterator[Batch]:
        return self._passed(READ)

    def _passed(self, kind: str) -> Iterator[Batch]:
        """One pass: a `READ`, of which nothing is said if all batches are in memory, or a `MAP`."""
        waiting, rows, there = self._waiting(), 0, self._in_memory
        found: list[list[Any]] = [[] for _ in waiting]
        told = self.source is None and (there is None or kind == MAP)
        report: Callable[[float], None] | None = None
        for batch in self._read() if there is None else there:
            if told and report is None:  # rows are sorted before the first batch is there
                report = report_pass(kind)
            rows += len(batch.n)
            for own, one in zip(found, waiting, strict=True):
                own.append(one.work(batch))
            yield batch
            if report is not None:
                report(rows / self.rows)
        self._settle(waiting, found)

    def _read(self) -> Iterator[Batch]:
        """The batches from where they come, which stay in memory if all of them are small."""
        source: Iterable[Batch] | None = self.source
        if source is None:
            source = (encode(part, self.shape, self.codebook) for part in self._parts())
        read: list[Batch] = []
        slots = rows = 0
        for batch in source:
            slots += (len(batch.n) + PAIR_WEIGHT * batch.pair_count) * self.shape.depth
            rows += len(batch.n)
            # If the others have as many pairs: else most stay, only to be forgotten at the end.
            self.small = self.small and slots * max(self.rows / rows, 1) <= self._most
            read.append(batch)
            yield batch
            while read and not self.small:
                read.pop().forget()
        if self.small:
            self._in_memory = read

    def fit_in_memory(self, rows: int) -> bool:
        """Whether so many rows may stay in memory, if their pairs are few."""
        return rows * self.shape.depth <= self._most

    @property
    def there(self) -> bool:
        """Whether they are all in memory."""
        return self._in_memory is not None

    @property
    def asks(self) -> bool:
        """Whether the engine is asked for small facts: a pass would read all batches for them."""
        return self.source is None and (self.elsewhere or not self.small)

    @contextmanager
    def beside(self, work: Callable[[Batch], T]) -> Iterator[Beside[T]]:
        """Let the next whole pass do this work, too, whoever makes it: reading takes long.

        Args:
            work: from a batch to values of its contexts; it must be picklable to go elsewhere.
        """
        one = Beside(work)
        self._beside.append(one)
        try:
            yield one
        finally:
            self._beside.remove(one)

    def _waiting(self) -> list[Beside[Any]]:
        return [one for one in self._beside if one.found is None]

    @staticmethod
    def _settle(waiting: Sequence[Beside[Any]], found: Sequence[Sequence[Any]]) -> None:
        for one, own in zip(waiting, found, strict=True):
            one.found = list(own)

    def map(self, work: Callable[[Batch], T], workers: int = 1) -> Iterator[T]:
        """What `work` makes of each batch, in the order of contexts.

        A tally that stays in a cluster is worked on there. Otherwise batches that do not stay in
        memory can be worked on by several processes.

        Args:
            work: from a batch to values of its contexts; it must be picklable to go elsewhere.
            workers: how many processes work at a time; 1: this one.
        """
        if not self.elsewhere and (workers == 1 or self.small):
            return map(work, self._passed(MAP))
        return self._map_elsewhere(work, workers)

    def _map_elsewhere(self, work: Callable[[Batch], T], workers: int) -> Iterator[T]:
        """The same in a cluster, or in other processes."""
        waiting = self._waiting()
        both, found = _Several((work, *(one.work for one in waiting))), []
        rows_work = RowsWork(self.shape, self.codebook, both, self.limit)
        if self.elsewhere:
            answers = in_cluster(self.tally, rows_work)
        elif self.source is not None:  # its batches are no rows of the tally, so they travel
            answers = pooled(both, self.source, workers)
        else:
            answers = pooled(rows_work, self._parts(), workers)
        report = report_pass(MAP)
        for answer, *others in answers:
            found.append(others)
            yield answer
            report(min(len(found) * self.limit / max(self.rows, 1), 1.0))
        self._settle(waiting, list(zip(*found, strict=True)) if found else [[] for _ in waiting])

    def _parts(self) -> Iterator[pa.Table]:
        """The rows of the tally, some whole contexts after others."""
        return whole_contexts(self.tally.sorted_batches(), self.limit)


@dataclass(frozen=True)
class _Several:
    """Several works on one batch."""

    works: tuple[Callable[[Batch], Any], ...]

    def __call__(self, batch: Batch) -> tuple[Any, ...]:
        return tuple(work(batch) for work in self.works)


@kept
def batches_of(tally: Tally) -> Batches:
    """The batches of a tally, which stay with it."""
    return Batches(replace(tally))  # a tally of its own, or each would hold the other in memory


def regrouped(tally: Tally, source: Source, keep: int) -> Tally:
    """A tally of the same records in other contexts, which are there as batches only.

    Args:
        tally: of the log as it is.
        source: the batches.
        keep: rows times positions up to which they stay in memory.
    """
    other = replace(tally, files={}, totals=None)
    batches_of.put(other, Batches(replace(other), source=source, keep=keep))
    return other
