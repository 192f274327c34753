"""Random logs with their candidates, each by one number, from which it can be made again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

import foreclick as fc

LARGE = 8
"""Of so many logs one is large, so that contexts are sampled as they are in use."""

THIN = 5
"""Of so many logs one has contexts that hardly repeat, many of which are exactly alike."""

_EPOCH = dt.date(2024, 1, 1)


@dataclass(frozen=True)
class RandomLog:
    """A log as columns, with what its columns are and which candidates are asked about.

    Attributes:
        columns: by name, a value a row; of `items`, `clicks` and further rewards, lists.
        roles: arguments of `fc.read_log`.
        candidates: tables of `context` and `items`; some with `probability`.
        sample: lists that ladders are learnt from, and records that curves are; None as in use.
    """

    seed: int
    columns: dict[str, list[Any]]
    roles: dict[str, Any]
    candidates: dict[str, dict[str, list[Any]]]
    sample: tuple[int, int] | None = None

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.columns["context"])

    def having(self, **columns: list[Any]) -> RandomLog:
        """With other columns, or further ones."""
        return replace(self, columns=self.columns | columns)

    def taking(self, rows: Any) -> RandomLog:  # noqa: ANN401 - numbers of any kind
        """Some of the rows, in this order."""
        at = np.asarray(rows).tolist()
        return replace(self, columns={k: [v[i] for i in at] for k, v in self.columns.items()})

    def read(self, source: Any = None, **roles: Any) -> fc.Log:  # noqa: ANN401 - of any kind
        """The log as the library reads it."""
        return fc.read_log(self.columns if source is None else source, **(self.roles | roles))

    def policies(self) -> dict[str, fc.Lists]:
        """The candidates as policies."""
        return {name: fc.Lists(table) for name, table in self.candidates.items()}

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """While contexts are sampled down to `sample`, so that a small log has a sample too."""
        if self.sample is None:
            yield
            return
        lists, records = self.sample
        with (
            patch("foreclick.estimate.fitting.MOST_SLOTS", 20 * lists),
            patch("foreclick.estimate.fitting.ENOUGH_SLOTS", 10 * lists),
            patch("foreclick.learn.curves.SAMPLE_RECORDS", records),
        ):
            yield


def random_log(seed: int, *, size: str | None = None) -> RandomLog:
    """The log of a seed: small, thin or large; with periods, users, segments, weights, or not."""
    rng = np.random.default_rng([7, seed])
    if size is None:
        size = "large" if seed % LARGE == 3 else "thin" if seed % THIN == 1 else "small"
    depth = int(rng.integers(2, 5 if size == "large" else 7))
    if size == "large":
        rows, contexts = int(rng.integers(30_000, 50_000)), int(rng.integers(400, 2000))
    elif size == "thin":
        rows = int(rng.integers(400, 1500))
        contexts, depth = rows // int(rng.integers(1, 4)), min(depth, 3)
    else:
        rows = int(np.exp(rng.uniform(np.log(30), np.log(3000))))
        contexts = max(int(rows / np.exp(rng.uniform(np.log(4), np.log(60)))), 1)
    columns, lists = _records(rng, rows, contexts, depth, few=size == "thin")
    roles: dict[str, Any] = {}
    days = int(rng.choice([0, 3, 6, 14]))
    if days:
        columns["day"] = [_EPOCH + dt.timedelta(days=int(d)) for d in rng.integers(0, days, rows)]
        if rng.random() < 0.1:
            columns["day"] = [None if rng.random() < 0.02 else day for day in columns["day"]]
        roles["period"] = "day"
    if rng.random() < (0.3 if days else 0.6):
        columns["user"] = [f"u{u}" for u in rng.integers(0, max(rows // 5, 2), rows)]
        roles["unit"] = "user"
    if rng.random() < 0.4:
        columns["land"] = rng.choice(["NL", "BE", "DE"], rows, p=[0.6, 0.3, 0.1]).tolist()
        roles["segments"] = ["land"]
    if rng.random() < 0.5:
        price = rng.choice([0.5, 1.0, 2.25, 10.0], rows)
        columns["revenue"] = [
            [float(p) * c * (rng.random() < 0.4) for c in clicks]
            for p, clicks in zip(price.tolist(), columns["clicks"], strict=True)
        ]
        roles["rewards"] = {"revenue": "revenue"}
    how = rng.random()
    if size == "large" and how < 0.5:
        columns["times"] = rng.integers(1, 40, rows).tolist()
        roles["count"] = "times"
    elif how < 0.2:
        columns["times"] = rng.choice([1, 1, 2, 3, 10], rows).tolist()
        roles["count"] = "times"
    candidates = {name: _candidate(rng, lists, depth) for name in ("one", "two")}
    if rng.random() < 0.3:
        candidates["three"] = candidates["one"]
    sample = None
    if size != "large" and rng.random() < 0.7:
        records = sum(map(float, columns.get("times") or [1.0] * rows))
        sample = max(rows // int(rng.integers(3, 9)), 5), max(int(records / 4), 5)
    return RandomLog(seed, columns, roles, candidates, sample)


Pools = dict[Any, list[tuple[Any, ...]]]
"""By context, the lists that were shown; the first has all items."""


def _records(
    rng: np.random.Generator, rows: int, contexts: int, depth: int, *, few: bool
) -> tuple[dict[str, list[Any]], Pools]:
    """Contexts, lists and clicks: readers who look further down the less, and the less they liked.

    Args:
        rng: what is drawn from.
        rows: how many records.
        contexts: how many, at most.
        depth: positions.
        few: whether all contexts have the same few items, and are as popular.
    """
    popular = np.ones(contexts) if few else 1 / np.arange(1, contexts + 1) ** rng.uniform(0, 1.2)
    which = rng.choice(contexts, rows, p=popular / popular.sum())
    text = bool(rng.random() < 0.5)
    names: list[Any] = rng.permutation(10 * contexts)[:contexts].tolist()
    names = [f"q{n}" for n in names] if text else names
    items: list[Any] = rng.permutation(500)[: 6 if few else 60].tolist()
    items = [f"item {i}" for i in items] if rng.random() < 0.5 else items
    pools: Pools = {}
    tables, tastes = [], []
    for x in range(contexts):
        own = rng.permutation(len(items))[: depth + int(rng.integers(1, 4))].tolist()
        kept: list[list[int]] = [rng.permutation(own)[:depth].tolist() for _ in range(4)]
        if rng.random() < 0.2:
            kept[1] = kept[1][: depth - 1]
        tables.append(kept)
        tastes.append(rng.choice([0.1, 0.3, 0.6], len(items)))
        pools[names[x]] = [tuple(items[i] for i in one) for one in (own, *kept)]
    examined = 1 / np.arange(1, depth + 1) ** 0.7
    shown, clicks = [], []
    chosen, luck = rng.choice(4, rows, p=[0.5, 0.25, 0.15, 0.1]), rng.random((rows, depth))
    for row, x in enumerate(which.tolist()):
        one = tables[x][chosen[row]]
        got, reading = [], 1.0
        for k, item in enumerate(one):
            click = int(luck[row, k] < tastes[x][item] * examined[k] * reading)
            got.append(click)
            reading *= 1 - 0.5 * click
        shown.append([items[i] for i in one])
        clicks.append(got)
    columns: dict[str, list[Any]] = {
        "context": [names[x] for x in which.tolist()],
        "items": shown,
        "clicks": clicks,
    }
    return columns, {x: pools[x] for x in dict.fromkeys(columns["context"])}


def _candidate(rng: np.random.Generator, pools: Pools, depth: int) -> dict[str, list[Any]]:
    """Lists for every context: some as they were shown, some new, with now and then a new item."""
    table: dict[str, list[Any]] = {"context": [], "items": [], "probability": []}
    spread, newness = rng.random() < 0.4, 0.02 * (rng.random() < 0.4)
    for context, (own, *shown) in pools.items():
        at = rng.permutation(len(shown))[:2].tolist()
        found = [shown[i] for i in at]
        if rng.random() < 0.4:
            found[0] = tuple(own[i] for i in rng.permutation(len(own))[:depth].tolist())
        if rng.random() < newness:
            stranger: Any = "item new" if isinstance(own[0], str) else 9999
            found[0] = (stranger, *found[0][1:])
        found = list(dict.fromkeys(found))[: 1 + spread]
        table["context"] += [context] * len(found)
        table["items"] += [list(one) for one in found]
        table["probability"] += [1.0] if len(found) == 1 else [0.75, 0.25]
    return table
