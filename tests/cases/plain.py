"""The plain generator: logs as they are, by options and a seed."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from tests.cases.case import Case
from tests.truth.oracle import Policy

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


def drawn(seed: Any, draw: Draw = Draw(), **options: Any) -> Case:  # noqa: ANN401, B008
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
    new = {q: _policy(rng, draw, pool, 3) for q in known}
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return Case(seed, columns, roles, {"new": new}, shown)


def half_new(case: Case) -> dict[Any, Lists]:
    """Half of the time the candidate's lists, half of the time the first that production shows."""
    found = {}
    for q, new in case.candidate.items():
        half, first = {one: p / 2 for one, p in new.items()}, next(iter(case.shown[q]))
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


# --- of any size, with roles by chance ------------------------------------------------------------


LARGE = 8
"""Of so many logs one is large, so that contexts are sampled as they are in use."""

THIN = 5
"""Of so many logs one has contexts that hardly repeat, many of which are exactly alike."""

_EPOCH = dt.date(2024, 1, 1)


def some_log(seed: int, *, size: str | None = None) -> Case:
    """The log of a seed: small, thin or large; with periods, users, segments, weights, or not."""
    rng = np.random.default_rng([7, seed])
    if size is None:
        size = "large" if seed % LARGE == 3 else "thin" if seed % THIN == 1 else "small"
    depth = int(rng.integers(2, 5 if size == "large" else 7))
    if size == "large":
        rows, contexts = int(rng.integers(30_000, 50_000)), int(rng.integers(400, 2000))
    elif size == "thin":
        rows = int(rng.integers(400, 1500))
        contexts, depth = rows // int(rng.integers(1, 4)), min(depth, 3)
    else:
        rows = int(np.exp(rng.uniform(np.log(30), np.log(3000))))
        contexts = max(int(rows / np.exp(rng.uniform(np.log(4), np.log(60)))), 1)
    days = int(rng.choice([0, 3, 6, 14]))
    chances = {"unit": 0.3 if days else 0.6, "segments": 0.4, "orders": 0.5, "text": 0.5}
    chances |= {"ragged": 0.5, "count": 0.5 if size == "large" else 0.2}
    roles: dict[str, Any] = {name: rng.random() < chance for name, chance in chances.items()}
    found = drawn(
        seed,
        records=rows,
        contexts=contexts,
        items=depth + 2,
        depth=depth,
        periods=days,
        even=size == "thin",
        **roles,
    )
    used = {"context", "items", "clicks", *_columns(found.roles)}
    columns = {name: values for name, values in found.columns.items() if name in used}
    if days:
        missing = 0.02 * (rng.random() < 0.1)
        columns["day"] = [
            None if rng.random() < missing else _EPOCH + dt.timedelta(days=day)
            for day in columns["day"]
        ]
    new = found.candidate
    first = {x: {next(iter(lists)): 1.0} for x, lists in new.items()}
    candidates: dict[str, Policy] = {"one": half_new(found) if rng.random() < 0.5 else first}
    candidates["two"] = new
    if rng.random() < 0.3:
        candidates["three"] = candidates["one"]
    sample = None
    if size != "large" and rng.random() < 0.7:
        records = sum(map(float, columns.get("times") or [1.0] * rows))
        sample = max(rows // int(rng.integers(3, 9)), 5), max(int(records / 4), 5)
    return Case(seed, columns, found.roles, candidates, found.shown, sample=sample)


def _columns(roles: Mapping[str, Any]) -> Iterator[str]:
    """The columns that roles name."""
    for role in roles.values():
        yield from [role] if isinstance(role, str) else role


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
