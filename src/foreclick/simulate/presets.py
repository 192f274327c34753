"""Simulations by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from foreclick.simulate.generate import Simulation
from foreclick.simulate.production import Drift, Drifting
from foreclick.simulate.worlds import DBN, PBM, World

Floats = NDArray[np.float64]

POOL = 40
POSITIONS = 10
_ILLUSTRATIVE_POOL = 70
_RANKER_NOISE = 0.1
PERSISTENCE = 0.6
"""Of shocks by query and day: how much of a day's is left on the next."""

_WORLD = 100
"""The stream of a preset's world: none that production or a log uses."""

FALL = 0.74
"""The exponent of the queries' frequencies: the paper's most frequent query has 455k records, its
100th 15k and its 1,000th 3k, and 9 million records over 1,000 queries then have about these too."""


def yandex_like(records: int = 9_000_000, queries: int = 1000, seed: int = 0) -> Simulation:
    """A search log searched to resemble the one of the paper, as far as the paper tells.

    Clicks are those of a `DBN` (continuation .66, satisfaction U(.5, .95)); attractions are
    .01 + .6 · Beta(.30, .78), and 85 % of queries have one navigational item at U(.6, .9), which is
    first on day 1. The ranker drifts over 27 days as `Drift` says. Shocks by query and day have a
    spread of 10 % and a persistence of .6.

    Queries are numbered by falling frequency, so the paper's "100 most frequent queries" are
    ``where="query < 100"``. With the default size they have the paper's number of records; more
    records make every query larger.

    Args:
        records: how many records a log has.
        queries: how many queries; the 1,000 most frequent ones in the paper.
        seed: another seed is another world with another history.

    Examples:
        >>> simulation = yandex_like(records=1000, queries=20)
        >>> simulation.sample().num_rows
        1000
    """
    attraction, rng = attractions(queries, seed)
    return _drifting(satisfied(attraction, rng), Drift(), records, seed)


def pbm_drift(records: int = 9_000_000, queries: int = 1000, seed: int = 0) -> Simulation:
    """The ranker and the attractions of `yandex_like`, clicked as a `PBM` with examination 1/k.

    How it is clicked was not searched: a world in which the models `ip` and `pbm` hold exactly.

    Args:
        records: how many records a log has.
        queries: how many queries.
        seed: another seed is another world with another history.
    """
    attraction, _ = attractions(queries, seed)
    world = PBM(attraction, examination=1 / np.arange(1, POSITIONS + 1))
    return _drifting(world, Drift(), records, seed)


def illustrative_query(records: int = 3553, seed: int = 0) -> Simulation:
    """One query like the paper's example: 3,553 records, about 63 lists and 53 items.

    The click world is that of `yandex_like`, with a larger pool; few variants a day, with
    items from anywhere in it, give about the paper's number of lists and items.

    Args:
        records: how many records a log has.
        seed: another seed is another query.
    """
    attraction, rng = attractions(1, seed, pool=_ILLUSTRATIVE_POOL)
    drift = Drift(variants=(2, 4), fresh=0.65, reach=60.0, depth=0.0)
    return _drifting(satisfied(attraction, rng), drift, records, seed)


PRESETS: dict[str, Callable[..., Simulation]] = {
    "yandex-like": yandex_like,
    "pbm-drift": pbm_drift,
    "illustrative-query": illustrative_query,
}
"""By the name that the command line gives them."""


def attractions(queries: int, seed: int, pool: int = POOL) -> tuple[Floats, np.random.Generator]:
    """Attractions in the order in which the ranker shows items on day 1, and the stream they use.

    The ranker knows attraction up to some noise; the navigational item it knows for sure.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_WORLD,)))
    attraction = 0.01 + 0.6 * rng.beta(0.30, 0.78, (queries, pool))
    score = attraction + _RANKER_NOISE * rng.standard_normal(attraction.shape)
    attraction = np.take_along_axis(attraction, np.argsort(-score, axis=1), axis=1)
    navigational = rng.random(queries) < 0.85
    attraction[navigational, 0] = rng.uniform(0.6, 0.9, navigational.sum())
    return attraction, rng


def satisfied(attraction: Floats, rng: np.random.Generator) -> DBN:
    """How `yandex_like` is clicked."""
    satisfaction = rng.uniform(0.5, 0.95, attraction.shape)
    return DBN(attraction, satisfaction, continuation=0.66, positions=POSITIONS)


def _drifting(world: World, drift: Drift, records: int, seed: int) -> Simulation:
    """The world under a drifting ranker, with Zipf-like frequencies and day shocks."""
    queries, pool, positions = world.size
    return Simulation(
        world,
        Drifting(queries, pool, positions, drift, seed),
        records,
        frequencies=np.arange(1, queries + 1) ** -FALL,
        shock_sd=0.10,
        shock_persistence=PERSISTENCE,
    )
