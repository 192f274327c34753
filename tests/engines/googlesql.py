"""BigQuery's SQL on this machine: GoogleSQL's reference engine, as far as foreclick asks for it.

Ibis compiles as for BigQuery; what analyses and runs the statement is Google's own code. There is
no server, so there are neither sessions nor temporary tables.
"""

from __future__ import annotations

import datetime as dt
from itertools import count
from typing import Any

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import pyarrow as pa
import wasmtime
import zetasql.core.wasm_client
import zetasql.types as zt
from sqlglot.dialects.bigquery import BigQuery
from zetasql.api import (
    CatalogBuilder,
    PreparedQuery,
    TableBuilder,
    TypeFactory,
    create_table_content,
)
from zetasql.types import TypeKind

_EPOCH = dt.date(1970, 1, 1)
_WINCH = 2  # wasmtime's name for it in C; its Python has none


class _Quickly(wasmtime.Config):
    """The engine is 28 MB of WebAssembly: a minute to compile well, a quarter of it otherwise."""

    def __init__(self) -> None:
        super().__init__()
        wasmtime._ffi.wasmtime_config_strategy_set(self.ptr(), _WINCH)
        self.wasm_threads = True
        self.cache = True  # what was compiled once is read from the cache of this user


zetasql.core.wasm_client.Config = _Quickly


class GoogleSQL:
    """Tables in memory; what Ibis and foreclick ask of a connection to BigQuery."""

    name = "bigquery"
    dialect = BigQuery

    def __init__(self) -> None:
        self.tables: dict[str, pa.Table] = {}
        self._names = (f"t{number}" for number in count())

    def load(self, table: pa.Table) -> ir.Table:
        """A table with these rows."""
        name = next(self._names)
        self.tables[name] = table
        schema = ibis.Schema.from_pyarrow(table.schema)
        return ops.DatabaseTable(name, schema=schema, source=self).to_expr()

    def to_pyarrow_batches(self, expr: ir.Table, *, chunk_size: int) -> list[pa.RecordBatch]:
        """The rows of an expression."""
        sql = str(ibis.to_sql(expr, dialect="bigquery"))
        used = [name for name in self.tables if f"`{name}`" in sql]
        language = zt.LanguageOptions.maximum_features()
        builtin = zt.ZetaSQLBuiltinFunctionOptions(language_options=language)
        catalog = CatalogBuilder("here").with_builtin_functions(builtin)
        for name in used:
            table = TableBuilder(name)
            for field in self.tables[name].schema:
                table = table.add_column(field.name, _type(field.type))
            catalog = catalog.add_table(table.build())
        query = (
            PreparedQuery.builder()
            .set_sql(sql)
            .set_analyzer_options(zt.AnalyzerOptions(language_options=language))
            .set_catalog(catalog.build())
            .set_table_content({name: _content(self.tables[name]) for name in used})
            .prepare()
        )
        with query:
            found = query.execute().content.table_data
        if found is None or not found.row:
            return []
        schema = expr.schema().to_pyarrow()
        columns = zip(*[[_read(cell) for cell in row.cell] for row in found.row], strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        return [pa.RecordBatch.from_arrays(arrays, schema=schema)]


def _type(kind: pa.DataType) -> Any:  # noqa: ANN401 - a type of GoogleSQL
    if pa.types.is_list(kind):
        return TypeFactory.create_array_type(_type(kind.value_type))
    names = {"int64": "INT64", "double": "DOUBLE", "string": "STRING", "date32[day]": "DATE"}
    name = names.get(str(kind)) or "DATETIME"
    return TypeFactory.create_simple_type(getattr(TypeKind, f"TYPE_{name}"))


def _content(table: pa.Table) -> zt.TableContent:
    found = create_table_content([])
    found.table_data = zt.TableData(
        row=[
            zt.TableData.Row(cell=[_written(value) for value in row.values()])
            for row in table.to_pylist()
        ]
    )
    return found


def _written(value: Any) -> zt.Value:  # noqa: ANN401
    match value:
        case None:
            return zt.Value()
        case list():
            return zt.Value(array_value=zt.Value.Array(element=[_written(v) for v in value]))
        case str():
            return zt.Value(string_value=value)
        case float():
            return zt.Value(double_value=value)
        case dt.datetime():
            return zt.Value(datetime_value=_packed(value))
        case dt.date():
            return zt.Value(date_value=(value - _EPOCH).days)
        case _:
            return zt.Value(int64_value=value)


def _packed(time: dt.datetime) -> zt.Value.Datetime:
    """The bits of year, month, day, hour, minute and second, one behind the other."""
    bits = time.year
    for width, part in zip((4, 5, 5, 6, 6), time.timetuple()[1:6], strict=True):
        bits = bits << width | part
    return zt.Value.Datetime(bit_field_datetime_seconds=bits)


def _read(cell: Any) -> Any:  # noqa: ANN401
    return _plain(cell.to_proto())


def _plain(proto: Any) -> Any:  # noqa: ANN401 - a value of GoogleSQL
    which = proto.WhichOneof("value")
    match which:
        case None:
            return None
        case "array_value":
            return [_plain(element) for element in proto.array_value.element]
        case "date_value":
            return _EPOCH + dt.timedelta(days=proto.date_value)
        case "datetime_value":
            return _unpacked(proto.datetime_value.bit_field_datetime_seconds)
    return getattr(proto, which)


def _unpacked(bits: int) -> dt.datetime:
    """The inverse of `_packed`."""
    parts = []
    for width in (6, 6, 5, 5, 4):
        parts.append(bits & ((1 << width) - 1))
        bits >>= width
    month, day, hour, minute, second = reversed(parts)
    return dt.datetime(bits, month, day, hour, minute, second)  # noqa: DTZ001 - it has no zone
