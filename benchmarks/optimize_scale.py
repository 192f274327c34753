"""How long optimising many contexts takes, from a tally to a policy, and in how much memory.

Every context has 50 items and lists of 10: variants of a base order with a few items exchanged.
What is counted is the whole of `optimize`, its judgement included, and the tally beside it, made by
the engine alone.

    python -m benchmarks.optimize_scale --contexts 100000
    python -m benchmarks.optimize_scale --contexts 1000000 --lists 5
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import foreclick as fc
from foreclick.engines import laptop

ITEMS, POSITIONS, LISTS = 50, 10, 30
METRIC = f"dcg@{POSITIONS}"
_BATCH = 2_000  # contexts that are drawn at once


def batch(first: int, contexts: int, count: int, rng: np.random.Generator) -> pa.Table:
    """So many lists of each context, with their clicks, and how many records each stands for."""
    order = np.argsort(rng.random((contexts, ITEMS)), axis=1)
    lists = np.repeat(order, count, axis=0)
    rows = np.arange(len(lists))
    for _ in range(3):
        i, j = rng.integers(0, POSITIONS, len(rows)), rng.integers(0, ITEMS, len(rows))
        lists[rows, i], lists[rows, j] = lists[rows, j], lists[rows, i]
    shown = lists[:, :POSITIONS]
    context = np.repeat(np.arange(first, first + contexts), count)
    attracts = (shown * 2654435761 + context[:, None] * 40503) % 97 / 150
    clicks = rng.random(shown.shape) < attracts / np.arange(1, POSITIONS + 1) ** 0.7
    columns = {
        "context": context,
        "n": rng.integers(1, 4, len(rows)),
        "user": rng.integers(0, 100_000, len(rows)),
        **{f"item_{k + 1}": shown[:, k] for k in range(POSITIONS)},
        **{f"clicks_{k + 1}": clicks[:, k].astype(np.int8) for k in range(POSITIONS)},
    }
    return pa.table(columns)


def main() -> None:
    """Print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contexts", type=int, default=100_000)
    parser.add_argument("--lists", type=int, default=LISTS, help="of a context")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--memory", default="2GB", help="of the engine")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "log.parquet"
        with pq.ParquetWriter(path, batch(0, 1, 1, rng).schema) as writer:
            for first in range(0, arguments.contexts, _BATCH):
                size = min(_BATCH, arguments.contexts - first)
                writer.write_table(batch(first, size, arguments.lists, rng))
        engine = laptop(memory_limit=arguments.memory)
        start = time.perf_counter()
        log = fc.read_log(
            str(path),
            items=[f"item_{k + 1}" for k in range(POSITIONS)],
            clicks=[f"clicks_{k + 1}" for k in range(POSITIONS)],
            count="n",
            unit="user",
            engine=engine,
        )
        tally = fc.tally(log)
        rows = tally.row_count()
        tallied = time.perf_counter() - start
        before, seconds = _peak(), _cpu()
        start = time.perf_counter()
        fc.settings(workers=arguments.workers)
        best = fc.optimize(tally, metrics=METRIC)
        took = time.perf_counter() - start
        print(best)
        print(
            f"{arguments.contexts:,} contexts, {rows:,} rows of the tally ({tallied:.0f} s): "
            f"{took:.0f} s, {_cpu() - seconds:.0f} s of processors with {arguments.workers} "
            f"workers, {arguments.contexts / took:,.0f} contexts/s; peak {before:.2f} GB before, "
            f"{_peak():.2f} GB after"
        )


def _cpu() -> float:
    """Seconds of this process and of those that it waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
