"""Which engines do what, found by trying: the table of docs/guide/engines.md comes from here.

    python -m tests.engines.world          prints it
    python -m tests.engines.world --write  writes it into the page

An engine *works* where the tally of a log in it is that of DuckDB, to the last bit. Warehouses that
are not here are asked for less: that every statement of a tally *compiles* to their SQL.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

import foreclick as fc
from foreclick.engines import Engine, laptop
from foreclick.engines.duckdb import DuckDB

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "engines.md"
WAREHOUSES = ("bigquery", "snowflake", "trino", "databricks", "clickhouse", "athena", "datafusion")
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
    """DuckDB that remembers every statement it is asked for."""

    far = True  # so that nothing is sorted there

    def __init__(self) -> None:
        super().__init__(laptop().backend)
        self.asked: list[tuple[str, ir.Table]] = []

    ask, make = Engine.ask, Engine.make  # which compile every statement anew

    def materialise(self, expr: ir.Table, step: str) -> ir.Table:
        self.asked.append((step, expr))
        return super().materialise(expr, step)

    def fetch(self, expr: ir.Table) -> pa.Table:
        self.asked.append(("fetch", expr))
        return super().fetch(expr)


@cache
def statements() -> tuple[tuple[str, ir.Table], ...]:
    """Every statement of a tally, in each layout, and of a sum of two."""
    engine = Recorder()
    for table, roles in READINGS.values():
        rows_of(fc.read_log(table, engine=engine, **roles))
    roles = {"period": "day", "unit": "user", "invalid": "drop", "sample": 0.5, "sample_by": "unit"}
    one = fc.tally(fc.read_log(ARRAYS, engine=engine, **roles))
    list((one + one).weigh(half_life=2).sorted_batches())
    return tuple(engine.asked)


def compiled(dialect: str) -> str:
    """Whether all of them compile to a warehouse's SQL."""
    missing = set()
    for step, expr in statements():
        try:
            ibis.to_sql(expr, dialect=dialect)
        except Exception as error:  # noqa: BLE001 - Ibis says it in many ways
            missing.add(f"{step}: {str(error).splitlines()[0]}")
    return "compiles" if not missing else f"lacks {'; '.join(sorted(missing))}"


def snapshot(dialect: str) -> str:
    """The statements of a tally, as a warehouse would read them."""
    engine = Recorder()
    rows_of(fc.read_log(WIDE, engine=engine, **_POSITIONS))
    texts = []
    for step, expr in engine.asked:
        sql = re.sub(
            r"foreclick_([a-z_]+)_\d+_\d+", r"foreclick_\1", ibis.to_sql(expr, dialect=dialect)
        )
        texts.append(f"-- {step}\n{sql};\n")
    return "\n".join(texts)


# --- the table ----------------------------------------------------------------------------------


def table_of(found: dict[str, dict[str, str]], warehouses: tuple[str, ...] = WAREHOUSES) -> str:
    """The table in Markdown: engines that are here, then warehouses."""
    rows = [f"| engine | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    rows += [
        f"| {NAMES[engine]} | {' | '.join(cells[c] for c in COLUMNS)} |"
        for engine, cells in found.items()
    ]
    for dialect in warehouses:
        rows.append(
            f"| {NAMES[dialect]} | " + " | ".join([compiled(dialect)] * len(COLUMNS)) + " |"
        )
    return "\n".join(rows) + "\n"


def local_engines() -> dict[str, dict[str, str]]:
    """The engines that need no server, tried."""
    found = {}
    for name in ("sqlite", "polars"):
        connection = getattr(ibis, name).connect()
        numbers = iter(range(100))

        def load(table: pa.Table, connection: Any = connection, numbers: Any = numbers) -> ir.Table:  # noqa: ANN401
            return connection.create_table(f"t{next(numbers)}", table)

        found[name] = tried(load)
    return found


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
    text = table_of(found | local_engines())
    sys.stdout.write(text)
    if "--write" in sys.argv:
        before, _, after = PAGE.read_text().split("<!-- table -->\n")
        PAGE.write_text(f"{before}<!-- table -->\n{text}<!-- table -->\n{after}")


if __name__ == "__main__":
    main()
