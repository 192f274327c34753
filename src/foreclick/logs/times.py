"""Times that are written as numbers or as text."""

from __future__ import annotations

import pyarrow as pa

from foreclick.engines import Spelling
from foreclick.engines.kinds import MOMENT, TEXT, WHOLE, kind_of

_SMALLEST = 10**9  # seconds of 2001; smaller numbers are no times, but numbers of days or weeks

_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6))
"""Numbers since 1970 below the first have the second in a second: seconds, milli-, micro-."""

_FINEST = 10**9  # nanoseconds


def in_a_second(latest: float) -> int:
    """How many of its units a second has, of a column of times whose largest number is this."""
    return next((units for below, units in _UNITS if latest < below), _FINEST)


def day_of(column: str, kind: pa.DataType, say: Spelling) -> str:
    """The day of a time, also of one that is a number or text; anything else as it is.

    Numbers from 10⁹ on are seconds, milli-, micro- or nanoseconds since 1970; their days are
    numbered from then on. Days of times with a zone are those of UTC, whatever the zone of the
    session.
    """
    if has_zone(kind):
        micros = say.micros.format(moment=column)
        return say.day.format(days=_days(f"({micros})", 10**6, say))
    kind = kind_of(kind)
    if kind == MOMENT:
        return say.cast(column, "date")
    if kind == WHOLE:
        days = "".join(f" WHEN {column} < {b} THEN {_days(column, u, say)}" for b, u in _UNITS)
        last = _days(column, _FINEST, say)
        return f"CASE WHEN {column} < {_SMALLEST} THEN {column}{days} ELSE {last} END"
    if kind == TEXT:
        column = say.cast(column, "text")
        dashes = f"substr({column}, 5, 1) = '-' AND substr({column}, 8, 1) = '-'"
        timed = f"{dashes} AND substr({column}, 11, 1) IN ('T', ' ')"
        return f"CASE WHEN {timed} THEN substr({column}, 1, 10) ELSE {column} END"
    return column


def has_zone(kind: pa.DataType) -> bool:
    """Whether times know their zone."""
    return kind_of(kind) == MOMENT and kind.tz is not None


def _days(column: str, units: int, say: Spelling) -> str:
    """Whole days; `/` is of doubles on some engines, which hold a multiple of a day exactly."""
    day = 86_400 * units
    rest = say.remainder.format(a=column, b=day)
    return say.cast(f"({column} - {rest}) / {day}", "whole")
