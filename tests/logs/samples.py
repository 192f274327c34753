"""A small log in many dresses, and what must be counted in it, by plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

import foreclick as fc

Row = dict[str, Any]

LISTS: list[Row] = [
    {"context": "jaguar", "items": [1, 2, 3], "clicks": [0, 1, 0]},
    {"context": "jaguar", "items": [1, 2, 3], "clicks": [0, 1, 0]},
    {"context": "jaguar", "items": [1, 2, 3], "clicks": [1, 0, 0]},
    {"context": "jaguar", "items": [3, 1], "clicks": [0, 0]},
    {"context": "zoë's 東京", "items": [1], "clicks": [1]},
    {"context": "zoë's 東京", "items": [2, 3, 1], "clicks": [0, 0, 1]},
    {"context": "zoë's 東京", "items": [2, 3, 1], "clicks": [0, 0, 1]},
]
"""Ragged lists, repeated rows, a context that is not ASCII."""

SCHEMA = pa.schema(
    {"context": pa.string(), "items": pa.list_(pa.int64()), "clicks": pa.list_(pa.int64())}
)


def table(rows: Sequence[Row] = LISTS) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


WIDE: Row = {"items": ["i1", "i2", "i3"], "clicks": ["c1", "c2", "c3"]}
"""The roles of `wide`."""


def wide(rows: Sequence[Row] = LISTS, depth: int = 3) -> pa.Table:
    """A column a position: i1 … and c1 …; null where the list is shorter."""

    def at(values: Sequence[int], k: int) -> int | None:
        return values[k] if k < len(values) else None

    columns: dict[str, Any] = {"context": [row["context"] for row in rows]}
    for k in range(depth):
        columns[f"i{k + 1}"] = pa.array([at(r["items"], k) for r in rows], pa.int64())
        columns[f"c{k + 1}"] = pa.array([at(r["clicks"], k) for r in rows], pa.int64())
    return pa.table(columns)


def impressions(rows: Sequence[Row] = LISTS) -> list[Row]:
    """A row an impression, the last position first."""
    return [
        {
            "context": row["context"],
            "list_id": number,
            "position": k,
            "item": row["items"][k - 1],
            "click": row["clicks"][k - 1],
        }
        for number, row in enumerate(rows)
        for k in range(len(row["items"]), 0, -1)
    ]


def reference(rows: Iterable[Row] = LISTS, n: str | None = None, *keys: str) -> Counter[Any]:
    """How often each (context, keys…, items, clicks) occurs, or how much of `n` it holds."""
    found: Counter[Any] = Counter()
    for row in rows:
        key = (row["context"], *(row[k] for k in keys), tuple(row["items"]), tuple(row["clicks"]))
        found[key] += 1 if n is None else row[n]
    return found


def counted(log: fc.Log | fc.Tally) -> Counter[Any]:
    """The same from a tally: its list-level columns, items, rewards and propensities."""
    tally = fc.tally(log)
    shape = tally.shape
    spread = [shape.items, *(shape.reward(name) for name in shape.rewards)]
    if shape.propensity == "slot":
        spread.append(shape.propensities)
    flat = {column for columns in spread for column in columns}
    single = [key for key in shape.keys if key not in flat]
    found: Counter[Any] = Counter()
    for row in tally.to_arrow().to_pylist():
        key = (*(row[c] for c in single), *(_trimmed(row, columns) for columns in spread))
        assert key not in found, f"{key} has two rows in the tally"
        found[key] = row["n"]
    return found


def _trimmed(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    values = [row[column] for column in columns]
    while values and values[-1] is None:
        values.pop()
    return tuple(values)
