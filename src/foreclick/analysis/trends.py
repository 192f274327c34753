"""Whether the click rates of a log change over its periods, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foreclick import inference
from foreclick.batches import Batches, Floats, batches_of, padded
from foreclick.estimators import AnySums, Ladder, Question, RatioSums, Weighted
from foreclick.estimators.examination import all_comparable, examination_curve
from foreclick.estimators.ladder.fit import fitted, period_counts
from foreclick.estimators.trend import drift_covariance, item_trends
from foreclick.metrics import AnyMetric, Metric
from foreclick.tallies.base import Tally

ITEMS_CHANGE = "Click rates of items change"
"""How a note on trends of items begins."""

_WORTH = 0.1  # of a rate, from the first to the last period: less is not worth speaking of


class Drift(NamedTuple):
    """How log rates change from one period to the next; 0 where that may be chance.

    Attributes:
        common: what all items share, up or down.
        spread: how much items differ in it, as a standard deviation.
        ahead: how many periods the end of the log is from its middle.
    """

    common: float
    spread: float
    ahead: float

    @property
    def fastest(self) -> float:
        """How fast the rate of an item may change."""
        return abs(self.common) + self.spread

    @property
    def at_end(self) -> float:
        """How far the end of the log is above its mean, as a share of it."""
        return math.expm1(self.common * self.ahead)

    def notes(self) -> list[str]:
        """What the reader of a value should know."""
        found = []
        if self.common:
            word = "rise" if self.common > 0 else "fall"
            found.append(
                f"Click rates {word} by {abs(math.expm1(self.common)):.1%} a period, all items "
                f"alike. Values are means over the log; at its end they are {self.at_end:+.0%} "
                "off, and intervals of the value reach that far. A lift is less concerned."
            )
        if self.spread:
            found.append(
                f"{ITEMS_CHANGE} by {math.expm1(self.spread):.1%} a period, each its own way. "
                "Where items were shown in some periods only, their rates are those of "
                "these periods; the intervals allow for that. Use fewer periods, or half_life=."
            )
        return found

    def warning(self) -> list[str]:
        """What the reader of an evaluation should know."""
        if not self.spread:
            return []
        note = (
            f"{ITEMS_CHANGE} by {math.expm1(self.spread):.1%} a period, each its own way. A rate "
            "is that of the periods in which its item was shown; the intervals allow for what it "
            "may be at the end of the log. Use fewer periods, or half_life=."
        )
        return [note]


def within_periods(
    counted: Tally, estimators: Sequence[Weighted | Ladder], metrics: Sequence[AnyMetric]
) -> list[Weighted | Ladder]:
    """Estimators whose ladders learn the examination from moves within periods, where rates change.

    A ranker that follows the trends of items shows them high up on their good days. Across periods
    that looks as if high positions were examined more than they are. Where items do not move enough
    within periods, ladders stay as they are.
    """
    rewards = [m.reward for metric in metrics for m in metric.parts if not (m.first or m.shown)]
    if not counted.shape.period or not rewards:
        return list(estimators)
    depth = max(counted.shape.depth, *(m.depth for metric in metrics for m in metric.parts))
    return [_within_periods(counted, each, rewards[0], depth) for each in estimators]


def _within_periods(
    counted: Tally, by: Weighted | Ladder, reward: str, depth: int
) -> Weighted | Ladder:
    if not isinstance(by, Ladder) or by.examination is not None:
        return by
    examined = np.array(fitted(counted, by, reward).examined)
    if not drift_of(batches_of(counted), reward, examined).spread:
        return by
    n, w = period_counts(counted, reward)
    if not all_comparable(n, w):
        return by
    p = padded(examination_curve(n, w), depth).tolist()
    return Ladder(by.top, by.strengths, p, by.segments, by.stopping, by.items)


def with_drift(
    counted: Tally, question: Question, found: Sequence[AnySums]
) -> tuple[list[AnySums], list[str]]:
    """Estimates whose spread allows for trends of items, and a note; by what a ladder learnt.

    Of ratios and first clicks, the spread stays as it is.

    Args:
        counted: the log.
        question: what was asked.
        found: what was answered.
    """
    asked = [ask for _, asks in question.ladders for _, ask in asks if not ask.metric.first]
    if not (counted.shape.period and question.clusters and asked) or asked[0].ladder is None:
        return list(found), []
    fit = fitted(counted, asked[0].ladder, asked[0].metric.reward)
    examined = np.array(fit.examined)
    drift = drift_of(batches_of(counted), asked[0].metric.reward, examined)
    if not drift.spread:
        return list(found), []
    more = {
        ask.metric: drift_covariance(counted, question, ask.metric, examined, drift.spread)
        for ask in asked
    }
    return [_wider(sums, more) for sums in found], drift.warning()


def _wider(sums: AnySums, more: dict[Metric, Floats]) -> AnySums:
    if isinstance(sums, RatioSums) or sums.spread is None or sums.metric not in more:
        return sums
    drift = more[sums.metric][sums.stratum.number] / sums.stratum.records**2
    return replace(sums, spread=sums.spread.plus(drift))


def drift_of(batches: Batches, reward: str, examined: Floats) -> Drift:
    """How the click rates of a log change from period to period.

    Args:
        batches: the log.
        reward: what is counted as clicks.
        examined: Shape (K,): p_1, p_2, ….
    """
    key = "drift", reward, tuple(examined.tolist())
    if key not in batches.kept:
        batches.kept[key] = _drift(batches, reward, examined)
    return batches.kept[key]  # type: ignore[no-any-return]


def _drift(batches: Batches, reward: str, examined: Floats) -> Drift:
    totals, periods = item_trends(batches, reward, examined), batches.codebook.periods
    if totals is None or periods is None:
        return Drift(0.0, 0.0, 0.0)
    found, last = inference.trend(totals), periods.known - 1
    common, spread = found.drift(last, _WORTH)
    return Drift(math.copysign(common, found.common), spread, last / 2)
