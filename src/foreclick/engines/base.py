"""What every engine can do, through Ibis; the quirks of one engine are in its own module."""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
import re
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.csv import write_csv

from foreclick.errors import EngineError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ibis.backends import BaseBackend

    from foreclick.engines.statements import Statement

_numbers = itertools.count(1)
_PARTIAL = ".partial"
_TABLES = (".parquet", ".csv")
_HEX = "0123456789abcdef"
_DIGITS = 7  # 28 bits of the digest: far more than 30 buckets need, and no overflow anywhere

BUCKETS = 30
"""Units (users) survive in a tally as one of so many buckets."""

HASHES = 16**_DIGITS
"""How many numbers `Engine.hashed` can give."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def md5(text: str) -> str:  # type: ignore[empty-body]
    """The lower-case hexadecimal MD5 of UTF-8 text: one function that the engines agree on."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def left(text: str, length: int) -> str:  # type: ignore[empty-body]
    """The first characters of a text."""


_unneeded: deque[tuple[Engine, str]] = deque()
"""Tables that no expression needs any more.

The garbage collector may run in the middle of a statement, while a driver holds its lock; so it
only notes them here, and the engine drops them before it makes the next one.
"""


def _forget(engine: Engine, name: str) -> None:
    """Drop a table that nobody needs; a connection that is already closed has dropped it."""
    with suppress(Exception):
        engine.drop(name)


@contextmanager
def _unfused() -> Iterator[None]:
    """Engines merge nested selects themselves; Ibis would take a sixth of its time for it."""
    options, before = ibis.options.sql, ibis.options.sql.fuse_selects
    options.fuse_selects = False
    try:
        yield
    finally:
        options.fuse_selects = before


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` at the end: a file is there completely or not."""
    partial = Path(f"{path}.{platform.node()}.{os.getpid()}{_PARTIAL}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def sweep_partial(directory: Path) -> None:
    """Remove what processes of this machine were writing when they were killed."""
    for file in abandoned(directory, f".{platform.node()}.", _PARTIAL):
        file.unlink(missing_ok=True)


def abandoned(directory: Path, before: str, after: str = "") -> Iterator[Path]:
    """Whose name ends in `before`, the number of a process that is gone, and `after`."""
    name = re.compile(rf".*{re.escape(before)}(\d+){re.escape(after)}")
    for path in directory.glob(f"*{after}"):
        found = name.fullmatch(path.name)
        if found and not _alive(int(found[1])):
            yield path


def _alive(pid: int) -> bool:
    """Whether a process of this machine is running, or may be."""
    if os.name == "nt":  # where asking is as good as stopping it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


class ScratchFile:
    """A file that is there as long as this object; `laptop` removes what killed processes left.

    Attributes:
        path: where it is to be written.
    """

    def __init__(self, name: str) -> None:
        folder = f"{Engine.unique('scratch')}-foreclick-{platform.node()}-{os.getpid()}"
        place = Path(tempfile.gettempdir()) / folder
        place.mkdir()
        self.path = str(place / name)
        self._removed = weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)

    def remove(self) -> None:
        """Remove it now."""
        self._removed()


class Engine:
    """A place where tables live and expressions are executed: one Ibis backend.

    The relational rooms build expressions; only this class and its children run them.

    Attributes:
        far: whether it is a cluster or a server, rather than part of this process.
        maps: whether it has workers that a Python function can be sent to.
    """

    far: ClassVar[bool] = True
    maps: ClassVar[bool] = False

    def __init__(self, backend: BaseBackend) -> None:
        self.backend: Any = backend

    @property
    def name(self) -> str:
        """The Ibis name of the engine: duckdb, pyspark, postgres, …."""
        return str(self.backend.name)

    def __eq__(self, other: object) -> bool:
        # Ibis calls two connections equal that were opened alike; their tables are not shared.
        return isinstance(other, Engine) and self._place is other._place

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def _place(self) -> object:
        """What tables must have in common to be joined."""
        return self.backend

    # --- executing ---------------------------------------------------------------------------

    def fetch(self, expr: ir.Table) -> pa.Table:
        """The rows of `expr`, brought home as Arrow."""
        with self._explained(expr):
            return self.backend.to_pyarrow(expr)

    def ask(self, statement: Statement, table: ir.Table, *options: Any) -> pa.Table:  # noqa: ANN401
        """The rows of ``statement(engine, table, *options)``; see `statements`."""
        return self.fetch(statement(self, table, *options))

    def make(self, step: str, statement: Statement, table: ir.Table, *options: Any) -> ir.Table:  # noqa: ANN401
        """Keep the rows of ``statement(engine, table, *options)`` in the engine: `materialise`."""
        return self.materialise(statement(self, table, *options), step)

    def sweep(self) -> None:
        """Drop the tables of this engine that no expression needs any more."""
        for _ in range(len(_unneeded)):
            engine, name = _unneeded.popleft()
            if engine == self:
                _forget(self, name)
            else:
                _unneeded.append((engine, name))

    def rows(self, expr: ir.Table) -> list[dict[str, Any]]:
        """The rows of a small `expr`, as dicts."""
        found: list[dict[str, Any]] = self.fetch(expr).to_pylist()
        return found

    def materialise(self, expr: ir.Table, step: str) -> ir.Table:
        """Execute `expr` once and keep its rows in the engine, under a name that says the step.

        The table lives as long as an expression over it does.
        """
        self.sweep()
        name = self.unique(step)
        with self._explained(expr, step):
            return self._owned(name, lambda: self._store(name, expr))

    def show(self, table: pa.Table) -> ir.Table:
        """An Arrow table as a table of this engine, for as long as an expression needs it."""
        name = self.unique("source")
        return self._owned(name, lambda: self._store(name, table))

    def _owned(self, name: str, make: Callable[[], ir.Table]) -> ir.Table:
        """A table that is dropped when no expression over it is left, or if making it fails."""
        try:
            table = make()
        except BaseException:
            _forget(self, name)
            raise
        finalizer = weakref.finalize(table.op(), _unneeded.append, (self, name))
        finalizer.atexit = False  # what is temporary goes with the process anyway
        return table

    def batches(self, expr: ir.Table) -> Iterator[pa.RecordBatch]:
        """The rows of `expr` in batches, for tables larger than memory."""
        with self._explained(expr):
            yield from self.backend.to_pyarrow_batches(expr)

    def mapped(
        self,
        expr: ir.Table,
        order: Sequence[str],
        work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> pa.Table:
        """What the engine's workers make of the rows, where they are; for engines with `maps`.

        Args:
            expr: the rows.
            order: columns; a worker gets a range of the first, with its rows sorted by all.
            work: from batches of rows to batches of the answer.
            schema: the columns of the answer.
        """
        raise NotImplementedError

    def spooled(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> ir.Table:
        """Rows as a table of this engine, written to a temporary file as they come.

        They need not fit in memory. The file goes with the last expression over the table.
        """
        scratch = ScratchFile("rows.parquet")
        with pq.ParquetWriter(scratch.path, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
        table = self.read_parquet([scratch.path])
        weakref.finalize(table.op(), scratch.remove)  # a bound method: the file stays until then
        return table

    def read_parquet(self, files: Sequence[str]) -> ir.Table:
        """Parquet files of the same columns, as one table."""
        return ibis.union(*[self.backend.read_parquet(file) for file in files])

    def drop(self, name: str) -> None:
        """Forget a table made by `materialise` or `show`."""
        self.backend.drop_table(name, force=True)

    def _store(self, name: str, rows: ir.Table | pa.Table) -> ir.Table:
        return self.backend.create_table(name, rows, temp=True)

    @contextmanager
    def _explained(
        self, expr: ir.Table | Callable[[], ir.Table], step: str | None = None
    ) -> Iterator[None]:
        """Turn an engine's failure into one error that names the step and shows its SQL."""
        try:
            with _unfused():
                yield
        except (KeyboardInterrupt, EngineError):
            raise
        except Exception as error:
            if self._interrupted(error):
                raise KeyboardInterrupt from error
            try:
                query = expr if isinstance(expr, ir.Table) else expr()
                sql = str(ibis.to_sql(query, dialect=self.name))
            except Exception:  # noqa: BLE001 - the failure may be that it cannot be compiled
                sql = "(no SQL: the expression did not compile)"
            what = f"step {step!r}" if step else "a query"
            raise EngineError(
                f"{self.name} failed in {what}: {error}\nThe statement was:\n{sql}"
            ) from error

    def _interrupted(self, error: Exception) -> bool:
        """Whether an engine's failure is the user's Ctrl-C."""
        return "interrupted" in str(error).lower() and isinstance(error, RuntimeError)

    @staticmethod
    def unique(step: str) -> str:
        """A table name nobody else uses."""
        return f"foreclick_{step}_{os.getpid()}_{next(_numbers)}"

    # --- what engines spell differently ------------------------------------------------------

    def element(self, array: ir.ArrayValue, k: int) -> ir.Value:
        """Element k (from 1) of an array, NULL where the array is shorter."""
        return (array.length() >= k).ifelse(array[k - 1], ibis.null(array.type().value_type))

    def microseconds(self, moment: ir.TimestampValue) -> ir.IntegerValue:
        """A timestamp as microseconds since 1970."""
        return moment.epoch_seconds().cast("int64") * 1_000_000 + moment.microsecond().cast("int64")

    def bucket(self, unit: ir.Value) -> ir.IntegerValue:
        """The unit's bucket: the first seven hex digits of the MD5 of its text, modulo 30.

        Ibis's own `hash` is another function on each engine; this is the same number everywhere.
        """
        return (self.hashed(unit) % BUCKETS).cast("int16")

    def drawn(self, value: ir.Value, share: float) -> ir.BooleanValue:
        """Whether a value (a context, a unit) is in a sample of this share: the same everywhere.

        A larger sample holds every smaller one. The salt keeps it apart from the buckets, and from
        an experiment that was drawn by the same hash.
        """
        return self.hashed(value, "foreclick:") < whole(round(share * HASHES))

    def hashed(self, value: ir.Value, salt: str = "") -> ir.IntegerValue:
        """A number below `HASHES`: the first seven hex digits of the MD5 of salt and text.

        It is the same on every engine, and `hashed_here` in Python.
        """
        text = value.cast("string").fill_null("")
        salted = ibis.literal(salt) + text if salt else text
        return self._hex_number(left(md5(salted), _DIGITS))

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        """A hexadecimal number of seven digits; engines with a function for it are faster."""
        number: ir.IntegerValue = ibis.literal(0, type="int64")
        for place in range(_DIGITS):
            digit = ibis.literal(_HEX).find(digits.substr(place, 1)).cast("int64")
            number = number * 16 + digit
        return number


def write_rows(rows: pa.Table, path: str | Path) -> None:
    """Write rows to one file, Parquet or CSV by its ending."""
    target = checked_file(path)
    with whole_file(target) as file:
        if target.suffix.lower() == ".csv":
            write_csv(rows, file)
        else:
            pq.write_table(rows, file, compression="zstd")


def checked_file(path: str | Path) -> Path:
    """A path that a table can be written to; to be known before the work, not after."""
    target = Path(path)
    if target.suffix.lower() not in _TABLES or not target.parent.is_dir():
        raise SourceError(
            f"a table cannot be written to {str(path)!r}: give a file that ends in "
            f"{' or '.join(_TABLES)}, in a directory that exists."
        )
    return target


def hashed_here(text: str) -> int:
    """What `Engine.hashed` gives for a text, with its salt in front."""
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:_DIGITS], 16)


def force(value: ir.Value, kind: str) -> ir.Value:
    """A cast that is always written out.

    Ibis leaves out a cast to the type it believes a value to have; engines disagree with it about
    sums of integers, which are 128 bits wide on DuckDB and decimals on PostgreSQL.
    """
    return ops.Cast(value, dt.dtype(kind)).to_expr()


def total(column: ir.NumericColumn) -> ir.NumericScalar:
    """The sum of a column, 0 for none; integers stay 64-bit integers on every engine."""
    if column.type().is_integer():
        return force(column.sum().fill_null(0), "int64")
    return column.cast("float64").sum().fill_null(real(0))


def count_of(condition: ir.BooleanColumn) -> ir.IntegerScalar:
    """In how many rows a condition holds; PostgreSQL does not make integers of booleans."""
    return total(condition.ifelse(whole(1), whole(0)))


def real(number: float) -> ir.FloatingScalar:
    """A double literal, exact to the last bit.

    Written as a number it would be a DECIMAL on some engines, and off by a unit in the last place.
    """
    return ibis.literal(repr(float(number))).cast("float64")


def whole(number: int) -> ir.IntegerScalar:
    """A 64-bit integer literal: a bare small one may come back as 8 or 32 bits."""
    return force(ibis.literal(number), "int64")


def zero(kind: dt.DataType) -> ir.NumericScalar:
    """0, as an integer or a double."""
    return whole(0) if kind.is_integer() else real(0)


def unordered(text: ir.StringValue) -> ir.StringValue:
    """Something to order texts by, the same on every engine: their own orders of texts differ."""
    return md5(text)


def absent(value: ir.Value) -> ir.BooleanValue:
    """Whether a value is NULL. On Spark, NULL is also what a NaN is asked for."""
    if value.type().is_floating():
        return value.isnull() & ~value.isnan().fill_null(False)
    return value.isnull()
