"""What was shown: impressions of any table as rows (list, place, item) of one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa

from foreclick.engines import Table, Value, whole_sum
from foreclick.engines.kinds import LIST, TEXT, WHOLE, called, is_numeric, kind_of
from foreclick.errors import InvalidLogError, SourceError
from foreclick.events.columns import (
    Entries,
    Name,
    any_null,
    column_of,
    count_of,
    day,
    equal,
    held,
    in_shown,
    instant,
    key_of,
    microseconds,
    whole_number,
)
from foreclick.words import number_of

KEY, START, TIME, PLACE, ITEM = "__key_", "__start", "__time", "__place", "__item"
CONTEXT, PERIOD, UNIT = "__context", "__period", "__unit"
_OFFSET, _ROWS, _PLACES, _TURN = "__offset", "__rows", "__places", "__turn"


POSITION = "position"
"""The column of positions, unless another is named or items are arrays."""


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
    def keys(self) -> dict[str, Name]:
        """What an action and its list have in common, by the part it plays."""
        if self.list_id is not None:
            return {"list_id": self.list_id}
        named = {"session": self.session, "list_name": self.list_name}
        return {role: name for role, name in named.items() if name is not None}


@dataclass(frozen=True)
class Parts:
    """Which column plays which part. See `from_events` for their meaning."""

    match: Match
    context: str | None
    item: Name
    position: str | None
    period: str | None
    unit: str | None
    segments: Mapping[str, str]


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

    @property
    def timed(self) -> bool:
        """Whether it is known when lists were shown."""
        return TIME in self.table.columns


def open_shown(table: Table, parts: Parts, entries: Entries) -> Shown:
    """The impressions of a table, one row an item or one row a list."""
    say, match, item = table.engine.say, parts.match, in_shown(parts.item)
    position, array = parts.position, array_in(table, item, parts.position)
    if array is not None:
        table = unnested(table, array, offset=True)
        position = None if position == POSITION else position
    columns = _columns(table, parts, position or _OFFSET)
    keys = tuple(name for name in columns if name.startswith(KEY))
    missing = any_null([columns[n].text for n in (*keys, ITEM, PLACE)])
    wanted = {
        "rows": Value("count(*)", pa.int64()),
        "missing": count_of(missing),
        "first": Value(f"min({columns[PLACE].text})", pa.int64()),
        "last": Value(f"max({columns[PLACE].text})", pa.int64()),
    }
    if match.list_id is None and match.together is not None:
        # Where lists are known by gaps between times, an impression without has none.
        wanted["untimed"] = count_of(f"NOT ({missing}) AND {columns[TIME].text} IS NULL")
    if TIME in columns and is_numeric(columns[TIME].kind):
        wanted["latest"] = Value(f"max({columns[TIME].text})", columns[TIME].kind)
    facts = table.asked(wanted)
    entries.count("impressions", facts["rows"])
    done = "left out"
    entries.odd("impressions without a list, an item or a position", facts["missing"], done)
    entries.odd(
        "impressions without a time, which their list is known by", facts.get("untimed", 0), done
    )
    if facts["rows"] and facts["missing"] == facts["rows"]:
        named = {role: in_shown(name) for role, name in match.keys.items()}
        named |= {"items": item, "position": str(position)}
        raise InvalidLogError(
            f"none of {number_of(facts['rows'], 'impression')} has a list, an item and a position: "
            f"{', '.join(f'{role}={name!r}' for role, name in named.items())}. Check these "
            "columns; without positions, give position=None for the places in items=."
        )
    place, first = say.cast(columns[PLACE].text, "whole"), facts["first"]
    if first is not None and first not in (0, 1):
        entries.note(f"The lowest position is {first}: positions above were never logged.")
    if first == 0 and position is not None:
        entries.note("Positions count from 0 in the source; in the log they count from 1.")
    columns[PLACE] = Value(f"{place} + 1" if first == 0 else place, pa.int64())
    if match.time is not None:
        raw = columns[TIME]
        columns[TIME] = instant(raw, facts.get("latest"), say)
        if parts.period is None:
            columns[PERIOD] = day(raw, columns[TIME], say)
    rows = table.made(columns, f"WHERE NOT ({missing})")
    listed = tuple(n for n in (CONTEXT, PERIOD, UNIT, *parts.segments) if n in columns)
    deepest = facts["last"] + (facts["first"] == 0) if facts["rows"] > facts["missing"] else None
    found = Shown(rows, keys, keys, listed, deepest)
    return found if match.list_id is not None else _by_time(found, match.together)


def array_in(table: Table, items: str, position: str | None) -> str | None:
    """The column of arrays that holds the items; None for one row an item.

    An array may be text; there is no position then, or it is in the same text.
    """
    top = items if items in table.columns else items.split(".", maxsplit=1)[0]
    kind = kind_of(table.kinds.field(top).type) if top in table.columns else None
    within = position is None or (top != items and position.startswith(f"{top}."))
    return top if kind == LIST or (kind == TEXT and within) else None


def unnested(table: Table, items: str, *, offset: bool = False) -> Table:
    """One row an element of an array; the other columns are repeated."""
    say = table.engine.say
    columns = table.own(table.columns)
    array = columns[items].text
    if kind_of(columns[items].kind) == TEXT:  # JSON, whose objects stay text
        columns[items] = Value(say.unnested, pa.string())
        array = say.listed(array)
    else:
        columns[items] = Value(say.unnested, columns[items].kind.value_type)
    if offset:
        columns[_OFFSET] = Value(say.offset, pa.int64())
    return table.made(columns, say.unnest.format(array=array))


def _columns(table: Table, parts: Parts, position: str) -> dict[str, Value]:
    """The parts as columns, in our own names; places and times as they are written."""
    say = table.engine.say
    columns = {
        f"{KEY}{i}": key_of(column_of(table, in_shown(name), role), role, say)
        for i, (role, name) in enumerate(parts.match.keys.items())
    }
    columns[ITEM] = key_of(column_of(table, in_shown(parts.item), "items"), "item", say)
    columns[PLACE] = whole_number(column_of(table, position, "position"), say)
    if kind_of(columns[PLACE].kind) != WHOLE:
        kind = called(columns[PLACE].kind)
        raise SourceError(f"position={position!r} must hold integers, not {kind}.")
    if parts.match.time is not None:
        columns[TIME] = column_of(table, in_shown(parts.match.time), "time")
    named = {CONTEXT: parts.context, PERIOD: parts.period, UNIT: parts.unit}
    for name, column in (named | dict(parts.segments)).items():
        if column is not None:
            columns[name] = column_of(table, column, name.strip("_"))
    return columns


def _by_time(shown: Shown, together: float | timedelta | None) -> Shown:
    """Lists that are known by when they were shown.

    Rows of one moment are a list. With `together`, rows that follow within so many microseconds and
    stand further down belong to it as well: pages, and lists that are logged while a user scrolls.
    """
    table, lists = shown.table, (*shown.keys, START)
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
    gap = microseconds(together, "together")
    fresh = f"before IS NULL OR {TIME} - before > {gap} OR top <= deeper"
    opened = f"SELECT {key}, CASE WHEN {fresh} THEN {TIME} END AS opened FROM ({before}) AS b"
    running = f"max(opened) {over} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    starts = f"SELECT {key}, {running} AS {START} FROM ({opened}) AS r"
    columns = table.own(table.columns) | {START: Value(f"o.{START}", pa.int64())}
    on = equal((*shown.keys, TIME), table.engine.say)
    joined = table.made(columns, f"INNER JOIN ({starts}) AS o ON {on}")
    return replace(shown, table=joined, lists=lists)


def cleaned(shown: Shown, entries: Entries) -> tuple[Shown, Table]:
    """Each item of a list once, at its first place, and one item a place; and those left out."""
    rows, say = shown.table, shown.table.engine.say
    names = [*shown.lists, *shown.listed, ITEM]
    columns = rows.own(names)
    groups = ", ".join(value.text for value in columns.values())
    for name in rows.columns:
        if name not in names:
            columns[name] = Value(f"min(s.{say.name(name)})", rows.kinds.field(name).type)
    columns[_ROWS] = Value("count(*)", pa.int64())
    columns[_PLACES] = Value(f"count(DISTINCT s.{PLACE})", pa.int64())
    once = rows.made(columns, f"GROUP BY {groups}")
    place = ", ".join(f"s.{say.name(n)}" for n in (*shown.lists, *shown.listed, PLACE))
    order = f"s.{TIME}, s.{ITEM}" if shown.timed else f"s.{ITEM}"
    turn = f"row_number() OVER (PARTITION BY {place} ORDER BY {order})"
    turns = held(once.with_column(_TURN, turn, pa.int64()), "shown")
    found = turns.asked(
        {
            "again": whole_sum(f"s.{_ROWS} - s.{_PLACES}", say),
            "twice": whole_sum(f"s.{_PLACES} - 1", say),
            "taken": count_of(f"s.{_TURN} > 1"),
        },
    )
    entries.odd("repeated impressions", found["again"], "counted once")
    entries.odd("further places of an item in a list", found["twice"], "left empty")
    entries.odd("impressions at a place that another item has", found["taken"], "left out")
    kept, lost = (
        turns.made(turns.own(rows.columns), f"WHERE s.{_TURN} {sign} 1") for sign in ("=", ">")
    )
    return replace(shown, table=kept), lost
