"""How often the intervals of the ladder and of `auto` hold the truth, V(h), in simulated worlds.

Many logs of one world and one history of its ranker, each drawn anew; the candidate is what the
last day shows. Clicks differ by day (shocks of 5 %), and intervals are by period.

    python -m benchmarks.ladder --logs 100
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from benchmarks.accuracy import WORLDS, world

import foreclick as fc
from foreclick import simulate
from foreclick.simulate.presets import POOL, POSITIONS

QUERIES, RECORDS, DAYS = 30, 40_000, 14
METRICS = ("clicks@3", "dcg@10")


def simulation(name: str, seed: int) -> simulate.Simulation:
    """A world with a ranker that drifts for two weeks."""
    drift = simulate.Drift(days=DAYS)
    production = simulate.Drifting(QUERIES, POOL, POSITIONS, drift, seed)
    return simulate.Simulation(world(name, QUERIES, seed), production, RECORDS, shock_sd=0.05)


def covered(name: str, seed: int, logs: int, estimators: list[str]) -> None:
    """Print, for every estimator and metric, how often the truth lies in the interval."""
    source = simulation(name, seed)
    candidate = source.logging(DAYS)
    truth = {metric: source.value(candidate, metric) for metric in METRICS}
    hits: dict[tuple[str, str], list[bool]] = {}
    errors: dict[tuple[str, str], list[float]] = {}
    widths: dict[tuple[str, str], list[float]] = {}
    start = time.perf_counter()
    for number in range(logs):
        table = source.sample(seed=1000 * seed + number)
        log = fc.read_log(table, context="query", period="day")
        found = fc.evaluate(log, candidate, metrics=list(METRICS), estimators=estimators)
        for row in found.to_dicts():
            key = str(row["estimator"]), str(row["metric"])
            low, high, value = (float(row[c] or math.nan) for c in ("low", "high", "value"))
            hits.setdefault(key, []).append(low <= truth[key[1]] <= high)
            errors.setdefault(key, []).append(value - truth[key[1]])
            widths.setdefault(key, []).append(float(row["se"] or math.nan))
    for (estimator, metric), held in hits.items():
        key = estimator, metric
        off = np.array(errors[key])
        print(
            f"| {name} | {estimator} | {metric} | {np.mean(held):.1%} | {off.mean():+.4f} | "
            f"{off.std():.4f} | {np.mean(widths[key]):.4f} |",
            flush=True,
        )
    print(f"<!-- {name}: {logs} logs, {time.perf_counter() - start:.0f} s -->", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--worlds", nargs="+", default=["PBM", "DBN", "ListSpecific"], choices=WORLDS
    )
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--estimators", nargs="+", default=["ip", "ladder", "auto"])
    parser.add_argument("--seed", type=int, default=21)
    arguments = parser.parse_args()
    print("| world | estimator | metric | holds V(h) | bias | sd | mean se |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.worlds:
        covered(name, arguments.seed, arguments.logs, arguments.estimators)


if __name__ == "__main__":
    main()
