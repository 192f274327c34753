"""A tally read as batches of whole contexts: kept if they are small, read anew if they are not.

Contexts are independent and every sum adds, so all statistics are one map over batches and one sum
over contexts. The sum is taken context by context, in their order, so that it has the same bits
however the contexts were dealt to batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from foreclick.batches.batch import Batch
from foreclick.batches.encode import Codebook, Codes, encode
from foreclick.batches.pool import RowsWork, in_cluster, in_processes
from foreclick.engines import Engine
from foreclick.logs import PERIOD
from foreclick.progress import report_share
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
    """Where batches come from, as often as they are asked for.

    Attributes:
        codebook: what is numbered alike in all batches.
        rows: how many rows of the tally they have.
    """

    codebook: Codebook
    rows: int

    def __iter__(self) -> Iterator[Batch]:
        """The batches, in the order of their contexts."""
        ...


class Batches:
    """The batches of a tally, in the order of their contexts.

    Args:
        tally: the log.
        slots: rows times positions of a batch, at most, unless a single context has more.
        source: where they come from; by default they are read from the tally.
        keep: slots up to which all batches stay in memory, see `KEPT_SLOTS`.

    Attributes:
        small: whether all batches stay in memory, as far as is known.
    """

    def __init__(
        self,
        tally: Tally,
        slots: int = BATCH_SLOTS,
        *,
        source: Source | None = None,
        keep: int | None = None,
    ) -> None:
        self.tally, self.shape = tally, tally.shape
        self._most = KEPT_SLOTS if keep is None else min(keep, KEPT_SLOTS)
        self.source = _Rows(tally, slots) if source is None else source
        self.codebook, self.rows = self.source.codebook, self.source.rows
        self.limit = _limit(slots, tally, self.codebook)
        self._kept: list[Batch] | None = None
        self.small = self.rows * self.shape.depth <= self._most
        self.kept: dict[object, Any] = {}

    def __iter__(self) -> Iterator[Batch]:
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Batch] = []
        slots = rows = 0
        for batch in self.source:
            slots += (len(batch.n) + PAIR_WEIGHT * batch.pair_count) * self.shape.depth
            rows += len(batch.n)
            # If the others have as many pairs: else most stay, only to be forgotten at the end.
            self.small = self.small and slots * max(self.rows / rows, 1) <= self._most
            kept.append(batch)
            yield batch
            if rows < self.rows:
                report_share(rows / self.rows)
            while kept and not self.small:
                kept.pop().forget()
        if self.small:
            self._kept = kept

    def map(self, work: Callable[[Batch], T], workers: int = 1) -> Iterator[T]:
        """What `work` makes of each batch, in the order of contexts.

        A tally that stays in a cluster is worked on there. Otherwise batches that do not stay in
        memory can be worked on by several processes.

        Args:
            work: from a batch to values of its contexts; it must be picklable to go elsewhere.
            workers: how many processes work at a time; 1: this one.
        """
        elsewhere = RowsWork(self.shape, self.codebook, work, self.limit)
        if self.tally.engine.maps:
            return in_cluster(self.tally, elsewhere)
        if workers > 1 and not self.small:
            return in_processes(self.tally, elsewhere, workers)
        return map(work, self)


class _Rows:
    """Batches that are encoded from the rows of a tally."""

    def __init__(self, tally: Tally, slots: int) -> None:
        self.tally, self.shape = tally, tally.shape
        self.rows = tally.row_count()
        self.codebook = self._codebook()
        self.limit = _limit(slots, tally, self.codebook)

    def __iter__(self) -> Iterator[Batch]:
        for rows in whole_contexts(self.tally.sorted_batches(), self.limit):
            yield encode(rows, self.shape, self.codebook)

    def _codebook(self) -> Codebook:
        """What occurs in the whole log, asked of the engine: it reads these columns alone."""
        shape, stored = self.shape, self.tally.stored
        columns = [*([PERIOD] if shape.period else []), *shape.segments]
        codes = {name: Codes.of(distinct(stored, name)) for name in columns}
        return Codebook(codes.pop(PERIOD, None), codes)


def _limit(slots: int, tally: Tally, codebook: Codebook) -> int:
    """How many rows a batch has at most, unless a single context has more."""
    periods = len(codebook.periods or (None,))
    return max(min(slots // tally.shape.depth, BATCH_SUMS // periods), 1)


def batches_of(tally: Tally) -> Batches:
    """The batches of a tally, which stay with it."""
    key = _key(tally)
    if key not in tally.learnt:
        tally.learnt[key] = Batches(tally)
    return tally.learnt[key]  # type: ignore[no-any-return]


def regrouped(tally: Tally, engine: Engine, source: Source, keep: int) -> Tally:
    """A tally of the same records in other contexts, which are there as batches only.

    What was learnt of the log holds for it too; only its batches are others.

    Args:
        tally: of the log as it is.
        engine: where the batches come from, which need not be where the log lives.
        source: the batches.
        keep: rows times positions up to which they stay in memory.
    """
    found = replace(tally, engine=engine, files=(), learnt=dict(tally.learnt))
    found.learnt[_key(found)] = Batches(found, source=source, keep=keep)
    return found


def _key(tally: Tally) -> tuple[str, int]:
    """What batches are kept under; they keep the tally, so that no other table has its id."""
    return "batches", id(tally.stored)
