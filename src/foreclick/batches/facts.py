"""Small facts of a log, counted from its batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foreclick.batches.source import batches_of
from foreclick.engines import Value
from foreclick.kept import kept
from foreclick.logs import CONTEXT, PERIOD, N
from foreclick.tallies.base import Tally


def count_periods(tally: Tally) -> int:
    """How many periods a tally has; records without one are not counted."""
    periods = batches_of(tally).codebook.periods
    return 0 if periods is None else periods.known


@kept
def records_without_period(tally: Tally) -> float:
    """How many records have no period, of a tally that has periods."""
    batches = batches_of(tally)
    periods = batches.codebook.periods
    if periods is None or periods.known == len(periods):
        return 0.0
    if batches.asks:
        undated = tally.stored.where(f"{tally.engine.say.column(PERIOD)} IS NULL")
        return float(undated.aggregate({N: undated.total(N)})[N])
    return sum(float(b.n[b.clusters["period"] == periods.known].sum()) for b in batches)


class LogSize(NamedTuple):
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


@kept
def size_of(tally: Tally) -> LogSize:
    """How large a log is, counted once."""
    batches, records, rows, pairs = batches_of(tally), [np.empty(0)], [np.empty(0, np.int64)], 0
    if not batches.asks:
        for batch in batches:
            records.append(batch.context_n)
            rows.append(np.bincount(batch.row_context, minlength=batch.context_count))
            pairs += batch.pair_count
    else:  # pairs are a guess
        table, sizes = tally.stored, {N: tally.stored.total(N), "rows": Value("count(*)")}
        sized = table.grouped(table.own([CONTEXT]), sizes).to_pyarrow()
        records, rows = [np.asarray(sized[N], np.float64)], [np.asarray(sized["rows"])]
        pairs = min(len(rows[0]) * _LISTS, int(rows[0].sum())) * tally.shape.depth
    n, count = np.concatenate(records), np.concatenate(rows)
    median = float(np.median(n)) if len(n) else 0.0
    return LogSize(len(n), median, int(count.sum()), pairs, int(count.max(initial=0)))


FEW_RECORDS = 5
"""Below so many records in the median context, frequencies estimate the logging policy badly."""


def largest_rewards(tally: Tally, rewards: Sequence[str]) -> dict[str, float]:
    """The largest value of each reward; 0 where there was none."""
    return {reward: _largest(tally, reward) for reward in rewards}


@kept
def _largest(tally: Tally, reward: str) -> float:
    batches, largest = batches_of(tally), 0.0
    if batches.asks and reward not in tally.shape.masks:
        say, columns = tally.engine.say, tally.shape.stored_reward(reward)
        most = {
            c: Value(f"max({say.column(c)})", tally.stored.kinds.field(c).type) for c in columns
        }
        found = tally.stored.aggregate(most).values()
        return max([0.0, *(float(value) for value in found if value is not None)])
    for batch in batches:
        largest = float(batch.rewards[reward].value.max(initial=largest))
    return largest
