"""Logs drawn again and again from known worlds, and what `evaluate` says of each.

Nothing of an estimator is written here: many replications are packed into one log, with a segment
column that tells them apart, and `evaluate(by="replication")` gives each its value and interval.
Every replication has contexts of its own, so that click models learn nothing of one from another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import foreclick as fc
from benchmarks.study import Row, Rows, errors, inside
from foreclick import simulate
from foreclick.simulate import Simulation, World, item_ids

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Clusters = Literal["record", "unit", "period", "auto"]

ESTIMATORS = ("list", "prefix", "ip", "item", "pbm")
BY = (*ESTIMATORS[:-1], fc.Weighted("pbm", examination="1/k"))
"""The estimators; `pbm` as the paper has it, which is right in these worlds."""

ENDS = ("value", "se", "low", "high", "margin")
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
MOST_CONTEXTS = 1_000  # of a log
NODES = 64  # of the quadrature over the effect of a user or a day


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
        steps = self.world._steps(contexts, self.lists)  # noqa: SLF001 - in closed form
        attracts, examined, on_click, on_skip = (
            np.broadcast_to(s, self.lists.shape) for s in steps
        )
        rate = attracts * examined
        # A user who has left is not seen to have left: both kinds are followed.
        reading, left = np.ones(len(self.lists)), np.zeros(len(self.lists))
        for k, clicked in enumerate(pattern):
            here = reading * (rate[:, k] if clicked else 1 - rate[:, k])
            goes_on = (on_click if clicked else on_skip)[:, k]
            reading, left = here * goes_on, here * (1 - goes_on) + (0 if clicked else left)
        return reading + left

    def log(self, counts: NDArray[Any]) -> fc.Log:
        """A log with a replication for each row of counts, one column an outcome."""
        which, clicks, _ = self.outcomes
        replication, outcome = np.nonzero(counts)
        lists = self.lists[which[outcome]]
        contexts = np.zeros(len(outcome), dtype=np.int64)
        return _read(replication, lists, clicks[outcome], counts[replication, outcome], contexts)


def make_scene(name: str, seed: int) -> Scene:
    """A world of one context, a skewed logging policy over 40 lists, and two candidates."""
    rng = np.random.default_rng([seed, list(HOLDS).index(name)])
    every = np.array(list(itertools.permutations(range(ITEMS), POSITIONS)))
    lists = rng.permutation(every)[:LISTS]
    logged = np.concatenate([[0.3], 0.7 * zipf(LISTS - 1)])
    shifted = logged**0.5 * rng.exponential(size=LISTS)
    return Scene(
        make_world(name, rng),
        lists,
        logged,
        # A list in the middle of the logged ones, which a log of 1,000 shows about 18 times.
        {
            "deterministic": policy_of(lists[10:11], np.ones(1)),
            "stochastic": policy_of(lists, shifted / shifted.sum()),
        },
    )


def make_world(
    name: str,
    rng: np.random.Generator,
    contexts: int = 1,
    items: int = ITEMS,
    most: float = 0.6,
    positions: int = POSITIONS,
) -> World:
    attraction = rng.uniform(0.05, most, (contexts, items))
    if name == "PBM":
        return simulate.PBM(attraction, 1 / np.arange(1, positions + 1))
    if name == "DCTR":
        return simulate.DCTR(attraction, positions)
    if name == "ItemPosition":
        return simulate.ItemPosition(rng.uniform(0.02, 0.5, (contexts, items, positions)))
    if name == "Cascade":
        return simulate.Cascade(attraction, positions)
    if name == "DCM":
        return simulate.DCM(attraction, np.linspace(0.7, 0.4, positions))
    if name == "DBN":
        satisfaction = rng.uniform(0.5, 0.95, attraction.shape)
        return simulate.DBN(attraction, satisfaction, 0.66, positions)
    seed = int(rng.integers(2**31))
    return simulate.ListSpecific(contexts, items, np.full(positions, 0.6), seed)


# --- many contexts --------------------------------------------------------------------------------


def sampled(simulation: Simulation, seed: int, **roles: Any) -> fc.Log:
    """One log, with its days."""
    return fc.read_log(simulation.sample(seed=seed), context="query", period="day", **roles)


def clicked(
    context: Integers, lists: Integers, rates: Floats, rng: np.random.Generator
) -> dict[str, Any]:
    """Columns of a log: lists (n, K), and clicks at these rates, each for itself."""
    clicks = rng.random(lists.shape) < rates
    return {"context": context, "items": list(lists), "clicks": list(clicks.astype(np.int8))}


def packed(simulation: Simulation, seeds: range, clusters: Clusters) -> fc.Log:
    """Several logs in one, told apart by the segment `replication`.

    Of days and users only what makes clusters is read: the tally is smaller without the other.
    """
    tables = []
    for number in seeds:
        table = simulation.sample(seed=1000 + number)
        own = own_contexts(np.full(table.num_rows, number), np.asarray(table["query"]))
        table = table.set_column(table.column_names.index("query"), "query", pa.array(own))
        column = pa.array(np.full(table.num_rows, number, dtype=np.int32))
        tables.append(table.append_column("replication", column))
    return fc.read_log(
        pa.concat_tables(tables),
        context="query",
        period="day" if clusters in ("period", "auto") else None,
        unit="user" if clusters in ("unit", "auto") else None,
        segments="replication",
        sample=None,
    )


def own_contexts(replication: Integers, contexts: Integers) -> Integers:
    """Contexts that no two replications share; those of the first are as they are."""
    return np.asarray(replication.astype(np.int64) * MOST_CONTEXTS + contexts)


def in_each(policy: fc.Lists, replications: Iterable[int]) -> fc.Lists:
    """A policy that shows in the contexts of every replication what it shows in its own."""
    table, each = policy.table, np.array(list(replications))
    at = next(i for i, name in enumerate(table.column_names) if name in ("context", "query"))
    own = own_contexts(np.repeat(each, table.num_rows), np.tile(table[at], len(each)))
    lists = pa.concat_tables([table] * len(each))
    return fc.Lists(lists.set_column(at, "context", pa.array(own)))


def expected_log(simulation: Simulation) -> fc.Log:
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
        contexts[kept].astype(np.int64),
    )


def stationary(world: World, lists: int, rng: np.random.Generator) -> simulate.Stationary:
    """So many lists in each context, some often and most of them seldom."""
    contexts, items, positions = world.size
    every = np.array(list(itertools.permutations(range(items), positions)))
    drawn = [every[rng.permutation(len(every))[:lists]] for _ in range(contexts)]
    return always(np.stack(drawn))


def always(lists: Integers, days: int = 1) -> simulate.Stationary:
    """The same lists (C, n, K) on all days, the first of each context most often."""
    contexts, count, positions = lists.shape
    context = np.repeat(np.arange(contexts), count)
    often = np.tile(zipf(count), contexts)
    return simulate.Stationary(context, lists.reshape(-1, positions), often, days)


def of_many(
    name: str,
    seed: Sequence[int],
    size: tuple[int, int, int],
    *,
    most: float = 0.6,
    days: int = 1,
    **disturbances: float,
) -> tuple[Simulation, np.random.Generator]:
    """A fresh world of so many contexts, lists in each and records, and the rest of its chance."""
    contexts, lists, records = size
    rng = np.random.default_rng(seed)
    world = make_world(name, rng, contexts, most=most)
    ranker = replace(stationary(world, lists, rng), days=days)
    return Simulation(world, ranker, records, **disturbances), rng


def mostly(simulation: Simulation, number: int, rng: np.random.Generator) -> fc.Lists:
    """The list of that number in every context, now and then another that is logged."""
    shown = simulation.production.on(1)
    contexts = simulation.world.size.contexts
    mass = 0.3 * rng.dirichlet(np.ones(len(shown.lists) // contexts), contexts)
    mass[:, number] += 0.7
    lists = np.asarray(shown.lists, dtype=np.int64)
    return policy_of(lists, mass.ravel(), np.asarray(shown.contexts))


# --- measuring ------------------------------------------------------------------------------------


def measured(
    logs: Iterable[tuple[fc.Log, range]],
    expected: fc.Log,
    policy: fc.Lists,
    truth: float,
    clusters: Clusters,
) -> Iterator[Row]:
    """One row an estimator: its limit from the expected log, its intervals from all the others.

    *limit* is what the estimator tends to as the log grows; *covers* and *covers_truth* are the
    shares of intervals that hold the limit, and V(h); *below* is that of V(h) ≤ high; *width* and
    *margin* are means, *bias* is in true standard deviations, *ratio* is se / sd.
    """
    asked: dict[str, Any] = {"metrics": METRIC, "estimators": BY}
    in_the_long_run = fc.evaluate(expected, policy, **asked, confidence=None)
    limits = dict(zip(in_the_long_run["estimator"], in_the_long_run["value"], strict=True))
    asked["confidence"] = fc.Confidence(clusters="record" if clusters == "record" else "auto")
    found: dict[str, Rows] = {name: Rows() for name in ESTIMATORS}
    for log, replications in logs:
        each = in_each(policy, replications)
        for row in fc.evaluate(log, each, **asked, by="replication"):
            # A log that shows nothing of the candidate has no interval, and covers nothing.
            own = {c: np.nan if row[c] is None else float(row[c]) for c in ENDS}
            by_chance = own["high"] - own["margin"]
            mine = own | {"chance": by_chance, "truth": limits[row["estimator"]], "V(h)": truth}
            found[row["estimator"]].append(mine)
    for name, rows in found.items():
        sd = float(np.nanstd(rows.of("value")))
        yield {
            "estimator": name,
            "replications": len(rows),
            "limit": limits[name],
            "truth": truth,
            "covers": float(inside(rows, high="chance").mean()),
            "covers_truth": float(inside(rows, "V(h)", high="chance").mean()),
            "below": float(np.mean(truth <= rows.of("high"))),
            "width": float(np.nanmean(rows.of("chance") - rows.of("low"))),
            "margin": float(np.nanmean(rows.of("margin"))),
            "bias": float(np.nanmean(errors(rows))) / sd,
            "ratio": float(np.nanmean(rows.of("se"))) / sd,
        }


def _read(
    replication: Integers,
    lists: Integers,
    clicks: NDArray[Any],
    weight: NDArray[Any],
    contexts: Integers,
) -> fc.Log:
    """Rows that stand for several records each, as a log."""
    items = {f"item_{k}": lists[:, k] for k in range(lists.shape[1])}
    rewards = {f"click_{k}": clicks[:, k] for k in range(lists.shape[1])}
    context = own_contexts(replication, contexts)
    table = {"context": context, "replication": replication, "weight": weight}
    return fc.read_log(
        pa.table(table | items | rewards),
        items=list(items),
        clicks=list(rewards),
        segments="replication",
        count="weight",
        sample=None,
    )


def policy_of(lists: Integers, mass: Floats, contexts: Integers | None = None) -> fc.Lists:
    context = np.zeros(len(lists), dtype=np.int64) if contexts is None else contexts
    ids = item_ids(context[:, None], lists)
    return fc.Lists(pa.table({"context": context, "items": list(ids), "probability": mass}))


def zipf(count: int, fall: float = 0.7) -> Floats:
    weights = np.arange(1, count + 1, dtype=np.float64) ** -fall
    return np.asarray(weights / weights.sum(), dtype=np.float64)
