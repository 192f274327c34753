"""What a verdict rests on: an interval, what the log saw of the candidate, and tests of the fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from foreclick.estimation.estimates import Estimate
from foreclick.metrics import Metric, Ratio
from foreclick.questions.intervals import Pair
from foreclick.results import format_value, span


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on.

    Attributes:
        estimator: the click model that is assumed.
        metric: what is counted.
        change: candidate − production; None without an answer.
        low: the lower end of its interval, None without one.
        high: the upper end.
        unseen: how much of the interval is what the log cannot see.
        beyond: how much further up it would reach, were all that is new clicked every time.
        covered: the share of the candidate's exposure that was ever shown.
        production: what the change is against.
        confidence: of the interval.
        records: how many it rests on.
        periods: how many it rests on, if it varies by them; None otherwise.
        repeated: the share of what was covered that was seen in several periods; None if unknown.
        error: by how much the estimator was off in a backtest; 0 without one.
        assumes: whether the estimator is a click model, which holds or does not.
        varies: the variance of a record's reward, at most; None if that is not known.
        sees_items: whether the estimate depends on which items are shown.
        past: where predictions were held against what came, in words.
        lasting: the share of the variance that no further record reduces.
        leakage_z: z of a test that the candidate knows these clicks; 0 where it may be chance.
        trained_before: whether it is said to be trained before they came.
        converged: whether the fits of the estimator are solved.
        own_clicks_z: z of a part's own clicks against the click rates that all parts share.
        lift: the ends of the interval of the lift alone, where there is one.
    """

    estimator: str
    metric: str
    change: float | None
    low: float | None
    high: float | None
    unseen: float
    beyond: float
    covered: float
    production: float | None
    confidence: float
    records: float = math.inf
    periods: float | None = None
    repeated: float | None = None
    error: float = 0.0
    assumes: bool = True
    varies: float | None = None
    sees_items: bool = True
    leakage_z: float = 0.0
    trained_before: bool = False
    converged: bool = True
    own_clicks_z: float = 0.0
    lasting: float = 0.0
    past: str = "the backtest"
    lift: tuple[float, float] | None = None

    @property
    def changes(self) -> str:
        """A sentence without its end: the interval of the lift, as the table has it."""
        low, high, production = self.low, self.high, self.production
        if low is None or high is None or not production:
            return f"{self.metric} changes by {span('change', low, high)}"
        ends = self.lift or (low / production, high / production)
        return f"{self.metric} changes by {span('lift', *ends)}"

    def relative(self, size: float) -> str:
        """How much something is, relative to production if that is anything."""
        if not self.production:
            return f"{size:.4g}"
        return format_value("share", size / self.production)


def evidence_for(
    pair: Pair,
    ends: Mapping[str, float | None],
    largest: Mapping[Metric, float],
    confidence: float,
    *,
    production: float | None = None,
    error: float = 0.0,
    past: str = "",
) -> Evidence:
    """The evidence of an estimate and what it is compared with.

    The interval is that of the change or of the lift, whichever is wider, so that a verdict
    contradicts neither of the two that are printed.

    Args:
        pair: the two.
        ends: of their change and of their lift.
        largest: the most that a slot can earn, by metric, where that is known.
        confidence: of the interval.
        production: what the change is a share of; None: what the estimate is compared with.
        error: by how much the estimator was off in the past.
        past: where it was off, in words.
    """
    one, other = pair.estimate, pair.production
    production = other if production is None else production
    kind, count = one.estimates.clusters(one.stratum.number) if one.has_variance else ("", 0)
    # Of clicks, 0 or 1 at a position that counts at most once, the variance is below the mean.
    simple = not isinstance(one.metric, Ratio) and largest.get(one.metric) == 1.0
    simple = simple and max(one.parts[0].metric.theta) <= 1
    low, high, lift = ends["change_low"], ends["change_high"], None
    if ends["lift_low"] is not None and ends["lift_high"] is not None and other:
        lift = ends["lift_low"], ends["lift_high"]
        low, high = min(low or 0.0, lift[0] * other), max(high or 0.0, lift[1] * other)
    return Evidence(
        estimator=one.estimator,
        metric=one.metric.name,
        change=pair.change,
        low=low,
        high=high,
        unseen=sum(one.unseen()),
        beyond=beyond(one, largest),
        covered=one.covered,
        production=production,
        confidence=confidence,
        records=one.stratum.records,
        periods=count if kind == "period" else None,
        repeated=one.repeated if one.sees_items else None,
        assumes=not one.ladder,
        varies=production if simple else None,
        sees_items=one.sees_items,
        lasting=pair.lasting(),
        leakage_z=max(one.leakage_z, 0.0 if pair.baseline is None else pair.baseline.leakage_z),
        trained_before=one.estimates.question.trained_before,
        converged=one.converged,
        own_clicks_z=one.own_clicks_z if one.ladder and one.has_variance else 0.0,
        error=error,
        past=past,
        lift=lift,
    )


def beyond(estimate: Estimate, largest: Mapping[Metric, float]) -> float:
    """How much more it may be worth than the log suggests, were all that is new clicked always."""
    if not any(part.metric in largest for part in estimate.parts):
        return 0.0
    return max(estimate.unseen(dict(largest)).more - estimate.unseen().more, 0.0)
