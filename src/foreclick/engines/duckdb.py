"""DuckDB: the engine of a laptop, and of files, data frames and Arrow tables."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from threading import RLock
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from foreclick.engines.base import BATCH, ArrowDataset, Engine, Table
from foreclick.engines.files import ScratchFile, brief, is_remote, own_scratch, scanned, scheme_of
from foreclick.engines.spelling import DUCKDB

READER = b"reader"
"""Where the metadata of a table's columns says which function read its files."""

_LITTLE = "100MB"  # it cannot do without
_LOCKS: weakref.WeakKeyDictionary[Any, RLock] = weakref.WeakKeyDictionary()
_TYPES = {
    pa.int64(): "BIGINT",
    pa.int16(): "SMALLINT",
    pa.int8(): "TINYINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.date32(): "DATE",
}


class DuckDB(Engine):
    """A connection of DuckDB 1.5 or 2.0.

    Args:
        connection: of DuckDB.
        limit: of its memory, if we gave it one.
    """

    name = "duckdb"
    far = False
    hashes = True

    def __init__(self, connection: Any, *, limit: str | None = None) -> None:  # noqa: ANN401
        super().__init__(connection)
        self._limit = limit

    def arrow(self, sql: str, schema: pa.Schema | None = None) -> pa.RecordBatchReader:  # noqa: ARG002 - Arrow has its types
        """The rows of a SELECT in batches."""
        return self.connection.sql(sql).to_arrow_reader(BATCH)

    def ask(self, sql: str, schema: pa.Schema | None = None, step: str | None = None) -> pa.Table:
        """The rows of a SELECT; DuckDB makes a table faster than batches of it."""
        with self.explained(sql, step):
            table = self.connection.sql(sql).to_arrow_table()
            return table if schema is None else table.cast(schema)

    def keep(self, step: str, table: Table) -> Table:
        """In a temporary table, of exactly these types."""
        name = DUCKDB.name(self.unique(step))
        values = {f.name: DUCKDB.column(f.name) for f in table.kinds}
        typed = [f for f in table.kinds if f.type in _TYPES]  # DuckDB may have others for them
        values |= {f.name: f"CAST({values[f.name]} AS {_TYPES[f.type]})" for f in typed}
        sql = f"SELECT {DUCKDB.names(values)} FROM {table.rows} AS s"

        def make() -> None:
            with self.explained(sql, step):
                self.connection.execute(f"CREATE TEMPORARY TABLE {name} AS {sql}")

        drop = partial(self.connection.execute, f"DROP TABLE IF EXISTS {name}")
        return Table(self, name, table.kinds, self.owned(make, drop))

    def show(self, table: pa.Table | ArrowDataset) -> Table:
        """DuckDB scans an Arrow table, or a dataset, where it lies, without a copy."""
        name = self.unique("source")
        with self.alone():
            owner = self.owned(
                partial(self.connection.register, name, table),
                partial(self.connection.unregister, name),
            )
            return Table(self, DUCKDB.name(name), table.schema, owner)

    def spooled(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Table:
        """Rows that are written to a temporary file as they come."""
        scratch = ScratchFile("rows.parquet")
        with pq.ParquetWriter(scratch.path, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
        scan = f"read_parquet([{DUCKDB.literal(scratch.path)}], hive_partitioning = false)"
        return Table(self, scan, schema, scratch)

    def read_files(self, reader: str, files: Sequence[str], *, partitions: bool = True) -> Table:
        """One scan of them all. A view finds out once what the columns of a CSV file are."""
        for scheme, file in {scheme_of(file): file for file in files if is_remote(file)}.items():
            store = scanned(file)
            # DuckDB knows a store by the first of its schemes: https by http.
            known = [store.protocol] if isinstance(store.protocol, str) else store.protocol
            if not any(map(self.connection.filesystem_is_registered, {scheme, *known})):
                self.connection.register_filesystem(store)
        options = ", header = true" if reader == "read_csv" else ""
        options += "" if partitions else ", hive_partitioning = false"
        name = DUCKDB.name(self.unique("files"))
        scan = f"SELECT * FROM {reader}([{', '.join(map(DUCKDB.literal, files))}]{options})"
        with self.alone():
            owner = self.owned(
                partial(self.connection.execute, f"CREATE TEMPORARY VIEW {name} AS {scan}"),
                partial(self.connection.execute, f"DROP VIEW IF EXISTS {name}"),
            )
            table = self.table(name, owner)
        return replace(table, kinds=table.kinds.with_metadata({READER: reader}))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One thread at a time: a connection of DuckDB is not to be shared, and may hang.

        A thread that scans Arrow's rows for DuckDB waits for Python, while another one that has
        Python waits for the connection.
        """
        with _LOCKS.setdefault(self.connection, RLock()):
            yield

    def told(self, error: Exception, sql: str) -> str:
        """With its place in the statement, which a relation does not tell, and EXPLAIN does."""
        if isinstance(error, duckdb.BinderException):
            try:
                self.connection.execute(f"EXPLAIN {sql}")
            except duckdb.BinderException as placed:
                return brief(placed)
            except duckdb.Error:  # of what stands after FROM, which is no statement
                pass
        return brief(error)

    def release(self) -> None:
        """Put what it keeps in memory on disk, if it has a limit that we gave it."""
        if self._limit is None:
            return
        with self.alone(), suppress(duckdb.OutOfMemoryException):
            try:
                self.connection.execute(f"SET memory_limit = '{_LITTLE}'")
            finally:
                self.connection.execute("SET memory_limit = ?", [self._limit])


def laptop(memory_limit: str | None = None, threads: int | None = None) -> DuckDB:
    """A DuckDB in this process, with bounds of its own.

    Args:
        memory_limit: such as "2GB"; beyond it DuckDB spills to the temporary directory.
        threads: how many cores it may use.
    """
    settings: dict[str, Any] = {"preserve_insertion_order": False}
    settings["temp_directory"] = str(own_scratch())
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit
    if threads is not None:
        settings["threads"] = threads
    connection = duckdb.connect(config=settings)
    # Its own bar, after two seconds, would stand in what a command prints. In a notebook without
    # ipywidgets it has none, and refuses to hear of it.
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar_print = false")
    return DuckDB(connection, limit=memory_limit)


@cache
def default_engine() -> DuckDB:
    """The DuckDB of this process, for sources that live in no engine of their own."""
    return laptop()
