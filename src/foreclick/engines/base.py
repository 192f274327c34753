"""What every engine can do, through Ibis; the quirks of one engine are in its own module."""

from __future__ import annotations

import hashlib
import itertools
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

from foreclick.engines.files import ScratchFile
from foreclick.engines.stores import brief, harmless
from foreclick.engines.values import md5, substr
from foreclick.errors import STATEMENT, EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ibis.backends import BaseBackend

    from foreclick.engines.statements import Statement

listeners: list[Callable[[str, str | None, str, float], None]] = []
"""Called with each statement that an engine has answered: engine, step, SQL and seconds."""

BATCH = 100_000
"""Rows that are fetched at once."""

_numbers = itertools.count(1)
_HEX = "0123456789abcdef"
_DIGITS = 7  # 28 bits of the digest: far more than 30 buckets need, and no overflow anywhere

BUCKETS = 30
"""Units (users) survive in a tally as one of so many buckets."""

HASHES = 16**_DIGITS
"""How many numbers `Engine.hashed` can give."""

_PROBE = "foreclick: zoë 東京"
_proven: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Connections whose hash was found to be right; by their id, for Ibis calls others equal."""


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


class Engine:
    """A place where tables live and expressions are executed: one Ibis backend.

    The relational rooms build expressions; only this class and its children run them.

    Attributes:
        far: whether it is a cluster or a server, rather than part of this process.
        maps: whether it has workers that a Python function can be sent to.
        reads_raw: whether its tables are read row by row and all work is done at home.
        hashes: whether tests have shown that `hashed` is right there; otherwise it is asked.
        read_only: whether nothing may be created in it. What is computed there once is then fetched
            and kept at home. So it is by default: many engines have no temporary tables, or their
            sessions forget them.
    """

    far: ClassVar[bool] = True
    maps: ClassVar[bool] = False
    reads_raw: ClassVar[bool] = False
    hashes: ClassVar[bool] = False
    read_only: bool = True

    def __init__(self, backend: BaseBackend, *, read_only: bool = False) -> None:
        self.backend: Any = backend
        self.read_only = read_only or type(self).read_only

    @property
    def workplace(self) -> Engine:
        """Where `materialise`, `make` and `show` keep tables: here, or at home."""
        if not self.read_only:
            return self
        from foreclick.engines.duckdb import default_engine  # noqa: PLC0415 - built on this module

        return default_engine()

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
        return pa.Table.from_batches(self.batches(expr), _arrow_schema(expr))

    def ask(self, statement: Statement, table: ir.Table, *options: Any) -> pa.Table:  # noqa: ANN401
        """The rows of ``statement(engine, table, *options)``; see `statements`."""
        return self.fetch(statement(self, table, *options))

    def make(self, step: str, statement: Statement, table: ir.Table, *options: Any) -> ir.Table:  # noqa: ANN401
        """Keep the rows of ``statement(engine, table, *options)`` in the engine: `materialise`."""
        return self.materialise(statement(self, table, *options), step)

    def sweep(self) -> None:
        """Drop the tables of this engine that no expression needs any more."""
        with self._alone():
            for _ in range(len(_unneeded)):
                try:
                    engine, name = _unneeded.popleft()
                except IndexError:  # another thread was faster
                    return
                if engine == self:
                    _forget(self, name)
                else:
                    _unneeded.append((engine, name))

    def rows(self, expr: ir.Table) -> list[dict[str, Any]]:
        """The rows of a small `expr`, as dicts."""
        found: list[dict[str, Any]] = self.fetch(expr).to_pylist()
        return found

    def materialise(self, expr: ir.Table, step: str) -> ir.Table:
        """Execute `expr` once and keep its rows in `workplace`, under a name that says the step.

        The table lives as long as an expression over it does.
        """
        if self.read_only:
            with self._explained(expr, step):
                return self.brought(expr)
        self.sweep()
        name = self.unique(step)
        with self._explained(expr, step):
            return self._owned(name, lambda: self._store(name, expr))

    def held(self, expr: ir.Table, step: str) -> ir.Table:
        """`expr` executed once, if its rows may be kept where it lives; as it is elsewhere."""
        return expr if self.read_only else self.materialise(expr, step)

    def show(self, table: pa.Table) -> ir.Table:
        """An Arrow table as a table of `workplace`, for as long as an expression needs it."""
        if self.read_only:
            return self.workplace.show(table)
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
        schema = _arrow_schema(expr)
        with self._explained(expr):
            for batch in self._fetched(_without_booleans(expr)):
                yield batch.cast(schema)

    def _fetched(self, expr: ir.Table) -> Iterable[pa.RecordBatch]:
        """Batches as the engine's driver gives them, of the types that Ibis knows or others."""
        reader: Iterable[pa.RecordBatch] = self.backend.to_pyarrow_batches(expr, chunk_size=BATCH)
        return reader

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

    def brought(self, expr: ir.Table) -> ir.Table:
        """The rows of `expr` as a table at home; they need not fit in memory."""
        return self.workplace.spooled(_arrow_schema(expr), self.batches(expr))

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

    def read_files(self, reader: str, files: Sequence[str]) -> ir.Table:
        """Files or URLs of one format, as one table.

        Args:
            reader: read_parquet, read_csv or read_json.
            files: paths, globs or URLs.
        """
        read = getattr(self.backend, reader)
        return ibis.union(*[read(file) for file in files])

    def reaches(self, paths: Sequence[str]) -> bool:  # noqa: ARG002 - see children
        """Whether the engine lists and reads these URLs by itself."""
        return False

    def matches(self, path: str) -> list[str]:
        """The files that a URL or a glob names, for an engine that `reaches` them."""
        raise NotImplementedError

    def release(self) -> None:
        """Give back memory that is kept for tables which are not needed soon."""

    def drop(self, name: str) -> None:
        """Forget a table made by `materialise` or `show`."""
        self.backend.drop_table(name, force=True)

    def _store(self, name: str, rows: ir.Table | pa.Table) -> ir.Table:
        return self.backend.create_table(name, rows, temp=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time, for an engine whose connection threads must not share."""
        yield

    @contextmanager
    def _explained(
        self,
        expr: ir.Table | Callable[[], ir.Table],
        step: str | None = None,
        *,
        sent: bool = True,
    ) -> Iterator[None]:
        """Turn an engine's failure into one error that names the step and shows its SQL.

        `listeners` are told of the statement and its seconds, if it is sent, not only compiled.
        """
        with self._alone():
            start = time.perf_counter()
            try:
                with _unfused():
                    yield
                if listeners and sent:
                    seconds = time.perf_counter() - start
                    for listen in listeners:
                        listen(self.name, step, self._sql(expr), seconds)
            except (KeyboardInterrupt, EngineError):
                raise
            except Exception as error:
                if self._interrupted(error):
                    raise KeyboardInterrupt from error
                what = f"step {step!r}" if step else "a query"
                said = f"{self.name} failed in {what}: {brief(error)}{self._remedy()}"
                raise EngineError(f"{said}{STATEMENT}{self._sql(expr)}") from harmless(error)

    def _remedy(self) -> str:
        """What to do about a failure, where the engine's state tells; with a blank before it."""
        return ""

    def _sql(self, expr: ir.Table | Callable[[], ir.Table]) -> str:
        """A statement as the engine reads it, for people."""
        try:
            query = expr if isinstance(expr, ir.Table) else expr()
            return str(ibis.to_sql(query, dialect=self.name))
        except Exception:  # noqa: BLE001 - the failure may be that it cannot be compiled
            return "(no SQL: the expression did not compile)"

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

    def only(self, value: ir.Column, where: ir.BooleanColumn) -> ir.Scalar:
        """The one value of a group where a condition holds, NULL where it does nowhere."""
        return value.max(where=where)

    def distinct_count(self, array: ir.ArrayValue) -> ir.IntegerValue:
        """How many different elements an array has."""
        return array.unique().length()

    def listed(self, text: ir.StringValue) -> ir.ArrayValue:
        """A list that is written as text: JSON, or plain, such as ``[1, 2]``, ``a|b`` and ``a, b``.

        Text with quotes that is no JSON is NULL, and thus found by the rules of a log, not guessed.
        """
        bare = text.strip().re_replace(r"^\[|\]$", "").strip()
        plain = bare.re_replace(r"\s*[,|]\s*", ",")
        split = (plain == "").ifelse(ibis.null("array<string>"), plain.split(","))
        quoted = text.contains('"') | text.contains("'")
        return quoted.ifelse(self._from_json(text), split)

    def _from_json(self, text: ir.StringValue) -> ir.ArrayValue:  # noqa: ARG002 - see children
        """A list of text, of JSON; NULL where it is none, or the engine does not read JSON."""
        return ibis.null("array<string>")

    def microseconds(self, moment: ir.TimestampValue) -> ir.IntegerValue:
        """A timestamp as microseconds since 1970."""
        return moment.epoch_seconds().cast("int64") * 1_000_000 + moment.microsecond().cast("int64")

    def bucket(self, unit: ir.Value) -> ir.IntegerValue:
        """The unit's bucket: the first seven hex digits of the MD5 of its text, modulo 30.

        Ibis's own `hash` is another function on each engine; this is the same number everywhere.
        """
        return (self.hashed(unit) % BUCKETS).cast("int16")

    def hashed(self, value: ir.Value, salt: str = "") -> ir.IntegerValue:
        """A number below `HASHES`: the first seven hex digits of the MD5 of salt and text.

        It is the same on every engine, and `hashed_here` in Python.
        """
        self._check_hash()
        return self._hashed(value, salt)

    def _hashed(self, value: ir.Value, salt: str = "") -> ir.IntegerValue:
        text = value.cast("string").fill_null("")
        salted = ibis.literal(salt) + text if salt else text
        return self._hex_number(substr(self._md5(salted), 1, _DIGITS))

    def _check_hash(self) -> None:
        """Refuse an engine that hashes otherwise: its buckets would be wrong."""
        if self.hashes or _proven.get(id(self.backend)) is self.backend:
            return
        expected = hashed_here(_PROBE)
        remedy = (
            "Buckets of units would not be those of other engines. Read the log without unit=, or "
            "write it to Parquet files and read those."
        )
        try:
            probe = self._hashed(ibis.literal(_PROBE)).name("found").as_table()
            found = self.fetch(probe)["found"][0].as_py()
        except EngineError as error:
            raise EngineError(f"{self.name} has no MD5 that foreclick knows. {remedy}") from error
        if found != expected:
            raise EngineError(f"{self.name} hashes {_PROBE!r} to {found}, not {expected}. {remedy}")
        _proven[id(self.backend)] = self.backend

    def _md5(self, text: ir.StringValue) -> ir.StringValue:
        """The lower-case hexadecimal MD5 of UTF-8 text."""
        return md5(text)

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        """A hexadecimal number of seven digits; engines with a function for it are faster."""
        number: ir.IntegerValue = ibis.literal(0, type="int64")
        for place in range(_DIGITS):
            digit = ibis.literal(_HEX).find(substr(digits, place + 1, 1)).cast("int64")
            number = number * 16 + digit
        return number


def hashed_here(text: str) -> int:
    """What `Engine.hashed` gives for a text, with its salt in front."""
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:_DIGITS], 16)


def _arrow_schema(expr: ir.Table) -> pa.Schema:
    """The columns of an expression in Arrow, none of them marked as never NULL."""
    return pa.schema([field.with_nullable(True) for field in expr.schema().to_pyarrow()])


def _without_booleans(expr: ir.Table) -> ir.Table:
    """Booleans as 0 and 1: some engines have no others, and their drivers do not tell."""
    flags = [name for name, kind in expr.schema().items() if kind.is_boolean()]
    return expr.mutate(**{name: expr[name].cast("int32") for name in flags}) if flags else expr
