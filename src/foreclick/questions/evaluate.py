"""`evaluate`: the value of a candidate, by every estimator asked for, beside production's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from foreclick.estimators import EstimatorLike, parse_estimators
from foreclick.metrics import USUAL_METRICS, AnyMetric, parse_any
from foreclick.options import Confidence, sure, verb
from foreclick.policies import Policy, PolicyLike
from foreclick.progress import Stage, planned
from foreclick.question import Missing
from foreclick.questions.answers import Evaluation
from foreclick.questions.asked import LOGGING, is_default
from foreclick.questions.inquiry import Request, inquire
from foreclick.questions.plan import EVERY, answer_stages
from foreclick.run.effort import announce_effort
from foreclick.run.estimate import estimate
from foreclick.tallies import LogLike, Tally, local_tally


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
    tally, heard = local_tally(log)
    asked = Request(
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
    with planned(_stages(tally, asked)):
        inquiry = inquire(tally, heard, candidate, asked)
        question = inquiry.question
        announce_effort(inquiry.tally, question.estimators, len(question.candidates))
        return inquiry.answer(estimate(inquiry.tally, question))


def _stages(tally: Tally, asked: Request) -> list[Stage]:
    """What the answer takes, as far as that is known before it is asked."""
    if asked.trained_until is not None:
        return []
    if not is_default(asked.estimators):
        names = [e.name for e in parse_estimators(asked.estimators)]
    else:
        names = [*(EVERY[:2] if asked.estimators is None else EVERY)]
    depths = len({part.depth for metric in parse_any(asked.metrics) for part in metric.parts})
    return answer_stages(tally, names, depths, 1 if asked.baseline is None else 2)
