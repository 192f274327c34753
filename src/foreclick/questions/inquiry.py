"""From a request to an answer: the question in full, and what is said of its estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from foreclick import inference
from foreclick.batches import size_of
from foreclick.estimation.clusters import clusters_of
from foreclick.estimation.estimates import Estimate, Estimates
from foreclick.estimators import EstimatorLike, Ladder
from foreclick.logs import PERIOD
from foreclick.metrics import USUAL_METRICS, AnyMetric, parse_any, parse_metric
from foreclick.options import Confidence
from foreclick.policies import Policy, PolicyLike, policy_for
from foreclick.question import Missing, Question
from foreclick.questions.answers import (
    Evaluation,
    answering_of,
    coverage_notes,
    fit_notes,
    policy_notes,
    repetition_note,
    rests_on,
    training_assumed,
    verdict_notes,
)
from foreclick.questions.asked import (
    estimates_for,
    is_default,
    largest_slots,
    make_question,
)
from foreclick.questions.backtest import Backtest
from foreclick.questions.depth import compared_down
from foreclick.questions.errors import error_rows
from foreclick.questions.evidence import Evidence
from foreclick.questions.intervals import Pair
from foreclick.questions.verdicts import Verdict, judge_pairs
from foreclick.results import format_value
from foreclick.tallies import Tally, notes_in_order

BEFORE = "before"
"""As `trained_until`: the candidate was trained before the log begins."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of a log and a candidate: the options of `evaluate`, which explains them."""

    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS
    estimators: EstimatorLike | Sequence[EstimatorLike] | None = None
    missing: Missing = "error"
    trained_until: object = None
    logging: Policy | Literal["frequency", "propensity"] | None = None
    baseline: PolicyLike | None = None
    by: str | Sequence[str] | None = None
    confidence: float | Confidence | None = 0.95
    min_effect: float = 0.0
    guardrails: Mapping[str | AnyMetric, float] | None = None

    @property
    def level(self) -> Confidence:
        """How sure intervals are; as usual where none are asked for."""
        if isinstance(self.confidence, Confidence):
            return self.confidence
        return Confidence(self.confidence or 0.95)


@dataclass(frozen=True, eq=False)
class Inquiry:
    """A question in full, and all that its answer depends on besides.

    Attributes:
        tally: the log.
        question: what is asked of it.
        level: how sure intervals are.
        answering: the estimator whose rows are the answer.
        against: what the candidate is compared with.
        compared: a sentence on how far down lists are compared, if some end early.
        min_effect: the smallest change worth having, as a share of production.
        guardrails: metrics that must not fall, each with the share that it may lose.
        notes: what the reader should know first.
        facts: how the log was read.
        assumed: what estimators take as given.
        trained: whether it is said until when the candidate was trained.
    """

    tally: Tally
    question: Question
    level: Confidence
    answering: str
    against: str
    compared: str
    min_effect: float
    guardrails: Mapping[AnyMetric, float]
    notes: tuple[str, ...]
    facts: tuple[str, ...]
    assumed: tuple[str, ...]
    trained: bool

    def answer(self, estimates: Estimates) -> Evaluation:
        """What is said of the estimates of this question, or of one that asks for more."""
        pairs, rows, evidence, verdicts = self._part(estimates, whole=False)
        ones = [pair.estimate for pair in pairs]
        by, answering, notes = self.question.by, self.answering, list[str]()
        sources: list[dict[str, Any]] = []
        if self.question.clusters:
            for pair, row in zip(pairs, rows, strict=True):
                sources.extend(error_rows(pair, row) if row["estimator"] == answering else ())
            notes += verdict_notes(rows, evidence, verdicts, by, answering)
            if self.level.anytime:
                notes.append(
                    "The intervals hold at all looks together, however often the log is evaluated."
                )
        if isinstance(self.level.past, Backtest):
            notes += _newness_note(rows, evidence, answering)
        notes += [*self.assumed, *fit_notes(self.tally, self.question, estimates)]
        ignored = 0 if self.tally.shape.drawn else estimates.ignored_contexts(0)
        notes += coverage_notes(rows, ones, answering, ignored)
        found = any(each.leakage_z for each in evidence)
        silent = not self.question.clusters or self.trained or found
        assumed = "" if silent else training_assumed(self.question.candidates[:1])
        return Evaluation(
            tuple(rows),
            tuple(rows[0]),
            (*self.notes, *notes, *self.facts),
            evidence=tuple(evidence),
            verdicts=tuple(verdicts),
            answering=answering,
            against=self.against,
            compared=self.compared,
            rests=rests_on(ones, answering),
            assumed=assumed,
            by=by,
            whole=tuple(self._part(estimates, whole=True)[1]) if by else (),
            sources=tuple(sources),
        )

    def _pairs(self, estimates: Estimates, *, whole: bool) -> list[Pair]:
        """What is compared, in the order of rows."""
        count = len(self.question.candidates)
        ones, *others = (
            estimates_for(self.question, estimates, c, whole=whole) for c in range(count)
        )
        baselines: Sequence[Estimate | None] = others[0] if others else [None] * len(ones)
        return [Pair(one, other) for one, other in zip(ones, baselines, strict=True)]

    def _part(
        self, estimates: Estimates, *, whole: bool
    ) -> tuple[list[Pair], list[dict[str, Any]], Sequence[Evidence], Sequence[Verdict]]:
        """The pairs of the parts, or of the whole, with rows, evidence and verdicts."""
        pairs, level = self._pairs(estimates, whole=whole), self.level
        ones = [pair.estimate for pair in pairs]
        rows = [result_row(pair, self.tally, level) for pair in pairs]
        new = {one.metric.name: 1 - one.covered for one in ones if one.estimator == "ip"}
        if not self.question.clusters:
            return pairs, rows, [], []
        evidence, verdicts = judge_pairs(
            pairs,
            largest_slots(self.tally, ones),
            level.level,
            anytime=level.anytime,
            min_effect=self.min_effect,
            guardrails=self.guardrails,
            errors=[_past_error(*each, level.past, new) for each in zip(ones, rows, strict=True)],
            past="" if level.past is None else level.past.past,
        )
        rows = [row | {"verdict": v.word} for row, v in zip(rows, verdicts, strict=True)]
        return pairs, rows, evidence, verdicts


def inquire(tally: Tally, heard: Sequence[str], candidate: PolicyLike, asked: Request) -> Inquiry:
    """The question in full, and notes on what it rests on.

    Args:
        tally: the log.
        heard: what reading it has said.
        candidate: a policy, or a table.
        asked: what is asked of the two.
    """
    protected = {
        parse_metric(name): float(share) for name, share in (asked.guardrails or {}).items()
    }
    level, until, baseline = asked.level, asked.trained_until, asked.baseline
    (notes, facts), earlier = notes_in_order(tally, heard), None
    before = isinstance(until, str) and until == BEFORE
    if until is not None and not before:
        earlier, tally = tally.split(until)
        notes.append(f"The answer rests on the records after {until}.")
    segments = (asked.by,) if isinstance(asked.by, str) else tuple(asked.by or ())
    clusters, doubts = clusters_of(tally, None if asked.confidence is None else level.clusters)
    if PERIOD in segments and "period" in clusters:  # of one period, others say how much it varies
        clusters = tuple(kind for kind in clusters if kind != "period")
        clusters = clusters or (() if tally.decayed else ("record",))
    policies = [policy_for(tally, candidate)]
    if baseline is not None:
        policies.append(policy_for(tally, baseline, "baseline"))
    compared = dict(zip(("the candidate", "the baseline"), policies, strict=False))
    wanted, depth_words = compared_down(
        tally, compared, parse_any(asked.metrics), USUAL_METRICS, list(protected)
    )
    all_metrics = tuple(dict.fromkeys((*wanted, *protected)))
    question, assumed = make_question(
        tally,
        policies,
        all_metrics,
        asked.estimators,
        asked.missing,
        asked.logging,
        segments,
        clusters,
    )
    names = [e.name for e in question.estimators]
    usual = [metric.name for metric in all_metrics] == list(USUAL_METRICS) or bool(depth_words)
    notes += policy_notes(policies[0], tally.shape.depth, [] if usual else all_metrics) + doubts
    answering = names[0] if is_default(asked.estimators) else answering_of(names)
    weighs = any(
        e.name == answering
        and question.logging_of(number) is None
        and e.model.sees_items
        and not isinstance(e, Ladder)  # which knows what to do with few
        for number, e in enumerate(question.estimators)
    )
    if weighs:
        notes += repetition_note(answering, *size_of(tally)[:2])
    return Inquiry(
        tally,
        replace(question, earlier=earlier, trained_before=before),
        level,
        answering,
        "production" if baseline is None else "the baseline",
        depth_words,
        asked.min_effect,
        protected,
        tuple(notes),
        tuple(facts),
        tuple(assumed),
        until is not None,
    )


def result_row(pair: Pair, tally: Tally, level: Confidence) -> dict[str, Any]:
    """The columns of an answer; those of intervals only if the question has clusters."""
    one, production, change = pair.estimate, pair.production, pair.change
    ends: dict[str, float | None] = {}
    if one.estimates.question.clusters:
        ends = pair.ends(level.level, anytime=level.anytime)
        ends["borrowed"], ends["margin"] = one.unseen()

    def bounds(*names: str) -> dict[str, float | None]:
        return {name: ends[name] for name in names if name in ends}

    return {
        "estimator": one.estimator,
        "metric": one.metric.name,
        "clip": one.clip,
        **one.stratum.segment,
        "value": one.value,
        **bounds("se", "low", "high", "borrowed", "margin"),
        "production": production,
        "change": change,
        **bounds("change_low", "change_high"),
        "lift": change / production if change is not None and production else None,
        **bounds("lift_low", "lift_high"),
        "covered": one.covered,
        "clipped": one.clipped,
        "ess": one.ess,
        "contexts": one.stratum.contexts,
        "records": one.stratum.records,
        "missing_contexts": one.stratum.missing_contexts,
        "dropped": tally.dropped_rows,
    }


def _newness_note(
    rows: Sequence[Mapping[str, Any]], evidence: Sequence[Evidence], answering: str
) -> list[str]:
    """How well the backtest predicted lists as new as the candidate's, for the first metric."""
    new = [1 - row["covered"] for row in rows if row["estimator"] == "ip"]
    both = zip(evidence, rows, strict=True)
    first = next((e for e, row in both if row["estimator"] == answering), None)
    if not new or first is None or not first.production:
        return []
    off = inference.quantile(0.95, math.inf) * first.error / abs(first.production)
    share, within = format_value("share", new[0]), format_value("share", off)
    note = f"{first.metric}: {share} of what the candidate shows was never shown at its position. "
    return [f"{note}Periods whose lists were as new were predicted to within ± {within}."]


def _past_error(
    one: Estimate,
    row: Mapping[str, Any],
    past: Any,  # noqa: ANN401 - a backtest, a replay or None
    new: Mapping[str, float],
) -> float:
    """How far the estimator was off in the past; of a ratio in a backtest, for both parts.

    In a backtest, of lists as new as the candidate's, if `ip` says how new they are.
    """
    if past is None:
        return 0.0
    if not isinstance(past, Backtest):
        reach = ((row["change_high"] or 0.0) - (row["change_low"] or 0.0)) / 2
        return float(past.error(one.estimator, one.metric.name, one.clip, reach))
    errors = [
        0.0
        if part.metric.shown
        else past.error(one.estimator, part.metric.name, one.clip, new.get(part.metric.name))
        for part in one.parts
    ]
    if len(errors) == 1:
        return errors[0]
    return (errors[0] + (one.value or 0.0) * errors[1]) / (one.parts[1].value or math.inf)
