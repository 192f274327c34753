"""What was shown: impressions of any table as rows (list, place, item) of one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from foreclick.engines import Table, Value
from foreclick.engines.kinds import called, kind_of
from foreclick.errors import InvalidLogError, SourceError
from foreclick.events.columns import (
    ITEM,
    TIME,
    Entries,
    Match,
    any_null,
    column_of,
    day,
    in_shown,
    instant,
    latest,
    microseconds,
    shared,
)
from foreclick.words import number_of

START, PLACE = "__start", "__place"
CONTEXT, PERIOD, UNIT = "__context", "__period", "__unit"
POSITION = "position"
"""The column of positions, unless another is named or items are arrays."""

_OFFSET = "__offset"


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
    entries.odd("impressions without a list, an item or a position", facts["missing"], done)
    untimed = "impressions without a time, which their list is known by"
    entries.odd(untimed, facts.get("untimed", 0), done)
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
    entries.odd("repeated impressions", totals["again"], "counted once")
    entries.odd("further places of an item in a list", totals["twice"], "left empty")
    entries.odd("impressions at a place that another item has", totals["taken"], "left out")
    own = turns.own(rows.columns)
    return turns.made(own, "WHERE s.__turn = 1"), turns.made(own, "WHERE s.__turn > 1")
