"""Do the intervals of `evaluate` cover? `make coverage` takes about an hour on two cores.

python -m benchmarks.coverage --parts single --replications 400 --sizes 10000
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

import foreclick as fc
from benchmarks.replications import (
    ESTIMATORS,
    HOLDS,
    METRIC,
    POSITIONS,
    Cell,
    Clusters,
    expected_log,
    make_scene,
    make_world,
    measured,
    mostly,
    packed,
    policy_of,
    stationary,
)
from foreclick import simulate
from foreclick.simulate import Simulation

# --- one context: every outcome is known --------------------------------------------------------


def single(
    worlds: Iterable[str], seeds: Iterable[int], sizes: Iterable[int], replications: int
) -> Iterator[Cell]:
    """One context, independent records; counts of outcomes are drawn instead of records."""
    for n, name, seed in itertools.product(sizes, worlds, seeds):
        scene = make_scene(name, seed)
        chances = scene.outcomes[2]
        rng = np.random.default_rng([seed, n])
        log = scene.log(rng.multinomial(n, chances, size=replications))
        expected = scene.log(n * chances[None, :])
        for kind, policy in scene.candidates.items():
            truth = scene.world.value(policy, METRIC)
            setting = {"part": "single", "world": name, "seed": seed, "records": n}
            yield from measured(
                [(log, range(replications))],
                expected,
                policy,
                truth,
                "record",
                setting | {"candidate": kind},
            )


# --- many contexts: users and days that differ --------------------------------------------------


def users(
    name: str, replications: int, seed: int = 1, records: int = 100_000, pack: int = 40
) -> Iterator[Cell]:
    """50 contexts, and users of whom some click more than others."""
    rng = np.random.default_rng([seed, 50])
    # A keen user's attraction is cut at 1; where it is low, hardly ever, and the limit is V(h).
    world = make_world(name, rng, contexts=50, most=0.25)
    simulation = Simulation(world, stationary(world, 20, rng), records, user_sd=0.5)
    setting = {"part": "users", "world": name, "seed": seed, "candidate": "stochastic"}
    policy = mostly(simulation, 5, rng)
    yield from _disturbed(setting, simulation, policy, "unit", replications, pack)


def days(
    name: str,
    replications: int,
    candidate: str = "fixed ranking",
    *,
    persistence: float = 0.0,
    length: int = 28,
    seed: int = 1,
    records: int = 100_000,
    pack: int = 40,
) -> Iterator[Cell]:
    """50 contexts under a drifting ranker, with a shock of 10 % for each context and day."""
    rng = np.random.default_rng([seed, 27])
    world = make_world(name, rng, contexts=50, items=20)
    ranker = simulate.Drifting(50, 20, POSITIONS, seed, days=length, variants=(3, 12))
    simulation = Simulation(world, ranker, records, shock_sd=0.1, shock_persistence=persistence)
    if candidate == "last day":
        policy = simulation.logging(day=ranker.days)
    else:  # what the base ranker showed in the middle of the log
        middle = ranker.orders[:, length // 2 - 1, :POSITIONS].astype(np.int64)
        policy = policy_of(middle, np.ones(50), np.arange(50))
    part = f"{length} days" + (" with memory" if persistence else "")
    setting = {"part": part, "world": name, "seed": seed, "candidate": candidate}
    yield from _disturbed(setting, simulation, policy, "period", replications, pack)


def both(
    name: str, replications: int, seed: int = 1, records: int = 20_000, pack: int = 40
) -> Iterator[Cell]:
    """20 contexts, users of whom some click more than others, and days that do."""
    rng = np.random.default_rng([seed, 77])
    world = make_world(name, rng, contexts=20, most=0.25)
    ranker = replace(stationary(world, 20, rng), days=14)
    simulation = Simulation(world, ranker, records, user_sd=0.5, shock_sd=0.1)
    setting = {"part": "users and days", "world": name, "seed": seed, "candidate": "stochastic"}
    policy = mostly(simulation, 5, rng)
    yield from _disturbed(setting, simulation, policy, "auto", replications, pack)


def thin(
    name: str, replications: int, seed: int = 1, records: int = 10_000, pack: int = 40
) -> Iterator[Cell]:
    """400 contexts with 25 records each: much of the candidate was never shown."""
    rng = np.random.default_rng([seed, 400])
    world = make_world(name, rng, contexts=400)
    simulation = Simulation(world, stationary(world, 60, rng), records)
    setting = {"part": "thin", "world": name, "seed": seed, "candidate": "stochastic"}
    policy = mostly(simulation, 5, rng)
    yield from _disturbed(setting, simulation, policy, "record", replications, pack)


def _disturbed(
    setting: dict[str, Any],
    simulation: Simulation,
    policy: fc.Lists,
    clusters: Clusters | Literal["auto"],
    replications: int,
    pack: int,
) -> Iterator[Cell]:
    """Measure a simulation by whole logs, several in one."""
    packs = (
        range(first, min(first + pack, replications)) for first in range(0, replications, pack)
    )
    logs = ((packed(simulation, numbers, clusters), numbers) for numbers in packs)
    truth = simulation.value(policy, METRIC)
    setting |= {"records": simulation.records}
    yield from measured(logs, expected_log(simulation), policy, truth, clusters, setting)


# --- what is printed ------------------------------------------------------------------------------


def main() -> None:
    """Run the parts that are asked for, and print their tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parts = ("single", "users", "days", "memory", "both", "thin")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--worlds", nargs="+", choices=list(HOLDS), default=list(HOLDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--replications", type=int, default=4_000, help="of single contexts")
    parser.add_argument("--logs", type=int, default=400, help="replications of many contexts")
    parser.add_argument("--out", type=Path, help="also write every cell to this JSON file")
    options = parser.parse_args()
    cells: list[Cell] = []
    start = time.perf_counter()
    for cell in run(options):
        cells.append(cell)
        print(_line(cell), f"[{time.perf_counter() - start:.0f} s]", flush=True)
        if options.out:
            options.out.write_text(json.dumps([asdict(c) for c in cells], indent=1))
    for table in tables(cells):
        print(f"\n{table}")


def run(options: argparse.Namespace) -> Iterator[Cell]:
    """Every cell of the parts that are asked for."""
    if "single" in options.parts:
        yield from single(options.worlds, options.seeds, options.sizes, options.replications)
    for name in ("PBM", "DBN"):
        if "users" in options.parts:
            yield from users(name, options.logs)
        if "days" in options.parts:
            yield from days(name, options.logs)
            yield from days(name, options.logs, "last day")
        for length in (14, 28) if "memory" in options.parts else ():
            seed = options.seeds[0]
            yield from days(name, options.logs, persistence=0.6, length=length, seed=seed)
        if "both" in options.parts:
            yield from both(name, options.logs, seed=options.seeds[0])
        if "thin" in options.parts:
            yield from thin(name, options.logs)


def _line(cell: Cell) -> str:
    what = f"{cell.part} {cell.world} {cell.seed} {cell.records} {cell.candidate} {cell.estimator}"
    return (
        f"{what}: {cell.covers:.3f} truth {cell.covers_truth:.3f} below {cell.below:.3f} "
        f"width {cell.width:.4f} margin {cell.margin:.4f} bias {cell.bias:+.2f} "
        f"se/sd {cell.ratio:.2f} value {cell.limit:.4f}/{cell.truth:.4f}"
    )


def tables(cells: Sequence[Cell]) -> Iterator[str]:
    """Markdown: single contexts summed up by estimator and size, the others cell by cell."""
    alone = [c for c in cells if c.part == "single"]
    if alone:
        yield _single_table(alone)
    for part in dict.fromkeys(c.part for c in cells if c.part != "single"):
        yield _part_table(part, [c for c in cells if c.part == part])


def _single_table(cells: Sequence[Cell]) -> str:
    rows = [
        "| estimator | records | cells | in 93.5–96.5 % | lowest | highest | V(h) | width |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for n, name in itertools.product(sorted({c.records for c in cells}), (*ESTIMATORS, None)):
        mine = [c for c in cells if c.records == n and name in (None, c.estimator)]
        if not mine:
            continue
        inside = sum(0.935 <= c.covers <= 0.965 for c in mine) / len(mine)
        true = [c.covers_truth for c in mine if c.holds]
        held = f"{min(true):.1%}–{max(true):.1%}" if true else "–"
        low, high = min(c.covers for c in mine), max(c.covers for c in mine)
        width = float(np.mean([c.width / c.limit for c in mine]))
        rows.append(
            f"| {f'`{name}`' if name else 'all'} | {n:,} | {len(mine)} | {inside:.0%} | "
            f"{low:.1%} | {high:.1%} | {held} | {width:.0%} |"
        )
    return "\n".join(rows)


def _part_table(part: str, cells: Sequence[Cell]) -> str:
    rows = [
        f"{part}: {cells[0].records:,} records, {cells[0].replications} logs\n",
        "| world | candidate | estimator | limit | V(h) | upper | width | margin | se / sd |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {c.world} | {c.candidate} | `{c.estimator}` | {c.covers:.1%} | "
        f"{f'{c.covers_truth:.1%}' if c.holds else '–'} | {c.below:.1%} | "
        f"{c.width / c.limit:.1%} | {c.margin / c.limit:.1%} | {c.ratio:.2f} |"
        for c in cells
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    main()
