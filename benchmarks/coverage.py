"""Do the intervals of `evaluate` cover? Logs drawn again and again from known worlds.

    make coverage                                       everything, about an hour on two cores
    python benchmarks/coverage.py --parts single --replications 400 --sizes 10000

Nothing of an estimator is written here: many replications are packed into one log, with a segment
column that tells them apart, and `evaluate(by="replication")` gives each its value and interval.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import foreclick as fc
from foreclick import simulate
from foreclick.simulate import Simulation, World, item_ids

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Clusters = Literal["record", "unit", "period"]

ESTIMATORS = ("list", "prefix", "ip", "item", "pbm")
METRIC = "dcg@3"  # positions count differently, so a wrong weight of one would show
SLOTS = ("list", "prefix", "ip")
HOLDS = {
    "PBM": (*SLOTS, "pbm"),
    "DCTR": (*SLOTS, "item"),
    "ItemPosition": SLOTS,
    "Cascade": ("list", "prefix"),
    "DBN": ("list", "prefix"),
    "ListSpecific": ("list",),
}
"""The estimators whose click model is true in each world."""

ITEMS, POSITIONS, LISTS = 8, 3, 40
NODES = 64  # of the quadrature over the effect of a user or a day


@dataclass(frozen=True)
class Cell:
    """What was found for one estimator in one setting.

    Attributes:
        limit: what the estimator tends to as the log grows; `truth`: V(h).
        covers: the share of intervals that hold the limit; `covers_truth`: that hold V(h).
        below: the share of replications with V(h) ≤ high + margin.
        width: the mean width; `margin`: the mean margin.
        bias: the mean error against the limit, in true standard deviations.
        ratio: the mean standard error divided by the true standard deviation.
    """

    part: str
    world: str
    seed: int
    records: int
    candidate: str
    estimator: str
    replications: int
    holds: bool
    limit: float
    truth: float
    covers: float
    covers_truth: float
    below: float
    width: float
    margin: float
    bias: float
    ratio: float


# --- one context: every outcome is known --------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scene:
    """One context of a world, its logged lists with their probabilities, and candidates."""

    world: World
    lists: Integers
    logged: Floats
    candidates: dict[str, fc.Lists]

    @cached_property
    def outcomes(self) -> tuple[Integers, Integers, Floats]:
        """(number of the list, clicks, probability) of everything that a record can be."""
        patterns = np.array(list(itertools.product([0, 1], repeat=self.lists.shape[1])))
        chance = np.stack([self._chance(pattern) for pattern in patterns], axis=1)
        joint = (self.logged[:, None] * chance).ravel()
        possible = np.flatnonzero(joint > 0)
        which, pattern = np.divmod(possible, len(patterns))
        return which, patterns[pattern], joint[possible] / joint[possible].sum()

    def _chance(self, pattern: Integers) -> Floats:
        """The probability of one click pattern on each list."""
        contexts = np.zeros(len(self.lists), dtype=np.int64)
        steps = self._steps()
        if steps is None:
            clicks = self.world.clicks(contexts, self.lists)
            return np.where(pattern == 1, clicks, 1 - clicks).prod(axis=1)
        attraction, on_click, on_skip = (np.broadcast_to(s, self.lists.shape) for s in steps)
        # A user who has left is not seen to have left: both kinds are followed.
        reading, left = np.ones(len(self.lists)), np.zeros(len(self.lists))
        for k, clicked in enumerate(pattern):
            here = reading * (attraction[:, k] if clicked else 1 - attraction[:, k])
            goes_on = (on_click if clicked else on_skip)[:, k]
            reading, left = here * goes_on, here * (1 - goes_on) + (0 if clicked else left)
        return reading + left

    def _steps(self) -> tuple[Any, Any, Any] | None:
        """Attraction, and the chance to go on after a click and after none, of users who read."""
        world = self.world
        if isinstance(world, simulate.Cascade):
            return np.asarray(world.attraction)[0, self.lists], 0.0, 1.0
        if isinstance(world, simulate.DBN):
            satisfied = np.asarray(world.satisfaction)[0, self.lists]
            on = float(world.continuation)
            return np.asarray(world.attraction)[0, self.lists], (1 - satisfied) * on, on
        return None

    def log(self, counts: NDArray[Any]) -> fc.Log:
        """A log with a replication for each row of counts, one column an outcome."""
        which, clicks, _ = self.outcomes
        replication, outcome = np.nonzero(counts)
        lists = self.lists[which[outcome]]
        return _read(replication, lists, clicks[outcome], counts[replication, outcome])


def make_scene(name: str, seed: int) -> Scene:
    """A world of one context, a skewed logging policy over 40 lists, and two candidates."""
    rng = np.random.default_rng([seed, list(HOLDS).index(name)])
    every = np.array(list(itertools.permutations(range(ITEMS), POSITIONS)))
    lists = rng.permutation(every)[:LISTS]
    logged = np.concatenate([[0.3], 0.7 * _zipf(LISTS - 1)])
    shifted = logged**0.5 * rng.exponential(size=LISTS)
    return Scene(
        _world(name, rng),
        lists,
        logged,
        # A list in the middle of the logged ones, which a log of 1,000 shows about 18 times.
        {
            "deterministic": _policy(lists[10:11], np.ones(1)),
            "stochastic": _policy(lists, shifted / shifted.sum()),
        },
    )


def _world(
    name: str, rng: np.random.Generator, contexts: int = 1, items: int = ITEMS, most: float = 0.6
) -> World:
    attraction = rng.uniform(0.05, most, (contexts, items))
    if name == "PBM":
        return simulate.PBM(attraction, 1 / np.arange(1, POSITIONS + 1))
    if name == "DCTR":
        return simulate.DCTR(attraction, POSITIONS)
    if name == "ItemPosition":
        return simulate.ItemPosition(rng.uniform(0.02, 0.5, (contexts, items, POSITIONS)))
    if name == "Cascade":
        return simulate.Cascade(attraction, POSITIONS)
    if name == "DBN":
        satisfaction = rng.uniform(0.5, 0.95, attraction.shape)
        return simulate.DBN(attraction, satisfaction, 0.66, POSITIONS)
    seed = int(rng.integers(2**31))
    return simulate.ListSpecific(contexts, items, np.full(POSITIONS, 0.6), seed)


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
                [log], expected, policy, truth, "record", setting | {"candidate": kind}
            )


# --- many contexts: users and days that differ --------------------------------------------------


def pooled(
    name: str, replications: int, seed: int = 1, records: int = 100_000, pack: int = 40
) -> Iterator[Cell]:
    """50 contexts, and users of whom some click more than others."""
    rng = np.random.default_rng([seed, 50])
    # A keen user's attraction is cut at 1; where it is low, hardly ever, and the limit is V(h).
    world = _world(name, rng, contexts=50, most=0.25)
    simulation = Simulation(world, _stationary(world, 20, rng), records, user_sd=0.5)
    candidate = _stationary_candidate(simulation, rng)
    yield from _disturbed("users", name, simulation, candidate, "unit", replications, pack, seed)


def days(
    name: str,
    replications: int,
    candidate: str,
    seed: int = 1,
    records: int = 100_000,
    pack: int = 40,
    persistence: float = 0.0,
) -> Iterator[Cell]:
    """50 contexts under a drifting ranker, with a shock of 10 % for each context and day."""
    rng = np.random.default_rng([seed, 27])
    world = _world(name, rng, contexts=50, items=20)
    ranker = simulate.Drifting(50, 20, POSITIONS, simulate.Drift(variants=(3, 12)), seed)
    simulation = Simulation(world, ranker, records, shock_sd=0.1, shock_persistence=persistence)
    if candidate == "last day":
        policy = simulation.logging(day=27)
    else:  # what the base ranker showed in the middle of the log
        middle = ranker.orders[:, 13, :POSITIONS].astype(np.int64)
        policy = _policy(middle, np.ones(50), np.arange(50))
    yield from _disturbed(
        "days" if persistence == 0 else "days, persistent",
        name,
        simulation,
        (candidate, policy),
        "period",
        replications,
        pack,
        seed,
    )


def thin(
    name: str, replications: int, seed: int = 1, records: int = 10_000, pack: int = 50
) -> Iterator[Cell]:
    """400 contexts with 25 records each: much of the candidate was never shown."""
    rng = np.random.default_rng([seed, 400])
    world = _world(name, rng, contexts=400)
    simulation = Simulation(world, _stationary(world, 60, rng), records)
    candidate = _stationary_candidate(simulation, rng)
    yield from _disturbed("thin", name, simulation, candidate, "record", replications, pack, seed)


def _disturbed(
    part: str,
    name: str,
    simulation: Simulation,
    candidate: tuple[str, fc.Lists],
    clusters: Clusters,
    replications: int,
    pack: int,
    seed: int,
) -> Iterator[Cell]:
    """Measure a simulation by whole logs, several in one."""
    kind, policy = candidate
    logs = (
        _packed(simulation, range(first, min(first + pack, replications)))
        for first in range(0, replications, pack)
    )
    setting = {"part": part, "world": name, "seed": seed, "candidate": kind}
    setting |= {"records": simulation.records}
    truth = simulation.value(policy, METRIC)
    yield from measured(logs, _expected(simulation), policy, truth, clusters, setting)


def _packed(simulation: Simulation, seeds: range) -> fc.Log:
    tables = []
    for number in seeds:
        table = simulation.sample(seed=1000 + number)
        column = pa.array(np.full(table.num_rows, number, dtype=np.int32))
        tables.append(table.append_column("replication", column))
    return fc.read_log(
        pa.concat_tables(tables),
        context="query",
        period="day",
        unit="user",
        segments="replication",
    )


def _expected(simulation: Simulation) -> fc.Log:
    """The log in the long run: every list with its expected clicks, disturbances averaged over."""
    spread = np.hypot(simulation.user_sd, simulation.shock_sd)  # only one of them is not 0
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    log_variance = np.log1p(spread**2)
    effects = np.exp(np.sqrt(log_variance) * nodes - log_variance / 2)
    parts = []
    for day in range(1, simulation.production.days + 1):
        shown = simulation.production.on(day)
        contexts, lists = np.asarray(shown.contexts), np.asarray(shown.lists, dtype=np.int64)
        clicks = sum(
            w * simulation.world.clicks(contexts, lists, e)
            for w, e in zip(weights / weights.sum(), effects, strict=True)
        )
        often = np.asarray(simulation.frequencies)[contexts] * shown.probabilities
        parts.append((contexts, lists, clicks, often / simulation.production.days))
    contexts, lists, clicks, often = (np.concatenate(p) for p in zip(*parts, strict=True))
    kept = often > 0
    ids = item_ids(contexts[:, None], lists)
    return _read(
        np.zeros(kept.sum(), dtype=np.int64),
        ids[kept],
        np.asarray(clicks)[kept],
        simulation.records * often[kept],
        contexts[kept],
    )


def _stationary(world: World, lists: int, rng: np.random.Generator) -> simulate.Stationary:
    """So many lists in each context, some often and most of them seldom."""
    contexts, items, positions = world.size
    every = np.array(list(itertools.permutations(range(items), positions)))
    drawn = np.stack([rng.permutation(len(every))[:lists] for _ in range(contexts)])
    return simulate.Stationary(
        np.repeat(np.arange(contexts), lists),
        every[drawn.ravel()],
        np.tile(_zipf(lists), contexts),
    )


def _stationary_candidate(simulation: Simulation, rng: np.random.Generator) -> tuple[str, fc.Lists]:
    """The sixth list of every context, now and then another that is logged."""
    shown = simulation.production.on(1)
    contexts = simulation.world.size.contexts
    mass = 0.3 * rng.dirichlet(np.ones(len(shown.lists) // contexts), contexts)
    mass[:, 5] += 0.7
    lists = np.asarray(shown.lists, dtype=np.int64)
    return "stochastic", _policy(lists, mass.ravel(), np.asarray(shown.contexts))


# --- measuring ------------------------------------------------------------------------------------


def measured(
    logs: Iterable[fc.Log],
    expected: fc.Log,
    policy: fc.Lists,
    truth: float,
    clusters: Clusters,
    setting: dict[str, Any],
) -> Iterator[Cell]:
    """One cell an estimator: its limit from the expected log, its intervals from all the others."""
    asked: dict[str, Any] = {"metrics": METRIC, "estimators": ESTIMATORS}
    in_the_long_run = fc.evaluate(expected, policy, **asked, clusters=None)
    limits = dict(zip(in_the_long_run["estimator"], in_the_long_run["value"], strict=True))
    found: dict[str, list[list[float]]] = {name: [] for name in ESTIMATORS}
    names = ("value", "se", "low", "high", "margin")
    for log in logs:
        for row in fc.evaluate(log, policy, **asked, by="replication", clusters=clusters):
            # A log that shows nothing of the candidate has no interval, and covers nothing.
            numbers = [np.nan if row[c] is None else float(row[c]) for c in names]
            found[row["estimator"]].append(numbers)
    for name in ESTIMATORS:
        value, se, low, high, margin = np.array(found[name]).T
        limit = limits[name]
        sd = np.nanstd(value)
        yield Cell(
            **setting,
            estimator=name,
            replications=len(value),
            holds=name in HOLDS[setting["world"]],
            limit=limit,
            truth=truth,
            covers=float(np.mean((low <= limit) & (limit <= high))),
            covers_truth=float(np.mean((low <= truth) & (truth <= high))),
            below=float(np.mean(truth <= high + margin)),
            width=float(np.nanmean(high - low)),
            margin=float(np.nanmean(margin)),
            bias=float((np.nanmean(value) - limit) / sd),
            ratio=float(np.nanmean(se) / sd),
        )


def _read(
    replication: Integers,
    lists: Integers,
    clicks: NDArray[Any],
    weight: NDArray[Any],
    contexts: Integers | None = None,
) -> fc.Log:
    """Rows that stand for several records each, as a log."""
    items = {f"item_{k}": lists[:, k] for k in range(lists.shape[1])}
    rewards = {f"click_{k}": clicks[:, k] for k in range(lists.shape[1])}
    context = np.zeros(len(lists), dtype=np.int64) if contexts is None else contexts
    table = {"context": context, "replication": replication, "weight": weight}
    return fc.read_log(
        pa.table(table | items | rewards),
        items=list(items),
        clicks=list(rewards),
        segments="replication",
        weight="weight",
    )


def _policy(lists: Integers, mass: Floats, contexts: Integers | None = None) -> fc.Lists:
    context = np.zeros(len(lists), dtype=np.int64) if contexts is None else contexts
    ids = item_ids(context[:, None], lists)
    return fc.Lists(pa.table({"context": context, "items": list(ids), "probability": mass}))


def _zipf(count: int, fall: float = 0.7) -> Floats:
    weights: Floats = np.arange(1, count + 1) ** -fall
    return weights / weights.sum()


# --- what is printed ------------------------------------------------------------------------------


def main() -> None:
    """Run the parts that are asked for, and print their tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parts = ("single", "users", "days", "thin")
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
            yield from pooled(name, options.logs)
        if "days" in options.parts:
            yield from days(name, options.logs, "fixed ranking")
            yield from days(name, options.logs, "last day")
            yield from days(name, options.logs, "fixed ranking", persistence=0.6)
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
