"""foreclick against the bare engine, in one run: `make bench`.

Every measurement is a process of its own under DuckDB's memory limit, ours and the bare engine's in
turn, five rounds; the figures are medians and their ratios. The bare twin is the same work in
hand-written SQL: the group-by, and the rules of a log checked on its result.
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
from pathlib import Path
from typing import Any

POSITIONS = range(1, 11)
METRICS = ["clicks@2", "clicks@3", "dcg@10"]
ESTIMATORS = ["list", "ip", "item", "pbm", "rctr"]
CLIPS = (1, 2, 3, 5, 7, 10, 14, 20, 30, 40, 50, 70, 100, 140, 200, 300, 500, 700, 1000, math.inf)
WIDE: dict[str, Any] = {
    "items": [f"item_{k}" for k in POSITIONS],
    "clicks": [f"click_{k}" for k in POSITIONS],
}


# --- one measurement, in a process of its own --------------------------------------------------


def ours(path: str, layout: str, memory: str) -> dict[str, float]:
    """Parquet to tally, and the tally to five estimators × three metrics."""
    import foreclick as fc
    from foreclick.engines import laptop

    engine = laptop(memory_limit=memory)
    candidate = fc.Ranking(_candidate(engine, path, layout))
    start = time.perf_counter()
    log = fc.read_log(
        path, context="query", period="day", engine=engine, **(WIDE if layout == "wide" else {})
    )
    counted = fc.tally(log)
    tallied = time.perf_counter()
    asked: dict[str, Any] = {"metrics": METRICS, "estimators": ESTIMATORS}
    answer = fc.evaluate(counted, candidate, **asked, clusters=None)
    done = time.perf_counter()
    fc.evaluate(counted, candidate, **asked, clusters="period")
    spread = time.perf_counter()
    fc.evaluate(counted, candidate, metrics=METRICS, estimators="ladder", clusters=None)
    climbed = time.perf_counter()
    fc.evaluate(counted, candidate, metrics=METRICS, estimators="ladder", clusters="period")
    climbed_spread = time.perf_counter()
    rows = counted.engine.rows(counted.table.aggregate(n=counted.table.count()))[0]["n"]
    return {
        "tally": tallied - start,
        "evaluate": done - tallied,
        "intervals": spread - done,
        "ladder": climbed - spread,
        "ladder_intervals": climbed_spread - climbed,
        "rows": rows,
        "answers": len(answer),
        "memory": peak(),
    }


def held_out(path: str, layout: str, memory: str) -> dict[str, float]:
    """Parquet to tally, and the tally to a backtest of everything."""
    import foreclick as fc
    from foreclick.engines import laptop

    start = time.perf_counter()
    log = fc.read_log(
        path,
        context="query",
        period="day",
        engine=laptop(memory_limit=memory),
        **(WIDE if layout == "wide" else {}),
    )
    tallied = time.perf_counter()
    answer = fc.backtest(
        log, metrics=[*METRICS, "clicks@10"], estimators=ESTIMATORS, clip=list(CLIPS)
    )
    done = time.perf_counter()
    return {
        "tally": tallied - start,
        "backtest": done - tallied,
        "answers": len(answer),
        "pairs": answer["pairs"][0],
        "memory": peak(),
    }


def _candidate(engine: object, path: str, layout: str) -> object:
    """For each query one of its logged lists, with the first two items exchanged."""
    connection = engine.backend.con  # type: ignore[attr-defined]
    first = [f"item_{k}" if layout == "wide" else f"items[{k}]" for k in POSITIONS]
    swapped = ", ".join([first[1], first[0], *first[2:]])
    return connection.sql(
        f"SELECT query AS context, arg_min([{swapped}], user) AS items FROM '{path}' GROUP BY query"
    ).to_arrow_table()


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
    connection = connect(memory)
    start = time.perf_counter()
    rows = tally_by_hand(connection, path, layout)
    return {"tally": time.perf_counter() - start, "rows": rows, "memory": peak()}


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


def report(
    layout: str, rounds: list[tuple[dict[str, float], dict[str, float]]], limit: float
) -> None:
    mine, theirs = [a for a, _ in rounds], [b for _, b in rounds]
    assert {a["rows"] for a in mine} == {b["rows"] for b in theirs}, "the tallies differ"
    tally = statistics.median(a["tally"] for a in mine)
    plain = statistics.median(b["tally"] for b in theirs)
    evaluate = statistics.median(a["evaluate"] for a in mine)
    ladder = statistics.median(a["ladder"] for a in mine)
    climbed = statistics.median(a["ladder_intervals"] for a in mine)
    intervals = statistics.median(a["intervals"] for a in mine)
    peak = max(a["memory"] for a in mine)
    verdicts = [
        ("tally", tally, 1.10 * plain + 1.5, f"{tally / plain:.2f} × bare ({plain:.2f} s)"),
        ("evaluate", evaluate, 0.5 * tally + 1.5, f"{evaluate / tally:.2f} × our tally"),
        ("intervals", intervals, 1.5 * evaluate, f"{intervals / evaluate:.2f} × without"),
        ("ladder", ladder, 2 * evaluate, f"{ladder / evaluate:.2f} × the five"),
        ("its interval", climbed, 2 * intervals, f"{climbed / intervals:.2f} × those of the five"),
        ("peak GB", peak, 1.2 * limit, f"limit {limit:g} GB"),
    ]
    print(f"\n{layout}: {mine[0]['rows']:,.0f} rows of the tally, {mine[0]['answers']} answers")
    for name, value, goal, note in verdicts:
        met = "met" if value <= goal else "MISSED"
        print(f"  {name:9s} {value:6.2f}   goal ≤ {goal:5.2f}   {met:6s}  {note}")


def report_backtest(name: str, rounds: list[dict[str, float]], limit: float) -> None:
    tally = statistics.median(r["tally"] for r in rounds)
    held = statistics.median(r["backtest"] for r in rounds)
    peak = max(r["memory"] for r in rounds)
    first = rounds[0]
    print(f"\nbacktest, {name}: {first['pairs']:,.0f} pairs, {first['answers']} answers")
    for what, value, goal, note in (
        ("backtest", held, 4 * tally, f"{held / tally:.2f} × our tally ({tally:.2f} s)"),
        ("peak GB", peak, 4.0, f"limit {limit:g} GB"),
    ):
        met = "met" if value <= goal else "MISSED"
        print(f"  {what:9s} {value:6.2f}   goal ≤ {goal:5.2f}   {met:6s}  {note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        who, path, layout = args.one
        print(
            json.dumps(
                {"ours": ours, "bare": bare, "held_out": held_out}[who](path, layout, args.memory)
            )
        )
        return
    from benchmarks.generate import generate

    from foreclick.simulate import yandex_like

    with tempfile.TemporaryDirectory() as folder:
        paths = {"array": Path(folder, "arrays.parquet"), "wide": Path(folder, "wide.parquet")}
        print(f"generating {args.records:,} records …", flush=True)
        generate(args.records, paths["array"], paths["wide"])
        for layout, path in paths.items():
            rounds = []
            for number in range(args.rounds):
                pair = {w: measure(w, path, layout, args.memory) for w in _turns(number)}
                rounds.append((pair["ours"], pair["bare"]))
                print(".", end="", flush=True)
            report(layout, rounds, float(args.memory.removesuffix("GB")))
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
    """Who goes first changes from round to round."""
    return ["ours", "bare"] if number % 2 == 0 else ["bare", "ours"]


if __name__ == "__main__":
    main()
