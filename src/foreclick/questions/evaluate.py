"""`evaluate`: the value of a candidate, by every estimator asked for, beside production's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from foreclick import inference
from foreclick.batches import size_of
from foreclick.estimation.clusters import clusters_of
from foreclick.estimation.estimates import Estimate, Estimates
from foreclick.estimators import EstimatorLike, Ladder, parse_estimators
from foreclick.logs import PERIOD
from foreclick.metrics import USUAL_METRICS, AnyMetric, parse_any, parse_metric
from foreclick.options import Confidence, sure, verb
from foreclick.policies import Policy, PolicyLike, policy_for
from foreclick.progress import Stage, planned
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
    LOGGING,
    estimates_for,
    is_default,
    largest_slots,
    make_question,
)
from foreclick.questions.backtest import Backtest
from foreclick.questions.depth import compared_down
from foreclick.questions.errors import error_rows
from foreclick.questions.plan import EVERY, answer_stages
from foreclick.questions.verdicts import Evidence, Pair, Verdict, judge_pairs
from foreclick.results import format_value
from foreclick.run.effort import announce_effort
from foreclick.run.estimate import estimate
from foreclick.tallies import LogLike, Tally, local_tally, notes_in_order

BEFORE = "before"
"""As `trained_until`: the candidate was trained before the log begins."""


@verb(confidence=sure, logging=LOGGING)
def evaluate(
    log: LogLike,
    candidate: PolicyLike,
    *,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS,
    estimators: EstimatorLike | Sequence[EstimatorLike] | None = None,
    missing: Missing = "error",
    trained_until: object = None,
    logging: Policy | Literal["frequency", "propensity"] | None = None,
    baseline: PolicyLike | None = None,
    by: str | Sequence[str] | None = None,
    confidence: float | Confidence | None = 0.95,
    min_effect: float = 0.0,
    guardrails: Mapping[str | AnyMetric, float] | None = None,
) -> Evaluation:
    """Estimate how many clicks a candidate ranking would get, from a log of another ranking.

    For a click model with cells g, credit C_g and exposure P_g per logged record, and the
    candidate's exposure H_g (Li et al., KDD 2018, Table 2), an estimator of the paper is

        V = 1/n Σ_x n_x Σ_g C_g min(H_g / P_g, M).

    It assumes that slots of the same cell have the same click rate. `list` assumes nothing, and
    covers the least of a candidate. The ladder, which answers by default, takes each slot's click
    rate from the finest cell of which the log has enough records.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        candidate: a policy; or a table, from which a policy is made: with `context` and `items`, a
            Ranking.
        metrics: spellings such as "clicks@3", "dcg@10" and "success@3", ratios of two such as
            "revenue@3/clicks@3" and "ctr@5", or `Metric` and `Ratio` values. Where the candidate's
            lists are shorter than production's, default metrics are cut to their length, and longer
            ones that you name are refused.
        estimators: names of click models, `ClickModel`s, `Weighted`s, "ladder" or a `Ladder`; or
            "all". By default the ladder answers, and `ip` checks it where it covers 90 % of the
            candidate: if the two contradict each other, the verdict is "cannot tell". For graded
            rewards that are also earned without clicks, `ip` answers and the ladder checks it; with
            `logging=`, estimators that use it answer. `pbm` learns the examination of positions
            from the log; `Weighted("pbm", examination=…)` takes it from you. `Weighted("ip",
            clip=100)` bounds weights by M = 100.
        missing: how to treat contexts without a list of the candidate: "error" refuses them,
            "production" keeps today's lists there, "drop" leaves these contexts out of everything.
        trained_until: the last period whose clicks the candidate was trained on. The answer then
            rests on later periods, and earlier clicks count as far as later ones confirm them.
            "before": the candidate was trained before the log begins.
        logging: the logging policy, if it is known; "propensity" for the log's own propensities,
            "frequency" for the frequencies of lists in the log. By default frequencies, which are
            the better choice where contexts repeat, and the log's propensities, if it has any,
            where contexts do not repeat.
        baseline: a policy to compare with in place of the log's own mean, for instance ``Observed``
            of the last day.
        by: segment columns (or "period") to split the answer by. Click rates are learnt from the
            whole log, and the segments, weighted by records, add up to the answer for all of it.
            Verdicts allow for the number of segments.
        confidence: the confidence level of intervals; None for no intervals, in half the time. A
            `Confidence` also sets which records are correlated, that the log is evaluated again and
            again, or that verdicts allow for the errors of a backtest or of past A/B tests.
        min_effect: the smallest change worth having, as a share of production (or of the baseline):
            with 0.01, "better" means a gain of at least 1 %, and "no difference" a gain or loss of
            less than 1 %.
        guardrails: metrics that must not fall, each with the share of production that it may lose:
            {"orders@3": 0.01}. "Better" then also means that all guardrails hold, and "worse" that
            one does not; the verdicts hold for all metrics jointly.

    Returns:
        An `Evaluation`: one row per estimator × metric × clip (× segment), with estimates,
        intervals and verdicts.

    Raises:
        PolicyError: the candidate is not a policy, shares no context or no item with the log, or
            lacks contexts of the log (with ``missing="error"``).
        MetricError: a metric is misspelt, weighs a reward that the log does not have, or counts
            positions below the candidate's lists.
        ModelError: an estimator is misspelt, or cannot answer for this log and candidate.
        OptionError: an option is misspelt or has an impossible value.

    Examples:
        >>> log = {
        ...     "context": ["q"] * 6,
        ...     "items": [[1, 2], [2, 1]] * 3,
        ...     "clicks": [[0, 1], [1, 0], [1, 0], [1, 0], [0, 0], [0, 0]],
        ... }
        >>> e = evaluate(
        ...     log,
        ...     {"context": ["q"], "items": [[2, 1]]},
        ...     metrics="clicks@1",
        ...     estimators=["list", "ip"],
        ... )
        >>> [round(v, 3) for v in e["value"]], [round(v, 3) for v in e["production"]]
        ([0.667, 0.667], [0.5, 0.5])
    """
    tally, notes = local_tally(log)
    candidates = 1 if baseline is None else 2
    stages = _stages(tally, estimators, metrics, candidates) if trained_until is None else []
    with planned(stages):
        inquiry = inquire(
            tally,
            notes,
            candidate,
            metrics=metrics,
            estimators=estimators,
            missing=missing,
            trained_until=trained_until,
            logging=logging,
            baseline=baseline,
            by=by,
            confidence=confidence,
            min_effect=min_effect,
            guardrails=guardrails,
        )
        announce_effort(
            inquiry.tally, inquiry.question.estimators, len(inquiry.question.candidates)
        )
        return inquiry.answer(estimate(inquiry.tally, inquiry.question))


# --- the question in full -------------------------------------------------------------------------


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


def inquire(
    tally: Tally,
    notes: Sequence[str],
    candidate: PolicyLike,
    *,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS,
    estimators: EstimatorLike | Sequence[EstimatorLike] | None = None,
    missing: Missing = "error",
    trained_until: object = None,
    logging: Policy | Literal["frequency", "propensity"] | None = None,
    baseline: PolicyLike | None = None,
    by: str | Sequence[str] | None = None,
    confidence: float | Confidence | None = 0.95,
    min_effect: float = 0.0,
    guardrails: Mapping[str | AnyMetric, float] | None = None,
) -> Inquiry:
    """The question that `evaluate` is asked by these options, and notes on what it rests on."""
    protected = {parse_metric(name): float(share) for name, share in (guardrails or {}).items()}
    level = confidence if isinstance(confidence, Confidence) else Confidence(confidence or 0.95)
    (notes, facts), earlier = notes_in_order(tally, notes), None
    before = isinstance(trained_until, str) and trained_until == BEFORE
    if trained_until is not None and not before:
        earlier, tally = tally.split(trained_until)
        notes.append(f"The answer rests on the records after {trained_until}.")
    segments = (by,) if isinstance(by, str) else tuple(by or ())
    clusters, doubts = clusters_of(tally, None if confidence is None else level.clusters)
    if PERIOD in segments and "period" in clusters:  # of one period, others say how much it varies
        clusters = tuple(kind for kind in clusters if kind != "period")
        clusters = clusters or (() if tally.decayed else ("record",))
    policies = [policy_for(tally, candidate)]
    if baseline is not None:
        policies.append(policy_for(tally, baseline, "baseline"))
    compared = dict(zip(("the candidate", "the baseline"), policies, strict=False))
    wanted, depth_words = compared_down(
        tally, compared, parse_any(metrics), USUAL_METRICS, list(protected)
    )
    all_metrics = tuple(dict.fromkeys((*wanted, *protected)))
    question, assumed = make_question(
        tally, policies, all_metrics, estimators, missing, logging, segments, clusters
    )
    names = [e.name for e in question.estimators]
    usual = [metric.name for metric in all_metrics] == list(USUAL_METRICS) or bool(depth_words)
    notes += policy_notes(policies[0], tally.shape.depth, [] if usual else all_metrics) + doubts
    answering = names[0] if is_default(estimators) else answering_of(names)
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
        min_effect,
        protected,
        tuple(notes),
        tuple(facts),
        tuple(assumed),
        trained_until is not None,
    )


def _stages(
    tally: Tally,
    estimators: EstimatorLike | Sequence[EstimatorLike] | None,
    metrics: str | AnyMetric | Sequence[str | AnyMetric],
    candidates: int,
) -> list[Stage]:
    """What the answer takes, as far as that is known before it is asked."""
    if not is_default(estimators):
        names = [e.name for e in parse_estimators(estimators)]
    else:
        names = [*(EVERY[:2] if estimators is None else EVERY)]
    depths = len({part.depth for metric in parse_any(metrics) for part in metric.parts})
    return answer_stages(tally, names, depths, candidates)


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
