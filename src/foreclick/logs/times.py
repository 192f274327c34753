"""Times that are written as numbers or as text."""

from __future__ import annotations

from foreclick.engines import Spelling
from foreclick.engines.kinds import MOMENT, TEXT, WHOLE

_SMALLEST = 10**9  # seconds of 2001; smaller numbers are no times, but numbers of days or weeks

_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6))
"""Numbers since 1970 below the first have the second in a second: seconds, milli-, micro-."""

_FINEST = 10**9  # nanoseconds


def in_a_second(latest: float) -> int:
    """How many of its units a second has, of a column of times whose largest number is this."""
    return next((units for below, units in _UNITS if latest < below), _FINEST)


def day_of(column: str, kind: str, say: Spelling) -> str:
    """The day of a time, also of one that is a number or text; anything else as it is.

    Numbers from 10⁹ on are seconds, milli-, micro- or nanoseconds since 1970; their days are
    numbered from then on.
    """
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


def _days(column: str, units: int, say: Spelling) -> str:
    """Whole days; `/` is of doubles on some engines, which hold a multiple of a day exactly."""
    day = 86_400 * units
    rest = say.remainder.format(a=column, b=day)
    return say.cast(f"({column} - {rest}) / {day}", "whole")
