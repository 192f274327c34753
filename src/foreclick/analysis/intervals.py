"""Which interval is asked for, and its ends.

| interval | holds |
|---|---|
| sampling | at one look, as the log grows |
| anytime | at all looks together, as the log grows |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from foreclick import inference
from foreclick.errors import ModelError
from foreclick.estimators import AnySums, Clusters, Spread

IntervalKind = Literal["sampling", "anytime"]

TUNED_PERIODS = 14
"""An anytime interval is shortest after two weeks, and within 6 % of it from day 4 to day 80."""

TUNED_RECORDS = 10_000
"""Or, where days do not count, after so many records."""

_LEAST = 1e-150  # of what a lift is over: its square is a number

Ends = dict[str, float | None]
_NAMES = ("se", "low", "high", "change_low", "change_high", "lift_low", "lift_high")


# --- what can be had ----------------------------------------------------------------------------


def check_interval(kind: IntervalKind, clusters: Sequence[Clusters]) -> None:
    """Refuse what cannot be had, before any work is done."""
    if kind != "sampling" and not clusters:
        raise ModelError(f"clusters=None asks for no intervals, and interval={kind!r} for some.")


def in_words(kind: IntervalKind) -> list[str]:
    """A note on what the intervals promise, where it is not the usual."""
    if kind == "anytime":
        return ["The intervals hold at every look together, however often the log is looked at."]
    return []


# --- ends ---------------------------------------------------------------------------------------


def ends(
    sums: AnySums,
    baseline: AnySums | None,
    production: float | None,
    confidence: float,
    kind: IntervalKind,
) -> Ends:
    """The standard error of an estimate, and the ends of its intervals; None where there are none.

    Args:
        sums: the estimate.
        baseline: that of the policy it is compared with, if not production.
        production: what it is compared with.
        confidence: of each interval.
        kind: how it is made.
    """
    found: Ends = dict.fromkeys(_NAMES)
    value, spread = sums.value, sums.spread
    if value is None or spread is None or spread.freedom < 1:
        return found
    reach = _reach(sums, spread, confidence, kind)
    lasting = spread.plus(np.array([[spread.memory, 0.0], [0.0, 0.0]])).covariance
    far = _reach(sums, replace(spread, freedom=spread.memory_freedom), confidence, kind)
    found |= inference.value(value, lasting, far)._asdict()
    joint = spread.covariance if baseline is None else spread.against(baseline.spread)
    if production is None or joint is None:
        return found
    between = inference.change(value, production, joint, reach)
    found |= {"change_low": between.low, "change_high": between.high}
    if production > _LEAST:
        relative = inference.lift(value, production, joint, reach)
        found |= {"lift_low": relative.low, "lift_high": relative.high}
    return found


def _reach(sums: AnySums, spread: Spread, confidence: float, kind: IntervalKind) -> float:
    """How many standard errors an interval reaches.

    The time of an anytime interval is what the variance falls with: days where days differ, and
    records otherwise. The buckets of users are always as many, but hold more and more records.
    """
    if kind == "sampling":
        return inference.quantile(confidence, spread.freedom)
    days = spread.kind == "period"
    time = spread.clusters if days else sums.stratum.records
    tuned = TUNED_PERIODS if days else TUNED_RECORDS
    return inference.anytime(confidence, spread.freedom, time, tuned)
