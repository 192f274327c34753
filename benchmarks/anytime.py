"""Do anytime intervals hold at sixty looks together?

python -m benchmarks anytime --parts record period
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

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
from benchmarks.study import LOGS, Row, Rows, Task, mean, study
from foreclick import inference
from foreclick.simulate import item_ids
from foreclick.tallies.base import FEW_PERIODS

LOOKS = 60
ESTIMATORS = ("list", "ip")
CANDIDATE = "stochastic"
SHOCK = 0.1
DAYS = FEW_PERIODS + LOOKS - 1


@study(
    "anytime",
    ["clusters", "world", "estimator"],
    LOGS,
    mean("anytime", form=".1%"),
    mean("sampling", form=".1%"),
    mean("one look", form=".1%"),
    mean("reach", form=".2f"),
)
def anytime(
    parts: list[str] = ["record", "period"],
    worlds: list[str] = ["PBM"],
    replications: int = 400,
    daily: int = 300,
    seed: int = 1,
) -> Iterator[Task]:
    """How many logs that grow by a day at a time hold the truth at every look."""
    for clusters, world in itertools.product(parts, worlds):
        yield partial(looks, clusters, world, replications, daily, seed)


def looks(clusters: str, name: str, replications: int, daily: int, seed: int) -> list[Row]:
    """A row for each log and estimator.

    Days differ by independent shocks of 10 % where clusters are periods, and not at all where they
    are records. What is drawn is how often each outcome happened on each day.
    """
    scene = make_scene(name, seed)
    rng = np.random.default_rng([seed, daily])
    pack = 10 if clusters == "period" else 100  # into one log
    policy = scene.candidates[CANDIDATE]
    truth = scene.world.value(policy, METRIC)
    found: list[Row] = []
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
            key = {"clusters": clusters, "world": name, "estimator": estimator}
            found.append(key | held(Rows(grown), clusters, truth))
    return found


def held(grown: Rows, clusters: str, truth: float) -> Row:
    """Whether all looks hold the truth; by sampling intervals; how many of those do; the reach."""
    value, se, low, high, look = (grown.of(c) for c in ("value", "se", "low", "high", "look"))
    assert len(look) == LOOKS
    freedom = look.astype(float) - 1 if clusters == "period" else np.full(LOOKS, np.inf)
    once = np.abs(value - truth) <= np.array([inference.quantile(0.95, f) for f in freedom]) * se
    return {
        "anytime": bool(((low <= truth) & (truth <= high)).all()),
        "sampling": bool(once.all()),
        "one look": float(once.mean()),
        "reach": float(np.mean((high - value) / se)),
    }


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
