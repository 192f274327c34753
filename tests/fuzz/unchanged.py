"""Ask the same of two logs that differ in nothing that matters, and hold the answers together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

import foreclick as fc
from foreclick.errors import BacktestError, ForeclickWarning, ModelError, PolicyError
from tests.answers import clipped
from tests.cases.case import Case
from tests.cases.plain import some_log
from tests.fuzz.changes import CHANGES, Side

CLOSE = 1e-9
"""Of the larger of two numbers: by how much they may differ."""

FLOOR = 1e-12
"""Of the largest number of a row, for what is a difference of large ones: it may differ besides."""

ALIKE = 1e-7
"""Of the largest number of a row: below it, a standard error is that of equal numbers, and 0."""

DRAWN = 9
"""Of all changes, those that are tried on one log."""

_NOT_OF_THE_ANSWER = {"missing_contexts", "dropped"}


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
    """A question with its arguments: `evaluate`, `compare` or `backtest`."""

    name: str
    verb: str
    options: Mapping[str, Any]

    def of(self, side: Side) -> list[Mapping[str, Any]]:
        """The rows of the answer; or why there is none."""
        options = dict(self.options)
        with sampled(side.log), side.within(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ForeclickWarning)
            try:
                if self.verb == "backtest":
                    found: Any = fc.backtest(side.tallied, **options)
                elif self.verb == "compare":
                    found = fc.compare(side.tallied, side.policies, **options)
                else:
                    if "baseline" in options:
                        options["baseline"] = side.policies["two"]
                    found = fc.evaluate(side.tallied, side.policies["one"], **options)
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
        others["baseline"] = True
    if rng.random() < 0.15 and "period" in log.roles:
        others["by"] = "period"
    if rng.random() < 0.3:
        anytime = bool(rng.random() < 0.7)
        others["confidence"] = fc.Confidence(
            clusters="auto" if anytime else "record", anytime=anytime
        )
    found = [
        Asked("usual", "evaluate", usual | missing),
        Asked("others", "evaluate", others | missing),
    ]
    if {"period", "unit"} & set(log.roles) and not dropping:
        one = str(rng.choice(metrics))
        by = rng.choice(["", "ip", "item", "pbm"])
        options = {"metrics": one} | ({"estimators": by} if by and "success" not in one else {})
        found.append(Asked("pairs", "compare", options))
    if "period" in log.roles and not dropping and rng.random() < 0.3:
        options = {"metrics": ["clicks@1", f"dcg@{depth}"], "estimators": ["ladder", "ip", "pbm"]}
        found.append(Asked("backtest", "backtest", options))
    return found


def difference(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> str:
    """The first thing in which two answers differ; empty if none does."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows and {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        which = "/".join(str(one[c]) for c in ("estimator", "metric", "clip", "land") if c in one)
        if one.keys() != other.keys():
            return f"{which}: {sorted(one)} and {sorted(other)}"
        scale = _scale(one)
        for name, mine in one.items():
            if name not in _NOT_OF_THE_ANSWER and not _same(name, mine, other[name], scale):
                return f"{which}: {name} is {mine!r} and {other[name]!r}"
    return ""


def _scale(row: Mapping[str, Any]) -> float:
    """The largest number that those of a row are sums and differences of."""
    sides = [abs(row.get(c) or 0.0) for c in ("value", "production", "other")]
    return max(sides, default=0.0)


def _same(name: str, mine: Any, theirs: Any, scale: float) -> bool:  # noqa: ANN401 - of any type
    if not isinstance(mine, float) or not isinstance(theirs, float):
        return bool(mine == theirs)
    if math.isnan(mine) or math.isinf(mine):
        return repr(mine) == repr(theirs)
    if name == "se" and max(mine, theirs) <= ALIKE * scale:
        return True
    relative = name in {"lift", "lift_low", "lift_high", "covered", "clipped"}
    floor = FLOOR * (1.0 if relative else scale)
    return abs(mine - theirs) <= CLOSE * max(abs(mine), abs(theirs)) + floor


def compared(seed: int, only: str | None = None, size: str | None = None) -> tuple[int, list[str]]:
    """How many answers were compared, of the log of a seed, and which changed."""
    log = some_log(seed, size=size)
    count, wrong = 0, []
    before: dict[object, Any] = {}
    drawn = set(np.random.default_rng([19, seed]).permutation(list(CHANGES))[:DRAWN].tolist())
    for number, (name, change) in enumerate(CHANGES.items()):
        if (only is not None and only not in name) or (only is None and name not in drawn):
            continue
        after = change.after(log, np.random.default_rng([13, seed, number]))
        if after is None:
            continue
        mine = log if change.before is None else change.before(log)
        side = before.get(change.before)
        if side is None:
            side = before[change.before] = Side(mine, mine.read())
        for asked in questions(log, dropping=change.dropping):
            key = change.before, asked.name, change.dropping
            if key not in before:
                before[key] = asked.of(side)
            found = difference(before[key], asked.of(after))
            count += 1
            if found:
                wrong.append(f"{name}, {asked.name}: {found}")
    return count, wrong


# --- tiny logs ------------------------------------------------------------------------------------


def contradictions(seed: int) -> tuple[int, list[str]]:
    """How many verdicts a tiny log had, and those against their own intervals, or of too little."""
    rng = np.random.default_rng([17, seed])
    log = some_log(seed, size="small")
    rows = int(rng.integers(1, 41))
    log = log.taking(rng.permutation(log.size)[:rows])
    count, wrong = 0, []
    side = Side(log, log.read())
    for asked in questions(log):
        for row in asked.of(side):
            if "verdict" not in row:
                continue
            count += 1
            wrong += [f"{asked.name}: {said}" for said in _against(row, row.get("records"))]
    return count, wrong


def _against(row: Mapping[str, Any], records: float | None) -> Iterator[str]:
    """What of a row speaks against its verdict."""
    word = row["verdict"]
    if records is not None and records < 30 and word != "cannot tell":
        yield f"{word!r} of {records} records"
    ends = [("change_low", "change_high"), ("lift_low", "lift_high")]
    if "against" in row:
        ends = [("all_low", "all_high")]
    for low, high in ends:
        if word == "better" and not (row[low] is not None and row[low] > 0):
            yield f"better, and {low} is {row[low]}"
        if word == "worse" and not (row[high] is not None and row[high] < 0):
            yield f"worse, and {high} is {row[high]}"
