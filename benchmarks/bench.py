"""What an answer costs, as ratios to the engine's own pass over the log: `make bench`.

The log is as real ones are: a long tail of queries, lists that hardly repeat (`simulate.shop`). A
second log, in which lists repeat, stands beside it (`--logs repeating`). Every step is a process of
its own, so that its peak of memory is its own, under DuckDB's memory limit and with a number of
BLAS threads. What is compared is seconds of processors; the engine's pass, the group-by of the log
in hand-written SQL with the rules of a log checked on its rows, is measured in the same run.
"""

from __future__ import annotations

import argparse
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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

POSITIONS = range(1, 11)
COMPARED = 20
"""Candidates of a comparison."""

PART = 10_000_000
"""Lists of a log that are drawn at a time; each part has queries of its own."""

LISTS_PER_QUERY = {1_000_000: 20}
"""How many lists a query of the long tail has on average; 42 in larger logs."""

ROLES: dict[str, Any] = {"context": "query", "period": "day", "unit": "user"}


# --- logs ---------------------------------------------------------------------------------------


def write_shop(folder: Path, records: int) -> None:
    """A log of a shop in parts, and its candidates as a table each."""
    from foreclick.simulate import shop

    queries = records // LISTS_PER_QUERY.get(records, 42)
    parts = max(-(-records // PART), 1)
    names = ("better", "similar")
    writers: dict[str, pq.ParquetWriter] = {}
    for part in range(parts):
        some = replace(
            shop.REGIMES["shop"],
            records=records // parts,
            queries=queries // parts,
            candidates=names,
        )
        drawn = shop.draw(some, seed=1000 + part)
        pq.write_table(_numbered(drawn.log, part, parts), folder / f"log-{part:03d}.parquet")
        for name in names:
            table = _numbered(drawn.candidates[name], part, parts)
            if name not in writers:
                writers[name] = pq.ParquetWriter(folder / f"{name}.candidate.parquet", table.schema)
            writers[name].write_table(table)
    for writer in writers.values():
        writer.close()


def _numbered(table: pa.Table, part: int, parts: int) -> pa.Table:
    """With queries that no other part has."""
    query = np.asarray(table["query"]) * parts + part
    return table.set_column(0, "query", pa.array(query))


def write_repeating(folder: Path, records: int) -> None:
    """A log in which most lists were shown before, and candidates of them."""
    import duckdb

    from foreclick.simulate import yandex_like

    yandex_like(records=records, queries=20_000, seed=7).write_parquet(folder / "days")
    for path in (folder / "days").glob("*.parquet"):
        path.rename(folder / f"log-{path.name}")
    for name, order in (("better", (2, 1, *range(3, 11))), ("similar", (1, 3, 2, *range(4, 11)))):
        items = ", ".join(f"items[{k}]" for k in order)
        duckdb.execute(
            f"COPY (SELECT query, [{items}] AS items FROM (SELECT query, arg_max(items, day) AS "
            f"items FROM '{folder}/log-*.parquet' GROUP BY query)) "
            f"TO '{folder}/{name}.candidate.parquet' (FORMAT parquet)"
        )


LOGS: dict[str, Callable[[Path, int], None]] = {"shop": write_shop, "repeating": write_repeating}


# --- one measurement, in a process of its own ---------------------------------------------------


class Watch:
    """Processor seconds of each step, the clock's, and the peak of memory after it."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[str, float]] = {}

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


def connect(memory: str) -> Any:
    """DuckDB without foreclick, under the same limit."""
    import duckdb

    connection = duckdb.connect(config={"memory_limit": memory})
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(f"SET temp_directory = '{tempfile.gettempdir()}/bench-spill'")
    return connection


def rules() -> list[str]:
    """What no row of a tally may be, in SQL."""
    return [
        " OR ".join(f"item_{a} = item_{b}" for a in POSITIONS for b in POSITIONS if a < b),
        " AND ".join(f"item_{k} IS NULL" for k in POSITIONS),
        " OR ".join(f"(item_{k} IS NULL) <> (click_{k} IS NULL)" for k in POSITIONS),
        " OR ".join(f"click_{k} < 0" for k in POSITIONS),
        "query IS NULL",
    ]


def engine(watch: Watch, folder: Path, memory: str) -> None:
    """The log's group-by in hand-written SQL, with the same rules checked on its rows."""
    columns = ", ".join(f"items[{k}] AS item_{k}, clicks[{k}] AS click_{k}" for k in POSITIONS)
    keys = ", ".join(["query", "day", "bucket", *(f"item_{k}, click_{k}" for k in POSITIONS)])
    connection = connect(memory)
    with watch.step("engine"):
        connection.execute(
            f"CREATE TEMP TABLE tally AS SELECT {keys}, count(*) AS n FROM (SELECT query, day, "
            f"hash(user) % 30 AS bucket, {columns} FROM '{folder}/log-*.parquet') GROUP BY {keys}"
        )
        broken = ", ".join(f"sum(n) FILTER ({rule})" for rule in rules())
        wrong = connection.execute(f"SELECT {broken} FROM tally").fetchall()[0]
    assert wrong == (None,) * 5, wrong


def tally(watch: Watch, folder: Path, memory: str) -> None:
    """Parquet to a tally in a file."""
    import foreclick as fc
    from foreclick.engines import laptop

    with watch.step("tally"):
        log = fc.read_log(f"{folder}/log-*.parquet", engine=laptop(memory_limit=memory), **ROLES)
        fc.tally(log).write_parquet(folder / "tally")


def answers(watch: Watch, folder: Path, _memory: str) -> None:
    """The default answer of a first candidate, and of the next."""
    import foreclick as fc

    counted = fc.read_tally(folder / "tally")
    for step, name in (("first", "better"), ("next", "similar")):
        with watch.step(step):
            fc.evaluate(counted, _candidate(folder, name))


def compare(watch: Watch, folder: Path, _memory: str) -> None:
    """Twenty candidates, each with two other items exchanged."""
    import foreclick as fc

    table = pq.read_table(folder / "better.candidate.parquet")
    lists = np.stack(table["items"].to_numpy())
    pairs = [(i, j) for j in range(1, len(POSITIONS)) for i in range(j)][:COMPARED]
    named = {}
    for i, j in pairs:
        order = list(range(len(POSITIONS)))
        order[i], order[j] = j, i
        items = pa.array(list(lists[:, order]))
        named[f"{i}-{j}"] = fc.Ranking(pa.table({"context": table["query"], "items": items}))
    with watch.step("compare"):
        fc.compare(fc.read_tally(folder / "tally"), named)


def report(watch: Watch, folder: Path, _memory: str) -> None:
    """A report of one candidate."""
    import foreclick as fc

    with watch.step("report"):
        found = fc.report(fc.read_tally(folder / "tally"), _candidate(folder, "better"))
        found.save(folder / "report.html")


def backtest(watch: Watch, folder: Path, _memory: str) -> None:
    """The default backtest."""
    import foreclick as fc

    with watch.step("backtest"):
        fc.backtest(fc.read_tally(folder / "tally"))


def optimize(watch: Watch, folder: Path, _memory: str) -> None:
    """The best policy."""
    import foreclick as fc

    with watch.step("optimize"):
        fc.optimize(fc.read_tally(folder / "tally"))


def _candidate(folder: Path, name: str) -> str:
    return str(folder / f"{name}.candidate.parquet")


PROCESSES: dict[str, Callable[[Watch, Path, str], None]] = {
    process.__name__: process
    for process in (engine, tally, answers, compare, report, backtest, optimize)
}


# --- the run ------------------------------------------------------------------------------------


def measure(process: str, folder: Path, memory: str, threads: int | None) -> dict[str, Any]:
    """The steps of a process, with so many BLAS threads; None for as many as it takes."""
    blas = {} if threads is None else {"OPENBLAS_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "benchmarks.bench", "--one", process, str(folder)]
    done = subprocess.run(
        [*command, "--memory", memory],
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
            print(f"  {name:10s} failed: {step['failed']}", flush=True)
            continue
        ratio = f"{step['cpu'] / bare:6.2f} × engine" if bare else ""
        print(
            f"  {name:10s} {step['cpu']:8.2f} CPU s {ratio:16s} {step['clock']:8.2f} s by the "
            f"clock  peak {step['peak']:5.2f} GB",
            flush=True,
        )


def run(
    name: str, folder: Path, memory: str, threads: Sequence[int | None], asked: Sequence[str]
) -> dict[str, Any]:
    """All processes of a log, with each number of BLAS threads."""
    found: dict[str, Any] = {}
    for number in threads:
        said = "as many BLAS threads as cores" if number is None else f"{number} BLAS thread"
        print(f"{name}, {said}, DuckDB under {memory}", flush=True)
        bare = 0.0
        for process in asked:
            steps = measure(process, folder, memory, number)
            bare = steps.get("engine", {}).get("cpu", bare)
            show(steps, bare)
            found |= {f"{step}, {said}": each for step, each in steps.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--logs", nargs="+", default=["shop", "repeating"], choices=list(LOGS))
    parser.add_argument("--steps", nargs="+", default=list(PROCESSES), choices=list(PROCESSES))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 0], help="0: all cores")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--folder", type=Path, help="where logs are kept; by default, nowhere")
    parser.add_argument("--json", type=Path, help="where the figures are written to")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        process, path = args.one
        watch = Watch()
        PROCESSES[process](watch, Path(path), args.memory)
        print(json.dumps(watch.steps))
        return
    root, found = args.folder or Path(tempfile.mkdtemp()), {}
    try:
        for log in args.logs:
            for size in args.sizes:
                folder, name = root / f"{log}-{size}", f"{log}, {size:,} lists"
                if not folder.exists():
                    folder.mkdir(parents=True)
                    LOGS[log](folder, size)
                threads = [number or None for number in args.threads]
                found[name] = run(name, folder, args.memory, threads, args.steps)
    finally:
        if args.folder is None:
            shutil.rmtree(root)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
