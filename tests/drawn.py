"""Random logs, by options and a seed, and tables of what they hold: the generator of all tests.

`tests/fuzz/draws.py` draws what is adversarial: odd names, weights and sizes, one of each.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from tests.truth.oracle import Policy, Record

Lists = dict[tuple[Any, ...], float]
"""Lists of one context, with probabilities."""


@dataclass(frozen=True)
class Draw:
    """What a random log is like.

    Attributes:
        records: how many; `contexts`, `items`, `depth`: of how many queries, items and positions.
        periods: how many days; 0 for none.
        unit: whether users are known.
        ragged: whether lists differ in length.
        text: whether items are text.
        orders: whether there are orders and a graded price.
        propensity: "list" or "slot", if the probabilities of what was shown are logged.
        missing: whether the candidates know only some of the contexts.
        count: whether a column counts rows.
        segments: whether there are segments.
        even: whether all contexts are as frequent; otherwise the first is the most frequent.
    """

    records: int = 240
    contexts: int = 5
    items: int = 6
    depth: int = 4
    periods: int = 0
    unit: bool = False
    ragged: bool = False
    text: bool = False
    orders: bool = False
    propensity: str | None = None
    missing: bool = False
    count: bool = False
    segments: bool = False
    even: bool = False


@dataclass(frozen=True)
class Drawn:
    """A log and candidates for it.

    Attributes:
        rows: one a record, with a column for every role.
        roles: arguments of `fc.read_log`, of those roles that were asked for.
        shown: what production shows, by context.
        candidate: another policy for the contexts that it knows.
    """

    rows: list[dict[str, Any]]
    roles: dict[str, Any]
    shown: dict[Any, Lists]
    candidate: dict[Any, Lists]

    @property
    def records(self) -> list[Record]:
        """As oracles see them."""
        return [
            Record(row["context"], tuple(row["items"]), tuple(map(float, row["clicks"])))
            for row in self.rows
        ]

    @property
    def log(self) -> fc.Log:
        """As the library reads them."""
        return fc.read_log(pa.Table.from_pylist(self.rows), **self.roles)


def drawn(seed: Any, draw: Draw = Draw(), **options: Any) -> Drawn:  # noqa: ANN401, B008
    """The log of a seed; `options` are fields of its `Draw`."""
    draw, rng = (Draw(**options) if options else draw), random.Random(seed)  # noqa: S311 - no secret
    pool = [f"item {i}" if draw.text else 100 + i for i in range(draw.items)]
    queries = [f"q{i}" for i in range(draw.contexts)]
    appeal = {(q, item): rng.uniform(0.05, 0.6) for q in queries for item in pool}
    shown = {q: _policy(rng, draw, pool[:-1], rng.randint(3, 6)) for q in queries}
    rows = [_record(rng, draw, queries, shown, appeal) for _ in range(draw.records)]
    roles: dict[str, Any] = {"period": "day"} if draw.periods else {}
    roles |= {"unit": "user"} if draw.unit else {}
    roles |= {"rewards": {"orders": "orders", "price": "price"}} if draw.orders else {}
    roles |= {"propensity": "chance"} if draw.propensity else {}
    roles |= {"count": "times"} if draw.count else {}
    roles |= {"segments": ["land", "device"]} if draw.segments else {}
    known = queries[: max(len(queries) * 2 // 3, 1)] if draw.missing else queries
    return Drawn(rows, roles, shown, {q: _policy(rng, draw, pool, 3) for q in known})


def half_new(drawn: Drawn) -> dict[Any, Lists]:
    """Half of the time the candidate's lists, half of the time the first that production shows."""
    found = {}
    for q, new in drawn.candidate.items():
        half, first = {one: p / 2 for one, p in new.items()}, next(iter(drawn.shown[q]))
        found[q] = {first: 0.5 + half.pop(first, 0.0)} | half
    return found


def _policy(rng: random.Random, draw: Draw, pool: list[Any], count: int) -> Lists:
    """Some lists of a query, all of them different, with probabilities."""
    found: Lists = {}
    while len(found) < count:
        length = rng.randint(2, draw.depth) if draw.ragged else draw.depth
        found.setdefault(tuple(rng.sample(pool, min(length, len(pool)))), rng.uniform(0.2, 1))
    total = sum(found.values())
    return {one: mass / total for one, mass in found.items()}


def _record(
    rng: random.Random,
    draw: Draw,
    queries: list[str],
    shown: dict[Any, Lists],
    appeal: dict[tuple[str, Any], float],
) -> dict[str, Any]:
    """One row: what was shown to whom and when, and what came of it."""
    weights = [1 if draw.even else 1 / (i + 1) for i in range(len(queries))]
    query = rng.choices(queries, weights)[0]
    items, chance = rng.choices([*shown[query].items()], [*shown[query].values()])[0]
    clicks = [int(rng.random() < appeal[query, a] / (1 + 0.5 * k)) for k, a in enumerate(items)]
    row: dict[str, Any] = {"context": query, "items": list(items), "clicks": clicks}
    row["day"] = rng.randrange(max(draw.periods, 1))
    row["user"] = rng.randrange(60)
    row["land"], row["device"] = rng.choice(["NL", "BE"]), rng.choice(["phone", "laptop"])
    row["orders"] = [c * int(rng.random() < 0.4) for c in clicks]
    row["price"] = [c * round(rng.uniform(1, 9), 2) for c in row["orders"]]
    row["times"] = rng.choice([1, 2, 5])
    if draw.propensity == "list":
        row["chance"] = chance
    if draw.propensity == "slot":
        row["chance"] = [
            sum(mass for one, mass in shown[query].items() if one[k : k + 1] == (a,))
            for k, a in enumerate(items)
        ]
    return row


# --- lists sorted by attraction -----------------------------------------------------------------


DEPTH, QUERIES, POOL, FORTNIGHT = 5, 40, 8, 14
EXAMINED = 1 / np.arange(1, DEPTH + 1) ** 0.7


def sorted_log(
    seed: int,
    *,
    records: int = 800,
    swaps: float = 0.2,
    trend: float = 0.0,
    kinds: bool = False,
    trust: bool = False,
    dated: bool = True,
) -> fc.Log:
    """Lists that a noisy ranker sorted by the attraction of the day, and position-based clicks.

    Args:
        seed: of all that is drawn.
        records: of each query.
        swaps: the share of lists in which two items are exchanged.
        trend: by which share the attraction of an item rises or falls a day.
        kinds: whether users look further down for every other query.
        trust: whether what stands at the top is clicked whatever it is.
        dated: whether days are read.
    """
    rng = np.random.default_rng(seed)
    time = np.arange(FORTNIGHT) - (FORTNIGHT - 1) / 2
    start = 0.03 + 0.45 * rng.beta(0.8, 1.6, (QUERIES, POOL))
    sign = rng.choice([-1, 1], (QUERIES, POOL))
    attraction = start[:, :, None] * (1 + trend) ** (sign[:, :, None] * time)
    score = np.log(attraction) + 0.5 * rng.standard_normal((QUERIES, POOL, 1))
    context = np.repeat(np.arange(QUERIES), records)
    day = rng.integers(0, FORTNIGHT, len(context))
    lists = np.argsort(-score, axis=1)[context, :, day]
    row = np.flatnonzero(rng.random(len(lists)) < swaps)
    i = rng.integers(0, DEPTH, len(row))
    j = (i + 1 + rng.integers(0, POOL - 1, len(row))) % POOL
    lists[row, i], lists[row, j] = lists[row, j], lists[row, i]
    lists = lists[:, :DEPTH]
    steep = np.where(context % 2 == 0, 0.3, 1.2) if kinds else np.full(len(context), 0.7)
    rates = attraction[context[:, None], lists, day[:, None]]
    if trust:
        rates = rates * np.linspace(0.9, 0.6, DEPTH) + np.linspace(0.15, 0.02, DEPTH)
    examined = np.arange(1.0, DEPTH + 1) ** -steep[:, None]
    clicks = (rng.random(rates.shape) < rates * examined).astype(np.int8)
    columns: dict[str, Any] = {"context": context, "items": list(lists), "clicks": list(clicks)}
    return fc.read_log(pa.table(columns | {"day": day}), period="day" if dated else None)


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
