"""Engines beside DuckDB, Spark and PostgreSQL that run in this process: how a table gets there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from tests.servers import EngineMissing

Load = Callable[[pa.Table], ir.Table]
_names = (f"t{number}" for number in count())


def clickhouse() -> Load:
    """ClickHouse, whose arrays are never NULL."""
    connection = ibis.clickhouse.connect(interface="chdb")

    def load(table: pa.Table) -> ir.Table:
        name = next(_names)
        connection.create_table(name, schema=ibis.Schema.from_pyarrow(table.schema))
        connection.con.insert_arrow(name, table)
        return connection.table(name)

    return load


def googlesql() -> Load:
    """The SQL of BigQuery, run by GoogleSQL's reference engine."""
    from tests.engines.googlesql import GoogleSQL  # noqa: PLC0415 - a package for tests

    return GoogleSQL().load


def sqlite() -> Load:
    """SQLite; Ibis would write large integers as doubles."""
    connection = ibis.sqlite.connect()

    def load(table: pa.Table) -> ir.Table:
        name = next(_names)
        connection.create_table(name, schema=ibis.Schema.from_pyarrow(table.schema))
        places = ", ".join("?" * table.num_columns)
        rows = [[_text(value) for value in row.values()] for row in table.to_pylist()]
        connection.con.executemany(f"INSERT INTO {name} VALUES ({places})", rows)
        return connection.table(name)

    return load


def _text(value: Any) -> Any:  # noqa: ANN401 - a value of any column
    return str(value) if isinstance(value, dt.date) else value


def _of_ibis(backend: str) -> Load:
    connection = getattr(ibis, backend).connect()
    return lambda table: connection.create_table(next(_names), table)


_OPENED: dict[str, Callable[[], Load]] = {
    "bigquery": googlesql,
    "clickhouse": clickhouse,
    "datafusion": partial(_of_ibis, "datafusion"),
    "polars": partial(_of_ibis, "polars"),
    "sqlite": sqlite,
}
NAMES = tuple(_OPENED)


def opened(name: str) -> Load:
    """A function that puts a table into a new instance of an engine."""
    try:
        return _OPENED[name]()
    except ImportError as error:
        raise EngineMissing(f"no package for {name}: {error}") from error
