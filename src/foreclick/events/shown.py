"""What was shown: impressions of any table as rows (list, place, item) of one form.

Also the columns that impressions share with actions (nested fields, times of any kind), and the
ledger of what became of every event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

from foreclick.engines import Spelling, Table, Value
from foreclick.engines.kinds import called, is_numeric, kind_of
from foreclick.errors import InvalidLogError, SourceError
from foreclick.logs import in_a_second, key_type
from foreclick.logs.text import days_of, has_zone
from foreclick.results import Result
from foreclick.words import number_of

Name = str | tuple[str, str]
"""A column that both tables have, or its name in `shown` and its name in `actions`."""

KEY, ITEM, TIME = "__key_", "__item", "__time"
"""Our own names of columns that both tables have."""

SECOND = 1_000_000
"""In microseconds, in which all times are compared."""

START, PLACE = "__start", "__place"
CONTEXT, PERIOD, UNIT = "__context", "__period", "__unit"
POSITION = "position"
"""The column of positions, unless another is named or items are arrays."""

_OFFSET = "__offset"


@dataclass(frozen=True)
class Match:
    """How an action finds its list: by an id, or by session and time.

    Without an id, an action belongs to the last list of its `session` (and `list_name`) that showed
    its item before the action, within the `window`.

    Args:
        list_id: the column of the request's id, which actions carry; None if there is none.
        session: the column of the session (or user), by which actions find lists without an id.
        list_name: the column of a list's name within a session, such as "search results".
        time: the column of the time at which a list was shown or an action done: a timestamp, its
            text, or a number of seconds, milli- or microseconds since 1970.
        window: the longest time from a list to its action: seconds, or a timedelta; None:
            unlimited.
        together: lists without an id that follow each other within this time, each continuing
            further down, are one list: its pages, or what a user scrolled to.

    Raises:
        OptionError: a value cannot be used.

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
        """The columns that actions and lists share: tuples of our name, the role and the column."""
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
        if value.kind != kind:
            cast = "text" if kind == pa.string() else "whole"
            value = Value(table.engine.say.cast(value.text, cast), kind)
        columns[new] = value
    if match.time is not None:
        columns[TIME] = column_of(table, pick(match.time), "time")
    return columns


def latest(columns: dict[str, Value]) -> dict[str, Value]:
    """The latest time, if times are numbers."""
    time = columns.get(TIME)
    return (
        {"latest": Value(f"max({time.text})", time.kind)} if time and is_numeric(time.kind) else {}
    )


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


# --- the ledger -----------------------------------------------------------------------------------


_COLUMNS = ("fact", "found", "done", "example")


@dataclass(frozen=True, repr=False)
class Ledger(Result):
    """What a log was made of, and what was left out: one row per fact.

    | column | meaning |
    |---|---|
    | fact | what was counted: events, lists and rewards first, then irregularities |
    | found | how many there are |
    | done | how they were treated; None where all were used |
    | example | one of them |

    Every action is counted once: used, repeated, or left out for one cause.
    """

    @property
    def losses(self) -> dict[str, int]:
        """The count of each fact that was treated otherwise than used, by the fact's name."""
        return {row["fact"]: row["found"] for row in self.rows if row["done"]}  # type: ignore[misc]


class Entries:
    """Facts as they are found, and notes on what was decided."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def count(
        self, fact: str, rows: int, done: str | None = None, example: str | None = None
    ) -> None:
        """What there is; or what is odd, if there is any, and what became of it."""
        if rows or done is None:
            self.rows.append(dict(zip(_COLUMNS, (fact, int(rows), done, example), strict=True)))

    def closed(self) -> Ledger:
        """The ledger: what there is, then what is odd."""
        rows = sorted(self.rows, key=lambda row: row["done"] is not None)
        return Ledger(tuple(rows), _COLUMNS, tuple(self.notes))


# --- impressions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """Impressions, one row each, in columns of our own.

    Attributes:
        table: the rows; those without a list, an item or a place are left out.
        keys: what an action and its list have in common.
        lists: what a list is known by: the keys, and without an id of its own its time.
        listed: what belongs to a list: its context, period, unit and segments.
        deepest: the last position, if it is known.
    """

    table: Table
    keys: tuple[str, ...]
    lists: tuple[str, ...]
    listed: tuple[str, ...]
    deepest: int | None = None

    @property
    def by_time(self) -> bool:
        """Whether lists have no id and are known by their time."""
        return START in self.lists


def open_shown(
    table: Table,
    match: Match,
    items: str,
    position: str | None,
    named: Mapping[str, str | None],
    entries: Entries,
) -> Shown:
    """The impressions of a table, one row an item or one row a list.

    Args:
        table: the rows.
        match: how an action finds its list.
        items: the column of the item.
        position: the column of its position.
        named: the columns of what belongs to a list, by the names that they get.
        entries: the ledger so far.
    """
    say, array = table.engine.say, array_in(table, items, position)
    if array is not None:
        table = unnested(table, array, offset=True)
        position = None if position == POSITION else position
    columns = shared(table, match, items)
    keys = tuple(key for key, _, _ in match.keys)
    place = column_of(table, position or _OFFSET, "position")
    if kind_of(place.kind) == "text":  # of digits, or it is no position
        digits = f"{say.replaced(place.text, '[0-9]', '')} = '' AND {place.text} <> ''"
        text = say.cast(f"CASE WHEN {digits} THEN {place.text} END", "whole")
        place = Value(text)
    if kind_of(place.kind) != "whole":
        raise SourceError(f"position={position!r} must hold integers, not {called(place.kind)}.")
    for name, column in named.items():
        if column is not None:
            columns[name] = column_of(table, column, name.strip("_"))
    missing = any_null([*(columns[name].text for name in (*keys, ITEM)), place.text])
    wanted = {
        "rows": Value("count(*)"),
        "missing": Value.count(missing),
        "first": Value(f"min({place.text})"),
        "last": Value(f"max({place.text})"),
    }
    if match.list_id is None and match.together is not None:
        # Where lists are known by gaps between times, an impression without has none.
        wanted["untimed"] = Value.count(f"NOT ({missing}) AND {columns[TIME].text} IS NULL")
    facts = table.aggregate(wanted | latest(columns))
    rows, first, done = facts["rows"], facts["first"], "left out"
    entries.count("impressions", rows)
    entries.count("impressions without a list, an item or a position", facts["missing"], done)
    untimed = "impressions without a time, which their list is known by"
    entries.count(untimed, facts.get("untimed", 0), done)
    if rows and facts["missing"] == rows:
        roles = {role: in_shown(name) for _, role, name in match.keys}
        roles |= {"items": items, "position": str(position)}
        raise InvalidLogError(
            f"none of {number_of(rows, 'impression')} has a list, an item and a position: "
            f"{', '.join(f'{role}={name!r}' for role, name in roles.items())}. Check these "
            "columns; without positions, give position=None for the places in items=."
        )
    if first is not None and first not in (0, 1):
        entries.notes.append(f"The lowest position is {first}: positions above were never logged.")
    if first == 0 and position is not None:
        entries.notes.append("Positions count from 0 in the source; in the log they count from 1.")
    whole = say.cast(place.text, "whole")
    columns[PLACE] = Value(f"{whole} + 1" if first == 0 else whole)
    if TIME in columns:
        raw = columns[TIME]
        columns[TIME] = instant(raw, facts.get("latest"), say)
        if PERIOD not in columns:
            columns[PERIOD] = day(raw, columns[TIME], say)
    shown = Shown(
        table=table.made(columns, f"WHERE NOT ({missing})"),
        keys=keys,
        lists=keys,
        listed=tuple(name for name in named if name in columns),
        deepest=facts["last"] + (first == 0) if rows > facts["missing"] else None,
    )
    return shown if match.list_id is not None else _by_time(shown, match)


def array_in(table: Table, items: str, position: str | None) -> str | None:
    """The column of arrays that holds the items; None for one row an item.

    An array may be text; there is no position then, or it is in the same text.
    """
    top = items if items in table.columns else items.split(".", maxsplit=1)[0]
    kind = kind_of(table.kinds.field(top).type) if top in table.columns else None
    within = position is None or (top != items and position.startswith(f"{top}."))
    return top if kind == "list" or (kind == "text" and within) else None


def unnested(table: Table, items: str, *, offset: bool = False) -> Table:
    """One row an element of an array; the other columns are repeated."""
    say = table.engine.say
    columns = table.own(table.columns)
    array = columns[items].text
    if kind_of(columns[items].kind) == "text":  # JSON, whose objects stay text
        columns[items] = Value(say.unnested, pa.string())
        array = say.listed(array)
    else:
        columns[items] = Value(say.unnested, columns[items].kind.value_type)
    if offset:
        columns[_OFFSET] = Value(say.offset)
    return table.made(columns, say.unnest.format(array=array))


def _by_time(shown: Shown, match: Match) -> Shown:
    """Lists that are known by when they were shown.

    Rows of one moment are a list. With `together`, rows that follow within that time and stand
    further down belong to it as well: pages, and lists that are logged while a user scrolls.
    """
    table, lists = shown.table, (*shown.keys, START)
    together = microseconds(match.together, "together")
    if together is None:
        begun = table.with_column(START, f"s.{TIME}", pa.int64())
        return replace(shown, table=begun, lists=lists)
    key = ", ".join((*shown.keys, TIME))
    over = f"OVER (PARTITION BY {', '.join(shown.keys)} ORDER BY {TIME}"
    parts = (
        f"SELECT {key}, min({PLACE}) AS top, max({PLACE}) AS deep FROM {table.rows} AS s "
        f"GROUP BY {key}"
    )
    before = (
        f"SELECT {key}, top, lag({TIME}) {over}) AS before, lag(deep) {over}) AS deeper "
        f"FROM ({parts}) AS p"
    )
    fresh = f"before IS NULL OR {TIME} - before > {together} OR top <= deeper"
    opened = f"SELECT {key}, CASE WHEN {fresh} THEN {TIME} END AS opened FROM ({before}) AS b"
    running = f"max(opened) {over} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    starts = f"SELECT {key}, {running} AS {START} FROM ({opened}) AS r"
    columns = table.own(table.columns) | {START: Value(f"o.{START}")}
    on = table.engine.say.equal((*shown.keys, TIME))
    joined = table.made(columns, f"INNER JOIN ({starts}) AS o ON {on}")
    return replace(shown, table=joined, lists=lists)


def cleaned(shown: Shown, entries: Entries) -> tuple[Table, Table]:
    """Each item of a list once, at its first place, and one item a place; and those left out."""
    rows, say = shown.table, shown.table.engine.say
    names = [*shown.lists, *shown.listed, ITEM]
    first = {
        name: Value(f"min({say.column(name)})", rows.kinds.field(name).type)
        for name in rows.columns
        if name not in names
    }
    first["__rows"] = Value("count(*)")
    first["__places"] = Value(f"count(DISTINCT s.{PLACE})")
    place = ", ".join(map(say.column, (*shown.lists, *shown.listed, PLACE)))
    order = f"s.{TIME}, s.{ITEM}" if TIME in rows.columns else f"s.{ITEM}"
    turn = f"row_number() OVER (PARTITION BY {place} ORDER BY {order})"
    once = rows.grouped(rows.own(names), first).with_column("__turn", turn, pa.int64())
    turns = once.computed("shown")
    totals = turns.aggregate(
        {
            "again": Value.sum("s.__rows - s.__places", say),
            "twice": Value.sum("s.__places - 1", say),
            "taken": Value.count("s.__turn > 1"),
        },
    )
    entries.count("repeated impressions", totals["again"], "counted once")
    entries.count("further places of an item in a list", totals["twice"], "left empty")
    entries.count("impressions at a place that another item has", totals["taken"], "left out")
    own = turns.own(rows.columns)
    return turns.made(own, "WHERE s.__turn = 1"), turns.made(own, "WHERE s.__turn > 1")
