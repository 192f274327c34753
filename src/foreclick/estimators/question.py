"""What is asked of a log, and the parts of the log that an answer rests on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from foreclick.errors import MetricError, ModelError
from foreclick.estimators.cells import Ask, by_hazard
from foreclick.estimators.ladder.spec import Ladder
from foreclick.estimators.spec import Weighted
from foreclick.logs import PERIOD, Shape
from foreclick.metrics import AnyMetric, Metric, Ratio, meant
from foreclick.models import ClickModel
from foreclick.policies import Policy
from foreclick.words import did_you_mean

Missing = Literal["error", "production", "drop"]
Clusters = Literal["period", "unit", "record"]
"""Whose records vary together: those of a day, of a user, or none."""


@dataclass(frozen=True)
class Question:
    """What is asked of a log: a candidate, by which estimators and metrics, over which part.

    Attributes:
        missing: what contexts count as that the candidate has no list for.
        logging: the logging policy where it is known; "propensity" for the log's own propensities;
            None for the frequencies of the log.
        by: the columns whose values split the log into strata.
        baseline: a policy that the candidate is compared with; with missing="drop", contexts that
            either of them does not know are left out.
        clusters: whose records vary together, for the variance of the estimates: one kind, or
            periods and units; none for estimates alone.
        top: how many of the largest weights and of the contexts least seen are named; 0: support
            is not looked at.
        workers: how many processes work on a log that does not stay in memory.
    """

    candidate: Policy
    estimators: Sequence[Weighted | Ladder]
    metrics: Sequence[AnyMetric]
    missing: Missing = "error"
    logging: Policy | Literal["propensity"] | None = None
    by: tuple[str, ...] = ()
    baseline: Policy | None = None
    clusters: tuple[Clusters, ...] = ()
    top: int = 0
    workers: int = 1

    @property
    def turned(self) -> Question:
        """The same question about the baseline, with the candidate to compare it with."""
        if self.baseline is None:
            return self
        return replace(self, candidate=self.baseline, baseline=self.candidate)

    @property
    def asks(self) -> list[Ask]:
        """Every estimator with every sum over positions, in the order they were asked."""
        return [Ask.of(e, metric) for e in self.estimators for metric in self.parts]

    @property
    def parts(self) -> tuple[Metric, ...]:
        """The metrics that are sums over positions, and those that ratios are made of."""
        return tuple(dict.fromkeys(part for metric in self.metrics for part in metric.parts))

    @property
    def ratios(self) -> tuple[Ratio, ...]:
        """The metrics that are ratios."""
        return tuple(metric for metric in self.metrics if isinstance(metric, Ratio))

    @property
    def products(self) -> bool:
        """Whether products of the influence of single records on two metrics are needed."""
        return bool(self.ratios) and "record" in self.clusters

    @property
    def ladders(self) -> list[tuple[Ladder, list[tuple[int, Ask]]]]:
        """Asks of ladders, by number, in groups that are answered together."""
        groups: dict[object, tuple[Ladder, list[tuple[int, Ask]]]] = {}
        for i, ask in enumerate(self.asks):
            if ask.ladder is not None:
                groups.setdefault(ask.cell, (ask.ladder, []))[1].append((i, ask))
        return list(groups.values())

    @property
    def depth(self) -> int:
        """The last position that any metric counts."""
        return max(metric.depth for metric in self.parts)

    @property
    def two_way(self) -> bool:
        """Whether records of one period vary together, and so do those of one unit."""
        return {"period", "unit"} <= set(self.clusters)

    @property
    def hazards(self) -> list[tuple[Weighted | Ladder, Metric]]:
        """The estimators and metrics whose answer is a product of hazards."""
        asked = itertools.product(self.estimators, self.parts)
        return [(e, m) for e, m in asked if by_hazard(e.model, m)]


def check_question(shape: Shape, question: Question) -> None:
    """Refuse what this log cannot answer, before any work is done."""
    check_metrics(shape, question.parts)
    check_columns(shape, (), question.by)
    ladders = [e.name for e in question.estimators if isinstance(e, Ladder)]
    if ladders and question.logging is not None:
        raise ModelError(
            f"{ladders[0]!r} takes click rates from the log and weighs nothing, so it has no use "
            "for logging=. Leave it out, or ask for other estimators."
        )
    if question.logging == "propensity":
        for estimator in question.estimators:
            if not propensities_answer(shape, estimator):
                raise ModelError(
                    f"propensities of each {shape.propensity} cannot answer for "
                    f"{estimator.name!r}: 'list' needs the probability of the shown list, 'ip' and "
                    "'prefix' that of each slot. Use logging='frequency' (the log's own), or give "
                    "the logging policy itself, logging=Lists(…)."
                )
    for estimator, metric in question.hazards:
        _check_hazard(question, estimator, metric)


def _check_hazard(question: Question, estimator: Weighted | Ladder, metric: Metric) -> None:
    """Refuse what a product of hazards cannot use, with what can be done instead."""
    asked = f"{metric.name} by {estimator.name!r}"
    if question.logging is not None:
        raise ModelError(
            f"{asked} takes click rates from the records without a click so far, which no logging "
            "policy knows the share of. Use logging='frequency', or the estimators 'list' and "
            "'prefix'."
        )
    check_clips(estimator, metric)
    for policy in (question.candidate, question.baseline):
        if policy is not None and not policy.complete:
            raise ModelError(
                f"{asked} depends on what stands above an item, and {type(policy).__name__} does "
                "not say which items stand together in a list. Give whole lists with their "
                "probabilities, Lists(…), or draw some from it and give Observed of them."
            )


def check_clips(estimator: Weighted | Ladder, metric: Metric) -> None:
    """Refuse to clip what has no weights, and rungs that do not know what stands above a slot."""
    if isinstance(estimator, Ladder) and by_hazard(estimator.model, metric):
        raise ModelError(
            f"{metric.name} depends on what stands above an item, which no rung of "
            f"{estimator.name!r} knows. Use 'ladder', or 'ip' without a ladder."
        )
    finite = [clip for clip in estimator.clip or () if math.isfinite(clip)]
    if finite and by_hazard(estimator.model, metric):
        raise ModelError(
            f"{metric.name} by {estimator.name!r} is a product of click rates and has no weights "
            f"that clip={finite[0]:g} could bound. Use clip=math.inf, or "
            f"Weighted({estimator.name!r}, clip=math.inf) for it alone."
        )


def check_metrics(shape: Shape, metrics: Iterable[Metric]) -> None:
    """Refuse metrics of rewards that the log was read without."""
    for metric in metrics:
        if not metric.shown and metric.source not in shape.rewards:
            hint = meant(metric.name, shape.rewards)
            raise MetricError(f"metric {metric.name!r}: {_no_reward(shape, metric.source, hint)}")


def _no_reward(shape: Shape, name: str, hint: str) -> str:
    had = ", ".join(shape.rewards) or "no rewards at all (clicks=None)"
    return (
        f"the log has no reward {name!r}, it was read with {had}.{hint} For another reward, read "
        f"it with rewards={{{name!r}: …}}."
    )


def check_columns(shape: Shape, rewards: Sequence[str], by: Sequence[str]) -> None:
    """Refuse rewards and segments that the log was read without."""
    absent = [r for r in rewards if r not in shape.rewards]
    if absent:
        raise MetricError(_no_reward(shape, absent[0], did_you_mean(absent[0], shape.rewards)))
    can = (*shape.segments, *([PERIOD] if shape.period else []))
    unknown = [b for b in by if b not in can]
    if unknown:
        had = f"the segments {', '.join(can)}" if can else "no segments"
        raise ModelError(
            f"by={unknown[0]!r}: the log was read with {had}.{did_you_mean(unknown[0], can)} For "
            f"another, read it with segments={unknown[0]!r}."
        )


def propensities_answer(shape: Shape, estimator: Weighted | Ladder) -> bool:
    """Whether the log's propensities are those of the cells that an estimator weighs.

    A list's probability is that of a `list` cell; a slot's is that of an `ip` cell, or of a
    `prefix` cell if it was logged as such. With one position all of these are the same.
    """
    if shape.propensity is None or isinstance(estimator, Ladder):
        return False
    model = estimator.model
    if shape.depth == 1:
        return model.sees_items
    fits = {"list": ("list",), "slot": ("prefix", ("item", "position"))}
    return model.cell in fits[shape.propensity]


@dataclass(frozen=True)
class Part:
    """Sums over some contexts: records, and by position how often it was filled and its rewards.

    Attributes:
        shown: by position.
        rewards: by metric and position, what the metric's reward sums to.
        at_risk: by metric and position, for metrics of first clicks: records without a click above.
    """

    contexts: int
    records: float
    shown: list[float]
    rewards: dict[Metric, list[float]]
    at_risk: dict[Metric, list[float]]

    def credit(self, metric: Metric) -> float:
        """Σ_k θ_k w_k over the records."""
        return sum(t * w for t, w in zip(metric.theta, self.rewards[metric], strict=False))

    def unevenness(self, metric: Metric) -> float:
        """Σθ / Σθ² over the slots that were shown: 1 where positions count alike."""
        weighed = list(zip(metric.theta, self.shown, strict=False))
        squared = sum(t * t * n for t, n in weighed)
        return sum(t * n for t, n in weighed) / squared if squared else 0.0

    def exposure(self, ask: Ask) -> float:
        """Σ_k e_k over the records."""
        return sum(e * n for e, n in zip(ask.exposure, self.shown, strict=False))

    def counted(self, ask: Ask) -> float:
        """Σ_k e_k over the records that click rates are taken from."""
        counts = self.counts(ask.model, ask.metric)
        return sum(e * n for e, n in zip(ask.exposure, counts, strict=False))

    def counts(self, model: ClickModel, metric: Metric) -> list[float]:
        """By position, how many records a click rate is of: all, or those at risk."""
        return self.at_risk[metric] if by_hazard(model, metric) else self.shown


@dataclass(frozen=True)
class Stratum:
    """What a part of the log (all of it, or one segment) rests on.

    Attributes:
        segment: the values of the `by` columns.
        number: among the strata of the answer.
        known: the contexts that the candidate has lists for.
        unknown: the others; they count as production does, or not at all.
        used: whether the unknown contexts count.
    """

    segment: dict[str, Any]
    number: int
    known: Part
    unknown: Part
    used: bool

    @property
    def contexts(self) -> int:
        """How many contexts the estimate uses."""
        return self.known.contexts + (self.unknown.contexts if self.used else 0)

    @property
    def records(self) -> float:
        """How many records the estimate uses."""
        return self.known.records + (self.unknown.records if self.used else 0)

    @property
    def missing_contexts(self) -> int:
        """Contexts of the log that the candidate has no list for."""
        return self.unknown.contexts

    def production(self, metric: AnyMetric) -> float | None:
        """The mean reward of the records that are used, or the ratio of two."""
        if not self.records:
            return None
        if isinstance(metric, Ratio):
            over, under = (self.production(part) for part in metric.parts)
            return over / under if over is not None and under else None
        absent = self.unknown.credit(metric) if self.used else 0
        return (self.known.credit(metric) + absent) / self.records

    def best_rate(self, model: ClickModel, metric: Metric) -> float:
        """The mean reward of the best position, per unit of examination."""
        parts = self.known, self.unknown
        shown = [sum(n) for n in zip(*(p.counts(model, metric) for p in parts), strict=True)]
        earned = [sum(w) for w in zip(*(p.rewards[metric] for p in parts), strict=True)]
        examined = model.examined(metric.depth)
        rates = [w / n / p for w, n, p in zip(earned, shown, examined, strict=False) if n * p > 0]
        return max(rates, default=0.0)
