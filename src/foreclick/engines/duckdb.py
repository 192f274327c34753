"""DuckDB: the engine of a laptop, and of files, data frames and Arrow tables."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir

from foreclick.engines.base import Engine, abandoned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa


_BATCH = 100_000
_SPILL = f"foreclick-{platform.node()}-"


class DuckDB(Engine):
    """Ibis's DuckDB backend, on DuckDB 1.5 and 2.0."""

    far = False

    def element(self, array: ir.ArrayValue, k: int) -> ir.Value:
        """DuckDB answers NULL beyond the end by itself."""
        return array[k - 1]

    def extremes(self, values: Sequence[ir.NumericValue]) -> tuple[ir.Value, ir.Value]:
        """DuckDB leaves NULLs out by itself, which saves a tenth of the tally."""
        if len(values) == 1:
            return values[0], values[0]
        return ibis.least(*values), ibis.greatest(*values)

    def fetch(self, expr: ir.Table) -> pa.Table:
        """Ask DuckDB itself: Ibis imports pandas to fetch a table."""
        with self._explained(expr):
            return self._relation(expr).to_arrow_table().cast(expr.schema().to_pyarrow())

    def batches(self, expr: ir.Table) -> Iterator[pa.RecordBatch]:
        """Ibis 12 misses the batch reader of DuckDB 2.0, so ask DuckDB itself."""
        with self._explained(expr):
            yield from self._relation(expr).to_arrow_reader(_BATCH)

    def _relation(self, expr: ir.Table) -> Any:  # noqa: ANN401 - a DuckDB relation
        self.backend._run_pre_execute_hooks(expr)  # noqa: SLF001 - registers memtables
        return self.backend.con.sql(self.backend.compile(expr))

    def read_parquet(self, files: Sequence[str]) -> ir.Table:
        """One scan of them all; a directory's name is no column."""
        return self.backend.read_parquet(list(files), hive_partitioning=False)

    def show(self, table: pa.Table) -> ir.Table:
        """DuckDB scans an Arrow table where it lies, without a copy."""
        name = self.unique("source")

        def register() -> ir.Table:
            self.backend.con.register(name, table)
            return self.backend.table(name)

        return self._owned(name, register)

    def drop(self, name: str) -> None:
        """Forget a table, or an Arrow table that was shown."""
        if "_source_" in name:
            self.backend.con.unregister(name)
        else:
            super().drop(name)

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        return (ibis.literal("0x") + digits).cast("int64")


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
    spilled = Path(tempfile.gettempdir())
    for left in abandoned(spilled, _SPILL):  # by processes that were killed
        shutil.rmtree(left, ignore_errors=True)
    settings["temp_directory"] = str(spilled / f"{_SPILL}{os.getpid()}")
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit
    if threads is not None:
        settings["threads"] = threads
    return DuckDB(ibis.duckdb.connect(**settings))


@cache
def default_engine() -> DuckDB:
    """The DuckDB of this process, for sources that live in no engine of their own."""
    return laptop()
