"""Extreme logs, one at a time in a process of its own: CPU seconds and memory. `make limits`.

python -m benchmarks.limits                  all of them, as a table
python -m benchmarks.limits K=100            one
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import foreclick as fc


def table(records: int, contexts: int, items: int, depth: int, periods: int = 14) -> pa.Table:
    """Records of contexts that are equally frequent; lists are drawn from the items of each."""
    rng = np.random.default_rng(7)
    context = np.arange(records) % contexts
    first = rng.integers(0, max(items - depth, 1), records)
    lists = (first[:, None] + np.arange(depth)) % items
    clicks = (rng.random((records, depth)) < 0.1).astype(np.int8)
    offsets = np.arange(0, records * depth + 1, depth, dtype=np.int32)
    return pa.table(
        {
            "context": context,
            "items": pa.ListArray.from_arrays(offsets, pa.array(lists.ravel())),
            "clicks": pa.ListArray.from_arrays(offsets, pa.array(clicks.ravel())),
            "day": rng.integers(0, periods, records),
        }
    )


def candidate(contexts: int, items: int, depth: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, max(items - depth, 1), contexts)
    return {
        "context": np.arange(contexts),
        "items": ((first[:, None] + np.arange(depth)) % items).tolist(),
    }


def evaluated(records: int, contexts: int, items: int, depth: int, periods: int = 14) -> None:
    log = fc.read_log(table(records, contexts, items, depth, periods), period="day")
    print(fc.check(log))
    print(fc.evaluate(log, candidate(contexts, items, depth), metrics=f"clicks@{depth}"))


def compared(count: int) -> None:
    log = fc.read_log(table(50_000, 100, 20, 5), period="day")
    print(
        fc.compare(
            log, {f"c{n}": candidate(100, 20, 5, n) for n in range(count)}, metrics="clicks@5"
        )
    )


def tallies(count: int) -> None:
    """One tally, and copies of it for other days: to tally each anew would take far longer."""
    with tempfile.TemporaryDirectory() as folder:
        log = table(10, 5, 6, 3).set_column(3, "day", pa.array([0] * 10))
        fc.tally(fc.read_log(log, period="day")).write_parquet(Path(folder, "0.parquet"))
        one = pq.read_table(Path(folder, "0.parquet"))
        meta = json.loads(one.schema.metadata[b"foreclick"])
        at, kind = one.schema.get_field_index("period"), one.schema.field("period").type
        for day in range(1, count):
            other = one.set_column(at, "period", pa.array([day] * len(one), kind))
            said = {"foreclick": json.dumps(meta | {"periods": [str(day)]})}
            pq.write_table(other.replace_schema_metadata(said), Path(folder, f"{day}.parquet"))
        start = time.process_time()
        found = fc.read_tally(folder)
        print(f"reading: {time.process_time() - start:.1f} CPU s")
        print(fc.evaluate(found, candidate(5, 6, 3), metrics="clicks@3"))


LIMITS = {
    "contexts that never repeat: 1,000,000": lambda: evaluated(1_000_000, 1_000_000, 30, 5),
    "200,000 periods": lambda: evaluated(400_000, 1_000, 30, 5, periods=200_000),
    "one context of 1,000,000 records": lambda: evaluated(1_000_000, 1, 5_000, 5),
    "K = 100": lambda: evaluated(50_000, 500, 200, 100),
    "100 candidates": lambda: compared(100),
    "300 candidates": lambda: compared(300),
    "1,000 tallies in a directory": lambda: tallies(1_000),
    "10,000 tallies in a directory": lambda: tallies(10_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", nargs="*", choices=[*LIMITS, []])
    parser.add_argument("--here", action="store_true", help="in this process")
    args = parser.parse_args()
    if args.here:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            LIMITS[args.which[0]]()
        return
    print("| what | CPU seconds | seconds | memory, MB |\n|---|---|---|---|")
    for name in args.which or LIMITS:
        start = time.perf_counter()
        words = [sys.executable, "-m", "benchmarks.limits", name, "--here"]
        with subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = status
        took = time.perf_counter() - start
        failed = "" if not status else f" (failed: {status})"
        cpu = used.ru_utime + used.ru_stime
        print(
            f"| {name}{failed} | {cpu:.0f} | {took:.0f} | {used.ru_maxrss // 1024:,} |", flush=True
        )


if __name__ == "__main__":
    main()
