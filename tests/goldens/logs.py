"""The logs that the goldens ask about: drawn from fixed seeds, by the public API alone.

A `Case` is a log with candidates for it. There are four kinds: small random logs that have every
role a column can have, logs of pages of the documentation, simulated click models, and a shop.
"""

from __future__ import annotations

import functools
import importlib.util
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from foreclick import simulate

SHOP = Path(__file__).parents[3] / "shared" / "benchmarks" / "shop.py"
"""What draws the logs of the shop; without it, the questions about them are left out."""


@dataclass(frozen=True)
class Case:
    """A log, and what is asked about it.

    Attributes:
        name: of the case, the beginning of the names of its questions.
        log: the log.
        candidates: policies by name; every case has a "ranking".
        records: how many records the log has.
        periods: how many periods it has, 0 if it was read without.
        unit: whether it was read with a unit.
        table: the rows that it was read from.
        more: whatever else a question may need.
    """

    name: str
    log: fc.Log
    candidates: dict[str, Any]
    records: int
    periods: int = 0
    unit: bool = False
    table: Any = None
    more: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def tally(self) -> fc.Tally:
        """The log, counted once."""
        return fc.tally(self.log)

    @property
    def ranking(self) -> Any:  # noqa: ANN401 - a policy
        """The candidate that most questions are about."""
        return self.candidates["ranking"]


# --- small random logs ----------------------------------------------------------------------------


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


DRAWS: dict[str, Draw] = {
    "plain": Draw(),
    "plain-ragged": Draw(ragged=True, text=True, missing=True),
    "days": Draw(periods=6),
    "days-ragged": Draw(periods=8, ragged=True, missing=True),
    "days-text": Draw(periods=5, text=True, records=400, items=7, depth=5),
    "days-orders": Draw(periods=7, orders=True, records=500),
    "days-segments": Draw(periods=6, segments=True, orders=True, records=360),
    "two-days": Draw(periods=2),
    "two-days-users": Draw(periods=2, unit=True, ragged=True),
    "users": Draw(unit=True, records=300),
    "users-orders": Draw(unit=True, orders=True, ragged=True, records=500),
    "users-missing": Draw(unit=True, missing=True, contexts=8, records=420),
    "both": Draw(periods=6, unit=True, records=400),
    "both-ragged": Draw(periods=9, unit=True, ragged=True, orders=True, records=600),
    "both-segments": Draw(periods=5, unit=True, segments=True, text=True, records=480),
    "both-many": Draw(periods=14, unit=True, contexts=20, items=9, depth=6, records=1500),
    "one-context": Draw(periods=6, contexts=1, records=150),
    "counted-days": Draw(periods=6, count=True),
    "counted": Draw(periods=6, count=True, orders=True),
    "list-chances": Draw(propensity="list", periods=6, records=400),
    "slot-chances": Draw(propensity="slot", periods=6, unit=True, records=400),
    "slot-chances-plain": Draw(propensity="slot", records=400, missing=True),
    "tiny": Draw(records=14, contexts=2, items=4, depth=3),
    "tiny-days": Draw(records=24, contexts=2, items=4, depth=3, periods=6),
}
"""The random logs, by name."""


@functools.cache
def random_case(name: str, seed: int) -> Case:
    """The random log of this name and number, with its candidates."""
    draw, rng = DRAWS[name], random.Random(f"{name} {seed}")  # noqa: S311 - no secret
    pool = [f"item {i}" if draw.text else 100 + i for i in range(draw.items)]
    queries = [f"q{i}" for i in range(draw.contexts)]
    appeal = {(q, item): rng.uniform(0.05, 0.6) for q in queries for item in pool}
    shown = {q: _policy(rng, draw, pool[:-1], rng.randint(3, 6)) for q in queries}
    rows = [_record(rng, draw, queries, shown, appeal) for _ in range(draw.records)]
    table = pa.Table.from_pylist(rows)
    roles: dict[str, Any] = {"period": "day"} if draw.periods else {}
    roles |= {"unit": "user"} if draw.unit else {}
    roles |= {"rewards": {"orders": "orders", "price": "price"}} if draw.orders else {}
    roles |= {"propensity": "chance"} if draw.propensity else {}
    roles |= {"count": "times"} if draw.count else {}
    roles |= {"segments": ["land", "device"]} if draw.segments else {}
    known = queries[: max(len(queries) * 2 // 3, 1)] if draw.missing else queries
    last = [row for row in rows if row["context"] in known][-len(rows) // 3 :]
    shown_now = [{"context": row["context"], "items": row["items"]} for row in last]
    shown_now += [{"context": q, "items": shown[q][0][0]} for q in known]
    new = {q: _policy(rng, draw, pool, 3) for q in known}
    other = {q: [(shown[q][0][0], 0.5), *((one, p / 2) for one, p in new[q])] for q in known}
    return Case(
        f"random/{name}-{seed}",
        fc.read_log(table, **roles),
        {
            "ranking": fc.Ranking({"context": known, "items": [new[q][0][0] for q in known]}),
            "old": fc.Ranking({"context": known, "items": [shown[q][-1][0] for q in known]}),
            "lists": fc.Lists(_lists_table(new)),
            "mixed": fc.Lists(_lists_table(other)),
            "marginals": fc.Marginals(_marginals_table(other)),
            "observed": fc.Observed(fc.read_log(pa.Table.from_pylist(shown_now), clicks=None)),
        },
        draw.records,
        draw.periods,
        draw.unit,
        table,
        {"logging": fc.Lists(_lists_table(shown))},
    )


def _policy(
    rng: random.Random, draw: Draw, pool: list[Any], count: int
) -> list[tuple[list[Any], float]]:
    """Some lists of a query, all of them different, with probabilities; longer lists are rarer."""
    found: dict[tuple[Any, ...], float] = {}
    while len(found) < count:
        length = rng.randint(2, draw.depth) if draw.ragged else draw.depth
        found.setdefault(tuple(rng.sample(pool, min(length, len(pool)))), rng.uniform(0.2, 1))
    total = sum(found.values())
    return [(list(one), mass / total) for one, mass in found.items()]


def _record(
    rng: random.Random,
    draw: Draw,
    queries: list[str],
    shown: dict[str, list[tuple[list[Any], float]]],
    appeal: dict[tuple[str, Any], float],
) -> dict[str, Any]:
    """One row: what was shown to whom and when, and what came of it."""
    query = rng.choices(queries, [1 / (i + 1) for i in range(len(queries))])[0]
    items, chance = rng.choices(shown[query], [mass for _, mass in shown[query]])[0]
    clicks = [int(rng.random() < appeal[query, a] / (1 + 0.5 * k)) for k, a in enumerate(items)]
    row: dict[str, Any] = {"context": query, "items": items, "clicks": clicks}
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
            sum(mass for one, mass in shown[query] if one[k : k + 1] == [a])
            for k, a in enumerate(items)
        ]
    return row


def _lists_table(policy: dict[str, list[tuple[list[Any], float]]]) -> dict[str, Any]:
    """A policy as rows of lists; what is there twice counts together."""
    found: dict[tuple[str, tuple[Any, ...]], float] = {}
    for query, lists in policy.items():
        for one, mass in lists:
            found[query, tuple(one)] = found.get((query, tuple(one)), 0.0) + mass
    return {
        "context": [query for query, _ in found],
        "items": [list(one) for _, one in found],
        "probability": list(found.values()),
    }


def _marginals_table(policy: dict[str, list[tuple[list[Any], float]]]) -> dict[str, Any]:
    """A policy as rows of an item at a position."""
    found: dict[tuple[str, Any, int], float] = {}
    for query, lists in policy.items():
        for one, mass in lists:
            for k, item in enumerate(one, start=1):
                found[query, item, k] = found.get((query, item, k), 0.0) + mass
    context, item, position = zip(*found, strict=True)
    probability = list(found.values())
    return {"context": context, "item": item, "position": position, "probability": probability}


# --- pages of the documentation -------------------------------------------------------------------


@functools.cache
def few_clicks() -> Case:
    """The six records of the docstrings, forty times over, each time on another day of eight."""
    clicks = [[0, 1], [1, 0], [1, 0], [1, 0], [0, 0], [0, 0]]
    table = pa.table(
        {
            "context": ["q"] * 240,
            "items": [[1, 2], [2, 1]] * 120,
            "clicks": [clicks[(i + i // 7) % 6] for i in range(240)],
            "day": [i // 30 for i in range(240)],
        }
    )
    ranking = fc.Ranking({"context": ["q"], "items": [[2, 1]]})
    return Case("docs/few", fc.read_log(table, period="day"), {"ranking": ranking}, 240, 8)


@functools.cache
def known_chances() -> Case:
    """Lists drawn by a policy that says how likely they were, as in the how-to of propensities."""
    policy = fc.Lists(
        {
            "context": ["shoes", "shoes", "hats", "hats"],
            "items": [[1, 2], [2, 1], [7, 8], [8, 7]],
            "probability": [0.8, 0.2, 0.5, 0.5],
        }
    )
    shown = policy.sample({"request": range(2_000), "context": ["shoes", "hats"] * 1_000})
    shown = shown.sort_by("request")
    requests, items = shown["request"].to_pylist(), shown["items"].to_pylist()
    clicks = [
        [int(a in {2, 7}), int(r % 5 == 0)] for r, (a, _) in zip(requests, items, strict=True)
    ]
    table = shown.append_column("clicks", pa.array(clicks))
    ranking = fc.Ranking({"context": ["shoes", "hats"], "items": [[2, 1], [7, 8]]})
    log = fc.read_log(table, propensity="propensity")
    return Case("docs/chances", log, {"ranking": ranking}, 2_000, more={"logging": policy})


@functools.cache
def long_rows() -> Case:
    """One row a slot with its propensity, as the page for those who come from obp has it."""
    rng, slates = np.random.default_rng(0), 1_500
    first = np.where(rng.random(slates) < 0.7, 1, 2)
    rows = {
        "list_id": np.repeat(np.arange(slates), 2),
        "position": np.tile([1, 2], slates),
        "item": np.stack([first, 3 - first], axis=1).ravel(),
        "chance": np.repeat(np.where(first == 1, 0.7, 0.3), 2),
        "context": np.repeat(rng.integers(0, 5, slates), 2),
    }
    rate = np.where(rows["item"] == 2, 0.5, 0.2) / rows["position"]
    rows["click"] = (rng.random(2 * slates) < rate).astype(int)
    log = fc.read_log(pa.table(rows), long=("list_id", "position"), propensity="chance")
    ranking = fc.Ranking({"context": range(5), "items": [[2, 1]] * 5})
    return Case("docs/obp", log, {"ranking": ranking}, slates)


@functools.cache
def bus_routes() -> Case:
    """Routes as lists of legs, as the page of semi-bandits has them, over ten days."""
    found = {"s-a": (0.5, 0.2), "s-b": (0.3, 0.6), "a-b": (0.3, 0.1), "a-c": (0.2, 0.3)}
    found |= {"a-t": (0.6, 0.3), "b-c": (0.4, 0.2), "b-t": (0.5, 0.7), "c-t": (0.5, 0.1)}

    def routes(stop: str) -> list[list[str]]:
        """All ways from a stop to the terminus, as lists of legs."""
        if stop == "t":
            return [[]]
        return [[leg, *rest] for leg in found if leg[0] == stop for rest in routes(leg[-1])]

    every, dice, rows = routes("s"), random.Random(1), []  # noqa: S311 - no secret
    driven = {"morning": [0, 1, 4, 8, 5, 2], "night": [3, 2, 6, 4, 3, 0]}
    for time, (when, weights) in enumerate(driven.items()):
        for number, route in enumerate(dice.choices(every, weights, k=900)):
            clicks = [int(dice.random() < found[leg][time]) for leg in route]
            rows.append({"context": when, "items": route, "clicks": clicks, "day": number % 10})
    ranking = fc.Ranking({"context": list(driven), "items": [["s-b", "b-t"]] * 2})
    other = fc.Ranking({"context": list(driven), "items": [["s-a", "a-t"]] * 2})
    table = pa.Table.from_pylist(rows)
    lists = {"context": [when for when in driven for _ in every], "items": every * 2}
    return Case(
        "docs/routes",
        fc.read_log(table, period="day"),
        {"ranking": ranking, "old": other},
        len(rows),
        10,
        more={"lists": lists},
    )


@functools.cache
def tutorial() -> Case:
    """The shop of the tutorial with fewer requests: events, put together to a log."""
    rng = np.random.default_rng(7)
    queries = np.array([f"query {number:02}" for number in range(36)])
    on_page, products, days, requests = 6, 10, 28, 8_000
    item = 100 * np.arange(1, len(queries) + 1)[:, None] + np.arange(products)
    appeal = rng.beta(1.5, 6, item.shape)
    looks = np.array([1, 0.72, 0.55, 0.42, 0.34, 0.28])
    weekly = [appeal + rng.normal(0, error, item.shape) for error in (0.20, 0.12, 0.25, 0.14)]
    nightly = np.repeat(weekly, 7, axis=0) + rng.normal(0, 0.04, (days, *item.shape))
    production = np.argsort(-nightly, axis=2)[..., :on_page]
    traffic = 1 / np.arange(1, len(queries) + 1)
    query = rng.choice(len(queries), requests, p=traffic / traffic.sum())
    day = np.sort(rng.integers(0, days, requests))
    shown = production[day, query]
    mood = np.random.default_rng(1).normal(1, 0.08, days)
    clicked = rng.random(shown.shape) < appeal[query[:, None], shown] * looks * mood[day, None]
    ordered = clicked & (rng.random(shown.shape) < 0.2)
    row, column = np.indices(shown.shape)
    impressions = {
        "list_id": row.ravel(),
        "context": queries[query].repeat(on_page),
        "item": item[query[:, None], shown].ravel(),
        "position": column.ravel() + 1,
        "day": day.repeat(on_page),
        "user": rng.integers(0, 2_000, requests).repeat(on_page),
        "device": rng.choice(["phone", "laptop"], requests, p=[0.7, 0.3]).repeat(on_page),
    }
    clicks, orders = (np.flatnonzero(mask.ravel()) for mask in (clicked, ordered))
    acted = np.concatenate([clicks, orders, clicks[::40]])  # some clicks arrive twice
    actions = {
        "list_id": impressions["list_id"][acted],
        "item": impressions["item"][acted],
        "action": ["click"] * len(clicks) + ["order"] * len(orders) + ["click"] * len(clicks[::40]),
    }
    log = fc.from_events(
        pa.table(impressions),
        pa.table(actions),
        period="day",
        unit="user",
        segments="device",
        rewards={"clicks": "click", "orders": "order"},
    )

    def ranked(error: float) -> fc.Ranking:
        score = appeal + rng.normal(0, error, item.shape)
        table = {"context": queries.repeat(products), "item": item.ravel(), "score": score.ravel()}
        return fc.Ranking.from_scores(pa.table(table), k=on_page)

    candidates = {"ranking": ranked(0.05), "old": ranked(0.25), "middle": ranked(0.12)}
    return Case("docs/tutorial", log, candidates, requests, days, unit=True)


# --- simulated click models -----------------------------------------------------------------------


def _world(name: str) -> Any:  # noqa: ANN401 - a World
    rng = np.random.default_rng(3)
    attraction = 0.05 + 0.5 * rng.beta(0.5, 1.2, (25, 8))
    match name:
        case "pbm":
            return simulate.PBM(attraction, [1, 0.7, 0.5, 0.35, 0.25])
        case "dbn":
            return simulate.DBN(attraction, rng.uniform(0.4, 0.9, (25, 8)), 0.75, 5)
        case "cascade":
            return simulate.Cascade(attraction, 5)
        case "dcm":
            return simulate.DCM(attraction, [0.8, 0.7, 0.6, 0.5, 0.4])
        case "dctr":
            return simulate.DCTR(attraction, 5)
        case _:
            return simulate.ItemPosition(attraction[:, :, None] * rng.uniform(0.2, 1, (25, 8, 5)))


SIMULATED = ("pbm", "dbn", "cascade", "dcm", "dctr", "item-position")
"""The click models of the simulated logs."""


@functools.cache
def simulated(name: str) -> Case:
    """A log of four thousand records over ten days, by a ranker that drifts."""
    production = simulate.Drifting(25, 8, 5, seed=4, days=10, events=0.3, variants=(2, 6))
    simulation = simulate.Simulation(
        _world(name), production, 4_000, shock_sd=0.1, shock_persistence=0.5, user_sd=0.2
    )
    table = simulation.sample(seed=5)
    query = np.asarray(table["query"])
    table = table.append_column("class", pa.array([f"class {q % 3}" for q in query]))
    log = fc.read_log(table, context="query", period="day", unit="user", segments="class")
    last_day = table.filter(pa.array(np.asarray(table["day"]) == 10)).select(["query", "items"])
    candidates = {
        "ranking": simulation.candidate(seed=1),
        "second": simulation.candidate(seed=2),
        "third": simulation.candidate(seed=3),
        "last-day": simulation.logging(10),
        "first-day": simulation.logging(1),
        "observed": fc.Observed(fc.read_log(last_day, context="query", clicks=None)),
    }
    return Case(
        f"simulated/{name}",
        log,
        candidates,
        4_000,
        10,
        unit=True,
        table=table,
        more={"logging": simulation.logging()},
    )


@functools.cache
def contradicting() -> Case:
    """No click model holds, and every list was shown often: the ladder and `ip` disagree."""
    rng = np.random.default_rng(8)
    lists = np.array([rng.permutation(5)[:3] for _ in range(32)])
    contexts = np.repeat(np.arange(8), 4)
    world = simulate.ListSpecific(8, 5, [0.9, 0.7, 0.5], seed=2)
    production = simulate.Stationary(contexts, lists, np.tile([0.4, 0.3, 0.2, 0.1], 8), days=8)
    simulation = simulate.Simulation(world, production, 6_000)
    log = fc.read_log(simulation.sample(seed=9), context="query", period="day", unit="user")
    ids = simulate.item_ids(contexts[:, None], lists).tolist()
    candidates = {
        name: fc.Ranking({"context": list(range(8)), "items": ids[first::4]})
        for first, name in enumerate(("first", "ranking", "old", "last"))
    }
    return Case("simulated/lists", log, candidates, 6_000, 8, unit=True)


# --- the shop -------------------------------------------------------------------------------------

SHOPS: dict[str, dict[str, Any]] = {
    "pbm": {"records": 12_000, "queries": 400},
    "dbn": {"records": 12_000, "queries": 400, "users": "dbn", "feedback": 0.5},
    "large": {"records": 24_000, "queries": 800, "taste": 0.5},
}
"""The logs of the shop, by name: options of its `Shop`."""


@functools.cache
def shop(name: str) -> Case:
    """A log of the shop with its candidates."""
    drawn = _shop_module()
    made = drawn.draw(drawn.Shop(catalogue=5_000, **SHOPS[name]), seed=11)
    log = fc.read_log(made.log(), context="query", period="day", unit="user")
    candidates = {n: fc.Ranking(made.candidate(n), context="query") for n in made.lists}
    candidates |= {"ranking": candidates["better"]}
    return Case(f"shop/{name}", log, candidates, SHOPS[name]["records"], 28, unit=True)


@functools.cache
def _shop_module() -> Any:  # noqa: ANN401 - a module
    spec = importlib.util.spec_from_file_location("goldens_shop", SHOP)
    if spec is None or spec.loader is None:
        raise ImportError(f"{SHOP.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
