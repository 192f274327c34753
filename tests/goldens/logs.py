"""The logs that the goldens ask about: drawn from fixed seeds, by the public API alone.

A `Scene` is a log with candidates for it. There are three kinds: small random logs that have every
role a column can have, simulated click models, and a shop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from foreclick import simulate
from foreclick.simulate import shop as shops
from tests.cases.plain import Draw, drawn, half_new
from tests.cases.tables import lists_table, marginals_table


@dataclass(frozen=True)
class Scene:
    """A log, and policies by name: candidates, and the one that logged it."""

    log: fc.Log
    policies: dict[str, Any]

    @functools.cached_property
    def tally(self) -> fc.Tally:
        """The log, counted once."""
        return fc.tally(self.log)


# --- small random logs ----------------------------------------------------------------------------


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
def random_case(name: str, seed: int) -> Scene:
    """The random log of this name and number, with its candidates."""
    found = drawn(f"{name} {seed}", DRAWS[name])
    shown, new = found.shown, found.candidate
    last = [row for row in found.rows if row.context in new][-found.size // 3 :]
    shown_now = [{"context": row.context, "items": row.items} for row in last]
    shown_now += [{"context": q, "items": next(iter(shown[q]))} for q in new]
    mixed = half_new(found)
    best = [list(next(iter(new[q]))) for q in new]
    old = [list([*shown[q]][-1]) for q in new]
    return Scene(
        found.log,
        {
            "ranking": fc.Ranking({"context": list(new), "items": best}),
            "old": fc.Ranking({"context": list(new), "items": old}),
            "lists": fc.Lists(lists_table(new)),
            "mixed": fc.Lists(lists_table(mixed)),
            "marginals": fc.Marginals(marginals_table(mixed)),
            "observed": fc.Observed(fc.read_log(pa.Table.from_pylist(shown_now), clicks=None)),
            "logging": fc.Lists(lists_table(shown)),
        },
    )


# --- simulated click models -----------------------------------------------------------------------


def _world(name: str) -> Any:  # noqa: ANN401 - a World
    rng = np.random.default_rng(3)
    attraction = 0.05 + 0.5 * rng.beta(0.5, 1.2, (25, 8))
    worlds: dict[str, Callable[[], Any]] = {
        "pbm": lambda: simulate.PBM(attraction, [1, 0.7, 0.5, 0.35, 0.25]),
        "dbn": lambda: simulate.DBN(attraction, rng.uniform(0.4, 0.9, (25, 8)), 0.75, 5),
        "cascade": lambda: simulate.Cascade(attraction, 5),
        "dcm": lambda: simulate.DCM(attraction, [0.8, 0.7, 0.6, 0.5, 0.4]),
        "dctr": lambda: simulate.DCTR(attraction, 5),
        "item-position": lambda: simulate.ItemPosition(
            attraction[:, :, None] * rng.uniform(0.2, 1, (25, 8, 5))
        ),
    }
    return worlds[name]()


SIMULATED = ("pbm", "dbn", "cascade", "dcm", "dctr", "item-position")
"""The click models of the simulated logs."""


@functools.cache
def simulated(name: str) -> Scene:
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
    policies = {
        "ranking": simulation.candidate(seed=1),
        "second": simulation.candidate(seed=2),
        "third": simulation.candidate(seed=3),
        "last-day": simulation.logging(10),
        "first-day": simulation.logging(1),
        "observed": fc.Observed(fc.read_log(last_day, context="query", clicks=None)),
        "logging": simulation.logging(),
    }
    return Scene(log, policies)


@functools.cache
def contradicting() -> Scene:
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
    return Scene(log, candidates)


# --- the shop -------------------------------------------------------------------------------------

SHOPS: dict[str, dict[str, Any]] = {
    "pbm": {"records": 12_000, "queries": 400},
    "dbn": {"records": 12_000, "queries": 400, "users": "dbn", "feedback": 0.5},
    "large": {"records": 24_000, "queries": 800, "taste": 0.5},
}
"""The logs of the shop, by name: options of its `Shop`."""


@functools.cache
def shop(name: str) -> Scene:
    """A log of the shop with its candidates."""
    drawn = shops.draw(shops.Shop(catalogue=5_000, **SHOPS[name]), seed=11)
    log = fc.read_log(drawn.log, context="query", period="day", unit="user")
    lists = drawn.candidates.items()
    return Scene(log, {name: fc.Ranking(table, context="query") for name, table in lists})
