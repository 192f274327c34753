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
from foreclick.engines.kinds import is_numeric, kind_of
from foreclick.errors import SourceError
from foreclick.logs import in_a_second, key_type
from foreclick.logs.text import days_of, has_zone
from foreclick.results import Result

Name = str | tuple[str, str]
"""A column that both tables have, or its name in `shown` and its name in `actions`."""

KEY, ITEM, TIME = "__key_", "__item", "__time"
"""Our own names of columns that both tables have."""

SECOND = 1_000_000
"""In microseconds, in which all times are compared."""


@dataclass(frozen=True)
class Match:
    """How an action finds its list: by an id, or by session and time.

    Without an id, an action belongs to the last list of its `session` (and `list_name`) that showed
    its item before it, within the `window`.

    Args:
        list_id: the id of a request, which an action carries; None if there is none.
        session: the session (or user) by which actions find lists that have no id.
        list_name: the name of a list in a session, such as "search results".
        time: when a list was shown and an action done: a timestamp, its text, or a number of
            seconds, milli- or microseconds since 1970.
        window: how long after its list an action may come: seconds, or a timedelta; None: ever.
        together: lists without an id that follow each other within this time, further and further
            down, are one list: its pages, or what a user scrolled to.

    Examples:
        >>> Match(session="visit", time=("shown_at", "clicked_at")).list_id
    """

    list_id: Name | None = None
    session: Name | None = None
    list_name: Name | None = None
    time: Name | None = None
    window: float | timedelta | None = timedelta(minutes=30)
    together: float | timedelta | None = None

    def __post_init__(self) -> None:
        if self.list_id is None and (self.session is None or self.time is None):
            raise SourceError(
                "an action finds its list by list_id=, the id of a request that both tables have; "
                "or, where there is none, by list_id=fc.events.Match(session=…, time=…)."
            )
        for role in ("window", "together"):
            microseconds(getattr(self, role), role)

    @property
    def keys(self) -> list[tuple[str, str, Name]]:
        """Of what an action and its list have in common, our own name, the role and the column."""
        roles = ("session", "list_name") if self.list_id is None else ("list_id",)
        named = [(role, getattr(self, role)) for role in roles]
        return [(f"{KEY}{i}", role, name) for i, (role, name) in enumerate(named) if name]


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
    top, *fields = [name] if name in table.columns else name.split(".")
    if top in table.columns:
        text, kind = say.column(top), table.kinds.field(top).type
        while fields and kind_of(kind) == "struct" and kind.get_field_index(fields[0]) >= 0:
            text, kind = f"({text}){say.dot}{say.name(fields[0])}", kind.field(fields.pop(0)).type
        if fields and kind_of(kind) == "text":
            path = say.literal("$." + ".".join(fields))
            return Value(say.within.format(text=text, path=path), pa.string())
        if not fields:
            return Value(text, kind)
    raise SourceError(
        f"{role}={name!r} is not in the table, which has {', '.join(table.columns)}. Name the "
        "column that holds it; a field within a column is written column.field."
    )


def shared(
    table: Table, match: Match, items: Name, theirs: pa.Schema | None = None
) -> dict[str, Value]:
    """What an action and its list have in common, in our own names; times as they are written.

    Args:
        table: impressions, or actions.
        match: how an action finds its list.
        items: the column of the item.
        theirs: of actions, the columns of the impressions.
    """
    pick, columns = in_shown if theirs is None else in_actions, {}
    for new, role, name in (*match.keys, (ITEM, "item", items)):
        value = column_of(table, pick(name), "items" if new == ITEM else role)
        kind = key_type(value.kind, role) if theirs is None else theirs.field(new).type
        columns[new] = alike(value, kind, table.engine.say)
    if match.time is not None:
        columns[TIME] = column_of(table, pick(match.time), "time")
    return columns


def latest(columns: dict[str, Value]) -> dict[str, Value]:
    """The latest time, if times are numbers."""
    time = columns.get(TIME)
    return (
        {"latest": Value(f"max({time.text})", time.kind)} if time and is_numeric(time.kind) else {}
    )


def alike(value: Value, kind: pa.DataType, say: Spelling) -> Value:
    """A value as 64-bit integers or text, the type that its counterpart has in the other table."""
    if value.kind == kind:
        return value
    return Value(say.cast(value.text, "text" if kind == pa.string() else "whole"), kind)


def instant(value: Value, latest: float | None, say: Spelling) -> Value:
    """Microseconds since 1970.

    Args:
        value: timestamps, dates, their text, or numbers of seconds, milli- or microseconds.
        latest: the largest of the numbers, by which their unit is known.
        say: how the engine spells.
    """
    if not is_numeric(value.kind):
        return Value(say.micros.format(moment=_moment(value, say)))
    units = in_a_second(latest or 0)
    if units <= SECOND:
        return Value(say.cast(f"{value.text} * {SECOND // units}", "whole"))
    step, number = units // SECOND, say.cast(value.text, "whole")
    rest = say.remainder.format(a=number, b=step)
    return Value(say.cast(f"({number} - {rest}) / {step}", "whole"))


def day(value: Value, moment: Value, say: Spelling) -> Value:
    """The day of a time, whose microseconds are known."""
    if not is_numeric(value.kind) and not has_zone(value.kind):
        return Value(say.cast(_moment(value, say), "date"), pa.date32())
    return Value(say.day.format(days=days_of(f"({moment.text})", SECOND, say)), pa.date32())


def _moment(value: Value, say: Spelling) -> str:
    return value.text if kind_of(value.kind) == "moment" else say.cast(value.text, "moment")


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


def any_null(values: Sequence[str]) -> str:
    """Whether one of them is NULL."""
    return " OR ".join(f"{value} IS NULL" for value in values)


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
    """Facts as they are found, and notes on what was decided."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def count(
        self, fact: str, rows: int, done: str | None = None, example: str | None = None
    ) -> None:
        """What there is, and what became of it unless it is simply used."""
        self.rows.append(dict(zip(_COLUMNS, (fact, int(rows), done, example), strict=True)))

    def odd(self, fact: str, rows: int, done: str, example: str | None = None) -> None:
        """What is odd, if there is any."""
        if rows:
            self.count(fact, rows, done, example)

    def closed(self) -> Ledger:
        """The ledger: what there is, then what is odd."""
        rows = sorted(self.rows, key=lambda row: row["done"] is not None)
        return Ledger(tuple(rows), _COLUMNS, tuple(self.notes))
