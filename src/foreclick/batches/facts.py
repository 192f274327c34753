"""Small facts of a log, counted from its batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foreclick.batches.arrays import Floats, Ints
from foreclick.batches.source import Batches, batches_of
from foreclick.tallies.base import Tally, context_sizes
from foreclick.tallies.sums import sum_records


def count_periods(tally: Tally) -> int:
    """How many periods a tally has; records without one are not counted."""
    periods = batches_of(tally).codebook.periods
    return 0 if periods is None else periods.known


def count_records(tally: Tally) -> float:
    """How many records a tally has, as many as its batches count."""
    return sum_records(tally.stored)


def records_without_period(tally: Tally) -> float:
    """How many records have no period, of a tally that has periods."""
    batches = batches_of(tally)
    periods = batches.codebook.periods
    if periods is None or periods.known == len(periods):
        return 0.0
    return sum(float(b.n[b.clusters["period"] == periods.known].sum()) for b in batches)


class Size(NamedTuple):
    """How large a log is.

    Attributes:
        contexts: how many.
        median: records of the median context.
        rows: of the tally.
        pairs: items of contexts.
        largest: the rows of the context that has most.
    """

    contexts: int
    median: float
    rows: int
    pairs: int
    largest: int


_LISTS = 3
"""Lists with items of their own that a context has, for a guess at its items."""


def size_of(tally: Tally) -> Size:
    """How large a log is, counted once."""
    batches = batches_of(tally)
    if "size" not in batches.kept:
        stays = batches.small and not tally.engine.maps
        batches.kept["size"] = _counted(batches) if stays else _asked(tally)
    return batches.kept["size"]  # type: ignore[no-any-return]


def _counted(batches: Batches) -> Size:
    """The size by its batches, which stay in memory for what follows."""
    records, rows, pairs = [np.empty(0)], [np.empty(0, dtype=np.int64)], 0
    for batch in batches:
        records.append(batch.context_n)
        rows.append(np.diff(batch.context_rows))
        pairs += batch.pair_count
    return _size(np.concatenate(records), np.concatenate(rows), pairs)


def _asked(tally: Tally) -> Size:
    """The size by one query, where batches would all be read for it; its pairs are a guess."""
    records, rows = context_sizes(tally)
    pairs = min(len(rows) * _LISTS, int(rows.sum())) * tally.shape.depth
    return _size(records, rows, pairs)


def _size(records: Floats, rows: Ints, pairs: int) -> Size:
    """From the records and the rows of every context, shape (X,) each."""
    median = float(np.median(records)) if len(records) else 0.0
    return Size(len(records), median, int(rows.sum()), pairs, int(rows.max(initial=0)))


FEW_RECORDS = 5
"""Below so many records in the median context, frequencies say little about the logging policy."""


def contexts_repeat(tally: Tally) -> tuple[int, float]:
    """The number of contexts and the median number of records of one."""
    return size_of(tally)[:2]


def largest_rewards(tally: Tally, rewards: Sequence[str]) -> dict[str, float]:
    """The largest value of each reward; 0 where there was none."""
    found = dict.fromkeys(rewards, 0.0)
    for batch in batches_of(tally) if rewards else ():
        for reward in rewards:
            found[reward] = float(batch.rewards[reward].value.max(initial=found[reward]))
    return found
