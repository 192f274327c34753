"""How often is a verdict wrong, and an interval?

python -m benchmarks verdicts --parts equal --worlds PBM --logs 200     # of candidates alone
python -m benchmarks verdicts compare --worlds PBM --logs 200           # of pairs
python -m benchmarks pairs --worlds thin --logs 50                      # where cells are small

`pairs` has position-based worlds in which a cell has few records or few days:

| world | contexts | lists each | records | days | shocks |
|---|---|---|---|---|---|
| 6 days | 20 | 20 | 5,000 | 6 | 20 % |
| thin | 400 | 60 | 10,000 | 27 | none |

One candidate shows the sixth, the other the third list of each context 70 % of the time, and else
others that are logged. In the other worlds, candidates differ by an adjacent swap in a fifth of the
contexts. An interval holds if the estimator's own mean over all logs is in it, so that a click
model that is wrong here is not blamed for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import foreclick as fc
from benchmarks.candidates import DAYS, drifting, of_known_value, steady, swapping, twins
from benchmarks.replications import (
    BY,
    HOLDS,
    METRIC,
    in_each,
    make_world,
    mostly,
    packed,
    stationary,
)
from benchmarks.study import LOGS, Column, Row, Rows, Task, inside, mean, study
from foreclick import inference
from foreclick.simulate import Simulation

SHOCK = 0.1  # the spread of the shock of a context and day
PACK = 400  # logs that are tallied together

# --- verdicts of evaluate -------------------------------------------------------------------------


def share(verdict: str) -> Column:
    """The share of logs with this verdict."""
    return Column(verdict, lambda r: float(np.mean([x["verdict"] == verdict for x in r])), ".1%")


@study(
    "verdicts",
    ["part", "world", "ranker", "shocks", "candidate", "estimator", "model is right"],
    LOGS,
    mean("lift", form="+.1%"),
    mean("value", "estimate", "+.1%"),
    share("better"),
    share("worse"),
    Column("held", lambda r: float(inside(r, "change", "low", "high").mean()), ".1%"),
)
def verdicts(
    parts: list[str] = ["equal", "unequal"],
    worlds: list[str] = list(HOLDS),
    logs: int = 2_000,
    seed: int = 1,
) -> Iterator[Task]:
    """Verdicts on candidates that are worth what production is, and on the best and the worst."""
    for world in worlds:
        for part in parts:
            for ranker in ("steady", "drifting") if part == "equal" else ("steady",):
                for shocks in (0.0, SHOCK) if part == "equal" else (SHOCK,):
                    yield partial(judged, part, world, ranker, shocks, seed, logs)


def candidates_of(
    part: str, world: str, ranker: str, seed: int
) -> tuple[Simulation, dict[str, fc.Lists]]:
    """A ranker, and its candidates.

    Equal ones are twins, which rank otherwise; where no two items are alike, or the ranker drifts,
    a mixture of the best and the worst.
    """
    simulation = steady(world, seed) if ranker == "steady" else drifting(world, seed)
    made = of_known_value(simulation)
    if part == "unequal":
        return simulation, {kind: made[kind] for kind in ("best", "worst")}
    if ranker == "steady" and world != "ListSpecific":
        return simulation, {"twins": twins(simulation)}
    return simulation, {"mixture": made["mixture"]}


def judged(part: str, world: str, ranker: str, shocks: float, seed: int, logs: int) -> list[Row]:
    """The verdicts of `evaluate` on every candidate, from so many logs."""
    made, candidates = candidates_of(part, world, ranker, seed)
    simulation = replace(made, shock_sd=shocks)
    base = simulation.value(simulation.logging(), METRIC)
    key = {"part": part, "world": world, "ranker": ranker, "shocks": shocks}
    found: list[Row] = []
    for first in range(0, logs, PACK):
        numbers = range(first, min(first + PACK, logs))
        log = fc.tally(packed(simulation, numbers, "period"))
        for kind, policy in candidates.items():
            change = simulation.value(policy, METRIC) - base
            own = key | {"candidate": kind, "change": change, "lift": change / base}
            each = in_each(policy, numbers)
            answer = fc.evaluate(log, each, metrics=METRIC, estimators=BY, by="replication")
            found += [own | verdict(row, world) for row in answer]
    return found


def verdict(row: Any, world: str) -> Row:
    """What one log alone says: the verdict of the table allows for all logs as segments at once."""
    low, high = row["change_low"], row["change_high"]
    word = "cannot tell"
    if low is not None and (low > 0 or high < 0):
        word = "better" if low > 0 else "worse"
    return {
        "estimator": row["estimator"],
        "model is right": row["estimator"] in HOLDS[world],
        "value": np.nan if low is None else row["lift"],
        "low": low,
        "high": high,
        "verdict": word,
    }


# --- compare by the ladder, or by ip --------------------------------------------------------------


def by_pair(rows: Rows) -> dict[str, Rows]:
    """The rows of each pair of candidates."""
    found: dict[str, Rows] = defaultdict(Rows)
    for row in rows:
        found[row["pair"]].append(row)
    return found


def wrong(rows: Rows) -> Any:
    """Whether a verdict names the wrong one of a pair the better, or either of two equal ones."""
    truth = rows.of("truth")
    return (rows.signs != 0) & ((np.abs(truth) < 1e-9) | (rows.signs == -np.sign(truth)))


def told(rows: Rows) -> float:
    """The share of verdicts that are right, of pairs that differ."""
    differ = Rows(row for row in rows if abs(row["truth"]) >= 1e-9)
    return float((differ.signs == np.sign(differ.of("truth"))).mean())


@study(
    "verdicts compare",
    ["world", "ranker", "estimator"],
    Column("held", lambda rows: float(inside(rows).mean()), ".1%"),
    Column(
        "worst pair", lambda r: min(float(inside(p).mean()) for p in by_pair(r).values()), ".1%"
    ),
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
            abs(p.of("value").mean() - p[0]["truth"]) / p[0]["production"]
            for p in by_pair(rows).values()
        ),
        ".1%",
    ),
)
def compared(worlds: list[str] = list(HOLDS), logs: int = 200, seed: int = 1) -> Iterator[Task]:
    """`compare` of candidates of known value and production, by what may be its default."""
    for world in worlds:
        for ranker in ("steady", "drifting"):
            for number in range(logs):
                yield partial(of_pairs, world, ranker, seed, number)


def of_pairs(world: str, ranker: str, seed: int, number: int) -> list[Row]:
    """All pairs of one log."""
    made = steady(world, seed) if ranker == "steady" else drifting(world, seed)
    simulation = replace(made, shock_sd=SHOCK)
    candidates: dict[str, fc.Policy] = dict(of_known_value(simulation))
    truth = {kind: simulation.value(p, METRIC) for kind, p in candidates.items()}
    truth["production"] = simulation.value(simulation.logging(), METRIC)
    table = simulation.sample(seed=1000 + number)
    log = fc.tally(fc.read_log(table, context="query", period="day"))
    key = {"world": world, "ranker": ranker, "log": number, "production": truth["production"]}
    return [
        key
        | {
            "estimator": by or "default",
            "pair": f"{row['candidate']}, {row['against']}",
            "truth": truth[row["candidate"]] - truth[row["against"]],
            "value": row["change"],
            "low": row["low"],
            "high": row["high"],
            "verdict": row["verdict"],
        }
        for by in (None, "ladder", "ip")
        for row in fc.compare(log, candidates, metrics=METRIC, estimators=by)
    ]


# --- pairs where cells are small ------------------------------------------------------------------

SMALL = {"6 days": (20, 20, 5_000, 6, 0.2), "thin": (400, 60, 10_000, 27, 0.0)}
SWAPPED = {"PBM, 3 positions": ("PBM", 3), "PBM, 10 positions": ("PBM", 10)}


def own_mean(rows: Rows) -> float:
    """How often intervals hold the mean of all logs."""
    mean = rows.of("value").mean()
    return float(((rows.of("low") <= mean) & (mean <= rows.of("high"))).mean())


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
    worlds: list[str] = [*SMALL, *SWAPPED],
    estimators: list[str] = ["list", "prefix", "ip", "item", "ladder"],
    logs: int = 150,
    seed: int = 1,
) -> Iterator[Task]:
    """How often intervals of pairs hold where cells are small."""
    for world in worlds:
        for number in range(logs):
            yield partial(one_pair, world, estimators, seed, number)


def pair_of(name: str, seed: int) -> tuple[Simulation, dict[str, fc.Lists], int, str]:
    """A world, two candidates, the days and the metric."""
    if name in SWAPPED:
        world, positions = SWAPPED[name]
        simulation, candidates = swapping(world, positions, seed)
        return replace(simulation, shock_sd=SHOCK), candidates, DAYS, f"dcg@{positions}"
    contexts, lists, records, days, shocks = SMALL[name]
    rng = np.random.default_rng([seed, contexts])
    made = make_world("PBM", rng, contexts=contexts, most=0.5)
    ranker = replace(stationary(made, lists, rng), days=days)
    simulation = Simulation(made, ranker, records, shock_sd=shocks)
    candidates = {kind: mostly(simulation, n, rng) for kind, n in (("one", 5), ("other", 2))}
    return simulation, candidates, days, METRIC


def one_pair(name: str, estimators: list[str], seed: int, number: int) -> list[Row]:
    """The pair in one log, by each estimator."""
    simulation, candidates, days, metric = pair_of(name, seed)
    table = simulation.sample(seed=1000 + number)
    log = fc.tally(fc.read_log(table, context="query", period="day"))
    found = []
    for by in estimators:
        asked: dict[str, Any] = {"metrics": metric, "estimators": by, "missing": "production"}
        rows = fc.compare(log, candidates, **asked)
        (row,) = [row for row in rows if row["against"] == list(candidates)[1]]
        ends = {"value": row["change"], "se": row["se"], "low": row["low"], "high": row["high"]}
        found.append({"world": name, "estimator": by, "days": days} | ends)
    return found
