"""How often do intervals of pairs hold, where cells are small? `make pairs`.

Position-based worlds in which a cell has few records or few days:

| world | contexts | lists each | records | days | shocks |
|---|---|---|---|---|---|
| 6 days | 20 | 20 | 5,000 | 6 | 20 % |
| thin | 400 | 60 | 10,000 | 27 | none |

One candidate shows the sixth, the other the third list of each context 70 % of the time, and else
others that are logged. An interval holds if the estimator's own mean over all logs is in it, so
that a click model that is wrong here (`item`) is not blamed for it.
Only public functions are used, so that other versions can be asked too.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import foreclick as fc
from benchmarks.replications import METRIC, make_world, mostly, stationary
from foreclick import inference
from foreclick.errors import ForeclickWarning
from foreclick.simulate import Simulation

ESTIMATORS = ("list", "prefix", "ip", "item")
WORLDS = {"6 days": (20, 20, 5_000, 6, 0.2), "thin": (400, 60, 10_000, 27, 0.0)}


def simulation_of(name: str, seed: int) -> tuple[Simulation, dict[str, fc.Lists]]:
    """One of the worlds, and two candidates."""
    contexts, lists, records, days, shocks = WORLDS[name]
    rng = np.random.default_rng([seed, contexts])
    world = make_world("PBM", rng, contexts=contexts, most=0.5)
    ranker = replace(stationary(world, lists, rng), days=days)
    simulation = Simulation(world, ranker, records, shock_sd=shocks)
    return simulation, {
        kind: mostly(simulation, number, rng) for kind, number in (("one", 5), ("other", 2))
    }


def measured(name: str, seed: int, logs: int, estimators: list[str]) -> Iterator[str]:
    """A row for each estimator: how often intervals of the pair hold, and se / sd."""
    simulation, candidates = simulation_of(name, seed)
    found: dict[str, list[list[float]]] = defaultdict(list)
    for number in range(logs):
        table = simulation.sample(seed=1000 + number)
        log = fc.tally(fc.read_log(table, context="query", period="day"))
        for by in estimators:
            answer = fc.compare(
                log, candidates, metrics=METRIC, estimators=by, missing="production"
            )
            (row,) = [row for row in answer if row["against"] == "other"]
            found[by].append([row[c] for c in ("change", "se", "low", "high")])
    reach = inference.quantile(0.95, WORLDS[name][3] - 1)
    for by, rows in found.items():
        change, se, low, high = np.array(rows, dtype=float).T
        mean = change.mean()
        held = float(np.mean((low <= mean) & (mean <= high)))
        chance = float(np.mean(np.abs(change - mean) <= reach * se))
        ratio = se.mean() / change.std()
        yield f"| {name} | `{by}` | {logs} | {held:.1%} | {chance:.1%} | {ratio:.2f} |"


def main() -> None:
    """Print a table as Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--estimators", nargs="+", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument("--logs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ForeclickWarning)
    print(
        "| world | estimator | logs | held | by chance alone | se / sd |\n|---|---|---|---|---|---|"
    )
    for world in asked.worlds:
        for line in measured(world, asked.seed, asked.logs, asked.estimators):
            print(line, flush=True)


if __name__ == "__main__":
    main()
