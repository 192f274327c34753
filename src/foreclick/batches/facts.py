"""Small facts of a log, counted from its batches."""

from __future__ import annotations

from collections.abc import Sequence

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


def contexts_repeat(tally: Tally) -> tuple[int, float]:
    """The number of contexts and the median number of records of one."""
    counts = np.concatenate([np.empty(0), *(batch.context_n for batch in batches_of(tally))])
    return len(counts), float(np.median(counts)) if len(counts) else 0.0


def largest_rewards(tally: Tally, rewards: Sequence[str]) -> dict[str, float]:
    """The largest value of each reward; 0 where there was none."""
    found = dict.fromkeys(rewards, 0.0)
    for batch in batches_of(tally) if rewards else ():
        for reward in rewards:
            found[reward] = float(batch.rewards[reward].value.max(initial=found[reward]))
    return found
