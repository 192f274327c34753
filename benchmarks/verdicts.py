"""How often is a verdict wrong, and what does pairing gain? `make verdicts`, about half an hour.

python -m benchmarks.verdicts --parts equal --worlds PBM --logs 200
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import foreclick as fc
from benchmarks.candidates import drifting, of_known_value, steady, swapping, twins
from benchmarks.replications import BY, ESTIMATORS, HOLDS, METRIC, in_each, packed
from foreclick import inference
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_metrics
from foreclick.question import Question
from foreclick.run.estimate import estimate
from foreclick.simulate import Simulation

SHOCKS = (0.0, 0.1)  # the spread of the shock of a context and day
ASKED: dict[str, Any] = {"metrics": METRIC, "estimators": BY}


@dataclass(frozen=True)
class Said:
    """What the verdicts on one candidate were, as shares of all logs.

    Attributes:
        holds: whether the estimator's click model is true in this world.
        lift: V(h) / V(production) − 1; `seen`: its mean estimate, None if there is none.
        covers: the share of intervals of the change that hold the true one.
    """

    part: str
    world: str
    production: str
    shocks: float
    candidate: str
    estimator: str
    holds: bool
    logs: int
    lift: float
    seen: float | None
    better: float
    worse: float
    unknown: float
    covers: float


@dataclass(frozen=True)
class Paired:
    """The interval of the difference of two candidates.

    Attributes:
        change: the true difference; `se`: its mean standard error.
        shorter: how many times longer intervals are from the two standard errors alone.
        covers: the share of intervals that hold the true difference.
        ratio: the mean standard error divided by the true standard deviation.
    """

    part: str
    world: str
    positions: int
    shocks: float
    estimator: str
    holds: bool
    logs: int
    change: float
    se: float
    shorter: float
    covers: float
    ratio: float


@dataclass(frozen=True)
class Compared:
    """How `compare` does by one estimator, over all pairs of a world's candidates and production.

    Attributes:
        covers: the share of intervals (of all pairs and logs) that hold the true difference.
        lowest: the same of the pair that is covered least.
        wrong: the share of verdicts that name the wrong one of a pair the better.
        any_wrong: the share of logs with such a verdict on any pair.
        told: the share of verdicts that name the right one, of pairs that differ.
        width: the mean width of the intervals, relative to production.
        bias: the largest mean error of a pair, relative to production.
    """

    part: str
    world: str
    production: str
    estimator: str
    logs: int
    covers: float
    lowest: float
    wrong: float
    any_wrong: float
    told: float
    width: float
    bias: float


class Setting(NamedTuple):
    """Where logs come from."""

    part: str
    world: str
    production: str
    shocks: float


# --- verdicts of evaluate -------------------------------------------------------------------------


def equal(name: str, seed: int, logs: int) -> Iterator[Said]:
    """Candidates that rank otherwise and have exactly production's value."""
    simulation, moving = steady(name, seed), drifting(name, seed)
    # Where no two items are alike, twins are not worth the same.
    alike = name != "ListSpecific"
    kind, made = "twins" if alike else "mixture", of_known_value(simulation)
    candidates = {kind: twins(simulation) if alike else made[kind]}
    own = {"mixture": of_known_value(moving)["mixture"]}
    for shocks in SHOCKS:
        yield from judged(Setting("equal", name, "steady", shocks), simulation, candidates, logs)
        yield from judged(Setting("equal", name, "drifting", shocks), moving, own, logs)


def unequal(name: str, seed: int, logs: int) -> Iterator[Said]:
    """The best and the worst of the rankings that production shows."""
    simulation = steady(name, seed)
    made = of_known_value(simulation)
    candidates = {kind: made[kind] for kind in ("best", "worst")}
    yield from judged(Setting("unequal", name, "steady", SHOCKS[1]), simulation, candidates, logs)


def judged(
    setting: Setting,
    simulation: Simulation,
    candidates: dict[str, fc.Lists],
    logs: int,
    pack: int = 400,
) -> Iterator[Said]:
    """The verdicts of `evaluate` on every candidate, from so many logs."""
    simulation = replace(simulation, shock_sd=setting.shocks)
    base = simulation.value(simulation.logging(), METRIC)
    change = {kind: simulation.value(p, METRIC) - base for kind, p in candidates.items()}
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for first in range(0, logs, pack):
        numbers = range(first, min(first + pack, logs))
        log = fc.tally(packed(simulation, numbers, "period"))
        for kind, policy in candidates.items():
            for row in fc.evaluate(log, in_each(policy, numbers), **ASKED, by="replication"):
                found[kind, row["estimator"]].append(row)
    for (kind, estimator), rows in found.items():
        words = Counter(_word(row) for row in rows)
        seen = [row for row in rows if row["change_low"] is not None]
        inside = sum(row["change_low"] <= change[kind] <= row["change_high"] for row in seen)
        yield Said(
            **setting._asdict(),
            candidate=kind,
            estimator=estimator,
            holds=estimator in HOLDS[setting.world],
            logs=len(rows),
            lift=change[kind] / base,
            seen=float(np.mean([row["lift"] for row in seen])) if seen else None,
            better=words["better"] / len(rows),
            worse=words["worse"] / len(rows),
            unknown=words["cannot tell"] / len(rows),
            covers=inside / len(rows),
        )


def _word(row: dict[str, Any]) -> str:
    """The verdict on one log alone: that of the table allows for all logs as segments at once."""
    low, high = row["change_low"], row["change_high"]
    if low is None:
        return "cannot tell"
    return "better" if low > 0 else "worse" if high < 0 else "cannot tell"


# --- pairs of candidates --------------------------------------------------------------------------


def pairs(world: str, positions: int, seed: int, logs: int, shocks: float) -> Iterator[Paired]:
    """Two candidates that differ by one adjacent swap in a fifth of the contexts."""
    simulation, candidates = swapping(world, positions, seed)
    simulation = replace(simulation, shock_sd=shocks)
    metric = f"dcg@{positions}"
    truth = simulation.value(candidates["swapped"], metric)
    truth -= simulation.value(candidates["plain"], metric)
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for number in range(logs):
        table = simulation.sample(seed=1000 + number)
        log = fc.tally(fc.read_log(table, context="query", period="day"))
        for estimator, *each in _compared(log, candidates, metric):
            found[estimator].append(tuple(each))
    for estimator, numbers in found.items():
        change, se, low, high, apart = np.array(numbers).T
        yield Paired(
            part="pairs",
            world=world,
            positions=positions,
            shocks=shocks,
            estimator=estimator,
            holds=estimator in (*HOLDS[world], "ladder"),
            logs=logs,
            change=truth,
            se=float(se.mean()),
            shorter=float(apart.mean() / se.mean()),
            covers=float(np.mean((low <= truth) & (truth <= high))),
            ratio=float(se.mean() / change.std()),
        )


def _compared(
    log: fc.Tally, candidates: dict[str, fc.Lists], metric: str
) -> Iterator[tuple[str, float, float, float, float, float]]:
    """(estimator, change, se, low, high, unpaired se): `compare`, by several estimators at once."""
    question = Question(
        candidates=[candidates["swapped"], candidates["plain"]],
        estimators=parse_estimators([*BY, "ladder"]),
        metrics=parse_metrics(metric),
        clusters=("period",),
    )
    answer = estimate(log, question)
    for one, two in zip(answer.of_candidate(0), answer.of_candidate(1), strict=True):
        found = inference.contrasts(
            [one.value or 0.0, two.value or 0.0, one.production or 0.0],
            answer.joint([one, two], production=True),
            [(0, 1)],
            0.95,
            answer.freedom(0),
        )
        change, se = float(found.change[0]), float(found.se[0])
        apart = math.sqrt(float(one.covariance[0, 0] + two.covariance[0, 0]))
        reach = found.reach * se
        yield one.estimator, change, se, change - reach, change + reach, apart


# --- compare by the ladder, or by ip --------------------------------------------------------------


def compared(name: str, seed: int, logs: int) -> Iterator[Compared]:
    """`compare` of three candidates of known value, by the estimators that may be its default."""
    for production, made in (("steady", steady(name, seed)), ("drifting", drifting(name, seed))):
        simulation = replace(made, shock_sd=SHOCKS[1])
        candidates: dict[str, fc.Policy] = dict(of_known_value(simulation))
        truth = {kind: simulation.value(p, METRIC) for kind, p in candidates.items()}
        truth["production"] = simulation.value(simulation.logging(), METRIC)
        rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for number in range(logs):
            table = simulation.sample(seed=1000 + number)
            log = fc.tally(fc.read_log(table, context="query", period="day"))
            for by in (None, "ladder", "ip"):
                for row in fc.compare(log, candidates, metrics=METRIC, estimators=by):
                    pair = row["candidate"], row["against"]
                    rows[by or "default"].append((*pair, row | {"log": number}))
        for by, found in rows.items():
            yield _summed(name, production, by, logs, found, truth)


def _summed(
    name: str,
    production: str,
    by: str,
    logs: int,
    found: list[tuple[Any, ...]],
    truth: dict[str, float],
) -> Compared:
    pairs: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for one, other, row in found:
        pairs[one, other].append(row)
    covers, bias, told, differ = [], [], 0, 0
    wrong: list[int] = []  # the logs of such verdicts
    for (one, other), rows in pairs.items():
        change = truth[one] - truth[other]
        covers.append(np.mean([row["low"] <= change <= row["high"] for row in rows]))
        bias.append(abs(np.mean([row["change"] for row in rows]) - change))
        right, false = ("better", "worse") if change > 0 else ("worse", "better")
        equal = abs(change) < 1e-9
        denied = {false, right} if equal else {false}
        wrong += [row["log"] for row in rows if row["verdict"] in denied]
        told += 0 if equal else sum(row["verdict"] == right for row in rows)
        differ += 0 if equal else len(rows)
    return Compared(
        part="compare",
        world=name,
        production=production,
        estimator=by,
        logs=logs,
        covers=float(np.mean(covers)),
        lowest=float(min(covers)),
        wrong=len(wrong) / len(found),
        any_wrong=len(set(wrong)) / logs,
        told=told / differ,
        width=float(np.mean([row["high"] - row["low"] for *_, row in found])) / truth["production"],
        bias=float(max(bias)) / truth["production"],
    )


# --- what is printed ------------------------------------------------------------------------------


def main() -> None:
    """Run the parts that are asked for, and print their tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parts = ("pairs", "equal", "unequal", "compare")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--worlds", nargs="+", choices=list(HOLDS), default=list(HOLDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", type=int, default=2_000, help="of candidates of equal value")
    parser.add_argument("--few", type=int, default=400, help="logs of the other parts")
    parser.add_argument("--out", type=Path, help="also write all numbers to this JSON file")
    options = parser.parse_args()
    found: list[Said | Paired | Compared] = []
    start = time.perf_counter()
    for one in run(options):
        found.append(one)
        print(one, f"[{time.perf_counter() - start:.0f} s]", flush=True)
        if options.out:
            options.out.write_text(json.dumps([asdict(f) for f in found], indent=1))
    for table in tables(found):
        print(f"\n{table}")


def run(options: argparse.Namespace) -> Iterator[Said | Paired | Compared]:
    """Everything that is asked for."""
    for name in options.worlds:
        if "equal" in options.parts:
            yield from equal(name, options.seed, options.logs)
        if "unequal" in options.parts:
            yield from unequal(name, options.seed, options.few)
        if "compare" in options.parts:
            yield from compared(name, options.seed, options.few // 2)
    if "pairs" in options.parts:
        for name, positions in itertools.product(("PBM", "DCTR"), (3, 10)):
            yield from pairs(name, positions, options.seed, options.few, SHOCKS[1])


def tables(found: Sequence[Said | Paired | Compared]) -> Iterator[str]:
    """Markdown, by part."""
    paired = [f for f in found if isinstance(f, Paired)]
    if paired:
        yield f"pairs, {paired[0].logs:,} logs\n\n{_paired_table(paired)}"
    sides = [f for f in found if isinstance(f, Compared)]
    if sides:
        yield f"compare, {sides[0].logs:,} logs\n\n{_compared_table(sides)}"
    said = [f for f in found if isinstance(f, Said)]
    for part in dict.fromkeys(f.part for f in said):
        mine = [f for f in said if f.part == part]
        yield f"{part}, {mine[0].logs:,} logs\n\n{_said_table(mine)}"


def _paired_table(found: Sequence[Paired]) -> str:
    rows = [
        "| world | positions | estimator | shorter | covers | se / sd |",
        "|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {p.world} | {p.positions} | `{p.estimator}` | {p.shorter:.1f} × | "
        f"{f'{p.covers:.1%}' if p.holds else '–'} | {p.ratio:.2f} |"
        for p in found
    ]
    return "\n".join(rows)


def _compared_table(found: Sequence[Compared]) -> str:
    rows = [
        "| world | ranker | estimator | covers | worst | wrong | in any | right | width | bias |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {c.world} | {c.production} | `{c.estimator}` | {c.covers:.1%} | {c.lowest:.1%} | "
        f"{c.wrong:.1%} | {c.any_wrong:.1%} | {c.told:.1%} | {c.width:.1%} | {c.bias:.1%} |"
        for c in found
    ]
    return "\n".join(rows)


def _said_table(found: Sequence[Said]) -> str:
    """A row for a candidate, a column for an estimator: better / worse, * under a wrong model."""
    names = " | ".join(f"`{name}`" for name in ESTIMATORS)
    rows = [
        f"| world | ranker | shocks | candidate | lift | {names} |",
        "|---|---|---|---|---|" + "---|" * len(ESTIMATORS),
    ]
    lines: dict[tuple[Any, ...], dict[str, str]] = defaultdict(dict)
    for s in found:
        line = s.world, s.production, f"{s.shocks:.0%}", s.candidate, f"{s.lift:+.1%}"
        words = f"{s.better:.1%} / {s.worse:.1%}"
        lines[line][s.estimator] = words if s.holds else f"{words} \\*"
    for line, words_of in lines.items():
        rows.append(f"| {' | '.join([*line, *(words_of[name] for name in ESTIMATORS)])} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
