"""Do anytime intervals hold at sixty looks together?

python -m benchmarks.anytime --parts record period
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.replications import (
    METRIC,
    Integers,
    Scene,
    in_each,
    make_scene,
    own_contexts,
)
from foreclick import inference
from foreclick.simulate import item_ids
from foreclick.tallies.base import FEW_PERIODS

LOOKS = 60
ESTIMATORS = ("list", "ip")
CANDIDATE = "stochastic"
SHOCK = 0.1
DAYS = FEW_PERIODS + LOOKS - 1
HEAD = "| clusters | world | estimator | logs | looks | anytime | sampling | one look | reach |"


# --- sixty looks at a log that grows ------------------------------------------------------------


def looks(clusters: str, name: str, replications: int, daily: int, seed: int = 1) -> Iterator[str]:
    """Logs that grow by a day at a time: how many hold the truth at every look.

    Days differ by independent shocks of 10 % where clusters are periods, and not at all where they
    are records. What is drawn is how often each outcome happened on each day.
    """
    scene = make_scene(name, seed)
    rng = np.random.default_rng([seed, daily])
    pack = 10 if clusters == "period" else 100  # into one log
    policy = scene.candidates[CANDIDATE]
    truth = scene.world.value(policy, METRIC)
    found: dict[str, list[tuple[bool, bool, float, float]]] = {e: [] for e in ESTIMATORS}
    for first in range(0, replications, pack):
        some = min(pack, replications - first)
        log = _grown(scene, clusters, _counts(scene, clusters, some, daily, rng))
        asked = {"metrics": METRIC, "estimators": ESTIMATORS, "by": ["replication", "look"]}
        each = in_each(policy, range(some * (DAYS + 1)))
        sure = fc.Confidence(clusters="auto" if clusters == "period" else "record", anytime=True)
        answer = fc.evaluate(log, each, **asked, confidence=sure)
        rows = sorted(answer, key=lambda r: (r["estimator"], r["replication"], r["look"]))
        for (estimator, _), grown in itertools.groupby(
            rows, key=lambda r: (r["estimator"], r["replication"])
        ):
            found[estimator].append(_held(list(grown), clusters, truth))
    for estimator, held in found.items():
        always, peeking, once, reach = np.mean(held, axis=0)
        yield (
            f"| {clusters} | {name} | `{estimator}` | {len(held)} | {LOOKS} | {always:.1%} | "
            f"{peeking:.1%} | {once:.1%} | {reach:.2f} |"
        )


def _held(grown: list[dict[str, object]], clusters: str, truth: float) -> tuple[float, ...]:
    """Whether all looks hold the truth; by sampling intervals; how many of those do; the reach."""
    columns = ("value", "se", "low", "high", "look")
    value, se, low, high, look = np.array([[row[c] for c in columns] for row in grown], float).T
    assert len(look) == LOOKS
    freedom = look - 1 if clusters == "period" else np.full(LOOKS, np.inf)
    reach = np.array([inference.quantile(0.95, f) for f in freedom])
    once = np.abs(value - truth) <= reach * se
    holds = (low <= truth) & (truth <= high)
    return (
        float(holds.all()),
        float(once.all()),
        float(once.mean()),
        float(np.mean((high - value) / se)),
    )


def _counts(
    scene: Scene, clusters: str, replications: int, daily: int, rng: np.random.Generator
) -> Integers:
    """(replication, day, outcome): how often each happened."""
    which, clicks, chances = scene.outcomes
    if clusters == "record":
        return rng.multinomial(daily, chances, size=(replications, DAYS))
    spread = np.log1p(SHOCK**2)
    shocks = rng.lognormal(-spread / 2, np.sqrt(spread), (replications, DAYS))
    rates = scene.world.clicks(np.zeros(len(scene.lists), dtype=np.int64), scene.lists)
    drawn = []
    for days in shocks:
        shocked = days[:, None, None] * rates[which]
        assert shocked.max() < 1, "a rate that is cut at 1 would move the truth"
        each = np.where(clicks == 1, shocked, 1 - shocked).prod(axis=2) * scene.logged[which]
        drawn.append(rng.multinomial(daily, each / each.sum(axis=1, keepdims=True)))
    return np.stack(drawn)


def _grown(scene: Scene, clusters: str, counts: Integers) -> fc.Log:
    """A log with a segment for each look at each replication: all days until then."""
    parts = []
    for look in range(FEW_PERIODS, DAYS + 1):
        if clusters == "period":
            replication, day, outcome = np.nonzero(counts[:, :look])
            often = counts[replication, day, outcome]
        else:
            summed = counts[:, :look].sum(axis=1)
            replication, outcome = np.nonzero(summed)
            day, often = np.zeros_like(outcome), summed[replication, outcome]
        parts.append((replication, np.full_like(day, look), day, outcome, often))
    replication, look_of, day, outcome, often = (
        np.concatenate(p) for p in zip(*parts, strict=True)
    )
    which, clicks, _ = scene.outcomes
    known = {"replication": replication, "look": look_of, "day": day}
    lists = scene.lists[which[outcome]]
    # A look has contexts of its own, as a replication does.
    own = own_contexts(replication * (DAYS + 1) + look_of, np.zeros_like(day))
    return _read(own, lists, clicks[outcome], often, known, period="day")


def _read(
    contexts: Integers,
    lists: Integers,
    clicks: Integers,
    often: Integers,
    segments: dict[str, Integers],
    **roles: str,
) -> fc.Log:
    """Rows that stand for several records each, as a log."""
    ids = item_ids(np.zeros_like(contexts)[:, None], lists)
    items = {f"item_{k}": ids[:, k] for k in range(ids.shape[1])}
    rewards = {f"click_{k}": clicks[:, k] for k in range(ids.shape[1])}
    return fc.read_log(
        pa.table({"context": contexts, "often": often} | segments | items | rewards),
        items=list(items),
        clicks=list(rewards),
        segments=[name for name in segments if name not in roles.values()],
        count="often",
        **roles,
    )


def main() -> None:
    """Run the parts that are asked for, and print their tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parts = ("record", "period")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--worlds", nargs="+", choices=["PBM", "ItemPosition"], default=["PBM"])
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--daily", type=int, default=300, help="records a day")
    options = parser.parse_args()
    print(f"{HEAD}\n|---|---|---|---|---|---|---|---|---|")
    for clusters, world in itertools.product(options.parts, options.worlds):
        for line in looks(clusters, world, options.replications, options.daily):
            print(line, flush=True)


if __name__ == "__main__":
    main()
