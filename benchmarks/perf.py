"""What an answer costs: processor seconds and memory, beside the engine's own pass over the log.

    python -m benchmarks perf --logs shop --sizes 200000 1000000 --threads 1
    python -m benchmarks perf --logs unique periods single deep --sizes 1000000 --threads 1
    python -m benchmarks perf --logs events --sizes 10000000 --threads 1
    python -m benchmarks perf --logs raw --sizes 20000000 --threads 1
    python -m benchmarks spark same killed kept --records 1000000
    python -m benchmarks spark timed drawn --records 10000000

Kinds of logs are those of `benchmarks.logs`. Every step is a process of its own, so that its peak
of memory is its own, under DuckDB's memory limit and with a number of BLAS threads. What is
compared is seconds of processors; the first step of a kind is the same work in hand-written SQL,
measured in the same run: the group-by of a log with the rules of a log checked on its rows; the
join of events; how often queries of a raw file occur by day.

On a real Spark cluster, `same` compares the tally and its answers with those of DuckDB; `killed`
does so, too, and kills a worker in the middle of a tally, twice (once if there are few records);
`kept` evaluates a tally that stays in the cluster against one that was copied, and kills a worker
in the middle of that. `timed` measures the tally against the same work in Spark SQL written by
hand, in turn; `drawn` does so of a tenth of the records, by contexts, and compares them with what
DuckDB draws.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import foreclick as fc
from benchmarks.logs import KINDS
from benchmarks.spark_cluster import Cluster
from benchmarks.study import command_of, keep
from foreclick.tallies import base

COMPARED = 20
"""Candidates of a comparison, unless `--candidates` says otherwise."""


class Watch:
    """Processor seconds of each step, the clock's, and the peak of memory after it."""

    def __init__(self, folder: Path, memory: str, candidates: int, rounds: int = 3) -> None:
        self.steps: dict[str, dict[str, float]] = {}
        self.folder, self.memory, self.candidates, self.rounds = folder, memory, candidates, rounds
        kind, _, size = folder.name.rpartition("-")
        self.roles, self.records = KINDS[kind].roles, int(size)

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
    from foreclick.engines import laptop

    with watch.step("tally"):
        local = laptop(memory_limit=watch.memory)
        log = fc.read_log(f"{watch.folder}/log-*.parquet", engine=local, **watch.roles)
        fc.tally(log).write_parquet(watch.folder / "tally")


def answers(watch: Watch) -> None:
    """The default answer of a first candidate, and of the next."""
    counted = watch.tally()
    for step, name in (("first", "better"), ("next", "similar")):
        with watch.step(step):
            fc.evaluate(counted, watch.candidate(name))


def compare(watch: Watch) -> None:
    """Candidates that have two items exchanged; beyond all such pairs, in any order."""
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
    with watch.step("report"):
        found = fc.report(watch.tally(), watch.candidate("better"))
        found.save(watch.folder / "report.html")


def backtest(watch: Watch) -> None:
    """The default backtest."""
    with watch.step("backtest"):
        fc.backtest(watch.tally())


def optimize(watch: Watch) -> None:
    """The best policy."""
    with watch.step("optimize"):
        fc.optimize(watch.tally())


def from_events(watch: Watch) -> None:
    """Events to a log."""
    match = fc.events.Match("request_id", time=("shown_at", "done_at"))
    shown, actions = f"{watch.folder}/shown.parquet", f"{watch.folder}/actions.parquet"
    with watch.step("from_events"):
        _ = fc.from_events(shown, actions, list_id=match, context="query").rows


def reproduce(watch: Watch) -> None:
    """The paper's experiments, from the raw file to the figures."""
    from foreclick.cli import main as reproduced

    sys.argv = ["foreclick", "reproduce", f"{watch.folder}/train", "-o", f"{watch.folder}/figures"]
    told = contextlib.redirect_stdout(io.StringIO())
    with watch.step("reproduce"), contextlib.suppress(SystemExit), told:
        reproduced()


# --- on a Spark cluster ---------------------------------------------------------------------------

ASKED: dict[str, Any] = {
    "metrics": ["clicks@2", "clicks@3", "dcg@10"],
    "estimators": ["list", "ip", "item", "pbm", "rctr"],
}
FEW: dict[str, Any] = {"metrics": "clicks@3", "estimators": "ip"}
POSITIONS = range(1, 11)
QUICK = 100_000
"""Below so many records, it is a test: one estimate, and JVMs that start fast."""


class Spark:
    """A log in a session of a cluster."""

    def __init__(self, watch: Watch, cluster: Cluster) -> None:
        self.watch, self.cluster, self.quick = watch, cluster, watch.records < QUICK
        self.files = f"{watch.folder}/log-*.parquet"
        self.spark = cluster.session(fast=self.quick)

    def there(self, sample: int | None = None) -> fc.Tally:
        """The tally on the cluster."""
        frame = self.spark.read.parquet(self.files)
        return fc.tally(fc.read_log(frame, **self.watch.roles, sample=sample))

    def here(self, sample: int | None = None) -> fc.Tally:
        """The tally in DuckDB."""
        return fc.tally(fc.read_log(self.files, **self.watch.roles, sample=sample))

    @contextmanager
    def death(self, after: float) -> Iterator[None]:
        """Within it, a worker dies after so many seconds; then another comes."""
        timer = threading.Timer(after, self.cluster.kill_worker)
        timer.start()
        try:
            yield
        finally:
            timer.join()
            self.cluster.add_worker()

    def same(self) -> None:
        """The tally and its answers, to the last bit."""
        here, there = self.here(), self.there()
        assert there.to_arrow().equals(here.to_arrow()), "the tally differs"
        asked = FEW if self.quick else ASKED
        found, expected = (
            fc.evaluate(tally, self.watch.candidate("better"), **asked) for tally in (there, here)
        )
        assert repr(found.to_dicts()) == repr(expected.to_dicts()), "an answer differs"
        print(f"same: {here.row_count():,} rows of the tally and {len(found.to_dicts())} answers")
        print(f"same: {found.notes[0]}")

    def killed(self) -> None:
        """A worker is killed in the middle of a tally, and another comes; once a moment."""
        expected, start = self.here().to_arrow(), time.perf_counter()
        self.there().row_count()
        takes = time.perf_counter() - start
        for number, moment in enumerate((0.3,) if self.quick else (0.3, 0.6), start=1):
            with self.death(takes * moment):
                assert self.there().to_arrow().equals(expected), "the tally differs"
            print(f"killed {number}: a worker died at {moment:.0%} of a tally; not a bit differs")

    def kept(self) -> None:
        """An evaluation in the cluster, over ranges of contexts, against one of a copied tally."""

        def evaluated(rows: int) -> tuple[float, str, str]:
            """From a tally that was just made; one of more rows stays where it is."""
            base.HOME_ROWS = rows
            tally = self.there()
            tally.row_count()
            start = time.perf_counter()
            found = fc.evaluate(tally, self.watch.candidate("better"), **ASKED)
            return time.perf_counter() - start, repr(found.to_dicts()), found.notes[0]

        home, expected, _ = evaluated(base.HOME_ROWS)
        there, found, note = evaluated(0)
        assert found == expected, "an answer differs"
        print(f"kept: {note}\nkept: {there:.1f} s, at home {home:.1f} s (goal 3 ×)")
        with self.death(0.5 * there):
            assert evaluated(0)[1] == expected, "an answer differs"
        print("kept: a worker died in the middle of an evaluation; not a bit differs")

    def by_hand(self, _: object) -> int:
        """The tally in Spark SQL, with the rules of a log checked on its rows."""
        self.spark.read.parquet(self.files).createOrReplaceTempView("raw")
        columns = ", ".join(
            f"get(items, {k - 1}) AS item_{k}, get(clicks, {k - 1}) AS click_{k}" for k in POSITIONS
        )
        keys = ", ".join(["query", "day", "bucket", *(f"item_{k}, click_{k}" for k in POSITIONS)])
        tally = self.spark.sql(
            f"SELECT {keys}, max(length) AS length, count(*) AS n FROM (SELECT query, day, "
            f"pmod(hash(user), 30) AS bucket, {columns}, greatest(size(items), size(clicks)) "
            f"AS length FROM raw) GROUP BY {keys}"
        ).persist()
        tally.createOrReplaceTempView("by_hand")
        rows = int(tally.count())
        broken = ", ".join(f"sum(CASE WHEN {rule} THEN n END)" for rule in rules(POSITIONS))
        (found,) = self.spark.sql(f"SELECT {broken}, max(length) FROM by_hand").collect()
        assert tuple(found)[:5] == (None,) * 5
        tally.unpersist(blocking=True)
        return rows

    def ours(self, sample: int | None) -> int:
        """The tally, which leaves no memory taken from what comes next."""
        tally = self.there(sample)
        engine, found = tally.engine, int(tally.row_count())
        del tally
        gc.collect()
        engine.drop_unused()
        return found

    def drawn(self) -> None:
        """The tally of a tenth of the records beside all of it by hand."""
        sample = max(self.watch.records // 10, 1_000)
        here, there = (side(sample).to_arrow() for side in (self.here, self.there))
        assert there.equals(here), "other contexts are drawn"
        self.timed("drawn", sample)

    def timed(self, part: str = "timed", sample: int | None = None) -> None:
        """In turn; the first round only warms up the JVMs, which costs several times the work.

        Beside the clock stands the processor time of the workers: it bears that others are at work
        on the machine. Both become ratios to what the work by hand takes.
        """
        works = [("ours", self.ours), ("by hand", self.by_hand)]
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in works}
        for number in range(self.watch.rounds + 1):
            for name, work in works if number % 2 == 0 else works[::-1]:
                start, busy = time.perf_counter(), self.cluster.busy()
                rows = work(sample)
                took = time.perf_counter() - start, self.cluster.busy() - busy
                warm = "warm-up: " if number == 0 else ""
                print(
                    f"{part}, {warm}{name} {took[0]:.1f} s, {took[1]:.1f} s of the workers, "
                    f"{rows:,} rows"
                )
                seconds[name] += [took] if number else []
        (clock, cpu), theirs = (
            [statistics.median(kind) for kind in zip(*took, strict=True)]
            for took in seconds.values()
        )
        self.watch.steps[part] = {"clock": clock / theirs[0], "cpu": cpu / theirs[1]}


def on_spark(part: str, watch: Watch) -> None:
    """One of the above, on a cluster of its own."""
    with Cluster() as cluster:
        run = Spark(watch, cluster)
        try:
            getattr(run, part)()
        finally:
            run.spark.stop()


OURS = (tally, answers, compare, report, backtest, optimize, from_events, reproduce)
PROCESSES: dict[str, Callable[[Watch], None]] = {
    **{process.__name__: process for process in (engine, events_by_hand, raw_by_hand, *OURS)},
    **{part: partial(on_spark, part) for part in KINDS["spark"].steps},
}


# --- the run ------------------------------------------------------------------------------------


def measure(process: str, folder: Path, args: argparse.Namespace, threads: int) -> dict[str, Any]:
    """The steps of a process, with so many BLAS threads; 0 for as many as it takes."""
    blas = {"OPENBLAS_NUM_THREADS": str(threads)} if threads else {}
    command = [sys.executable, "-m", "benchmarks", "perf", "--one", process, str(folder)]
    for option in ("memory", "candidates", "rounds"):
        command += [f"--{option}", str(getattr(args, option))]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | blas
    )
    if done.returncode:
        return {process: {"failed": done.stderr.strip().splitlines()[-1][:200]}}
    *told, last = done.stdout.splitlines()
    for line in told:
        print(f"  {line}", flush=True)
    found: dict[str, Any] = json.loads(last)
    return found


def show(steps: dict[str, Any], bare: float) -> None:
    """A line for each step."""
    for name, step in steps.items():
        if "failed" in step:
            print(f"  {name:11s} failed: {step['failed']}", flush=True)
        elif "peak" not in step:
            print(f"  {name:11s} {step['cpu']:.2f} × CPU, {step['clock']:.2f} × clock", flush=True)
        else:
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
    parser.add_argument("--rounds", type=int, default=3, help="on Spark, in turn with its own SQL")
    parser.add_argument("--folder", type=Path, help="where logs are kept; by default, nowhere")
    parser.add_argument("--save", action="store_true", help="also into results/perf.json")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(given)
    if args.one:
        process, path = args.one
        watch = Watch(Path(path), args.memory, args.candidates, args.rounds)
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
        keep("perf", command_of("perf", given), rows)
    if any("failed" in row for row in rows):
        raise SystemExit(1)


def spark(given: Sequence[str]) -> None:
    """The steps of the log "spark" by a shorter command."""
    parser = argparse.ArgumentParser("spark", description="A shop's log on a real Spark cluster")
    parser.add_argument("parts", nargs="+", choices=KINDS["spark"].steps)
    parser.add_argument("--records", default="1000000")
    args, rest = parser.parse_known_args(given)
    asked = ["--logs", "spark", "--sizes", args.records, "--threads", "0", *rest]
    main([*asked, "--steps", *args.parts])
