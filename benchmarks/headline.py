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

from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.study import Column, Row, evaluated, study, total
from benchmarks.worlds import always, clicked, make_world, policy_of, zipf
from foreclick import simulate

METRIC, POSITIONS, CONTEXTS, ITEMS, LISTS, DAYS, RECORDS = "dcg@5", 5, 12, 8, 60, 14, 20_000
THETA = np.array(fc.Metric(METRIC).theta)
WORLDS = ["PBM", "DBN", "Cascade", "DCM"]
SEGMENTS = 20


def scene(name: str, seed: int, lift: float) -> tuple[fc.Log, fc.Lists]:
    """A log of a fresh world, with a segment that means nothing, and a candidate with this lift.

    The candidate shows production's lists and the best of them as often as makes it worth so much
    more; with a lift of 0, of each context the best and the worst of the lists that were shown.
    """
    rng = np.random.default_rng([seed, WORLDS.index(name)])
    world = make_world(name, rng, CONTEXTS, ITEMS, positions=POSITIONS)
    every = np.tile(np.arange(ITEMS), (CONTEXTS, LISTS, 1))
    lists = rng.permuted(every, axis=2)[..., :POSITIONS]
    table = simulate.Simulation(world, always(lists, DAYS), RECORDS).sample(seed=seed)
    segment = np.random.default_rng([seed, 9]).integers(0, SEGMENTS, len(table))
    table = table.append_column("segment", pa.array(segment))
    log = fc.read_log(table, context="query", period="day", segments="segment")

    rows, shown = np.arange(CONTEXTS), zipf(LISTS)
    contexts, every_list = np.repeat(rows, LISTS), lists.reshape(-1, POSITIONS)
    worth = (world.clicks(contexts, every_list) @ THETA).reshape(CONTEXTS, LISTS)
    own, best, worst = worth @ shown, worth.argmax(axis=1), worth.argmin(axis=1)
    high, low = worth[rows, best], worth[rows, worst]
    if not lift:
        share = (own - low) / (high - low)
        both = np.concatenate([lists[rows, best], lists[rows, worst]])
        return log, policy_of(both, np.concatenate([share, 1 - share]), np.tile(rows, 2))
    share = lift * own.mean() / (high - own).mean()
    mass = np.tile((1 - share) * shown, (CONTEXTS, 1))
    mass[rows, best] += share
    return log, policy_of(every_list, mass.ravel(), contexts)


def said(word: str) -> Column:
    """How often a verdict was that."""
    return Column(word, lambda rows: sum(row["verdict"] == word for row in rows))


LOGS: dict[str, Any] = {"logs": 60, "seed": 1}


@study(
    "headline null",
    ["lift", "world", "asked"],
    "logs",
    *map(said, ("better", "worse", "cannot tell")),
    worlds=WORLDS,
    **LOGS,
)
def null(world: str, seed: int, lift: float = 0.0) -> list[Row]:
    """Verdicts on candidates worth what production is, or so much more."""
    log, policy = scene(world, seed, lift)
    key = {"lift": lift, "world": world}
    ways = {"default": None, "ip": "ip"}
    answers = {w: fc.evaluate(log, policy, metrics=METRIC, estimators=by) for w, by in ways.items()}
    return [key | {"asked": w, "verdict": a["verdict"][0]} for w, a in answers.items()]


@study(
    "headline segments",
    ["world"],
    "logs",
    total("told", "logs with a verdict"),
    worlds=WORLDS,
    **LOGS,
)
def segments(world: str, seed: int) -> list[Row]:
    """Verdicts in segments that mean nothing, on candidates worth what production is."""
    answer = fc.evaluate(*scene(world, seed, 0.0), metrics=METRIC, by="segment")
    mine = {row["verdict"] for row in answer if row["estimator"] == "ladder"}
    return [{"world": world, "told": bool(mine & {"better", "worse"})}]


# --- items that were never shown ------------------------------------------------------------------

KINDS = {
    "duds": (0.005, [0, 1, 7, 8, 9], 0.6, 30, 30_000),
    "star": (0.95, [7, 3, 4, 5, 6], 0.4, 30, 30_000),
    "thin": (0.3, [0, 7, 1, 8, 2], 0.6, 200, 2_000),
}
"""Attraction of new items, what is shown, the highest of known items, contexts and records."""


@study(
    "headline unseen",
    ["kind", "estimator"],
    "logs",
    total("wrong", "false verdicts"),
    kinds=list(KINDS),
    **LOGS,
)
def unseen(kind: str, seed: int) -> list[Row]:
    """Verdicts on candidates with items that were never shown, in a PBM.

    The log shows the first seven items, sorted by attraction and chance.
    """
    attraction, new, most, contexts, records = KINDS[kind]
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    known = np.sort(rng.uniform(0.2, most, (contexts, 7)), axis=1)[:, ::-1]
    rates = np.concatenate([known, np.full((contexts, 5), attraction)], axis=1)
    x, day = rng.integers(0, contexts, records), rng.integers(0, DAYS, records)
    score = np.log(rates[x, :7]) + 0.4 * rng.gumbel(size=(records, 7))
    lists = np.argsort(-score, axis=1)[:, :POSITIONS]
    examined = 1 / np.arange(1, POSITIONS + 1)
    chance = rates[x[:, None], lists] * examined
    log = fc.read_log(clicked(x, lists, chance, rng, day=day), period="day")
    truth = float((rates[:, new] * examined @ THETA).mean() - (chance @ THETA).mean())
    policy = fc.Ranking({"context": list(range(contexts)), "items": [new] * contexts})
    contrary = "worse" if truth > 0 else "better"
    return [
        {"kind": kind, "wrong": row["verdict"] == contrary} | row
        for row in evaluated(log, policy, {METRIC: truth}, "change", estimators="all")
    ]


# --- other orders of the same items ---------------------------------------------------------------

SHUFFLED = {
    f"{kind}, {contexts} contexts, {' and '.join(known)}": (kind, contexts, known)
    for kind, contexts, known in (
        ("flat", 4, ["day"]),
        ("flat", 1, ["day", "user"]),
        ("flat", 20, ["user"]),
        ("PBM", 4, ["day"]),
        ("PBM", 20, ["user"]),
        ("PBM", 40, ["day", "user"]),
    )
}
"""How positions are examined, the number of contexts, and what a record is known by."""


@study("headline order", ["log", "estimator"], "logs, held", kinds=list(SHUFFLED), **LOGS)
def order(kind: str, seed: int) -> list[Row]:
    """Three items in random order, 4,000 records on 10 days, of 800 users; another order."""
    examined, contexts, known = SHUFFLED[kind]
    looks = np.ones(3) if examined == "flat" else np.array([1.0, 0.6, 0.4])
    rng = np.random.default_rng([seed, contexts, len(known), examined == "flat"])
    rates, x = rng.uniform(0.05, 0.5, (contexts, 3)), rng.integers(0, contexts, 4000)
    order = rng.permuted(np.tile(np.arange(3), (4000, 1)), axis=1)
    chance = rates[x[:, None], order] * looks
    table = clicked(x, order, chance, rng)
    for name, count in (("day", 10), ("user", 800)):
        table = table.append_column(name, pa.array(rng.integers(0, count, 4000)))
    roles: dict[str, dict[str, Any]] = {"day": {"period": "day"}, "user": {"unit": "user"}}
    read = fc.read_log(table, **{k: v for name in known for k, v in roles[name].items()})
    new = rng.permuted(np.tile(np.arange(3), (contexts, 1)), axis=1)
    worth = np.take_along_axis(rates, new, 1) @ looks
    truths = {"clicks@3": worth[x].mean() / chance.sum(axis=1).mean() - 1}
    policy = fc.Ranking({"context": list(range(contexts)), "items": new.tolist()})
    found = evaluated(read, policy, truths, "lift", estimators=["ladder", "ip"])
    return [{"log": kind} | row for row in found]
