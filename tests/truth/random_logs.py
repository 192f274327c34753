"""Random logs and candidates, and the tables in which the library gets to see them.

The logs are small and their items few, so that cells repeat; lists are ragged; the candidates show
lists and items the log never did, and contexts are missing on either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests.truth.oracle import Policy, Record

DEEPEST = 6
"""The longest list."""

Pool = NDArray[Any]
"""The items lists are made of: integers or strings."""

WEIGHTS = ((1.0,), (0.25, 0.75), (0.5, 0.2, 0.3), (1 / 3, 2 / 3))
"""Probabilities a randomised candidate gives its lists."""


@dataclass(frozen=True)
class Case:
    """A log and a candidate, by a name that also makes its contexts unique."""

    name: str
    records: list[Record]
    candidate: dict[Any, dict[tuple[Any, ...], float]]

    def __str__(self) -> str:
        return self.name


def random_case(
    name: str, rng: np.random.Generator, *, text: bool = False, deterministic: bool = False
) -> Case:
    """A log of 1 to 5 contexts with a candidate that knows most of them.

    Args:
        name: of the case, and the beginning of each of its contexts.
        rng: where the randomness comes from.
        text: whether items are strings, otherwise integers.
        deterministic: whether the candidate has one list a context, otherwise up to three.
    """
    logged = int(rng.integers(1, 6))
    contexts = [f"{name}/{number}" for number in range(logged + 1)]  # the last is never logged
    pool = np.array([f"item {i}" for i in range(8)] if text else range(100, 108))
    seen = pool[: int(rng.integers(3, 7))]
    records: list[Record] = []
    for context in contexts[:-1]:
        records += random_records(context, seen, rng)
    known = [context for context in contexts[1:] if rng.random() < 0.8]
    candidate = {
        context: random_lists(context, pool, records, rng, deterministic=deterministic)
        for context in [contexts[0], *known]
    }
    shown = {item for record in records for item in record.items}
    if not any(shown & set(items) for items in candidate[contexts[0]]):
        candidate[contexts[0]] = {records[0].items: 1.0}  # one that shows no item is refused
    order = rng.permutation(len(records))
    return Case(name, [records[i] for i in order], candidate)


def random_records(context: str, items: Pool, rng: np.random.Generator) -> list[Record]:
    """Records of one context: a few lists, shown again and again with other clicks."""
    shown = [random_list(items, rng) for _ in range(int(rng.integers(1, 5)))]
    graded = rng.random() < 0.25
    records = []
    for turn in range(int(rng.integers(1, 13))):
        chosen = shown[int(rng.integers(len(shown)))]
        clicks = (rng.random(len(chosen)) < 0.4).astype(float)
        if turn == 0:
            clicks[0] = 1.0  # so that production is worth something
        if graded:
            clicks *= rng.choice([0.5, 1.0, 2.25], len(chosen))
        records.append(Record(context, chosen, tuple(clicks.tolist())))
    return records


def random_list(items: Pool, rng: np.random.Generator) -> tuple[Any, ...]:
    """Up to six of the items, in any order."""
    length = int(rng.integers(1, min(DEEPEST, len(items)) + 1))
    return tuple(rng.permutation(items)[:length].tolist())


def random_lists(
    context: str,
    items: Pool,
    records: Sequence[Record],
    rng: np.random.Generator,
    *,
    deterministic: bool,
) -> dict[tuple[Any, ...], float]:
    """A candidate's lists for one context: some as logged, some new, some with unlogged items."""
    weights = (1.0,) if deterministic else WEIGHTS[int(rng.integers(len(WEIGHTS)))]
    logged = sorted({record.items for record in records if record.context == context})
    lists: dict[tuple[Any, ...], float] = {}
    while len(lists) < len(weights):
        if logged and rng.random() < 0.4:
            chosen = logged[int(rng.integers(len(logged)))]
        else:
            chosen = random_list(items, rng)
        lists.setdefault(chosen, weights[len(lists)])
    return lists


# --- tables ---------------------------------------------------------------------------------------


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


def ranking_table(policy: Policy) -> pa.Table:
    """One row a context: context, items."""
    return lists_table(policy).drop_columns("probability")


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


def merged(policies: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
    """Policies of different contexts as one."""
    return {context: lists for policy in policies for context, lists in policy.items()}
