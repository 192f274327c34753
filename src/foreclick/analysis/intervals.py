"""Which interval is asked for, whether this log can give it, and its ends.

| interval | holds | needs |
|---|---|---|
| sampling | at one look, as the log grows | |
| anytime | at all looks together, as the log grows | |
| bernstein, hoeffding | at one look, whatever the number of records | a known logging policy |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from foreclick import inference
from foreclick.batches import largest_rewards
from foreclick.errors import MetricError, ModelError
from foreclick.estimators import AnySums, Clusters, Question, Spread, Sums
from foreclick.policies import Observed
from foreclick.tallies.base import Tally

IntervalKind = Literal["sampling", "anytime", "bernstein", "hoeffding"]

TUNED_PERIODS = 14
"""An anytime interval is shortest after two weeks, and within 6 % of it from day 4 to day 80."""

TUNED_RECORDS = 10_000
"""Or, where days do not count, after so many records."""

_LEAST = 1e-150  # of what a lift is over: its square is a number

Ends = dict[str, float | None]
_NAMES = ("se", "low", "high", "change_low", "change_high", "lift_low", "lift_high")


# --- what can be had ----------------------------------------------------------------------------


def check_interval(
    kind: IntervalKind, clusters: Sequence[Clusters], mix: str, asked: Sequence[Question]
) -> None:
    """Refuse what cannot be had, before any work is done."""
    if kind != "sampling" and not clusters:
        raise ModelError(f"clusters=None asks for no intervals, and interval={kind!r} for some.")
    if not _guaranteed(kind):
        return
    instead = "or take interval='sampling', which needs none of this."
    if tuple(clusters) != ("record",):
        raise ModelError(
            f"interval={kind!r} holds for independent records only, and records of one period or "
            f"unit are not. Say clusters='record' if yours are; {instead}"
        )
    if mix == "fixed":
        raise ModelError(
            f"interval={kind!r} holds for a fixed mix of contexts and for a random one alike. "
            "Leave mix= out."
        )
    if any(q.logging is None or isinstance(q.logging, Observed) for q in asked):
        raise ModelError(
            f"interval={kind!r} needs weights that are known, and here the logging policy is "
            "estimated by frequencies. Give the policy that made the log, logging=Lists(…), or "
            f"read it with propensity= and say logging='propensity'; {instead}"
        )
    if any(
        q.logging == "propensity" and math.isinf(max(e.clip or (math.inf,)))
        for q in asked
        for e in q.estimators
    ):
        raise ModelError(
            f"interval={kind!r} needs the largest weight that any record might have, and "
            "propensities tell only of what was shown. Bound the weights, for instance with "
            f"clip=100; or give the whole policy, logging=Lists(…); {instead}"
        )


def check_rewards(kind: IntervalKind, counted: Tally, question: Question) -> None:
    """Refuse rewards without a bound; clicks are 0 or 1."""
    if not _guaranteed(kind):
        return
    if question.ratios:
        raise MetricError(
            f"interval={kind!r} bounds means, and {question.ratios[0]} is a ratio of two. Take "
            "interval='sampling', or ask for its numerator and its denominator one by one."
        )
    known = [m.source for m in question.parts if not m.first and not m.shown]
    for reward, largest in largest_rewards(counted, known).items():
        if largest > 1:
            raise MetricError(
                f"interval={kind!r} needs rewards from 0 to 1, and {reward!r} reaches {largest:g}. "
                "Divide it by the most it can be before the log is read, or take "
                "interval='sampling'."
            )


def _guaranteed(kind: IntervalKind) -> bool:
    return kind in get_args(inference.Guarantee)


def in_words(kind: IntervalKind) -> list[str]:
    """A note on what the intervals promise, where it is not the usual."""
    if kind == "anytime":
        return ["The intervals hold at every look together, however often the log is looked at."]
    if _guaranteed(kind):
        return ["The intervals hold for any number of independent records, if π is as given."]
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
    if kind == "bernstein" or kind == "hoeffding":  # noqa: PLR1714 - mypy narrows only this
        other = None if baseline is None else baseline.parts[0]
        return found | _bounded(sums.parts[0], other, confidence, kind)  # no ratio comes so far
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


def _bounded(
    sums: Sums, baseline: Sums | None, confidence: float, kind: inference.Guarantee
) -> Ends:
    """Bounds on X_t = Σ W c, and on X_t − f_t, whose means are the value and the change.

    Two policies are bounded each on its own, at half the risk. A quotient has no such bound.
    """
    own = _own(sums, confidence, kind)
    found: Ends = dict(own._asdict())
    if baseline is not None:
        both = (1 + confidence) / 2
        mine, theirs = _own(sums, both, kind), _own(baseline, both, kind)
        return found | {"change_low": mine.low - theirs.high, "change_high": mine.high - theirs.low}
    production = sums.stratum.production(sums.metric)
    if production is None or sums.value is None or sums.spread is None:
        return found
    theta = sum(sums.metric.theta)
    paired = inference.change(sums.value, production, sums.spread.covariance, 0.0)
    between = inference.bounded(
        kind,
        sums.value - production,
        paired.se,
        sums.stratum.records,
        (-theta, max(sums.steepest - 1, 0.0) * theta),
        confidence,
    )
    return found | {"change_low": between.low, "change_high": between.high}


def _own(sums: Sums, confidence: float, kind: inference.Guarantee) -> inference.Interval:
    covariance = np.zeros((2, 2)) if sums.spread is None else sums.spread.covariance
    se = inference.value(sums.value or 0.0, covariance, 0.0).se
    most = sums.steepest * sum(sums.metric.theta)
    return inference.bounded(
        kind, sums.value or 0.0, se, sums.stratum.records, (0.0, most), confidence
    )
