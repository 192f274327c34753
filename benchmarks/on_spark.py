"""A shop's log on a real Spark cluster: the same answers, workers killed, and beside SQL by hand.

    python -m benchmarks spark same killed kept --records 1000000
    python -m benchmarks spark timed drawn --records 10000000

`same` compares the tally and its answers on the cluster with those of DuckDB; `killed` does so,
too, and kills a worker in the middle of a tally, twice (once if there are few records); `kept`
evaluates a tally that stays in the cluster against one that was copied, and kills a worker in the
middle of that. `timed` measures the tally against the same work in Spark SQL written by hand, in
turn; `drawn` does so of a tenth of the records, by contexts, and compares them with what DuckDB
draws.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import foreclick as fc
from benchmarks import logs
from benchmarks.perf import rules
from benchmarks.spark_cluster import Cluster
from benchmarks.study import Row, command_of, keep
from foreclick.tallies import base

ROLES: dict[str, Any] = logs.ROLES | {"sample": None}
ASKED: dict[str, Any] = {
    "metrics": ["clicks@2", "clicks@3", "dcg@10"],
    "estimators": ["list", "ip", "item", "pbm", "rctr"],
}
FEW: dict[str, Any] = {"metrics": "clicks@3", "estimators": "ip"}
POSITIONS = range(1, 11)
QUICK = 100_000
"""Below so many records, it is a test: one estimate, and JVMs that start fast."""

_FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Run:
    """A cluster, its session, and a log in a folder."""

    def __init__(self, cluster: Cluster, spark: Any, folder: str, records: int) -> None:
        self.cluster, self.spark, self.records = cluster, spark, records
        self.quick = records < QUICK
        self.files, self.candidate = f"{folder}/log-*.parquet", f"{folder}/better.candidate.parquet"
        logs.write_shop(Path(folder), records)

    def there(self, **roles: Any) -> fc.Tally:
        """The tally on the cluster."""
        return fc.tally(fc.read_log(self.spark.read.parquet(self.files), **(ROLES | roles)))

    def here(self, **roles: Any) -> fc.Tally:
        """The tally in DuckDB."""
        return fc.tally(fc.read_log(self.files, **(ROLES | roles)))

    def same(self) -> None:
        """The tally and its answers, to the last bit."""
        here, there = self.here(), self.there()
        assert there.to_arrow().equals(here.to_arrow()), "the tally differs"
        asked = FEW if self.quick else ASKED
        found = fc.evaluate(there, self.candidate, **asked)
        expected = fc.evaluate(here, self.candidate, **asked)
        assert repr(found.to_dicts()) == repr(expected.to_dicts()), "an answer differs"
        print(f"same: {here.row_count():,} rows of the tally and {len(found.to_dicts())} answers")
        print(f"same: {found.notes[0]}", flush=True)

    def killed(self) -> None:
        """A worker is killed in the middle of a tally, and another comes; once a moment."""
        expected, start = self.here().to_arrow(), time.perf_counter()
        self.there().row_count()
        takes = time.perf_counter() - start
        for number, moment in enumerate((0.3,) if self.quick else (0.3, 0.6), start=1):
            with self.death(takes * moment):
                assert self.there().to_arrow().equals(expected), "the tally differs"
            print(f"killed {number}: a worker died at {moment:.0%} of a tally; not a bit differs")

    def death(self, after: float) -> Death:
        """Within it, a worker dies after so many seconds; then another comes."""
        return Death(self.cluster, after)

    def kept(self) -> None:
        """An evaluation in the cluster, over ranges of contexts, against one of a copied tally."""

        def evaluated(rows: int) -> tuple[float, str, str]:
            """From a tally that was just made; one of more rows stays where it is."""
            base.HOME_ROWS = rows
            tally = self.there()
            tally.row_count()
            start = time.perf_counter()
            found = fc.evaluate(tally, self.candidate, **ASKED)
            return time.perf_counter() - start, repr(found.to_dicts()), found.notes[0]

        usual = base.HOME_ROWS
        home, expected, _ = evaluated(usual)
        there, found, note = evaluated(0)
        assert found == expected, "an answer differs"
        print(f"kept: {note}\nkept: {there:.1f} s, at home {home:.1f} s (goal 3 ×)")
        with self.death(0.5 * there):
            assert evaluated(0)[1] == expected, "an answer differs"
        base.HOME_ROWS = usual
        print("kept: a worker died in the middle of an evaluation; not a bit differs", flush=True)

    # --- beside Spark SQL by hand -----------------------------------------------------------------

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
        tally = self.there(sample=sample)
        engine, found = tally.engine, int(tally.row_count())
        del tally
        gc.collect()
        engine.drop_unused()
        return found

    def timed(self, part: str, rounds: int) -> Row:
        """In turn; the first round only warms up the JVMs, which costs several times the work.

        Beside the clock stands the processor time of the workers: it bears that others are at work
        on the machine.
        """
        sample = max(self.records // 10, 1_000) if part == "drawn" else None
        if sample:
            here, there = (side(sample=sample).to_arrow() for side in (self.here, self.there))
            assert there.equals(here), "other contexts are drawn"
        works = [("ours", self.ours), ("by hand", self.by_hand)]
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in works}
        for number in range(rounds + 1):
            for name, work in works if number % 2 == 0 else works[::-1]:
                start, busy = time.perf_counter(), self.cluster.busy()
                rows = work(sample)
                took = time.perf_counter() - start, self.cluster.busy() - busy
                warm = "warm-up: " if number == 0 else ""
                print(
                    f"{part}, {warm}{name} {took[0]:.1f} s, {took[1]:.1f} s of the workers, "
                    f"{rows:,} rows",
                    flush=True,
                )
                seconds[name] += [took] if number else []
        (clock, theirs), (cpu, theirs_cpu) = (
            [statistics.median(t[kind] for t in took) for took in seconds.values()]
            for kind in (0, 1)
        )
        row = {"part": part, "clock": clock / theirs, "cpu": cpu / theirs_cpu}
        print(f"{part}: {row['clock']:.2f} × by the clock, {row['cpu']:.2f} × of the processors")
        return row


class Death:
    """A worker that dies after so many seconds, and another that comes afterwards."""

    def __init__(self, cluster: Cluster, after: float) -> None:
        self.cluster, self.timer = cluster, threading.Timer(after, cluster.kill_worker)

    def __enter__(self) -> None:
        self.timer.start()

    def __exit__(self, *_: object) -> None:
        self.timer.join()
        self.cluster.add_worker()


def main(given: Sequence[str]) -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser("spark", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=("same", "killed", "kept", "timed", "drawn"))
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="ratios also into results/spark.json")
    args = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as folder, Cluster() as cluster:
        options = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
        spark = cluster.session(**(dict.fromkeys(options, _FAST) if args.records < QUICK else {}))
        spark.sparkContext.setLogLevel("OFF")
        try:
            run = Run(cluster, spark, folder, args.records)
            for part in [part for part in ("same", "killed", "kept") if part in args.parts]:
                getattr(run, part)()
            timed = [part for part in ("timed", "drawn") if part in args.parts]
            rows = [run.timed(part, args.rounds) for part in timed]
        finally:
            spark.stop()
    if args.save:
        keep("spark", command_of("spark", given), rows)
