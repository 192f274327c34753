"""Whether the click rates of a log change over its periods, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foreclick import inference
from foreclick.batches import Batches, Floats, batches_of, padded
from foreclick.estimators import AnySums, Ladder, Question, RatioSums, Weighted, check_metrics
from foreclick.estimators.examination import all_comparable, examination_curve
from foreclick.estimators.ladder.fit import period_counts
from foreclick.estimators.ladder.sample import sampled
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
                "off, which intervals leave out. A lift is less concerned."
            )
        if self.spread:
            found.append(
                f"{ITEMS_CHANGE} by {math.expm1(self.spread):.1%} a period, each its own way. "
                "Where items were shown in some periods only, their rates are those of "
                "these periods, which intervals leave out. Use fewer periods, or half_life=."
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


class _Trends(NamedTuple):
    """What the first reward of a log says of trends, whoever asks.

    Attributes:
        drift: how click rates change.
        examined: Shape (K,): how much positions are examined.
        within: whether that is known from moves within periods.
    """

    drift: Drift
    examined: Floats
    within: bool


def _trends(counted: Tally) -> _Trends | None:
    """Trends of items, each its own way; None where there are none."""
    if not (counted.shape.period and counted.shape.rewards):
        return None
    reward, batches = counted.shape.rewards[0], batches_of(counted)
    if ("trends", reward) not in batches.kept:
        examined = sampled(counted, reward).curve
        drift = drift_of(batches, reward, examined)
        n, w = period_counts(counted, reward) if drift.spread else (np.zeros((0, 1)),) * 2
        within = bool(drift.spread) and all_comparable(n, w)
        found = _Trends(drift, examination_curve(n, w) if within else examined, within)
        batches.kept["trends", reward] = found if drift.spread else None
    return batches.kept["trends", reward]  # type: ignore[no-any-return]


def within_periods(
    counted: Tally, estimators: Sequence[Weighted | Ladder], metrics: Sequence[AnyMetric]
) -> list[Weighted | Ladder]:
    """Estimators whose ladders learn the examination from moves within periods, where rates change.

    A ranker that follows the trends of items shows them high up on their good days. Across periods
    that looks as if high positions were examined more than they are. Where items do not move enough
    within periods, ladders stay as they are.
    """
    parts = [part for metric in metrics for part in metric.parts]
    check_metrics(counted.shape, parts)
    learning = [isinstance(by, Ladder) and by.examination is None for by in estimators]
    trends = _trends(counted) if any(learning) else None
    if trends is None or not trends.within:
        return list(estimators)
    p = padded(trends.examined, max(counted.shape.depth, *(part.depth for part in parts))).tolist()
    return [
        Ladder(by.top, by.strengths, p, by.segments, by.stopping, by.items)
        if isinstance(by, Ladder) and learns
        else by
        for by, learns in zip(estimators, learning, strict=True)
    ]


def with_drift(
    counted: Tally, question: Question, found: Sequence[AnySums]
) -> tuple[list[AnySums], list[str]]:
    """Estimates of ladders whose spread allows for trends of items, and a note.

    Of ratios and first clicks, the spread stays as it is.

    Args:
        counted: the log.
        question: what was asked.
        found: what was answered.
    """
    asked = [ask for _, asks in question.ladders for _, ask in asks if not ask.metric.first]
    trends = _trends(counted) if question.clusters and asked else None
    if trends is None:
        return list(found), []
    spread, examined = trends.drift.spread, trends.examined
    more = {
        metric: drift_covariance(counted, question, metric, examined, spread)
        for metric in dict.fromkeys(ask.metric for ask in asked)
    }
    return [_wider(sums, more) for sums in found], trends.drift.warning()


def _wider(sums: AnySums, more: dict[Metric, Floats]) -> AnySums:
    if isinstance(sums, RatioSums) or sums.spread is None or sums.rungs is None:
        return sums
    if sums.metric not in more:
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
