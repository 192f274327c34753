"""Logs: from a user's table to valid, compressed rows, in one pass, in the log's own engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from foreclick.engines import Engine, TableLike, filter_by, open_source, total, unchanged
from foreclick.errors import EngineError, InvalidLogError, SourceError
from foreclick.logs.columns import NO_ROWS, check_columns, explained, with_segments
from foreclick.logs.layouts import (
    FLAGS,
    LENGTH,
    WEIGHT,
    Columns,
    Roles,
    expanded,
    key_of,
    lay_out,
    rewards_of,
    shape_of,
    some_rows,
)
from foreclick.logs.masks import mask_of, maskable, packed, spread
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
from foreclick.logs.times import in_a_second
from foreclick.logs.validate import (
    BAD_WEIGHT,
    ROWS,
    any_of,
    check,
    complain,
    not_a_reward,
    rules,
    valid,
)
from foreclick.options import Number, checked, column, names
from foreclick.results.formats import printable
from foreclick.words import number_of

DEEPEST = 100
"""Positions of a list that are read at most."""

_SOME, _ALL = "some rows", "all rows"

__all__ = [
    "BUCKET",
    "CONTEXT",
    "DEEPEST",
    "ITEM",
    "PERIOD",
    "PROPENSITY",
    "Log",
    "N",
    "Roles",
    "Shape",
    "compress",
    "in_a_second",
    "key_of",
    "numbered",
    "numbered_all",
    "packed",
    "read_log",
    "rewards_of",
    "spread",
]


@dataclass(frozen=True, repr=False)
class Log:
    """A click log that was read, checked and compressed; the raw rows stay where they are.

    Attributes:
        engine: where `stored` lives: the log's own engine, or DuckDB in this process if nothing
            may be created there.
        shape: what the columns of `stored` are.
        stored: the compressed rows, one per distinct (context, …, list, rewards), with the count
            `n`: an Ibis table in the log's engine. Rewards that are 0 or 1 are masks (see `Shape`).
        rows: how many valid raw rows `stored` stands for.
        dropped: how many rows were left out, by cause (`invalid="drop"`).
        dropped_rows: how many rows were left out; a row with two causes counts once.
        raw: the source's own rows, after `where`, unexecuted.
        source: the engine where the log lives.
        roles: which column of `raw` plays which part.
        inflation: for how many records a row was kept; 1 unless the log is down-sampled.
        ledger: what the log was made of, if that was a table of events (`from_events`).
        kept: what was computed of the log and is needed again, such as its tally.
    """

    engine: Engine
    shape: Shape
    stored: ir.Table
    rows: int
    dropped: dict[str, int]
    dropped_rows: int
    raw: ir.Table
    source: Engine
    roles: Roles
    inflation: float = 1.0
    ledger: Any = field(default=None, compare=False)
    kept: dict[str, Any] = field(default_factory=dict, compare=False, init=False)

    def __reduce__(self) -> str:
        """A log stays in its engine."""
        raise TypeError(
            "a Log lives in its engine and cannot be pickled. Pickle its tally, fc.tally(log): it "
            "answers everything that the log would."
        )

    @cached_property
    def table(self) -> ir.Table:
        """The compressed rows with one column a position of every reward."""
        return spread(self.stored, self.shape).select(self.shape.columns)

    def __repr__(self) -> str:
        s = self.shape
        extras = [n for n, there in (("period", s.period), ("unit", s.unit)) if there]
        extras += [
            *map(printable, s.segments),
            *([f"{s.propensity} propensity"] if s.propensity else []),
        ]
        return (
            f"<Log: {number_of(self.rows, 'record')} of up to {number_of(s.depth, 'item')} in "
            f"{self.source.name}; "
            f"rewards: {', '.join(map(printable, s.rewards)) or 'none'}"
            + (f"; with {', '.join(extras)}" if extras else "")
            + (f"; {number_of(self.dropped_rows, 'invalid row')} dropped" * bool(self.dropped_rows))
            + ">"
        )


_DEPTH = Number(
    f"how many positions to read, a whole number from 1 to {DEEPEST}",
    lambda v: 1 <= v <= DEEPEST,
    "10",
    optional=True,
    whole=True,
)
_ONE = ("context", "clicked_ids", "period", "unit", "weight", "count", "position", "item", "click")
_SEVERAL = ("items", "clicks", "propensity", "segments", "list_id")


@checked(depth=_DEPTH, **dict.fromkeys(_ONE, column), **dict.fromkeys(_SEVERAL, names))
def read_log(
    source: TableLike,
    *,
    context: str | None = "context",
    items: Columns | None = "items",
    clicks: Columns | None = "clicks",
    clicked_ids: str | None = None,
    period: str | None = None,
    unit: str | None = None,
    propensity: Columns | None = None,
    segments: str | Sequence[str] | Mapping[str, str] = (),
    weight: str | None = None,
    count: str | None = None,
    rewards: Mapping[str, Columns] | None = None,
    where: Any = None,  # noqa: ANN401 - SQL text or a function of the table
    invalid: Literal["error", "drop"] = "error",
    depth: int | None = None,
    layout: Literal["lists", "long"] = "lists",
    list_id: str | None = None,
    position: str | None = None,
    item: str | None = None,
    click: str | None = None,
    engine: Any = None,  # noqa: ANN401 - an Ibis connection
    read_only: bool = False,
) -> Log:
    """Read a click log where it lives, check it, and compress it in one pass.

    Args:
        source: a path or glob (Parquet, CSV, JSON), a pandas or Polars frame, an Arrow table, a
            DuckDB relation, a Spark DataFrame, or an Ibis table of any backend.
        context: the column of the query (or page, or user group); None: one context for all.
        items: the column with the list of shown items, or a list of columns, one per position.
        clicks: the column with a list of clicks (0/1 or graded), or a list of columns; None for
            a log without clicks, for instance of what a candidate *would* have shown.
        clicked_ids: instead of `clicks`, the column with a list of the items that were clicked.
        period: the column of the day or week; a timestamp counts as its day.
        unit: the column of the user or session. Kept as one of 30 buckets.
        propensity: the probability of the shown list (a number) or of each slot (a list).
        segments: columns that results can be split by; or names with their columns.
        weight: of a down-sampled log, for how many records a row was kept: 10 where one in ten
            was. Intervals rest on the rows that were seen.
        count: of a log that was counted before, how many equal records a row stands for. Intervals
            rest on all of them.
        rewards: further rewards by name, such as ``{"orders": "orders"}``: metric ``orders@3``.
        where: a filter: SQL such as ``"country = 'NL'"`` or ``lambda t: t.country == "NL"``.
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
        read_only: create nothing where the log lives, for accounts that may only SELECT. The tally
            is then one SELECT, fetched in batches and kept here. Only Spark and PostgreSQL would
            otherwise hold it, in temporary views and tables. It stays so for other tables of the
            same connection, such as a candidate's.

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
    if weight is not None and count is not None:
        raise SourceError(
            f"weight={weight!r} and count={count!r}: a row stands for others that were not kept "
            "(weight), or for equal ones (count). Give one of them."
        )
    long = layout == "long"
    if clicked_ids is not None:
        if long:
            raise SourceError("clicked_ids= is for one row a list; in a long log name click=.")
        clicks = clicked_ids
    elif long and clicks is not None:
        clicks = click or "click"
    roles = Roles(
        context=context,
        items=None if long else items,
        rewards=rewards_of(clicks, rewards),
        clicked=clicked_ids is not None,
        period=period,
        unit=unit,
        propensity=propensity,
        segments=(segments,) if isinstance(segments, str) else tuple(segments),
        weight=weight if count is None else count,
        drawn=weight is not None,
        list_id=(list_id or "list_id") if long else None,
        position=(position or "position") if long else None,
        item=(item or "item") if long else None,
    )
    home, table = open_source(source, engine, read_only=read_only)
    table = with_segments(filter_by(table, where), segments)
    roles = expanded(roles, table)
    with unchanged(source):
        return compress(table, roles, home, invalid, depth)


def compress(
    raw: ir.Table,
    roles: Roles,
    engine: Engine,
    invalid: Literal["error", "drop", "refuse"] = "error",
    depth: int | None = None,
    masks: tuple[str, ...] | None = None,
) -> Log:
    """Group the raw rows by everything that matters, and check the groups.

    `invalid` is as in `read_log`; "refuse" is an error that does not offer to drop rows, for
    tables that are no logs. `masks` names the rewards that are 0 or 1, where that is known.
    """
    try:
        shape, table = _Pass(raw, roles, engine, depth, masks).rows()
    except (SourceError, EngineError) as error:
        raise explained(error, raw, roles, engine) from error
    home = engine.workplace
    rows, causes, invalid_rows = check(table, shape, roles.weight, home)
    if not rows:
        raise InvalidLogError(NO_ROWS)
    if causes:
        broken = rules(table, shape, roles.weight)
        if invalid != "drop":
            raise complain(
                table, shape, broken, causes, invalid_rows, home, droppable=invalid == "error"
            )
        if invalid_rows == rows:
            raise InvalidLogError(
                f"nothing is left after invalid='drop': {number_of(rows, 'row')}, and none keeps "
                f"the rules of a log. Causes: {causes}."
            )
        table = valid(table, broken)
    shape, table = _packed_after_all(shape, table, home)
    return Log(
        engine=home,
        shape=shape,
        stored=table if list(table.columns) == shape.stored else table.select(shape.stored),
        rows=rows - invalid_rows,
        dropped=causes,
        dropped_rows=invalid_rows,
        raw=raw,
        source=engine,
        roles=roles,
        inflation=_inflation(raw, roles.weight, engine) if roles.drawn and roles.weight else 1.0,
    )


def _inflation(raw: ir.Table, weight: str, engine: Engine) -> float:
    """Σ w² / Σ w: for how many records a row was kept, on average over the records.

    n records with weights say as much as n / inflation rows would, all kept alike (Kish, 1965).
    """
    found = engine.ask(_moments, raw, weight).to_pylist()[0]
    return float(found["squares"] / found["n"])


def _moments(_: Engine, raw: ir.Table, weight: str) -> ir.Table:
    w = raw[weight].cast("float64")
    used = raw.filter(~not_a_reward(w) & w.notnull())
    w = used[weight].cast("float64")
    return used.aggregate(n=w.sum(), squares=(w * w).sum())


class _Pass:
    """The one group-by over the raw log.

    How long the longest list is, and whether rewards are 0 or 1 everywhere, is only known after the
    pass. A guess from some rows is nearly always right; if it was not, the pass is made again.
    """

    def __init__(
        self,
        raw: ir.Table,
        roles: Roles,
        engine: Engine,
        depth: int | None,
        masks: tuple[str, ...] | None,
    ) -> None:
        check_columns(raw, roles)
        self.raw, self.roles, self.engine, self.depth = raw, roles, engine, depth
        self.masks = masks
        self.home = engine.workplace  # where the groups are

    def rows(self) -> tuple[Shape, ir.Table]:
        """The shape and the groups of the raw rows."""
        guess = self.depth or self._longest(_SOME)
        masked = self._with_masks(guess) if self.roles.rewards else None
        shape, table = masked or self._with_columns(guess)
        keys = {name: key_of(table[name], name) for name in (CONTEXT, *shape.items)}
        wider = {name: key for name, key in keys.items() if key.type() != table[name].type()}
        return shape, table.mutate(**wider) if wider else table

    def _with_masks(self, depth: int) -> tuple[Shape, ir.Table] | None:
        """Group by masks; None if some row has rewards that do not fit in one."""
        masks = self._guess_masks(depth)
        while masks:
            shape = replace(shape_of(self.raw, self.roles, depth), masks=masks)
            table = self.engine.make("log", _by_masks, self.raw, self.roles, shape, self.depth)
            if not self.home.ask(_any_null, table, masks)["found"][0].as_py():
                return shape, table
            longest = depth if self.depth else self._longest(_ALL)
            if longest == depth:
                return None
            depth, masks = longest, self._guess_masks(longest)
        return None

    def _guess_masks(self, depth: int) -> tuple[str, ...]:
        """Rewards that are 0 or 1 in some rows, and thus probably in all."""
        names = maskable(shape_of(self.raw, self.roles, depth))
        if self.masks is not None:
            return tuple(name for name in names if name in self.masks)
        if not names:
            return ()
        answer = self.engine.ask(_guessed_odd, self.raw, self.roles, depth).to_pylist()[0]
        return tuple(name for name in names if not answer[name])

    def _with_columns(self, depth: int) -> tuple[Shape, ir.Table]:
        """Group by one column a position of every reward."""
        while True:
            shape = shape_of(self.raw, self.roles, depth)
            table = self.engine.make("log", _by_columns, self.raw, self.roles, shape)
            found = self.depth or _readable(self.home.ask(_longest_of, table))
            if found <= depth:
                return shape, table
            depth = found

    def _longest(self, rows: str) -> int:
        return _readable(self.engine.ask(_longest_list, self.raw, self.roles, rows))


# Statements, see `engines.statements`.


def _longest_list(engine: Engine, raw: ir.Table, roles: Roles, rows: str) -> ir.Table:
    """The length of the longest list, of some rows or of all."""
    table = some_rows(raw, roles) if rows == _SOME else raw
    return _longest_of(engine, lay_out(table, roles, engine).lengths)


def _longest_of(_: Engine, lengths: ir.Table) -> ir.Table:
    return lengths.aggregate(length=lengths[LENGTH].max())


def _guessed_odd(engine: Engine, raw: ir.Table, roles: Roles, depth: int) -> ir.Table:
    """Which rewards do not fit in masks, in some rows."""
    shape = shape_of(raw, roles, depth)
    return _odd(engine, lay_out(some_rows(raw, roles), roles, engine).records(depth, ()), shape)


def _odd(_: Engine, records: ir.Table, shape: Shape) -> ir.Table:
    """Which rewards do not fit in masks, of those that are none yet."""
    names = [name for name in maskable(shape) if name not in shape.masks]
    odd = {name: mask_of(records, shape, name).isnull().any() for name in names}
    return records.aggregate(**odd)


def _by_masks(
    engine: Engine, raw: ir.Table, roles: Roles, shape: Shape, depth: int | None
) -> ir.Table:
    """Groups with masks, which are NULL where a mask cannot tell, or a list is longer."""
    records = lay_out(raw, roles, engine).records(shape.depth, shape.masks)
    masked = packed(records, shape)
    if depth is None:
        longer = masked[LENGTH] > shape.depth
        masks = {name: longer.ifelse(ibis.null("int64"), masked[name]) for name in shape.masks}
        masked = masked.mutate(**masks)
    return _grouped(masked, shape.order)


def _any_null(_: Engine, table: ir.Table, columns: tuple[str, ...]) -> ir.Table:
    return table.aggregate(found=any_of(table[column].isnull() for column in columns).any())


def _by_columns(engine: Engine, raw: ir.Table, roles: Roles, shape: Shape) -> ir.Table:
    """Groups with one column a position of every reward."""
    records = lay_out(raw, roles, engine).records(shape.depth, ())
    return _grouped(records, shape.order, **{LENGTH: records[LENGTH].max()})


def _grouped(records: ir.Table, keys: list[str], **further: ir.Scalar) -> ir.Table:
    """Count the records by their keys."""
    keys = [*keys, *(flag for flag in FLAGS if flag in records.columns)]
    if WEIGHT not in records.columns:
        return records.group_by(keys).aggregate(**further, **{N: records.count()})
    weight = records[WEIGHT]
    wrong = (weight.isnull() | not_a_reward(weight) | (weight == 0)).fill_null(True)
    usable = wrong.ifelse(ibis.null(weight.type()), weight)
    judged = records.mutate(**{BAD_WEIGHT: wrong, WEIGHT: usable})
    return judged.group_by([*keys, BAD_WEIGHT]).aggregate(
        **further, **{N: total(judged[WEIGHT]), ROWS: judged.count()}
    )


def _packed_after_all(shape: Shape, table: ir.Table, engine: Engine) -> tuple[Shape, ir.Table]:
    """Pack rewards that are 0 or 1 in all rows that are left.

    Whether a reward has a mask must not depend on which rows an engine happened to show for the
    first guess, nor on rows that were dropped.
    """
    names = [name for name in maskable(shape) if name not in shape.masks]
    if not names:
        return shape, table
    answer = engine.ask(_odd, table, shape).to_pylist()[0]
    late = tuple(name for name in names if not answer[name])
    wide = replace(shape, masks=late)
    kept = tuple(name for name in shape.rewards if name in (*shape.masks, *late))
    return replace(shape, masks=kept), packed(table, wide)


def _readable(found: pa.Table) -> int:
    """The length of the longest list, unless that is too much."""
    longest = max(int(found[LENGTH][0].as_py() or 1), 1)
    if longest > DEEPEST:
        raise InvalidLogError(
            f"the longest list has {longest:,} positions; foreclick reads {DEEPEST} at most. Say "
            "how many of them matter, for instance depth=20; deeper ones are then left out."
        )
    return longest
