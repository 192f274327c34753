"""Columns of event tables, and the ledger of what became of every event.

Columns are nested fields, times of any kind, and those that two tables share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa

from foreclick.engines import Spelling, Table, Value
from foreclick.engines.kinds import DATE, MOMENT, REAL, STRUCT, TEXT, WHOLE, is_numeric, kind_of
from foreclick.errors import SourceError
from foreclick.logs import in_a_second, key_type
from foreclick.logs.text import has_zone
from foreclick.results import Result

Name = str | tuple[str, str]
"""A column that both tables have, or its name in `shown` and its name in `actions`."""

SECOND = 1_000_000
"""In microseconds, in which all times are compared."""

_DAY = 86_400 * SECOND


def in_shown(name: Name) -> str:
    """The column's name in the table of what was shown."""
    return name if isinstance(name, str) else name[0]


def in_actions(name: Name) -> str:
    """The column's name in the table of actions."""
    return name if isinstance(name, str) else name[1]


def column_of(table: Table, name: str, role: str) -> Value:
    """A column of `s`, or a field within one: ``event_attributes.object.object_id``.

    Fields within text are those of JSON.
    """
    say = table.engine.say
    if name in table.columns:
        return Value(f"s.{say.name(name)}", table.kinds.field(name).type)
    top, *fields = name.split(".")
    if top in table.columns:
        text, kind = f"s.{say.name(top)}", table.kinds.field(top).type
        while fields and kind_of(kind) == STRUCT and kind.get_field_index(fields[0]) >= 0:
            text, kind = f"({text}){say.dot}{say.name(fields[0])}", kind.field(fields.pop(0)).type
        if fields and kind_of(kind) == TEXT:
            path = say.literal("$." + ".".join(fields))
            return Value(say.within.format(text=text, path=path), pa.string())
        if not fields:
            return Value(text, kind)
    raise SourceError(
        f"{role}={name!r} is not in the table, which has {', '.join(table.columns)}. Name the "
        "column that holds it; a field within a column is written column.field."
    )


def key_of(value: Value, role: str, say: Spelling) -> Value:
    """A list, an item or a session: 64-bit integers or text."""
    return alike(value, key_type(value.kind, role), say)


def alike(value: Value, kind: pa.DataType, say: Spelling) -> Value:
    """A value of one table as the type that its counterpart has in the other."""
    if value.kind == kind:
        return value
    return Value(say.cast(value.text, TEXT if kind == pa.string() else WHOLE), kind)


def whole_number(value: Value, say: Spelling) -> Value:
    """Text of digits as a number, other text as NULL; anything else as it is."""
    if kind_of(value.kind) != TEXT:
        return value
    digits = f"{say.replaced(value.text, '[0-9]', '')} = '' AND {value.text} <> ''"
    return Value(say.cast(f"CASE WHEN {digits} THEN {value.text} END", WHOLE), pa.int64())


def instant(value: Value, latest: float | None, say: Spelling) -> Value:
    """Microseconds since 1970.

    Args:
        value: timestamps, dates, their text, or numbers of seconds, milli- or microseconds.
        latest: the largest of the numbers, by which their unit is known.
        say: how the engine spells.
    """
    text, units = value.text, in_a_second(latest or 0)
    if not is_numeric(value.kind):
        return Value(say.micros.format(moment=_moment(value, say)), pa.int64())
    if units > SECOND:
        step, number = units // SECOND, say.cast(text, WHOLE)
        rest = say.remainder.format(a=number, b=step)
        return Value(say.cast(f"({number} - {rest}) / {step}", WHOLE), pa.int64())
    return Value(say.cast(f"{text} * {SECOND // units}", WHOLE), pa.int64())


def day(value: Value, moment: Value, say: Spelling) -> Value:
    """The day of a time, whose microseconds are known."""
    if not is_numeric(value.kind) and not has_zone(value.kind):
        return Value(say.cast(_moment(value, say), DATE), pa.date32())
    rest = say.remainder.format(a=f"({moment.text})", b=_DAY)
    days = say.cast(f"({moment.text} - {rest}) / {_DAY}", WHOLE)
    return Value(say.day.format(days=days), pa.date32())


def _moment(value: Value, say: Spelling) -> str:
    return value.text if kind_of(value.kind) == MOMENT else say.cast(value.text, MOMENT)


def microseconds(length: float | timedelta | None, role: str) -> int | None:
    """A length of time, given as a timedelta or in seconds."""
    if length is None:
        return None
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if not seconds > 0:
        raise SourceError(
            f"{role}={length!r}: give a timedelta or a number of seconds, such as 1800."
        )
    return round(seconds * SECOND)


def equal(names: Sequence[str], say: Spelling, one: str = "s", other: str = "o") -> str:
    """That two tables agree in these columns."""
    return " AND ".join(f"{one}.{say.name(n)} = {other}.{say.name(n)}" for n in names)


def count_of(condition: str) -> Value:
    """In how many rows a condition holds."""
    return Value(f"count(CASE WHEN {condition} THEN 1 END)", pa.int64())


def real_sum(value: str, say: Spelling) -> Value:
    """The sum of doubles, 0 for none."""
    return Value(f"coalesce({say.cast(f'sum({value})', REAL)}, 0)", pa.float64())


def any_null(values: Sequence[str]) -> str:
    """Whether one of them is NULL."""
    return " OR ".join(f"{value} IS NULL" for value in values)


def held(table: Table, step: str) -> Table:
    """The rows computed once, if they may be kept where they live; as they are elsewhere."""
    return table.engine.keep(step, table) if table.engine.keeps else table


_COLUMNS = ("fact", "found", "done", "example")


@dataclass(frozen=True, repr=False)
class Ledger(Result):
    """What a log was made of, and what was left out: one row per fact.

    | column | meaning |
    |---|---|
    | fact | what was counted: events, lists and rewards first, then what was odd |
    | found | how many |
    | done | what became of them |
    | example | one of them |

    Every action is in it once: used, repeated, or left out for one cause.
    """

    @property
    def losses(self) -> dict[str, int]:
        """How many of everything that was not simply used, by the fact."""
        return {row["fact"]: row["found"] for row in self.rows if row["done"]}  # type: ignore[misc]


class Entries:
    """Facts as they are found."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def count(self, fact: str, found: int) -> None:
        """What there is."""
        self.rows.append(dict(zip(_COLUMNS, (fact, found, None, None), strict=True)))

    def less(self, fact: str, found: int) -> None:
        """So many fewer than were counted."""
        for row in self.rows:
            if row["fact"] == fact:
                row["found"] -= int(found)

    def odd(self, fact: str, found: int, done: str, example: str | None = None) -> None:
        """What is odd, if there is any."""
        if found:
            self.rows.append(dict(zip(_COLUMNS, (fact, int(found), done, example), strict=True)))

    def note(self, text: str) -> None:
        """What was decided."""
        self.notes.append(text)

    def closed(self) -> Ledger:
        """The ledger: what there is, then what is odd."""
        rows = sorted(self.rows, key=lambda row: row["done"] is not None)
        return Ledger(tuple(rows), _COLUMNS, tuple(self.notes))
