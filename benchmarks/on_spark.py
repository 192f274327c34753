"""A log on a real Spark cluster: the same answers, workers killed, and beside hand-written SQL.

    python -m benchmarks spark same killed kept --records 1000000
    python -m benchmarks spark timed --records 10000000
    python -m benchmarks spark drawn --shop folder

`same` compares the tally and its answers on the cluster with those of DuckDB; `killed` does so,
too, and kills a worker in the middle of a tally, twice (once if there are few records); `kept`
evaluates a tally that stays in the cluster against one that were copied, and kills a worker in the
middle of that;
`timed` measures the tally against the same work in Spark SQL written by hand, in turn; `drawn` does
so of a shop's log, of which contexts are drawn, and compares what is drawn with what DuckDB draws.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import foreclick as fc
from benchmarks.logs import ROLES as SHOP_ROLES
from benchmarks.logs import write_shop
from benchmarks.perf import rules
from benchmarks.spark_cluster import Cluster
from foreclick.logs.drawing import SampleSize
from foreclick.simulate import yandex_like
from foreclick.tallies import base

ROLES: dict[str, Any] = {"context": "query", "period": "day", "sample": None}
ASKED: dict[str, Any] = {
    "metrics": ["clicks@2", "clicks@3", "dcg@10"],
    "estimators": ["list", "ip", "item", "pbm", "rctr"],
}
POSITIONS = range(1, 11)
QUICK = 100_000
"""Below so many records, it is a test: one estimate, and JVMs that start fast."""

_FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SKEW = 0.2
"""The share of the log that one query has."""


def write_log(path: Path, records: int) -> None:
    """A log a day a file; one query has a fifth of it."""
    queries = max(20, min(1_000, records // 2_000))
    simulation = yandex_like(records=records, queries=queries, seed=5)
    rest = simulation.frequencies[1:]
    skewed = [SKEW, *(rest / rest.sum() * (1 - SKEW))]
    replace(simulation, frequencies=skewed).write_parquet(path)


def candidate_of(tally: fc.Tally) -> fc.Ranking:
    """Of each query its largest list, with the first two items exchanged."""
    best: dict[Any, tuple[tuple[int, ...], list[Any]]] = {}
    for row in tally.to_arrow().to_pylist():
        items = [row[c] for c in tally.shape.items if row[c] is not None]
        key = (row["n"], *items)
        if row["context"] not in best or key > best[row["context"]][0]:
            best[row["context"]] = (key, [*items[1::-1], *items[2:]])
    contexts = sorted(best)
    return fc.Ranking({"context": contexts, "items": [best[x][1] for x in contexts]})


# --- the same everywhere ------------------------------------------------------------------------


def same(spark: Any, path: Path, asked: dict[str, Any]) -> float:
    """The tally and its answers, to the last bit; and how many seconds the tally took."""
    here = fc.tally(fc.read_log(path, **ROLES))
    candidate = candidate_of(here)
    rows = here.to_arrow()
    start = time.perf_counter()
    log = fc.read_log(spark.read.parquet(str(path)), **ROLES)
    assert fc.tally(log).to_arrow().equals(rows), "the tally differs"
    takes = time.perf_counter() - start
    found = fc.evaluate(log, candidate, **asked)
    expected = fc.evaluate(here, candidate, **asked)
    assert repr(found.to_dicts()) == repr(expected.to_dicts()), "an answer differs"
    print(f"same: {rows.num_rows:,} rows of the tally and {len(found.to_dicts())} answers")
    print(f"same: {found.notes[0]}", flush=True)
    return takes


# --- workers that die ---------------------------------------------------------------------------


def killed(
    cluster: Cluster, spark: Any, path: Path, takes: float, moments: tuple[float, ...]
) -> None:
    """A worker is killed in the middle of a tally, and another comes; once a moment.

    Args:
        cluster: whose workers die.
        spark: its session.
        path: the log.
        takes: the seconds of a tally.
        moments: shares of them after which a worker dies.
    """
    frame = spark.read.parquet(str(path))
    expected = fc.tally(fc.read_log(path, **ROLES)).to_arrow()
    for number, moment in enumerate(moments, start=1):
        fatal = threading.Timer(takes * moment, cluster.kill_worker)
        fatal.start()
        found = fc.tally(fc.read_log(frame, **ROLES)).to_arrow()
        fatal.join()
        assert found.equals(expected), "the tally differs"
        print(f"killed {number}: a worker died at {moment:.0%} of a tally; not a bit differs")
        cluster.add_worker()


# --- a tally that stays in the cluster ------------------------------------------------------------


def kept(cluster: Cluster, spark: Any, path: Path) -> None:
    """An evaluation in the cluster, over ranges of contexts, against one of the tally at home."""
    frame = spark.read.parquet(str(path))
    candidate = candidate_of(fc.tally(fc.read_log(path, **ROLES)))

    def evaluated(rows: int) -> tuple[float, str, str]:
        """From a tally that was just made; one of more rows stays where it is."""
        base.HOME_ROWS = rows
        log = fc.read_log(frame, **ROLES)
        fc.tally(log).row_count()
        start = time.perf_counter()
        found = fc.evaluate(log, candidate, **ASKED)
        return time.perf_counter() - start, repr(found.to_dicts()), found.notes[0]

    usual = base.HOME_ROWS
    home, expected, _ = evaluated(usual)
    there, found, note = evaluated(0)
    assert found == expected, "an answer differs"
    print(f"kept: {note}\nkept: {there:.1f} s, at home {home:.1f} s, ", end="")
    print(f"{there / home:.1f} × (goal 3 ×, {'met' if there <= 3 * home else 'MISSED'})")
    fatal = threading.Timer(0.5 * there, cluster.kill_worker)
    fatal.start()
    assert evaluated(0)[1] == expected, "an answer differs"
    fatal.join()
    cluster.add_worker()
    base.HOME_ROWS = usual
    print("kept: a worker died in the middle of an evaluation; not a bit differs", flush=True)


# --- contexts that are drawn ----------------------------------------------------------------------


def drawn(spark: Any, path: str, sample: SampleSize) -> None:
    """The rows of the tally of some contexts, which have to be those that DuckDB draws."""
    here = fc.tally(fc.read_log(path, sample=sample, **SHOP_ROLES))
    log = fc.read_log(spark.read.parquet(path), sample=sample, **SHOP_ROLES)
    assert fc.tally(log).to_arrow().equals(here.to_arrow()), "other contexts are drawn"
    print(f"drawn: {here.row_count():,} rows of a tally, as in DuckDB", flush=True)


# --- beside Spark SQL by hand -------------------------------------------------------------------


def by_hand(spark: Any, path: str, roles: dict[str, Any]) -> int:
    """The tally in Spark SQL, with the rules of a log checked on its rows."""
    spark.read.parquet(path).createOrReplaceTempView("raw")
    columns = ", ".join(
        f"get(items, {k - 1}) AS item_{k}, get(clicks, {k - 1}) AS click_{k}" for k in POSITIONS
    )
    named = ["query", "day", *(["bucket"] if "unit" in roles else [])]
    unit = ", pmod(hash(user), 30) AS bucket" if "unit" in roles else ""
    keys = ", ".join([*named, *(f"item_{k}, click_{k}" for k in POSITIONS)])
    tally = spark.sql(
        f"SELECT {keys}, max(length) AS length, count(*) AS n FROM (SELECT query, day{unit}, "
        f"{columns}, greatest(size(items), size(clicks)) AS length FROM raw) GROUP BY {keys}"
    ).persist()
    tally.createOrReplaceTempView("by_hand")
    rows = int(tally.count())
    broken = ", ".join(f"sum(CASE WHEN {rule} THEN n END)" for rule in rules(POSITIONS))
    (found,) = spark.sql(f"SELECT {broken}, max(length) FROM by_hand").collect()
    assert tuple(found)[:5] == (None,) * 5
    tally.unpersist(blocking=True)
    return rows


def ours(spark: Any, path: str, roles: dict[str, Any]) -> int:
    log = fc.read_log(spark.read.parquet(path), **roles)
    engine, found = log.engine, int(fc.tally(log).row_count())
    del log
    gc.collect()
    engine.drop_unused()  # so that the tally does not take memory from what comes next
    return found


def timed(cluster: Cluster, spark: Any, path: str, roles: dict[str, Any], rounds: int) -> None:
    """In turn; the first round only warms up the JVMs, which costs several times the work.

    Beside the clock stands the processor time of the workers: it bears that others are at work on
    the machine.
    """
    seconds: dict[str, list[tuple[float, float]]] = {"ours": [], "by hand": []}
    for number in range(rounds + 1):
        who = [("ours", ours), ("by hand", by_hand)]
        for name, run in who if number % 2 == 0 else who[::-1]:
            start, busy = time.perf_counter(), cluster.busy()
            rows = run(spark, path, roles)
            took = time.perf_counter() - start, cluster.busy() - busy
            warm = "warm-up: " if number == 0 else ""
            print(
                f"{warm}{name} {took[0]:.1f} s, {took[1]:.1f} s of the workers, {rows:,} rows",
                flush=True,
            )
            if number > 0:
                seconds[name].append(took)
    for kind, what in enumerate(("by the clock", "of the workers' processors")):
        mine, theirs = (statistics.median(t[kind] for t in took) for took in seconds.values())
        verdict = "met" if mine <= 1.25 * theirs else "MISSED"
        print(f"{what}: {mine:.1f} s, by hand {theirs:.1f} s, ", end="")
        print(f"{mine / theirs:.2f} × (goal 1.25 ×, {verdict})")


def main(given: Sequence[str]) -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser("spark", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=("same", "killed", "kept", "timed", "drawn"))
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shop", type=Path, help="a log of `benchmarks.perf`, for `drawn`")
    args = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as folder, Cluster() as cluster:
        path = Path(folder, "log")
        if {*args.parts} - {"drawn"}:
            write_log(path, args.records)
        quick = args.records < QUICK
        options = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
        spark = cluster.session(**(dict.fromkeys(options, _FAST) if quick else {}))
        spark.sparkContext.setLogLevel("OFF")
        try:
            if "same" in args.parts or "killed" in args.parts:
                few = {"metrics": "clicks@3", "estimators": "ip"}
                takes = same(spark, path, few if quick else ASKED)
            if "killed" in args.parts:
                killed(cluster, spark, path, takes, (0.3,) if quick else (0.3, 0.6))
            if "kept" in args.parts:
                kept(cluster, spark, path)
            if "timed" in args.parts:
                timed(cluster, spark, str(path), ROLES, args.rounds)
            if "drawn" in args.parts:
                shop, sample = args.shop or Path(folder), max(args.records // 10, 1_000)
                if args.shop is None:
                    write_shop(shop, args.records)
                roles = SHOP_ROLES | {"sample": sample}
                drawn(spark, f"{shop}/log-*.parquet", sample)
                timed(cluster, spark, f"{shop}/log-*.parquet", roles, args.rounds)
        finally:
            spark.stop()
