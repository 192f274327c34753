"""foreclick against the bare engine, in one run: `make bench`.

Every measurement is a process of its own under DuckDB's memory limit, ours and the bare engine's in
turn, five rounds; the figures are medians and their ratios. The bare twin is the same work in
hand-written SQL: the group-by, and the rules of a log checked on its result. Each step is timed by
the clock and by the processors it kept busy.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.answers import clipped

POSITIONS = range(1, 11)
METRICS = ["clicks@2", "clicks@3", "dcg@10"]
ESTIMATORS = ["list", "ip", "item", "pbm", "rctr"]
COMPARED = 20
"""Candidates of a comparison."""

CLIPS = (1, 2, 3, 5, 7, 10, 14, 20, 30, 40, 50, 70, 100, 140, 200, 300, 500, 700, 1000, math.inf)
WIDE: dict[str, Any] = {
    "items": [f"item_{k}" for k in POSITIONS],
    "clicks": [f"click_{k}" for k in POSITIONS],
}


# --- one measurement, in a process of its own --------------------------------------------------


class Watch:
    """The seconds of each step, by the clock (`name`) and of all processors (`name cpu`)."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        clock, cpu = time.perf_counter(), _processors()
        yield
        self.seconds[name] = time.perf_counter() - clock
        self.seconds[f"{name} cpu"] = _processors() - cpu


def _processors() -> float:
    """The processor seconds of this process and of its children that have ended."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def ours(path: str, layout: str, memory: str) -> dict[str, float]:
    """Parquet to tally, and the tally to five estimators × three metrics."""
    import foreclick as fc
    from foreclick.engines import laptop

    engine = laptop(memory_limit=memory)
    candidate = fc.Ranking(_candidates(engine, path, layout, 1)[0])
    asked: dict[str, Any] = {"metrics": METRICS, "estimators": ESTIMATORS}
    climbed: dict[str, Any] = {"metrics": METRICS, "estimators": "ladder"}
    watch = Watch()
    with watch.step("tally"):
        counted = fc.tally(_read(engine, path, layout))
    with watch.step("write"):
        counted.write_parquet(_written(path))
    with watch.step("evaluate"):
        answer = fc.evaluate(counted, candidate, **asked, confidence=None)
    with watch.step("intervals"):
        fc.evaluate(counted, candidate, **asked, confidence=0.95)
    with watch.step("ladder"):
        fc.evaluate(counted, candidate, **climbed, confidence=None)
    with watch.step("ladder_intervals"):
        fc.evaluate(counted, candidate, **climbed, confidence=0.95)
    rows = counted.row_count()
    return {**watch.seconds, "rows": rows, "answers": len(answer), "memory": peak()}


def from_written(path: str, layout: str, memory: str) -> dict[str, float]:
    """The written tally to evaluations with intervals, and to comparisons.

    A tally is read anew for each kind of cluster and each comparison, so that the first candidate
    always pays for what candidates share; the second one finds that done.
    """
    import foreclick as fc
    from foreclick.engines import laptop

    engine = laptop(memory_limit=memory)
    first, second, *others = map(fc.Ranking, _candidates(engine, path, layout, COMPARED))
    asked: dict[str, Any] = {"metrics": METRICS, "estimators": ESTIMATORS}
    watch = Watch()
    kinds: tuple[tuple[str, Any], ...] = (("period", "auto"), ("record", "record"))
    for kind, clusters in kinds:
        with watch.step(f"{kind} first"):
            counted = fc.read_tally(_written(path))
            fc.evaluate(counted, first, **asked, confidence=fc.Confidence(clusters=clusters))
        with watch.step(f"{kind} second"):
            fc.evaluate(counted, second, **asked, confidence=fc.Confidence(clusters=clusters))
    every = {str(i): policy for i, policy in enumerate([first, second, *others])}
    for name, some in (("compare one", {"0": first}), ("compare all", every)):
        with watch.step(name):
            fc.compare(fc.read_tally(_written(path)), some, estimators="ip", metrics="clicks@3")
    return {**watch.seconds, "memory": peak()}


def held_out(path: str, layout: str, memory: str) -> dict[str, float]:
    """Parquet to tally, and the tally to a backtest of everything."""
    import foreclick as fc
    from foreclick.engines import laptop

    watch = Watch()
    with watch.step("tally"):
        log = _read(laptop(memory_limit=memory), path, layout)
    with watch.step("backtest"):
        answer = fc.backtest(
            log, metrics=[*METRICS, "clicks@10"], estimators=clipped(ESTIMATORS, list(CLIPS))
        )
    return {
        **watch.seconds,
        "answers": len(answer),
        "pairs": answer["pairs"][0],
        "memory": peak(),
    }


def _read(engine: object, path: str, layout: str) -> Any:
    import foreclick as fc

    roles = WIDE if layout == "wide" else {}
    return fc.read_log(path, context="query", period="day", engine=engine, **roles)


def _written(path: str) -> str:
    """Where the tally of a log is written to."""
    return f"{path}.tally"


def _candidates(engine: object, path: str, layout: str, count: int) -> list[pa.Table]:
    """For each query one of its logged lists, with two items exchanged: others in each candidate.

    The first candidate exchanges the first two items.
    """
    connection = engine.connection  # type: ignore[attr-defined]
    shown = ", ".join(f"item_{k}" if layout == "wide" else f"items[{k}]" for k in POSITIONS)
    table = connection.sql(
        f"SELECT query AS context, arg_min([{shown}], user) AS items FROM '{path}' GROUP BY query"
    ).to_arrow_table()
    lists = np.array(table["items"].to_pylist())
    pairs = [(i, j) for j in range(1, len(POSITIONS)) for i in range(j)]
    found = []
    for i, j in pairs[:count]:
        order = list(range(len(POSITIONS)))
        order[i], order[j] = j, i
        found.append(pa.table({"context": table["context"], "items": list(lists[:, order])}))
    return found


def connect(memory: str) -> Any:
    """DuckDB without foreclick, under the same limit."""
    import duckdb

    connection = duckdb.connect(config={"memory_limit": memory})
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(f"SET temp_directory = '{tempfile.gettempdir()}/bench-spill'")
    return connection


def tally_by_hand(connection: Any, path: str, layout: str = "array") -> int:
    """The tally in hand-written SQL, with the same rules checked on its rows; how many they are."""
    if layout == "wide":
        columns = ", ".join(f"item_{k}, click_{k}" for k in POSITIONS)
        source = f"SELECT query, day, {columns}, 10 AS length FROM '{path}'"
    else:
        columns = ", ".join(f"items[{k}] AS item_{k}, clicks[{k}] AS click_{k}" for k in POSITIONS)
        length = "greatest(len(items), len(clicks))"
        source = f"SELECT query, day, {columns}, {length} AS length FROM '{path}'"
    keys = ", ".join(["query", "day", *(f"item_{k}, click_{k}" for k in POSITIONS)])
    connection.execute(
        f"CREATE TEMP TABLE tally AS SELECT {keys}, max(length) AS length, count(*) AS n "
        f"FROM ({source}) GROUP BY {keys}"
    )
    broken = ", ".join(f"sum(n) FILTER ({rule})" for rule in rules())
    wrong = connection.execute(f"SELECT {broken}, max(length), count(*) FROM tally").fetchall()[0]
    assert wrong[:5] == (None,) * 5, wrong
    assert wrong[5] == len(POSITIONS), wrong
    return int(wrong[6])


def rules() -> list[str]:
    """What no row of a tally may be, in SQL."""
    return [
        " OR ".join(f"item_{a} = item_{b}" for a in POSITIONS for b in POSITIONS if a < b),
        " AND ".join(f"item_{k} IS NULL" for k in POSITIONS),
        " OR ".join(f"(item_{k} IS NULL) <> (click_{k} IS NULL)" for k in POSITIONS),
        " OR ".join(f"click_{k} < 0" for k in POSITIONS),
        "query IS NULL",
    ]


def bare(path: str, layout: str, memory: str) -> dict[str, float]:
    """The tally without foreclick."""
    connection, watch = connect(memory), Watch()
    with watch.step("tally"):
        rows = tally_by_hand(connection, path, layout)
    return {**watch.seconds, "rows": rows, "memory": peak()}


def peak() -> float:
    """The largest resident size of this process so far, in GB.

    Linux's own mark: that of `getrusage` starts from where the parent's was.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e9


# --- the run ------------------------------------------------------------------------------------


def measure(who: str, path: Path, layout: str, memory: str) -> dict[str, float]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.bench",
        "--one",
        who,
        str(path),
        layout,
        "--memory",
        memory,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


Rounds = list[dict[str, float]]


def median(rounds: Rounds, name: str) -> float:
    """The median over rounds of a measured number."""
    return statistics.median(one[name] for one in rounds)


def show(name: str, rounds: Rounds, note: str, goal: float | None = None) -> None:
    """A line for a step: seconds by the clock and of processors, and whether a goal is met."""
    took, cpu = median(rounds, name), median(rounds, f"{name} cpu")
    print(f"  {name:16s} {took:7.2f} s {cpu:7.2f} s cpu   {note}{_met(took, goal)}")


def show_memory(rounds: Rounds, limit: float, goal: float | None = None) -> None:
    """A line for the largest peak of all rounds."""
    most = max(one["memory"] for one in rounds)
    print(f"  {'peak':16s} {most:7.2f} GB{'':16s} limit {limit:g} GB{_met(most, goal)}")


def _met(value: float, goal: float | None) -> str:
    if goal is None:
        return ""
    return f"; goal ≤ {goal:.2f}, {'met' if value <= goal else 'MISSED'}"


def report(layout: str, found: dict[str, Rounds], limit: float) -> None:
    """What was measured of one layout, beside the bare engine."""
    mine, bare_ones, written = found["ours"], found["bare"], found["from_written"]
    assert {a["rows"] for a in mine} == {b["rows"] for b in bare_ones}, "the tallies differ"
    plain, plain_cpu = median(bare_ones, "tally"), median(bare_ones, "tally cpu")

    def beside(rounds: Rounds, name: str) -> str:
        took, cpu = median(rounds, name) / plain, median(rounds, f"{name} cpu") / plain_cpu
        return f"{took:.2f} × bare, {cpu:.2f} × its cpu"

    def ratio(rounds: Rounds, name: str, other: str) -> str:
        return f"{median(rounds, name) / median(rounds, other):.2f}"

    tally, evaluate, intervals = (median(mine, n) for n in ("tally", "evaluate", "intervals"))
    print(f"\n{layout}: {mine[0]['rows']:,.0f} rows of the tally, {mine[0]['answers']} answers")
    print(f"  {'bare tally':16s} {plain:7.2f} s {plain_cpu:7.2f} s cpu")
    show("tally", mine, beside(mine, "tally"), 1.10 * plain + 1.5)
    show("write", mine, beside(mine, "write"))
    show("evaluate", mine, f"{ratio(mine, 'evaluate', 'tally')} × our tally", 0.5 * tally + 1.5)
    show("intervals", mine, f"{ratio(mine, 'intervals', 'evaluate')} × without", 1.5 * evaluate)
    show("ladder", mine, f"{ratio(mine, 'ladder', 'evaluate')} × the five", 2 * evaluate)
    note = f"{ratio(mine, 'ladder_intervals', 'intervals')} × those of the five"
    show("ladder_intervals", mine, note, 2 * intervals)
    show_memory(mine, limit, 1.2 * limit)
    print("  from the written tally, five estimators × three metrics with intervals:")
    for kind in ("period", "record"):
        show(f"{kind} first", written, beside(written, f"{kind} first"))
        share = ratio(written, f"{kind} second", f"{kind} first")
        show(f"{kind} second", written, f"{share} × the first candidate")
    show("compare one", written, beside(written, "compare one"))
    show(
        "compare all", written, f"{COMPARED}: {ratio(written, 'compare all', 'compare one')} × one"
    )
    show_memory(written, limit)


def report_backtest(name: str, rounds: Rounds, limit: float) -> None:
    """What was measured of a backtest."""
    tally, held, first = median(rounds, "tally"), median(rounds, "backtest"), rounds[0]
    print(f"\nbacktest, {name}: {first['pairs']:,.0f} pairs, {first['answers']} answers")
    show("backtest", rounds, f"{held / tally:.2f} × our tally ({tally:.2f} s)", 4 * tally)
    show_memory(rounds, limit, 4.0)


MEASURED: dict[str, Callable[[str, str, str], dict[str, float]]] = {
    "ours": ours,
    "bare": bare,
    "from_written": from_written,
    "held_out": held_out,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        who, path, layout = args.one
        print(json.dumps(MEASURED[who](path, layout, args.memory)))
        return
    from benchmarks.generate import generate
    from foreclick.simulate import yandex_like

    with tempfile.TemporaryDirectory() as folder:
        paths = {"array": Path(folder, "arrays.parquet"), "wide": Path(folder, "wide.parquet")}
        print(f"generating {args.records:,} records …", flush=True)
        generate(args.records, paths["array"], paths["wide"])
        for layout, path in paths.items():
            found: dict[str, Rounds] = {"ours": [], "bare": [], "from_written": []}
            for number in range(args.rounds):
                for who in _turns(number):
                    found[who].append(measure(who, path, layout, args.memory))
                print(".", end="", flush=True)
            report(layout, found, float(args.memory.removesuffix("GB")))
        # The world that resembles the paper's log, and a log with twenty times as many queries.
        like = Path(folder, "yandex_like.parquet")
        yandex_like(records=args.records, seed=7).write_parquet(like)
        for name, path, layout, times in (
            ("1,000 queries", like, "array", args.rounds),
            ("20,000 queries", paths["wide"], "wide", 1),
        ):
            held = [measure("held_out", path, layout, "3GB") for _ in range(times)]
            report_backtest(name, held, 3)


def _turns(number: int) -> list[str]:
    """Who goes first changes from round to round; the tally is written by `ours`."""
    first = ["ours", "bare"] if number % 2 == 0 else ["bare", "ours"]
    return [*first, "from_written"]


if __name__ == "__main__":
    main()
