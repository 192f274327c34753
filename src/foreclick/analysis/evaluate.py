"""`evaluate`: the value of a candidate, by every estimator asked for, beside production's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from foreclick import inference
from foreclick.analysis.answers import answering_of, headline_of, is_blind, without_numbers
from foreclick.analysis.backtest import Backtest
from foreclick.analysis.clusters import clusters_of
from foreclick.analysis.curves import with_curves
from foreclick.analysis.effort import announce_effort
from foreclick.analysis.headline import (
    ALL,
    FEW_RECORDS,
    all_estimators,
    usual_estimators,
)
from foreclick.analysis.intervals import Ends, IntervalKind, check_interval, in_words
from foreclick.analysis.notes import (
    chosen_note,
    coverage_notes,
    repetition_note,
    rung_notes,
    verdict_notes,
)
from foreclick.analysis.tracking import flat_metrics
from foreclick.analysis.trends import trend_notes
from foreclick.analysis.verdicts import Claims, Pair, evidence_of, judged, parse_guardrails
from foreclick.batches import contexts_repeat
from foreclick.errors import ModelError
from foreclick.estimators import (
    AnySums,
    Estimate,
    EstimatorLike,
    Ladder,
    Missing,
    Question,
    RatioSums,
    Weighted,
    check_metrics,
    estimate,
    pair_up,
    parse_estimators,
    propensities_answer,
)
from foreclick.metrics import USUAL_METRICS, AnyMetric, parse_any
from foreclick.options import Choice, checked, made_by
from foreclick.policies import Policy, PolicyLike, as_policy
from foreclick.progress import Say
from foreclick.results import Headline, Result, Value
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle


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
    """

    evidence: tuple[inference.Evidence, ...] = ()
    verdicts: tuple[inference.Verdict, ...] = ()
    answering: str = ""
    against: str = "production"
    by: tuple[str, ...] = ()

    @property
    def headline(self) -> Headline:
        """The answer by one estimator, and whether the others agree."""
        disputed = {
            str(row["estimator"])
            for row, verdict in zip(self.rows, self.verdicts, strict=False)
            if inference.DISAGREE in verdict.because
        }
        return headline_of(
            self.rows,
            by=self.by,
            answering=self.answering or answering_of(self["estimator"]),
            against=self.against,
            confidence=self.evidence[0].confidence if self.evidence else None,
            disputed=disputed,
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


@checked(backtest=made_by("fc.backtest", Backtest), logging=LOGGING)
def evaluate(  # noqa: PLR0913 - a question has many sides; all but two are keywords
    log: LogLike,
    candidate: PolicyLike,
    *,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS,
    estimators: EstimatorLike | Sequence[EstimatorLike] | None = None,
    clip: float | Sequence[float] = math.inf,
    missing: Missing = "error",
    logging: Policy | Literal["frequency", "propensity"] | None = None,
    baseline: PolicyLike | None = None,
    by: str | Sequence[str] | None = None,
    confidence: float = 0.95,
    clusters: Literal["auto", "record"] | None = "auto",
    practical: float = 0.0,
    guardrails: Mapping[str | AnyMetric, float] | None = None,
    interval: IntervalKind = "sampling",
    backtest: Backtest | None = None,
    workers: int = 1,
    metric: str | AnyMetric | Sequence[str | AnyMetric] | None = None,
    estimator: EstimatorLike | Sequence[EstimatorLike] | None = None,
    progress: Say | None = None,  # noqa: ARG001 - `checked` heeds it
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
        clip: M, a number or several; `math.inf` for none.
        missing: what contexts without a candidate list count as: "error", "production" (as they
            are today) or "drop" (left out of everything).
        logging: the logging policy where it is known, "propensity" for the log's own, "frequency"
            for the log's frequencies. By default frequencies, which are the better choice where
            contexts repeat, and propensities, if the log has them, where they do not.
        baseline: a policy to compare with instead of the log's own mean, for instance
            ``Observed`` of the last day.
        by: segment columns (or "period") to split by; each part is evaluated on its own, and its
            verdict allows for their number.
        confidence: of the intervals.
        clusters: whose records vary together: by default those of a period and those of a unit
            (user), if the log has them; "record" for none. None: no intervals, in half the time.
        practical: the smallest change worth having, for the verdict; in units of the metric.
        guardrails: metrics that must not fall, each with the share of production that it may lose:
            {"orders@3": 0.01}. "Better" then also says that all of them hold, and "worse" that one
            does not; the verdicts hold for all metrics at once.
        interval: "sampling" for one look at the log; "anytime" if it is looked at again and again
            as it grows, until the answer pleases.
        backtest: of the same log, metrics, estimators and clips: the verdict then allows for how
            far each estimator was off there, beyond the noise of clicks.
        workers: how many processes work on a log too large for memory. In a script, more than one
            need the usual ``if __name__ == "__main__":``.
        metric: the same as `metrics`.
        estimator: the same as `estimators`.
        progress: called with what is being done; by default it is shown on a terminal.

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
    metrics = metrics if metric is None else metric
    estimators = estimators if estimator is None else estimator
    protected = parse_guardrails(guardrails)
    counted, notes = settle(log)
    kinds, doubts = clusters_of(counted, clusters)
    check_interval(interval, kinds)
    policy = as_policy(candidate, counted)
    asked = tuple(dict.fromkeys((*parse_any(metrics), *protected)))
    wanted, answering = _estimators(counted, policy, logging, asked, estimators, clip)
    check_metrics(counted.shape, [part for metric in asked for part in metric.parts])
    wanted, assumed = with_curves(counted, wanted, asked)
    question = Question(
        candidate=policy,
        estimators=wanted,
        metrics=asked,
        missing=missing,
        by=(by,) if isinstance(by, str) else tuple(by or ()),
        baseline=None if baseline is None else as_policy(baseline, counted, "baseline"),
        clusters=kinds,
        workers=workers,
    )
    questions = with_logging(counted, question, logging)
    notes += doubts + chosen_note(policy) + repetition_note(counted, questions)
    announce_effort(counted, wanted, 1 if baseline is None else 2)
    answer, baselines = _answers(counted, questions)
    against: list[AnySums | None] = [*baselines] or [None] * len(answer.sums)
    pairs = [Pair(sums, other) for sums, other in zip(answer.sums, against, strict=True)]
    rows = [_row(pair, counted, pair.ends(confidence, interval)) for pair in pairs]
    evidence: list[inference.Evidence] = []
    verdicts: list[inference.Verdict] = []
    if kinds:
        claims = Claims(confidence, interval, practical, protected)
        errors = [_error(sums, backtest) for sums in answer.sums]
        evidence = evidence_of(counted, pairs, claims, errors)
        verdicts = judged(pairs, claims, evidence)
        rows = [row | {"verdict": v.word} for row, v in zip(rows, verdicts, strict=True)]
        notes += verdict_notes(rows, verdicts, question.by, answering) + in_words(interval)
        notes += trend_notes(counted, question)
    notes += assumed + rung_notes(answer) + coverage_notes(rows, answer)
    return Evaluation(
        tuple(rows),
        tuple(rows[0]),
        tuple(notes),
        evidence=tuple(evidence),
        verdicts=tuple(verdicts),
        answering=answering,
        against="production" if baseline is None else "the baseline",
        by=question.by,
    )


def _estimators(
    counted: Tally,
    policy: Policy,
    logging: Policy | Literal["frequency", "propensity"] | None,
    metrics: Sequence[AnyMetric],
    asked: EstimatorLike | Sequence[EstimatorLike] | None,
    clip: float | Sequence[float],
) -> tuple[list[Weighted | Ladder], str]:
    """The estimators, and the name of the one that answers."""
    parts = [part for metric in metrics for part in metric.parts]
    if asked is None:
        usual = usual_estimators(counted, policy, logging, parts)
    elif asked in (ALL, [ALL], (ALL,)):
        usual = all_estimators(counted, policy, logging, parts)
    else:
        wanted = parse_estimators(asked, clip)
        return wanted, answering_of([e.name for e in wanted])
    wanted = parse_estimators(usual, clip)
    return wanted, wanted[0].name


def with_logging(
    counted: Tally, question: Question, logging: Policy | str | None
) -> list[Question]:
    """Decides where logging probabilities come from; one question for each source.

    By default, propensities are used where contexts do not repeat, for the models whose cells they
    are the probabilities of; everything else uses the frequencies of the log.
    """
    if isinstance(logging, Policy):
        return [replace(question, logging=logging)]
    if logging == "propensity":
        _require_propensities(counted)
        return [replace(question, logging="propensity")]
    # A product of hazards has no use for propensities.
    products = {e.name for e, _ in question.hazards}
    able = [
        e.name not in products and propensities_answer(counted.shape, e)
        for e in question.estimators
    ]
    if logging == "frequency" or not any(able) or contexts_repeat(counted)[1] >= FEW_RECORDS:
        return [question]
    return [
        replace(question, estimators=[e], logging="propensity" if fits else None)
        for e, fits in zip(question.estimators, able, strict=True)
    ]


def _answers(counted: Tally, questions: list[Question]) -> tuple[Estimate, list[AnySums]]:
    """The estimates of all questions, and those of what the candidate is compared with."""
    mine: list[AnySums] = []
    others: list[AnySums] = []
    ignored = 0
    for question in questions:
        both = [question] if question.baseline is None else [question, question.turned]
        found = pair_up(counted, both, [estimate(counted, each) for each in both])
        mine += found[0].sums
        others += [sums for answer in found[1:] for sums in answer.sums]
        ignored = max(ignored, found[0].ignored_contexts)
    return Estimate(mine, ignored), others


def _require_propensities(counted: Tally) -> None:
    if counted.shape.propensity is None:
        raise ModelError(
            "logging='propensity', but the log was read without. Name their column: "
            "read_log(…, propensity='…')."
        )


def _row(pair: Pair, counted: Tally, found: Ends) -> dict[str, Any]:
    sums, production, change = pair.sums, pair.production, pair.change
    stratum, unseen = sums.stratum, sums.unseen()
    return {
        "estimator": sums.estimator,
        "metric": sums.metric.name,
        "clip": sums.clip,
        **stratum.segment,
        "value": sums.value,
        **_part(found, "se", "low", "high"),
        **({"borrowed": unseen.less, "margin": unseen.more} if sums.asked else {}),
        "production": production,
        "change": change,
        **_part(found, "change_low", "change_high"),
        "lift": change / production if change is not None and production else None,
        **_part(found, "lift_low", "lift_high"),
        "covered": sums.covered_share,
        "clipped": sums.clipped_share,
        "ess": sums.ess,
        "contexts": stratum.contexts,
        "records": stratum.records,
        "missing_contexts": stratum.missing_contexts,
        "dropped": counted.dropped_rows,
    }


def _error(sums: AnySums, backtest: Backtest | None) -> float:
    """How far the estimator was off in the backtest, 0 without one; of a ratio, for both parts."""
    if backtest is None:
        return 0.0
    errors = [
        0.0 if part.metric.shown else backtest.error(part.estimator, part.metric.name, part.clip)
        for part in sums.parts
    ]
    if not isinstance(sums, RatioSums):
        return errors[0]
    return (errors[0] + (sums.value or 0.0) * errors[1]) / (sums.under.value or math.inf)


def _part(values: dict[str, float | None], *names: str) -> dict[str, float | None]:
    return {name: values[name] for name in names if name in values}
