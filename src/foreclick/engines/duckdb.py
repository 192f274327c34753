"""DuckDB: the engine of a laptop, and of files, data frames and Arrow tables."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir

from foreclick.engines.base import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


class DuckDB(Engine):
    """Ibis's DuckDB backend, on DuckDB 1.5 and 2.0."""

    def element(self, array: ir.ArrayValue, k: int) -> ir.Value:
        """DuckDB answers NULL beyond the end by itself."""
        return array[k - 1]

    def batches(self, expr: ir.Table) -> Iterator[pa.RecordBatch]:
        """Ibis 12 misses the batch reader of DuckDB 2.0, so ask DuckDB itself."""
        with self._explained(expr):
            yield from _reader(self.backend.raw_sql(self.backend.compile(expr)))

    def show(self, table: pa.Table) -> ir.Table:
        """DuckDB scans an Arrow table where it lies, without a copy."""
        name = self.unique("source")
        self.backend.con.register(name, table)
        return self.backend.table(name)


def _reader(result: Any) -> Any:  # noqa: ANN401 - the class differs between DuckDB 1 and 2
    for method in ("to_arrow_reader", "fetch_record_batch"):
        if hasattr(result, method):
            return getattr(result, method)()
    raise NotImplementedError("this DuckDB has no Arrow batch reader")


def relation_to_arrow(relation: Any) -> pa.Table:  # noqa: ANN401
    """The rows of a DuckDB relation, whose method for it changed its name."""
    for method in ("to_arrow_table", "fetch_arrow_table"):
        if hasattr(relation, method):
            return getattr(relation, method)()
    found: pa.Table = relation.arrow()
    return found


@cache
def default_engine() -> DuckDB:
    """The DuckDB of this process, for sources that live in no engine of their own."""
    spill = Path(tempfile.gettempdir()) / f"foreclick-{os.getpid()}"
    backend = ibis.duckdb.connect(temp_directory=str(spill), preserve_insertion_order=False)
    return DuckDB(backend)
