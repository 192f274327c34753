"""Columns of event tables: nested fields, times of any kind, and columns that two tables share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from foreclick.engines import Engine
from foreclick.errors import SourceError
from foreclick.logs import in_a_second

Name = str | tuple[str, str]
"""A column that both tables have, or its name in `shown` and its name in `actions`."""

SECOND = 1_000_000
"""In microseconds, in which all times are compared."""

OF = "_of"
"""Ends the names of columns by which rows of another table were found."""


def in_shown(name: Name) -> str:
    """The column's name in the table of what was shown."""
    return name if isinstance(name, str) else name[0]


def in_actions(name: Name) -> str:
    """The column's name in the table of actions."""
    return name if isinstance(name, str) else name[1]


def column_of(table: ir.Table, name: str, role: str) -> ir.Column:
    """A column, or a field within one: ``event_attributes.object.object_id``."""
    if name in table.columns:
        return table[name]
    top, *fields = name.split(".")
    found = table[top] if top in table.columns else None
    for field in fields:
        found = None if found is None else _field(found, field)
    if found is None:
        raise SourceError(
            f"{role}={name!r} is not in the table, which has {', '.join(table.columns)}. Name the "
            "column that holds it; a field within a column is written column.field."
        )
    return found.str if found.type().is_json() else found


def _field(value: ir.Column, field: str) -> ir.Column | None:
    kind = value.type()
    if kind.is_json() or (kind.is_struct() and field in kind.names):
        return value[field]
    return None


def instant(column: ir.Column, latest: float | None, engine: Engine) -> ir.IntegerColumn:
    """Microseconds since 1970.

    Args:
        column: timestamps, dates, their text, or numbers of seconds, milli- or microseconds.
        latest: the largest of the numbers, by which their unit is known.
        engine: where the column lives.
    """
    if column.type().is_numeric():
        units = in_a_second(latest or 0)
        if units > SECOND:
            return (column.cast("int64") // (units // SECOND)).cast("int64")
        return (column * (SECOND // units)).cast("int64")
    moment = column if column.type().is_timestamp() else column.cast("timestamp")
    return engine.microseconds(moment)


def day(column: ir.Column, moment: ir.IntegerColumn) -> ir.Column:
    """The day of a time, whose microseconds are known."""
    if column.type().is_timestamp():
        return column.date()
    return (moment // SECOND).cast("int64").as_timestamp("s").date()


def microseconds(length: float | timedelta, role: str) -> int:
    """A length of time, given as a timedelta or in seconds."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if not seconds > 0:
        raise SourceError(
            f"{role}={length!r}: give a timedelta or a number of seconds, such as 1800."
        )
    return round(seconds * SECOND)


def attached(rows: ir.Table, others: ir.Table, own: Sequence[str]) -> ir.Table:
    """Rows with the columns of those other rows that agree in `own`; NULL where there are none."""
    named = others.rename({f"{name}{OF}": name for name in own})
    return rows.left_join(named, [rows[name] == named[f"{name}{OF}"] for name in own])


def alike(column: ir.Column, kind: dt.DataType) -> ir.Column:
    """A column of one table as the type that its counterpart has in the other."""
    return column if column.type() == kind else column.cast(kind)
