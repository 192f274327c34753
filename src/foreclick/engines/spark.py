"""Spark: the engine of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from foreclick.engines.base import Engine
from foreclick.engines.values import force

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def conv(digits: str, base: int, to: int) -> str:  # type: ignore[empty-body]
    """A number in another base, as text."""


@cache
def _get(array: dt.Array) -> Callable[[ir.ArrayValue, int], ir.Value]:
    """Spark's `get` for arrays of this type: an element counted from 0, NULL beyond the end.

    Ibis writes `element_at`, which raises an error there.
    """

    def get(array: ir.ArrayValue, index: int) -> None: ...

    signature = ((array, dt.int32), array.value_type)
    found: Callable[[ir.ArrayValue, int], ir.Value] = ibis.udf.scalar.builtin(
        get, signature=signature
    )
    return found


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def unix_micros(moment: dt.timestamp) -> int:  # type: ignore[empty-body]
    """Microseconds since 1970."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def from_json(text: str, form: str) -> dt.Array(dt.string):  # type: ignore[valid-type]
    """JSON of a form, NULL if it is none."""


class Spark(Engine):
    """Ibis's PySpark backend.

    Ibis fetches from Spark and uploads to it through pandas, which turns large integers into
    doubles and NaN into NULL; Arrow keeps them, so rows go through Spark's own Arrow methods here.
    """

    maps = True
    hashes = True
    read_only = False

    @classmethod
    def open(cls, frame: Any) -> tuple[Engine, ir.Table]:  # noqa: ANN401 - pyspark is optional
        """The Ibis table of a Spark DataFrame."""
        engine = cls(ibis.pyspark.connect(frame.sparkSession))
        engine.sweep()
        name = cls.unique("source")
        frame.createOrReplaceTempView(name)
        return engine, engine._owned(name, lambda: engine.backend.table(name))

    def read_parquet(self, files: Sequence[str]) -> ir.Table:
        """One scan of them all."""
        return self.open(self._session.read.parquet(*files))[1]

    @property
    def _place(self) -> object:
        """Tables are those of the session, whichever Ibis connection found them."""
        return self._session

    def _frame(self, expr: ir.Table) -> Any:  # noqa: ANN401 - a Spark DataFrame
        self.backend._run_pre_execute_hooks(expr)  # noqa: SLF001 - registers memtables
        return self._session.sql(self.backend.compile(expr))

    @property
    def _session(self) -> Any:  # noqa: ANN401 - a SparkSession
        return self.backend._session  # noqa: SLF001 - Ibis has no public name for it

    def fetch(self, expr: ir.Table) -> pa.Table:
        """Through Arrow, exactly."""
        with self._explained(expr):
            return self._frame(expr).toArrow().cast(expr.schema().to_pyarrow())

    def mapped(
        self,
        expr: ir.Table,
        order: Sequence[str],
        work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> pa.Table:
        """In tasks, where the rows are; foreclick must be installed on the workers."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

        frame = self._frame(expr).select(*expr.columns)
        ranges = frame.repartitionByRange(frame[order[0]]).sortWithinPartitions(*order)
        with self._explained(expr):
            return ranges.mapInArrow(work, from_arrow_schema(schema)).toArrow().cast(schema)

    def batches(self, expr: ir.Table) -> Iterator[pa.RecordBatch]:
        """All rows at once: Spark has no Arrow cursor."""
        yield from self.fetch(expr).to_batches()

    def _store(self, name: str, rows: ir.Table | pa.Table) -> ir.Table:
        """Spark has no temporary tables: a view whose rows are kept.

        It can be recomputed from its lineage if an executor is lost.
        """
        frame = (
            self._frame(rows) if isinstance(rows, ir.Table) else self._session.createDataFrame(rows)
        )
        frame.createOrReplaceTempView(name)
        if isinstance(rows, ir.Table):
            # By the view's name: Spark Connect would look up the frame's own sources once more to
            # free it, and they may be gone by then.
            self._session.catalog.cacheTable(name)
            self._session.table(name).count()
        return self.backend.table(name)

    def drop(self, name: str) -> None:
        """Forget the view and free what it kept."""
        with suppress(Exception):  # no such view, or none that is kept
            self._session.catalog.uncacheTable(name)
        self._session.catalog.dropTempView(name)

    def element(self, array: ir.ArrayValue, k: int) -> ir.Value:
        """Without a look at how long the array is."""
        return _get(array.type())(array, k - 1)

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        return conv(digits, 16, 10).cast("int64")

    def _from_json(self, text: ir.StringValue) -> ir.ArrayValue:
        form = "array<string>"
        single = from_json(text.replace("'", '"'), form)  # as Python writes lists
        return ibis.coalesce(from_json(text, form), single)

    def microseconds(self, moment: ir.TimestampValue) -> ir.IntegerValue:
        """Ibis does not ask Spark for microseconds; Spark has them of times with a zone only."""
        return unix_micros(force(moment, "timestamp('UTC')"))
