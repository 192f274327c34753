"""Which engines do what, found by trying: the table of docs/engines.md comes from here.

    python -m tests.engines.world          prints it
    python -m tests.engines.world --write  writes it into the page

An engine *works* where the tally of a log in it is that of DuckDB, to the last bit. Of warehouses
that are not here, the statement stands in a snapshot.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

import foreclick as fc
from foreclick.engines import SPELLINGS, default_engine
from foreclick.logs.text import Select
from tests.cases.layouts import rows_of
from tests.engines import elsewhere

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
WRITTEN = ("snowflake", "databricks", "trino", "athena")
"""Warehouses that no test can start."""

HOW = {
    "duckdb": "temporary tables",
    "pyspark": "temporary views",
    **dict.fromkeys(("postgres", "bigquery", "clickhouse", "datafusion", *WRITTEN), "one SELECT"),
    **dict.fromkeys(("sqlite", "polars"), "rows are read here"),
}
NAMES = {engine: engine.capitalize() for engine in HOW} | {
    "bigquery": "BigQuery",
    "clickhouse": "ClickHouse",
    "datafusion": "DataFusion",
    "duckdb": "DuckDB",
    "pyspark": "Spark",
    "postgres": "PostgreSQL",
    "sqlite": "SQLite",
}

_LISTS = [[1, 2], [2, 1], [1, 3]]
_CLICKS = [[1, 0], [0, 0], [0, 1], [1, 1]]
_ROWS: list[dict[str, Any]] = [
    {"context": "q", "items": _LISTS[i % 3], "clicks": _CLICKS[i * 7 % 4], "day": i % 4}
    | {"user": f"u{i % 5}"}
    for i in range(24)
]
ARRAYS = pa.Table.from_pylist(_ROWS)
WIDE = pa.Table.from_pylist(
    [
        row | {f"{name[0]}{k}": row[name][k] for name in ("items", "clicks") for k in (0, 1)}
        for row in _ROWS
    ]
).drop_columns(["items", "clicks"])
LONG = pa.Table.from_pylist(
    [
        {"list_id": i, "context": "q", "position": k + 1, "day": row["day"]}
        | {"item": row["items"][k], "click": row["clicks"][k]}
        for i, row in enumerate(_ROWS)
        for k in (0, 1)
    ]
)
_POSITIONS: dict[str, Any] = {"items": ["i0", "i1"], "clicks": ["c0", "c1"], "period": "day"}
READINGS: dict[str, tuple[pa.Table, dict[str, Any]]] = {
    "lists as arrays": (ARRAYS, {"period": "day"}),
    "a column a position": (WIDE, _POSITIONS),
    "a row an impression": (LONG, {"long": ("list_id", "position"), "period": "day"}),
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


# --- SQL ----------------------------------------------------------------------------------------


def snapshot(dialect: str) -> str:
    """The statement of every reading, as an engine would be asked."""
    texts = []
    for name, (table, roles) in READINGS.items():
        if dialect == "mariadb" and table is ARRAYS:  # it has none
            continue
        log = fc.read_log(default_engine().show(table), **roles)
        say = SPELLINGS[dialect]
        select = Select(log.roles, table.schema, say, say.name("log"))
        texts.append(f"-- {name}\n{_lines(select.tally(log.shape, cut=False)[0])};\n")
    return "\n".join(texts)


def _lines(sql: str) -> str:
    """One column a line, to be read in review."""
    for word, then in ((", ", ",\n  "), (" FROM ", "\nFROM "), (" GROUP BY ", "\nGROUP BY ")):
        sql = sql.replace(word, then)
    return sql


# --- the table ----------------------------------------------------------------------------------


def table_of(found: dict[str, dict[str, str]], warehouses: tuple[str, ...] = WRITTEN) -> str:
    """The table in Markdown: engines that are here, then warehouses."""
    cells = {engine: [cells[c] for c in COLUMNS] for engine, cells in found.items()}
    cells |= {dialect: ["not run here"] * len(COLUMNS) for dialect in warehouses}
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
