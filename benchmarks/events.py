"""From events to a log, beside the same work in SQL written by hand, in one process.

    python -m benchmarks.events duckdb --impressions 10000000
    python -m benchmarks.events spark --impressions 1000000

Lists of ten, a click on one impression in twelve, found by the id of the request. The SQL by hand
joins, spreads and groups; it does not look for events that belong nowhere, for items that stand
twice, or at times. Seconds are of processors on DuckDB, and by the clock, in turn, on Spark.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

import foreclick as fc

DEPTH = 10
ROUNDS = 3


def write_events(folder: Path, impressions: int) -> None:
    """The two tables, as Parquet files."""
    con = duckdb.connect()
    con.execute(
        f"""COPY (
            SELECT l AS request_id, 'query ' || (hash(l) % 20000) AS query, k AS position,
                'i' || ((hash(l) % 20000) * 20 + (k + hash(l * 3) % 3) % 12) AS item,
                TIMESTAMP '2026-01-01' + to_seconds(l) AS shown_at
            FROM range({impressions // DEPTH}) t(l), range({DEPTH}) s(k)
        ) TO '{folder}/shown.parquet'"""
    )
    con.execute(
        f"""COPY (
            SELECT request_id, item, 'click' AS action, shown_at + INTERVAL 20 SECOND AS done_at
            FROM '{folder}/shown.parquet' WHERE hash(request_id * 31 + position) % 12 = 0
        ) TO '{folder}/actions.parquet'"""
    )


def by_hand(shown: str, actions: str) -> str:
    """The tally in SQL that DuckDB and Spark read."""
    items = [f"item_{k}" for k in range(1, DEPTH + 1)]
    spread = ", ".join(
        f"max(CASE WHEN position = {k} THEN item END) AS {name}" for k, name in enumerate(items)
    )
    marks = " ".join(f"WHEN {k} THEN {2**k}" for k in range(DEPTH))
    keys = ", ".join(["query", "day", *items, "clicks"])
    return f"""
        WITH hits AS (
            SELECT DISTINCT request_id AS of_list, item AS of_item
            FROM {actions} WHERE action = 'click'
        ),
        lists AS (
            SELECT request_id, query, CAST(shown_at AS date) AS day, {spread},
                sum(CASE WHEN of_list IS NULL THEN 0 ELSE CASE position {marks} END END) AS clicks
            FROM {shown} LEFT JOIN hits ON request_id = of_list AND item = of_item
            GROUP BY request_id, query, CAST(shown_at AS date)
        )
        SELECT {keys}, count(*) AS n FROM lists GROUP BY {keys}"""


def on_duckdb(folder: Path) -> tuple[Callable[[], object], Callable[[], object]]:
    """The work by hand, and ours."""
    shown, actions = f"{folder}/shown.parquet", f"{folder}/actions.parquet"

    def bare() -> object:
        con = duckdb.connect()
        con.execute(f"CREATE TEMP TABLE t AS {by_hand(repr(shown), repr(actions))}")
        return con.execute("SELECT count(*), sum(n) FROM t").fetchone()

    return bare, lambda: _ours(shown, actions)


def on_spark(folder: Path) -> tuple[Callable[[], object], Callable[[], object]]:
    """The same in a Spark session with two threads."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    shown, actions = (
        spark.read.parquet(f"{folder}/{name}.parquet") for name in ("shown", "actions")
    )
    shown.createOrReplaceTempView("shown")
    actions.createOrReplaceTempView("actions")

    def bare() -> object:
        frame = spark.sql(by_hand("shown", "actions")).persist()
        rows = frame.count()
        frame.unpersist()
        return rows

    return bare, lambda: _ours(shown, actions)


def _ours(shown: object, actions: object) -> object:
    match = fc.events.Match("request_id", time=("shown_at", "done_at"))
    return fc.from_events(shown, actions, list_id=match, context="query").rows  # type: ignore[arg-type]


def cpu() -> float:
    """Seconds of processors that this process took."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=["duckdb", "spark"])
    parser.add_argument("--impressions", type=int, default=1_000_000)
    asked = parser.parse_args()
    clock = cpu if asked.engine == "duckdb" else time.perf_counter
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_events(folder, asked.impressions)
        works = (on_duckdb if asked.engine == "duckdb" else on_spark)(folder)
        seconds: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for took, work in zip(seconds, works, strict=True):
                start = clock()
                work()
                took.append(clock() - start)
    bare, ours = (statistics.median(took[1:]) for took in seconds)
    print(
        f"{asked.engine}, {asked.impressions:,} impressions: by hand {bare:.2f} s, "
        f"from_events {ours:.2f} s, {ours / bare:.2f} x"
    )


if __name__ == "__main__":
    main()
