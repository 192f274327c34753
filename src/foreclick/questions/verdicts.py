"""From estimates to intervals and verdicts: what may be said of a candidate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from foreclick import inference
from foreclick.batches import largest_rewards
from foreclick.estimate.estimates import Estimate
from foreclick.estimate.sums import Unseen
from foreclick.metrics import AnyMetric, Metric, Ratio, parse_metric
from foreclick.results import format_value
from foreclick.tallies.base import Tally

IntervalKind = Literal["sampling", "anytime"]
"""Whether an interval holds at one look at the log, or at all looks together."""

TUNED_PERIODS = 14
"""An anytime interval is shortest after two weeks, and within 6 % of it from day 4 to day 80."""

TUNED_RECORDS = 10_000
"""Or, where days do not count, after so many records."""

HAS_A_SAY = 0.9
"""Of the candidate's exposure, for an estimator to agree or disagree with another."""

Ends = dict[str, float | None]

_NOTHING = Unseen(0.0, 0.0)  # of production, all was seen
_CERTAIN = 0.99  # of a contradiction
_ROUNDING = 1e-9  # of a value: what differs by less is the same
_LEAST = 1e-150  # of what a lift is over: its square is a number
_NAMES = ("se", "low", "high", "change_low", "change_high", "lift_low", "lift_high")
_OPPOSITES = ({inference.BETTER, inference.WORSE}, {inference.HELD, inference.BROKEN})


@dataclass(frozen=True)
class Pair:
    """An estimate and what it is compared with: the log's own mean, or that of a baseline."""

    estimate: Estimate
    baseline: Estimate | None = None

    @property
    def production(self) -> float | None:
        """What the candidate is compared with."""
        return self.estimate.production if self.baseline is None else self.baseline.value

    @property
    def change(self) -> float | None:
        """The difference of the two."""
        value, production = self.estimate.value, self.production
        return None if value is None or production is None else value - production

    def ends(self, confidence: float, kind: IntervalKind) -> Ends:
        """The standard error of the estimate, and the ends of all intervals; None for no end.

        The ends hold for chance, and whatever is true of what the log cannot see of either side.
        """
        one, found, production = self.estimate, dict.fromkeys(_NAMES), self.production
        value = one.value
        if not one.told or value is None:
            return found
        memory, freedom = one.memory()
        lasting = one.covariance + np.diag([memory, 0.0])
        found |= inference.value(value, lasting, _reach(one, freedom, confidence, kind))._asdict()
        own, other = one.unseen(), _NOTHING if self.baseline is None else self.baseline.unseen()
        found["low"] = max(float(found["low"] or 0.0) - own.less, 0.0)  # rewards are not negative
        found["high"] = float(found["high"] or 0.0) + own.more
        if production is None or (self.baseline is not None and not self.baseline.told):
            return found
        joint = one.covariance
        if self.baseline is not None:
            joint = one.of.joint([one, self.baseline])
        reach = _reach(one, one.of.freedom(one.stratum.number), confidence, kind)
        unseen = own.against(other)
        between = inference.change(value, production, joint, reach)
        found["change_low"] = between.low - unseen.less
        found["change_high"] = between.high + unseen.more
        if production > _LEAST:
            relative = inference.lift(value, production, joint, reach)
            found["lift_low"] = relative.low - unseen.less / production
            found["lift_high"] = relative.high + unseen.more / production
        return found


def _reach(one: Estimate, freedom: float, confidence: float, kind: IntervalKind) -> float:
    """How many standard errors an interval reaches.

    The time of an anytime interval is what the variance falls with: days where days differ, and
    records otherwise. The buckets of users are always as many, but hold more and more records.
    """
    if kind == "sampling":
        return inference.quantile(confidence, freedom)
    by, clusters = one.of.clusters(one.stratum.number)
    time, tuned = one.stratum.records, TUNED_RECORDS
    if by == "period":
        time, tuned = clusters, TUNED_PERIODS
    return inference.anytime(confidence, freedom, time, tuned)


@dataclass(frozen=True)
class Claims:
    """What verdicts are to hold for.

    Attributes:
        confidence: of all verdicts of an estimator together: segments, and metrics with guardrails.
        interval: the kind of interval that they rest on.
        min_effect: the smallest change worth having, as a share of production.
        guardrails: the metrics that must not fall, and the share that each may lose.
    """

    confidence: float
    interval: IntervalKind = "sampling"
    min_effect: float = 0.0
    guardrails: Mapping[AnyMetric, float] | None = None


def parse_guardrails(asked: Mapping[Any, Any] | None) -> dict[AnyMetric, float]:
    """Guardrails by metric."""
    return {parse_metric(name): float(share) for name, share in (asked or {}).items()}


def largest_slots(tally: Tally, estimates: Sequence[Estimate]) -> dict[Metric, float]:
    """The most that a slot can earn, by metric: 1 click, or the largest reward of the log.

    Only of metrics for which something was never shown: to look for it takes a pass over the log.
    """
    unseen = {part.metric for e in estimates for part in e.parts if part.covered < part.mass}
    binary = {m for m in unseen if m.first or m.shown or m.source in tally.shape.masks}
    largest = largest_rewards(tally, sorted({m.source for m in unseen - binary}))
    return {m: 1.0 if m in binary else largest[m.source] for m in unseen}


def beyond(estimate: Estimate, most: dict[Metric, float]) -> float:
    """How much more it may be worth than the log suggests, were all that is new clicked always."""
    if not any(part.metric in most for part in estimate.parts):
        return 0.0
    return max(estimate.unseen(most).more - estimate.unseen().more, 0.0)


def evidence_of(
    tally: Tally, pairs: Sequence[Pair], claims: Claims, errors: Sequence[float]
) -> list[inference.Evidence]:
    """What the verdict on each pair rests on.

    A verdict is read off the printed intervals: off that of the change and that of the lift, so
    that it contradicts neither.

    Args:
        tally: the log.
        pairs: estimates and what they are compared with.
        claims: what the verdicts are to hold for.
        errors: how far each estimator was off in a backtest; 0 without one.
    """
    parts = len({pair.estimate.stratum.number for pair in pairs})
    metrics = len({pair.estimate.metric for pair in pairs}) if claims.guardrails else 1
    each = 1 - (1 - claims.confidence) / (parts * metrics)
    most = largest_slots(tally, [pair.estimate for pair in pairs])
    found = []
    for pair, error in zip(pairs, errors, strict=True):
        one, ends = pair.estimate, pair.ends(each, claims.interval)
        low, high, production = ends["change_low"], ends["change_high"], pair.production
        if ends["lift_low"] is not None and ends["lift_high"] is not None and production:
            low = min(low or 0.0, ends["lift_low"] * production)
            high = max(high or 0.0, ends["lift_high"] * production)
        found.append(
            inference.Evidence(
                estimator=one.estimator,
                metric=one.metric.name,
                change=pair.change,
                low=low,
                high=high,
                unseen=sum(one.unseen()),
                beyond=beyond(one, most),
                covered=one.covered,
                production=production,
                confidence=claims.confidence,
                records=one.stratum.records,
                repeated=one.repeated,
                error=error,
                assumes=not one.ladder,
                unit="" if isinstance(one.metric, Ratio) else " a record",
                sighted=one.sighted,
                leaking=one.of.leaking if one.ladder else 0.0,
            )
        )
    return found


def judged(
    pairs: Sequence[Pair], claims: Claims, evidence: Sequence[inference.Evidence]
) -> list[inference.Verdict]:
    """A verdict for each pair."""
    guardrails = claims.guardrails or {}
    shares = [guardrails.get(pair.estimate.metric) for pair in pairs]
    found = [
        inference.judge(e, claims.min_effect) if share is None else inference.guard(e, share)
        for e, share in zip(evidence, shares, strict=True)
    ]
    _check([pair.estimate for pair in pairs], found)
    whose = [(p.estimate.estimator, p.estimate.clip, p.estimate.stratum.number) for p in pairs]
    guards: dict[object, list[inference.Verdict]] = {}
    for of, verdict, share in zip(whose, found, shares, strict=True):
        if share is not None:
            guards.setdefault(of, []).append(verdict)
    return [
        inference.guarded(verdict, guards.get(of, [])) if share is None else verdict
        for of, verdict, share in zip(whose, found, shares, strict=True)
    ]


def _check(estimates: Sequence[Estimate], found: list[inference.Verdict]) -> None:
    """Where a ladder and `ip` contradict each other, the verdict of both is that nobody can tell.

    Of guardrails too, and before they count: a metric is not better by a guardrail that one of the
    two denies.
    """
    answers: dict[object, int] = {}
    checks: dict[object, int] = {}
    for i, one in enumerate(estimates):
        of: object = (one.metric, one.stratum.number)
        if one.ladder:
            answers.setdefault(of, i)
        elif one.estimator == "ip":
            checks.setdefault(of, i)
    for of in answers.keys() & checks.keys():
        i, j = answers[of], checks[of]
        words, because = {found[i].word, found[j].word}, ""
        if len(words) == 1:
            continue  # both come to the same word
        one, other = estimates[i], estimates[j]
        if contradicts([one], [other]):
            unit = "" if isinstance(one.metric, Ratio) else " a record"
            because = (
                f"{inference.DISAGREE}: by {one.estimator!r} {one.metric.name} is "
                f"{format_value('value', one.value)}{unit}, by {other.estimator!r} "
                f"{format_value('value', other.value)}, further apart than chance puts them. A "
                "backtest says which of them predicts this log; or show the candidate to a few "
                "users."
            )
        elif words in _OPPOSITES:
            because = f"{inference.DISAGREE}: {found[i].because} {found[j].because}"
        if because:
            found[i] = found[j] = replace(
                found[i], word=inference.UNKNOWN, because=because, plain=False
            )


def contradicts(answer: Sequence[Estimate], check: Sequence[Estimate]) -> bool:
    """Whether two estimators are further apart than chance puts them.

    If both click models hold, the two differ by chance and by what either did not see. The test of
    Hausman (1978), from the influence of the same records on both.

    Args:
        answer: what one of them says of a candidate; or of two, for their difference.
        check: what the other says.
    """
    every = [*answer, *check]
    if not all(one.told for one in every) or min(one.covered for one in every) < HAS_A_SAY:
        return False
    values = np.array([one.value or 0.0 for one in every])
    sign = np.array([1.0, -1.0][: len(answer)])
    sign = np.concatenate([sign, -sign])
    apart = float(sign @ values)
    if abs(apart) <= _ROUNDING * np.abs(values).max():
        return False
    of, s = every[0].of, every[0].stratum.number
    reach = inference.quantile(_CERTAIN, of.freedom(s))
    chance = reach * math.sqrt(max(float(sign @ of.joint(every) @ sign), 0.0))
    unseen = [one.unseen() for one in every]
    less = sum(u.less if s > 0 else u.more for u, s in zip(unseen, sign, strict=True))
    more = sum(u.more if s > 0 else u.less for u, s in zip(unseen, sign, strict=True))
    return not apart - chance - less <= 0 <= apart + chance + more
