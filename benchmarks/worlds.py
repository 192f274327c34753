"""Worlds, rankers and policies that studies share, in the terms of `foreclick.simulate`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import foreclick as fc
from foreclick import simulate
from foreclick.simulate import Simulation, World, item_ids

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ITEMS, POSITIONS = 8, 3


def make_world(
    name: str,
    rng: np.random.Generator,
    contexts: int = 1,
    items: int = ITEMS,
    most: float = 0.6,
    positions: int = POSITIONS,
) -> World:
    """A fresh world of this name; `most` is the highest attraction."""
    attraction = rng.uniform(0.05, most, (contexts, items))
    if name == "PBM":
        return simulate.PBM(attraction, 1 / np.arange(1, positions + 1))
    if name == "DCTR":
        return simulate.DCTR(attraction, positions)
    if name == "ItemPosition":
        return simulate.ItemPosition(rng.uniform(0.02, 0.5, (contexts, items, positions)))
    if name == "Cascade":
        return simulate.Cascade(attraction, positions)
    if name == "DCM":
        return simulate.DCM(attraction, np.linspace(0.7, 0.4, positions))
    if name == "DBN":
        satisfaction = rng.uniform(0.5, 0.95, attraction.shape)
        return simulate.DBN(attraction, satisfaction, 0.66, positions)
    seed = int(rng.integers(2**31))
    return simulate.ListSpecific(contexts, items, np.full(positions, 0.6), seed)


def always(lists: Integers, days: int = 1) -> simulate.Stationary:
    """The same lists (C, n, K) on all days, the first of each context most often."""
    contexts, count, positions = lists.shape
    context = np.repeat(np.arange(contexts), count)
    often = np.tile(zipf(count), contexts)
    return simulate.Stationary(context, lists.reshape(-1, positions), often, days)


def policy_of(lists: Integers, mass: Floats, contexts: Integers | None = None) -> fc.Lists:
    """Lists (n, K) with their probabilities; by default, of one context."""
    context = np.zeros(len(lists), dtype=np.int64) if contexts is None else contexts
    ids = item_ids(context[:, None], lists)
    return fc.Lists(pa.table({"context": context, "items": list(ids), "probability": mass}))


def sampled(simulation: Simulation, seed: int) -> fc.Log:
    """One log, with its days."""
    return fc.read_log(simulation.sample(seed=seed), context="query", period="day")


def clicked(
    context: Integers, lists: Integers, rates: Floats, rng: np.random.Generator, **columns: Any
) -> pa.Table:
    """A log of lists (n, K) that are clicked at these rates, each slot for itself."""
    clicks = (rng.random(lists.shape) < rates).astype(np.int8)
    own = {"context": context, "items": list(lists), "clicks": list(clicks)}
    return pa.table(own | columns)


def zipf(count: int, fall: float = 0.7) -> Floats:
    """Shares that fall as 1 / rank^fall."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -fall
    return np.asarray(weights / weights.sum(), dtype=np.float64)
