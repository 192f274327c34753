"""What was shown: impressions of any table as rows (list, place, item) of one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

import ibis
import ibis.expr.types as ir

from foreclick.engines import Engine, count_of, flag_by, total
from foreclick.errors import SourceError
from foreclick.events.columns import Name, column_of, day, in_shown, instant
from foreclick.events.ledger import Entries
from foreclick.logs import key_of

KEY, START, TIME, PLACE, ITEM, OUT = "__key_", "__start", "__time", "__place", "__item", "__out"
CONTEXT, PERIOD, UNIT, PROPENSITY = "__context", "__period", "__unit", "__propensity"
_PAGE, _OFFSET, _ROWS, _PLACES, _TURN = "__page", "__offset", "__rows", "__places", "__turn"


@dataclass(frozen=True)
class Parts:
    """Which column plays which part. See `from_events` for their meaning."""

    list_id: Name | None
    context: str | None
    item: Name
    items: Name | None
    position: str | None
    time: Name | None
    session: Name | None
    list_name: Name | None
    together: int | None
    page: str | None
    page_size: int | None
    period: str | None
    unit: str | None
    segments: Mapping[str, str]
    propensity: str | None
    exclude: tuple[Any, ...]

    @property
    def keys(self) -> dict[str, Name]:
        """What an action and its list have in common, by the part it plays."""
        if self.list_id is not None:
            return {"list_id": self.list_id}
        if self.session is None or self.time is None:
            raise SourceError(
                "an action finds its list by list_id=, the id of a request that both tables have; "
                "or, where there is none, by session= and time= (and list_name=)."
            )
        named = {"session": self.session, "list_name": self.list_name}
        return {role: name for role, name in named.items() if name is not None}


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

    table: ir.Table
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


def open_shown(table: ir.Table, parts: Parts, engine: Engine, entries: Entries) -> Shown:
    """The impressions of a table, one row an item or one row a list."""
    for i, rule in enumerate(parts.exclude):
        table = flag_by(table, rule, f"{OUT}_{i}")
    if parts.items is not None:
        table = unnested(table, in_shown(parts.items), _OFFSET)
    columns = _columns(table, parts)
    keys = tuple(name for name in columns if name.startswith(KEY))
    by_gaps = parts.list_id is None and parts.together is not None
    facts = _facts(columns, table, engine, by_gaps=by_gaps)
    entries.count("impressions", facts["rows"])
    done = "left out"
    entries.odd("impressions without a list, an item or a position", facts["missing"], done)
    entries.odd(
        "impressions without a time, which their list is known by", facts.get("untimed", 0), done
    )
    entries.odd("impressions that are excluded", facts.get("excluded", 0), done)
    columns[PLACE] = _from_one(columns, facts, parts, entries)
    if parts.time is not None:
        raw = columns[TIME]
        columns[TIME] = instant(raw, facts.get("latest"), engine)
        if parts.period is None:
            columns[PERIOD] = day(raw, columns[TIME])
    columns.pop(_PAGE, None)
    rows = table.select(**columns)
    for name in (*keys, ITEM, PLACE):
        rows = rows.filter(rows[name].notnull())
    listed = tuple(n for n in (CONTEXT, PERIOD, UNIT, *parts.segments) if n in columns)
    deepest = facts["last"] + (facts["first"] == 0) if facts["rows"] > facts["missing"] else None
    found = Shown(rows, keys, keys, listed, None if parts.page or parts.exclude else deepest)
    return found if parts.list_id is not None else _by_time(found, parts.together)


def unnested(table: ir.Table, items: str, offset: str | None = None) -> ir.Table:
    """One row an element of an array; the others columns are repeated."""
    if items not in table.columns or not table[items].type().is_array():
        raise SourceError(
            f"items={items!r} is no column of arrays; the table has {', '.join(table.columns)}. "
            "For one row an item leave items= out."
        )
    return table.unnest(items, offset=offset)


def _columns(table: ir.Table, parts: Parts) -> dict[str, Any]:
    """The parts as columns, in our own names; places and times as they are written."""
    columns: dict[str, Any] = {
        f"{KEY}{i}": key_of(column_of(table, in_shown(name), role), role)
        for i, (role, name) in enumerate(parts.keys.items())
    }
    columns[ITEM] = key_of(column_of(table, in_shown(parts.item), "item"), "item")
    if parts.position is not None:
        columns[PLACE] = column_of(table, parts.position, "position")
    else:
        columns[PLACE] = table[_OFFSET]
    if not columns[PLACE].type().is_integer():
        raise SourceError(
            f"position={parts.position!r} must hold integers, not {columns[PLACE].type()}."
        )
    if parts.page is not None:
        columns[_PAGE] = column_of(table, parts.page, "page")
    if parts.time is not None:
        columns[TIME] = column_of(table, in_shown(parts.time), "time")
    named = {CONTEXT: parts.context, PERIOD: parts.period, UNIT: parts.unit}
    named |= {PROPENSITY: parts.propensity, **parts.segments}
    for name, column in named.items():
        if column is not None:
            columns[name] = column_of(table, column, name.strip("_"))
    if parts.exclude:
        columns[OUT] = reduce(or_, (table[f"{OUT}_{i}"] for i in range(len(parts.exclude))))
    return columns


def _facts(
    columns: Mapping[str, ir.Column], table: ir.Table, engine: Engine, *, by_gaps: bool
) -> dict[str, Any]:
    """What must be known of all impressions before they can be read.

    Args:
        columns: the parts of impressions.
        table: where they are.
        engine: where it lives.
        by_gaps: whether lists are known by gaps between times, so that one without has none.
    """
    needed = [columns[name] for name in columns if name in (PLACE, ITEM) or name.startswith(KEY)]
    missing = reduce(or_, (column.isnull() for column in needed))
    asked = {
        "rows": table.count(),
        "missing": count_of(missing),
        "first": columns[PLACE].min(),
        "last": columns[PLACE].max(),
    }
    if by_gaps and TIME in columns:
        asked["untimed"] = count_of(~missing & columns[TIME].isnull())
    if _PAGE in columns:
        asked["first_page"] = columns[_PAGE].min()
    if OUT in columns:
        asked["excluded"] = count_of(columns[OUT])
    if TIME in columns and columns[TIME].type().is_numeric():
        asked["latest"] = columns[TIME].max()
    return engine.rows(table.aggregate(**asked))[0]


def _from_one(
    columns: Mapping[str, Any], facts: Mapping[str, Any], parts: Parts, entries: Entries
) -> ir.IntegerColumn:
    """Places that count from 1, over all pages of a search."""
    first, last = facts["first"], facts["last"]
    place = columns[PLACE].cast("int64")
    if first is not None and first not in (0, 1):
        entries.note(f"The lowest position is {first}: positions above were never logged.")
    if first == 0:
        place = place + 1
        if parts.position is not None:
            entries.note("Positions count from 0 in the source; in the log they count from 1.")
    if _PAGE not in columns:
        return place
    size = parts.page_size or (last or 0) + (first == 0)
    entries.note(f"Pages have {size} positions; those of one list are put together.")
    return place + (columns[_PAGE].cast("int64") - facts["first_page"]) * size


def _by_time(shown: Shown, together: int | None) -> Shown:
    """Lists that are known by when they were shown.

    Rows of one moment are a list. With `together`, rows that follow within so many microseconds and
    stand further down belong to it as well: pages, and lists that are logged while a user scrolls.
    """
    lists = (*shown.keys, START)
    if together is None:
        return replace(shown, table=shown.table.mutate(**{START: shown.table[TIME]}), lists=lists)
    key = [*shown.keys, TIME]
    parts = shown.table.group_by(key).aggregate(
        top=shown.table[PLACE].min(), end=shown.table[PLACE].max()
    )
    window = ibis.window(group_by=list(shown.keys), order_by=TIME)
    before = parts.mutate(then=parts[TIME].lag().over(window), deep=parts["end"].lag().over(window))
    fresh = (
        before["then"].isnull()
        | (before[TIME] - before["then"] > together)
        | (before["top"] <= before["deep"])
    )
    opened = before.mutate(opened=fresh.ifelse(before[TIME], ibis.null("int64")))
    running = ibis.cumulative_window(group_by=list(shown.keys), order_by=TIME)
    starts = opened.mutate(**{START: opened["opened"].max().over(running)}).select(*key, START)
    renamed = starts.rename({f"{name}_list": name for name in key})
    joined = shown.table.inner_join(
        renamed, [shown.table[name] == renamed[f"{name}_list"] for name in key]
    )
    return replace(shown, table=joined.select(*shown.table.columns, START), lists=lists)


def cleaned(shown: Shown, engine: Engine, entries: Entries) -> tuple[Shown, ir.Table]:
    """Each item of a list once, at its first place, and one item a place; and those left out."""
    rows = shown.table
    own = [*shown.lists, *shown.listed, ITEM]
    rest = {
        name: rows[name].min()
        for name in rows.columns
        if name not in own and name not in (PLACE, OUT)
    }
    if OUT in rows.columns:
        rest[OUT] = rows[OUT].any()
    once = rows.group_by(own).aggregate(
        **rest,
        **{
            PLACE: rows[PLACE].min(),
            _ROWS: rows.count(),
            _PLACES: rows[PLACE].nunique(),
        },
    )
    order = [once[TIME], once[ITEM]] if shown.timed else [once[ITEM]]
    lists = ibis.window(group_by=[*shown.lists, *shown.listed, PLACE], order_by=order)
    turns = engine.held(once.mutate(**{_TURN: ibis.row_number().over(lists)}), "shown")
    found = engine.rows(
        turns.aggregate(
            again=total(turns[_ROWS] - turns[_PLACES]),
            twice=total(turns[_PLACES] - 1),
            taken=count_of(turns[_TURN] > 0),
        )
    )[0]
    entries.odd("repeated impressions", found["again"], "counted once")
    entries.odd("further places of an item in a list", found["twice"], "left empty")
    entries.odd("impressions at a place that another item has", found["taken"], "left out")
    kept = turns.filter(turns[_TURN] == 0).select(*rows.columns)
    return replace(shown, table=kept), turns.filter(turns[_TURN] > 0)
