"""Records and policies as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from tests.truth.oracle import Policy, Record


def log_table(records: Iterable[Record], **columns: Sequence[Any]) -> pa.Table:
    """One row a record: context, items, clicks, and further columns."""
    rows = list(records)
    return pa.table(
        {
            "context": [record.context for record in rows],
            "items": [list(record.items) for record in rows],
            "clicks": pa.array([list(record.clicks) for record in rows], pa.list_(pa.float64())),
            **columns,
        }
    )


def weighted_log_table(records: Iterable[Record], **columns: Sequence[Any]) -> pa.Table:
    """A log whose rows stand for `weight` records each."""
    rows = list(records)
    return log_table(rows, weight=[record.weight for record in rows], **columns)


def lists_table(policy: Policy) -> pa.Table:
    """One row a list: context, items, probability."""
    rows = [(c, list(items), p) for c, lists in policy.items() for items, p in lists.items()]
    context, items, probability = zip(*rows, strict=True)
    return pa.table({"context": context, "items": items, "probability": probability})


def marginals_table(policy: Policy) -> pa.Table:
    """One row an item and position: context, item, position, probability."""
    found: dict[tuple[Any, Any, int], float] = {}
    for context, lists in policy.items():
        for items, p in lists.items():
            for k, item in enumerate(items, start=1):
                found[context, item, k] = found.get((context, item, k), 0.0) + p
    context, item, position = zip(*found, strict=True)
    return pa.table(
        {
            "context": context,
            "item": item,
            "position": position,
            "probability": list(found.values()),
        }
    )
