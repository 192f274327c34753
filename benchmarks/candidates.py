"""How often is a verdict of `compare` wrong, and an interval, where the true value is known?

Production, a candidate that is worth the same, the best and the worst of the rankings that
production shows; all pairs of them. Days differ by shocks of 10 %.

    python -m benchmarks verdicts --worlds PBM --logs 200 --estimators ladder ip item
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

import foreclick as fc
from benchmarks.replications import HOLDS, METRIC
from benchmarks.study import Column, Row, Rows, beside, grouped, holds, inside, right, study, width
from benchmarks.worlds import POSITIONS, Integers, always, make_world, policy_of, sampled
from foreclick import simulate
from foreclick.simulate import Simulation, World

CONTEXTS, DAYS, RECORDS = 10, 14, 5_000
SHOWN, HIDDEN = 8, 3  # items that production shows, and items that it never does
LISTS = 12  # that a steady ranker shows in each context
OFTEN = 6  # of them; candidates are made of these
MOST = 0.5  # attraction, so that hardly any shock is cut at a click rate of 1
SHOCK = 0.1  # the spread of the shock of a context and day

# --- rankers --------------------------------------------------------------------------------------


def steady(name: str, seed: int) -> Simulation:
    """A ranker that shows the same lists on all days, each together with its twin.

    Items 0 and 1, 2 and 3 and so on are clicked alike, in every world that knows items. The twin of
    a list has the other item of each pair, and is shown more or less often than the list.
    """
    rng = np.random.default_rng([seed, list(HOLDS).index(name), 14])
    world = _with_twins(make_world(name, rng, CONTEXTS, SHOWN + HIDDEN, MOST))
    every = np.array(list(itertools.permutations(range(SHOWN), POSITIONS)))
    first = every[every[:, 0] % 2 == 0]  # one of each pair of twins
    drawn = np.stack([rng.permutation(first)[: LISTS // 2] for _ in range(CONTEXTS)])
    lists = np.stack([drawn, twin_of(drawn)], axis=2).reshape(CONTEXTS, LISTS, POSITIONS)
    return Simulation(world, always(lists, DAYS), RECORDS)


def drifting(name: str, seed: int) -> Simulation:
    """A ranker that changes from day to day, so that what is shown is confounded with days."""
    rng = np.random.default_rng([seed, list(HOLDS).index(name), 27])
    world = make_world(name, rng, CONTEXTS, SHOWN, MOST)
    ranker = simulate.Drifting(CONTEXTS, SHOWN, POSITIONS, seed, days=DAYS, variants=(3, 12))
    return Simulation(world, ranker, RECORDS)


RANKERS = {"steady": steady, "drifting": drifting}


def _with_twins(world: World) -> World:
    """The world in which every odd item is clicked as the even one before it."""
    alike: dict[str, Any] = {}
    for field in ("attraction", "satisfaction", "table"):
        if hasattr(world, field):
            numbers = np.array(getattr(world, field))
            odd = numbers[:, 1::2]
            odd[:] = numbers[:, ::2][:, : odd.shape[1]]
            alike[field] = numbers
    return replace(world, **alike) if alike else world  # type: ignore[type-var]


# --- candidates -----------------------------------------------------------------------------------


def twins(simulation: Simulation) -> fc.Lists:
    """A steady ranker's lists exchanged for their twins: worth the same, and ranked otherwise."""
    shown = simulation.production.on(1)
    lists = np.asarray(shown.lists, dtype=np.int64)
    return policy_of(twin_of(lists), np.asarray(shown.probabilities), np.asarray(shown.contexts))


def twin_of(lists: Integers) -> Integers:
    """The lists with the other item of each pair: 0 for 1, 1 for 0, 2 for 3, …."""
    return lists ^ 1


def of_known_value(simulation: Simulation) -> dict[str, fc.Lists]:
    """Of the lists that production shows often the best, the worst, and a mixture of both.

    The mixture is worth exactly what production is.
    """
    theta, rows = np.array(fc.Metric(METRIC).theta), np.arange(CONTEXTS)
    lists = np.stack([_often(simulation, x) for x in range(CONTEXTS)])
    worth = np.stack([simulation.world.clicks(np.full(OFTEN, x), lists[x]) @ theta for x in rows])
    best, worst = (lists[rows, choose(worth, axis=1)] for choose in (np.argmax, np.argmin))
    low, high = worth.min(axis=1).mean(), worth.max(axis=1).mean()
    wanted = simulation.value(simulation.logging(), METRIC)
    return {
        "mixture": mixture(best, worst, (wanted - low) / (high - low)),
        "best": mixture(best, best),
        "worst": mixture(worst, worst),
    }


def _often(simulation: Simulation, context: int) -> Integers:
    """The lists that production shows most often in a context, over all days."""
    mass: dict[tuple[int, ...], float] = defaultdict(float)
    for day in range(1, DAYS + 1):
        contexts, lists, probabilities = simulation.production.on(day)
        for row in np.flatnonzero(np.asarray(contexts) == context):
            mass[tuple(lists[row].tolist())] += float(probabilities[row])
    return np.array(sorted(mass, key=lambda shown: -mass[shown])[:OFTEN], dtype=np.int64)


def mixture(one: Integers, other: Integers, share: float = 1.0) -> fc.Lists:
    """In every context one list with that probability, and the other with the rest."""
    if not 0 <= share <= 1:
        raise ValueError(f"no mixture is worth what is wanted: share {share:.2f}")
    contexts = np.arange(len(one))
    differ = (one != other).any(axis=1)
    return policy_of(
        np.concatenate([one, other[differ]]),
        np.concatenate([np.where(differ, share, 1.0), np.full(differ.sum(), 1 - share)]),
        np.concatenate([contexts, contexts[differ]]),
    )


# --- verdicts -------------------------------------------------------------------------------------


def by_pair(rows: Rows) -> Collection[Rows]:
    """The rows of each pair of candidates."""
    return grouped(rows, ["pair"]).values()


def wrong(rows: Rows) -> Any:
    """Whether a verdict names the wrong one of a pair the better, or either of two equal ones."""
    truth = rows.of("truth")
    return (rows.signs != 0) & ((np.abs(truth) < 1e-9) | (rows.signs == -np.sign(truth)))


def in_any(rows: Rows) -> float:
    """The share of logs with a wrong verdict."""
    return len(set(rows.of("log")[wrong(rows)])) / len(set(rows.of("log")))


def bias(rows: Rows) -> float:
    """The largest mean error of a pair, as a share of production's value."""
    each = (abs(pair.of("value").mean() - pair[0]["truth"]) for pair in by_pair(rows))
    return float(max(each) / rows[0]["production"])


@study(
    "verdicts",
    ["world", "ranker", "estimator"],
    holds("held"),
    Column("worst pair", lambda rows: min(inside(p).mean() for p in by_pair(rows)), ".1%"),
    Column("wrong", lambda rows: float(wrong(rows).mean()), ".1%"),
    Column("in any of a log", in_any, ".1%"),
    Column("right", right(1e-9), ".1%"),
    Column("width", lambda rows: width(rows) / float(rows[0]["production"]), ".1%"),
    Column("bias", bias, ".1%"),
    worlds=list(HOLDS),
    rankers=list(RANKERS),
    logs=200,
)
def verdicts(
    world: str,
    ranker: str,
    log: int,
    estimators: list[str] = ["default", "ladder", "ip"],
    seed: int = 1,
) -> list[Row]:
    """`compare` of candidates of known value and production."""
    simulation = replace(RANKERS[ranker](world, seed), shock_sd=SHOCK)
    candidates: dict[str, fc.Policy] = dict(of_known_value(simulation))
    policies = candidates | {"production": simulation.logging()}
    truth = {kind: simulation.value(policy, METRIC) for kind, policy in policies.items()}
    tally = fc.tally(sampled(simulation, 1000 + log))
    key = {"world": world, "ranker": ranker, "log": log, "production": truth["production"]}
    asked: dict[str, Any] = {by: {} if by == "default" else {"estimators": by} for by in estimators}
    return [
        key
        | beside(row, truth[row["candidate"]] - truth[row["against"]], "change")
        | {"estimator": by, "pair": f"{row['candidate']}, {row['against']}"}
        for by in estimators
        for row in fc.compare(tally, candidates, metrics=METRIC, **asked[by])
    ]
