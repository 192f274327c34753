"""How well is *at least one click* known?

Each replication is a context of its own: other attractions, other logged lists. A *stochastic*
candidate shows the logged lists with other probabilities; a *ranking* was never logged, but each of
its items was at its position.

python -m benchmarks success --replications 100 --records 10000 --depth 3
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import foreclick as fc
from benchmarks.replications import zipf
from benchmarks.study import LOGS, Column, Row, Task, errors, study
from foreclick import simulate
from foreclick.simulate import World, item_ids

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

WORLDS = ["PBM", "Cascade", "DCM", "DBN"]
ESTIMATORS = ("list", "prefix", "ip", "item", "pbm")
INDEPENDENT = "independent"
KINDS = ("stochastic", "ranking")
ITEMS, LISTS = 8, 40
SEEN = 0.02  # of the records must show an item at its position for a ranking to be asked for


def make_world(name: str, rng: np.random.Generator, contexts: int, depth: int) -> World:
    attraction = rng.uniform(0.05, 0.6, (contexts, ITEMS))
    if name == "PBM":
        return simulate.PBM(attraction, 1 / np.arange(1, depth + 1))
    if name == "Cascade":
        return simulate.Cascade(attraction, depth)
    if name == "DCM":
        return simulate.DCM(attraction, rng.uniform(0.2, 0.8, depth))
    satisfaction = rng.uniform(0.5, 0.95, attraction.shape)
    return simulate.DBN(attraction, satisfaction, 0.66, depth)


def skewed(rng: np.random.Generator, depth: int) -> tuple[Integers, Floats]:
    """Lists that a ranker shows, some often and most of them seldom."""
    lists = np.stack([rng.permutation(ITEMS)[:depth] for _ in range(LISTS)])
    return lists, np.concatenate([[0.3], 0.7 * zipf(LISTS - 1)])


def shifted(chances: Floats, rng: np.random.Generator) -> Floats:
    """Other probabilities of the same lists."""
    mass = chances**0.5 * rng.exponential(size=len(chances))
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def new_ranking(lists: Integers, chances: Floats, rng: np.random.Generator) -> Integers:
    """A list that was never logged, of items that were logged at their positions."""
    depth = lists.shape[1]
    share = np.zeros((ITEMS, depth))
    for k in range(depth):
        np.add.at(share[:, k], lists[:, k], chances)
    logged = {tuple(one) for one in lists.tolist()}
    while True:
        one = rng.permutation(ITEMS)[:depth]
        if tuple(one.tolist()) not in logged and (share[one, np.arange(depth)] >= SEEN).all():
            return one


def independent(lists: Integers, clicks: NDArray[np.bool_], shown: Integers, mass: Floats) -> float:
    """1 − Π (1 − r) with the click rates r of items at positions: as if clicks were independent."""
    depth = lists.shape[1]
    seen, earned = np.zeros((2, ITEMS, depth))
    for k in range(depth):
        np.add.at(seen[:, k], lists[:, k], 1)
        np.add.at(earned[:, k], lists[:, k], clicks[:, k])
    rates = (earned / np.maximum(seen, 1))[shown, np.arange(depth)]
    return float(mass @ (1 - np.prod(1 - rates, axis=1)))


@study(
    "success",
    ["world", "candidate", "estimator"],
    LOGS,
    Column("rmse", lambda rows: float(np.sqrt(np.mean(errors(rows) ** 2))), ".4f"),
    Column("bias", lambda rows: float(errors(rows).mean()), "+.4f"),
)
def success(
    worlds: list[str] = WORLDS, replications: int = 100, records: int = 10_000, depth: int = 3
) -> Iterator[Task]:
    """How well "at least one click" is known."""
    for world, kind in itertools.product(worlds, KINDS):
        yield partial(estimates, world, kind, replications, records, depth)


def estimates(name: str, kind: str, replications: int, records: int, depth: int) -> list[Row]:
    """Every estimate of success beside the truth."""
    rng = np.random.default_rng([WORLDS.index(name), KINDS.index(kind), depth])
    world = make_world(name, rng, replications, depth)
    found: list[Row] = []
    logs, candidates, truth = [], [], np.zeros(replications)
    for x in range(replications):
        lists, chances = skewed(rng, depth)
        shown = lists[rng.choice(LISTS, records, p=chances)]
        clicks = world.sample(np.full(records, x), shown, rng)
        asked, mass = lists, shifted(chances, rng)
        if kind == "ranking":
            asked, mass = new_ranking(lists, chances, rng)[None, :], np.ones(1)
        truth[x] = mass @ world.first_clicks(np.full(len(asked), x), asked).sum(axis=1)
        value = independent(shown, clicks, asked, mass)
        found.append({"estimator": INDEPENDENT, "value": value, "truth": truth[x]})
        logs.append(_rows(x, shown, clicks=list(clicks.astype(np.int64))))
        candidates.append(_rows(x, asked, probability=mass))
    looks = world.examination if isinstance(world, simulate.PBM) else None
    pbm = fc.Weighted("pbm", examination="1/k" if looks is None else np.asarray(looks).tolist())
    for row in fc.evaluate(
        fc.read_log(pa.concat_tables(logs), segments="replication"),
        fc.Lists(pa.concat_tables(candidates)),
        metrics=f"success@{depth}",
        estimators=[*ESTIMATORS[:-1], pbm],
        by="replication",
        confidence=None,
    ):
        # A candidate of which the log shows nothing has no answer, and counts as no click.
        value = 0.0 if row["value"] is None else float(row["value"])
        own = {"estimator": row["estimator"], "value": value, "truth": truth[row["replication"]]}
        found.append(own)
    return [{"world": name, "candidate": kind} | row for row in found]


def _rows(x: int, lists: Integers, **columns: Any) -> pa.Table:
    context = np.full(len(lists), x)
    ids = list(item_ids(context[:, None], lists))
    return pa.table({"context": context, "replication": context, "items": ids} | columns)
