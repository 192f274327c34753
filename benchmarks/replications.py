"""Do the intervals of `evaluate` cover? Logs drawn again and again from worlds with one context.

    python -m benchmarks coverage single --replications 400 --sizes 10000

Nothing of an estimator is written here: many replications are packed into one log, with a segment
column that tells them apart, and `evaluate(by="replication")` gives each its value and interval.
Every replication has contexts of its own, so that click models learn nothing of one from another.
*limit* is what an estimator tends to, which is V(h) where its click model is right.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import foreclick as fc
from benchmarks.study import Column, Row, Rows, inside, study
from benchmarks.worlds import ITEMS, POSITIONS, Floats, Integers, make_world, policy_of, zipf
from foreclick.simulate import Simulation, World

Clusters = Literal["record", "period"]
METRIC = "dcg@3"  # positions count differently, so a wrong weight of one would show

ESTIMATORS = ("list", "prefix", "ip", "item", "pbm")
BY = (*ESTIMATORS[:-1], fc.Weighted("pbm", examination="1/k"))
"""The estimators; `pbm` as the paper has it, which is right in these worlds."""

ENDS = ("value", "se", "low", "high", "margin")
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

LISTS = 40
MOST_CONTEXTS = 1_000  # of a log


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
        items = {f"item_{k}": each for k, each in enumerate(self.lists[which[outcome]].T)}
        rewards = {f"click_{k}": each for k, each in enumerate(clicks[outcome].T)}
        table = {
            "context": own_contexts(replication, np.zeros(len(outcome), dtype=np.int64)),
            "replication": replication,
            "weight": counts[replication, outcome],
        }
        return fc.read_log(
            pa.table(table | items | rewards),
            items=list(items),
            clicks=list(rewards),
            segments="replication",
            count="weight",
            sample=None,
        )


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


def packed(simulation: Simulation, seeds: range, clusters: Clusters) -> fc.Log:
    """Several logs in one, told apart by the segment `replication`, with days if they cluster."""
    tables = []
    for number in seeds:
        table = simulation.sample(seed=1000 + number)
        replication = np.full(table.num_rows, number, dtype=np.int32)
        own = own_contexts(replication, np.asarray(table["query"]))
        columns = {"query": own, "replication": replication}
        tables.append(pa.table(dict(zip(table.column_names, table.columns, strict=True)) | columns))
    return fc.read_log(
        pa.concat_tables(tables),
        context="query",
        period="day" if clusters == "period" else None,
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


def measured(
    logs: Iterable[tuple[fc.Log, range]],
    expected: fc.Log,
    policy: fc.Lists,
    truth: float,
    clusters: Clusters,
) -> Iterator[Row]:
    """One row an estimator: its limit from the expected log, its intervals from all the others.

    *limit* is what the estimator tends to as the log grows; *covers* and *covers_truth* are the
    shares of intervals that hold the limit, and V(h); *width* is a mean, *ratio* is se / sd.
    """
    asked: dict[str, Any] = {"metrics": METRIC, "estimators": BY}
    in_the_long_run = fc.evaluate(expected, policy, **asked, confidence=None)
    limits = dict(zip(in_the_long_run["estimator"], in_the_long_run["value"], strict=True))
    asked["confidence"] = fc.Confidence(clusters="record" if clusters == "record" else "auto")
    found: dict[str, Rows] = {name: Rows() for name in ESTIMATORS}
    for log, replications in logs:
        for row in fc.evaluate(log, in_each(policy, replications), **asked, by="replication"):
            # A log that shows nothing of the candidate has no interval, and covers nothing.
            own = {c: np.nan if row[c] is None else float(row[c]) for c in ENDS}
            by_chance = {"high": own["high"] - own["margin"]}
            truths = {"truth": limits[row["estimator"]], "V(h)": truth}
            found[row["estimator"]].append(own | by_chance | truths)
    for name, rows in found.items():
        yield {
            "estimator": name,
            "limit": limits[name],
            "truth": truth,
            "covers": float(inside(rows).mean()),
            "covers_truth": float(inside(rows, "V(h)").mean()),
            "width": float(np.nanmean(rows.of("high") - rows.of("low"))),
            "ratio": float(np.nanmean(rows.of("se")) / np.nanstd(rows.of("value"))),
        }


# --- one context: every outcome is known --------------------------------------------------------


def extremes(column: str, name: str = "") -> tuple[Column, Column]:
    """The lowest and the highest value of a column, of those that are there."""

    def there(rows: Rows) -> list[float]:
        return [row[column] for row in rows if row[column] is not None]

    return (
        Column(f"{name}lowest", lambda rows: min(there(rows), default=None), ".1%"),
        Column(f"{name}highest", lambda rows: max(there(rows), default=None), ".1%"),
    )


@study(
    "coverage single",
    ["records", "estimator"],
    Column("cells", len),
    Column("in 93.5–96.5 %", lambda r: float(np.mean(abs(r.of("covers") - 0.95) <= 0.015)), ".0%"),
    *extremes("covers"),
    *extremes("holds", "V(h), "),
    "width:.0%",
    sizes=[1_000, 10_000, 100_000],
    worlds=list(HOLDS),
    seeds=[1, 2, 3],
)
def single(size: int, world: str, seed: int, replications: int = 4_000) -> list[Row]:
    """One context, independent records; counts of outcomes are drawn instead of records.

    V(h) need only be held where the click model is right.
    """
    scene = make_scene(world, seed)
    chances = scene.outcomes[2]
    rng = np.random.default_rng([seed, size])
    log = scene.log(rng.multinomial(size, chances, size=replications))
    expected = scene.log(size * chances[None, :])
    found = []
    for policy in scene.candidates.values():
        truth, each = scene.world.value(policy, METRIC), [(log, range(replications))]
        for row in measured(each, expected, policy, truth, "record"):
            holds = row["covers_truth"] if row["estimator"] in HOLDS[world] else None
            share = row["width"] / row["limit"]
            found.append({"records": size} | row | {"holds": holds, "width": share})
    return found
