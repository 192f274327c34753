"""Production rankers, and candidates whose true value against them is known."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

import foreclick as fc
from benchmarks.replications import (
    HOLDS,
    METRIC,
    POSITIONS,
    Integers,
    always,
    make_world,
    policy_of,
)
from foreclick import simulate
from foreclick.simulate import Simulation, World

CONTEXTS, DAYS, RECORDS = 10, 14, 5_000
SHOWN, HIDDEN = 8, 3  # items that production shows, and items that it never does
LISTS = 12  # that a steady ranker shows in each context
OFTEN = 6  # of them; candidates are made of these
MOST = 0.5  # attraction, so that hardly any shock is cut at a click rate of 1


def steady(name: str, seed: int) -> Simulation:
    """A ranker that shows the same lists on all days, each together with its twin.

    Items 0 and 1, 2 and 3 and so on are clicked alike, in every world that knows items. The twin of
    a list has the other item of each pair, and is shown more or less often than the list.
    """
    rng = np.random.default_rng([seed, list(HOLDS).index(name), 14])
    world = _with_twins(make_world(name, rng, CONTEXTS, SHOWN + HIDDEN, MOST))
    every = np.array(list(itertools.permutations(range(SHOWN), POSITIONS)))
    first = every[every[:, 0] % 2 == 0]  # one of each pair of twins
    drawn = [rng.permutation(first)[: LISTS // 2] for _ in range(CONTEXTS)]
    lists = np.stack([np.stack([d, twin_of(d)], axis=1) for d in drawn])
    shown = always(lists.reshape(CONTEXTS, LISTS, POSITIONS), DAYS)
    return Simulation(world, shown, RECORDS)


def drifting(name: str, seed: int) -> Simulation:
    """A ranker that changes from day to day, so that what is shown is confounded with days."""
    rng = np.random.default_rng([seed, list(HOLDS).index(name), 27])
    world = make_world(name, rng, CONTEXTS, SHOWN, MOST)
    ranker = simulate.Drifting(CONTEXTS, SHOWN, POSITIONS, seed, days=DAYS, variants=(3, 12))
    return Simulation(world, ranker, RECORDS)


def twins(simulation: Simulation) -> fc.Lists:
    """A steady ranker's lists exchanged for their twins: worth the same, and ranked otherwise."""
    shown = simulation.production.on(1)
    lists = np.asarray(shown.lists, dtype=np.int64)
    return policy_of(twin_of(lists), np.asarray(shown.probabilities), np.asarray(shown.contexts))


def of_known_value(simulation: Simulation) -> dict[str, fc.Lists]:
    """Of the lists that production shows often the best, the worst, and a mixture of both.

    The mixture is worth exactly what production is.
    """
    often = [_often(simulation, x) for x in range(CONTEXTS)]
    theta = np.array(fc.Metric(METRIC).theta)
    rows = np.arange(CONTEXTS)
    worth = np.stack([simulation.world.clicks(np.full(OFTEN, x), often[x]) @ theta for x in rows])
    lists = np.stack(often)
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


def twin_of(lists: Integers) -> Integers:
    """The lists with the other item of each pair: 0 for 1, 1 for 0, 2 for 3, …."""
    return lists ^ 1


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
