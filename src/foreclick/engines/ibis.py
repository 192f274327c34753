"""Tables of Ibis: their SQL text, and the Arrow reader of their backend. Ibis is an extra.

Of DuckDB, Spark and PostgreSQL, a backend only holds the connection. Warehouses that have a row in
`SPELLINGS` answer the SELECT of a tally; from any other database raw rows are read, and the work is
done here: some find "Anna" equal to "anna", some have no NaN or no dates, and in none of them did a
test show that the tally is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from foreclick.engines.base import BATCH, Engine, Table, fetched
from foreclick.engines.duckdb import DuckDB, default_engine
from foreclick.engines.kinds import nullable
from foreclick.engines.postgres import Postgres
from foreclick.engines.spark import Spark
from foreclick.engines.spelling import SPELLINGS


class Backend(Engine):
    """A backend of Ibis, by its own way to Arrow."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """Ibis's name of the engine."""
        return str(self.connection.name)

    def arrow(self, sql: str, schema: pa.Schema | None) -> pa.RecordBatchReader:
        """The rows of a SELECT."""
        import ibis
        import ibis.expr.operations as ops

        kinds = ibis.Schema.from_pyarrow(schema)
        expr = ops.SQLQueryResult(sql, kinds, self.connection).to_expr()
        return pa.RecordBatchReader.from_batches(schema, _fetched(self.connection, expr))

    def read_files(self, reader: str, files: Sequence[str], *, partitions: bool = True) -> Table:  # noqa: ARG002
        """Files that the backend reads by itself."""
        import ibis

        read = getattr(self.connection, reader)
        return open_table(ibis.union(*[read(file) for file in files]))


def engine_of(backend: Any) -> Engine:
    """The engine around an Ibis connection."""
    match backend.name:
        case "duckdb":
            return DuckDB(backend.con)
        case "pyspark":
            return Spark(backend._session)
        case "postgres":
            return Postgres(backend.con, default_engine())
    return Backend(backend, default_engine())


def open_table(expr: Any) -> Table:
    """An Ibis table as SQL text, or its rows at home."""
    backends, _ = expr._find_backends()
    schema = nullable(expr.schema().to_pyarrow())
    if not backends:  # a memtable belongs to no engine
        return default_engine().show(expr.to_pyarrow())
    backend = backends[0]
    if backend.name not in SPELLINGS:
        rows = (batch.cast(schema) for batch in _fetched(backend, expr))
        return default_engine().spooled(schema, rows)
    if hasattr(backend, "_run_pre_execute_hooks"):
        backend._run_pre_execute_hooks(expr)
    import ibis

    sql = ibis.to_sql(expr, dialect=backend.name)
    return Table(engine_of(backend), f"({sql})", schema, expr)


def _fetched(backend: Any, expr: Any) -> Iterable[pa.RecordBatch]:
    """Batches as the backend's driver gives them.

    Booleans come as 0 and 1: some engines have no others, and their drivers do not tell.
    """
    schema = expr.schema()
    flags = [name for name, kind in schema.items() if kind.is_boolean()]
    if flags:
        expr = expr.mutate(**{name: expr[name].cast("int32") for name in flags})
    if backend.name in ("mysql", "sqlite"):
        batches = _by_cursor(backend, expr)
    else:
        batches = backend.to_pyarrow_batches(expr, chunk_size=BATCH)
    kinds = nullable(schema.to_pyarrow())
    return (batch.cast(kinds) for batch in batches)


def _by_cursor(backend: Any, expr: Any) -> Iterator[pa.RecordBatch]:
    """Rows of a driver; Ibis takes them through pandas, which makes doubles of large integers."""
    sent = [
        f.with_type(pa.string())
        if backend.name == "sqlite" and pa.types.is_temporal(f.type)  # which are text there
        else f
        for f in expr.schema().to_pyarrow()
    ]
    with closing(backend.raw_sql(backend.compile(expr))) as cursor:
        yield from fetched(cursor, pa.schema(sent))
