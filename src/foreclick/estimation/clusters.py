"""Whose records vary together: the one rule that all intervals follow."""

from __future__ import annotations

from typing import Literal

from foreclick.batches import count_periods, records_without_period
from foreclick.errors import ModelError
from foreclick.question import Clusters
from foreclick.tallies import FEW_PERIODS, Tally
from foreclick.words import number_of

MANY_PERIODS = 1_000
TOO_MANY_PERIODS = 20_000


def clusters_of(
    counted: Tally, asked: Literal["auto", "record"] | None
) -> tuple[tuple[Clusters, ...], list[str]]:
    """Whose records vary together, and a note where that cannot be seen."""
    if asked is None:
        return (), []
    shape = counted.shape
    count = count_periods(counted) if shape.period else 0
    if counted.decayed and asked == "record":
        raise ModelError(
            "clusters='record': some periods of this tally count less than others, so its records "
            "do not vary alike. Use clusters='auto'."
        )
    if count > TOO_MANY_PERIODS and asked == "auto":  # sums would fill the memory
        raise ModelError(
            f"the log has {count:,} periods; intervals can be told from {TOO_MANY_PERIODS:,} at "
            "most: a period is a day or a week. Read the log with a coarser one, or say "
            "confidence=Confidence(clusters='record')."
        )
    if asked == "record":
        return ("record",), []
    notes: list[str] = []
    if count > MANY_PERIODS:
        notes.append(
            f"The log has {count:,} periods. If its period is a time, read it with the day instead."
        )
    if shape.period and (none := records_without_period(counted)):
        notes.append(
            f"{number_of(none, 'record')} without a period, counted as one period more. Leave such "
            "records out with where= if that is not meant."
        )
    if shape.period and count < FEW_PERIODS:
        if counted.decayed and not shape.unit:
            raise ModelError(
                f"the log has {number_of(count, 'period')}, too few to see how much they differ, "
                "and they do not count alike. Read it with more periods, or say confidence=None: "
                "no intervals."
            )
        notes.append(
            f"The log has {number_of(count, 'period')}, too few to see how much days differ: "
            "the intervals count records as independent, and are too short if days do differ."
        )
    kinds: list[Clusters] = ["period"] if count >= FEW_PERIODS else []
    return tuple(kinds + (["unit"] if shape.unit else [])) or ("record",), notes
