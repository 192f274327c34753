"""What an answer costs: processor seconds and memory, beside the engine's own pass over the log.

    python -m benchmarks perf --logs shop --sizes 200000 1000000 --threads 1
    python -m benchmarks perf --logs unique periods single deep --sizes 1000000 --threads 1
    python -m benchmarks perf --logs events --sizes 10000000 --threads 1
    python -m benchmarks perf --logs raw --sizes 20000000 --threads 1

Kinds of logs are those of `benchmarks.logs`. Every step is a process of its own, so that its peak
of memory is its own, under DuckDB's memory limit and with a number of BLAS threads. What is
compared is seconds of processors; the first step of a kind is the same work in hand-written SQL,
measured in the same run: the group-by of a log with the rules of a log checked on its rows; the
join of events; how often queries of a raw file occur by day.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.logs import KINDS

COMPARED = 20
"""Candidates of a comparison, unless `--candidates` says otherwise."""


class Watch:
    """Processor seconds of each step, the clock's, and the peak of memory after it."""

    def __init__(self, folder: Path, memory: str, candidates: int) -> None:
        self.steps: dict[str, dict[str, float]] = {}
        self.folder, self.memory, self.candidates = folder, memory, candidates
        self.roles = KINDS[folder.name.rpartition("-")[0]].roles

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure what is done within."""
        clock, cpu = time.perf_counter(), _processors()
        yield
        self.steps[name] = {
            "cpu": _processors() - cpu,
            "clock": time.perf_counter() - clock,
            "peak": peak(),
        }

    def candidate(self, name: str) -> str:
        """The file of a candidate."""
        return str(self.folder / f"{name}.candidate.parquet")

    def tally(self) -> Any:
        """The tally that the step of this name wrote."""
        import foreclick as fc

        return fc.read_tally(self.folder / "tally")


def _processors() -> float:
    """The processor seconds of this process and of its children that have ended."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def peak() -> float:
    """The largest resident size of this process so far, in GB.

    Linux's own mark: that of `getrusage` starts from where the parent's was.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e9


# --- by hand --------------------------------------------------------------------------------------


def connect(memory: str) -> Any:
    """DuckDB without foreclick, under the same limit."""
    import duckdb

    connection = duckdb.connect(config={"memory_limit": memory})
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(f"SET temp_directory = '{tempfile.gettempdir()}/bench-spill'")
    return connection


def rules(positions: Sequence[int]) -> list[str]:
    """What no row of a tally may be, in SQL."""
    pairs = ((a, b) for a in positions for b in positions if a < b)
    return [
        " OR ".join(f"item_{a} = item_{b}" for a, b in pairs),
        " AND ".join(f"item_{k} IS NULL" for k in positions),
        " OR ".join(f"(item_{k} IS NULL) <> (click_{k} IS NULL)" for k in positions),
        " OR ".join(f"click_{k} < 0" for k in positions),
        "query IS NULL",
    ]


def engine(watch: Watch) -> None:
    """The log's group-by in hand-written SQL, with the same rules checked on its rows."""
    connection, log = connect(watch.memory), f"'{watch.folder}/log-*.parquet'"
    (depth,) = connection.execute(f"SELECT len(items) FROM {log} LIMIT 1").fetchone()
    positions = range(1, depth + 1)
    columns = ", ".join(f"items[{k}] AS item_{k}, clicks[{k}] AS click_{k}" for k in positions)
    keys = ", ".join(["query", "day", "bucket", *(f"item_{k}, click_{k}" for k in positions)])
    bucket = "hash(user) % 30" if "unit" in watch.roles else "0"
    with watch.step("engine"):
        connection.execute(
            f"CREATE TEMP TABLE tally AS SELECT {keys}, count(*) AS n FROM (SELECT query, day, "
            f"{bucket} AS bucket, {columns} FROM {log}) GROUP BY {keys}"
        )
        broken = ", ".join(f"sum(n) FILTER ({rule})" for rule in rules(positions))
        wrong = connection.execute(f"SELECT {broken} FROM tally").fetchall()[0]
    assert wrong == (None,) * 5, wrong


def events_by_hand(watch: Watch) -> None:
    """Joins, spreads and groups.

    It does not look for events that belong nowhere, for items that stand twice, or at times.
    """
    items = [f"item_{k}" for k in range(10)]
    spread = ", ".join(
        f"max(CASE WHEN position = {k} THEN item END) AS {name}" for k, name in enumerate(items)
    )
    marks = " ".join(f"WHEN {k} THEN {2**k}" for k in range(10))
    keys = ", ".join(["query", "day", *items, "clicks"])
    connection = connect(watch.memory)
    with watch.step("engine"):
        connection.execute(f"""
            CREATE TEMP TABLE t AS WITH hits AS (
                SELECT DISTINCT request_id AS of_list, item AS of_item
                FROM '{watch.folder}/actions.parquet' WHERE action = 'click'
            ),
            lists AS (
                SELECT request_id, query, CAST(shown_at AS date) AS day, {spread}, sum(CASE WHEN
                    of_list IS NULL THEN 0 ELSE CASE position {marks} END END) AS clicks
                FROM '{watch.folder}/shown.parquet'
                LEFT JOIN hits ON request_id = of_list AND item = of_item
                GROUP BY request_id, query, CAST(shown_at AS date)
            )
            SELECT {keys}, count(*) AS n FROM lists GROUP BY {keys}""")


def raw_by_hand(watch: Watch) -> None:
    """How often each query was asked on each day."""
    connection = connect(watch.memory)
    with watch.step("engine"):
        connection.execute(rf"""
            WITH lines AS (
                FROM read_csv('{watch.folder}/train', delim = '{chr(1)}', quote = '',
                    columns = {{'line': 'VARCHAR'}}, header = false, auto_detect = false)
            ), lists AS (
                SELECT string_split(line, chr(9)) AS f FROM lines
                WHERE contains(line, chr(9) || 'Q')
            ), sessions AS (
                SELECT string_split(line, chr(9)) AS f FROM lines
                WHERE contains(line, chr(9) || 'M')
            )
            SELECT q.f[5]::BIGINT AS query, m.f[3]::INT AS day, count(*) AS n
            FROM lists AS q, sessions AS m WHERE q.f[1] = m.f[1] GROUP BY ALL
        """).fetchone()


# --- ours -----------------------------------------------------------------------------------------


def tally(watch: Watch) -> None:
    """Parquet to a tally in a file."""
    import foreclick as fc
    from foreclick.engines import laptop

    with watch.step("tally"):
        local = laptop(memory_limit=watch.memory)
        log = fc.read_log(f"{watch.folder}/log-*.parquet", engine=local, **watch.roles)
        fc.tally(log).write_parquet(watch.folder / "tally")


def answers(watch: Watch) -> None:
    """The default answer of a first candidate, and of the next."""
    import foreclick as fc

    counted = watch.tally()
    for step, name in (("first", "better"), ("next", "similar")):
        with watch.step(step):
            fc.evaluate(counted, watch.candidate(name))


def compare(watch: Watch) -> None:
    """Candidates that have two items exchanged; beyond all such pairs, in any order."""
    import foreclick as fc

    table = pq.read_table(watch.candidate("better"))
    lists = np.stack(table["items"].to_numpy())
    depth, rng = lists.shape[1], np.random.default_rng(0)
    pairs = [[i, j] for j in range(1, depth) for i in range(j)][: watch.candidates]
    orders = list(np.tile(np.arange(depth), (len(pairs), 1)))
    for order, pair in zip(orders, pairs, strict=True):
        order[pair] = order[pair[::-1]]
    orders += [rng.permutation(depth) for _ in range(watch.candidates - len(orders))]
    named = {
        f"candidate {n}": fc.Ranking(
            pa.table({"context": table["query"], "items": pa.array(list(lists[:, order]))})
        )
        for n, order in enumerate(orders)
    }
    with watch.step("compare"):
        fc.compare(watch.tally(), named)


def report(watch: Watch) -> None:
    """A report of one candidate."""
    import foreclick as fc

    with watch.step("report"):
        found = fc.report(watch.tally(), watch.candidate("better"))
        found.save(watch.folder / "report.html")


def backtest(watch: Watch) -> None:
    """The default backtest."""
    import foreclick as fc

    with watch.step("backtest"):
        fc.backtest(watch.tally())


def optimize(watch: Watch) -> None:
    """The best policy."""
    import foreclick as fc

    with watch.step("optimize"):
        fc.optimize(watch.tally())


def from_events(watch: Watch) -> None:
    """Events to a log."""
    import foreclick as fc

    match = fc.events.Match("request_id", time=("shown_at", "done_at"))
    shown, actions = f"{watch.folder}/shown.parquet", f"{watch.folder}/actions.parquet"
    with watch.step("from_events"):
        _ = fc.from_events(shown, actions, list_id=match, context="query").rows


def reproduce(watch: Watch) -> None:
    """The paper's experiments, from the raw file to the figures."""
    from foreclick.cli import main

    sys.argv = ["foreclick", "reproduce", f"{watch.folder}/train", "-o", f"{watch.folder}/figures"]
    with watch.step("reproduce"), contextlib.suppress(SystemExit):
        main()


OURS = (tally, answers, compare, report, backtest, optimize, from_events, reproduce)
PROCESSES: dict[str, Callable[[Watch], None]] = {
    process.__name__: process for process in (engine, events_by_hand, raw_by_hand, *OURS)
}


# --- the run ------------------------------------------------------------------------------------


def measure(process: str, folder: Path, args: argparse.Namespace, threads: int) -> dict[str, Any]:
    """The steps of a process, with so many BLAS threads; 0 for as many as it takes."""
    blas = {"OPENBLAS_NUM_THREADS": str(threads)} if threads else {}
    command = [sys.executable, "-m", "benchmarks", "perf", "--one", process, str(folder)]
    done = subprocess.run(
        [*command, "--memory", args.memory, "--candidates", str(args.candidates)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | blas,
    )
    if done.returncode:
        return {process: {"failed": done.stderr.strip().splitlines()[-1][:200]}}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(steps: dict[str, Any], bare: float) -> None:
    """A line for each step."""
    for name, step in steps.items():
        if "failed" in step:
            print(f"  {name:11s} failed: {step['failed']}", flush=True)
            continue
        ratio = f"{step['cpu'] / bare:6.2f} × engine" if bare else ""
        print(
            f"  {name:11s} {step['cpu']:8.2f} CPU s {ratio:16s} {step['clock']:8.2f} s by the "
            f"clock  peak {step['peak']:5.2f} GB",
            flush=True,
        )


def run(name: str, folder: Path, args: argparse.Namespace, steps: Sequence[str]) -> list[Any]:
    """All processes of a log, with each number of BLAS threads, as rows."""
    rows: list[Any] = []
    for threads in args.threads:
        said = f"{threads} BLAS thread" if threads else "as many BLAS threads as cores"
        print(f"{name}, {said}, DuckDB under {args.memory}", flush=True)
        bare = 0.0
        for process in steps:
            found = measure(process, folder, args, threads)
            bare = found.get("engine", {}).get("cpu", bare)
            show(found, bare)
            rows += [{"log": name, "threads": threads, "step": s} | f for s, f in found.items()]
    return rows


def main(given: Sequence[str]) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser("perf", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--logs", nargs="+", default=["shop", "repeating"], choices=list(KINDS))
    parser.add_argument("--steps", nargs="+", default=list(PROCESSES), choices=list(PROCESSES))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 0], help="0: all cores")
    parser.add_argument("--memory", default="2GB", help="of DuckDB")
    parser.add_argument("--candidates", type=int, default=COMPARED, help="that are compared")
    parser.add_argument("--folder", type=Path, help="where logs are kept; by default, nowhere")
    parser.add_argument("--save", action="store_true", help="also into results/perf.json")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(given)
    if args.one:
        process, path = args.one
        watch = Watch(Path(path), args.memory, args.candidates)
        PROCESSES[process](watch)
        print(json.dumps(watch.steps))
        return
    root, rows = args.folder or Path(tempfile.mkdtemp()), []
    try:
        for log in args.logs:
            for size in args.sizes:
                folder = root / f"{log}-{size}"
                if not folder.exists():
                    folder.mkdir(parents=True)
                    KINDS[log].write(folder, size)
                steps = [step for step in KINDS[log].steps if step in args.steps]
                rows += run(f"{log}, {size:,}", folder, args, steps)
    finally:
        if args.folder is None:
            shutil.rmtree(root)
    if args.save:
        from benchmarks.study import command_of, keep

        keep("perf", command_of("perf", given), rows)
