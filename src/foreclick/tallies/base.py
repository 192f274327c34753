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

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from foreclick.engines import (
    Engine,
    ScratchFile,
    TableLike,
    bring,
    default_engine,
    real,
    state,
)
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
        stored: the compact rows, with the columns `Shape.stored`: rewards of 0 and 1 are masks; an
            Ibis table.
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
        states: what tells whether each file has changed, as it was when the tally was read.
    """

    engine: Engine
    shape: Shape
    stored: ir.Table
    dropped: dict[str, int]
    dropped_rows: int
    decayed: bool = False
    inflation: float = 1.0
    source: str | None = field(default=None, compare=False)
    brought: ir.Table | None = None
    learnt: dict[Any, Any] = field(default_factory=dict, compare=False)
    files: tuple[str, ...] = field(default=(), compare=False)
    in_order: bool = field(default=False, compare=False)
    names: dict[str, str | None] = field(default_factory=dict, compare=False)
    states: tuple[dict[str, Any], ...] = field(default=(), compare=False)

    @cached_property
    def table(self) -> ir.Table:
        """The rows with one column a position of every reward: a view of `stored`."""
        return spread(self.stored, self.shape).select(self.shape.columns)

    def __repr__(self) -> str:
        return (
            f"<Tally of lists of up to {number_of(self.shape.depth, 'item')} in {self.engine.name}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled tally is its rows: in another process it lives in the DuckDB there."""
        home, here = self._here()
        kept = ("shape", "dropped", "dropped_rows", "decayed", "inflation", "source", "names")
        return _of_rows, (home.fetch(here), {name: getattr(self, name) for name in kept})

    def __add__(self, other: Tally) -> Tally:
        """The tally of both logs together, in this tally's engine."""
        if not isinstance(other, Tally):
            return NotImplemented
        return sum_of([self, other])

    def same(self, other: Tally) -> bool:
        """Whether both are of the same log, here or brought from elsewhere."""
        mine, theirs = (t.stored if t.brought is None else t.brought for t in (self, other))
        return bool(mine.equals(theirs))

    def to_arrow(self) -> pa.Table:
        """All rows, with one column a position of every reward, in order of contexts and lists."""
        home, here = self._here()
        return home.ask(_spread_in_order, here, self.shape)

    def row_count(self) -> int:
        """The number of rows: of a tally in files by their footers, else by a query."""
        if self.files:
            return count_rows(self.files)
        return int(self.engine.ask(_count, self.stored)["rows"][0].as_py())

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
            home, here = self._here()
            ordered = home.ask(_ordered, here, tuple(self.shape.order))
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
        key = (_SORTED, id(self.stored.op()))  # what is kept holds the table, so its id is its own
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
        schema = self.stored.schema().to_pyarrow()
        return widened(pa.schema([field.with_nullable(True) for field in schema]), self.shape)

    def _sorted_file(self) -> str | None:
        """The file that holds exactly these rows in order, if there is one."""
        return self.files[0] if self.in_order and len(self.files) == 1 else None

    def _here(self) -> tuple[Engine, ir.Table]:
        """The compact rows, and the engine in which they can be put in order: DuckDB.

        Other engines sort text by the rules of a language, or NULLs in another place.
        """
        home = default_engine() if self.engine.far else self.engine
        return home, bring(self.stored, self.engine, home)

    def _with_rows(self, table: ir.Table, **changes: Any) -> Tally:  # noqa: ANN401 - fields
        """This tally with other compact rows of the same shape."""
        return replace(self, stored=table, files=(), in_order=False, **changes)

    def _at_home(self) -> Tally:
        """A copy in the DuckDB of this process."""
        home = default_engine()
        here = bring(self.stored, self.engine, home)
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
        stored = self.stored
        rows = self.engine.rows(stored.select(PERIOD).distinct())
        periods = [row[PERIOD] for row in rows if row[PERIOD] is not None]
        weight = weights_of(periods, half_life, weights or {})
        kind = pa.schema({_OF: stored[PERIOD].type().to_pyarrow(), _WEIGHT: pa.float64()})
        by_period = pa.table({_OF: list(weight), _WEIGHT: list(weight.values())}, schema=kind)
        weighing = self.engine.show(by_period)
        joined = stored.left_join(weighing, stored[PERIOD] == weighing[_OF])
        n = joined[N].cast("float64") * joined[_WEIGHT].fill_null(real(1))
        weighed = joined.mutate(**{N: n})
        kept = weighed.filter(weighed[N] > 0).select(stored.columns)
        return self._with_rows(kept, decayed=True)

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
        }
        self._write(path, meta)

    def _write(self, path: str | Path, meta: dict[str, Any], *, quick: bool = False) -> None:
        """The compact rows in order, to a file that is there completely or not at all."""
        home, here = self._here()
        schema = narrowed(self._schema, self._narrow_columns(home, here))
        ordered = _ordered(home, here, self.shape.order)
        write_sorted(home.batches(ordered), schema, path, meta, quick=quick)

    def _narrow_columns(self, home: Engine, table: ir.Table) -> list[str]:
        """Columns whose values all fit in 32 bits."""
        together = integer_columns(self._schema, self.shape)
        names = [name for some in together for name in some]
        bounds = {f"least_{name}": table[name].min() for name in names}
        bounds |= {f"greatest_{name}": table[name].max() for name in names}
        row = home.rows(table.aggregate(**bounds))[0] if bounds else {}
        return [
            name
            for some in together
            if all(fits(row[f"least_{c}"], row[f"greatest_{c}"]) for c in some)
            for name in some
        ]

    def _periods(self) -> list[str] | None:
        """The periods as text, if they are few: tallies of different ones need no adding up."""
        found = self.stored.select(PERIOD).distinct().limit(_MANY + 1)
        periods = sorted(str(row[PERIOD]) for row in self.engine.rows(found))
        return periods if len(periods) <= _MANY else None


def _of_rows(rows: pa.Table, fields: dict[str, Any]) -> Tally:
    """The tally of some compact rows, in the DuckDB of this process."""
    home = default_engine()
    return Tally(engine=home, stored=home.show(rows), **fields)


def _count(_: Engine, table: ir.Table) -> ir.Table:
    return table.aggregate(rows=table.count())


def _ordered(_: Engine, table: ir.Table, order: Sequence[str]) -> ir.Table:
    return table.order_by([ibis.asc(table[key], nulls_first=True) for key in order])


def _spread_in_order(engine: Engine, table: ir.Table, shape: Shape) -> ir.Table:
    """Rows with one column a position of every reward, ordered by all of these."""
    wide = spread(table, shape).select(shape.columns)
    return _ordered(engine, wide, replace(shape, masks=()).order)


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
            names=log.roles.single(),
        )
    return cast("Tally", log.kept[_TALLY])


def context_sizes(tally: Tally) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Shape (X,) each: the records, and the rows, of every context; in no order."""
    rows = tally.stored
    sizes = {"records": rows[N].cast("float64").sum(), "rows": rows.count()}
    found = tally.engine.fetch(rows.group_by(CONTEXT).aggregate(**sizes).select(*sizes))
    return np.asarray(found["records"]), np.asarray(found["rows"])


HOME_ROWS = 30_000_000
"""A tally of more rows is not brought home from a cluster that can work on it."""


def settle(log: LogLike) -> tuple[Tally, list[str]]:
    """The tally of a log in this process, where statistics are computed, and a note on it.

    A log in a cluster or a server is tallied there, and the rows of its tally are brought home:
    once, however many questions follow. Too many of them stay in a cluster that can work on them.
    """
    counted = tally(log)
    if not counted.engine.far:
        return counted, [_came_home(counted)] if counted.source else []
    if counted.engine.maps and counted.row_count() > HOME_ROWS:
        rows = number_of(counted.row_count(), "row")
        said = f"The {rows} of the tally stayed in {counted.engine.name}, where it was made."
        return counted, [said]
    key = (_HOME, id(counted.stored.op()))  # what is kept holds the table, so its id stays its own
    if key not in counted.learnt:
        counted.learnt[key] = counted._at_home()  # noqa: SLF001 - a part of Tally
    here: Tally = counted.learnt[key]
    return here, [_came_home(here)]


def _came_home(tally: Tally) -> str:
    rows = number_of(tally.row_count(), "row")
    return f"The log was tallied in {tally.source}; the {rows} of its tally came home."


FEW_PERIODS = 4
"""With fewer periods than this, how much they differ is anybody's guess."""
