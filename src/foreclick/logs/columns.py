"""Which columns a log needs, and what was meant where they are not there or cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from foreclick.engines import Table
from foreclick.engines.duckdb import READER
from foreclick.engines.kinds import LIST, TEXT, is_numeric, kind_of
from foreclick.errors import EngineError, ForeclickError, InvalidLogError, SourceError
from foreclick.logs.roles import Roles, top_of
from foreclick.logs.shape import BUCKET, CONTEXT, ITEM, PERIOD, PROPENSITY
from foreclick.logs.text import FLAGS, LENGTH, WEIGHT
from foreclick.metrics import CLICKS
from foreclick.words import nearest, no_column, number_of, plural

_TAKEN = {
    *(CONTEXT, PERIOD, BUCKET, ITEM, PROPENSITY, WEIGHT, LENGTH, *FLAGS),
    *("n", "rows", "bad_weight", "position", "slot", "records", "items"),
    *("estimator", "metric", "clip", "value", "se", "low", "high", "borrowed", "margin"),
    *(
        "production",
        "change",
        "change_low",
        "change_high",
        "lift",
        "lift_low",
        "lift_high",
        "covered",
    ),
    *("clipped", "ess", "contexts", "missing_contexts", "dropped", "verdict", "cells", "seen"),
    *("largest", "lowest", "highest", "out_of_sight", "out_share", "cell", "share"),
    *("exposure", "examination", "allpairs"),
}
"""Names that tallies and results have beside the segments and rewards."""

_LOOK = 1_000  # rows, for an example of what is wrong
_CALLED = {
    CONTEXT: ("query", "query_id", "qid", "search", "keyword", "page"),
    "items": ("ranking", "list", "results", "documents", "docs", "products", "item_ids"),
    CLICKS: ("click", "clicked", "labels"),
    ITEM: ("doc", "document", "doc_id", "product", "item_id"),
    "position": ("rank", "pos", "slot"),
    "list_id": ("request", "request_id", "impression_id", "session"),
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
    clash = [s for s in (*roles.segments, *roles.rewards) if _taken(s, numbers)]
    if clash:
        option = "segments" if clash[0] in roles.segments else "rewards"
        raise SourceError(
            f"a segment or reward cannot be called {clash[0]!r}, a name that tallies and results "
            f"use themselves. Give it another: {option}={{'my_{clash[0]}': {clash[0]!r}}}."
        )


def _missing(table: Table, roles: Roles, missing: list[tuple[str, str]]) -> str:
    """Which columns are not there, and what was probably meant."""
    wanted = ", ".join(f"{role}={column!r}" for role, column in missing)
    said = (
        f"{number_of(len(missing), 'named column')} {plural(len(missing), 'is', 'are')} not in the "
        f"source: {wanted}. It has the columns {', '.join(table.columns)}."
    )
    if _is_long(table, roles, missing):
        return (
            f"{said} It looks like one row per impression: read it with layout='long', and name "
            "its columns with list_id=, position=, item= and click=."
        )
    used = {column for role, column in roles.named() if (role, column) not in missing}
    free = [name for name in table.columns if name not in used]
    near = {role: _near(role, column, free) for role, column in missing}
    found = [f"{role}={name!r}" for role, name in near.items() if name is not None]
    if found:
        return f"{said} Did you mean {', '.join(found)}?"
    return f"{said} Say which one is meant, {missing[0][0]}='…'."


def _near(role: str, column: str, free: Sequence[str]) -> str | None:
    """A column whose name is like the one that was named, or usual for its role."""
    usual = [name for name in free if name.lower() in _CALLED.get(role, ())]
    return nearest(column, free) or next(iter(usual), None)


def _is_long(table: Table, roles: Roles, missing: list[tuple[str, str]]) -> bool:
    """Whether a table that is read as one of lists has a row per impression."""
    if roles.layout == "long" or "items" not in dict(missing):
        return False
    return _has_positions(table) and not any(kind_of(f.type) == LIST for f in table.kinds)


def _has_positions(table: Table) -> bool:
    return any(name.lower() in ("position", *_CALLED["position"]) for name in table.columns)


def _taken(name: str, numbers: Sequence[str]) -> bool:
    """Whether a column would meet one of ours; engines do not tell upper from lower case."""
    lower = name.lower()
    stem, _, last = lower.rpartition("_")
    return lower in _TAKEN or lower.startswith("__") or (stem in numbers and last.isdigit())


def with_lists(table: Table, roles: Roles) -> Table:
    """Lists of one item each, which a CSV file has as numbers, are text, as longer ones are."""
    written = (table.kinds.metadata or {}).get(READER) == b"read_csv"
    if not written or roles.layout != "array" or _has_positions(table):
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
    if not _first(raw, 1):
        return InvalidLogError(NO_ROWS)
    if isinstance(error, EngineError):
        for name, columns in roles.rewards.items():
            said = None if not isinstance(columns, str) else _no_number(raw, columns)
            if said is not None:
                remedy = f" If it has the ids of what was clicked, say clicked_ids={columns!r}."
                return SourceError(
                    f"{name} must be numbers (0/1 or graded), and column {columns!r} has {said!r}."
                    + (remedy if name == CLICKS else "")
                )
    return error


def _first(table: Table, rows: int) -> list[dict[str, Any]]:
    return table.engine.rows(table.query(f"SELECT * FROM {table.rows} AS s LIMIT {rows}"))


def _no_number(raw: Table, column: str) -> str | None:
    """Text of a column of lists that is no number, if the first rows have any."""
    for row in _first(raw.select(column), _LOOK):
        value = row[column]
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str) and not _is_number(each):
                return each
    return None


def _is_number(text: str) -> bool:
    return all(part.replace(".", "", 1).isdigit() for part in text.strip("[] ").split(","))
