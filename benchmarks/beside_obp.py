"""foreclick beside obp's slate estimators, on one log with given propensities: `make obp`.

Both weigh a simulated log by the propensities that it was drawn with, without a clip. Every
measurement is a process of its own, in turn. obp starts with arrays in memory, the candidate's
probability of every logged slot among them; foreclick with a Parquet file and a table of lists.
Times are of processors, all cores together, which other work on the machine changes little.

obp needs a Python of its own, 3.10 at most: --python says which. Not called obp.py, which would
be what `import obp` finds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

CONTEXTS, ITEMS, POSITIONS = 1000, 6, 3
SLOW = 20.0  # seconds
SAME = 1e-9  # sums of a million doubles in another order
BOTH = {
    # our estimator: obp's, and what it calls the propensities of such cells
    "ip": ("SlateIndependentIPS", "pscore_item_position"),
    "prefix": ("SlateRewardInteractionIPS", "pscore_cascade"),
    "list": ("SlateStandardIPS", "pscore"),
}


# --- the log ------------------------------------------------------------------------------------


def write(records: int, folder: Path, seed: int = 0) -> None:
    """The same log twice: Parquet with a table of the candidate's lists, and arrays."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    lists = np.array(list(itertools.permutations(range(ITEMS), POSITIONS)))
    logging, candidate = (
        _plackett_luce(rng.normal(size=(CONTEXTS, ITEMS)), lists) for _ in range(2)
    )
    context = rng.integers(CONTEXTS, size=records)
    draws = rng.random(records)
    which = (draws[:, None] > logging.cumsum(axis=1)[context]).sum(axis=1).clip(max=len(lists) - 1)
    shown = lists[which]
    attraction = rng.uniform(0.05, 0.6, size=(CONTEXTS, ITEMS))
    rate = attraction[context[:, None], shown] / np.arange(1, POSITIONS + 1)
    clicks = (rng.random(rate.shape) < rate).astype(np.int8)

    sides = {"": logging, "evaluation_policy_": candidate}
    arrays = {
        "slate_id": np.repeat(np.arange(records), POSITIONS),
        "position": np.tile(np.arange(POSITIONS), records),
        "reward": clicks.ravel().astype(np.float64),
    }
    for model, (_, name) in BOTH.items():
        for side, chances in sides.items():
            of_cells = _of_cells(model, chances, lists)[context, which]
            arrays[side + name] = of_cells.ravel()
    np.savez(folder / "log.npz", **arrays)

    def arrays_of(values: np.ndarray) -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), POSITIONS)

    table = {"context": context, "items": arrays_of(shown), "clicks": arrays_of(clicks)}
    for model, (_, name) in BOTH.items():
        given = arrays[name].reshape(-1, POSITIONS)
        table[model] = given[:, 0] if model == "list" else arrays_of(given)
    pq.write_table(pa.table(table), folder / "log.parquet")
    policy = {
        "context": np.repeat(np.arange(CONTEXTS), len(lists)),
        "items": arrays_of(np.tile(lists, (CONTEXTS, 1))),
        "probability": candidate.ravel(),
    }
    pq.write_table(pa.table(policy), folder / "candidate.parquet")


def _plackett_luce(scores: np.ndarray, lists: np.ndarray) -> np.ndarray:
    """The chance of each list in each context."""
    left = np.exp(scores)[:, lists]
    others = np.exp(scores).sum(axis=1)[:, None, None] - left.cumsum(axis=2) + left
    return (left / others).prod(axis=2)


def _of_cells(model: str, chances: np.ndarray, lists: np.ndarray) -> np.ndarray:
    """(context, list, position) → the chance of what the model takes the slot for."""
    found = np.empty((*chances.shape, POSITIONS))
    for k in range(POSITIONS):
        part = {"list": lists, "ip": lists[:, [k]], "prefix": lists[:, : k + 1]}[model]
        alike = (part[:, None, :] == part[None, :, :]).all(axis=2).astype(np.float64)
        found[:, :, k] = chances @ alike
    return found


# --- one measurement, in a process of its own ---------------------------------------------------


def ours(folder: Path, model: str, *, interval: bool) -> dict[str, float]:
    """Parquet to a value, and to its interval."""
    import foreclick as fc
    from foreclick.engines import laptop

    engine = laptop()
    clock = _Clock()
    row = fc.evaluate(
        fc.read_log(folder / "log.parquet", propensity=model, engine=engine),
        fc.Lists(folder / "candidate.parquet"),
        estimators=model,
        metrics=f"clicks@{POSITIONS}",
        logging="propensity",
        confidence=fc.Confidence(clusters="record") if interval else None,
    ).to_dicts()[0]
    found = {**clock.read(), "value": row["value"]}
    return found | ({"low": row["low"], "high": row["high"]} if interval else {})


def theirs(folder: Path, model: str, *, interval: bool) -> dict[str, float]:
    """Arrays to a value, and to its interval: obp's own settings, 10,000 bootstrap samples."""
    import obp.ope

    name, given = BOTH[model]
    estimator = getattr(obp.ope, name)(len_list=POSITIONS)
    wanted = ("slate_id", "position", "reward", given, f"evaluation_policy_{given}")
    with np.load(folder / "log.npz") as stored:
        arrays = {column: stored[column] for column in wanted}
    clock = _Clock()
    value = estimator.estimate_policy_value(**arrays)
    ends = estimator.estimate_interval(**arrays, random_state=0) if interval else {}
    found = {**clock.read(), "value": float(value)}
    return found | {
        end: float(ends[f"95.0% CI ({said})"])
        for end, said in (("low", "lower"), ("high", "upper"))
        if interval
    }


def limited(who: str, folder: Path, model: str, limit: int, *, interval: bool) -> dict[str, float]:
    """A measurement; after so many seconds of a processor, if not 0, only that it took longer."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return {"ours": ours, "theirs": theirs}[who](folder, model, interval=interval)
    except TimeoutError:
        return {"memory": _peak()}


class _Clock:
    """What a process took since the clock was made."""

    def __init__(self) -> None:
        self.start = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        wall, own = self.start
        passed = {"wall": time.perf_counter() - wall, "seconds": time.process_time() - own}
        return {**passed, "memory": _peak()}


def _peak() -> float:
    """The largest resident size of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


# --- the run ------------------------------------------------------------------------------------


def measure(
    who: str, args: argparse.Namespace, folder: Path, model: str, *, interval: bool
) -> dict[str, float]:
    """The round of median time, with the largest memory of all."""
    python, limit = (sys.executable, 0) if who == "ours" else (args.python, args.limit)
    words = [who, str(folder), model, "interval" if interval else "value"]
    command = [python, __file__, "--limit", str(limit), "--one", *words]
    rounds: list[dict[str, float]] = []
    while len(rounds) < args.rounds and not _slow(rounds):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        rounds.append(json.loads(done.stdout))
    peak = max(r["memory"] for r in rounds)
    if "seconds" not in rounds[0]:
        return {"memory": peak}
    middle = statistics.median_low(r["seconds"] for r in rounds)
    return next(r for r in rounds if r["seconds"] == middle) | {"memory": peak}


def _slow(rounds: list[dict[str, float]]) -> bool:
    """Whether the last round took so long that chance hardly matters."""
    return bool(rounds) and rounds[-1].get("seconds", np.inf) > SLOW


def report(records: int, args: argparse.Namespace, folder: Path) -> None:
    """One row per estimator and task."""
    hopeless = False  # all of obp's intervals are one loop: after one that was stopped, no other
    for interval, model in itertools.product((False, True), BOTH):
        mine = measure("ours", args, folder, model, interval=interval)
        row = [f"{records:,}", f"`{model}`, {'interval' if interval else 'value'}", _time(mine)]
        if interval and hopeless:
            row += ["", "", f"{mine['memory']:.2f} GB", "", "not run"]
        else:
            other = measure("theirs", args, folder, model, interval=interval)
            hopeless |= interval and "seconds" not in other
            row += _beside(mine, other, args.limit)
        print(f"| {' | '.join(row)} |", flush=True)


def _beside(mine: dict[str, float], other: dict[str, float], limit: int) -> list[str]:
    """Their time, the ratio, both peaks, and how far the answers agree."""
    peaks = [f"{side['memory']:.2f} GB" for side in (mine, other)]
    if "seconds" not in other:
        return [f"> {limit} s", f"< {mine['seconds'] / limit:.2g} ×", *peaks, "stopped"]
    gap = abs(mine["value"] / other["value"] - 1)
    assert gap < SAME, (mine, other)
    said = f"{gap:.0e}"
    if "low" in mine:
        widths = [side["high"] - side["low"] for side in (mine, other)]
        said += f"; width {widths[0] / widths[1]:.3f} ×"
    return [_time(other), f"{mine['seconds'] / other['seconds']:.2g} ×", *peaks, said]


def _time(side: dict[str, float]) -> str:
    return f"{side['seconds']:.2f} s ({side['wall']:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", help="an interpreter that has obp")
    parser.add_argument("--records", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--limit",
        type=int,
        default=180,
        help="seconds of a processor that one measurement may take",
    )
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        who, folder, model, task = args.one
        found = limited(who, Path(folder), model, args.limit, interval=task == "interval")
        print(json.dumps(found))
        return
    if not args.python:
        parser.error("give the interpreter that has obp: --python PATH")
    print(
        "| lists | | foreclick | obp | ratio | foreclick's peak | obp's peak | values differ by |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for records in args.records:
        with tempfile.TemporaryDirectory() as folder:
            # Elsewhere, because a process counts what its parent had in memory as its own peak.
            with ProcessPoolExecutor(1, get_context("spawn")) as elsewhere:
                elsewhere.submit(write, records, Path(folder)).result()
            report(records, args, Path(folder))


if __name__ == "__main__":
    main()
