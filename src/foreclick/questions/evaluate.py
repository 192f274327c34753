"""`evaluate`: the value of a candidate, by every estimator asked for, beside production's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from foreclick.batches import FEW_RECORDS, batches_of, contexts_repeat, largest_rewards
from foreclick.errors import ModelError
from foreclick.estimate.estimates import Estimate, Estimates
from foreclick.estimate.work import estimate
from foreclick.estimators import Estimator, EstimatorLike, Ladder, parse_estimators
from foreclick.learn.above import ALARM
from foreclick.learn.clusters import clusters_of
from foreclick.learn.curves import with_curves
from foreclick.learn.effort import announce_effort
from foreclick.learn.trend import drift_of
from foreclick.logs import PERIOD
from foreclick.metrics import USUAL_METRICS, AnyMetric, Metric, parse_any, parse_metric
from foreclick.options import Confidence, sure, verb
from foreclick.policies import Policy, PolicyLike, as_policy
from foreclick.question import (
    Logging,
    Missing,
    Question,
    by_hazard,
    check_metrics,
    propensities_answer,
)
from foreclick.questions.answers import (
    answering_of,
    coverage_notes,
    flat_metrics,
    headline_of,
    is_blind,
    policy_notes,
    repetition_note,
    verdict_notes,
    without_numbers,
)
from foreclick.questions.backtest import Backtest, Hindsight
from foreclick.questions.verdicts import (
    DISAGREE,
    Claims,
    Evidence,
    IntervalKind,
    Pair,
    Verdict,
    judged,
)
from foreclick.results import Headline, Result, Value
from foreclick.rules import Choice
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle

ALL = "all"


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """What a candidate is worth: one row per estimator × metric × clip (× segment).

    | column | meaning |
    |---|---|
    | value | the estimate of V(h); None where the log shows nothing of the candidate |
    | se | its standard error, if the click model holds |
    | low, high | its interval, for chance and for what the log cannot see |
    | borrowed | what items never shown were given; `low` is without it |
    | margin | what else the log cannot see, at most; `high` is with it |
    | production | the mean reward of the records that `value` uses, or the baseline's estimate |
    | change, lift | value − production, and that over production, with intervals of this kind |
    | covered | the share of the candidate's exposure that was ever logged |
    | clipped | the share of it that the clip M cut off |
    | ess | the records that the weighted ones are worth; of a ladder, only beside intervals |
    | contexts, records | what it rests on |
    | missing_contexts | contexts of the log that the candidate has no list for |
    | dropped | invalid rows that were left out when the log was read |
    | verdict | better, worse, no difference (worth having), or cannot tell |

    Printed, it gives the answer by one estimator, and whether the others agree; ``print(e.table)``
    shows every row, without columns that have nothing to say. An estimator that saw less than 1 %
    of the candidate shows no number there. All columns of all rows are in `rows`.

    Attributes:
        evidence: what the verdict of each row rests on; empty without intervals.
        verdicts: the verdict of each row, with its reason; empty without intervals.
        answering: the estimator whose rows are the answer.
        against: what the candidate is compared with: "production" or "the baseline".
        by: the segments that it is split by.
        whole: where it is split, the rows of the whole log, which the parts add up to.
    """

    evidence: tuple[Evidence, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    answering: str = ""
    against: str = "production"
    by: tuple[str, ...] = ()
    whole: tuple[Mapping[str, Value], ...] = ()

    @property
    def headline(self) -> Headline:
        """The answer by one estimator, and whether the others agree."""
        disputed = {
            str(row["estimator"])
            for row, verdict in zip(self.rows, self.verdicts, strict=False)
            if DISAGREE in verdict.because
        }
        return headline_of(
            self.rows,
            by=self.by,
            answering=self.answering or answering_of(self["estimator"]),
            against=self.against,
            confidence=self.evidence[0].confidence if self.evidence else None,
            disputed=disputed,
            whole=self.whole,
        )

    def metrics(self) -> dict[str, float]:
        """The numbers as a flat dict, for MLflow, W&B and others to log.

        Keys are such as ``clicks_at_3/lift``, of the estimator that answers. Those of others have
        its name in them, ``clicks_at_3/ip/lift``; then follow M, if there are several, and the
        segment. What has no number is left out.

        Examples:
            >>> log = {"context": ["q"] * 6, "items": [[1, 2], [2, 1]] * 3, "clicks": [[1, 0]] * 6}
            >>> e = evaluate(log, {"context": ["q"], "items": [[1, 2]]}, metrics="clicks@1")
            >>> e.metrics()["clicks_at_1/production"]
            1.0
        """
        answering = self.answering or answering_of(self["estimator"])
        return flat_metrics(self.rows, answering, self.by)

    def displayed(self, row: Mapping[str, Value]) -> Mapping[str, Value]:
        """Without the numbers of an estimator that saw next to nothing."""
        return without_numbers(row) if is_blind(row) else row

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what follows from the rest, and without counts of nothing."""
        dull = {"se", "borrowed", "margin", "change", "change_low", "change_high", "contexts"}
        empty = ("clipped", "missing_contexts", "dropped")
        idle = {c for c in empty if c in self.columns and not any(self[c])}
        idle |= {c for c in ("ess",) if all(value is None for value in self[c])}
        idle |= {"clip"} if all(clip == math.inf for clip in self["clip"]) else set()
        return tuple(c for c in self.columns if c not in dull | idle)


LOGGING = Choice(
    ("frequency", "propensity"), "to let the log decide", others=Policy, also=", give a policy"
)
"""Where logging probabilities may come from."""


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
    """How many clicks a candidate ranking would get, from a log of another.

    For a click model with cells g, credit C_g and exposure P_g per logged record, and the
    candidate's exposure H_g (Li et al., KDD 2018, Table 2):

        V = 1/n Σ_x n_x Σ_g C_g min(H_g / P_g, M)

    It assumes the click model named in the `estimator` column: that slots of one cell share a click
    rate. `list` assumes nothing, and sees the least. A ladder takes the rate of each slot from as
    fine a cell as the log has seen often enough.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        candidate: a policy; a table with `context` and `items` is taken as a Ranking.
        metrics: spellings such as "clicks@3", "dcg@10" and "success@3", ratios of two such as
            "revenue@3/clicks@3" and "ctr@5", or `Metric` and `Ratio` values.
        estimators: names of click models, `ClickModel`s, `Weighted`s, "ladder" or a `Ladder`; or
            "all". By default the ladder answers, and `ip` checks it: where the two contradict each
            other, the verdict is that nobody can tell. Of graded rewards (prices) `ip` answers,
            with the ladder as its check; with `logging=`, estimators that use it. `pbm` learns
            from the log how much positions are examined; `Weighted("pbm", examination=…)` is told.
            `Weighted("ip", clip=100)` bounds weights by M = 100.
        missing: what contexts without a candidate list count as: "error", "production" (as they
            are today) or "drop" (left out of everything).
        trained_until: the last period whose clicks the candidate was trained on. The answer then
            rests on later periods alone: a candidate knows the clicks that it was trained on.
        logging: the logging policy where it is known, "propensity" for the log's own, "frequency"
            for the log's frequencies. By default frequencies, which are the better choice where
            contexts repeat, and propensities, if the log has them, where they do not.
        baseline: a policy to compare with instead of the log's own mean, for instance
            ``Observed`` of the last day.
        by: segment columns (or "period") to split the answer by: what is learnt is learnt from the
            whole log, and the parts, weighted by records, add up to the answer for all of it. The
            verdict of a part allows for their number.
        confidence: of the intervals; None for no intervals, in half the time. A `Confidence` also
            says which records vary together, that the log is looked at again and again, or that
            verdicts allow for the errors of a backtest or of past A/B tests.
        min_effect: the smallest change worth having, as a share of production (or of the
            baseline): with 0.01, "better" says that at least 1 % is gained, and "no difference"
            that less than 1 % is gained or lost.
        guardrails: metrics that must not fall, each with the share of production that it may lose:
            {"orders@3": 0.01}. "Better" then also says that all of them hold, and "worse" that one
            does not; the verdicts hold for all metrics at once.

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
    protected = {parse_metric(name): float(share) for name, share in (guardrails or {}).items()}
    wished = confidence if isinstance(confidence, Confidence) else Confidence(confidence or 0.95)
    interval: IntervalKind = "anytime" if wished.anytime else "sampling"
    backtest: Hindsight | None = wished.past
    counted, notes = settle(log)
    earlier: Tally | None = None
    if trained_until is not None:
        earlier, counted = counted.split(trained_until)
        notes.append(f"The answer rests on what came after {trained_until}.")
    segments = (by,) if isinstance(by, str) else tuple(by or ())
    kinds, doubts = clusters_of(counted, None if confidence is None else wished.clusters)
    if PERIOD in segments and "period" in kinds:  # of one period, others say how much it varies
        kinds = tuple(kind for kind in kinds if kind != "period")
        kinds = kinds or (() if counted.decayed else ("record",))
    policy = as_policy(candidate, counted.names)
    if isinstance(logging, Policy):
        logging = as_policy(logging, counted.names, "logging")
    asked = tuple(dict.fromkeys((*parse_any(metrics), *protected)))
    parts = [part for each in asked for part in each.parts]
    check_metrics(counted.shape, parts)
    if estimators is None or estimators in (ALL, [ALL], (ALL,)):
        usual = usual_estimators(counted, policy, logging, parts, every=estimators is not None)
        wanted = parse_estimators(usual)
        answering = wanted[0].name
    else:
        wanted = parse_estimators(estimators)
        answering = answering_of([e.name for e in wanted])
    policies = [policy]
    if baseline is not None:
        policies.append(as_policy(baseline, counted.names, "baseline"))
    knowing = policies if missing == "drop" else ()
    wanted, assumed = with_curves(counted, wanted, asked, knowing)
    question = Question(
        candidates=policies,
        estimators=wanted,
        metrics=asked,
        missing=missing,
        loggings=loggings_of(counted, wanted, parts, logging),
        by=segments,
        clusters=kinds,
        earlier=earlier,
    )
    named = [] if [metric.name for metric in asked] == list(USUAL_METRICS) else asked
    notes += policy_notes(policy, counted.shape.depth, named) + doubts
    weighing = [
        by.name
        for number, by in enumerate(wanted)
        if question.logging_of(number) is None
        and by.model.sees_items
        and not isinstance(by, Ladder)  # which knows what to do with few
    ]
    if weighing:
        notes += repetition_note(weighing, *contexts_repeat(counted))
    announce_effort(counted, wanted, len(policies))
    found = estimate(counted, question)
    claims = Claims(wished.level, interval, min_effect, protected)

    def answered(*, whole: bool) -> tuple[list[Estimate], list[dict[str, Any]], Any, Any]:
        """The estimates of the parts, or of the whole, with rows, evidence and verdicts."""
        mine, *others = (found.of_candidate(c, whole=whole) for c in range(len(policies)))
        theirs: Sequence[Estimate | None] = others[0] if others else [None] * len(mine)
        pairs = [Pair(one, other) for one, other in zip(mine, theirs, strict=True)]
        rows = [_row(pair, counted, wished.level, interval) for pair in pairs]
        if not kinds:
            return mine, rows, [], []
        largest, errors, past = largest_slots(counted, mine), None, ""
        if backtest is not None:
            past = backtest.past
            errors = [_error(one, backtest, row) for one, row in zip(mine, rows, strict=True)]
        evidence, verdicts = judged(pairs, claims, largest, errors, past)
        rows = [row | {"verdict": v.word} for row, v in zip(rows, verdicts, strict=True)]
        return mine, rows, evidence, verdicts

    estimates, rows, evidence, verdicts = answered(whole=False)
    if kinds:
        notes += verdict_notes(rows, verdicts, segments, answering)
        if interval == "anytime":
            notes.append(
                "The intervals hold at every look together, however often the log is looked at."
            )
    notes += assumed + prior_notes(counted, found)
    notes += coverage_notes(rows, estimates, answering, found.ignored_contexts(0))
    return Evaluation(
        tuple(rows),
        tuple(rows[0]),
        tuple(notes),
        evidence=tuple(evidence),
        verdicts=tuple(verdicts),
        answering=answering,
        against="production" if baseline is None else "the baseline",
        by=segments,
        whole=tuple(answered(whole=True)[1]) if segments else (),
    )


def usual_estimators(
    tally: Tally,
    policy: Policy,
    logging: Policy | str | None,
    metrics: Sequence[Metric],
    *,
    every: bool = False,
) -> Sequence[EstimatorLike]:
    """The estimator that answers, and the one that checks it; or every one that can say something.

    The ladder answers: of all estimators it was nearest to the truth in every simulated world. `ip`
    checks it, because it assumes least of those that see enough. Where logging probabilities are
    given, or contexts hardly repeat and propensities do, the estimators that use them answer
    instead. Of graded rewards, such as prices, `ip` answers: a ladder moves the dearest items
    towards the others, so that its intervals hold the value of a ranking by price too seldom.
    """
    kind, names = tally.shape.propensity, tally.shape.rewards
    ladder = "ladder" if policy.complete else "ladder-ip"
    graded = {name for name in names if name not in tally.shape.masks}
    usual: tuple[str, ...] = (ladder, "ip")
    if isinstance(logging, Policy):
        usual = ("ip", "list")
    elif logging == "propensity" or (
        logging is None and kind is not None and contexts_repeat(tally)[1] < FEW_RECORDS
    ):
        usual = ("list",) if kind == "list" else ("ip",)
    elif graded & {m.reward for m in metrics}:
        usual = ("ip", ladder)
    if not every:
        return usual
    lists = ("list", "prefix") if policy.complete else ()
    return list(dict.fromkeys([*usual, *lists, "ip", "item", "pbm", "rctr"]))


def loggings_of(
    counted: Tally,
    estimators: Sequence[Estimator],
    metrics: Sequence[Metric],
    logging: Policy | str | None,
) -> list[Logging]:
    """For each estimator, where logging probabilities come from.

    By default, propensities are used where contexts do not repeat, for the models whose cells they
    are the probabilities of; everything else uses the frequencies of the log.
    """
    if isinstance(logging, Policy):
        return [logging] * len(estimators)
    if logging == "propensity":
        if counted.shape.propensity is None:
            raise ModelError(
                "logging='propensity', but the log was read without. Name their column: "
                "read_log(…, propensity='…')."
            )
        return ["propensity"] * len(estimators)
    able = [  # a product of hazards has no use for propensities
        propensities_answer(counted.shape, e) and not any(by_hazard(e.model, m) for m in metrics)
        for e in estimators
    ]
    if logging == "frequency" or not any(able) or contexts_repeat(counted)[1] >= FEW_RECORDS:
        return [None] * len(estimators)
    return ["propensity" if fits else None for fits in able]


def prior_notes(counted: Tally, found: Estimates) -> list[str]:
    """That production learns from its clicks, and that the rates of items change with time."""
    notes = []
    for prior in found.priors[:1] if found.question.clusters else ():
        if prior.reacting > ALARM:
            z = f"z = {prior.reacting:.0f}"
            notes.append(f"Production reacts to the log's clicks ({z}); the answer allows for it.")
        if outside := max((one.outside for one in prior.alike), default=0.0):
            notes.append(
                f"Production seems unable to show about {outside:.0%} of what the candidate shows: "
                "another retrieval, or new stock. These items are taken to be as good as others "
                "that the candidate places so high, within a factor of two or three. If production "
                "could have shown them, say estimators=Ladder(same_retrieval=True)."
            )
        if counted.shape.period:
            notes += drift_of(batches_of(counted), prior.reward, prior.theta.p).of_items()
    return notes


def largest_slots(tally: Tally, estimates: Sequence[Estimate]) -> dict[Metric, float]:
    """The most that a slot can earn, by metric: 1 click, or the largest reward of the log.

    Only of metrics for which something was never shown: to look for it takes a pass over the log.
    """
    unseen = {part.metric for e in estimates for part in e.parts if part.covered < part.mass}
    binary = {m for m in unseen if m.first or m.shown or m.source in tally.shape.masks}
    largest = largest_rewards(tally, sorted({m.source for m in unseen - binary}))
    return {m: 1.0 if m in binary else largest[m.source] for m in unseen}


def _row(pair: Pair, counted: Tally, confidence: float, interval: IntervalKind) -> dict[str, Any]:
    one, production, change = pair.estimate, pair.production, pair.change
    intervals = bool(one.of.question.clusters)
    ends = pair.ends(confidence, interval) if intervals else {}
    unseen = one.unseen()

    def found(*names: str) -> dict[str, Any]:
        return {name: ends[name] for name in names if name in ends}

    return {
        "estimator": one.estimator,
        "metric": one.metric.name,
        "clip": one.clip,
        **one.stratum.segment,
        "value": one.value,
        **found("se", "low", "high"),
        **({"borrowed": unseen.less, "margin": unseen.more} if intervals else {}),
        "production": production,
        "change": change,
        **found("change_low", "change_high"),
        "lift": change / production if change is not None and production else None,
        **found("lift_low", "lift_high"),
        "covered": one.covered,
        "clipped": one.clipped,
        "ess": one.ess,
        "contexts": one.stratum.contexts,
        "records": one.stratum.records,
        "missing_contexts": one.stratum.missing_contexts,
        "dropped": counted.dropped_rows,
    }


def _error(one: Estimate, backtest: Hindsight, row: Mapping[str, Any]) -> float:
    """How far the estimator was off in hindsight; of a ratio in a backtest, for both parts."""
    if not isinstance(backtest, Backtest):
        reach = ((row["change_high"] or 0.0) - (row["change_low"] or 0.0)) / 2
        return backtest.error(one.estimator, one.metric.name, one.clip, reach)
    errors = [
        0.0 if part.metric.shown else backtest.error(one.estimator, part.metric.name, one.clip)
        for part in one.parts
    ]
    if len(errors) == 1:
        return errors[0]
    return (errors[0] + (one.value or 0.0) * errors[1]) / (one.parts[1].value or math.inf)
