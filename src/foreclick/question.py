"""What is asked of a log: candidates, estimators and metrics, and which questions are refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

import pyarrow as pa

from foreclick.errors import MetricError, ModelError
from foreclick.estimators import Estimator, Ladder, LearntCurve
from foreclick.logs import PERIOD, Shape
from foreclick.metrics import SHOWN, AnyMetric, Metric, meant
from foreclick.models import MODELS, ClickModel
from foreclick.options import worker_count
from foreclick.policies import Policy
from foreclick.tallies.base import Tally
from foreclick.words import did_you_mean, number_of

Missing = Literal["error", "production", "drop"]
Clusters = Literal["period", "unit", "record"]  # whose records vary together
# A logging policy that is known, "propensity" for the log's own, or None for its frequencies.
Logging: TypeAlias = Policy | Literal["propensity"] | None


def by_hazard(model: ClickModel, metric: Metric) -> bool:
    """Whether an estimate is a product of hazards (see `hazards`), not a sum over cells.

    A first click depends on all that stands above it. `list` and `prefix` cells know what that is,
    and cells without items do not mind; a cell of a single slot needs the slots above it.
    """
    return metric.first and model.sees_items and not model.over_lists


@dataclass(frozen=True)
class Target:
    """What is estimated of every candidate: a click model, a metric and a clip."""

    model: ClickModel
    metric: Metric
    clip: float
    ladder: Ladder | None = None
    logging: Logging = None

    @property
    def group(self) -> object:
        """Targets of one group share their cells, and are answered together.

        `item` and `pbm` differ only in what they sum. Cells end where their metric does.
        """
        if self.ladder is not None:
            return self.ladder, self.metric.reward
        if self.metric.shown:
            return SHOWN
        if self.hazard:
            return "hazard", self.model.cell, self.metric.depth, self.metric.reward
        logging = "propensity" if self.logging == "propensity" else id(self.logging)
        return self.model.cell, self.metric.depth, logging

    @property
    def curve(self) -> LearntCurve | None:
        """The examination, if it was learnt, so that it has errors."""
        curve = self.model.examination
        return curve if isinstance(curve, LearntCurve) else None

    @property
    def hazard(self) -> bool:
        """Whether the answer is a product of hazards."""
        return by_hazard(self.model, self.metric)

    @property
    def theta(self) -> tuple[float, ...]:
        """θ_k of credit and exposure: the metric's; a hazard counts all positions alike."""
        return (1.0,) * self.metric.depth if self.hazard else self.metric.theta


@dataclass(frozen=True)
class Question:
    """What is asked of a log.

    Attributes:
        candidates: the policies; a baseline is one of them.
        missing: what contexts count as that a candidate has no list for; with "drop", those that
            any candidate does not know are left out of everything.
        loggings: for each estimator, where logging probabilities come from; empty: frequencies.
        by: the columns whose values split the answer into parts.
        contexts: some contexts, each of which is a part of the answer, and the others together.
        clusters: whose records vary together, for the variance of the estimates: one kind, or
            periods and units; none for estimates alone.
        top: how many of the least covered contexts are named; 0: support is not looked at.
        workers: how many processes work on a log that does not stay in memory.
        earlier: records before those of the log, which candidates were trained on.
        trained_before: whether candidates are said to be trained before the log begins.
    """

    candidates: Sequence[Policy]
    estimators: Sequence[Estimator]
    metrics: Sequence[AnyMetric]
    missing: Missing = "error"
    loggings: Sequence[Logging] = ()
    by: tuple[str, ...] = ()
    contexts: pa.Array | None = None
    clusters: tuple[Clusters, ...] = ()
    top: int = 0
    workers: int = field(default_factory=worker_count)
    earlier: Tally | None = None
    trained_before: bool = False

    @cached_property
    def parts(self) -> tuple[Metric, ...]:
        """The metrics that are sums over positions, and those that ratios are made of."""
        return tuple(dict.fromkeys(part for metric in self.metrics for part in metric.parts))

    @cached_property
    def depth(self) -> int:
        """The last position that any metric counts."""
        return max(metric.depth for metric in self.parts)

    @property
    def curved(self) -> list[ClickModel]:
        """The click models with an examination of each context."""
        return [*dict.fromkeys(e.model for e in self.estimators if e.model.by_context)]

    def logging_of(self, estimator: int) -> Logging:
        """Where the logging probabilities of an estimator come from."""
        return self.loggings[estimator] if self.loggings else None

    def targets_of(self, estimator: int, metric: Metric) -> list[Target]:
        """What an estimator is asked for by one metric: a target for every clip."""
        by, logging = self.estimators[estimator], self.logging_of(estimator)
        model, ladder = by.model, by if isinstance(by, Ladder) else None
        all_clips = by.clip or (math.inf,)
        if metric.shown:
            # One cell a context, of which all is clicked: what is shown is known, whoever asks.
            shown = replace(MODELS["rcm"], name=by.name)
            return [Target(shown, metric, math.inf) for _ in all_clips]
        return [Target(model, metric, clip, ladder, logging) for clip in all_clips]

    @cached_property
    def groups(self) -> list[list[Target]]:
        """All targets, each once, in groups that are answered together."""
        groups: dict[object, dict[Target, None]] = {}
        for e in range(len(self.estimators)):
            for metric in self.parts:
                for target in self.targets_of(e, metric):
                    groups.setdefault(target.group, {})[target] = None
        return [list(targets) for targets in groups.values()]


def check_question(tally: Tally, question: Question) -> None:
    """Refuse what this log cannot answer, before any work is done."""
    shape = tally.shape
    check_metrics(tally, question.parts)
    check_columns(shape, (), question.by)
    for number, estimator in enumerate(question.estimators):
        logging = question.logging_of(number)
        if isinstance(estimator, Ladder) and logging is not None:
            raise ModelError(
                f"{estimator.name!r} has no weights, so it has no use for logging=. Leave it out, "
                "or ask for other estimators."
            )
        if logging == "propensity" and not propensities_answer(shape, estimator):
            raise ModelError(
                f"propensities of each {shape.propensity} cannot answer for "
                f"{estimator.name!r}: 'list' needs the probability of the shown list, 'ip' and "
                "'prefix' that of each slot. Use logging='frequency' (the log's own), or give "
                "the logging policy itself, logging=Lists(…)."
            )
    for number, estimator in enumerate(question.estimators):
        for metric in question.parts:
            if not by_hazard(estimator.model, metric):
                continue
            subject = f"{metric.name} by {estimator.name!r}"
            if question.logging_of(number) is not None:
                raise ModelError(
                    f"{subject} takes click rates from records without a click above, and no "
                    "logging policy knows their share. Use logging='frequency', or the estimators "
                    "'list' and 'prefix'."
                )
            check_clips(estimator, metric)
            for policy in question.candidates:
                if not policy.complete:
                    raise ModelError(
                        f"{subject} depends on what stands above an item, and "
                        f"{type(policy).__name__} does not say which items stand together in a "
                        "list. Give whole lists with their probabilities, Lists(…), or draw some "
                        "from it and give Observed of them."
                    )


def check_clips(estimator: Estimator, metric: Metric) -> None:
    """Refuse to clip what has no weights, and rungs that do not know what stands above a slot."""
    if not by_hazard(estimator.model, metric):
        return
    if isinstance(estimator, Ladder):
        raise ModelError(
            f"{metric.name} depends on what stands above an item, which no rung of "
            f"{estimator.name!r} knows. Use 'ladder', or 'ip' without a ladder."
        )
    estimator.model.examined(0)  # refuses a curve for each context
    finite = [clip for clip in estimator.clip or () if math.isfinite(clip)]
    if finite:
        raise ModelError(
            f"{metric.name} by {estimator.name!r} is a product of click rates and has no weights "
            f"that clip={finite[0]:g} could bound. Use Weighted({estimator.name!r}) without it."
        )


def check_metrics(tally: Tally, metrics: Iterable[Metric]) -> None:
    """Refuse metrics of rewards that the log was read without, or that nothing in it has earned."""
    shape = tally.shape
    for metric in metrics:
        if not metric.shown and metric.source not in shape.rewards:
            hint = meant(metric.name, shape.rewards)
            raise MetricError(f"metric {metric.name!r}: {_no_reward(shape, metric.source, hint)}")
        if not metric.shown:
            check_earned(tally, metric.source)


def check_earned(tally: Tally, reward: str) -> None:
    """Refuse a reward that is 0 everywhere: any ranking is then as good as any other."""
    if reward in tally.unearned:
        records = number_of(tally.counts()["records"], "record")
        raise MetricError(
            f"the log has no {reward}: they are 0 in all of its {records}, so it cannot tell one "
            f"ranking from another. Check which column they were read from, {reward}=, or of "
            "events which actions count, rewards=."
        )


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


def propensities_answer(shape: Shape, estimator: Estimator) -> bool:
    """Whether the log's propensities are those of the cells that an estimator weighs.

    A list's probability is that of a `list` cell; a slot's is that of an `ip` cell, or of a
    `prefix` cell if it was logged as such. With one position all of these are the same.
    """
    if shape.propensity is None or isinstance(estimator, Ladder):
        return False
    if shape.depth == 1:
        return estimator.model.sees_items
    fits = {"list": ("list",), "slot": ("prefix", ("item", "position"))}
    return estimator.model.cell in fits[shape.propensity]


def policy_depth(question: Question, shape: Shape) -> int:
    """Down to which position policies are looked up.

    No further than the log or a policy shows anything, however deep a metric counts. Where whole
    lists are compared, by their propensities or by a ladder, it is all of the list, however little
    a metric counts; one position more than the log's tells a longer list from a logged one.
    """
    policies = (p for p in (*question.candidates, *question.loggings) if isinstance(p, Policy))
    filled = max(shape.depth, *(policy.longest for policy in policies))
    whole_list = "propensity" in question.loggings and (
        shape.propensity == "list" or shape.depth == 1
    )
    ladders = any(isinstance(e, Ladder) for e in question.estimators)
    least = shape.depth + 1 if whole_list or ladders else question.depth
    return int(min(max(question.depth, least), filled))
