"""Which engines do what, found by trying: the table of docs/guide/engines.md comes from here.

    python -m tests.engines.world          prints it
    python -m tests.engines.world --write  writes it into the page

An engine *works* where the tally of a log in it is that of DuckDB, to the last bit. Warehouses that
are not here are asked for less: that every statement of a tally *compiles* to their SQL.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

import foreclick as fc
from foreclick.engines import Engine, Statement, laptop
from foreclick.engines.duckdb import DuckDB
from foreclick.engines.warehouses import WAREHOUSES
from tests.engines import elsewhere

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "engines.md"
COMPILED = ("snowflake", "databricks", "trino", "athena")
"""Warehouses that no test can start."""

HOW = {
    "duckdb": "temporary tables",
    "pyspark": "temporary views",
    "postgres": "temporary tables, or one SELECT",
    **dict.fromkeys(("bigquery", "clickhouse", "datafusion", *COMPILED), "one SELECT"),
    **dict.fromkeys(("sqlite", "polars"), "rows are read here"),
}
NAMES = {
    "bigquery": "BigQuery",
    "snowflake": "Snowflake",
    "trino": "Trino",
    "databricks": "Databricks",
    "clickhouse": "ClickHouse",
    "athena": "Athena",
    "datafusion": "DataFusion",
    "duckdb": "DuckDB",
    "pyspark": "Spark",
    "postgres": "PostgreSQL",
    "sqlite": "SQLite",
    "polars": "Polars",
}

_LISTS = [[1, 2], [2, 1], [1, 3]]
_CLICKS = [[1, 0], [0, 0], [0, 1], [1, 1]]
_RECORDS = [(_LISTS[i % 3], _CLICKS[i * 7 % 4], i % 4, f"u{i % 5}") for i in range(24)]

ARRAYS = pa.table(
    {
        "context": ["q"] * 24,
        "items": [items for items, _, _, _ in _RECORDS],
        "clicks": [clicks for _, clicks, _, _ in _RECORDS],
        "day": [day for _, _, day, _ in _RECORDS],
        "user": [user for _, _, _, user in _RECORDS],
    }
)
WIDE = pa.table(
    {
        "context": ["q"] * 24,
        **{f"i{k}": [items[k] for items, _, _, _ in _RECORDS] for k in (0, 1)},
        **{f"c{k}": [clicks[k] for _, clicks, _, _ in _RECORDS] for k in (0, 1)},
        "day": [day for _, _, day, _ in _RECORDS],
        "user": [user for _, _, _, user in _RECORDS],
    }
)
LONG = pa.table(
    {
        "list_id": [i for i in range(24) for _ in (0, 1)],
        "context": ["q"] * 48,
        "position": [1, 2] * 24,
        "item": [items[k] for items, _, _, _ in _RECORDS for k in (0, 1)],
        "click": [clicks[k] for _, clicks, _, _ in _RECORDS for k in (0, 1)],
        "day": [day for _, _, day, _ in _RECORDS for _ in (0, 1)],
    }
)
_POSITIONS: dict[str, Any] = {"items": ["i0", "i1"], "clicks": ["c0", "c1"], "period": "day"}
READINGS: dict[str, tuple[pa.Table, dict[str, Any]]] = {
    "lists as arrays": (ARRAYS, {"period": "day"}),
    "a column a position": (WIDE, _POSITIONS),
    "a row an impression": (LONG, {"layout": "long", "period": "day"}),
    "units": (WIDE, _POSITIONS | {"unit": "user"}),
}
COLUMNS = tuple(READINGS)


def tried(load: Callable[[pa.Table], ir.Table]) -> dict[str, str]:
    """What works in an engine that is here, by the names of `COLUMNS`."""
    return {name: _told(load, table, roles) for name, (table, roles) in READINGS.items()}


def _told(load: Callable[[pa.Table], ir.Table], table: pa.Table, roles: dict[str, Any]) -> str:
    expected = rows_of(fc.read_log(table, **roles))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = rows_of(fc.read_log(load(table), **roles))
    except Exception:  # noqa: BLE001 - whatever an engine lacks
        return "–"
    if not found.equals(expected):
        raise AssertionError("another tally")
    return "works"


def rows_of(log: fc.Log) -> pa.Table:
    """The compact rows of a log's tally, in order."""
    return pa.Table.from_batches(fc.tally(log).sorted_batches())


# --- SQL ----------------------------------------------------------------------------------------


class Recorder(DuckDB):
    """Answers as DuckDB, and remembers what a warehouse would have been asked, in its spelling."""

    def __init__(self, dialect: str) -> None:
        super().__init__(laptop().backend, read_only=True)
        kind = type("Spoken", (WAREHOUSES[dialect],), {"hashes": True})
        self.spoken: Engine = kind(None)
        self.asked: list[tuple[str, ir.Table]] = []

    def ask(self, statement: Statement, table: ir.Table, *options: Any) -> pa.Table:  # noqa: ANN401
        self.asked.append(("ask", statement(self.spoken, table, *options)))
        return super().ask(statement, table, *options)

    def make(self, step: str, statement: Statement, table: ir.Table, *options: Any) -> ir.Table:  # noqa: ANN401
        self.asked.append((step, statement(self.spoken, table, *options)))
        return self.materialise(statement(self, table, *options), step)


@cache
def statements(dialect: str, reading: str) -> tuple[tuple[str, ir.Table], ...]:
    """Every statement that a warehouse is asked for a tally."""
    engine, (table, roles) = Recorder(dialect), READINGS[reading]
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, f"{folder}/log.parquet")
        fc.read_log(f"{folder}/log.parquet", engine=engine, **roles)
    return tuple(engine.asked)


def compiled(dialect: str) -> str:
    """Whether all of them compile to a warehouse's SQL."""
    missing = set()
    for step, expr in (each for reading in READINGS for each in statements(dialect, reading)):
        try:
            ibis.to_sql(expr, dialect=dialect)
        except Exception as error:  # noqa: BLE001 - Ibis says it in many ways
            missing.add(f"{step}: {str(error).splitlines()[0]}")
    return "compiles" if not missing else f"lacks {'; '.join(sorted(missing))}"


def snapshot(dialect: str) -> str:
    """The statements of a tally with units, as a warehouse would read them."""
    texts = []
    for step, expr in statements(dialect, "units"):
        sql = re.sub(
            r"(ibis_read_parquet|foreclick_files)_\w+", "log", ibis.to_sql(expr, dialect=dialect)
        )
        texts.append(f"-- {step}\n{sql};\n")
    return "\n".join(texts)


# --- the table ----------------------------------------------------------------------------------


def table_of(found: dict[str, dict[str, str]], warehouses: tuple[str, ...] = COMPILED) -> str:
    """The table in Markdown: engines that are here, then warehouses."""
    cells = {engine: [cells[c] for c in COLUMNS] for engine, cells in found.items()}
    cells |= {dialect: [compiled(dialect)] * len(COLUMNS) for dialect in warehouses}
    rows = [["engine", "how the tally is made", *COLUMNS], ["---"] * (len(COLUMNS) + 2)]
    rows += [[NAMES[engine], HOW[engine], *some] for engine, some in cells.items()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written() -> str:
    """The table as the page has it."""
    return PAGE.read_text().split("<!-- table -->\n")[1]


def main() -> None:
    """Print the table, or write it into the page."""
    from tests import servers  # noqa: PLC0415

    found: dict[str, dict[str, str]] = {}
    with servers.duckdb_engine() as engine:
        found["duckdb"] = tried(engine.load)
    with servers.spark() as session:
        engine = servers.spark_engine(session)
        found["pyspark"] = tried(engine.load)
    with servers.postgres() as address:
        engine = servers.postgres_engine(ibis.postgres.connect(**address))
        found["postgres"] = tried(engine.load)
    text = table_of(found | {name: tried(elsewhere.opened(name)) for name in elsewhere.NAMES})
    sys.stdout.write(text)
    if "--write" in sys.argv:
        before, _, after = PAGE.read_text().split("<!-- table -->\n")
        PAGE.write_text(f"{before}<!-- table -->\n{text}<!-- table -->\n{after}")


if __name__ == "__main__":
    main()
