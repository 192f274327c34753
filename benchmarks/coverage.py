"""Do the intervals of `evaluate` cover? By the estimators of the paper, in simulated worlds.

python -m benchmarks coverage single --replications 400 --sizes 10000    # one context
python -m benchmarks coverage many --parts users days --logs 100         # users and days differ

*limit* is what an estimator tends to, which is V(h) where its click model is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import foreclick as fc
from benchmarks.replications import (
    HOLDS,
    METRIC,
    POSITIONS,
    Clusters,
    expected_log,
    make_scene,
    make_world,
    measured,
    mostly,
    of_many,
    packed,
    policy_of,
)
from benchmarks.study import Column, Row, Rows, Task, grid, mean, study
from foreclick import simulate
from foreclick.simulate import Simulation

# --- one context: every outcome is known --------------------------------------------------------


def true(which: Callable[[Any], float]) -> Callable[[Rows], float | None]:
    """The least or largest share of intervals that hold V(h), where the click model is right."""

    def of(rows: Rows) -> float | None:
        mine = [row["covers_truth"] for row in rows if row["holds"]]
        return which(mine) if mine else None

    return of


@study(
    "coverage single",
    ["records", "estimator"],
    Column("cells", len),
    Column("in 93.5–96.5 %", lambda r: float(np.mean(abs(r.of("covers") - 0.95) <= 0.015)), ".0%"),
    Column("lowest", lambda rows: float(rows.of("covers").min()), ".1%"),
    Column("highest", lambda rows: float(rows.of("covers").max()), ".1%"),
    Column("V(h), lowest", true(min), ".1%"),
    Column("V(h), highest", true(max), ".1%"),
    Column("width", lambda rows: float(np.mean(rows.of("width") / rows.of("limit"))), ".0%"),
)
def single(
    worlds: list[str] = list(HOLDS),
    seeds: list[int] = [1, 2, 3],
    sizes: list[int] = [1_000, 10_000, 100_000],
    replications: int = 4_000,
) -> Iterator[Task]:
    """One context, independent records; counts of outcomes are drawn instead of records."""
    return grid(in_one_context, sizes, worlds, seeds, [replications])


def in_one_context(records: int, name: str, seed: int, replications: int) -> list[Row]:
    """A row for each candidate and estimator."""
    scene = make_scene(name, seed)
    chances = scene.outcomes[2]
    rng = np.random.default_rng([seed, records])
    log = scene.log(rng.multinomial(records, chances, size=replications))
    expected = scene.log(records * chances[None, :])
    found = []
    for kind, policy in scene.candidates.items():
        truth, each = scene.world.value(policy, METRIC), [(log, range(replications))]
        for row in measured(each, expected, policy, truth, "record"):
            holds = row["estimator"] in HOLDS[name]
            found.append({"candidate": kind, "records": records, "holds": holds} | row)
    return found


# --- many contexts: users and days that differ --------------------------------------------------

PACK = 40  # logs that are tallied together


@study(
    "coverage many",
    ["part", "world", "estimator"],
    mean("covers", "limit held", ".1%"),
    mean("covers_truth", "V(h) held", ".1%"),
    mean("below", "upper", ".1%"),
    Column("width", lambda rows: rows[0]["width"] / rows[0]["limit"], ".1%"),
    Column("margin", lambda rows: rows[0]["margin"] / rows[0]["limit"], ".1%"),
    mean("ratio", "se / sd", ".2f"),
)
def many(
    parts: list[str] = ["users", "days", "last day", "memory 14", "memory 28", "both", "thin"],
    worlds: list[str] = ["PBM", "DBN"],
    logs: int = 400,
    seed: int = 1,
) -> Iterator[Task]:
    """Many contexts, where users and days differ or where much of the candidate was never shown."""
    return grid(in_many_contexts, worlds, parts, [logs], [seed])


def in_many_contexts(world: str, part: str, logs: int, seed: int) -> list[Row]:
    """A row for each estimator; whole logs are drawn, several are tallied together."""
    simulation, policy, clusters = PARTS[part](world, seed)
    packs = (range(first, min(first + PACK, logs)) for first in range(0, logs, PACK))
    drawn = ((packed(simulation, numbers, clusters), numbers) for numbers in packs)
    truth = simulation.value(policy, METRIC)
    found = measured(drawn, expected_log(simulation), policy, truth, clusters)
    return [{"part": part, "world": world} | row for row in found]


Setting = tuple[Simulation, fc.Lists, Clusters]


def mostly_one(
    stream: int, size: tuple[int, int, int], clusters: Clusters, name: str, seed: int, **more: Any
) -> Setting:
    """A ranker that shows the same lists on all days, and a candidate that mostly shows one."""
    simulation, rng = of_many(name, [seed, stream], size, **more)
    return simulation, mostly(simulation, 5, rng), clusters


def days(name: str, seed: int, persistence: float = 0.0, length: int = 28) -> Setting:
    """50 contexts under a drifting ranker, with a shock of 10 % for each context and day.

    The candidate is what the base ranker showed in the middle of the log.
    """
    rng = np.random.default_rng([seed, 27])
    world = make_world(name, rng, contexts=50, items=20)
    ranker = simulate.Drifting(50, 20, POSITIONS, seed, days=length, variants=(3, 12))
    simulation = Simulation(world, ranker, 100_000, shock_sd=0.1, shock_persistence=persistence)
    middle = ranker.orders[:, length // 2 - 1, :POSITIONS].astype(np.int64)
    return simulation, policy_of(middle, np.ones(50), np.arange(50)), "period"


def last_day(name: str, seed: int) -> Setting:
    """The same logs, and the candidate is what their last day showed."""
    simulation, _, clusters = days(name, seed)
    return simulation, simulation.logging(day=simulation.production.days), clusters


# A keen user's attraction is cut at 1; where it is low, hardly ever, and the limit is V(h).
KEEN = {"most": 0.25, "user_sd": 0.5}
PARTS: dict[str, Callable[[str, int], Setting]] = {
    "users": partial(mostly_one, 50, (50, 20, 100_000), "unit", **KEEN),
    "days": days,
    "last day": last_day,
    "memory 14": partial(days, persistence=0.6, length=14),
    "memory 28": partial(days, persistence=0.6),
    "both": partial(mostly_one, 77, (20, 20, 20_000), "auto", **KEEN, days=14, shock_sd=0.1),
    "thin": partial(mostly_one, 400, (400, 60, 10_000), "record"),
}
"""Contexts, lists in each and records; *thin*: much of the candidate was never shown."""
