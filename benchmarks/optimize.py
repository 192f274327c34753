"""How good an optimised policy really is, in worlds with a known truth, beside what was said of it.

60 queries, 10 items, 4 positions. Production ranks by its idea of what attracts, which is off by
half as much again, and either explores (Plackett–Luce: every list may be shown) or hardly does (a
base list 40 % of the time, and twenty others that a swap or two make of it).

    python -m benchmarks optimize --records 5000
    python -m benchmarks optimize shop --seed 10501     # four shops with a long tail
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import foreclick as fc
from benchmarks.shop import read
from benchmarks.study import Row, study
from benchmarks.worlds import Floats, Integers
from foreclick import simulate
from foreclick.optimization.optimize import Optimized
from foreclick.simulate import shop

QUERIES, ITEMS, POSITIONS = 60, 10, 4
METRIC = f"clicks@{POSITIONS}"
EVERY = np.array(list(itertools.permutations(range(ITEMS), POSITIONS)))
EXAMINED = np.arange(1, POSITIONS + 1) ** -0.7

ASKED: dict[str, dict[str, Any]] = {
    "ip": {"estimators": "ip", "pessimism": 0},
    "ladder": {"pessimism": 0},
    "ladder − 1 se": {"pessimism": 1},
    "ladder − 2 se": {"pessimism": 2},
}


def make_world(name: str, rng: np.random.Generator) -> tuple[simulate.World, Floats]:
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


def ranker(explores: bool, attraction: Floats, rng: np.random.Generator) -> simulate.Stationary:
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
    return simulate.Stationary(
        np.concatenate(contexts), np.concatenate(lists), np.concatenate(masses)
    )


def chosen(best: Optimized, positions: int) -> tuple[Integers, Integers, Floats]:
    """The contexts, items and probabilities of a policy's lists."""
    table = best.policy.table
    items = [np.asarray(table[f"item_{k}"], np.int64) for k in range(1, positions + 1)]
    contexts = np.asarray(table["context"], np.int64)
    return contexts, np.column_stack(items), np.asarray(table["probability"])


@study(
    "optimize",
    ["production", "world", "policy"],
    "logs, gap closed:.2f, made worse:.1%, naive − true:+.3f, honest − true:+.3f",
    productions=["explores", "hardly explores"],
    worlds=["pbm", "ip", "dbn", "cascade"],
    seeds=[1, 2, 3],
)
def optimize(
    production: str, world: str, seed: int, records: int = 5000, ways: list[str] = list(ASKED)
) -> list[Row]:
    """How good optimised policies really are, with so many records a query."""
    rng = np.random.default_rng(seed)
    source, attraction = make_world(world, rng)
    shown = ranker(production == "explores", attraction, rng)
    simulation = simulate.Simulation(source, shown, records * QUERIES)
    log = fc.tally(fc.read_log(simulation.sample(seed=seed), context="query"))
    queries = np.repeat(np.arange(QUERIES), len(EVERY))
    every = source.clicks(queries, np.tile(EVERY, (QUERIES, 1))).sum(axis=1)

    def worth(contexts: Any, lists: Any, mass: Any) -> Any:
        """The true value by query."""
        return np.bincount(contexts, mass * source.clicks(contexts, lists).sum(axis=1), QUERIES)

    today = worth(*shown.on(1))
    gap = float(np.sum(every.reshape(QUERIES, -1).max(axis=1) - today))
    key = {"production": production, "world": world}
    found = []
    for way in ways:
        best = fc.optimize(log, metrics=METRIC, **ASKED[way])
        contexts, items, mass = chosen(best, POSITIONS)
        changed = np.isin(np.arange(QUERIES), contexts[np.asarray(best.policy.table["changed"])])
        real = np.where(changed, worth(contexts, items % 1000, mass), today)
        own = {
            "gap closed": float(np.sum(real - today)) / gap,
            "made worse": float(np.mean(real < today - 1e-9)),
            "naive − true": best.naive - float(real.mean()),
            "honest − true": best.value - float(real.mean()),
        }
        found.append(key | {"policy": way} | own)
    return found


# --- shops with a long tail -----------------------------------------------------------------------

LIFTS = ("claimed", "low", "high", "naive", "true")
SEEDS = {"shop": 0, "head": 1, "feedback .5": 2, "small": 3}
"""Regimes, and what is added to the seed."""


@study(
    "optimize shop", ["regime"], ", ".join(f"{lift}:+.1%" for lift in LIFTS), regimes=list(SEEDS)
)
def in_shop(regime: str, seed: int = 10_501) -> list[Row]:
    """What policies for shops claim, by the estimate that chose and truly: lifts of clicks@3."""
    seed += SEEDS[regime]
    kind = shop.REGIMES[regime]
    drawn = shop.draw(kind, seed)
    best = fc.optimize(read(drawn), metrics="clicks@3")
    row = best.to_dicts()[0]
    goods = shop._goods(kind, len(drawn.candidates["better"]), seed)  # noqa: SLF001
    query, lists, mass = chosen(best, 3)
    n = np.bincount(np.asarray(drawn.log["query"]))
    places = (goods.items[query][:, None] == lists[:, :, None]).argmax(axis=2)
    rates = np.take_along_axis(goods.attraction[query], places, axis=1)
    value = rates @ np.arange(1, 4) ** -0.8 * mass @ n[query] / n.sum()
    earned = drawn.expected["production", "clicks"][:3].sum()
    lifts = (row["lift"], row["lift_low"], row["lift_high"])
    others = (row["naive"] / row["production"] - 1, value / earned - 1)
    return [{"regime": regime} | dict(zip(LIFTS, [*lifts, *others], strict=True))]
