"""What the default answer says of candidates whose worth is known: `make headline`, 20 minutes.

| part | candidate | asked |
|---|---|---|
| null | worth exactly production's | how often it is called better or worse |
| segments | the same, in 20 segments without effect | how often any of them is |
| power | worth 5 % more | how often it is called better; by `ip` alone, too |
| unseen | new items: duds, a star, few records a context | false verdicts, by what is new |
| order | the same three items in another order | how often intervals of clicks@3 miss the truth |
| pbm | worth exactly production's | verdicts and intervals of `pbm` with 1/k, and by its name |

python -m benchmarks.headline null power --worlds PBM --logs 20 --seed 1
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import foreclick as fc
from benchmarks.replications import make_world, policy_of, zipf
from foreclick import simulate

METRIC, POSITIONS, CONTEXTS, ITEMS, LISTS, DAYS, RECORDS = "dcg@5", 5, 12, 8, 60, 14, 20_000
WORLDS = ("PBM", "DBN", "Cascade", "DCM")
FLAT = "flat PBM"  # looked at as 1/√k, for `pbm`
SEGMENTS = 20

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Scene(NamedTuple):
    """A world and its ranker; lists that it shows, with their worth and how often they are shown.

    Attributes:
        lists: Shape (CONTEXTS, LISTS, POSITIONS).
        worth: Shape (CONTEXTS, LISTS).
        shown: Shape (LISTS,).
    """

    simulation: simulate.Simulation
    lists: Integers
    worth: Floats
    shown: Floats


def scene(name: str, seed: int) -> Scene:
    """A fresh world."""
    rng = np.random.default_rng([seed, (*WORLDS, FLAT).index(name)])
    if name == "DCM":
        attraction = rng.uniform(0.05, 0.6, (CONTEXTS, ITEMS))
        world: Any = simulate.DCM(attraction, np.linspace(0.7, 0.4, POSITIONS))
    elif name == FLAT:
        attraction = rng.uniform(0.05, 0.6, (CONTEXTS, ITEMS))
        world = simulate.PBM(attraction, 1 / np.arange(1, POSITIONS + 1) ** 0.5)
    else:
        world = make_world(name, rng, CONTEXTS, ITEMS, positions=POSITIONS)
    every = np.tile(np.arange(ITEMS), (CONTEXTS, LISTS, 1))
    lists = rng.permuted(every, axis=2)[..., :POSITIONS]
    flat, context = lists.reshape(-1, POSITIONS), np.repeat(np.arange(CONTEXTS), LISTS)
    theta = np.array(fc.Metric(METRIC).theta)
    worth = (world.clicks(context, flat) @ theta).reshape(CONTEXTS, LISTS)
    shown = zipf(LISTS)
    ranker = simulate.Stationary(context, flat, np.tile(shown, CONTEXTS), DAYS)
    return Scene(simulate.Simulation(world, ranker, RECORDS), lists, worth, shown)


def candidate(made: Scene, lift: float) -> fc.Lists:
    """Production's lists with a better or a worse one, as often as makes it worth so much more.

    With a lift of 0: of each context the best and the worst of the lists that were shown.
    """
    rows = np.arange(CONTEXTS)
    own = made.worth @ made.shown
    best, worst = made.worth.argmax(axis=1), made.worth.argmin(axis=1)
    high, low = made.worth[rows, best], made.worth[rows, worst]
    if not lift:
        share = (own - low) / (high - low)
        lists = np.concatenate([made.lists[rows, best], made.lists[rows, worst]])
        return policy_of(lists, np.concatenate([share, 1 - share]), np.tile(rows, 2))
    share = lift * own.mean() / (high - own).mean()
    mass = np.tile((1 - share) * made.shown, (CONTEXTS, 1))
    mass[rows, best] += share
    return policy_of(made.lists.reshape(-1, POSITIONS), mass.ravel(), np.repeat(rows, LISTS))


def logged(made: Scene, seed: int) -> fc.Log:
    """A log of it, with a segment that means nothing."""
    table = made.simulation.sample(seed=seed)
    segment = np.random.default_rng([seed, 9]).integers(0, SEGMENTS, len(table))
    table = table.append_column("segment", pa.array(segment))
    return fc.read_log(table, context="query", period="day", segments="segment")


def verdicts(part: str, name: str, seed: int, logs: int) -> Iterator[str]:
    """How often which word is said, of so many logs from as many worlds."""
    said: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for number in range(seed, seed + logs):
        made = scene(name, number)
        log = logged(made, number)
        policy = candidate(made, 0.05 if part == "power" else 0.0)
        if part == "segments":
            found = fc.evaluate(log, policy, metrics=METRIC, by="segment")
            mine = {row["verdict"] for row in found if row["estimator"] == "ladder"}
            said["better or worse"] += bool(mine & {"better", "worse"})
            continue
        rows = fc.evaluate(log, policy, metrics=METRIC).to_dicts()
        said[rows[0]["verdict"]] += 1
        (only,) = fc.evaluate(log, policy, metrics=METRIC, estimators="ip").to_dicts()
        alone[only["verdict"]] += 1
    yield f"| {part} | {name} | {logs} | {_words(said)} | {_words(alone)} |"


def examined(part: str, name: str, seed: int, logs: int) -> Iterator[str]:
    """What `pbm` says of a candidate worth what production is: by 1/k, and by the log's own p.

    Of its value: how often intervals hold it, how wide they are, and how far it is off.
    """
    sides = {"1/k": fc.Weighted("pbm", examination="1/k"), "learnt": "pbm"}
    said: dict[str, Counter[str]] = {side: Counter() for side in sides}
    held: dict[str, list[tuple[bool, float, float]]] = {side: [] for side in sides}
    for number in range(seed, seed + logs):
        made = scene(name, number)
        log, truth = fc.tally(logged(made, number)), float((made.worth @ made.shown).mean())
        for side, by in sides.items():
            (row,) = fc.evaluate(log, candidate(made, 0.0), metrics=METRIC, estimators=by)
            said[side][str(row["verdict"])] += 1
            low, high, value = (float(row[end]) / truth for end in ("low", "high", "value"))
            held[side].append((low <= 1 <= high, high - low, (value - 1) ** 2))
    for side in sides:
        covers, width, squared = np.mean(held[side], axis=0)
        words = (
            f"{_words(said[side])}; holds {covers:.0%}, {width:.1%} wide, off {squared**0.5:.1%}"
        )
        yield f"| {part}, {side} | {name} | {logs} | {words} | |"


def unseen(_: str, name: str, seed: int, logs: int) -> Iterator[str]:
    """Candidates with items that were never shown, in a PBM."""
    if name != "PBM":
        return
    kinds = {"duds": (0.005, 30_000), "star": (0.95, 30_000), "thin": (0.3, 2_000)}
    for kind, (attraction, records) in kinds.items():
        said: dict[str, Counter[str]] = {}
        for number in range(seed, seed + logs):
            rng = np.random.default_rng([number, list(kinds).index(kind)])
            contexts = 200 if kind == "thin" else 30
            most = 0.4 if kind == "star" else 0.6
            known = np.sort(rng.uniform(0.2, most, (contexts, 7)), axis=1)[:, ::-1]
            rates = np.concatenate([known, np.full((contexts, 5), attraction)], axis=1)
            log, own = _ranked(rates, records, rng)
            new = {"duds": [0, 1, 7, 8, 9], "star": [7, 3, 4, 5, 6], "thin": [0, 7, 1, 8, 2]}[kind]
            theta, examined = np.array(fc.Metric(METRIC).theta), 1 / np.arange(1, 6)
            better = float((rates[:, new] * examined @ theta).mean()) > own
            policy = fc.Ranking({"context": list(range(contexts)), "items": [new] * contexts})
            for row in fc.evaluate(log, policy, metrics=METRIC, estimators="all"):
                wrong = row["verdict"] == ("worse" if better else "better")
                said.setdefault(str(row["estimator"]), Counter())[
                    "wrong" if wrong else "other"
                ] += 1
        counts = ", ".join(f"`{e}` {c['wrong']}" for e, c in said.items())
        yield f"| unseen, {kind} | PBM | {logs} | false verdicts: {counts} | |"


def _ranked(rates: Floats, records: int, rng: np.random.Generator) -> tuple[fc.Log, float]:
    """A log of the first seven items, sorted by attraction and chance, and its true worth."""
    contexts = len(rates)
    x, day = rng.integers(0, contexts, records), rng.integers(0, DAYS, records)
    score = np.log(rates[x, :7]) + 0.4 * rng.gumbel(size=(records, 7))
    lists = np.argsort(-score, axis=1)[:, :5]
    chance = rates[x[:, None], lists] / np.arange(1, 6)
    clicks = rng.random(lists.shape) < chance
    rows = {"context": x, "items": list(lists), "clicks": list(clicks.astype(np.int8)), "day": day}
    worth = float((chance @ np.array(fc.Metric(METRIC).theta)).mean())
    return fc.read_log(pa.table(rows), period="day"), worth


SHUFFLED = (
    ("flat", 4, ("day",)),
    ("flat", 1, ("day", "user")),
    ("flat", 20, ("user",)),
    ("PBM", 4, ("day",)),
    ("PBM", 20, ("user",)),
    ("PBM", 40, ("day", "user")),
)


def shuffled(part: str, name: str, seed: int, logs: int) -> Iterator[str]:
    """Three items in random order, 4,000 records on 10 days, of 800 users; another order."""
    for kind, contexts, varies in SHUFFLED if name == "PBM" else ():
        looks = np.ones(3) if kind == "flat" else np.array([1.0, 0.6, 0.4])
        missed = Counter({"ladder": 0, "ip": 0})
        for number in range(seed, seed + logs):
            rng = np.random.default_rng([number, contexts, len(varies), kind == "flat"])
            rates, x = rng.uniform(0.05, 0.5, (contexts, 3)), rng.integers(0, contexts, 4000)
            order = rng.permuted(np.tile(np.arange(3), (4000, 1)), axis=1)
            chance = rates[x[:, None], order] * looks
            rows = {"context": x, "items": list(order)}
            rows |= {"clicks": list((rng.random((4000, 3)) < chance).astype(np.int8))}
            rows |= {"day": rng.integers(0, 10, 4000), "user": rng.integers(0, 800, 4000)}
            log = fc.read_log(
                pa.table(rows),
                period="day" if "day" in varies else None,
                unit="user" if "user" in varies else None,
            )
            new = rng.permuted(np.tile(np.arange(3), (contexts, 1)), axis=1)
            worth = np.take_along_axis(rates, new, 1) @ looks
            truth = worth[x].mean() / chance.sum(axis=1).mean() - 1
            policy = fc.Ranking({"context": list(range(contexts)), "items": new.tolist()})
            for row in fc.evaluate(log, policy, metrics="clicks@3", estimators=list(missed)):
                held = row["lift_low"] <= truth <= row["lift_high"]
                missed[str(row["estimator"])] += not held
        counts = [f"{missed[e] / logs:.1%} missed" for e in missed]
        named = f"{kind}, {contexts} contexts, {' and '.join(varies)}"
        yield f"| {part} | {named} | {logs} | {counts[0]} | {counts[1]} |"


def _words(said: Counter[str]) -> str:
    return ", ".join(f"{word} {count}" for word, count in sorted(said.items()))


PARTS = {
    "null": verdicts,
    "segments": verdicts,
    "power": verdicts,
    "unseen": unseen,
    "order": shuffled,
    "pbm": examined,
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--worlds", nargs="+", choices=(*WORLDS, FLAT), default=WORLDS)
    parser.add_argument("--logs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| part | world | logs | default answer | `ip` alone |\n|---|---|---|---|---|")
    for part in options.parts or PARTS:
        for name in options.worlds:
            for line in PARTS[part](part, name, options.seed, options.logs):
                print(line, flush=True)


if __name__ == "__main__":
    main()
