"""Whose records vary together: the one rule that all intervals follow."""

from __future__ import annotations

from typing import Literal

from foreclick.batches import count_periods, records_without_period
from foreclick.errors import ModelError
from foreclick.estimators import Clusters
from foreclick.tallies import FEW_PERIODS, Tally
from foreclick.words import number_of

MANY_PERIODS = 1_000
TOO_MANY_PERIODS = 20_000


def clusters_of(
    counted: Tally, asked: Literal["auto", "record"] | None
) -> tuple[tuple[Clusters, ...], list[str]]:
    """Whose records vary together, and a note where that cannot be seen."""
    shape = counted.shape
    if asked is None:
        return (), []
    if asked == "record":
        if counted.decayed:
            raise ModelError(
                "clusters='record': some periods of this tally count less than others, so its "
                "records do not vary alike. Use clusters='auto'."
            )
        return ("record",), []
    notes: list[str] = []
    found: list[Clusters] = []
    if shape.period:
        count = count_periods(counted)
        _refuse_too_many(count)
        notes += _odd_periods(counted, count)
        if count >= FEW_PERIODS:
            found.append("period")
        elif counted.decayed and not shape.unit:
            raise ModelError(
                f"the log has {number_of(count, 'period')}, too few to see how much they differ, "
                "and they do not count alike. Read it with more periods, or say clusters=None: no "
                "intervals."
            )
        else:
            notes.append(
                f"The log has {number_of(count, 'period')}, too few to see how much days differ: "
                "the intervals count records as independent, and are too short if days do differ."
            )
    if shape.unit:
        found.append("unit")
    return tuple(found) or ("record",), notes


def _refuse_too_many(count: int) -> None:
    """Refuse periods whose sums would fill the memory, before anything is summed."""
    if count > TOO_MANY_PERIODS:
        raise ModelError(
            f"the log has {count:,} periods; intervals can be told from {TOO_MANY_PERIODS:,} at "
            "most: a period is a day or a week. Read the log with a coarser one, or say "
            "clusters='record'."
        )


def _odd_periods(counted: Tally, count: int) -> list[str]:
    """Notes on periods that are probably not what was meant."""
    notes = []
    if count > MANY_PERIODS:
        notes.append(
            f"The log has {count:,} periods. If its period is a time, read it with the day instead."
        )
    if none := records_without_period(counted):
        notes.append(
            f"{number_of(none, 'record')} without a period, counted as one period more. Leave such "
            "records out with where= if that is not meant."
        )
    return notes
