"""Times that are written as numbers or as text."""

from __future__ import annotations

import ibis
import ibis.expr.types as ir

from foreclick.engines import force

_SMALLEST = 10**9  # seconds of 2001; smaller numbers are no times, but numbers of days or weeks

_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6))
"""Numbers since 1970 below the first have the second in a second: seconds, milli-, micro-."""

_FINEST = 10**9  # nanoseconds


def in_a_second(latest: float) -> int:
    """How many of its units a second has, of a column of times whose largest number is this."""
    return next((units for below, units in _UNITS if latest < below), _FINEST)


def period_of(column: ir.Column) -> ir.Column:
    """Days of a timestamp, also of one that is a number or text; anything else as it is.

    Numbers from 10⁹ on are seconds, milli-, micro- or nanoseconds since 1970; their days are
    numbered from then on.
    """
    kind = column.type()
    if kind.is_timestamp():
        return column.date()
    if kind.is_integer():
        days = [(column < below, _days(column, units)) for below, units in _UNITS]
        return ibis.cases((column < _SMALLEST, column), *days, else_=_days(column, _FINEST))
    if kind.is_string():
        dashes = (column.substr(4, 1) == "-") & (column.substr(7, 1) == "-")
        timed = dashes & column.substr(10, 1).isin(["T", " "])
        return timed.fill_null(False).ifelse(column.substr(0, 10), column)
    return column


def _days(column: ir.IntegerColumn, units: int) -> ir.IntegerColumn:
    day = 86_400 * units
    # Some engines divide as doubles, which cannot tell the last nanoseconds of a day.
    return force((column - column % day) // day, "int64")
