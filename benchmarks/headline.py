"""What the default answer says of candidates whose worth is known.

| part | candidate | asked |
|---|---|---|
| null | worth exactly production's | how often it is called better or worse; by `ip` alone, too |
| null --lift .05 | worth 5 % more | the same |
| segments | the same as in null, in 20 segments without effect | how often any is called so |
| unseen | new items: duds, a star, few records a context | false verdicts, by what is new |
| order | the same three items in another order | how often intervals of clicks@3 hold the truth |

python -m benchmarks headline null --worlds PBM --logs 20 --seed 1
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.replications import Floats, Integers, always, clicked, make_world, policy_of, zipf
from benchmarks.shop import beside
from benchmarks.study import HELD, LOGS, Column, Row, Task, grid, study, total
from foreclick import simulate

METRIC, POSITIONS, CONTEXTS, ITEMS, LISTS, DAYS, RECORDS = "dcg@5", 5, 12, 8, 60, 14, 20_000
WORLDS = ["PBM", "DBN", "Cascade", "DCM"]
SEGMENTS = 20


class Scene(NamedTuple):
    """A world and its ranker; lists that it shows, with their worth and how often they are shown.

    Attributes:
        lists: Shape (CONTEXTS, LISTS, POSITIONS).
        worth: Shape (CONTEXTS, LISTS).
        shown: Shape (LISTS,).
    """

    simulation: simulate.Simulation
    lists: Integers
    worth: Floats
    shown: Floats


def scene(name: str, seed: int) -> Scene:
    """A fresh world."""
    rng = np.random.default_rng([seed, WORLDS.index(name)])
    world = make_world(name, rng, CONTEXTS, ITEMS, positions=POSITIONS)
    every = np.tile(np.arange(ITEMS), (CONTEXTS, LISTS, 1))
    lists = rng.permuted(every, axis=2)[..., :POSITIONS]
    ranker, theta = always(lists, DAYS), np.array(fc.Metric(METRIC).theta)
    worth = (world.clicks(ranker.contexts, ranker.lists) @ theta).reshape(CONTEXTS, LISTS)
    return Scene(simulate.Simulation(world, ranker, RECORDS), lists, worth, zipf(LISTS))


def candidate(made: Scene, lift: float) -> fc.Lists:
    """Production's lists with a better or a worse one, as often as makes it worth so much more.

    With a lift of 0: of each context the best and the worst of the lists that were shown.
    """
    rows = np.arange(CONTEXTS)
    own = made.worth @ made.shown
    best, worst = made.worth.argmax(axis=1), made.worth.argmin(axis=1)
    high, low = made.worth[rows, best], made.worth[rows, worst]
    if not lift:
        share = (own - low) / (high - low)
        lists = np.concatenate([made.lists[rows, best], made.lists[rows, worst]])
        return policy_of(lists, np.concatenate([share, 1 - share]), np.tile(rows, 2))
    share = lift * own.mean() / (high - own).mean()
    mass = np.tile((1 - share) * made.shown, (CONTEXTS, 1))
    mass[rows, best] += share
    return policy_of(made.lists.reshape(-1, POSITIONS), mass.ravel(), np.repeat(rows, LISTS))


def logged(made: Scene, seed: int) -> fc.Log:
    """A log of it, with a segment that means nothing."""
    table = made.simulation.sample(seed=seed)
    segment = np.random.default_rng([seed, 9]).integers(0, SEGMENTS, len(table))
    table = table.append_column("segment", pa.array(segment))
    return fc.read_log(table, context="query", period="day", segments="segment")


def said(word: str) -> Column:
    """How often a verdict was that."""
    return Column(word, lambda rows: sum(row["verdict"] == word for row in rows))


SAID = (LOGS, said("better"), said("worse"), said("cannot tell"))


@study("headline null", ["lift", "world", "asked"], *SAID)
def null(
    worlds: list[str] = WORLDS, logs: int = 60, seed: int = 1, lift: float = 0.0
) -> Iterator[Task]:
    """Verdicts on candidates worth what production is, or so much more."""
    return grid(verdicts, worlds, range(seed, seed + logs), [lift])


def verdicts(name: str, seed: int, lift: float) -> list[Row]:
    """The default answer's, and that of `ip` alone."""
    made = scene(name, seed)
    log, policy = logged(made, seed), candidate(made, lift)
    ways: dict[str, Any] = {"default": {}, "ip": {"estimators": "ip"}}
    answers = {way: fc.evaluate(log, policy, metrics=METRIC, **by) for way, by in ways.items()}
    key = {"lift": lift, "world": name}
    return [key | {"asked": w, "verdict": a["verdict"][0]} for w, a in answers.items()]


@study("headline segments", ["world"], LOGS, total("told", "logs with a verdict"))
def segments(worlds: list[str] = WORLDS, logs: int = 60, seed: int = 1) -> Iterator[Task]:
    """Verdicts in segments that mean nothing, on candidates worth what production is."""
    return grid(in_segments, worlds, range(seed, seed + logs))


def in_segments(name: str, seed: int) -> list[Row]:
    """Whether any of the segments is called better or worse."""
    made = scene(name, seed)
    answer = fc.evaluate(logged(made, seed), candidate(made, 0.0), metrics=METRIC, by="segment")
    mine = {row["verdict"] for row in answer if row["estimator"] == "ladder"}
    return [{"world": name, "told": bool(mine & {"better", "worse"})}]


# --- items that were never shown ------------------------------------------------------------------

KINDS = {"duds": (0.005, 30_000), "star": (0.95, 30_000), "thin": (0.3, 2_000)}
NEW = {"duds": [0, 1, 7, 8, 9], "star": [7, 3, 4, 5, 6], "thin": [0, 7, 1, 8, 2]}


@study("headline unseen", ["kind", "estimator"], LOGS, total("wrong", "false verdicts"))
def unseen(logs: int = 60, seed: int = 1) -> Iterator[Task]:
    """Verdicts on candidates with items that were never shown, in a PBM."""
    return grid(with_new, KINDS, range(seed, seed + logs))


def with_new(kind: str, seed: int) -> list[Row]:
    """Whether verdicts are contrary to the truth, by estimator."""
    attraction, records = KINDS[kind]
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    contexts = 200 if kind == "thin" else 30
    most = 0.4 if kind == "star" else 0.6
    known = np.sort(rng.uniform(0.2, most, (contexts, 7)), axis=1)[:, ::-1]
    rates = np.concatenate([known, np.full((contexts, 5), attraction)], axis=1)
    log, own = _ranked(rates, records, rng)
    theta, examined = np.array(fc.Metric(METRIC).theta), 1 / np.arange(1, 6)
    better = float((rates[:, NEW[kind]] * examined @ theta).mean()) > own
    policy = fc.Ranking({"context": list(range(contexts)), "items": [NEW[kind]] * contexts})
    contrary = "worse" if better else "better"
    return [
        {"kind": kind, "estimator": row["estimator"], "wrong": row["verdict"] == contrary}
        for row in fc.evaluate(log, policy, metrics=METRIC, estimators="all")
    ]


def _ranked(rates: Floats, records: int, rng: np.random.Generator) -> tuple[fc.Log, float]:
    """A log of the first seven items, sorted by attraction and chance, and its true worth."""
    contexts = len(rates)
    x, day = rng.integers(0, contexts, records), rng.integers(0, DAYS, records)
    score = np.log(rates[x, :7]) + 0.4 * rng.gumbel(size=(records, 7))
    lists = np.argsort(-score, axis=1)[:, :5]
    chance = rates[x[:, None], lists] / np.arange(1, 6)
    rows = clicked(x, lists, chance, rng) | {"day": day}
    worth = float((chance @ np.array(fc.Metric(METRIC).theta)).mean())
    return fc.read_log(pa.table(rows), period="day"), worth


# --- other orders of the same items ---------------------------------------------------------------

SHUFFLED = (
    ("flat", 4, ("day",)),
    ("flat", 1, ("day", "user")),
    ("flat", 20, ("user",)),
    ("PBM", 4, ("day",)),
    ("PBM", 20, ("user",)),
    ("PBM", 40, ("day", "user")),
)


@study("headline order", ["log", "estimator"], LOGS, HELD)
def order(logs: int = 60, seed: int = 1) -> Iterator[Task]:
    """Three items in random order, 4,000 records on 10 days, of 800 users; another order."""
    return grid(shuffled, SHUFFLED, range(seed, seed + logs))


def shuffled(log: tuple[str, int, tuple[str, ...]], seed: int) -> list[Row]:
    """Lifts of clicks@3 by the ladder and `ip`, beside the true one."""
    kind, contexts, varies = log
    looks = np.ones(3) if kind == "flat" else np.array([1.0, 0.6, 0.4])
    rng = np.random.default_rng([seed, contexts, len(varies), kind == "flat"])
    rates, x = rng.uniform(0.05, 0.5, (contexts, 3)), rng.integers(0, contexts, 4000)
    order = rng.permuted(np.tile(np.arange(3), (4000, 1)), axis=1)
    chance = rates[x[:, None], order] * looks
    rows = clicked(x, order, chance, rng)
    rows |= {"day": rng.integers(0, 10, 4000), "user": rng.integers(0, 800, 4000)}
    read = fc.read_log(
        pa.table(rows),
        period="day" if "day" in varies else None,
        unit="user" if "user" in varies else None,
    )
    new = rng.permuted(np.tile(np.arange(3), (contexts, 1)), axis=1)
    worth = np.take_along_axis(rates, new, 1) @ looks
    truth = worth[x].mean() / chance.sum(axis=1).mean() - 1
    policy = fc.Ranking({"context": list(range(contexts)), "items": new.tolist()})
    key = {"log": f"{kind}, {contexts} contexts, {' and '.join(varies)}"}
    found = fc.evaluate(read, policy, metrics="clicks@3", estimators=["ladder", "ip"])
    return [key | {"estimator": row["estimator"]} | beside(row, truth) for row in found]
