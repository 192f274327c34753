"""`evaluate`: the value of a candidate, by every estimator asked for, beside production's."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from foreclick._tally import Tally, contexts_repeat, tally
from foreclick.errors import ForeclickWarning, ModelError
from foreclick.estimators import (
    Estimate,
    Missing,
    Question,
    Sums,
    estimate,
    parse_estimators,
    propensities_answer,
)
from foreclick.metrics import Metric, parse_metrics
from foreclick.policies import Policy, as_policy
from foreclick.results import Result, Value

FEW_RECORDS = 5
"""Below so many records in the median context, frequencies say little about the logging policy."""

_THIN = 0.8  # of the candidate's exposure; below it, the missing part is worth a note


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """What a candidate is worth: one row per estimator × metric × clip (× segment).

    | column | meaning |
    |---|---|
    | value | the estimate of V(h); None where the log shows nothing of the candidate |
    | production | the mean reward of the records that `value` uses, or the baseline's estimate |
    | change, lift | value − production, and that divided by production |
    | covered | the share of the candidate's exposure that was ever logged |
    | clipped | the share of it that the clip M cut off |
    | ess | the number of records that the weighted ones are worth |
    | contexts, records | what it rests on |
    | missing_contexts | contexts of the log that the candidate has no list for |
    | dropped | invalid rows that were left out when the log was read |
    """


def evaluate(  # noqa: PLR0913 - a question has many sides; all but two are keywords
    log: Any,  # noqa: ANN401 - a Log, a Tally, or what read_log accepts
    candidate: Any,  # noqa: ANN401 - a Policy, a log, or a table of rankings
    *,
    metrics: str | Metric | Sequence[str | Metric] = ("clicks@3", "dcg@10"),
    estimators: Any = ("list", "ip", "item", "pbm", "rctr"),  # noqa: ANN401 - names or values
    clip: float | Sequence[float] = math.inf,
    missing: Missing = "error",
    logging: Policy | Literal["frequency", "propensity"] | None = None,
    baseline: Any = None,  # noqa: ANN401 - like candidate
    by: str | Sequence[str] | None = None,
) -> Evaluation:
    """How many clicks a candidate ranking would get, from a log of another.

    For a click model with cells g, credit C_g and exposure P_g per logged record, and the
    candidate's exposure H_g (Li et al., KDD 2018, Table 2):

        V = 1/n Σ_x n_x Σ_g C_g min(H_g / P_g, M)

    It assumes the click model named in the `estimator` column: that slots of one cell share a click
    rate. `list` assumes nothing, and sees the least.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        candidate: a policy; a table with `context` and `items` is taken as a Ranking.
        metrics: spellings such as "clicks@3" and "dcg@10", or `Metric` values.
        estimators: names of click models, `ClickModel`s or `Weighted`s.
        clip: M, a number or several; `math.inf` for none.
        missing: what contexts without a candidate list count as: "error", "production" (as they
            are today) or "drop" (left out of everything).
        logging: the logging policy where it is known, "propensity" for the log's own, "frequency"
            for the log's frequencies. By default frequencies, which are the better choice where
            contexts repeat, and propensities, if the log has them, where they do not.
        baseline: a policy to compare with instead of the log's own mean, for instance
            ``Observed`` of the last day.
        by: segment columns (or "period") to split by; each part is evaluated on its own.

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
    if missing not in ("error", "production", "drop"):
        raise ModelError(f"missing={missing!r}: say 'error', 'production' or 'drop'.")
    counted = tally(log)
    question = Question(
        candidate=as_policy(candidate),
        estimators=parse_estimators(estimators, clip),
        metrics=parse_metrics(metrics),
        missing=missing,
        by=(by,) if isinstance(by, str) else tuple(by or ()),
    )
    notes = _repetition(counted, logging)
    answer = _ask(counted, question, logging)
    compared = (
        _ask(counted, replace(question, candidate=as_policy(baseline)), logging)
        if (baseline is not None)
        else None
    )
    rows = [
        _row(sums, compared.sums[i] if compared else None, counted)
        for i, sums in enumerate(answer.sums)
    ]
    notes += _coverage(rows, answer)
    return Evaluation(tuple(rows), tuple(rows[0]), tuple(notes))


def _ask(counted: Tally, question: Question, logging: Policy | str | None) -> Estimate:
    """Ask the kernel, with propensities for the models that they can answer for, if so decided."""
    if isinstance(logging, Policy):
        return estimate(counted, replace(question, logging=logging))
    if logging == "propensity":
        _require_propensities(counted)
        return estimate(counted, replace(question, logging="propensity"))
    if logging not in (None, "frequency"):
        raise ModelError(
            f"logging={logging!r}: give a policy, 'propensity', 'frequency', or None to let the "
            "log decide."
        )
    if logging is None and counted.shape.propensity and not _repeats(counted):
        return _mixed(counted, question)
    return estimate(counted, question)


def _mixed(counted: Tally, question: Question) -> Estimate:
    """Propensities where they are those of the model's cells, frequencies elsewhere."""
    able = [
        propensities_answer(counted.shape, e.model, question.depth) for e in question.estimators
    ]
    sums: list[Sums] = []
    ignored = 0
    for estimator, fits in zip(question.estimators, able, strict=True):
        part = replace(question, estimators=[estimator], logging="propensity" if fits else None)
        answer = estimate(counted, part)
        sums += answer.sums
        ignored = answer.ignored_contexts
    return Estimate(sums, ignored)


def _require_propensities(counted: Tally) -> None:
    if counted.shape.propensity is None:
        raise ModelError(
            "logging='propensity', but the log was read without. Name their column: "
            "read_log(…, propensity='…')."
        )


def _repeats(counted: Tally) -> bool:
    return contexts_repeat(counted)[1] >= FEW_RECORDS


def _repetition(counted: Tally, logging: Policy | str | None) -> list[str]:
    """A warning where frequencies are asked for of contexts that hardly repeat."""
    contexts, median = contexts_repeat(counted)
    if median >= FEW_RECORDS or isinstance(logging, Policy) or counted.shape.propensity:
        return []
    message = (
        f"the contexts hardly repeat: the median of {contexts:,} contexts has {median:g} records, "
        f"fewer than {FEW_RECORDS}. The log then says little about what else could have been "
        "shown. Use a coarser context (a query class, or context=None), read the log with "
        "propensity=, or give the logging policy with logging=."
    )
    warnings.warn(message, ForeclickWarning, stacklevel=4)
    return [message[0].upper() + message[1:]]


def _row(sums: Sums, baseline: Sums | None, counted: Tally) -> dict[str, Value]:
    stratum = sums.stratum
    value = sums.value
    production = stratum.production(sums.metric) if baseline is None else baseline.value
    change = None if value is None or production is None else value - production
    return {
        "estimator": sums.model.name,
        "metric": sums.metric.name,
        "clip": sums.clip,
        **stratum.segment,
        "value": value,
        "production": production,
        "change": change,
        "lift": change / production if change is not None and production else None,
        "covered": sums.covered / sums.mass if sums.mass else 0.0,
        "clipped": sums.clipped / sums.mass if sums.mass else 0.0,
        "ess": sums.ess,
        "contexts": stratum.contexts,
        "records": stratum.records,
        "missing_contexts": stratum.missing_contexts,
        "dropped": counted.dropped_rows,
    }


def _coverage(rows: list[dict[str, Value]], answer: Estimate) -> list[str]:
    """In plain words: what the log cannot see of the candidate."""
    notes = []
    lowest: dict[str, float] = {}
    for row in rows:
        name, covered = str(row["estimator"]), float(row["covered"] or 0)
        lowest[name] = min(covered, lowest.get(name, 1.0))
    unseen = [name for name, covered in lowest.items() if covered == 0]
    if unseen:
        notes.append(
            f"No answer by {', '.join(unseen)}: nothing of what the candidate would show was ever "
            "shown, so the log cannot tell its value. Check that contexts and items are spelt as "
            "in the log, or show the candidate to a few users first."
        )
    thin = [f"{name} {covered:.0%}" for name, covered in lowest.items() if 0 < covered < _THIN]
    if thin:
        notes.append(
            f"Too low by what was never shown: only part of the candidate's exposure is covered "
            f"({', '.join(thin)}), and the rest counts as no clicks. Trust an estimator with more "
            "coverage, or see fc.support."
        )
    lost = sum(s.unlogged for s in answer.sums)
    if lost:
        notes.append(
            f"{lost:,.0f} logged slots have probability 0 under the given logging policy: they "
            "weigh M where it is finite and are left out where it is not. Check logging=."
        )
    if answer.ignored_contexts:
        notes.append(
            f"{answer.ignored_contexts:,} contexts that only the candidate has were ignored."
        )
    return notes
