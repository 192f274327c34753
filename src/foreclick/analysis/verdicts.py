"""Verdicts of an evaluation: what its intervals, its guardrails and a backtest allow to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foreclick import inference
from foreclick.analysis.headline import contradiction
from foreclick.analysis.intervals import Ends, IntervalKind, ends
from foreclick.analysis.unseen import NOTHING, beyond, largest_slots, widened
from foreclick.estimators import AnySums
from foreclick.metrics import AnyMetric, Metric, Ratio, parse_metric
from foreclick.tallies.base import Tally

_OPPOSITES = ({inference.BETTER, inference.WORSE}, {inference.HELD, inference.BROKEN})


@dataclass(frozen=True)
class Pair:
    """An estimate and what it is compared with: the log's own mean, or that of a baseline.

    Attributes:
        cap: the highest click rate of what was never shown; None: that of the best position of the
            estimate's stratum.
    """

    sums: AnySums
    baseline: AnySums | None
    cap: float | None = None

    @property
    def production(self) -> float | None:
        """What the candidate is compared with."""
        if self.baseline is not None:
            return self.baseline.value
        return self.sums.production

    @property
    def change(self) -> float | None:
        """The difference of the two."""
        value, production = self.sums.value, self.production
        return None if value is None or production is None else value - production

    def ends(self, confidence: float, kind: IntervalKind) -> Ends:
        """The ends of all intervals, with what the log cannot see of either side."""
        if not self.sums.asked:
            return {}
        found = ends(self.sums, self.baseline, self.production, confidence, kind)
        other = NOTHING if self.baseline is None else self.baseline.unseen(self.cap)
        return widened(found, self.sums.unseen(self.cap), other, self.production)


@dataclass(frozen=True)
class Claims:
    """What verdicts are to hold for.

    Attributes:
        confidence: of all verdicts of an estimator together: segments, and metrics with guardrails.
        interval: the kind of interval that they rest on.
        practical: the smallest change worth having.
        guardrails: the metrics that must not fall, and the share that each may lose.
    """

    confidence: float
    interval: IntervalKind
    practical: float
    guardrails: dict[AnyMetric, float]


def parse_guardrails(asked: Mapping[Any, Any] | None) -> dict[AnyMetric, float]:
    """Guardrails by metric."""
    return {parse_metric(name): float(share) for name, share in (asked or {}).items()}


def evidence_of(
    tally: Tally, pairs: Sequence[Pair], claims: Claims, errors: Sequence[float]
) -> list[inference.Evidence]:
    """What the verdict on each pair rests on.

    Args:
        tally: the log.
        pairs: estimates and what they are compared with.
        claims: what the verdicts are to hold for.
        errors: how far each estimator was off in a backtest; 0 without one.
    """
    segments = len({pair.sums.stratum.number for pair in pairs})
    metrics = len({pair.sums.metric for pair in pairs}) if claims.guardrails else 1
    each = 1 - (1 - claims.confidence) / (segments * metrics)
    most = largest_slots(tally, [pair.sums for pair in pairs])
    return [
        replace(_evidence(pair, each, claims, most), error=error)
        for pair, error in zip(pairs, errors, strict=True)
    ]


def judged(
    pairs: Sequence[Pair], claims: Claims, evidence: Sequence[inference.Evidence]
) -> list[inference.Verdict]:
    """A verdict for each pair.

    Args:
        pairs: estimates and what they are compared with.
        claims: what the verdicts are to hold for.
        evidence: see `evidence_of`.
    """
    shares = [claims.guardrails.get(pair.sums.metric) for pair in pairs]
    found = [
        inference.judge(e, claims.practical) if share is None else inference.guard(e, share)
        for e, share in zip(evidence, shares, strict=True)
    ]
    _check(pairs, found)
    guards: dict[object, list[inference.Verdict]] = {}
    for pair, verdict, share in zip(pairs, found, shares, strict=True):
        if share is not None:
            guards.setdefault(_whose(pair), []).append(verdict)
    return [
        inference.guarded(verdict, guards.get(_whose(pair), [])) if share is None else verdict
        for pair, verdict, share in zip(pairs, found, shares, strict=True)
    ]


def _check(pairs: Sequence[Pair], found: list[inference.Verdict]) -> None:
    """Where a ladder and `ip` contradict each other, the verdict of both is that nobody can tell.

    Of guardrails too, and before they count: a metric is not better by a guardrail that one of the
    two denies.
    """
    answers: dict[tuple[AnyMetric, int], int] = {}
    checks: dict[tuple[AnyMetric, int], int] = {}
    for i, pair in enumerate(pairs):
        sums = pair.sums
        of = sums.metric, sums.stratum.number
        if sums.rungs is not None:
            answers.setdefault(of, i)
        elif sums.estimator == "ip":
            checks.setdefault(of, i)
    for of in answers.keys() & checks.keys():
        i, j = answers[of], checks[of]
        words = {found[i].word, found[j].word}
        if len(words) == 1:
            continue  # both come to the same word
        because = contradiction(pairs[i].sums, pairs[j].sums)
        if words in _OPPOSITES and not because:
            because = f"{inference.DISAGREE}: {found[i].because} {found[j].because}"
        if because:
            found[i] = found[j] = inference.Verdict(inference.UNKNOWN, because)


def _whose(pair: Pair) -> object:
    """What a metric and its guardrails have in common."""
    return pair.sums.estimator, pair.sums.clip, pair.sums.stratum.number


def _evidence(
    pair: Pair, confidence: float, claims: Claims, most: dict[Metric, float]
) -> inference.Evidence:
    sums, found = pair.sums, pair.ends(confidence, claims.interval)
    return inference.Evidence(
        estimator=sums.estimator,
        metric=sums.metric.name,
        change=pair.change,
        low=found["change_low"],
        high=found["change_high"],
        unseen=sum(sums.unseen()),
        beyond=beyond(sums, most),
        covered=sums.covered_share,
        production=pair.production,
        confidence=claims.confidence,
        repeated=sums.repeated,
        assumes=sums.rungs is None,
        unit="" if isinstance(sums.metric, Ratio) else " a record",
        sighted=any(part.model.sees_items for part in sums.parts),
    )
