"""The tally: a log compressed by one group-by, which adds and is an ordinary table.

Values, variances and backtests computed from a tally equal those of the raw log
exactly. Today's tally plus yesterday's is the tally of both days, so at scale a daily job tallies
the day where its logs are, and everything else works on the small tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from foreclick.engines import (
    DUCKDB,
    Engine,
    ScratchFile,
    Table,
    TableLike,
    Value,
    bring,
    default_engine,
    state,
)
from foreclick.engines.kinds import loose
from foreclick.errors import TallyError
from foreclick.logs import CONTEXT, PERIOD, Log, N, Shape, read_log, spread
from foreclick.options import checked
from foreclick.tallies.files import (
    GROUP_ROWS,
    count_rows,
    fits,
    in_batches,
    integer_columns,
    narrowed,
    read_sorted,
    widened,
    write_sorted,
)
from foreclick.tallies.metadata import SCHEMA_VERSION
from foreclick.tallies.sums import sum_of
from foreclick.tallies.weights import weights_of
from foreclick.words import number_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SORT_ROWS = 2_000_000
"""A tally of at most so many rows is sorted in memory, a larger one in a file."""

_MANY = 1_000  # periods, of which a tally does not keep a list
_OF, _WEIGHT = "of", "weight"
_TALLY, _HOME, _SORTED = "tally", "home", "sorted"


@dataclass(frozen=True, repr=False)
class Tally:
    """(context, period, segments, bucket, list, rewards, propensity) → n.

    Attributes:
        engine: where it lives.
        shape: what its columns are.
        stored: the compact rows, with the columns `Shape.stored`: rewards of 0 and 1 are masks; a
            table of `engine`.
        dropped: how many rows of the log were left out, by cause.
        dropped_rows: how many rows of the log were left out.
        decayed: whether some periods count less than others.
        inflation: for how many records a row of the log was kept; 1 unless it was down-sampled.
        source: the name of the engine that tallied the log, if its rows came from there.
        brought: the compact rows that these are a copy of, if those lie in another engine.
        learnt: what estimators have learnt of it, so that they need not look again; by its table,
            because a tally that was altered shares it.
        files: the Parquet files that hold exactly these rows, if they lie in files.
        in_order: whether each file is sorted by `Shape.order`.
        names: what the log's own columns are called, by their roles; the context's is None if it
            has none. A candidate's table may call them alike.
        notes: what the reader of an answer should know of how the log was read.
        states: what tells whether each file has changed, as it was when the tally was read.
    """

    engine: Engine
    shape: Shape
    stored: Table
    dropped: dict[str, int]
    dropped_rows: int
    decayed: bool = False
    inflation: float = 1.0
    source: str | None = field(default=None, compare=False)
    brought: Table | None = None
    learnt: dict[Any, Any] = field(default_factory=dict, compare=False)
    files: tuple[str, ...] = field(default=(), compare=False)
    in_order: bool = field(default=False, compare=False)
    names: dict[str, str | None] = field(default_factory=dict, compare=False)
    states: tuple[dict[str, Any], ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def table(self) -> Table:
        """The rows with one column a position of every reward: a view of `stored`."""
        return spread(self.stored, self.shape).select(*self.shape.columns)

    def __repr__(self) -> str:
        return (
            f"<Tally of lists of up to {number_of(self.shape.depth, 'item')} in {self.engine.name}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled tally is its rows: in another process it lives in the DuckDB there."""
        here = self._here()
        kept = ("shape", "dropped", "dropped_rows", "decayed", "inflation", "source")
        return _of_rows, (
            here.to_pyarrow(),
            {name: getattr(self, name) for name in (*kept, "names", "notes")},
        )

    def __add__(self, other: Tally) -> Tally:
        """The tally of both logs together, in this tally's engine."""
        if not isinstance(other, Tally):
            return NotImplemented
        return sum_of([self, other])

    def same(self, other: Tally) -> bool:
        """Whether both are of the same log, here or brought from elsewhere."""
        mine, theirs = (t.stored if t.brought is None else t.brought for t in (self, other))
        return mine is theirs

    def to_arrow(self) -> pa.Table:
        """All rows, with one column a position of every reward, in order of contexts and lists."""
        wide = spread(self._here(), self.shape).select(*self.shape.columns)
        return _ordered(wide, replace(self.shape, masks=()).order).to_pyarrow()

    def row_count(self) -> int:
        """The number of rows: of a tally in files by their footers, else by a query."""
        if self.files:
            return count_rows(self.files)
        return int(self.stored.asked({"n": Value("count(*)", pa.int64())})["n"])

    def counts(self) -> dict[str, Any]:
        """How many records and rows there are."""
        kind = self._schema.field(N).type
        records = Value(f"coalesce({self.stored.total(N)}, 0)", kind)
        return self.stored.asked({"records": records, "rows": Value("count(*)", pa.int64())})

    def sorted_batches(self, rows: int = GROUP_ROWS) -> Iterator[pa.RecordBatch]:
        """The compact rows in order, a batch at a time, on whichever engine they are.

        Columns are `Shape.stored`: contexts and items are int64 or text, masks int64, n int64 or
        double, other columns as the log has them. Rows ascend by `Shape.order`, NULLs first, text
        by its bytes. Rows with equal keys, which a tally of several files may have, are neighbours
        and are not added up. A batch may end in the middle of a context. Other queries may be made
        while batches are read.

        Args:
            rows: the most that a batch holds.
        """
        schema = self._schema
        file = self._sorted_file()
        if file is not None:
            yield from read_sorted(file, schema, rows)
            self._refuse_changed()
            return
        if self.row_count() <= SORT_ROWS:
            ordered = _ordered(self._here(), self.shape.order).to_pyarrow()
            self._refuse_changed()
            yield from in_batches(ordered.cast(schema), rows)
            return
        yield from read_sorted(self._sorted_scratch().path, schema, rows)

    def _refuse_changed(self) -> None:
        """Refuse rows of files that have changed meanwhile: passes would not be of the same log."""
        for file, before in zip(self.files, self.states, strict=False):
            if not Path(file).exists() or state(file) != before:
                raise TallyError(f"{file!r} has changed since it was read. Read it again.")

    def _sorted_scratch(self) -> ScratchFile:
        """A file of the rows in order, made once: DuckDB makes no other query while one is read."""
        key = (_SORTED, id(self.stored))  # what is kept holds the table, so its id is its own
        if key not in self.learnt:
            scratch = ScratchFile("sorted.parquet")
            self._write(scratch.path, {}, quick=True)
            self.engine.release()  # from here on, the file is read
            self._refuse_changed()
            self.learnt[key] = self.stored, scratch
        found: ScratchFile = self.learnt[key][1]
        return found

    @property
    def _schema(self) -> pa.Schema:
        """The columns of the compact rows in Arrow, none of them marked as never NULL."""
        return widened(loose(self.stored.kinds), self.shape)

    def _sorted_file(self) -> str | None:
        """The file that holds exactly these rows in order, if there is one."""
        return self.files[0] if self.in_order and len(self.files) == 1 else None

    def _here(self) -> Table:
        """The compact rows where they can be put in order: in DuckDB.

        Other engines sort text by the rules of a language, or NULLs in another place.
        """
        return bring(self.stored, default_engine()) if self.stored.engine.far else self.stored

    def _with_rows(self, table: Table, **changes: Any) -> Tally:  # noqa: ANN401
        """This tally with other compact rows of the same shape."""
        return replace(self, stored=table, files=(), in_order=False, **changes)

    def _at_home(self) -> Tally:
        """A copy in the DuckDB of this process."""
        home = default_engine()
        here = bring(self.stored, home)
        return self._with_rows(here, engine=home, source=self.engine.name, brought=self.stored)

    @checked()
    def weigh(
        self, *, half_life: float | None = None, weights: Mapping[Any, float] | None = None
    ) -> Tally:
        """The same tally with the records of a period counted as much as it weighs.

        Args:
            half_life: how many days (or steps of a numbered period) make a record count half as
                much as one of the latest period.
            weights: how much the records of a period count, by period; 1 for those not named, and
                0 leaves one out.
        """
        if not self.shape.period:
            raise TallyError(
                "half_life= and weights= are about periods, and the tally was made without. Read "
                "the log with period=…."
            )
        stored, say = self.stored, self.stored.engine.say
        periods = [period for period in distinct(stored, PERIOD).to_pylist() if period is not None]
        weight = weights_of(periods, half_life, weights or {})
        kind = pa.schema({_OF: stored.kinds.field(PERIOD).type, _WEIGHT: pa.float64()})
        by_period = pa.table({_OF: list(weight), _WEIGHT: list(weight.values())}, schema=kind)
        weighing = stored.engine.show(by_period)
        columns = stored.own(stored.columns)
        less = f"{say.cast(columns[N].text, 'real')} * coalesce(w.weight, {say.number_of(1)})"
        on = f"{weighing.rows} AS w ON s.{PERIOD} = w.{say.name(_OF)}"
        joined = stored.made(columns | {N: Value(less, pa.float64())}, f"LEFT JOIN {on}")
        kept = joined.query(f"SELECT * FROM {joined.rows} AS s WHERE s.n > 0")
        return self._with_rows(replace(kept, held=(stored, weighing)), decayed=True)

    def after(self, period: object) -> Tally:
        """The records of later periods."""
        if not self.shape.period:
            raise TallyError(
                "the tally was made without periods, so that nothing is later. Read the log with "
                "period=…."
            )
        periods = distinct(self.stored, PERIOD)
        try:
            until = pa.scalar(period).cast(periods.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise TallyError(f"{period!r} is no period of a log of {periods.type}.") from error
        known = [one for one in periods.to_pylist() if one is not None]
        early = [one for one in known if one <= until.as_py()]
        if len(early) == len(known):
            raise TallyError(f"no record of the log is later than {period!r}.")
        kept = self.weigh(weights=dict.fromkeys(early, 0.0)) if early else self
        return replace(kept, decayed=self.decayed)

    def write_parquet(self, path: str | Path) -> None:
        """Write the compact rows in order to one Parquet file, with its schema version.

        Integers are written as 32 bits where all of a column fit.

        Args:
            path: of the file, or its URL. It is there completely or not at all.
        """
        meta = {
            "version": SCHEMA_VERSION,
            "sorted": True,
            "shape": self.shape.to_dict(),
            "dropped": self.dropped,
            "dropped_rows": self.dropped_rows,
            "periods": self._periods() if self.shape.period else None,
            "decayed": self.decayed,
            "inflation": self.inflation,
            "names": self.names,
            "notes": self.notes,
        }
        self._write(path, meta)

    def _write(self, path: str | Path, meta: dict[str, Any], *, quick: bool = False) -> None:
        """The compact rows in order, to a file that is there completely or not at all."""
        here = self._here()
        schema = narrowed(self._schema, self._narrow_columns(here))
        ordered = _ordered(here, self.shape.order)
        write_sorted(here.engine.batches(ordered), schema, path, meta, quick=quick)

    def _narrow_columns(self, table: Table) -> list[str]:
        """Columns whose values all fit in 32 bits."""
        together = integer_columns(self._schema, self.shape)
        names = [name for some in together for name in some]
        if not names:
            return []
        bounds = [f"{f}({DUCKDB.name(name)})" for name in names for f in ("min", "max")]
        sql = f"SELECT {', '.join(f'{b} AS b{i}' for i, b in enumerate(bounds))} FROM {table.rows}"
        found = list(table.engine.ask(sql).to_pylist()[0].values())
        narrow = {name: fits(*found[2 * i : 2 * i + 2]) for i, name in enumerate(names)}
        return [name for some in together if all(narrow[c] for c in some) for name in some]

    def _periods(self) -> list[str] | None:
        """The periods as text, if they are few: tallies of different ones need no adding up."""
        periods = sorted(map(str, distinct(self.stored, PERIOD, _MANY + 1).to_pylist()))
        return periods if len(periods) <= _MANY else None


def _of_rows(rows: pa.Table, fields: dict[str, Any]) -> Tally:
    """The tally of some compact rows, in the DuckDB of this process."""
    home = default_engine()
    return Tally(engine=home, stored=home.show(rows), **fields)


def _ordered(table: Table, order: Sequence[str]) -> Table:
    """The rows of a table of DuckDB, sorted by these columns."""
    by = ", ".join(f"s.{DUCKDB.name(key)} ASC NULLS FIRST" for key in order)
    return table.query(f"SELECT * FROM {table.rows} AS s ORDER BY {by}")


def distinct(table: Table, column: str, most: int | None = None) -> pa.ChunkedArray:
    """The different values of a column, at most so many."""
    name = table.engine.say.name(column)
    limit = "" if most is None else f" LIMIT {most}"
    sql = f"SELECT DISTINCT {name} FROM {table.rows} AS s{limit}"
    return table.engine.ask(sql, table.select(column).kinds)[column]


LogLike: TypeAlias = Log | Tally | TableLike
"""A log, its tally, or what `read_log` reads with its default column names."""


def tally(log: LogLike) -> Tally:
    """The tally of a log; a tally is its own tally.

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
    if _TALLY not in log.kept:
        log.kept[_TALLY] = Tally(
            log.engine,
            log.shape,
            log.stored,
            log.dropped,
            log.dropped_rows,
            inflation=log.inflation,
            source=None if log.source == log.engine else log.source.name,
            names=log.roles.single() | log.called,
            notes=log.notes,
        )
    return cast("Tally", log.kept[_TALLY])


def context_sizes(tally: Tally) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Shape (X,) each: the records, and the rows, of every context; in no order."""
    say, kinds = tally.stored.engine.say, pa.schema({"records": pa.float64(), "rows": pa.int64()})
    sizes = {"records": f"sum({say.cast('s.n', 'real')})", "rows": "count(*)"}
    sql = f"SELECT {say.names(sizes)} FROM {tally.stored.rows} AS s GROUP BY s.{CONTEXT}"
    found = tally.stored.engine.ask(sql, kinds)
    return np.asarray(found["records"]), np.asarray(found["rows"])


HOME_ROWS = 30_000_000
"""A tally of more rows is not brought home from a cluster that can work on it."""


def settle(log: LogLike) -> tuple[Tally, list[str]]:
    """The tally of a log in this process, where statistics are computed, and a note on it.

    A log in a cluster or a server is tallied there, and the rows of its tally are brought home:
    once, however many questions follow. Too many of them stay in a cluster that can work on them.
    """
    counted = tally(log)
    notes = list(counted.notes)
    if not counted.engine.far:
        return counted, [*notes, *([_came_home(counted)] if counted.source else [])]
    if counted.engine.maps and counted.row_count() > HOME_ROWS:
        rows = number_of(counted.row_count(), "row")
        said = f"The {rows} of the tally stayed in {counted.engine.name}, where it was made."
        return counted, [*notes, said]
    key = (_HOME, id(counted.stored))  # what is kept holds the table, so its id stays its own
    if key not in counted.learnt:
        counted.learnt[key] = counted._at_home()  # noqa: SLF001 - a part of Tally
    here: Tally = counted.learnt[key]
    return here, [*notes, _came_home(here)]


def _came_home(tally: Tally) -> str:
    rows = number_of(tally.row_count(), "row")
    return f"The log was tallied in {tally.source}; the {rows} of its tally came home."


FEW_PERIODS = 4
"""With fewer periods than this, how much they differ is anybody's guess."""
