"""Spark: the engine of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa

from foreclick.engines.base import Engine, Table, Work


class Spark(Engine):
    """A session of Spark, or of Spark Connect."""

    name = "pyspark"
    maps = True
    hashes = True

    def arrow(self, sql: str, schema: pa.Schema | None = None) -> pa.RecordBatchReader:  # noqa: ARG002 - Arrow has its types
        """All rows at once: Spark has no Arrow cursor."""
        return self.connection.sql(sql).toArrow().to_reader()

    def opened(self, frame: Any) -> Table:  # noqa: ANN401
        """A DataFrame of this session, as a table."""
        name = self.unique("source")
        make, drop = partial(frame.createOrReplaceTempView, name), partial(self._drop, name)
        return self.table(name, self.owned(make, drop))

    def keep(self, step: str, table: Table) -> Table:
        """Spark has no temporary tables: a view whose rows are kept.

        It can be recomputed from its lineage if an executor is lost.
        """
        name = self.unique(step)

        def make() -> None:
            with self.explained(table.sql, step):
                self.connection.sql(table.sql).createOrReplaceTempView(name)
                # By the view's name: Spark Connect would look up the frame's own sources once more
                # to free it, and they may be gone by then.
                self.connection.catalog.cacheTable(name)
                self.connection.table(name).count()

        return Table(self, name, table.kinds, self.owned(make, partial(self._drop, name)))

    def show(self, table: pa.Table) -> Table:
        """A view of rows that are sent there."""
        return self.opened(self.connection.createDataFrame(table))

    def read_files(self, reader: str, files: Sequence[str], *, partitions: bool = True) -> Table:  # noqa: ARG002 - as Spark does
        """One scan of them all."""
        options = {"header": "true", "inferSchema": "true"} if reader == "read_csv" else {}
        read = self.connection.read.options(**options)
        return self.opened(getattr(read, reader.removeprefix("read_"))(list(files)))

    def mapped(self, table: Table, order: Sequence[str], work: Work, schema: pa.Schema) -> pa.Table:
        """In tasks, where the rows are; foreclick must be installed on the workers."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

        with self.explained(table.sql):
            frame = self.connection.sql(table.sql)
            ranges = frame.repartitionByRange(frame[order[0]]).sortWithinPartitions(*order)
            return ranges.mapInArrow(work, from_arrow_schema(schema)).toArrow().cast(schema)

    def _drop(self, name: str) -> None:
        """Forget the view and free what it kept."""
        with suppress(Exception):  # no such view, or none that is kept
            self.connection.catalog.uncacheTable(name)
        self.connection.catalog.dropTempView(name)
