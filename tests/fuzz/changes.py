"""What does not matter: changes of a log that must change no answer.

Each makes two logs of one, of which the same is asked.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import foreclick as fc
from tests.batches.sizes import in_batches
from tests.cases.case import Case
from tests.cases.layouts import in_columns

Rng = np.random.Generator


@dataclass(frozen=True)
class Side:
    """A log to be asked, and how.

    Attributes:
        log: with its candidates.
        tallied: the log as the library has it.
        within: what holds while it is asked.
    """

    log: Case
    tallied: fc.Log | fc.Tally
    within: Callable[[], AbstractContextManager[Any]] = nullcontext

    @cached_property
    def policies(self) -> dict[str, fc.Lists]:
        """The candidates."""
        return self.log.policies()


@dataclass(frozen=True)
class Change:
    """A change that does not matter.

    Attributes:
        after: the changed log; None where there is nothing to change.
        before: what it is held against; None: the log as it is.
        dropping: whether contexts without a list are dropped.
    """

    after: Callable[[Case, Rng], Side | None]
    before: Callable[[Case], Case] | None = None
    dropping: bool = False


def _read(log: Case, source: Any = None, **roles: Any) -> Side:  # noqa: ANN401
    return Side(log, log.read(source, **roles))


def _permuted(log: Case, rng: Rng) -> Side:
    return _read(log.taking(rng.permutation(log.size)))


# --- other names ----------------------------------------------------------------------------------


def _names(rng: Rng, known: Iterable[Any], kind: str) -> dict[Any, Any]:
    """Other names, in another order: numbers or text."""
    values = list(dict.fromkeys(known))
    numbers = (rng.permutation(3 * len(values))[: len(values)] + 1).tolist()
    if kind == "text":
        ends = ["", "é", " ", "'", "東", "%"]
        numbers = [f"{'zaMb'[n % 4]}{n}{ends[n % len(ends)]}x" for n in numbers]
    return dict(zip(values, numbers, strict=True))


def _renamed(log: Case, contexts: Mapping[Any, Any], items: Mapping[Any, Any]) -> Side:
    def of(one: Iterable[Any]) -> list[Any]:
        return [items.get(item, item) for item in one]

    context = [contexts.get(x, x) for x in log.columns["context"]]
    candidates = {
        name: {
            contexts.get(x, x): {tuple(of(a)): mass for a, mass in lists.items()}
            for x, lists in own.items()
        }
        for name, own in log.candidates.items()
    }
    found = log.having(context=context, items=list(map(of, log.columns["items"])))
    return _read(found.proposing(**candidates))


def _other_items(log: Case, rng: Rng, kind: str) -> Side:
    shown = (a for c in log.candidates.values() for lists in c.values() for a in lists)
    lists = [*log.columns["items"], *shown]
    return _renamed(log, {}, _names(rng, (item for one in lists for item in one), kind))


def _whole(log: Case) -> Case:
    """Learnt from all contexts: those of a sample are drawn by their names."""
    return replace(log, sample=None)


def _other_contexts(log: Case, rng: Rng, kind: str) -> Side:
    known = [*log.columns["context"], *(x for c in log.candidates.values() for x in c)]
    names = _names(rng, known, kind)
    candidates = {
        name: {x: own[x] for x in rng.permutation(list(own)).tolist()}
        for name, own in log.candidates.items()
    }
    return _renamed(_whole(log).proposing(**candidates), names, {})


# --- more than is asked for -----------------------------------------------------------------------


def _with_segment(log: Case, rng: Rng) -> Side:
    found = log.having(screen=rng.choice(["phone", "desk", "tv"], log.size).tolist())
    return _read(found, segments=[*log.roles.get("segments", []), "screen"])


def _with_reward(log: Case, rng: Rng) -> Side:
    value = rng.choice([1.0, 3.5]) if rng.random() < 0.5 else 1
    more = [[value * int(rng.random() < 0.3) for _ in one] for one in log.columns["items"]]
    rewards = {**log.roles.get("rewards", {}), "hearts": "hearts"}
    return _read(log.having(hearts=more), rewards=rewards)


def _with_stranger(log: Case, rng: Rng) -> Side:
    rows = max(log.size // 10, 1)
    more = log.taking(rng.integers(0, log.size, rows)).columns
    new: list[Any] = [-1, -2, 10**9]
    if isinstance(log.columns["context"][0], str):
        new = ["a stranger", "pstranger", "stranger"]
    more["context"] = [new[i % 3] for i in range(rows)]
    return _read(log.having(**{name: own + more[name] for name, own in log.columns.items()}))


# --- as it is stored and read ---------------------------------------------------------------------


def _in_halves(log: Case, rng: Rng) -> Side | None:
    first = rng.random(log.size) < 0.5
    if first.all() or not first.any():
        return None
    one, other = (fc.tally(log.taking(np.flatnonzero(some)).read()) for some in (first, ~first))
    return Side(log, one + other)


def _in_files(log: Case, rng: Rng) -> Side:
    """A tally a file, whose days and users are the same, read in batches of two sizes."""
    home, part = tempfile.mkdtemp(), rng.integers(0, 3, log.size)
    for number in np.unique(part).tolist():
        some = fc.tally(log.taking(np.flatnonzero(part == number)).read())
        some.write_parquet(Path(home) / f"{number}.parquet")
    found = Side(log, in_batches(fc.read_tally(home), int(rng.choice([3000, 10**9]))))
    weakref.finalize(found, shutil.rmtree, home)
    return found


def _twice(log: Case) -> Case:
    return log.taking(np.repeat(np.arange(log.size), 2))


def _counted_twice(log: Case, rng: Rng) -> Side:
    times = [2 * t for t in log.columns.get("times", [1] * log.size)]
    return _read(log.having(times=times), count="times")


def _of_format(log: Case, rng: Rng) -> Side:
    """As a file or a frame; of CSV and of columns, with a column for each position."""
    kind = rng.choice(["csv", "parquet", "arrow", "pandas", "columns"])
    if kind == "arrow":
        return _read(log, pa.table(log.columns))
    if kind == "pandas":
        return _read(log, pd.DataFrame(log.columns))
    wide = in_columns(log)
    if kind == "columns":
        return Side(log, wide.read())
    with tempfile.TemporaryDirectory() as home:
        path = str(Path(home) / f"log.{kind}")
        if kind == "csv":
            wide.table.to_pandas(types_mapper=pd.ArrowDtype).to_csv(path, index=False)
            return Side(log, fc.tally(wide.read(path)))
        pq.write_table(pa.table(log.columns), path, row_group_size=max(log.size // 3, 1))
        return Side(log, fc.tally(log.read(path)))


def _in_batches(log: Case, rng: Rng) -> Side:
    slots = 1 + log.size * len(log.columns["items"][0]) // int(rng.integers(2, 20))

    def blocks() -> AbstractContextManager[Any]:
        return patch("foreclick.run.estimate.BLOCK", max(slots, 50))

    return Side(log, in_batches(fc.tally(log.read()), slots), blocks)


CHANGES: dict[str, Change] = {
    "rows permuted": Change(_permuted),
    "items renamed by numbers": Change(partial(_other_items, kind="numbers")),
    "items renamed by text": Change(partial(_other_items, kind="text")),
    "contexts renamed by numbers": Change(partial(_other_contexts, kind="numbers"), _whole),
    "contexts renamed by text": Change(partial(_other_contexts, kind="text"), _whole),
    "a segment more": Change(_with_segment),
    "a reward more": Change(_with_reward),
    "two halves added": Change(_in_halves),
    "tallies in files": Change(_in_files),
    "count=2 for every row twice": Change(_counted_twice, before=_twice),
    "another format": Change(_of_format),
    "other batches": Change(_in_batches),
    "contexts that nobody asks for": Change(_with_stranger, dropping=True),
}
