"""The ladder in simulated worlds: how far it is from the truth, and how often its intervals hold.

A ranker shows 40 lists in each of 15 contexts, others more often on each of 14 days, and 30 % of
the time its base list. 20,000 records of lists of 5 of 12 items, dcg@5. Every log is of a world and
a ranker of its own.

    python -m benchmarks ladder accuracy --logs 30    # RMSE of V(h) by context and day, beside ip
    python -m benchmarks ladder coverage --logs 150   # three candidates, V(h) and its change
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.replications import policy_of, sampled
from benchmarks.study import LOGS, Column, Row, Rows, Task, grid, holds, study, taken
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

    attraction: Any
    seed: int
    days: int = DAYS
    concentration: float = 0.08
    base: float = 0.3

    @cached_property
    def lists(self) -> Any:
        """Shape (contexts, lists + 1, positions): the base first, and last one never shown."""
        rng = np.random.default_rng([self.seed, 1])
        noisy = np.log(self.attraction) + rng.normal(0, 0.8, self.attraction.shape)
        return np.array([self._variants(rng, order) for order in np.argsort(-noisy, axis=1)])

    @staticmethod
    def _variants(rng: np.random.Generator, order: Any) -> list[tuple[int, ...]]:
        found = [tuple(order[:POSITIONS])]
        while len(found) < LISTS + 1:
            other = order.copy()
            for _ in range(rng.integers(1, 4)):
                i = rng.integers(0, POSITIONS)
                j = min(ITEMS - 1, i + rng.geometric(0.35))
                other[[i, j]] = other[[j, i]]
            if tuple(other[:POSITIONS]) not in found:
                found.append(tuple(other[:POSITIONS]))
        return found

    def on(self, day: int) -> DayLists:
        """What is shown on a day."""
        rng = np.random.default_rng([self.seed, 2, day])
        mass = rng.dirichlet(np.full(LISTS, self.concentration), CONTEXTS) * (1 - self.base)
        mass[:, 0] += self.base
        context = np.repeat(np.arange(CONTEXTS), LISTS)
        return DayLists(context, self.lists[:, :-1].reshape(-1, POSITIONS), mass.ravel())


def world(name: str, seed: int) -> tuple[simulate.World, Any]:
    """One of the worlds, and the attractions of its items."""
    rng = np.random.default_rng([seed, 3])
    attraction = 0.03 + 0.55 * rng.beta(0.8, 1.6, (CONTEXTS, ITEMS))
    examination = np.arange(1, POSITIONS + 1) ** -0.7
    odd = rng.lognormal(0, 0.5, (CONTEXTS, ITEMS, POSITIONS))
    satisfaction = rng.uniform(0.4, 0.9, (CONTEXTS, ITEMS))
    made: dict[str, simulate.World] = {
        "PBM": simulate.PBM(attraction, examination),
        "Cascade": simulate.Cascade(attraction, POSITIONS),
        "DCM": simulate.DCM(attraction, np.linspace(0.7, 0.4, POSITIONS)),
        "DBN": simulate.DBN(attraction, satisfaction, 0.75, POSITIONS),
        "ItemPosition": simulate.ItemPosition(
            np.minimum(attraction[:, :, None] * examination * odd, 0.98)
        ),
        "ListSpecific": simulate.ListSpecific(CONTEXTS, ITEMS, np.full(POSITIONS, 0.6), seed),
    }
    return made[name], attraction


def scene(name: str, seed: int, shock: float) -> simulate.Simulation:
    """A world with its ranker."""
    source, attraction = world(name, seed)
    shares = np.random.default_rng([seed, 4]).dirichlet(np.full(CONTEXTS, 2.0))
    return simulate.Simulation(source, Rotation(attraction, seed), RECORDS, shares, shock_sd=shock)


# --- how far it is from the truth ---------------------------------------------------------------


def ratio(one: str, other: str) -> Column:
    """The root of a mean square beside another."""

    def of(rows: Rows) -> float:
        return float(np.sqrt(rows.of(one).mean()) / np.sqrt(rows.of(other).mean()))

    return Column(f"{one} / {other}", of, ".3f")


@study(
    "ladder accuracy",
    ["world"],
    LOGS,
    ratio("ladder", "ip"),
    ratio("ladder-ip", "ip"),
    ratio("ladder", "ladder-ip"),
)
def accuracy(worlds: list[str] = WORLDS, logs: int = 30, seed: int = 5_100_000) -> Iterator[Task]:
    """RMSE over contexts and days, each predicted from the other days, against the truth."""
    return grid(errors_of, worlds, range(seed, seed + logs))


def errors_of(name: str, seed: int) -> list[Row]:
    """Mean squared errors of a log, by estimator."""
    source = scene(name, seed, 0.0)
    log = fc.tally(fc.read_log(expected_beside(source, seed), **EXPECTED))
    truth = Protocol({day: day - 1 for day in range(1, DAYS + 1)}, truth="expected")
    wanted = parse_estimators(["ip", "ladder", PLAIN])
    errors, folds = fold_errors(log, wanted, parse_metrics([METRIC]), truth)
    mean_of = {e.target.model.name: e.squared.sum() / folds.weight.sum() for e in errors}
    return [{"world": name} | mean_of]


EXPECTED: dict[str, Any] = {
    "context": "query",
    "period": "day",
    "rewards": {"expected": "expected"},
}


def expected_beside(source: simulate.Simulation, seed: int) -> pa.Table:
    """A log with what each list was expected to earn beside what it did."""
    table = source.sample(seed=seed)
    context, items = np.asarray(table["query"]), table["items"].combine_chunks()
    lists = np.asarray(items.flatten()).reshape(len(context), -1)
    own = lists - simulate.item_ids(context, np.array(0))[:, None]
    worth = pa.ListArray.from_arrays(items.offsets, source.world.clicks(context, own).ravel())
    return table.append_column("expected", worth)


# --- how often intervals hold -------------------------------------------------------------------


@study(
    "ladder coverage",
    ["world", "candidate"],
    LOGS,
    holds("holds V(h)", form=".3f"),
    holds("holds the change", "change", ".3f"),
)
def coverage(worlds: list[str] = WORLDS, logs: int = 30, seed: int = 5_100_000) -> Iterator[Task]:
    """How often the intervals of the ladder hold V(h), and its change against production."""
    return grid(intervals, worlds, range(seed, seed + logs))


def intervals(name: str, seed: int) -> list[Row]:
    """Those of three candidates."""
    source = scene(name, seed, 0.05)
    lists = source.production.lists  # type: ignore[attr-defined]
    days = [source.value(source.logging(day), METRIC) for day in range(1, DAYS + 1)]
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
        key = {"world": name, "candidate": candidate, "truth": truth}
        key |= {"change": truth - float(np.mean(days))}
        found.append(key | taken(row, "low", "high", "change_low", "change_high"))
    return found
