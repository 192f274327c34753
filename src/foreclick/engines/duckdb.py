"""DuckDB: the engine of a laptop, and of files, data frames and Arrow tables."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import duckdb
import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import sqlglot.expressions as sge
from ibis import Schema

from foreclick.engines import stores
from foreclick.engines.base import Engine
from foreclick.engines.files import abandoned, machine
from foreclick.engines.statements import Kept, Source, Statement, about, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from foreclick.engines.lakes import ArrowDataset


_BATCH = 100_000
_EXTENSIONS = dict.fromkeys(("s3", "s3a", "gs", "gcs", "http", "https"), "httpfs")
_EXTENSIONS |= dict.fromkeys(("az", "abfs", "abfss"), "azure")
_TEMPORARY = ops.Namespace(catalog="temp", database="main")
_LIMIT = "_foreclick_limit"  # of memory, as an attribute of the backend
_LITTLE = "100MB"  # it cannot do without
_COMPILED = Kept()
_SHOWN: dict[pa.Schema, tuple[Schema, ops.Namespace]] = {}


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def json_valid(text: str) -> bool:  # type: ignore[empty-body]
    """Whether text is JSON."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def from_json(text: str, form: str) -> dt.Array(dt.string):  # type: ignore[valid-type]
    """JSON of a form."""


@cache
def _list_unique(array: dt.Array) -> Callable[[ir.ArrayValue], ir.IntegerValue]:
    """DuckDB's own count; Ibis 12 writes a lambda that DuckDB 2.0 does not read."""

    def list_unique(array: ir.ArrayValue) -> None: ...

    found: Callable[[ir.ArrayValue], ir.IntegerValue] = ibis.udf.scalar.builtin(
        list_unique, signature=((array,), dt.int64)
    )
    return found


class DuckDB(Engine):
    """Ibis's DuckDB backend, on DuckDB 1.5 and 2.0."""

    far = False
    hashes = True
    read_only = False

    def element(self, array: ir.ArrayValue, k: int) -> ir.Value:
        """DuckDB answers NULL beyond the end by itself."""
        return array[k - 1]

    def distinct_count(self, array: ir.ArrayValue) -> ir.IntegerValue:
        """Without a lambda."""
        return _list_unique(array.type())(array)

    def _from_json(self, text: ir.StringValue) -> ir.ArrayValue:
        double = json_valid(text).ifelse(text, text.replace("'", '"'))  # as Python writes lists
        there = json_valid(double).ifelse(double, ibis.null("string"))
        return from_json(there, '["VARCHAR"]')

    def fetch(self, expr: ir.Table) -> pa.Table:
        """Ask DuckDB itself: Ibis imports pandas to fetch a table."""
        with self._explained(expr):
            return self._relation(expr).to_arrow_table().cast(expr.schema().to_pyarrow())

    def ask(self, statement: Statement, table: ir.Table, *options: Any) -> pa.Table:  # noqa: ANN401
        """The rows of a statement, compiled once for all tables of the same columns."""
        known = self._compiled_once(statement, table, options)
        if known is None:
            return super().ask(statement, table, *options)
        sql, schema = known
        with self._explained(lambda: statement(self, table, *options)):
            return self.backend.con.sql(sql).to_arrow_table().cast(schema.to_pyarrow())

    def make(self, step: str, statement: Statement, table: ir.Table, *options: Any) -> ir.Table:  # noqa: ANN401
        """Keep the rows of a statement, compiled once for all tables of the same columns."""
        known = None if self.read_only else self._compiled_once(statement, table, options)
        if known is None:
            return super().make(step, statement, table, *options)
        self.sweep()
        name = self.unique(step)
        with self._explained(lambda: statement(self, table, *options), step):
            return self._owned(name, lambda: self._filled(name, *known))

    def _compiled_once(
        self, statement: Statement, table: ir.Table, options: tuple[Any, ...]
    ) -> tuple[str, Schema] | None:
        """The SQL of a statement and its columns; None if the table is no plain table."""
        source = Source.of(table)
        if source is None:
            return None

        def compiled() -> tuple[str, Schema]:
            expr = statement(self, source.unnamed(), *options)
            with self._explained(expr, sent=False):
                return self.backend.compile(expr), expr.schema()

        sql, schema = _COMPILED.get(statement, source, options, compiled)
        return about(sql, source), schema

    def _store(self, name: str, rows: ir.Table | pa.Table) -> ir.Table:
        if not isinstance(rows, ir.Table):
            return super()._store(name, rows)
        self.backend._run_pre_execute_hooks(rows)  # noqa: SLF001 - registers memtables
        return self._filled(name, self.backend.compile(rows), rows.schema())

    def _filled(self, name: str, sql: str, schema: Schema) -> ir.Table:
        """A new table with the rows of a query. Ibis would ask for its columns, which are known."""
        self.backend.con.execute(f'CREATE TEMPORARY TABLE "{name}" ({_columns(schema)})')
        self.backend.con.execute(f'INSERT INTO "{name}" {sql}')
        return named(name, schema, _TEMPORARY, self.backend)

    def batches(self, expr: ir.Table) -> Iterator[pa.RecordBatch]:
        """Ibis 12 misses the batch reader of DuckDB 2.0, so ask DuckDB itself."""
        with self._explained(expr):
            yield from self._relation(expr).to_arrow_reader(_BATCH)

    def _relation(self, expr: ir.Table) -> Any:  # noqa: ANN401 - a DuckDB relation
        self.backend._run_pre_execute_hooks(expr)  # noqa: SLF001 - registers memtables
        return self.backend.con.sql(self.backend.compile(expr))

    def read_parquet(self, files: Sequence[str]) -> ir.Table:
        """One scan of them all; a directory's name is no column."""
        names = sge.convert(list(files)).sql("duckdb")
        with self._explained(lambda: self.backend.table("files"), "reading a tally", sent=False):
            return self._view(f"read_parquet({names}, hive_partitioning = false)")

    def read_files(self, reader: str, files: Sequence[str]) -> ir.Table:
        """One scan of them all; of ``day=3/`` in their paths, DuckDB makes a column.

        Ibis would download an extension to read a URL.
        """
        for scheme in {found for file in files if (found := stores.scheme_of(file))}:
            self._reach(scheme, next(file for file in files if stores.scheme_of(file) == scheme))
        names = sge.convert(list(files)).sql("duckdb")
        header = ", header = true" if reader == "read_csv" else ""
        with self._alone():
            return self._view(f"{reader}({names}{header})")

    def _view(self, scan: str) -> ir.Table:
        """A scan of files as a table, for as long as an expression needs it."""
        name = self.unique("files")

        def view() -> ir.Table:
            rows = f"SELECT * FROM {scan}"  # noqa: S608 - names are escaped
            self.backend.con.execute(f'CREATE TEMPORARY VIEW "{name}" AS {rows}')
            return self.backend.table(name)

        return self._owned(name, view)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time: a connection of DuckDB is not to be shared, and may hang.

        A thread that scans Arrow's rows for DuckDB waits for Python, while another one that has
        Python waits for the connection.
        """
        with self.backend.__dict__.setdefault("_foreclick_alone", RLock()):
            yield

    def _reach(self, scheme: str, file: str) -> None:
        """Read files of a store through fsspec, unless DuckDB has an extension for it."""
        con = self.backend.con
        if not self.reaches([file]):
            store = stores.scanned(file)
            # DuckDB knows a store by the first of its schemes: https by http.
            names = [store.protocol] if isinstance(store.protocol, str) else store.protocol
            if not any(map(con.filesystem_is_registered, {scheme, *names})):
                con.register_filesystem(store)

    def reaches(self, paths: Sequence[str]) -> bool:
        """Whether the extension for these URLs is loaded, as it is by a secret of the user's."""
        needed = {_EXTENSIONS.get(stores.scheme_of(path) or "") for path in paths}
        if None in needed:
            return False
        loaded = "SELECT extension_name FROM duckdb_extensions() WHERE loaded"
        with self._alone():
            return needed <= {name for (name,) in self.backend.con.execute(loaded).fetchall()}

    def matches(self, path: str) -> list[str]:
        """The files that a URL or a glob names, listed by DuckDB with its secrets."""
        with self._alone():
            found = self.backend.con.execute("SELECT file FROM glob(?)", [path]).fetchall()
        return sorted(file for (file,) in found)

    def show(self, table: pa.Table | ArrowDataset) -> ir.Table:
        """DuckDB scans an Arrow table, or a dataset, where it lies, without a copy."""
        name = self.unique("source")

        def register() -> ir.Table:
            self.backend.con.register(name, table)
            if table.schema not in _SHOWN:  # DuckDB is asked once what it makes of Arrow's types
                shown = self.backend.table(name).op()
                _SHOWN[table.schema] = shown.schema, shown.namespace
            return named(name, *_SHOWN[table.schema], self.backend)

        with self._alone():
            return self._owned(name, register)

    def release(self) -> None:
        """Put what it keeps in memory on disk, if it has a limit that we gave it."""
        limit = self.backend.__dict__.get(_LIMIT)
        if limit is None:
            return
        with self._alone(), suppress(duckdb.OutOfMemoryException):
            try:
                self.backend.con.execute(f"SET memory_limit = '{_LITTLE}'")
            finally:
                self.backend.con.execute("SET memory_limit = ?", [limit])

    def drop(self, name: str) -> None:
        """Forget a table, or an Arrow table that was shown."""
        if "_source_" in name:
            self.backend.con.unregister(name)
        elif "_files_" in name:
            self.backend.con.execute(f'DROP VIEW IF EXISTS "{name}"')
        else:
            super().drop(name)

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        return (ibis.literal("0x") + digits).cast("int64")


@lru_cache(1_000)
def _columns(schema: Schema) -> str:
    """The columns of a table in SQL."""
    return ", ".join(c.sql("duckdb") for c in schema.to_sqlglot_column_defs("duckdb"))


def relation_to_arrow(relation: Any) -> pa.Table:  # noqa: ANN401 - of any connection
    """The rows of a DuckDB relation; it does not tell its connection, so they are copied."""
    return relation.to_arrow_table()


def laptop(memory_limit: str | None = None, threads: int | None = None) -> DuckDB:
    """A DuckDB in this process, with bounds of its own.

    Args:
        memory_limit: such as "2GB"; beyond it DuckDB spills to the temporary directory.
        threads: how many cores it may use.
    """
    settings: dict[str, Any] = {"preserve_insertion_order": False}
    spilled, name = Path(tempfile.gettempdir()), f"foreclick-{machine()}-"
    for left in abandoned(spilled, name):  # by processes that were killed
        shutil.rmtree(left, ignore_errors=True)
    settings["temp_directory"] = str(spilled / f"{name}{os.getpid()}")
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit
    if threads is not None:
        settings["threads"] = threads
    engine = DuckDB(ibis.duckdb.connect(**settings))
    engine.backend.__dict__[_LIMIT] = memory_limit
    return engine


@cache
def default_engine() -> DuckDB:
    """The DuckDB of this process, for sources that live in no engine of their own."""
    return laptop()
