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
from tests.drawn import drawn, half_new, lists_table

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
        each = (*self.columns["items"], *(i for c in self.candidates.values() for i in c["items"]))
        depth = max(map(len, each)) + 1  # short lists are meant so, which nulls say
        return {
            name: fc.Lists(c | {"items": [[*i, *[None] * (depth - len(i))] for i in c["items"]]})
            for name, c in self.candidates.items()
        }

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """While contexts are sampled down to `sample`, so that a small log has a sample too."""
        if self.sample is None:
            yield
            return
        lists, records = self.sample
        with (
            patch("foreclick.ladder.sample.FIT_SLOTS", 15 * lists),
            patch("foreclick.curves.learnt.SAMPLE_RECORDS", records),
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
    days = int(rng.choice([0, 3, 6, 14]))
    chances = {"unit": 0.3 if days else 0.6, "segments": 0.4, "orders": 0.5, "text": 0.5}
    chances |= {"ragged": 0.5, "count": 0.5 if size == "large" else 0.2}
    roles: dict[str, Any] = {name: rng.random() < chance for name, chance in chances.items()}
    found = drawn(
        seed,
        records=rows,
        contexts=contexts,
        items=depth + 2,
        depth=depth,
        periods=days,
        even=size == "thin",
        **roles,
    )
    used = {"context", "items", "clicks", *_columns(found.roles)}
    columns = {name: [row[name] for row in found.rows] for name in used}
    if days:
        missing = 0.02 * (rng.random() < 0.1)
        columns["day"] = [
            None if rng.random() < missing else _EPOCH + dt.timedelta(days=day)
            for day in columns["day"]
        ]
    first = {x: {next(iter(new)): 1.0} for x, new in found.candidate.items()}
    policies = {"one": half_new(found) if rng.random() < 0.5 else first, "two": found.candidate}
    if rng.random() < 0.3:
        policies["three"] = policies["one"]
    candidates = {name: lists_table(policy).to_pydict() for name, policy in policies.items()}
    sample = None
    if size != "large" and rng.random() < 0.7:
        records = sum(map(float, columns.get("times") or [1.0] * rows))
        sample = max(rows // int(rng.integers(3, 9)), 5), max(int(records / 4), 5)
    return RandomLog(seed, columns, found.roles, candidates, sample)


def _columns(roles: dict[str, Any]) -> Iterator[str]:
    """The columns that roles name."""
    for role in roles.values():
        yield from [role] if isinstance(role, str) else role
