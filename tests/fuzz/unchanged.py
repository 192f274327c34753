"""Ask the same of two logs that differ in nothing that matters, and hold the answers together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

import foreclick as fc
from foreclick.errors import BacktestError, ForeclickWarning, ModelError, PolicyError
from tests.answers import clipped
from tests.cases.asking import FLOOR, NO_SPREAD, ask, same
from tests.cases.case import Case
from tests.cases.plain import some_log
from tests.fuzz.changes import CHANGES, Side

DRAWN = 9
"""Of all changes, those that are tried on one log."""

_NOT_OF_THE_ANSWER = {"missing_contexts", "dropped"}
_OF_ONE = {"lift", "lift_low", "lift_high", "covered", "clipped"}
"""Columns that are shares, whatever a metric counts."""

Rows = Sequence[Mapping[str, Any]]


@contextmanager
def sampled(case: Case) -> Iterator[None]:
    """While contexts are sampled as the case says, so that a small log has a sample too."""
    if case.sample is None:
        yield
        return
    lists, records = case.sample
    with (
        patch("foreclick.ladder.sample.FIT_SLOTS", 15 * lists),
        patch("foreclick.curves.learnt.SAMPLE_RECORDS", records),
    ):
        yield


@dataclass(frozen=True)
class Asked:
    """A question: a verb, candidates by name, and its options."""

    name: str
    verb: Callable[..., Any]
    candidates: tuple[str, ...]
    options: Mapping[str, Any]

    def of(self, side: Side) -> Rows:
        """The rows of the answer; or why there is none."""
        with sampled(side.log), side.within(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ForeclickWarning)
            try:
                found = ask(
                    self.verb, side.tallied, side.policies, *self.candidates, **self.options
                )
            except (ModelError, PolicyError, BacktestError) as error:  # of too few days, perhaps
                return [{"refused": type(error).__name__}]
        return [*found.rows, *getattr(found, "whole", ())]


def questions(log: Case, *, dropping: bool = False) -> list[Asked]:
    """What is asked of a log: by default estimators, by others, and of two candidates."""
    rng = np.random.default_rng([11, log.seed])
    depth = max(map(len, log.columns["items"]))
    clicks = [f"clicks@{rng.integers(1, depth + 1)}", f"dcg@{depth}", f"success@{depth}"]
    ratios = [f"ctr@{depth}"]
    if "rewards" in log.roles:
        ratios.append(f"price@{depth}/clicks@{depth}")
        clicks.append(f"price@{depth}")
    metrics = [str(rng.choice(clicks)), str(rng.choice(clicks[:2])), str(rng.choice(ratios))]
    metrics = list(dict.fromkeys(metrics))
    missing: dict[str, Any] = {"missing": "drop"} if dropping else {}
    usual: dict[str, Any] = {"metrics": metrics}
    if "segments" in log.roles and rng.random() < 0.7:
        usual["by"] = "land"
    others: dict[str, Any] = {
        "metrics": [m for m in metrics if not m.startswith("success")] or ["clicks@1"],
        "estimators": ["pbm", *rng.permutation(["item", "prefix", "list", "ip"])[:2].tolist()],
    }
    if rng.random() < 0.3:
        bounds = [float(rng.choice([1.5, 5.0])), math.inf]
        others["estimators"] = clipped(others["estimators"], bounds)
    if rng.random() < 0.3:
        others["baseline"] = "@two"
    if rng.random() < 0.15 and "period" in log.roles:
        others["by"] = "period"
    if rng.random() < 0.3:
        anytime = bool(rng.random() < 0.7)
        clusters: Any = "auto" if anytime else "record"
        others["confidence"] = fc.Confidence(clusters=clusters, anytime=anytime)
    found = [
        Asked("usual", fc.evaluate, ("one",), usual | missing),
        Asked("others", fc.evaluate, ("one",), others | missing),
    ]
    if {"period", "unit"} & set(log.roles) and not dropping:
        one = str(rng.choice(metrics))
        by = rng.choice(["", "ip", "item", "pbm"])
        options = {"metrics": one} | ({"estimators": by} if by and "success" not in one else {})
        found.append(Asked("pairs", fc.compare, tuple(log.candidates), options))
    if "period" in log.roles and not dropping and rng.random() < 0.3:
        options = {"metrics": ["clicks@1", f"dcg@{depth}"], "estimators": ["ladder", "ip", "pbm"]}
        found.append(Asked("backtest", fc.backtest, (), options))
    return found


def difference(ours: Rows, theirs: Rows) -> str:
    """The first thing in which two answers differ; empty if none does."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows and {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        which = "/".join(str(one[c]) for c in ("estimator", "metric", "clip", "land") if c in one)
        if one.keys() != other.keys():
            return f"{which}: {sorted(one)} and {sorted(other)}"
        # The largest number that those of a row are sums and differences of.
        scale = max(abs(one.get(c) or 0.0) for c in ("value", "production", "other"))
        for name in (name for name in one if name not in _NOT_OF_THE_ANSWER):
            mine, his = one[name], other[name]
            none = name == "se" and None not in (mine, his) and max(mine, his) <= NO_SPREAD * scale
            if not none and not same(mine, his, FLOOR * (1.0 if name in _OF_ONE else scale)):
                return f"{which}: {name} is {mine!r} and {his!r}"
    return ""


def compared(seed: int, only: str | None = None, size: str | None = None) -> tuple[int, list[str]]:
    """How many answers were compared, of the log of a seed, and which changed."""
    log = some_log(seed, size=size)
    count, wrong = 0, []
    before: dict[object, Any] = {}
    drawn = np.random.default_rng([19, seed]).permutation(list(CHANGES))[:DRAWN]
    for number, (name, change) in enumerate(CHANGES.items()):
        if name not in drawn if only is None else only not in name:
            continue
        after = change.after(log, np.random.default_rng([13, seed, number]))
        if after is None:
            continue
        if change.before not in before:
            mine = log if change.before is None else change.before(log)
            before[change.before] = Side(mine, mine.read())
        for asked in questions(log, dropping=change.dropping):
            key = change.before, asked.name, change.dropping
            if key not in before:
                before[key] = asked.of(before[change.before])
            count += 1
            if found := difference(before[key], asked.of(after)):
                wrong.append(f"{name}, {asked.name}: {found}")
    return count, wrong


# --- tiny logs ------------------------------------------------------------------------------------


def contradictions(seed: int) -> tuple[int, list[str]]:
    """How many verdicts a tiny log had, and those against their own intervals, or of too little."""
    rng = np.random.default_rng([17, seed])
    log = some_log(seed, size="small")
    rows = int(rng.integers(1, 41))
    log = log.taking(rng.permutation(log.size)[:rows])
    side = Side(log, log.read())
    asked = questions(log)
    told = [(each.name, row) for each in asked for row in each.of(side) if "verdict" in row]
    return len(told), [f"{name}: {said}" for name, row in told for said in _against(row)]


def _against(row: Mapping[str, Any]) -> Iterator[str]:
    """What of a row speaks against its verdict."""
    word, records = row["verdict"], row.get("records")
    if records is not None and records < 30 and word != "cannot tell":
        yield f"{word!r} of {records} records"
    for name in ("all",) if "against" in row else ("change", "lift"):
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        if word == "better" and not (low is not None and low > 0):
            yield f"better, and {name}_low is {low}"
        if word == "worse" and not (high is not None and high < 0):
            yield f"worse, and {name}_high is {high}"
