"""The ladder in simulated worlds: how far it is from the truth, and how often its intervals hold.

A ranker shows 40 lists in each of 15 contexts, others more often on each of 14 days, and 30 % of
the time its base list. 20,000 records of lists of 5 of 12 items, dcg@5. Every log is of a world and
a ranker of its own.

    python -m benchmarks.ladder accuracy --logs 30    # RMSE of V(h) by context and day, beside ip
    python -m benchmarks.ladder coverage --logs 150   # three candidates, V(h) and its change
    python -m benchmarks.ladder judge --logs 6        # items sorted by attraction, as optimised
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from foreclick import simulate
from foreclick.errors import ForeclickWarning
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_metrics
from foreclick.run.holdout import Protocol, fold_errors
from foreclick.simulate.simulation import DayLists

WORLDS = ("DBN", "Cascade", "DCM", "PBM", "ItemPosition", "ListSpecific")
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


def scene(name: str, seed: int, shock: float, records: int = RECORDS) -> simulate.Simulation:
    """A world with its ranker."""
    source, attraction = world(name, seed)
    shares = np.random.default_rng([seed, 4]).dirichlet(np.full(CONTEXTS, 2.0))
    return simulate.Simulation(source, Rotation(attraction, seed), records, shares, shock_sd=shock)


def policy(lists: Any) -> fc.Ranking:
    """One list for each context."""
    context = np.arange(len(lists))
    items = simulate.item_ids(context[:, None], lists)
    return fc.Ranking(pa.table({"context": context, "items": items.tolist()}))


def print_row(*cells: str | float) -> None:
    """A row of a table."""
    shown = [c if isinstance(c, str) else f"{c:.3f}" for c in cells]
    print(f"| {' | '.join(shown)} |", flush=True)


# --- how far it is from the truth ---------------------------------------------------------------


def accuracy(name: str, seed: int, logs: int) -> None:
    """RMSE over contexts and days, each predicted from the other days, against the truth."""
    squared: dict[str, list[float]] = defaultdict(list)
    for number in range(logs):
        source = scene(name, seed + number, 0.0)
        table = source.sample(seed=seed + number)
        context, items = np.asarray(table["query"]), table["items"].combine_chunks()
        lists = np.asarray(items.flatten()).reshape(len(context), POSITIONS)
        own = lists - simulate.item_ids(context, np.array(0))[:, None]
        worth = pa.ListArray.from_arrays(items.offsets, source.world.clicks(context, own).ravel())
        log = fc.tally(
            fc.read_log(
                table.append_column("expected", worth),
                context="query",
                period="day",
                rewards={"expected": "expected"},
            )
        )
        truth = Protocol({day: day - 1 for day in range(1, DAYS + 1)}, truth="expected")
        asked = parse_estimators(["ip", "ladder", PLAIN])
        found = fold_errors(log, asked, parse_metrics([METRIC]), truth)
        for errors in found.errors:
            squared[errors.target.model.name].append(errors.squared.sum() / found.weight.sum())
    ip, *others = (math.sqrt(np.mean(squared[e])) for e in ("ip", "ladder", PLAIN.name))
    print_row(name, *(other / ip for other in others), others[0] / others[1])


# --- how often intervals hold -------------------------------------------------------------------


def coverage(name: str, seed: int, logs: int) -> None:
    """How often the intervals of the ladder hold V(h), and its change against production."""
    held: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for number in range(logs):
        source = scene(name, seed + number, 0.05)
        lists = source.production.lists  # type: ignore[attr-defined]
        days = [source.value(source.logging(day), METRIC) for day in range(1, DAYS + 1)]
        log = fc.read_log(source.sample(seed=seed + number), context="query", period="day")
        candidates = {
            "last day": source.logging(DAYS),
            "never shown": policy(lists[:, -1]),
            "base list": policy(lists[:, 0]),
        }
        for candidate, shown in candidates.items():
            right = source.value(shown, METRIC)
            (row,) = fc.evaluate(log, shown, metrics=METRIC, estimators="ladder").to_dicts()
            low, high, less, more = (
                float(row[column] or math.nan)  # type: ignore[arg-type]
                for column in ("low", "high", "change_low", "change_high")
            )
            change = right - float(np.mean(days))
            held[candidate].append((low <= right <= high, less <= change <= more))
    for candidate, each in held.items():
        value, change = np.mean(each, axis=0)
        print_row(name, candidate, value, change)


# --- judging what is optimised --------------------------------------------------------------------


def judge(name: str, seed: int, logs: int) -> None:
    """Error, in shares of production, of the value of the items in the order of attraction."""
    errors: dict[str, list[float]] = defaultdict(list)
    for number in range(logs):
        source = scene(name, seed + number, 0.0, 3 * RECORDS)
        best = np.argsort(-world(name, seed + number)[1], axis=1)[:, :POSITIONS]
        log = fc.read_log(source.sample(seed=seed + number), context="query", period="day")
        right = source.value(policy(best), METRIC)
        found = fc.evaluate(
            log, policy(best), metrics=METRIC, estimators=["ladder", PLAIN], confidence=None
        )
        for row in found.to_dicts():
            wrong = (float(row["value"]) - right) / float(row["production"])  # type: ignore[arg-type]
            errors[str(row["estimator"])].append(wrong)
    print_row(name, *(float(np.mean(errors[e])) for e in ("ladder", PLAIN.name)))


HEADS = {
    "accuracy": "| world | ladder / ip | ladder-ip / ip | ladder / ladder-ip |",
    "coverage": "| world | candidate | holds V(h) | holds the change |",
    "judge": "| world | ladder | ladder-ip |",
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=HEADS)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--logs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=5_100_000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ForeclickWarning)
    print(HEADS[arguments.part] + "\n" + "|---" * HEADS[arguments.part].count(" | ") + "|---|")
    make = {"accuracy": accuracy, "coverage": coverage, "judge": judge}[arguments.part]
    for name in arguments.worlds:
        start = time.perf_counter()
        make(name, arguments.seed, arguments.logs)
        took = time.perf_counter() - start
        print(f"<!-- {name}: {arguments.logs} logs, {took:.0f} s -->", flush=True)


if __name__ == "__main__":
    main()
