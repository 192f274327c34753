"""How good an optimised policy really is, in worlds with a known truth, beside what was said of it.

60 queries, 10 items, 4 positions. Production ranks by its idea of what attracts, which is off by
half as much again, and either explores (Plackett–Luce: every list may be shown) or hardly does (a
base list 40 % of the time, and twenty others that a swap or two make of it).

    python -m benchmarks optimize --records 5000
    python -m benchmarks optimize shop --seed 10501     # four shops with a long tail
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import foreclick as fc
from benchmarks.shop import read
from benchmarks.study import LOGS, Row, Task, grid, mean, study
from foreclick import simulate
from foreclick.optimization.optimize import Optimized
from foreclick.simulate import shop

QUERIES, ITEMS, POSITIONS = 60, 10, 4
METRIC = f"clicks@{POSITIONS}"
EVERY = np.array(list(itertools.permutations(range(ITEMS), POSITIONS)))
NUMBER = {tuple(one): i for i, one in enumerate(EVERY.tolist())}
EXAMINED = np.arange(1, POSITIONS + 1) ** -0.7

Floats = NDArray[np.float64]

ASKED: dict[str, dict[str, Any]] = {
    "ip": {"estimators": "ip", "pessimism": 0},
    "ladder": {"pessimism": 0},
    "ladder − 1 se": {"pessimism": 1},
    "ladder − 2 se": {"pessimism": 2},
}


def world(name: str, rng: np.random.Generator) -> tuple[simulate.World, Floats]:
    """A world, and what attracts in it."""
    attraction = 0.02 + 0.6 * rng.beta(0.6, 1.5, (QUERIES, ITEMS))
    if name == "pbm":
        return simulate.PBM(attraction, EXAMINED), attraction
    if name == "ip":
        own = rng.lognormal(0, 0.4, (QUERIES, ITEMS, POSITIONS))
        rates = np.clip(attraction[:, :, None] * EXAMINED * own, 0, 0.95)
        return simulate.ItemPosition(rates), attraction
    if name == "dbn":
        satisfaction = rng.uniform(0.3, 0.8, (QUERIES, ITEMS))
        return simulate.DBN(attraction, satisfaction, 0.8, POSITIONS), attraction
    return simulate.Cascade(attraction, POSITIONS), attraction


def production(explores: bool, attraction: Floats, rng: np.random.Generator) -> Any:
    """What is shown: lists by query, with probabilities."""
    contexts, lists, masses = [], [], []
    for query, attracts in enumerate(attraction):
        score = np.log(attracts) + rng.normal(0, 1, ITEMS)
        if explores:
            weights = np.exp(score)[EVERY]
            left = np.exp(score).sum() - np.cumsum(weights, axis=1) + weights
            shown, mass = EVERY, np.prod(weights / left, axis=1)
        else:
            base = np.argsort(-score)
            found = {tuple(base[:POSITIONS].tolist()): 0.4}
            for _ in range(20):
                other = base.copy()
                for _ in range(rng.integers(1, 3)):
                    i = rng.integers(0, POSITIONS)
                    j = rng.integers(0, i + 4)
                    other[i], other[j] = other[j], other[i]
                key = tuple(other[:POSITIONS].tolist())
                found[key] = found.get(key, 0.0) + 0.03
            shown, mass = np.array(list(found)), np.array(list(found.values()))
        contexts.append(np.full(len(shown), query))
        lists.append(shown)
        masses.append(mass / mass.sum())
    shown = (np.concatenate(part) for part in (contexts, lists, masses))
    return simulate.Stationary(*shown)


def values(source: simulate.World) -> Floats:
    """The true value of every list in every query."""
    return np.stack(
        [source.clicks(np.full(len(EVERY), x), EVERY).sum(axis=1) for x in range(QUERIES)]
    )


def truth(best: Optimized, every: Floats, today: Floats) -> Floats:
    """The true value of a policy, by query; where production stays, that of production."""
    rows = best.policy.table.to_pylist()
    found = today.copy()
    found[[int(row["context"]) for row in rows if row["changed"]]] = 0.0
    for row in rows:
        query = int(row["context"])
        items = tuple(int(row[f"item_{k}"]) % 1000 for k in range(1, POSITIONS + 1))
        if row["changed"]:
            found[query] += row["probability"] * every[query, NUMBER[items]]
    return found


@study(
    "optimize",
    ["production", "world", "policy"],
    LOGS,
    mean("gap closed", form=".2f"),
    mean("made worse", form=".1%"),
    mean("naive − true", form="+.3f"),
    mean("honest − true", form="+.3f"),
    mean("new", form=".0%"),
)
def optimize(
    worlds: list[str] = ["pbm", "ip", "dbn", "cascade"],
    ways: list[str] = list(ASKED),
    records: int = 5000,
    seeds: list[int] = [1, 2, 3],
) -> Iterator[Task]:
    """How good optimised policies really are, with so many records a query."""
    return grid(policies, (True, False), worlds, seeds, [records], [ways])


def policies(explores: bool, name: str, seed: int, records: int, ways: list[str]) -> list[Row]:
    """For each way to choose: gap closed, queries made worse, naive and honest error, changed."""
    rng = np.random.default_rng(seed)
    source, attraction = world(name, rng)
    shown = production(explores, attraction, rng)
    simulation = simulate.Simulation(source, shown, records * QUERIES)
    every = values(source)
    today = np.zeros(QUERIES)
    logged = shown.on(1)
    which = [NUMBER[tuple(one)] for one in np.asarray(logged.lists).tolist()]
    np.add.at(today, logged.contexts, logged.probabilities * every[logged.contexts, which])
    log = fc.tally(fc.read_log(simulation.sample(seed=seed), context="query"))
    gap = float(np.sum(every.max(axis=1) - today))
    key = {"production": "explores" if explores else "hardly explores", "world": name}
    found = []
    for way in ways:
        best = fc.optimize(log, metrics=METRIC, **ASKED[way])
        real = truth(best, every, today)
        own = {
            "gap closed": float(np.sum(real - today)) / gap,
            "made worse": float(np.mean(real < today - 1e-9)),
            "naive − true": best.naive - float(real.mean()),
            "honest − true": best.value - float(real.mean()),
            "new": float(best["changed"][0] or 0) / QUERIES,
        }
        found.append(key | {"policy": way} | own)
    return found


# --- shops with a long tail -----------------------------------------------------------------------


@study(
    "optimize shop",
    ["regime"],
    mean("claimed", form="+.1%"),
    mean("low", form="+.1%"),
    mean("high", form="+.1%"),
    mean("naive", form="+.1%"),
    mean("true", form="+.1%"),
)
def in_shops(seed: int = 10_501) -> Iterator[Task]:
    """What policies for shops claim, and what they are worth: lifts of clicks@3."""
    for number, regime in enumerate(("shop", "head", "feedback .5", "small")):
        yield partial(in_shop, regime, seed + number)


def in_shop(regime: str, seed: int) -> list[Row]:
    """The lift that is claimed, the one by the estimate that chose, and the true one."""
    kind = shop.REGIMES[regime]
    drawn = shop.draw(kind, seed)
    best = fc.optimize(read(drawn), metrics="clicks@3")
    row = best.to_dicts()[0]
    goods = shop._goods(kind, len(drawn.candidates["better"]), seed)  # noqa: SLF001
    place = {
        (q, item): rate
        for q, (items, rates) in enumerate(zip(goods.items, goods.attraction, strict=True))
        for item, rate in zip(items.tolist(), rates.tolist(), strict=True)
    }
    table = best.policy.table
    lists = np.column_stack([np.asarray(table[f"item_{k}"]) for k in (1, 2, 3)])
    query, n = np.asarray(table["context"]), np.bincount(np.asarray(drawn.log["query"]))
    worth = [
        sum(place[q, i] * k**-0.8 for k, i in enumerate(items, start=1))
        for q, items in zip(query.tolist(), lists.tolist(), strict=True)
    ]
    value = np.asarray(worth) * np.asarray(table["probability"]) @ n[query] / n.sum()
    earned = drawn.expected["production", "clicks"][:3].sum()
    return [
        {
            "regime": regime,
            "claimed": row["lift"],
            "low": row["lift_low"],
            "high": row["lift_high"],
            "naive": row["naive"] / row["production"] - 1,
            "true": value / earned - 1,
        }
    ]
