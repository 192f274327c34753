"""Logs: from a user's table to valid, compressed rows, in one pass, in the log's own engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import ibis
import ibis.expr.types as ir

from foreclick.engines import Engine, filter_by, open_source, total
from foreclick.errors import InvalidLogError, SourceError
from foreclick.logs.layouts import (
    LENGTH,
    REPEATED,
    WEIGHT,
    Columns,
    Layout,
    Roles,
    key_of,
    lay_out,
    period_of,
    rewards_of,
)
from foreclick.logs.shape import (
    BUCKET,
    CONTEXT,
    ITEM,
    PERIOD,
    PROPENSITY,
    N,
    Shape,
    numbered,
    numbered_all,
)
from foreclick.logs.validate import BAD_WEIGHT, ROWS, check, complain, not_a_reward, rules, valid

DEEPEST = 100
"""Positions of a list that are read at most."""

__all__ = [
    "BUCKET",
    "CONTEXT",
    "ITEM",
    "PERIOD",
    "PROPENSITY",
    "Log",
    "N",
    "Roles",
    "Shape",
    "compress",
    "key_of",
    "numbered",
    "numbered_all",
    "period_of",
    "read_log",
]


@dataclass(frozen=True, repr=False)
class Log:
    """A click log that was read, checked and compressed; the raw rows stay where they are.

    Attributes:
        engine: where the log lives.
        shape: what the columns of `table` are.
        table: the compressed rows, one per distinct (context, …, list, rewards), with the count
            `n`: an Ibis table in the log's engine.
        rows: how many valid raw rows `table` stands for.
        dropped: how many rows were left out, by cause (`invalid="drop"`).
        dropped_rows: how many rows were left out; a row with two causes counts once.
        raw: the source's own rows, after `where`, unexecuted.
        roles: which column of `raw` plays which part.
    """

    engine: Engine
    shape: Shape
    table: ir.Table
    rows: int
    dropped: dict[str, int]
    dropped_rows: int
    raw: ir.Table
    roles: Roles

    def __repr__(self) -> str:
        s = self.shape
        extras = [n for n, there in (("period", s.period), ("unit", s.unit)) if there]
        extras += [*s.segments, *([f"{s.propensity} propensity"] if s.propensity else [])]
        return (
            f"<Log: {self.rows:,} records of up to {s.depth} items in {self.engine.name}; "
            f"rewards: {', '.join(s.rewards) or 'none'}"
            + (f"; with {', '.join(extras)}" if extras else "")
            + (f"; {self.dropped_rows:,} invalid rows dropped" if self.dropped_rows else "")
            + ">"
        )


def read_log(  # noqa: PLR0913 - column roles are keywords, everywhere the same
    source: Any,  # noqa: ANN401 - see the list in the docstring
    *,
    context: str | None = "context",
    items: Columns | None = "items",
    clicks: Columns | None = "clicks",
    period: str | None = None,
    unit: str | None = None,
    propensity: Columns | None = None,
    segments: str | Sequence[str] = (),
    weight: str | None = None,
    rewards: Mapping[str, Columns] | None = None,
    where: Any = None,  # noqa: ANN401 - SQL text or a function of the table
    sample: float | None = None,
    sample_by: Literal["context", "unit"] = "context",
    invalid: Literal["error", "drop"] = "error",
    depth: int | None = None,
    layout: Literal["lists", "long"] = "lists",
    list_id: str | None = None,
    position: str | None = None,
    item: str | None = None,
    click: str | None = None,
    engine: Any = None,  # noqa: ANN401 - an Ibis connection
) -> Log:
    """Read a click log where it lives, check it, and compress it in one pass.

    Args:
        source: a path or glob (Parquet, CSV, JSON), a pandas or Polars frame, an Arrow table, a
            DuckDB relation, a Spark DataFrame, or an Ibis table of any backend.
        context: the column of the query (or page, or user group); None: one context for all.
        items: the column with the list of shown items, or a list of columns, one per position.
        clicks: the column with a list of clicks (0/1 or graded), or a list of columns; None for
            a log without clicks, for instance of what a candidate *would* have shown.
        period: the column of the day or week; a timestamp counts as its day.
        unit: the column of the user or session. Kept as one of 30 buckets.
        propensity: the probability of the shown list (a number) or of each slot (a list).
        segments: columns that results can be split by.
        weight: how many records a row stands for (pre-aggregated or down-sampled logs).
        rewards: further rewards by name, such as ``{"orders": "orders"}``: metric ``orders@3``.
        where: a filter: SQL such as ``"country = 'NL'"`` or ``lambda t: t.country == "NL"``.
        sample: the share of the log to read, for a first look at a huge one: the same records on
            every engine, and all of a smaller share in a larger one.
        sample_by: whether contexts are drawn, each with all its records, or units; the intervals
            know what was left out.
        invalid: "error" lists every problem with its count, an example and the remedy; "drop"
            leaves such rows out and counts them by cause in `Log.dropped`.
        depth: how many positions to read; by default as many as the longest list has.
        layout: "lists", or "long" for one row an impression, with `list_id`, `position` (from 1,
            gaps allowed), `item` and `click` instead of `items` and `clicks`.
        list_id: see `layout`.
        position: see `layout`.
        item: see `layout`.
        click: see `layout`.
        engine: the Ibis connection to open paths and frames in; by default DuckDB in this process.

    Raises:
        InvalidLogError: rows break the rules of a log, or there are none.
        SourceError: the source or a column cannot be read.

    Examples:
        >>> log = read_log(
        ...     {"context": ["q", "q"], "items": [[1, 2], [2, 1]], "clicks": [[1, 0], [0, 0]]}
        ... )
        >>> log
        <Log: 2 records of up to 2 items in duckdb; rewards: clicks>
    """
    if layout not in ("lists", "long") or invalid not in ("error", "drop"):
        raise SourceError(
            f"layout={layout!r}, invalid={invalid!r}: layout is 'lists' or 'long', and invalid "
            "is 'error' or 'drop'."
        )
    if depth is not None and (type(depth) is not int or not 1 <= depth <= DEEPEST):
        raise SourceError(f"depth={depth!r}: the number of positions is from 1 to {DEEPEST}.")
    long = layout == "long"
    roles = Roles(
        context=context,
        items=None if long else items,
        rewards=rewards_of((click or "click") if long and clicks is not None else clicks, rewards),
        period=period,
        unit=unit,
        propensity=propensity,
        segments=(segments,) if isinstance(segments, str) else tuple(segments),
        weight=weight,
        list_id=(list_id or "list_id") if long else None,
        position=(position or "position") if long else None,
        item=(item or "item") if long else None,
    )
    home, table = open_source(source, engine)
    table = filter_by(table, where)
    if sample is None:
        return compress(table, roles, home, invalid, depth)
    column = _drawn_by(table, roles, sample, sample_by)
    log = compress(table.filter(home.drawn(column, sample)), roles, home, invalid, depth)
    return replace(log, shape=replace(log.shape, sample=(sample_by, float(sample))))


def _drawn_by(table: ir.Table, roles: Roles, share: float, by: str) -> ir.Column:
    """The column that a sample is drawn by."""
    if by not in ("context", "unit") or not 0 < share < 1:
        raise SourceError(
            f"sample={share!r}, sample_by={by!r}: give a share between 0 and 1, of the log's "
            "'context's or 'unit's."
        )
    column = roles.context if by == "context" else roles.unit
    if column is None:
        raise SourceError(
            f"sample_by={by!r}, but the log has no {by}. Name its column, {by}='…', or sample by "
            f"{'unit' if by == 'context' else 'context'}."
        )
    if column not in table.columns:
        raise SourceError(f"{by}={column!r} is not among {', '.join(table.columns)}.")
    return table[column]


def compress(
    raw: ir.Table,
    roles: Roles,
    engine: Engine,
    invalid: Literal["error", "drop", "refuse"] = "error",
    depth: int | None = None,
) -> Log:
    """Group the raw rows by everything that matters, and check the groups.

    `invalid` is as in `read_log`; "refuse" is an error that does not offer to drop rows, for
    tables that are no logs.
    """
    layout = lay_out(raw, roles, engine)
    if depth is None:
        shown, table = _fathom(layout, engine)
    else:
        shown, table = depth, engine.materialise(_grouped(layout, depth), "log")
    shape = layout.shape(shown)
    broken = rules(table, shape, roles.weight)
    rows, causes, invalid_rows = check(table, broken, engine)
    if not rows:
        raise InvalidLogError(
            "the log has no rows. Check the path, the filter in where=, and that the day you "
            "asked for was logged."
        )
    if causes:
        if invalid != "drop":
            raise complain(
                table, shape, broken, causes, invalid_rows, engine, droppable=invalid == "error"
            )
        if invalid_rows == rows:
            raise InvalidLogError(
                f"all {rows:,} rows break the rules of a log; nothing is left after "
                f"invalid='drop'. Causes: {causes}."
            )
        table = valid(table, broken)
    return Log(
        engine=engine,
        shape=shape,
        table=table.select(shape.columns),
        rows=rows - invalid_rows,
        dropped=causes,
        dropped_rows=invalid_rows,
        raw=raw,
        roles=roles,
    )


def _fathom(layout: Layout, engine: Engine) -> tuple[int, ir.Table]:
    """Group with as many positions as the longest list has.

    How many that are is only known after the pass. A guess from some rows is nearly always right,
    and if it was not, the pass is made again with the length that was found.
    """
    depth = _longest(engine, layout.probe)
    while True:
        table = engine.materialise(_grouped(layout, depth), "log")
        longest = _longest(engine, table)
        if longest <= depth:
            return depth, table
        depth = longest


def _grouped(layout: Layout, depth: int) -> ir.Table:
    """The one group-by over the raw log."""
    records = layout.records(depth)
    keys = [*layout.shape(depth).keys, *([REPEATED] if REPEATED in records.columns else [])]
    longest = {LENGTH: records[LENGTH].max()}
    if WEIGHT not in records.columns:
        return records.group_by(keys).aggregate(**longest, **{N: records.count()})
    weight = records[WEIGHT]
    wrong = (weight.isnull() | not_a_reward(weight) | (weight == 0)).fill_null(True)
    usable = wrong.ifelse(ibis.null(weight.type()), weight)
    judged = records.mutate(**{BAD_WEIGHT: wrong, WEIGHT: usable})
    return judged.group_by([*keys, BAD_WEIGHT]).aggregate(
        **longest, **{N: total(judged[WEIGHT]), ROWS: judged.count()}
    )


def _longest(engine: Engine, lengths: ir.Table) -> int:
    found = engine.rows(lengths.aggregate(length=lengths[LENGTH].max()))[0]["length"]
    longest = max(int(found or 1), 1)
    if longest > DEEPEST:
        raise InvalidLogError(
            f"the longest list has {longest:,} positions; foreclick reads {DEEPEST} at most. Say "
            "how many of them matter, for instance depth=20; deeper ones are then left out."
        )
    return longest
