"""What an answer costs: processor seconds and memory, beside the engine's own pass over the log.

    python -m benchmarks perf --logs shop --sizes 200000 1000000 --threads 1
    python -m benchmarks perf --logs raw --sizes 20000000 --threads 1
    python -m benchmarks spark same killed timed drawn --records 10000000

Kinds of logs are those of `benchmarks.logs`. Every step is a process of its own, so that its peak
of memory is its own, under DuckDB's memory limit and with a number of BLAS threads. What is
compared is seconds of processors; the first step of a kind is the same work in hand-written SQL,
measured in the same run: the group-by of a log with the rules of a log checked on its rows; how
often queries of a raw file occur by day. Other steps are *beside* it.

On a real Spark cluster, `same` compares the tally and its answers with those of DuckDB; `killed`
does so, too, and kills a worker in the middle of a tally, twice (once if there are few records).
`timed` measures the tally against the same work in Spark SQL written by hand, in turn; `drawn` does
so of a tenth of the records, by contexts, and compares them with what DuckDB draws.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from benchmarks.spark_cluster import Cluster, cluster
from benchmarks.study import Row, run, study
from foreclick import cli
from foreclick.engines import laptop


class Watch:
    """Processor seconds of each step, the clock's, and the peak of memory after it.

    Attributes:
        folder: that of the log, named by its kind and its size.
        memory: DuckDB's limit.
        candidates: how many `compare` has.
        rounds: how often Spark's steps are timed.
    """

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

    def candidate(self, name: str = "better") -> str:
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


def tally_by_hand(log: str, depth: int, bucket: str, element: str) -> tuple[str, str]:
    """Two statements: the log's group-by, and how many of its rows `t` break each rule of a log.

    Args:
        log: a table with lists and clicks.
        depth: the number of positions.
        bucket: the SQL of a user's bucket.
        element: the SQL of element {k} of a list {name}.
    """
    positions = range(1, depth + 1)
    cells = [(f"{name}s", f"{name}_{k}", k) for k in positions for name in ("item", "click")]
    columns = ", ".join(f"{element.format(name=of, k=k)} AS {name}" for of, name, k in cells)
    keys = ", ".join(["query", "day", "bucket", *(name for _, name, _ in cells)])
    pairs = ((a, b) for a in positions for b in positions if a < b)
    rules = [
        " OR ".join(f"item_{a} = item_{b}" for a, b in pairs) or "false",
        " AND ".join(f"item_{k} IS NULL" for k in positions),
        " OR ".join(f"(item_{k} IS NULL) <> (click_{k} IS NULL)" for k in positions),
        " OR ".join(f"click_{k} < 0" for k in positions),
        "query IS NULL",
    ]
    broken = ", ".join(f"sum(CASE WHEN {rule} THEN n END)" for rule in rules)
    rows = f"(SELECT query, day, {bucket} AS bucket, {columns} FROM {log}) AS shown"
    return f"SELECT {keys}, count(*) AS n FROM {rows} GROUP BY {keys}", f"SELECT {broken} FROM t"


def engine(watch: Watch) -> None:
    """The log's group-by in hand-written SQL, with the same rules checked on its rows."""
    connection, log = connect(watch.memory), f"'{watch.folder}/log-*.parquet'"
    (depth,) = connection.execute(f"SELECT len(items) FROM {log} LIMIT 1").fetchone()
    bucket = "hash(user) % 30" if "unit" in watch.roles else "0"
    grouped, broken = tally_by_hand(log, depth, bucket, "{name}[{k}]")
    with watch.step("engine"):
        connection.execute(f"CREATE TEMP TABLE t AS {grouped}")
        found = connection.execute(broken).fetchall()[0]
    assert not any(found), found


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
    table = pq.read_table(watch.candidate())
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
    fc.report(watch.tally(), watch.candidate()).save(watch.folder / "report.html")


def reproduce(watch: Watch) -> None:
    """The paper's experiments, from the raw file to the figures."""
    sys.argv = ["foreclick", "reproduce", f"{watch.folder}/train", "-o", f"{watch.folder}/figures"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        cli.main()


# --- on a Spark cluster ---------------------------------------------------------------------------

ASKED: dict[str, Any] = {
    "metrics": ["clicks@2", "clicks@3", "dcg@10"],
    "estimators": ["list", "ip", "item", "pbm", "rctr"],
}
FEW: dict[str, Any] = {"metrics": "clicks@3", "estimators": "ip"}
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

    def same(self) -> None:
        """The tally and its answers, to the last bit."""
        here, there = self.here(), self.there()
        assert there.to_arrow().equals(here.to_arrow()), "the tally differs"
        asked = FEW if self.quick else ASKED
        found, expected = (
            fc.evaluate(tally, self.watch.candidate(), **asked) for tally in (there, here)
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
            timer = threading.Timer(takes * moment, self.cluster.kill_worker)
            timer.start()
            assert self.there().to_arrow().equals(expected), "the tally differs"
            timer.join()
            self.cluster.add_worker()
            print(f"killed {number}: a worker died at {moment:.0%} of a tally; not a bit differs")

    def by_hand(self, _: object) -> int:
        """The tally in Spark SQL, with the rules of a log checked on its rows."""
        self.spark.read.parquet(self.files).createOrReplaceTempView("raw")
        bucket, element = "pmod(hash(user), 30)", "get({name}, {k} - 1)"
        grouped, broken = tally_by_hand("raw", 10, bucket, element)
        counted = self.spark.sql(grouped).persist()
        counted.createOrReplaceTempView("t")
        rows = int(counted.count())
        (found,) = self.spark.sql(broken).collect()
        assert not any(found), found
        counted.unpersist(blocking=True)
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
    with cluster() as made:
        session = Spark(watch, made)
        try:
            getattr(session, part)()
        finally:
            session.spark.stop()


# --- the run ------------------------------------------------------------------------------------

WHOLE: dict[str, Callable[[Watch], object]] = {
    "tally": tally,
    "report": report,
    "backtest": lambda watch: fc.backtest(watch.tally()),
    "optimize": lambda watch: fc.optimize(watch.tally()),
    "reproduce": reproduce,
}
"""Steps that are measured from their first line to their last."""

PARTS: dict[str, Callable[[Watch], None]] = {
    **{step.__name__: step for step in (engine, raw_by_hand, answers, compare)},
    **{part: partial(on_spark, part) for part in KINDS["spark"].steps},
}
"""Those that say themselves what of them is measured."""


def perform(step: str, watch: Watch) -> None:
    """Do a step."""
    if step in PARTS:
        PARTS[step](watch)
        return
    with watch.step(step):
        WHOLE[step](watch)


@study(
    "perf",
    ["log", "threads", "step"],
    "cpu:.2f, beside:.2f, clock:.2f, peak:.2f",
    logs=["shop", "repeating"],
    sizes=[1_000_000, 10_000_000],
)
def perf(
    log: str,
    size: int,
    steps: list[str] = [*PARTS, *WHOLE],
    threads: list[int] = [1, 0],
    memory: str = "2GB",
    candidates: int = 20,
    rounds: int = 3,
    folder: str = "",
) -> Iterator[Row]:
    """What steps cost in CPU s, by the clock and in GB; with no `folder`, no log is kept.

    0 threads are as many as there are cores. On Spark, *cpu* and *clock* are ratios.
    """
    with tempfile.TemporaryDirectory() as root:
        place = Path(folder or root, f"{log}-{size}")
        if not place.exists():
            place.mkdir(parents=True)
            KINDS[log].write(place, size)
        for number in threads:
            by_hand = None
            for step in KINDS[log].steps:
                given = (place, memory, candidates, rounds)
                found = measured(step, given, number) if step in steps else {}
                by_hand = found.get("engine", {}).get("cpu", by_hand)
                for name, row in found.items():
                    key = {"log": f"{log}, {size:,}", "threads": number, "step": name, "peak": None}
                    yield key | row | {"beside": row["cpu"] / by_hand if by_hand else None}


def measured(step: str, given: Iterable[Any], threads: int) -> dict[str, dict[str, float]]:
    """What a step took, in a process of its own."""
    blas = {"OPENBLAS_NUM_THREADS": str(threads)} if threads else {}
    command = [sys.executable, "-m", "benchmarks.perf", step, *map(str, given)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | blas
    )
    if done.returncode:
        raise SystemExit(f"{step} failed: {done.stderr.strip().splitlines()[-1][:200]}")
    *told, last = done.stdout.splitlines()
    print("\n".join(told), end="\n" if told else "", flush=True)
    found: dict[str, dict[str, float]] = json.loads(last)
    return found


def spark(given: Sequence[str]) -> None:
    """The steps of the log "spark" by a shorter command: STEPS --records 1000000."""
    options = ["--sizes" if word == "--records" else word for word in given]
    before = ["--sizes", "1000000", "--logs", "spark", "--threads", "0", "--steps"]
    run("perf", options if "--help" in options else [*before, *options])


def main(step: str, folder: str, memory: str, candidates: str, rounds: str) -> None:
    """Do one step in this process, and print what it took."""
    watch = Watch(Path(folder), memory, int(candidates), int(rounds))
    perform(step, watch)
    print(json.dumps(watch.steps))


if __name__ == "__main__":
    main(*sys.argv[1:])
