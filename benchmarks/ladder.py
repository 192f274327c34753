"""The ladder in simulated worlds: how far it is from the truth, and how often its intervals hold.

A ranker shows 40 lists in each of 15 contexts, others more often on each of 14 days, and 30 % of
the time its base list. 20,000 records of lists of 5 of 12 items, dcg@5. Every log is of a world and
a ranker of its own.

    python -m benchmarks ladder accuracy --logs 30    # RMSE of V(h) by context and day, beside ip
    python -m benchmarks ladder coverage --logs 150   # three candidates, V(h) and its change
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.study import Column, Row, Rows, beside, holds, study
from benchmarks.worlds import Floats, Integers, policy_of, sampled
from foreclick import simulate
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_metrics
from foreclick.run.holdout import Protocol, fold_errors
from foreclick.simulate.simulation import DayLists

WORLDS = ["DBN", "Cascade", "DCM", "PBM", "ItemPosition", "ListSpecific"]
CONTEXTS, ITEMS, POSITIONS, LISTS, DAYS, RECORDS = 15, 12, 5, 40, 14, 20_000
METRIC = "dcg@5"
PLAIN = fc.Ladder("ip")
"""What knows neither lists nor what stands above a slot."""


@dataclass(frozen=True, eq=False)
class Rotation:
    """A base list and variants of it in every context, in proportions that change every day."""

    attraction: Floats
    seed: int
    days: int = DAYS
    concentration: float = 0.08
    base: float = 0.3

    @cached_property
    def lists(self) -> Integers:
        """Shape (contexts, lists + 1, positions): the base first, and last one never shown."""
        rng = np.random.default_rng([self.seed, 1])
        noisy = np.log(self.attraction) + rng.normal(0, 0.8, self.attraction.shape)
        return np.array([self._variants(rng, order) for order in np.argsort(-noisy, axis=1)])

    @staticmethod
    def _variants(rng: np.random.Generator, order: Any) -> list[tuple[int, ...]]:
        found = {tuple(order[:POSITIONS]): None}
        while len(found) < LISTS + 1:
            other = order.copy()
            for _ in range(rng.integers(1, 4)):
                i = rng.integers(0, POSITIONS)
                j = min(ITEMS - 1, i + rng.geometric(0.35))
                other[[i, j]] = other[[j, i]]
            found[tuple(other[:POSITIONS])] = None
        return list(found)

    def on(self, day: int) -> DayLists:
        """What is shown on a day."""
        rng = np.random.default_rng([self.seed, 2, day])
        mass = rng.dirichlet(np.full(LISTS, self.concentration), CONTEXTS) * (1 - self.base)
        mass[:, 0] += self.base
        context = np.repeat(np.arange(CONTEXTS), LISTS)
        return DayLists(context, self.lists[:, :-1].reshape(-1, POSITIONS), mass.ravel())


def scene(name: str, seed: int, shock: float) -> simulate.Simulation:
    """A world with its ranker."""
    rng = np.random.default_rng([seed, 3])
    attraction = 0.03 + 0.55 * rng.beta(0.8, 1.6, (CONTEXTS, ITEMS))
    examination = np.arange(1, POSITIONS + 1) ** -0.7
    odd = rng.lognormal(0, 0.5, (CONTEXTS, ITEMS, POSITIONS))
    rates = np.minimum(attraction[:, :, None] * examination * odd, 0.98)
    satisfaction = rng.uniform(0.4, 0.9, (CONTEXTS, ITEMS))
    worlds: dict[str, simulate.World] = {
        "PBM": simulate.PBM(attraction, examination),
        "Cascade": simulate.Cascade(attraction, POSITIONS),
        "DCM": simulate.DCM(attraction, np.linspace(0.7, 0.4, POSITIONS)),
        "DBN": simulate.DBN(attraction, satisfaction, 0.75, POSITIONS),
        "ItemPosition": simulate.ItemPosition(rates),
        "ListSpecific": simulate.ListSpecific(CONTEXTS, ITEMS, np.full(POSITIONS, 0.6), seed),
    }
    shares = np.random.default_rng([seed, 4]).dirichlet(np.full(CONTEXTS, 2.0))
    ranker = Rotation(attraction, seed)
    return simulate.Simulation(worlds[name], ranker, RECORDS, shares, shock_sd=shock)


def ratio(one: str, other: str) -> Column:
    """The root of a mean square beside another."""

    def of(rows: Rows) -> float:
        return float(np.sqrt(rows.of(one).mean()) / np.sqrt(rows.of(other).mean()))

    return Column(f"{one} / {other}", of, ".3f")


LOGS: dict[str, Any] = {"worlds": WORLDS, "logs": 30, "seed": 5_100_000}


@study(
    "ladder accuracy",
    ["world"],
    "logs",
    *(ratio("ladder", "ip"), ratio("ladder-ip", "ip"), ratio("ladder", "ladder-ip")),
    **LOGS,
)
def accuracy(world: str, seed: int) -> list[Row]:
    """RMSE over contexts and days, each predicted from the other days, against the truth."""
    source = scene(world, seed, 0.0)
    roles: dict[str, Any] = {"context": "query", "period": "day"}
    log = fc.read_log(expected_beside(source, seed), **roles, rewards={"expected": "expected"})
    truth = Protocol({day: day - 1 for day in range(1, DAYS + 1)}, truth="expected")
    wanted = parse_estimators(["ip", "ladder", PLAIN])
    errors, folds = fold_errors(fc.tally(log), wanted, parse_metrics([METRIC]), truth)
    mean_of = {e.target.model.name: e.squared.sum() / folds.weight.sum() for e in errors}
    return [{"world": world} | mean_of]


def expected_beside(source: simulate.Simulation, seed: int) -> pa.Table:
    """A log with what each list was expected to earn beside what it did."""
    table = source.sample(seed=seed)
    context, items = np.asarray(table["query"]), table["items"].combine_chunks()
    lists = np.asarray(items.flatten()).reshape(len(context), -1)
    own = lists - simulate.item_ids(context, np.array(0))[:, None]
    worth = pa.ListArray.from_arrays(items.offsets, source.world.clicks(context, own).ravel())
    return table.append_column("expected", worth)


@study(
    "ladder coverage",
    ["world", "candidate"],
    "logs",
    holds("holds V(h)", form=".3f"),
    holds("holds the change", "change", ".3f"),
    **LOGS,
)
def coverage(world: str, seed: int) -> list[Row]:
    """How often the intervals of the ladder hold V(h), and its change against production."""
    source = scene(world, seed, 0.05)
    lists = source.production.lists  # type: ignore[attr-defined]
    production = np.mean([source.value(source.logging(day), METRIC) for day in range(1, DAYS + 1)])
    log, one = sampled(source, seed), (np.ones(CONTEXTS), np.arange(CONTEXTS))
    candidates = {
        "last day": source.logging(DAYS),
        "never shown": policy_of(lists[:, -1], *one),
        "base list": policy_of(lists[:, 0], *one),
    }
    found = []
    for candidate, shown in candidates.items():
        truth = source.value(shown, METRIC)
        (row,) = fc.evaluate(log, shown, metrics=METRIC, estimators="ladder")
        key = {"world": world, "candidate": candidate}
        found.append(key | beside(row, truth, change=truth - float(production)))
    return found
