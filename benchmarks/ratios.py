"""Do intervals of ratio metrics cover? `python -m benchmarks ratios --logs 300`.

A position-based world with prices: 20 contexts, 8 items, lists of 2 or 3 positions, 40 of them in
each context, 14 days, 12,000 records. What a click earns varies by half of its price. *period*: a
day moves all click rates by 10 % and all prices by 5 %, intervals by day; *record*: days are alike,
records are independent. Two candidates: *mixed*, the logged lists with other probabilities;
*pricy*, production, but for a fifth of the traffic the list that earns most per click. The true
change is against production's lists as often as the log shows them: what a change is compared with
is what users were shown, not what they might have been shown.

| metric | is |
|---|---|
| revenue@3/clicks@3 | revenue per click |
| ctr@3 | clicks per item shown |
| revenue@3, clicks@3 | revenue and clicks per record, which are no ratios, to compare with |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.study import Column, Row, beside, holds, study
from benchmarks.worlds import Floats, Integers, zipf

CONTEXTS, ITEMS, LISTS, DAYS, RECORDS = 20, 8, 40, 14, 12_000
EXAMINED = np.array([1.0, 0.6, 0.4])
METRICS = ("revenue@3/clicks@3", "ctr@3", "revenue@3", "clicks@3")
SHOWN = zipf(LISTS)
"""How often production shows each list of a context."""


class Scene(NamedTuple):
    """The lists of a world, and what they are worth; each of shape (X, L, 3).

    Attributes:
        lists: items by position; -1 where a list has ended.
        clicks: click rates.
        price: revenue of a click.
    """

    lists: Integers
    clicks: Floats
    price: Floats

    def metrics(self, policy: Floats) -> dict[str, float]:
        """The metrics of a policy, shape (X, L)."""
        clicks = float((policy[..., None] * self.clicks).sum())
        revenue = float((policy[..., None] * self.clicks * self.price).sum())
        shown = float((policy[..., None] * (self.lists >= 0)).sum())
        each = (revenue / clicks, clicks / shown, revenue / CONTEXTS, clicks / CONTEXTS)
        return dict(zip(METRICS, each, strict=True))


def scene(seed: int) -> Scene:
    """A fresh world."""
    rng = np.random.default_rng(seed)
    attraction = rng.uniform(0.05, 0.5, (CONTEXTS, ITEMS))
    price = rng.lognormal(0.0, 0.5, (CONTEXTS, ITEMS))
    every = np.tile(np.arange(ITEMS), (CONTEXTS, LISTS, 1))
    lists = rng.permuted(every, axis=2)[:, :, :3]
    lists[rng.random((CONTEXTS, LISTS)) < 0.3, 2] = -1
    own, there = np.arange(CONTEXTS)[:, None, None], lists >= 0
    return Scene(lists, attraction[own, lists] * EXAMINED * there, price[own, lists] * there)


def candidates(world: Scene, seed: int) -> dict[str, Floats]:
    """Shape (X, L) each: how often a candidate shows each list."""
    mixed = np.random.default_rng([seed, 1]).dirichlet(np.ones(LISTS), CONTEXTS)
    worth = (world.clicks * world.price).sum(axis=2) / world.clicks.sum(axis=2)
    often = np.where(np.median(SHOWN) < SHOWN, worth, 0.0)  # seen some 10 times
    pricy = 0.8 * np.tile(SHOWN, (CONTEXTS, 1))
    pricy[np.arange(CONTEXTS), often.argmax(axis=1)] += 0.2
    return {"mixed": mixed, "pricy": pricy}


def log_of(world: Scene, rng: np.random.Generator, *, shocks: bool) -> tuple[pa.Table, Floats]:
    """A log of production, on days that differ or do not; and how often it shows each list."""
    context = rng.integers(0, CONTEXTS, RECORDS)
    shown = rng.choice(LISTS, RECORDS, p=SHOWN)
    day = rng.integers(0, DAYS, RECORDS)
    busy, dear = (1 + shocks * rng.normal(0, sd, DAYS)[day] for sd in (0.1, 0.05))
    clicks = rng.random((RECORDS, 3)) < world.clicks[context, shown] * busy[:, None]
    earned = world.price[context, shown] * dear[:, None] * rng.gamma(4, 1 / 4, (RECORDS, 3))
    items = world.lists[context, shown]
    often = np.zeros((CONTEXTS, LISTS))
    np.add.at(often, (context, shown), 1.0)
    columns = {"items": items, "clicks": clicks.astype(int), "revenue": clicks * earned}
    ended = {
        name: [row[there] for row, there in zip(values, items >= 0, strict=True)]
        for name, values in columns.items()
    }
    table = pa.table({"context": context, **ended, "day": day})
    return table, often / often.sum(axis=1, keepdims=True)


def policy_of(world: Scene, mass: Floats) -> fc.Lists:
    """A candidate as a policy."""
    x, y = np.nonzero(mass)
    lists = [row[row >= 0].tolist() for row in world.lists[x, y]]
    return fc.Lists(pa.table({"context": x, "items": lists, "probability": mass[x, y]}))


@study(
    "ratios",
    ["candidate", "metric", "estimator", "clusters"],
    "logs, true lift=lift:+.1%, held",
    holds("change held", "change"),
    "se / sd, width=share:.1%",
    Column("better", lambda rows: float((rows.signs > 0).mean()), ".0%"),
    logs=300,
)
def ratios(
    log: int, seed: int = 601, estimators: list[str] = ["ladder", "ip", "list"]
) -> list[Row]:
    """How often intervals of ratio metrics hold.

    Drawn are a log of days that differ and one of records that do not; asked are both candidates.
    """
    world, rng = scene(seed), np.random.default_rng([seed, 2, log])
    production = world.metrics(np.tile(SHOWN, (CONTEXTS, 1)))
    drawn = {by: log_of(world, rng, shocks=by == "period") for by in ("period", "record")}
    found = []
    for name, mass in candidates(world, seed).items():
        truth = world.metrics(mass)
        for clusters, (table, often) in drawn.items():
            before = world.metrics(often)
            for row in fc.evaluate(
                fc.read_log(table, rewards={"revenue": "revenue"}, period="day"),
                policy_of(world, mass),
                metrics=METRICS,
                estimators=estimators,
                confidence=fc.Confidence(clusters="auto" if clusters == "period" else "record"),
            ):
                m = row["metric"]
                width = (row["change_high"] - row["change_low"]) / before[m]
                found.append(
                    {"candidate": name, "clusters": clusters, "share": width}
                    | {"lift": truth[m] / production[m] - 1}
                    | beside(row, truth[m], change=truth[m] - before[m])
                )
    return found
