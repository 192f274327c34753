"""Logs of which some lists were shown far more often than others, and policies as lists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from foreclick.optimization.optimize import Optimized
from tests.truth.oracle import Record

K, ITEMS = 3, 5


def some_records(seed: int, contexts: int = 2, records: int = 40) -> list[Record]:
    """Seven lists of three of five items in each context, so that clips bind."""
    rng = np.random.default_rng(seed)
    found = []
    for x in range(contexts):
        rates = rng.random((ITEMS, K))
        lists = [tuple(rng.permutation(ITEMS)[:K].tolist()) for _ in range(7)]
        for which in rng.choice(7, records, p=rng.dirichlet(np.ones(7))):
            clicks = tuple(float(rng.random() < rates[a, k]) for k, a in enumerate(lists[which]))
            found.append(Record(f"q{x}", lists[which], clicks))
    return found


def lists_of(best: Optimized) -> dict[str, dict[tuple[Any, ...], float]]:
    """The policy: by context, lists and their probabilities."""
    found: dict[str, dict[tuple[Any, ...], float]] = defaultdict(dict)
    for row in best.policy.table.to_pylist():
        items = tuple(v for c, v in row.items() if c.startswith("item_") and v is not None)
        found[row["context"]][items] = row["probability"]
    return found


def moved(lists: Mapping[tuple[Any, ...], float], records: list[Record]) -> float:
    """The share of slots in which the lists of a context differ from those of its records."""
    h = np.zeros((ITEMS, K))
    shown = [(record.items, -1 / len(records)) for record in records]
    for items, mass in [*lists.items(), *shown]:
        h[list(items), np.arange(K)] += mass
    return float(np.maximum(h, 0).sum() / K)
