"""The tally: a log compressed by one group-by, which adds and is an ordinary table.

Values, variances and backtests computed from a tally equal those of the raw log
exactly. Today's tally plus yesterday's is the tally of both days, so at scale a daily job tallies
the day where its logs are, and everything else works on the small tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.engines import (
    DUCKDB,
    Engine,
    Table,
    TableLike,
    Value,
    bring,
    default_engine,
    read_schemas,
)
from foreclick.engines.files import ScratchFile, changed, fetched, given_twice, is_remote, states
from foreclick.engines.kinds import called, nullable
from foreclick.errors import ForeclickError, SourceError, TallyError
from foreclick.kept import KeptValues, kept
from foreclick.logs import CONTEXT, PERIOD, Log, N, Shape, read_log, spread
from foreclick.logs.drawing import totals_of
from foreclick.logs.roles import SAMPLING_WEIGHT
from foreclick.logs.validate import any_of
from foreclick.options import checked
from foreclick.progress import report_step
from foreclick.tallies import totals as sums_of_log
from foreclick.tallies.files import (
    GROUP_ROWS,
    check_digest,
    checked_metadata,
    metadata_of,
    read_sorted,
    write_sorted,
)
from foreclick.words import number_of

SORT_ROWS = 2_000_000
"""A tally of at most so many rows is sorted in memory, a larger one in a file."""

_MANY = 1_000  # periods, of which a tally does not keep a list
_TOGETHER = ("dropped", "dropped_rows", "decayed", "names", "notes", "totals")


@dataclass(frozen=True, repr=False)
class Tally:
    """A compressed log: (context, period, segments, bucket, list, rewards, propensity) → n.

    Made by `tally` and `read_tally`; ``monday + tuesday`` is the tally of both logs together.

    Attributes:
        shape: the roles and columns of `stored`.
        stored: the compact rows, with the columns `Shape.stored`, a table of `engine`. Rewards of 0
            and 1 are masks.
        dropped: the number of rows of the log that were left out, by cause.
        dropped_rows: the number of rows of the log that were left out.
        decayed: whether some periods count less than others (`weigh`).
        source: the name of the engine that tallied the log, if its rows came from there.
        original: the compact rows that these are a copy of, if those are in another engine.
        kept: what follows from the rows alone, see `foreclick.kept`; an altered tally starts empty.
        files: the Parquet files that hold exactly these rows, each sorted, if they are in files;
            with the state by which a later change of each is noticed.
        names: the log's own column names, by role; None for the context if there is none. A
            candidate's table may use them.
        notes: what a reader of answers should know about how the log was read.
        totals: sums over all records by period and segments, of a log whose contexts were drawn, if
            they are known; see `logs.drawing.totals_of`.
    """

    shape: Shape
    stored: Table
    dropped: dict[str, int]
    dropped_rows: int
    decayed: bool = False
    source: str | None = field(default=None, compare=False)
    original: Table | None = None
    kept: KeptValues = field(default_factory=dict, compare=False, init=False)
    files: dict[str, Any] = field(default_factory=dict, compare=False)
    names: dict[str, str | None] = field(default_factory=dict, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    totals: pa.Table | None = field(default=None, compare=False)

    @property
    def engine(self) -> Engine:
        """The engine of the compact rows."""
        return self.stored.engine

    @cached_property
    def table(self) -> Table:
        """The rows with one column per position of every reward: a view of `stored`."""
        return spread(self.stored, self.shape).select(*self.shape.columns)

    @cached_property
    def unearned(self) -> frozenset[str]:
        """The names of the rewards that are 0 in all rows."""
        say, shape = self.engine.say, self.shape
        earned = {
            name: Value.count(any_of(f"{say.column(c)} > 0" for c in shape.stored_reward(name)))
            for name in shape.rewards
        }
        found = self.stored.aggregate(earned) if earned else {}
        return frozenset(name for name, rows in found.items() if not rows)

    @property
    def drawn_contexts(self) -> Table | None:
        """The rows of the drawn contexts; None if the log was read whole."""
        return self.stored if self.shape.drawn else None

    @cached_property
    def sizes(self) -> tuple[float, float]:
        """The number of records of the rows, and that of the log from which they were drawn."""
        records = float(self.counts()["records"])
        if not self.shape.drawn:
            return records, records
        if self.totals is not None:
            return records, float(pc.sum(self.totals[N]).as_py() or 0.0)
        say = self.engine.say
        weighted = (
            f"{say.column(N)} * coalesce({say.column(SAMPLING_WEIGHT)}, {say.number_of(1.0)})"
        )
        return records, float(self.stored.aggregate({N: Value.sum(weighted, say, "real")})[N])

    def __repr__(self) -> str:
        return (
            f"<Tally of lists of up to {number_of(self.shape.depth, 'item')} in {self.engine.name}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled tally is its rows: in another process it lives in the DuckDB there."""
        fields = {name: getattr(self, name) for name in ("shape", "source", *_TOGETHER)}
        return _of_rows, (self._here().to_pyarrow(), fields)

    def __add__(self, other: Tally) -> Tally:
        """The tally of both logs together, in this tally's engine."""
        if not isinstance(other, Tally):
            return NotImplemented
        return added([self, other])

    def same(self, other: Tally) -> bool:
        """Whether both are tallies of the same log, here or copied from another engine."""
        ours, theirs = (t.stored if t.original is None else t.original for t in (self, other))
        return ours is theirs

    def to_arrow(self) -> pa.Table:
        """An Arrow table of all rows, by context and list; one column per position of a reward."""
        wide = spread(self._here(), self.shape).select(*self.shape.columns)
        return _ordered(wide, replace(self.shape, masks=()).order).to_pyarrow()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows for whoever reads Arrow: Polars, DuckDB, pandas 3."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def row_count(self) -> int:
        """The number of rows."""
        return int(self.stored.aggregate({"n": Value("count(*)")})["n"])

    def counts(self) -> dict[str, Any]:
        """The numbers of records and of rows: ``{"records": …, "rows": …}``."""
        sizes = {"records": self.stored.total(N), "rows": Value("count(*)")}
        return self.stored.aggregate(sizes)

    def sorted_batches(self, rows: int = GROUP_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the compact rows in order, in batches, from any engine.

        Columns are `Shape.stored`: contexts and items are int64 or text, masks int64, n int64 or
        double, other columns as the log has them. Rows ascend by `Shape.order`, NULLs first, text
        by its bytes. Rows with equal keys, which a tally of several files may have, are adjacent
        and not added up. A batch may end in the middle of a context. Other queries may run while
        batches are read.

        Args:
            rows: the largest number of rows of a batch.
        """
        schema = nullable(self.stored.kinds)
        if len(self.files) == 1:
            yield from read_sorted(next(iter(self.files)), schema, rows)
            self._refuse_changed()
        elif self.row_count() <= SORT_ROWS:
            ordered = _ordered(self._here(), self.shape.order).to_pyarrow().cast(schema)
            self._refuse_changed()
            yield from ordered.combine_chunks().to_batches(max_chunksize=rows)
        else:
            yield from read_sorted(self._sorted.path, schema, rows)

    @cached_property
    def _sorted(self) -> ScratchFile:
        """The compact rows in order, in a file: DuckDB makes no other query while one is read."""
        scratch = ScratchFile("sorted.parquet")
        self._write(scratch.path, {}, quick=True)
        self.engine.release()  # from here on, the file is read
        self._refuse_changed()
        return scratch

    def _refuse_changed(self) -> None:
        """Refuse rows of files that have changed meanwhile: passes would not be of the same log."""
        for file in changed(self.files, states(self.files)):
            raise TallyError(f"{file!r} has changed since it was read. Read it again.")

    def _here(self) -> Table:
        """The compact rows where they can be put in order: in DuckDB.

        Other engines sort text by the rules of a language, or NULLs in another place.
        """
        return bring(self.stored, default_engine()) if self.stored.engine.far else self.stored

    def with_rows(self, table: Table, **changes: Any) -> Tally:  # noqa: ANN401
        """This tally with other compact rows of the same shape; `totals` go unless given."""
        fields: dict[str, Any] = {"stored": table, "files": {}, "totals": None}
        return replace(self, **fields | changes)

    @checked()
    def weigh(self, *, half_life: float) -> Tally:
        """The same tally, with the records of earlier periods counted less.

        Args:
            half_life: the age, in days (or steps of a numbered period), at which a record counts
                half as much as one of the latest period.

        Raises:
            TallyError: the tally has no periods, or they are neither dates nor numbers.
        """
        say = self.stored.engine.say
        periods = self._known_periods("half_life= is about periods, and the tally has none.")
        weight = {}
        for period in periods.drop_null().to_pylist():
            try:
                age = pc.max(periods).as_py() - period
                steps = age.total_seconds() / 86_400 if isinstance(age, timedelta) else float(age)
            except TypeError as error:
                raise TallyError(
                    f"half_life= needs periods that are dates or numbers, not {period!r}."
                ) from error
            weight[period] = float(0.5 ** (steps / half_life))
        kind = pa.schema({"of": periods.type, "weight": pa.float64()})
        by_period = pa.table({"of": list(weight), "weight": list(weight.values())}, schema=kind)
        n = say.cast(say.column(N), "real")
        less = Value(f"{n} * coalesce(o.weight, {say.number_of(1)})", pa.float64())
        totals = self.totals
        if totals is not None:
            factor = [weight.get(period, 1.0) for period in totals[PERIOD].to_pylist()]
            totals = sums_of_log.scaled(totals, self.shape, np.array(factor))
        return replace(self._by_period(by_period, {N: less}), decayed=True, totals=totals)

    def split(self, period: object) -> tuple[Tally | None, Tally]:
        """Split at a period, into the records up to it and those of later periods or of none.

        Args:
            period: the last period of the first part.

        Returns:
            Two tallies; the first is None if it has no records.

        Raises:
            TallyError: no record is later, or the log has no periods of this kind.
        """
        periods = self._known_periods("the tally was made without periods, so nothing is later.")
        try:
            until = pa.scalar(period).cast(periods.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise TallyError(f"{period!r} is no period of a log of {periods.type}.") from error
        early = periods.filter(pc.less_equal(periods, until))
        if len(early) == len(periods.drop_null()):
            raise TallyError(f"no record of the log is later than {period!r}.")
        if not len(early):
            return None, self
        those = pa.table({"of": early})
        of = f"o.{self.stored.engine.say.name('of')}"
        halves = [
            self._by_period(those, {}, f"WHERE {of} IS {which}") for which in ("NOT NULL", "NULL")
        ]
        if self.totals is not None:
            early = pc.is_in(self.totals[PERIOD], value_set=early.combine_chunks())
            sums = self.totals.filter(early), self.totals.filter(pc.invert(early))
            halves = [replace(h, totals=own) for h, own in zip(halves, sums, strict=True)]
        return halves[0], halves[1]

    def _by_period(self, periods: pa.Table, changed: dict[str, Value], rest: str = "") -> Tally:
        """The rows, joined with what is told (`o`) of some periods (`of`)."""
        stored = self.stored
        others = stored.engine.show(periods)
        on = f"{others.rows} AS o ON s.{PERIOD} = o.{stored.engine.say.name('of')}"
        joined = stored.made(stored.own(stored.columns) | changed, f"LEFT JOIN {on} {rest}")
        return self.with_rows(replace(joined, held=(stored, others)))

    def _known_periods(self, message: str) -> pa.ChunkedArray:
        if not self.shape.period:
            raise TallyError(f"{message} Read the log with period=….")
        return distinct(self.stored, PERIOD)

    def write_parquet(self, path: str | Path) -> None:
        """Write the compact rows in order to one Parquet file, with the version of its schema.

        Args:
            path: a file or its URL. It is written completely or not at all.
        """
        meta: dict[str, Any] = {"shape": asdict(self.shape), "periods": None}
        meta |= {name: getattr(self, name) for name in _TOGETHER}
        meta["totals"] = sums_of_log.written(self.totals)
        if self.shape.period:  # tallies of different periods need no adding up
            periods = sorted(map(str, distinct(self.stored, PERIOD, _MANY + 1).to_pylist()))
            meta["periods"] = periods if len(periods) <= _MANY else None
        self._write(path, meta)

    def _write(self, path: str | Path, meta: dict[str, Any], *, quick: bool = False) -> None:
        """The compact rows in order, to a file that is there completely or not at all."""
        here = self._here()
        ordered = here.engine.batches(_ordered(here, self.shape.order))
        write_sorted(ordered, nullable(self.stored.kinds), path, meta, quick=quick)


def _of_rows(rows: pa.Table, fields: dict[str, Any]) -> Tally:
    """The tally of some compact rows, in the DuckDB of this process."""
    return Tally(stored=default_engine().show(rows), **fields)


def _ordered(table: Table, order: Sequence[str]) -> Table:
    """The rows of a table of DuckDB, sorted by these columns."""
    by = ", ".join(f"s.{DUCKDB.name(key)} ASC NULLS FIRST" for key in order)
    return table.query(f"{table.sql} ORDER BY {by}")


def distinct(table: Table, column: str, most: int | None = None) -> pa.ChunkedArray:
    """The different values of a column, at most so many."""
    name = table.engine.say.name(column)
    limit = "" if most is None else f" LIMIT {most}"
    sql = f"SELECT DISTINCT {name} FROM {table.rows} AS s{limit}"
    return table.engine.ask(sql, table.select(column).kinds)[column]


def added(parts: Sequence[Tally], *, apart: bool = False) -> Tally:
    """The tally of several logs together, in the engine of the first: one union, one group-by.

    Args:
        parts: their tallies.
        apart: whether no two of them have a row in common; then they are read where they lie.
    """
    if any(part.shape.drawn for part in parts):
        parts = [part if part.shape.drawn else _with_totals(part) for part in parts]
    home = parts[0].engine
    shape = reduce(_common_shape, (part.shape for part in parts))
    tables = [spread(bring(part.stored, home), part.shape, keep=shape.masks) for part in parts]
    schema = pa.schema([(name, _widest(name, tables)) for name in shape.stored])
    selects = []
    for table in tables:  # NULL at positions that a tally does not reach
        there = {c: home.say.name(c) if c in table.columns else "NULL" for c in schema.names}
        selects.append(f"SELECT {home.say.names(there)} FROM {table.rows} AS s")
    table = Table(home, f"({' UNION ALL '.join(selects)})", schema, tables)
    if not apart:
        table = home.keep("tally", table.added(shape.order, N))
    return replace(
        parts[0].with_rows(table),
        shape=shape,
        source=None,
        original=None,
        **together([vars(part) for part in parts]),
    )


def _with_totals(tally: Tally) -> Tally:
    """A tally of all records, with their sums."""
    return replace(tally, totals=totals_of(tally.stored, tally.shape))


def together(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is known of several tallies, or of their files, for all of them."""
    causes: Counter[str] = Counter()
    for part in parts:
        causes.update(part["dropped"])
    first, *others = [part["names"] for part in parts]
    return {
        "dropped": dict(causes),
        "dropped_rows": sum(part["dropped_rows"] for part in parts),
        "decayed": any(part["decayed"] for part in parts),
        "totals": sums_of_log.concatenated([part["totals"] for part in parts]),
        "notes": tuple(dict.fromkeys(note for part in parts for note in part["notes"])),
        "names": {
            role: name
            for role, name in first.items()
            if all(role in other and other[role] == name for other in others)
        },
    }


def _common_shape(a: Shape, b: Shape) -> Shape:
    if replace(a, depth=1, masks=(), drawn=False) != replace(b, depth=1, masks=(), drawn=False):
        raise TallyError(
            "the two tallies do not count the same things and cannot be added: one counts "
            f"{a.words}, the other {b.words}. Read both logs with the same roles."
        )
    masks = tuple(name for name in a.masks if name in b.masks)
    return replace(a, depth=max(a.depth, b.depth), masks=masks, drawn=a.drawn or b.drawn)


def _widest(name: str, tables: Sequence[Table]) -> pa.DataType:
    """The type that holds the values of a column in all tallies."""
    kinds = [table.kinds.field(name).type for table in tables if name in table.columns]
    schemas = [pa.schema({name: kind}) for kind in kinds]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(name).type
    except pa.ArrowException as error:
        some = list(dict.fromkeys(map(called, kinds)))
        raise TallyError(
            f"{name!r} is {some[0]} in one tally and {some[-1]} in the other, so they cannot be "
            "added. Read both logs with the same type."
        ) from error


LogLike: TypeAlias = Log | Tally | TableLike
"""A log, its tally, or what `read_log` reads with its default column names."""


def tally(log: LogLike) -> Tally:
    """Compress a log to a tally; a tally is returned as it is.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.

    Returns:
        A `Tally`; the sum of two, ``monday + tuesday``, is the tally of both logs together.

    Examples:
        >>> t = tally({"context": ["q", "q"], "items": [[1, 2]] * 2, "clicks": [[1, 0]] * 2})
        >>> (t + t).to_arrow()["n"].to_pylist()
        [4]
    """
    if isinstance(log, Tally):
        return log
    if not isinstance(log, Log):
        log = read_log(log)
    # Every question to a log is put to one tally, so that what was learnt is known to the next.
    return _tally_of(log)


@kept
def _tally_of(log: Log) -> Tally:
    """The tally of a log that was read."""
    return Tally(
        log.shape,
        log.stored,
        log.dropped,
        log.dropped_rows,
        source=None if log.source == log.engine else log.source.name,
        names=log.roles.single() | log.called,
        notes=log.notes,
        totals=log.totals,
    )


HOME_ROWS = 30_000_000
"""A tally of more rows is not copied from a cluster that can work on it."""


@kept
def _copied(tally: Tally) -> Tally:
    """The same with its rows copied to this process."""
    here = bring(tally.stored, default_engine())
    copied = {"source": tally.engine.name, "original": tally.stored, "totals": tally.totals}
    return tally.with_rows(here, **copied)


def local_tally(log: LogLike) -> tuple[Tally, list[str]]:
    """The tally of a log in this process, where statistics are computed, and notes on it.

    A log in a cluster or a server is tallied there, and the rows of its tally are copied:
    once, however many questions follow. Too many of them stay in a cluster that can work on them.
    """
    local = tally(log)
    notes, there = list(local.notes), local.engine.name
    if local.shape.drawn:
        notes.insert(0, f"{drawn_from(local)}; the interval allows for it.")
    if local.engine.maps and local.row_count() > HOME_ROWS:
        rows = number_of(local.row_count(), "row")
        return local, [*notes, f"The {rows} of the tally stayed in {there}, where it was made."]
    if local.engine.far:
        report_step(f"Copying the tally from {there}")
        local = _copied(local)
    return local, notes


def notes_in_order(tally: Tally, notes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Of the notes of `local_tally`, what every answer says first, how the log was drawn; others.

    An answer's own notes stand between them.
    """
    first = int(tally.shape.drawn)
    return [*notes[:first]], [*notes[first:]]


def drawn_from(tally: Tally) -> str:
    """How many records a drawn tally has, of how many: the beginning of a sentence."""
    drawn, records = tally.sizes
    by = tally.names.get(CONTEXT) or CONTEXT
    return f"From {drawn:,.0f} of {records:,.0f} lists, drawn by {by}"


def refuse_drawn(tally: Tally, verb: str) -> None:
    """Refuse a tally without some of the log's contexts."""
    if tally.shape.drawn:
        drawn, records = tally.sizes
        raise TallyError(
            f"{verb} needs every context of the log, and this one was drawn: {drawn:,.0f} of "
            f"{records:,.0f} lists. Read all of it: read_log(…, sample=None)."
        )


FEW_PERIODS = 4
"""With fewer periods than this, how much they differ is anybody's guess."""


def with_text(tally: Tally, names: Sequence[str]) -> Tally:
    """The same tally with some columns as text."""
    table, say = tally.stored, tally.stored.engine.say
    for name in names:
        table = table.with_column(name, say.cast(say.column(name), "text"), pa.string())
    totals = tally.totals
    for name in names:
        if totals is not None:
            at = totals.column_names.index(name)
            totals = totals.set_column(at, name, totals[name].cast(pa.string()))
    return tally.with_rows(table.select(*tally.shape.stored), totals=totals)


def part(tally: Tally, column: str, texts: Sequence[str]) -> Tally:
    """The records that have one of these texts in a column."""
    say = tally.stored.engine.say
    some = " OR ".join(f"{say.column(column)} = {say.literal(text)}" for text in texts)
    totals = tally.totals
    if totals is not None:
        totals = totals.filter(pc.is_in(totals[column], value_set=pa.array(texts)))
    return tally.with_rows(tally.stored.where(some), totals=totals)


# --- files ----------------------------------------------------------------------------------------


def read_tally(path: str | Path | Sequence[str | Path]) -> Tally:
    """Read one tally, or the sum of several (a glob, a directory), such as a file for each day.

    Files of different periods are read where they lie; nothing is added up or copied. Only files of
    an object store are copied to this machine, once.

    Args:
        path: a Parquet file written by `Tally.write_parquet`, a glob or a directory of such files,
            or a list of them; paths or URLs.

    Returns:
        A `Tally`.

    Raises:
        TallyError: there is no such file, a file is not a tally, or the tallies do not add up.

    Examples:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "monday.parquet")
        >>> tally({"context": ["q"], "items": [[1, 2]], "clicks": [[1, 0]]}).write_parquet(path)
        >>> read_tally(path)
        <Tally of lists of up to 2 items in duckdb>
    """
    return read_in(default_engine(), path)


def read_in(home: Engine, path: str | Path | Sequence[str | Path]) -> Tally:
    """The same in a DuckDB with bounds of its own."""
    try:
        schemas = read_schemas(path)
    except SourceError as error:
        raise TallyError(f"no tally: {error}") from error
    metas = {file: checked_metadata(file, schema) for file, schema in schemas.items()}
    for meta in metas.values():
        meta["totals"] = sums_of_log.read(meta.get("totals"))
    digests: dict[str, str] = {}
    for file, meta in metas.items():
        other = digests.setdefault(str(meta.get("digest")), file)
        if other != file:
            raise TallyError(given_twice(other, file))
    copies, names = None, list(metas)
    if any(map(is_remote, names)):  # copied once: every question reads all
        names, copies = fetched(names)
    here = dict(zip(metas, names, strict=True))
    for file, name in here.items():
        check_digest(name, metas[file], file)
    groups: dict[tuple[Shape, str], list[str]] = {}
    for file, meta in metas.items():
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in meta["shape"].items()
        }
        groups.setdefault((Shape(**values), str(schemas[file].types)), []).append(file)
    parts = []
    for (shape, _), group in groups.items():
        files = [here[file] for file in group]
        table = home.read_files("read_parquet", files, partitions=False)
        parts.append(
            Tally(
                shape,
                # Copies stay for as long as the rows are needed.
                replace(table.select(*shape.stored), held=(table, copies)),
                files=states(files),
                **together([metas[file] for file in group]),
            )
        )
    # Tallies of different periods have no row in common.
    periods = [meta["periods"] for meta in metas.values()]
    named = [period for some in periods if some for period in some]
    apart = len(metas) == 1 or (None not in periods and len(set(named)) == len(named))
    return parts[0] if len(parts) == 1 and apart else added(parts, apart=apart)


def is_tally(path: str) -> bool:
    """Whether any of the files is a tally, by what stands in its Parquet metadata."""
    try:
        return any(metadata_of(schema) is not None for schema in read_schemas(path).values())
    except (ForeclickError, OSError, ValueError):  # no such file, or not Parquet: a log, if at all
        return False
