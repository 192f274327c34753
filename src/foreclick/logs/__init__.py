"""Logs: from a user's table to valid, compressed rows, in one pass, in the log's own engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from foreclick.engines import (
    DUCKDB,
    Engine,
    Table,
    TableLike,
    Value,
    default_engine,
    filter_by,
    open_source,
    unchanged,
)
from foreclick.errors import EngineError, InvalidLogError, SourceError
from foreclick.kept import KeptValues
from foreclick.logs.drawing import Drawing, SampleSize, drawing_of, totals_of
from foreclick.logs.project import by_name
from foreclick.logs.roles import (
    BUCKET,
    CONTEXT,
    ITEM,
    NO_ROWS,
    PERIOD,
    PROPENSITY,
    Columns,
    N,
    Roles,
    Shape,
    checked_columns,
    explained,
    mask_of,
    numbered,
    rewards_of,
    segments_of,
    spread,
)
from foreclick.logs.text import Select, has_zone, in_a_second, key_type
from foreclick.logs.validate import any_of, check, invalid_rows_error, refuse_ids, rules
from foreclick.metrics import CLICKS
from foreclick.options import checked
from foreclick.rules import Number
from foreclick.secrets import printable
from foreclick.words import number_of, plural

DEEPEST = 100
"""Positions of a list that are read at most."""


@dataclass(frozen=True, repr=False)
class Log:
    """A click log that was read, checked and compressed; the raw rows stay where they are.

    Made by `read_log`, `from_events` and the readers of `events` and `datasets`.

    Attributes:
        shape: the roles and columns of `stored`.
        stored: the compressed rows, one per distinct (context, …, list, rewards), with the count
            `n`: a table of `engine`. Rewards that are 0 or 1 are masks (see `Shape`).
        rows: the number of valid raw rows that `stored` stands for.
        drawn: how many of them `stored` has, if contexts were drawn.
        dropped: the number of rows that were left out, by cause (`invalid="drop"`).
        dropped_rows: the number of rows that were left out; a row with two causes counts once.
        source_rows: the source's own rows, after `where`, not yet executed.
        roles: which column of `source_rows` has which role.
        notes: what a reader of answers should know about how the log was read.
        ledger: what the log was made of, if that was events (`from_events`); else None.
        called: the event tables' names of the context and the items; a candidate may have them too.
        totals: sums over all records of a log whose contexts were drawn, see `totals_of`.
        kept: what was computed from the log and is needed again, such as its tally.
    """

    shape: Shape
    stored: Table
    rows: int
    dropped: dict[str, int]
    dropped_rows: int
    source_rows: Table
    roles: Roles
    notes: tuple[str, ...] = field(default=(), compare=False)
    ledger: Any = field(default=None, compare=False)
    called: dict[str, str | None] = field(default_factory=dict, compare=False)
    totals: pa.Table | None = field(default=None, compare=False)
    drawn: int | None = None
    kept: KeptValues = field(default_factory=dict, compare=False, init=False)

    def __reduce__(self) -> str:
        """A log stays in its engine."""
        raise TypeError(
            "a Log lives in its engine and cannot be pickled. Pickle its tally, fc.tally(log): it "
            "answers everything that the log would."
        )

    @property
    def engine(self) -> Engine:
        """The engine of `stored`: the source's, or DuckDB here if nothing may be created there."""
        return self.stored.engine

    @property
    def source(self) -> Engine:
        """The engine of the source."""
        return self.source_rows.engine

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
            + (f"; {number_of(self.drawn, 'record')} drawn" if self.drawn is not None else "")
            + (f"; {number_of(self.dropped_rows, 'invalid row')} dropped" * bool(self.dropped_rows))
            + ">"
        )


DEPTH = Number(
    f"how many positions to read, a whole number from 1 to {DEEPEST}",
    lambda v: 1 <= v <= DEEPEST,
    "10",
    optional=True,
    whole=True,
)


@by_name
@checked(depth=DEPTH)
def read_log(
    source: TableLike,
    *,
    context: str | None = "context",
    items: Columns | None = "items",
    clicks: Columns | None = "clicks",
    period: str | None = None,
    unit: str | None = None,
    segments: str | Sequence[str] | Mapping[str, str] = (),
    rewards: Mapping[str, Columns] | None = None,
    propensity: Columns | None = None,
    count: str | None = None,
    where: str | None = None,
    long: tuple[str, str] | None = None,
    depth: int | None = None,
    invalid: Literal["error", "drop"] = "error",
    sample: SampleSize = "auto",
    engine: Any = None,  # noqa: ANN401 - a connection
) -> Log:
    """Read a click log where it lives, check it, and compress it in one pass.

    Args:
        source: a path or glob (Parquet, CSV, JSON), a pandas or Polars frame, an Arrow table, a
            DuckDB relation, a Spark DataFrame, an Ibis table of any backend, or, with a connection
            to PostgreSQL or MariaDB as `engine`, the name of a table or a SELECT; or the name under
            which `foreclick.toml` has a log with its columns.
        context: the column of the query (or page, or user group); None: one context for all.
        items: the column with the list of shown items, or a list of columns, one per position; of a
            `long` table, the column of the item, by default "item".
        clicks: the column with a list of clicks (0/1 or graded), or a list of columns; of a `long`
            table, the column of the click, by default "click". None for a log without clicks, for
            instance of what a candidate *would* have shown.
        period: the column of the day or week; a timestamp counts as its day.
        unit: the column of the user or session. Its values are kept as one of 30 buckets.
        segments: columns by which results can be split; or a mapping from names to columns.
        rewards: further rewards by name, such as ``{"orders": "orders"}`` for the metric
            ``orders@3``.
        propensity: the column with the probability of the shown list (a number) or of each slot (a
            list).
        count: of a log that was counted before, the column with the number of equal records that a
            row stands for.
        where: a filter in the engine's SQL, such as ``"country = 'NL'"``.
        long: of a table with one row per shown item, the columns of the list's id and of the
            position (from 1, gaps allowed), such as ``("request_id", "rank")``.
        depth: the number of positions to read; by default as many as the longest list has.
        invalid: "error" refuses invalid rows, and lists every problem with its count, an example
            and the remedy; "drop" leaves such rows out and counts them by cause in `Log.dropped`.
        sample: the number of lists to draw from a larger log, approximately. Contexts are drawn
            with probability proportional to their records, and weighted back; intervals allow for
            it. "auto": a million, of a log with more than two million; None or "all": all lists.
        engine: the connection (of DuckDB, psycopg, PyMySQL or Ibis, or a session of Spark) to open
            the source in; by default DuckDB in this process.

    Returns:
        A `Log`.

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
    named = rewards_of(clicks, rewards)
    table = filter_by(open_source(source, engine), where)
    if long is not None:
        several = [name for name, c in {"items": items, **named}.items() if not isinstance(c, str)]
        if several:
            raise SourceError(
                f"{several[0]}= must name one column: with long=, a row is one result."
            )
        if items == "items" and items not in table.columns:
            items = "item"
        if clicks == CLICKS and CLICKS not in table.columns:
            named[CLICKS] = "click"
    roles = Roles(
        context=context,
        items=items,
        rewards=named,
        period=period,
        unit=unit,
        propensity=propensity,
        segments=segments_of(segments),
        count=count,
        long=tuple(long or ()),
    )
    with unchanged(source):
        return compress(table, roles.expanded(table.columns), invalid, depth, sample=sample)


def compress(
    raw: Table,
    roles: Roles,
    invalid: Literal["error", "drop", "refuse"] = "error",
    depth: int | None = None,
    masks: tuple[str, ...] | None = None,
    sample: SampleSize = None,
) -> Log:
    """Group the raw rows by everything that matters, and check the groups.

    `invalid` is as in `read_log`; "refuse" is an error that does not offer to drop rows, for
    tables that are no logs. `masks` names the rewards that are 0 or 1, where that is known.
    `sample` is as in `read_log`.
    """
    raw = checked_columns(raw, roles)
    select = Select(roles, raw.kinds, raw.engine.say, raw.rows)
    try:
        if roles.unit is not None:
            raw.engine.check_hash()
        shape, table, drawing = _grouped(raw, select, depth, masks, sample)
    except (SourceError, EngineError) as error:
        raise explained(error, raw, roles) from error
    broken = rules(table, shape, roles.count)
    rows, causes, invalid_rows = check(table, broken)
    if not rows:
        raise InvalidLogError(NO_ROWS)
    if causes:
        if invalid != "drop":
            raise invalid_rows_error(
                table, shape, broken, causes, invalid_rows, droppable=invalid == "error"
            )
        if invalid_rows == rows:
            raise InvalidLogError(
                f"nothing is left of {number_of(rows, 'row')}: none keeps the rules of a log. "
                f"Causes: {causes}."
            )
        some = any_of(rule.broken for rule in broken)  # a condition that is NULL is no breach
        table = table.where(f"CASE WHEN {some} THEN 1 ELSE 0 END = 0")
    shape, table = _packed_after_all(shape, table)
    refuse_ids(table, shape)
    # What breaks the rules is no part of the log, and in the others nobody looked for it.
    totals = _totals(raw, select, shape) if shape.drawn and not causes else None
    valid = rows - invalid_rows
    return Log(
        shape=shape,
        stored=table.select(*shape.stored),
        rows=valid if drawing is None else drawing.records - invalid_rows,
        drawn=None if drawing is None else valid,
        dropped=causes,
        dropped_rows=invalid_rows,
        source_rows=raw,
        roles=roles,
        notes=tuple(_notes(raw, roles, shape, table)),
        totals=totals,
    )


def _totals(raw: Table, select: Select, shape: Shape) -> pa.Table:
    """The sums over all records of a log whose contexts were drawn."""
    shape, say = replace(shape, drawn=False), raw.engine.say
    listed = select.roles.layout != "long"
    wide = replace(shape, masks=()) if listed else shape
    types = select.types(wide)
    names = [*wide.order, *(["weight"] if select.roles.count else [])]
    kinds = pa.schema([(name, types.get(name, pa.int64())) for name in names])
    records = raw.query(select.records(wide), kinds)
    columns = records.own([name for name in wide.order if name in shape.order])
    if listed:
        # Where a reward is, an item is: so keep the rules. Then no engine has to read the items.
        if shape.rewards:
            earned = wide.reward(shape.rewards[0])
            columns |= {c: Value(say.column(e)) for c, e in zip(shape.items, earned, strict=True)}
        for name in shape.masks:
            bits = (
                f"CASE WHEN {say.column(c)} = 1 THEN {say.cast(str(1 << i), 'whole')} ELSE 0 END"
                for i, c in enumerate(wide.reward(name))
            )
            columns[name] = Value(" + ".join(bits))
    columns[N] = Value(say.column("weight") if select.roles.count else "1")
    return totals_of(records.made(columns), shape)


def _notes(raw: Table, roles: Roles, shape: Shape, table: Table) -> list[str]:
    """What is read in a way that not everybody expects: zones of times, clicks above 1."""
    notes = []
    if roles.period is not None and has_zone(raw.kinds.field(roles.period).type):
        zone = raw.kinds.field(roles.period).type.tz
        notes.append(
            f"Periods are days of UTC: {roles.period!r} has times with a zone ({zone}). For other "
            "days give a column of dates."
        )
    if CLICKS in shape.rewards and CLICKS not in shape.masks:
        say = table.engine.say
        values = [say.column(name) for name in shape.reward(CLICKS)]
        more = any_of(f"{value} > 1" for value in values)
        sums = {f"most{k}": f"max({value})" for k, value in enumerate(values)}
        sums["n"] = f"sum(CASE WHEN {more} THEN s.{N} ELSE 0 END)"
        totals = table.aggregate(
            {name: Value(say.cast(value, "real"), pa.float64()) for name, value in sums.items()}
        )
        *most, n = (value or 0 for value in totals.values())
        if n:
            notes.append(
                f"{number_of(n, 'record')} {plural(n, 'has', 'have')} clicks above 1, up to "
                f"{max(most):g}. They count as they are; for clicked or not, make them 0 and 1."
            )
    return notes


def _grouped(
    raw: Table,
    select: Select,
    depth: int | None,
    masks: tuple[str, ...] | None,
    sample: SampleSize,
) -> tuple[Shape, Table, Drawing | None]:
    """The one group-by over the raw log.

    How long the longest list is, and whether rewards are 0 or 1 everywhere, is only known after the
    pass. A guess from the first rows is nearly always right; if it was not, the pass is made again.
    Of a large log, contexts are drawn before.
    """
    shape, small = _guessed(raw, select, depth, masks)
    drawing = None
    if sample != "auto" or not small:
        if sample not in (None, "all"):
            raw.engine.check_hash()
        drawing = drawing_of(raw, select, sample)
    if drawing is not None:
        select = drawing.drawn(select)
    cut = depth is not None or select.roles.layout == "wide"  # else lists may be longer
    while True:
        groups = raw.query(*select.tally(shape, cut=cut))
        if drawing is not None:
            groups = drawing.weighed(groups, shape, whole=not select.identity())
        table = raw.engine.keep("log", groups)
        columns = {name: table.engine.say.column(name) for name in shape.masks}
        deepest = "max(s.length)" if "length" in table.columns else "0"
        odd = _without_mask(table, columns, length=deepest)
        longest = odd.pop("length") or 0
        if any(odd.values()) and not cut:
            result = raw.engine.ask(select.longest(), pa.schema({"length": pa.int64()}))
            longest = result["length"][0].as_py()
        if longest > shape.depth:
            shape = replace(shape, depth=_readable(longest)).with_masks(shape.masks)
        elif any(odd.values()):
            shape = shape.with_masks([name for name in shape.masks if not odd[name]])
        else:
            return replace(shape, drawn=drawing is not None), table, drawing


def _without_mask(table: Table, masks: Mapping[str, str], **others: str) -> dict[str, int]:
    """How many rows have rewards of each name whose mask is NULL, and other facts."""
    counts = {name: f"count(*) - count({mask})" for name, mask in masks.items()} | others
    return table.aggregate({name: Value(text) for name, text in counts.items()}) if counts else {}


def _guessed(
    raw: Table, select: Select, depth: int | None, masks: tuple[str, ...] | None
) -> tuple[Shape, bool]:
    """Depth and masks, by the first rows; these are asked in the DuckDB of this process.

    And whether these are all the rows that there are.
    """
    small = False
    if depth is None or masks is None:
        select.types(select.roles.shape(raw.kinds, 1))  # refuses those that cannot be read
        kinds = pa.schema([raw.kinds.field(name) for name in select.used()])
        rows = raw.query(select.first_rows(), kinds)
        if raw.engine.far:
            rows = default_engine().show(rows.to_pyarrow())
        else:
            rows = raw.engine.keep("first", rows)
        count = rows.aggregate({"rows": Value("count(*)")})["rows"]
        near, small = Select(select.roles, rows.kinds, DUCKDB, rows.rows), count < select.first
        if depth is None:
            depth = _readable(rows.engine.ask(near.longest())["length"][0].as_py())
        if masks is None:
            shape = select.roles.shape(raw.kinds, depth)
            fits = {name: mask_of(shape, name, DUCKDB) for name in shape.maskable}
            odd = _without_mask(rows.query(near.records(shape)), fits)
            masks = tuple(name for name in odd if not odd[name])
    return select.roles.shape(raw.kinds, depth).with_masks(masks), small


def _packed_after_all(shape: Shape, table: Table) -> tuple[Shape, Table]:
    """Pack rewards that are 0 or 1 in all rows that are left.

    Whether a reward has a mask must not depend on which rows an engine happened to show for the
    first guess, nor on rows that were dropped.
    """
    others = [name for name in shape.maskable if name not in shape.masks]
    masks = {name: mask_of(shape, name, table.engine.say) for name in others}
    odd = _without_mask(table, masks)
    late = {name: Value(masks[name]) for name in odd if not odd[name]}
    if not late:
        return shape, table
    shape = shape.with_masks((*shape.masks, *late))
    columns = late | table.own([name for name in shape.stored if name not in late])
    return shape, table.made({name: columns[name] for name in shape.stored})


def _readable(longest: int | None) -> int:
    """The length of the longest list, unless that is too much."""
    depth = max(int(longest or 1), 1)
    if depth > DEEPEST:
        raise InvalidLogError(
            f"the longest list has {depth:,} positions; foreclick reads {DEEPEST} at most. Say "
            "how many of them matter, for instance depth=20; deeper ones are then left out."
        )
    return depth


def unit_counts(log: Log) -> pa.Table:
    """A row for all units with as many records: `n`, how many `units`, records of `nobody`."""
    rows, roles = log.source_rows, log.roles
    say, lists_by = rows.engine.say, roles.long[:-1]
    named = {"unit": roles.unit, N: roles.count}
    named |= {f"list_{i}": name for i, name in enumerate(lists_by)}
    columns = {N: Value(say.cast("1", "whole"))}
    columns |= {new: rows.own([name])[name] for new, name in named.items() if name is not None}
    lists = rows.made(columns)
    if lists_by:  # one row an impression
        lists = lists.query(f"SELECT DISTINCT * FROM {lists.rows} AS s")
    units = lists.added(["unit"], N)
    nobody = f"CASE WHEN {say.column('unit')} IS NULL THEN {say.column(N)} ELSE 0 END"
    counts = {"units": Value("count(*)"), "nobody": Value.sum(nobody, say, "real")}
    return units.grouped(units.own([N]), counts).to_pyarrow()
