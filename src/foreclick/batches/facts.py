"""Small facts of a log, counted from its batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foreclick.batches.source import batches_of
from foreclick.tallies.base import Tally


def count_periods(tally: Tally) -> int:
    """How many periods a tally has; records without one are not counted."""
    periods = batches_of(tally).codebook.periods
    return 0 if periods is None else periods.known


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


def size_of(tally: Tally) -> Size:
    """How large a log is, counted once."""
    batches = batches_of(tally)
    if "size" not in batches.kept:
        counts, rows, pairs, largest = [np.empty(0)], 0, 0, 0
        for batch in batches:
            counts.append(batch.context_n)
            rows, pairs = rows + len(batch.n), pairs + batch.pair_count
            largest = max(largest, int(np.diff(batch.context_rows).max(initial=0)))
        each = np.concatenate(counts)
        median = float(np.median(each)) if len(each) else 0.0
        batches.kept["size"] = Size(len(each), median, rows, pairs, largest)
    return batches.kept["size"]  # type: ignore[no-any-return]


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
