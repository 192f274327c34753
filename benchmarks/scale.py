"""What a record costs, from a million of them to 167 million: `make bench-scale`.

Every step is a process of its own under DuckDB's memory limit, ours and its twin in hand-written
SQL in turn; what is compared is seconds of processors. The log is `yandex_like` with 20,000
queries, written once, a file a day; smaller sizes are logs of their own from the same world.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.bench import POSITIONS, connect, peak, rules
from tests.answers import clipped

METRICS = ["clicks@2", "clicks@3", "dcg@10"]
ESTIMATORS = ["list", "ip", "item", "pbm", "rctr"]
CLIPS = (1, 2, 3, 5, 7, 10, 14, 20, 30, 40, 50, 70, 100, 140, 200, 300, 500, 700, 1000, math.inf)
QUERIES = 20_000
ROLES: dict[str, Any] = {"context": "query", "period": "day", "sample": None}
FREQUENT = 100
"""Contexts with fewer records are not backtested."""


# --- ours ---------------------------------------------------------------------------------------


def tally(path: str, memory: str) -> dict[str, float]:
    """Parquet to tally."""
    import foreclick as fc
    from foreclick.engines import laptop

    log = fc.read_log(f"{path}/*.parquet", engine=laptop(memory_limit=memory), **ROLES)
    return {"rows": fc.tally(log).row_count()}


def evaluate_by_two(path: str, memory: str) -> dict[str, float]:
    """The same by two processes."""
    return evaluate(path, memory, workers=2)


def evaluate(path: str, memory: str, workers: int = 1) -> dict[str, float]:
    """Parquet to five estimators × three metrics, with intervals by day."""
    import foreclick as fc
    from foreclick.engines import laptop

    engine = laptop(memory_limit=memory)
    candidate = fc.Ranking(engine.read_files("read_parquet", [f"{path}.candidate.parquet"]))
    start = time.perf_counter()
    log = fc.read_log(f"{path}/*.parquet", engine=engine, **ROLES)
    tallied = time.perf_counter()
    by = [fc.Weighted(e, examination="1/k") if e == "pbm" else e for e in ESTIMATORS]
    fc.settings(workers=workers)
    found = fc.evaluate(log, candidate, metrics=METRICS, estimators=by)
    rows = {(r["estimator"], r["metric"]): r["value"] for r in found.to_dicts()}
    return {
        "tally": tallied - start,
        "from tally": time.perf_counter() - tallied,
        "ip": rows["ip", "clicks@3"],
        "pbm": rows["pbm", "dcg@10"],
        "list": rows["list", "clicks@3"],
    }


def backtest(path: str, memory: str) -> dict[str, float]:
    """Parquet to a backtest: 27 days × 20 M × 5 estimators × 4 metrics."""
    import foreclick as fc
    from foreclick.engines import laptop

    start = time.perf_counter()
    log = fc.read_log(f"{path}/*.parquet", engine=laptop(memory_limit=memory), **ROLES)
    tallied = time.perf_counter()
    found = fc.backtest(
        log,
        metrics=[*METRICS, "clicks@10"],
        estimators=clipped(ESTIMATORS, list(CLIPS)),
        ranks=sum(n >= FREQUENT for n in fc.contexts(log).lists["records"].to_pylist()),
    )
    return {
        "tally": tallied - start,
        "from tally": time.perf_counter() - tallied,
        "pairs": found["pairs"][0],
        "answers": len(found),
        "rmse": next(
            r["rmse"]
            for r in found.to_dicts()
            if (r["estimator"], r["metric"], r["clip"]) == ("ip", "clicks@3", math.inf)
        ),
    }


def parts(path: str, memory: str) -> dict[str, float]:
    """A directory of logs to a directory of tallies, and these to an evaluation."""
    import foreclick as fc
    from foreclick.engines import laptop
    from foreclick.tallies.base import read_in

    engine = laptop(memory_limit=memory)
    with tempfile.TemporaryDirectory() as target:
        start = time.perf_counter()
        for file in sorted(Path(path).glob("*.parquet")):
            log = fc.read_log(file, engine=engine, **ROLES)
            fc.tally(log).write_parquet(Path(target, file.name))
        tallied = time.perf_counter()
        candidate = fc.Ranking(engine.read_files("read_parquet", [f"{path}.candidate.parquet"]))
        days = read_in(engine, target)
        found = fc.evaluate(days, candidate, metrics=METRICS, estimators=ESTIMATORS)
        size = sum(file.stat().st_size for file in Path(target).iterdir())
        return {
            "tally": tallied - start,
            "from tally": time.perf_counter() - tallied,
            "GB": size / 1e9,
            "answers": len(found),
        }


# --- the same by hand ---------------------------------------------------------------------------


def tally_by_hand(connection: Any, path: str) -> int:
    """The tally in hand-written SQL, with the same rules checked on its rows; how many they are."""
    columns = ", ".join(f"items[{k}] AS item_{k}, clicks[{k}] AS click_{k}" for k in POSITIONS)
    keys = ", ".join(["query", "day", *(f"item_{k}, click_{k}" for k in POSITIONS)])
    connection.execute(
        f"CREATE TEMP TABLE tally AS SELECT {keys}, max(length) AS length, count(*) AS n FROM "
        f"(SELECT query, day, {columns}, greatest(len(items), len(clicks)) AS length "
        f"FROM '{path}') GROUP BY {keys}"
    )
    broken = ", ".join(f"sum(n) FILTER ({rule})" for rule in rules())
    wrong = connection.execute(f"SELECT {broken}, max(length), count(*) FROM tally").fetchall()[0]
    assert wrong[:5] == (None,) * 5, wrong
    assert wrong[5] == len(POSITIONS), wrong
    return int(wrong[6])


def bare_tally(path: str, memory: str) -> dict[str, float]:
    """The tally in hand-written SQL, with the same rules checked on its rows."""
    return {"rows": tally_by_hand(connect(memory), f"{path}/*.parquet")}


def bare_evaluate(path: str, memory: str) -> dict[str, float]:
    """The same values in hand-written SQL, without intervals, for a ranking and no clip."""
    connection = connect(memory)
    start = time.perf_counter()
    tally_by_hand(connection, f"{path}/*.parquet")
    tallied = time.perf_counter()
    theta = {
        "clicks@2": [1.0] * 2,
        "clicks@3": [1.0] * 3,
        "dcg@10": [1 / math.log2(k + 1) for k in POSITIONS],
    }
    items = ", ".join(f"item_{k}" for k in POSITIONS)
    sums = ", ".join(f"sum(n * click_{k}) AS c_{k}" for k in POSITIONS)
    connection.execute(
        f"CREATE TEMP TABLE lists AS SELECT query, {items}, sum(n) AS n, {sums} FROM tally "
        f"GROUP BY query, {items}"
    )
    shown = ", ".join(f"items[{k}] AS item_{k}" for k in POSITIONS)
    connection.execute(
        f"CREATE TEMP TABLE wanted AS SELECT context AS query, {shown} "
        f"FROM '{path}.candidate.parquet'"
    )
    connection.execute(
        "CREATE TEMP TABLE contexts AS SELECT query, sum(n) AS n_x FROM lists GROUP BY query"
    )
    total = connection.execute("SELECT sum(n_x) FROM contexts").fetchone()[0]
    slots = " UNION ALL ".join(
        f"SELECT query, item_{k} AS item, {k} AS k, sum(n) AS n, sum(c_{k}) AS c FROM lists "
        f"GROUP BY query, item_{k}"
        for k in POSITIONS
    )
    connection.execute(f"CREATE TEMP TABLE slots AS {slots}")
    each = " UNION ALL ".join(
        f"SELECT query, item_{k} AS item, {k} AS k FROM wanted" for k in POSITIONS
    )
    connection.execute(f"CREATE TEMP TABLE places AS {each}")
    found: dict[str, float] = {}
    for metric, weights in theta.items():
        weight = _by_position(weights)
        depth = len(weights)
        match = " AND ".join(f"l.item_{k} = w.item_{k}" for k in range(1, depth + 1))
        credit = " + ".join(f"{t!r} * sum(c_{k})" for k, t in enumerate(weights, start=1))
        found[f"list {metric}"] = connection.execute(
            f"SELECT sum(n_x * v) FROM (SELECT l.query, ({credit}) / sum(n) AS v FROM lists l "
            f"JOIN wanted w ON l.query = w.query AND {match} GROUP BY l.query) "
            "JOIN contexts USING (query)"
        ).fetchone()[0]
        found[f"ip {metric}"] = connection.execute(
            f"SELECT sum(n_x * {weight} * c / n) FROM slots JOIN places USING (query, item, k) "
            "JOIN contexts USING (query)"
        ).fetchone()[0]
        for model, exposed in (
            ("item", weights),
            ("pbm", [t / k for k, t in enumerate(weights, start=1)]),
        ):
            e = _by_position(exposed)
            found[f"{model} {metric}"] = connection.execute(
                f"SELECT sum(n_x * h * c / p) FROM (SELECT query, item, sum({weight} * c) AS c, "
                f"sum({e} * n) AS p FROM slots GROUP BY query, item) JOIN (SELECT query, item, "
                f"sum({e}) AS h FROM places GROUP BY query, item) USING (query, item) "
                "JOIN contexts USING (query) WHERE p > 0"
            ).fetchone()[0]
        found[f"rctr {metric}"] = connection.execute(
            f"SELECT sum({weight} * c) FROM slots"
        ).fetchone()[0]
    return {
        "tally": tallied - start,
        "from tally": time.perf_counter() - tallied,
        "ip": found["ip clicks@3"] / total,
        "pbm": found["pbm dcg@10"] / total,
        "list": found["list clicks@3"] / total,
    }


def _by_position(values: list[float]) -> str:
    """The value that belongs to position k, 0 beyond the last."""
    return f"coalesce(({values!r}::DOUBLE[])[k], 0)"


STEPS = {
    step.__name__: step
    for step in (
        bare_tally,
        tally,
        bare_evaluate,
        evaluate,
        evaluate_by_two,
        backtest,
        parts,
    )
}


# --- one measurement ----------------------------------------------------------------------------


def one(step: str, path: str, memory: str) -> dict[str, float]:
    """A step with its time, its peak of memory and what it spilled to disk."""
    import foreclick  # noqa: F401 - not what is measured

    spilled, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.3):
            size = 0
            for file in Path(tempfile.gettempdir()).rglob("*"):
                try:
                    size += file.stat().st_size
                except OSError:  # gone already
                    continue
            spilled[0] = max(spilled[0], size / 1e9)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    before, start = _used(), time.perf_counter()
    found = STEPS[step](path, memory)
    used = {"seconds": _used() - before, "clock": time.perf_counter() - start}
    done.set()
    return found | used | {"memory": peak(), "spilled": spilled[0]}


def _used() -> float:
    """Seconds of processors, of this process and of those that it waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(step: str, path: Path, memory: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "benchmarks.scale", "--one", step, str(path)]
        done = subprocess.run(
            [*command, "--memory", memory],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"TMPDIR": scratch},
        )
    if done.returncode:
        raise SystemExit(f"{step}: {done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- the run ------------------------------------------------------------------------------------


def write_log(path: Path, records: int) -> None:
    """The log, and a candidate: of each query a list of its last day, the first two exchanged."""
    import duckdb

    from foreclick.simulate import yandex_like

    start = time.perf_counter()
    yandex_like(records=records, queries=QUERIES, seed=7).write_parquet(path)
    items = ", ".join(f"items[{k}]" for k in (2, 1, *range(3, 11)))
    duckdb.execute(
        f"COPY (SELECT query AS context, [{items}] AS items FROM (SELECT query, "
        f"arg_max(items, day) AS items FROM '{path}/*.parquet' GROUP BY query)) "
        f"TO '{path}.candidate.parquet'"
    )
    size = sum(file.stat().st_size for file in path.iterdir()) / 1e9
    print(f"{records:,} records, {size:.2f} GB, in {time.perf_counter() - start:.0f} s", flush=True)


def run(path: Path, memory: str, rounds: int, steps: list[str]) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {step: [] for step in steps}
    for number in range(rounds):
        for step in steps if number % 2 == 0 else steps[::-1]:
            found[step].append(measure(step, path, memory))
            row = found[step][-1]
            print(f"  {step}: { ({k: round(v, 4) for k, v in row.items()}) }", flush=True)
    return {
        step: {k: statistics.median(row[k] for row in rows) for k in rows[0]}
        for step, rows in found.items()
    }


def judged(records: int, memory: str, found: dict[str, Any]) -> None:
    limit = float(memory.removesuffix("GB"))
    bare = found["bare_tally"]["seconds"]
    goals = {
        "tally": 1.10 * bare + 1.5,
        "evaluate": 1.4 * bare,
        "backtest": 2.77 * bare,
    }
    print(f"\n{records:,} records under {memory}: the bare tally took {bare:.1f} s")
    for step, row in found.items():
        goal = goals.get(step)
        verdict = (
            ""
            if goal is None
            else f"goal ≤ {goal:.1f}: {'met' if row['seconds'] <= goal else 'MISSED'}"
        )
        peak = "" if row["memory"] <= 1.2 * limit else "  PEAK ABOVE THE LIMIT + 20 %"
        print(
            f"  {step:14s} {row['seconds']:7.1f} s = {row['seconds'] / bare:5.2f} × bare, "
            f"{row['seconds'] / records * 1e6:6.3f} µs a record, {row['clock']:.0f} s by the "
            f"clock, {row['memory']:5.2f} GB, spilled {row['spilled']:5.2f} GB  {verdict}{peak}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000, 100_000_000, 167_000_000]
    )
    parser.add_argument("--memory", nargs="+", default=["2GB"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--folder", type=Path, help="where the logs are kept; by default, nowhere")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        step, path = args.one
        print(json.dumps(one(step, path, args.memory[0])))
        return
    folder = args.folder or Path(tempfile.mkdtemp())
    try:
        for records in args.sizes:
            log = folder / f"log-{records}"
            if not log.exists():
                write_log(log, records)
            for memory in args.memory:
                judged(records, memory, run(log, memory, args.rounds, args.steps))
    finally:
        if args.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
