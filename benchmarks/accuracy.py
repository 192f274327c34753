"""How far estimators are from the truth, in worlds where it is known.

The protocol of the paper with the world's own value in place of the held-out clicks: what each day
showed is the candidate, all other days are the log, and the error is that of V(h) in one context.
RMSE over (context, day) pairs, relative to that of `ip` without a clip.

    python -m benchmarks.accuracy                 # what the docs show
    python -m benchmarks.accuracy --seeds 1       # the seed that things were tried on
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from foreclick import simulate
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_metrics
from foreclick.run.holdout import Folds, Protocol, fold_errors
from foreclick.simulate.simulation import (
    FALL,
    PERSISTENCE,
    POOL,
    POSITIONS,
    attractions,
    preset_dbn,
)
from foreclick.tallies.base import distinct

WORLDS = ("PBM", "DCTR", "ItemPosition", "Cascade", "DCM", "DBN", "ListSpecific")
PARTS = {"frequent": (50, 2_000_000, 1), "tail": (200, 800_000, 100)}
"""Queries, records, and the rank of the first query."""

METRICS = ("clicks@3", "dcg@10")
TUNED, REPORTED = (1,), (11, 12, 13)
PLAIN = ("list", "prefix", "ip", "item", "pbm", "rctr")
LADDERS = ("ladder", "ladder-ip")


def world(name: str, queries: int, seed: int) -> simulate.World:
    """One of the worlds, with the attractions of `yandex_like`."""
    attraction, rng = attractions(queries, seed)
    examination = 1 / np.arange(1, POSITIONS + 1) ** 0.8
    if name == "PBM":
        return simulate.PBM(attraction, examination)
    if name == "DCTR":
        return simulate.DCTR(attraction, POSITIONS)
    if name == "Cascade":
        return simulate.Cascade(attraction, POSITIONS)
    if name == "DCM":
        return simulate.DCM(attraction, np.linspace(0.7, 0.4, POSITIONS))
    if name == "DBN":
        return preset_dbn(attraction, rng)
    if name == "ItemPosition":
        odd = np.exp(0.4 * rng.standard_normal((*attraction.shape, POSITIONS)))
        return simulate.ItemPosition(np.minimum(attraction[:, :, None] * examination * odd, 1))
    return simulate.ListSpecific(queries, POOL, 0.6 * examination, seed)


def log_of(name: str, part: str, seed: int, shock: float, share: float) -> fc.Log:
    """A log with what each list was expected to earn beside what it did."""
    queries, records, first = PARTS[part]
    queries, records = math.ceil(queries * share), int(records * share)
    source = world(name, queries, seed)
    simulation = simulate.Simulation(
        source,
        simulate.Drifting(queries, POOL, POSITIONS, seed),
        records,
        frequencies=np.arange(first, first + queries) ** -FALL,
        shock_sd=shock,
        shock_persistence=PERSISTENCE if shock else 0.0,
    )
    log = simulation.sample(seed=seed)
    contexts = np.asarray(log["query"])
    items = log["items"].combine_chunks()
    lists = np.asarray(items.flatten()).reshape(len(contexts), POSITIONS)
    expected = source.clicks(contexts, lists - simulate.item_ids(contexts, np.array(0))[:, None])
    worth = pa.ListArray.from_arrays(items.offsets, expected.ravel())
    table = log.append_column("expected", worth)
    return fc.read_log(table, context="query", period="day", rewards={"expected": "expected"})


def rmse(folds: Folds) -> dict[tuple[str, str], float]:
    """By estimator and metric."""
    return {
        (e.target.model.name, e.target.metric.name): math.sqrt(e.squared.sum() / folds.weight.sum())
        for e in folds.errors
    }


def judged(log: fc.Log) -> dict[tuple[str, str], float]:
    """The RMSE of every estimator against the truth."""
    counted = fc.tally(log)
    curve = fc.examination(counted).curve
    pbm = fc.ClickModel("pbm p̂", cell="item", examination=curve)
    estimators = [*PLAIN, pbm, *LADDERS]
    metrics = parse_metrics(METRICS)
    days = sorted(distinct(counted.stored, "period").to_pylist())
    folds = {day: i for i, day in enumerate(days)}
    truth = Protocol(folds, truth="expected")
    return rmse(fold_errors(counted, parse_estimators(estimators), metrics, truth))


def cells(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row per world, part, seed, metric and estimator."""
    for name, part, seed in itertools.product(arguments.worlds, PARTS, arguments.seeds):
        start = time.perf_counter()
        found = judged(log_of(name, part, seed, arguments.shock, arguments.share))
        for (estimator, metric), error in found.items():
            yield {
                "world": name,
                "part": part,
                "seed": seed,
                "metric": metric,
                "estimator": estimator,
                "ratio": error / found["ip", metric],
            }
        ladder = found["ladder", "dcg@10"] / found["ip", "dcg@10"]
        took = time.perf_counter() - start
        print(f"{name} {part} {seed}: ladder {ladder:.2f} ({took:.0f} s)", flush=True)


def table(rows: list[dict[str, Any]], worlds: list[str]) -> str:
    """Mean, worst and the share of cells up to 1.05, by estimator, and the means by world."""
    holds = [w for w in worlds if w != "ListSpecific"]
    lines = [
        f"| | mean | worst | ≤ 1.05 | {' | '.join(worlds)} |",
        "|---" * (4 + len(worlds)) + "|",
    ]
    ratios = {
        name: {
            w: [r["ratio"] for r in rows if r["estimator"] == name and r["world"] == w]
            for w in worlds
        }
        for name in dict.fromkeys(r["estimator"] for r in rows)
    }

    def six(name: str) -> np.ndarray[Any, Any]:
        return np.array([x for w in holds for x in ratios[name][w]])

    for name in sorted(ratios, key=lambda name: six(name).mean()):
        mine, each = six(name), [f"{np.mean(ratios[name][w]):.2f}" for w in worlds]
        share = f"{np.mean(mine <= 1.05):.0%}"
        lines.append(
            f"| {name} | {mine.mean():.2f} | {mine.max():.2f} | {share} | {' | '.join(each)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(REPORTED))
    parser.add_argument("--shock", type=float, default=0.0, help="spread of day shocks")
    parser.add_argument("--share", type=float, default=1.0, help="of the queries and records")
    arguments = parser.parse_args()
    print(table(list(cells(arguments)), arguments.worlds))


if __name__ == "__main__":
    main()
