"""A click log for benchmarks: Zipf queries over 27 days, lists that change by day and by variant.

Not a world with a known truth, only rows with the shape of a search log: a base list per query, a
few variants of it every day, clicks that fall with the position.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

POSITIONS = 10
DAYS = 27
QUERIES = 20_000
BATCH = 1_000_000


def generate(records: int, arrays: Path, wide: Path, seed: int = 0) -> None:
    """Write the same log twice: with lists as arrays, and with a column a position."""
    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, QUERIES + 1) ** 0.9
    queries = rng.choice(QUERIES, size=QUERIES, replace=False)
    with _Writer(arrays) as first, _Writer(wide) as second:
        for start in range(0, records, BATCH):
            size = min(BATCH, records - start)
            query = queries[rng.choice(QUERIES, size=size, p=popularity / popularity.sum())]
            day = rng.integers(0, DAYS, size).astype(np.int32)
            items = _lists(rng, query, day)
            clicks = _clicks(rng, items)
            shared = {"query": query, "day": day, "user": rng.integers(0, 500_000, size)}
            first.write(shared | {"items": _as_lists(items), "clicks": _as_lists(clicks)})
            named = {f"item_{k}": items[:, k - 1] for k in range(1, POSITIONS + 1)}
            named |= {f"click_{k}": clicks[:, k - 1] for k in range(1, POSITIONS + 1)}
            second.write(shared | named)


def _lists(rng: np.random.Generator, query: np.ndarray, day: np.ndarray) -> np.ndarray:
    """The base list of the query, or one of the day's variants: some swaps, some new items."""
    size = len(query)
    variant = np.minimum(rng.geometric(0.35, size) - 1, 40)
    mixed = (query * 1_000_003 + variant * 7_919 + np.where(variant > 2, day, 0) * 104_729) % (
        2**31
    )
    items = np.tile(np.arange(POSITIONS), (size, 1))
    rows = np.flatnonzero(variant > 0)
    for step in range(3):
        here = (mixed[rows] >> (3 * step)) % POSITIONS
        there = (mixed[rows] >> (3 * step + 7)) % (POSITIONS + 4)
        swap = there < POSITIONS
        old, other = items[rows, here], items[rows, np.where(swap, there, here)]
        items[rows, np.where(swap, there, here)] = old
        items[rows, here] = np.where(swap, other, 100 * (step + 1) + there)
    return np.asarray(items + query[:, None] * 1_000)


def _clicks(rng: np.random.Generator, items: np.ndarray) -> np.ndarray:
    attraction = 0.02 + 0.5 * ((items * 7_919) % 101 / 101) ** 3
    examined = 1 / np.arange(1, POSITIONS + 1)
    return (rng.random(items.shape) < attraction * examined).astype(np.int8)


def _as_lists(values: np.ndarray) -> pa.ListArray:
    offsets = np.arange(0, values.size + 1, POSITIONS, dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, values.ravel())


class _Writer:
    """A Parquet file that is written in batches."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: pq.ParquetWriter | None = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, columns: dict[str, object]) -> None:
        table = pa.table(columns)
        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema)
        self._file.write_table(table, row_group_size=122_880)
