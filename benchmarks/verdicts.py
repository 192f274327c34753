"""How often is a verdict of `compare` wrong, and an interval?

python -m benchmarks verdicts --worlds PBM --logs 200 --estimators ladder ip item
python -m benchmarks pairs --worlds thin --logs 50

`verdicts`: production, a candidate that is worth the same, the best and the worst of the rankings
that production shows; all pairs of them. Days differ by shocks of 10 %.

`pairs` has position-based worlds in which a cell has few records or few days:

| world | contexts | lists each | records | days | shocks |
|---|---|---|---|---|---|
| 6 days | 20 | 20 | 5,000 | 6 | 20 % |
| thin | 400 | 60 | 10,000 | 27 | none |

One candidate shows the sixth, the other the third list of each context 70 % of the time, and else
others that are logged. An interval holds if the estimator's own mean over all logs is in it, so
that a click model that is wrong here is not blamed for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import foreclick as fc
from benchmarks.candidates import drifting, of_known_value, steady
from benchmarks.replications import HOLDS, METRIC, mostly, of_many, sampled
from benchmarks.study import (
    LOGS,
    Column,
    Row,
    Rows,
    Task,
    grid,
    grouped,
    holds,
    inside,
    study,
    taken,
)
from foreclick import inference
from foreclick.simulate import Simulation

SHOCK = 0.1  # the spread of the shock of a context and day

# --- candidates of known value -------------------------------------------------------------------


def by_pair(rows: Rows) -> Collection[Rows]:
    """The rows of each pair of candidates."""
    return grouped(rows, ["pair"]).values()


def wrong(rows: Rows) -> Any:
    """Whether a verdict names the wrong one of a pair the better, or either of two equal ones."""
    truth = rows.of("truth")
    return (rows.signs != 0) & ((np.abs(truth) < 1e-9) | (rows.signs == -np.sign(truth)))


def told(rows: Rows) -> float:
    """The share of verdicts that are right, of pairs that differ."""
    differ = Rows(row for row in rows if abs(row["truth"]) >= 1e-9)
    return float((differ.signs == np.sign(differ.of("truth"))).mean())


@study(
    "verdicts",
    ["world", "ranker", "estimator"],
    holds("held"),
    Column("worst pair", lambda rows: min(inside(p).mean() for p in by_pair(rows)), ".1%"),
    Column("wrong", lambda rows: float(wrong(rows).mean()), ".1%"),
    Column(
        "in any of a log",
        lambda rows: len(set(rows.of("log")[wrong(rows)])) / len(set(rows.of("log"))),
        ".1%",
    ),
    Column("right", told, ".1%"),
    Column(
        "width", lambda r: float((r.of("high") - r.of("low")).mean()) / r[0]["production"], ".1%"
    ),
    Column(
        "bias",
        lambda rows: max(
            abs(p.of("value").mean() - p[0]["truth"]) / p[0]["production"] for p in by_pair(rows)
        ),
        ".1%",
    ),
)
def verdicts(
    worlds: list[str] = list(HOLDS),
    estimators: list[str] = ["default", "ladder", "ip"],
    logs: int = 200,
    seed: int = 1,
) -> Iterator[Task]:
    """`compare` of candidates of known value and production."""
    return grid(of_pairs, worlds, ("steady", "drifting"), range(logs), [estimators], [seed])


def of_pairs(world: str, ranker: str, number: int, estimators: list[str], seed: int) -> list[Row]:
    """All pairs of one log."""
    made = steady(world, seed) if ranker == "steady" else drifting(world, seed)
    simulation = replace(made, shock_sd=SHOCK)
    candidates: dict[str, fc.Policy] = dict(of_known_value(simulation))
    truth = {kind: simulation.value(p, METRIC) for kind, p in candidates.items()}
    truth["production"] = simulation.value(simulation.logging(), METRIC)
    log = fc.tally(sampled(simulation, 1000 + number))
    key = {"world": world, "ranker": ranker, "log": number, "production": truth["production"]}
    asked = {by: {} if by == "default" else {"estimators": by} for by in estimators}
    return [
        key
        | {
            "estimator": by,
            "pair": f"{row['candidate']}, {row['against']}",
            "truth": truth[row["candidate"]] - truth[row["against"]],
        }
        | taken(row, "low", "high", "verdict", value="change")
        for by in estimators
        for row in fc.compare(log, candidates, metrics=METRIC, **asked[by])
    ]


# --- pairs where cells are small ------------------------------------------------------------------

SMALL = {"6 days": ((20, 20, 5_000), 6, 0.2), "thin": ((400, 60, 10_000), 27, 0.0)}


def own_mean(rows: Rows) -> float:
    """How often intervals hold the mean of all logs."""
    limit = rows.of("value").mean()
    return float(inside(Rows(row | {"truth": limit} for row in rows)).mean())


def by_chance(rows: Rows) -> float:
    """The same of intervals from the standard error alone."""
    value, reach = rows.of("value"), inference.quantile(0.95, rows[0]["days"] - 1)
    return float(np.mean(np.abs(value - value.mean()) <= reach * rows.of("se")))


@study(
    "pairs",
    ["world", "estimator"],
    LOGS,
    Column("held", own_mean, ".1%"),
    Column("by chance alone", by_chance, ".1%"),
    Column("se / sd", lambda r: float(r.of("se").mean() / r.of("value").std()), ".2f"),
)
def pairs(
    worlds: list[str] = list(SMALL),
    estimators: list[str] = ["list", "prefix", "ip", "item", "ladder"],
    logs: int = 150,
    seed: int = 1,
) -> Iterator[Task]:
    """How often intervals of pairs hold where cells are small."""
    return grid(one_pair, worlds, range(logs), [estimators], [seed])


def pair_of(name: str, seed: int) -> tuple[Simulation, dict[str, fc.Lists]]:
    """A world and two candidates."""
    size, days, shocks = SMALL[name]
    simulation, rng = of_many("PBM", [seed, size[0]], size, most=0.5, days=days, shock_sd=shocks)
    candidates = {kind: mostly(simulation, n, rng) for kind, n in (("one", 5), ("other", 2))}
    return simulation, candidates


def one_pair(name: str, number: int, estimators: list[str], seed: int) -> list[Row]:
    """The pair in one log, by each estimator."""
    simulation, candidates = pair_of(name, seed)
    log = fc.tally(sampled(simulation, 1000 + number))
    found = []
    for by in estimators:
        asked: dict[str, Any] = {"metrics": METRIC, "estimators": by, "missing": "production"}
        rows = fc.compare(log, candidates, **asked)
        (row,) = [row for row in rows if row["against"] == "other"]
        key = {"world": name, "estimator": by, "days": SMALL[name][1]}
        found.append(key | taken(row, "se", "low", "high", value="change"))
    return found
