"""Which columns a log needs, and what was meant where they are not there or cannot be read."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from foreclick.engines import Table
from foreclick.engines.duckdb import READER
from foreclick.engines.kinds import LIST, TEXT, is_numeric, kind_of
from foreclick.errors import EngineError, ForeclickError, InvalidLogError, SourceError
from foreclick.logs.roles import BY_IDS, Roles, top_of
from foreclick.logs.shape import BUCKET, CONTEXT, ITEM, PERIOD, PROPENSITY
from foreclick.logs.text import BAD_WEIGHT, LENGTH, REPEATED, WEIGHT
from foreclick.metrics import CLICKS
from foreclick.words import nearest, no_column, number_of, plural

_RESULTS = """n rows position slot records items estimator metric clip value se low high
    borrowed margin production change change_low change_high lift lift_low lift_high covered clipped
    ess contexts missing_contexts dropped verdict cells seen largest lowest highest out_of_sight
    out_share cell share exposure examination"""
_TAKEN = {CONTEXT, PERIOD, BUCKET, ITEM, PROPENSITY, WEIGHT, LENGTH, REPEATED, BAD_WEIGHT}
_TAKEN |= set(_RESULTS.split())
"""Names that tallies and results have beside the segments and rewards."""

_LOOK = 1_000  # rows, for an example of what is wrong
_CALLED = {
    CONTEXT: ("query", "query_id", "qid", "search", "keyword", "page"),
    "items": ("ranking", "list", "results", "documents", "docs", "products", "item_ids"),
    CLICKS: ("click", "clicked", "labels"),
    ITEM: ("item", "doc", "document", "doc_id", "product", "item_id"),
    "position": ("position", "rank", "pos", "slot"),
    "list_id": ("list_id", "request", "request_id", "impression_id", "session"),
}
"""What the columns of these roles are often called."""


def check_columns(table: Table, roles: Roles) -> None:
    """Refuse roles whose columns are not there, or whose names a tally needs itself."""
    missing = [
        (role, c) for role, c in roles.named() if top_of(c, table.kinds) not in table.columns
    ]
    if missing:
        raise SourceError(_missing(table, roles, missing))
    numbers = (ITEM, PROPENSITY, *roles.rewards)
    for name in (*roles.segments, *roles.rewards):
        lower = name.lower()  # engines do not tell upper from lower case
        stem, _, last = lower.rpartition("_")
        if lower in _TAKEN or lower.startswith("__") or (stem in numbers and last.isdigit()):
            option = "segments" if name in roles.segments else "rewards"
            raise SourceError(
                f"a segment or reward cannot be called {name!r}, a name that tallies and results "
                f"use themselves. Give it another: {option}={{'my_{name}': {name!r}}}."
            )


def _missing(table: Table, roles: Roles, missing: list[tuple[str, str]]) -> str:
    """Which columns are not there, and what was probably meant."""
    wanted = ", ".join(f"{role}={column!r}" for role, column in missing)
    said = (
        f"{number_of(len(missing), 'named column')} {plural(len(missing), 'is', 'are')} not in the "
        f"source: {wanted}. It has the columns {', '.join(table.columns)}."
    )
    without_lists = not any(kind_of(field.type) == LIST for field in table.kinds)
    if roles.layout != "long" and "items" in dict(missing) and _is_long(table) and without_lists:
        return (
            f"{said} It looks like one row per result: name the columns of its list and its "
            "position, long=('list_id', 'position'), and of its item and click, items= and clicks=."
        )
    used = {column for role, column in roles.named() if (role, column) not in missing}
    free = [name for name in table.columns if name not in used]
    found, meant = [], list(roles.long)
    for role, column in missing:  # by a name like it, or one that is usual for its role
        called = ITEM if role == "items" and roles.long else role
        if role == "long":
            called = "position" if column == roles.long[-1] else "list_id"
        usual = [name for name in free if name.lower() in _CALLED.get(called, ())]
        name = nearest(column, free) or next(iter(usual), None)
        if name and role == "long":
            meant[meant.index(column)] = name
        elif name:
            found.append(f"{role}={name!r}")
    if meant != list(roles.long):
        found.insert(0, f"long={tuple(meant)!r}")
    if found:
        return f"{said} Did you mean {', '.join(found)}?"
    return f"{said} Say which one is meant, {missing[0][0]}='…'."


def _is_long(table: Table) -> bool:
    """Whether a table seems to have a row per impression: it has positions."""
    return any(name.lower() in _CALLED["position"] for name in table.columns)


def with_lists(table: Table, roles: Roles) -> Table:
    """Lists of one item each, which a CSV file has as numbers, are text, as longer ones are."""
    written = (table.kinds.metadata or {}).get(READER) == b"read_csv"
    if not written or roles.layout != "array" or _is_long(table):
        return table
    say = table.engine.say
    for name in (roles.items, *roles.rewards.values()):
        if name in table.columns and is_numeric(table.kinds.field(name).type):
            table = table.with_column(str(name), say.cast(say.column(str(name)), TEXT), pa.string())
    return table


def with_segments(table: Table, segments: object) -> Table:
    """The table with segments that have other names than their columns."""
    if not isinstance(segments, Mapping):
        return table
    for name, column in segments.items():
        if column not in table.columns:
            raise SourceError(no_column("segments", column, table.columns))
        if name in table.columns and name != column:
            raise SourceError(
                f"segments={{{name!r}: {column!r}}}: the source has another column {name!r}. Give "
                "the segment a name of its own."
            )
        if name != column:
            value = table.engine.say.column(column)
            table = table.with_column(name, value, table.kinds.field(column).type)
    return table


NO_ROWS = (
    "the log has no rows. Check the path, the filter in where=, and that the day you asked for was "
    "logged."
)


def explained(error: ForeclickError, raw: Table, roles: Roles) -> ForeclickError:
    """The error, or a plainer one: no rows at all, or text where numbers should be."""
    if any(column not in raw.columns for _, column in roles.named()):
        return error
    first = raw.engine.rows(raw.query(f"SELECT * FROM {raw.rows} AS s LIMIT {_LOOK}"))
    if not first:
        return InvalidLogError(NO_ROWS)
    for name, columns in roles.rewards.items() if isinstance(error, EngineError) else ():
        for value in (row[columns] for row in first) if isinstance(columns, str) else ():
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, str) and not _is_number(each):
                    ids = f" If it has the ids of clicked items, use {BY_IDS}."
                    return SourceError(
                        f"{name} must be numbers (0/1 or graded), and column {columns!r} has "
                        f"{each!r}.{ids if name == CLICKS else ''}"
                    )
    return error


def _is_number(text: str) -> bool:
    return all(part.replace(".", "", 1).isdigit() for part in text.strip("[] ").split(","))
