"""Items that a context never showed, predicted from their features: RMSE, and do intervals hold?

Features explain half of the variance of attraction within a context, and nobody knows the rest. A
production ranker has shown six items of each context, in orders that change from record to record.
A candidate shows five, two of them new to the context: those that its features recommend, as a new
ranker would, or any. *Noise* are as many features that say nothing.

With --shared, contexts draw their items from a common pool, and what goes with the item, wherever
it is shown, explains half of the variance; ladders learn it from ids alone, `items="id"`.

    python -m benchmarks.features --logs 150 --seed 71000000
    python -m benchmarks.features --logs 60 --shared --worlds PBM
"""

from __future__ import annotations

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import foreclick as fc
from foreclick import simulate

Floats = NDArray[np.float64]

OLD, NEW, POSITIONS, WIDTH, DAYS = 6, 6, 5, 4, 14
POOL = 30  # items that contexts share
METRIC = f"dcg@{POSITIONS}"
EXAMINED = 1 / np.arange(1, POSITIONS + 1) ** 0.7
WORLDS = ("PBM", "Cascade", "DBN")


class Scene(NamedTuple):
    """A world with features, and the log of its ranker.

    Attributes:
        simulation: draws logs, and knows the truth.
        features: Shape (C, items, WIDTH).
        noise: the same shape.
        ids: Shape (C, items): under which ids items are logged.
    """

    simulation: simulate.Simulation
    features: Floats
    noise: Floats
    ids: NDArray[np.int64]


def scene(
    world: str, rng: np.random.Generator, contexts: int, records: int, *, shared: bool
) -> Scene:
    """Draw a world and its ranker."""
    shape = contexts, OLD + NEW
    ids = simulate.item_ids(np.arange(contexts)[:, None], np.arange(OLD + NEW))
    features = rng.standard_normal((*shape, WIDTH))
    if shared:
        ids = np.stack([rng.permutation(POOL)[: OLD + NEW] for _ in range(contexts)])
        features = rng.standard_normal((POOL, WIDTH))[ids]
    told = features @ rng.standard_normal(WIDTH)
    told = (told - told.mean()) / told.std()
    rest = rng.standard_normal(shape)
    usual = 0.3 * rng.uniform(0.7, 1.3, (contexts, 1))
    attraction = np.clip(usual * (1 + 0.4 * (told + rest) / np.sqrt(2)), 0.01, 0.9)
    made = {
        "PBM": lambda: simulate.PBM(attraction, EXAMINED),
        "Cascade": lambda: simulate.Cascade(attraction, POSITIONS),
        "DBN": lambda: simulate.DBN(attraction, np.full(shape, 0.6), 0.9, POSITIONS),
    }
    lists, context, chance = [], [], []
    for x in range(contexts):
        orders = np.array([rng.permutation(OLD)[:POSITIONS] for _ in range(30)])
        lists.append(orders)
        context.append(np.full(len(orders), x))
        chance.append(rng.dirichlet(np.full(len(orders), 0.5)))
    shown = simulate.Stationary(
        np.concatenate(context), np.concatenate(lists), np.concatenate(chance), days=DAYS
    )
    simulation = simulate.Simulation(made[world](), shown, records, shock_sd=0.05)
    return Scene(simulation, features, rng.standard_normal(features.shape), ids)


def candidates(found: Scene, rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """By name: lists of three old and two new items."""
    contexts = len(found.features)
    told = (
        found.features
        @ np.linalg.lstsq(
            found.features.reshape(-1, WIDTH),
            np.asarray(found.simulation.world.attraction).ravel(),  # type: ignore[attr-defined]
            rcond=None,
        )[0]
    )
    made = {"by features": -told, "at random": rng.random(told.shape)}
    answers = {}
    for name, score in made.items():
        old = np.argsort(score[:, :OLD], axis=1)[:, : POSITIONS - 2]
        new = OLD + np.argsort(score[:, OLD:], axis=1)[:, :2]
        both = np.concatenate([old, new], axis=1)
        order = np.argsort(np.take_along_axis(score, both, axis=1), axis=1)
        ids = simulate.item_ids(np.arange(contexts)[:, None], np.take_along_axis(both, order, 1))
        answers[name] = {"context": np.arange(contexts), "items": list(ids)}
    return answers


def shared(found: Scene, items: pa.ChunkedArray | list[Any]) -> list[list[int]]:
    """Lists of items by the ids under which they are logged."""
    context, item = np.divmod(np.array(pa.array(items).to_pylist()), simulate.item_ids(1, 0))  # type: ignore[arg-type]
    return found.ids[context, item].tolist()  # type: ignore[no-any-return]


def item_table(values: Floats) -> pa.Table:
    """A row for each item."""
    contexts, items, width = values.shape
    ids = simulate.item_ids(np.arange(contexts)[:, None], np.arange(items)).ravel()
    flat = values.reshape(-1, width)
    return pa.table({"item": ids} | {f"f{j}": flat[:, j] for j in range(width)})


def one_log(
    world: str,
    contexts: int,
    records: int,
    by_id: bool,  # noqa: FBT001 - for `partial`
    seed: int,
) -> list[dict[str, Any]]:
    """What each ladder says of each candidate, beside the truth."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    found = scene(world, rng, contexts, records, shared=by_id)
    table = found.simulation.sample(seed=seed)
    ladders = {"without": fc.Ladder()}
    if by_id:
        at = table.column_names.index("items")
        table = table.set_column(at, "items", pa.array(shared(found, table["items"])))
        ladders |= {"id": fc.Ladder(items="id")}
    else:
        ladders |= {
            "features": fc.Ladder(items=item_table(found.features)),
            "noise": fc.Ladder(items=item_table(found.noise)),
        }
    log = fc.tally(fc.read_log(table, context="query", period="day"))
    rows = []
    for name, lists in candidates(found, rng).items():
        truth = found.simulation.value(fc.Ranking(pa.table(lists)), METRIC)
        logged = {"items": shared(found, lists["items"])} if by_id else {}
        policy = fc.Ranking(pa.table(lists | logged))
        for ladder, estimator in ladders.items():
            row = fc.evaluate(log, policy, metrics=METRIC, estimators=estimator).to_dicts()[0]
            rows.append(row | {"candidate": name, "ladder": ladder, "truth": truth})
    return rows


def main() -> None:
    """Print a row for each world, candidate and ladder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=71_000_000)
    parser.add_argument("--logs", type=int, default=150)
    parser.add_argument("--contexts", type=int, default=40)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--worlds", nargs="+", default=WORLDS, choices=WORLDS)
    parser.add_argument("--shared", action="store_true", help="items in many contexts, by id")
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    print("| world | candidate | ladder | RMSE | RMSE / without | V(h) held | by chance | width |")
    print("|---|---|---|---|---|---|---|---|")
    for world in args.worlds:
        seeds = range(args.seed, args.seed + args.logs)
        work = partial(one_log, world, args.contexts, args.records, args.shared)
        with ProcessPoolExecutor(args.workers) as pool:
            rows = [row for log in pool.map(work, seeds) for row in log]
        for candidate in dict.fromkeys(row["candidate"] for row in rows):
            usual = None
            for ladder in dict.fromkeys(row["ladder"] for row in rows):
                mine = [r for r in rows if (r["candidate"], r["ladder"]) == (candidate, ladder)]
                off = np.array([r["value"] - r["truth"] for r in mine])
                error = float(np.sqrt(np.mean(off**2)))
                usual = usual or error
                held = np.mean([r["low"] <= r["truth"] <= r["high"] for r in mine])
                chance = np.mean([abs(r["value"] - r["truth"]) <= 2.16 * r["se"] for r in mine])
                width = np.mean([r["high"] - r["low"] for r in mine])
                print(
                    f"| {world} | {candidate} | {ladder} | {error:.4f} | {error / usual:.2f} | "
                    f"{held:.1%} | {chance:.1%} | {width:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
