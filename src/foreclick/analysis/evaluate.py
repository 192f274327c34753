"""`evaluate`: the value of a candidate, by every estimator asked for, beside production's."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from foreclick import inference
from foreclick.analysis.backtest import Backtest
from foreclick.analysis.choice import (
    AUTO,
    Choice,
    all_chosen,
    asks_for_choice,
    by_name,
    choose,
    put_to_candidates,
)
from foreclick.analysis.clusters import clusters_of
from foreclick.analysis.intervals import IntervalKind, check_interval, check_rewards, ends, in_words
from foreclick.batches import contexts_repeat
from foreclick.errors import ForeclickWarning, ModelError
from foreclick.estimators import (
    Clusters,
    Estimate,
    EstimatorLike,
    Ladder,
    Missing,
    Question,
    Sums,
    estimate,
    propensities_answer,
)
from foreclick.metrics import Metric, parse_metrics
from foreclick.policies import Policy, PolicyLike, as_policy
from foreclick.results import Result
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle

FEW_RECORDS = 5
"""Below so many records in the median context, frequencies say little about the logging policy."""

_WORTH_SAYING = 0.0005  # of an answer that came from some rung
_THIN = 0.8  # of the candidate's exposure; below it, the missing part is worth a note


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """What a candidate is worth: one row per estimator × metric × clip (× segment).

    | column | meaning |
    |---|---|
    | value | the estimate of V(h); None where the log shows nothing of the candidate |
    | se, low, high | its standard error and sampling interval, if the click model holds |
    | margin | what the log cannot see, at most: high + margin is the honest upper end |
    | production | the mean reward of the records that `value` uses, or the baseline's estimate |
    | change, lift | value − production, and that divided by production, with paired intervals |
    | covered | the share of the candidate's exposure that was ever logged |
    | clipped | the share of it that the clip M cut off |
    | ess | the records that the weighted ones are worth; of a ladder, only beside intervals |
    | contexts, records | what it rests on |
    | missing_contexts | contexts of the log that the candidate has no list for |
    | dropped | invalid rows that were left out when the log was read |
    | verdict | better, worse, no difference (worth having), or cannot tell |

    Printed, it leaves out what has nothing to say; the columns are all there.
    """

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what follows from the rest, and without counts of nothing."""
        dull = {"se", "change", "change_low", "change_high", "contexts"}
        idle = {c for c in ("clipped", "missing_contexts", "dropped") if not any(self[c])}
        idle |= {c for c in ("ess",) if all(value is None for value in self[c])}
        return tuple(c for c in self.columns if c not in dull | idle)


def evaluate(  # noqa: PLR0913 - a question has many sides; all but two are keywords
    log: LogLike,
    candidate: PolicyLike,
    *,
    metrics: str | Metric | Sequence[str | Metric] = ("clicks@3", "dcg@10"),
    estimators: EstimatorLike | Sequence[EstimatorLike] = ("list", "ip", "item", "pbm", "rctr"),
    clip: float | Sequence[float] = math.inf,
    missing: Missing = "error",
    logging: Policy | Literal["frequency", "propensity"] | None = None,
    baseline: PolicyLike | None = None,
    by: str | Sequence[str] | None = None,
    confidence: float = 0.95,
    clusters: Clusters | Literal["auto"] | None = "auto",
    mix: Literal["random", "fixed"] = "random",
    cap: float | None = None,
    practical: float = 0.0,
    interval: IntervalKind = "sampling",
    backtest: Backtest | None = None,
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
        metrics: spellings such as "clicks@3", "dcg@10" and "success@3", or `Metric` values.
        estimators: names of click models, `ClickModel`s, `Weighted`s, "ladder" or a `Ladder`; or
            "auto" for the ladder or `ip` that predicts the log's own periods best.
        clip: M, a number or several; `math.inf` for none.
        missing: what contexts without a candidate list count as: "error", "production" (as they
            are today) or "drop" (left out of everything).
        logging: the logging policy where it is known, "propensity" for the log's own, "frequency"
            for the log's frequencies. By default frequencies, which are the better choice where
            contexts repeat, and propensities, if the log has them, where they do not.
        baseline: a policy to compare with instead of the log's own mean, for instance
            ``Observed`` of the last day.
        by: segment columns (or "period") to split by; each part is evaluated on its own.
        confidence: of the intervals.
        clusters: whose records vary together: those of a "period", of a "unit" (user), or none
            ("record"). By default periods and units if the log has them, whichever is wider, and
            records otherwise. None: no intervals, in half the time.
        mix: whether contexts come as they come ("random"), or in numbers fixed by design.
        cap: the highest click rate that what was never shown might have, for `margin`; by default
            that of the log's best position.
        practical: the smallest change worth having, for the verdict; in units of the metric.
        interval: "sampling" for one look at the log; "anytime" if it is looked at again and again
            as it grows, until the answer pleases; "bernstein" or "hoeffding" for a guarantee that
            needs no large numbers, but a known `logging`, rewards up to 1, independent records,
            and much patience. Those two bound `value` and `change`; `lift` has no such bound.
        backtest: of the same log, metrics, estimators and clips: the verdict then allows for how
            far each estimator was off there.

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
    counted, notes = settle(log)
    varying, doubts = clusters_of(counted, clusters)
    notes += doubts + _drawn(counted)
    beside = None if baseline is None else as_policy(baseline)
    question = Question(
        candidate=as_policy(candidate),
        estimators=by_name(estimators, clip),
        metrics=parse_metrics(metrics),
        missing=missing,
        by=(by,) if isinstance(by, str) else tuple(by or ()),
        baseline=beside,
        clusters=varying,
        fixed_mix=mix == "fixed",
    )
    choosing = asks_for_choice(estimators)
    among = put_to_candidates(question) if choosing else []
    named = _decide(counted, question, logging) if question.estimators else []
    among = [part for q in among for part in _decide(counted, q, logging)]
    check_interval(interval, varying, mix, named + among)
    check_rewards(interval, counted, question)
    notes += _repetition(counted, named + among)
    said, theirs = (_ask(counted, named), _ask(counted, among)), None
    if beside is not None:
        theirs = _ask(counted, _turned(named, beside)), _ask(counted, _turned(among, beside))
    choices = choose(counted, question.metrics, backtest) if choosing else {}
    notes += [f"auto for {m.name}: {c.chosen}, for {c.because}." for m, c in choices.items()]
    answer = _with_choice(*said, choices)
    compared = None if theirs is None else _with_choice(*theirs, choices)
    rows = [
        _row(sums, compared.sums[i] if compared else None, counted, (confidence, interval), cap)
        for i, sums in enumerate(answer.sums)
    ]
    if varying:
        verdicts = [
            inference.judge(
                _evidence(row, confidence, sums, _error(sums, backtest, choices)),
                practical,
            )
            for row, sums in zip(rows, answer.sums, strict=True)
        ]
        rows = [row | {"verdict": v.word} for row, v in zip(rows, verdicts, strict=True)]
        notes += _said(rows, verdicts) + in_words(interval)
    notes += _looked_up(answer) + _coverage(rows, answer)
    return Evaluation(tuple(rows), tuple(rows[0]), tuple(notes))


def _drawn(counted: Tally) -> list[str]:
    """A note on a log that was read in part."""
    if counted.shape.sample is None:
        return []
    by, share = counted.shape.sample
    return [f"A sample: {share:.3g} of the log's {by}s. The intervals allow for the others."]


def _decide(counted: Tally, question: Question, logging: Policy | str | None) -> list[Question]:
    """The question, with where the logging policy is to be had from; in parts where that differs.

    By default, propensities are used where contexts do not repeat, for the models whose cells they
    are the probabilities of; everything else uses the frequencies of the log.
    """
    if isinstance(logging, Policy):
        return [replace(question, logging=logging)]
    if logging == "propensity":
        _require_propensities(counted)
        return [replace(question, logging="propensity")]
    if logging not in (None, "frequency"):
        raise ModelError(
            f"logging={logging!r}: give a policy, 'propensity', 'frequency', or None to let the "
            "log decide."
        )
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


def _turned(parts: list[Question], baseline: Policy) -> list[Question]:
    """The same of the baseline, beside the candidate."""
    return [replace(q, candidate=baseline, baseline=q.candidate) for q in parts]


def _ask(counted: Tally, parts: list[Question]) -> Estimate:
    answers = [estimate(counted, question) for question in parts]
    sums = [s for answer in answers for s in answer.sums]
    return Estimate(sums, max((answer.ignored_contexts for answer in answers), default=0))


def _with_choice(named: Estimate, among: Estimate, choices: dict[Metric, Choice]) -> Estimate:
    """What was asked for by name, and what the chosen ones say."""
    ignored = max(named.ignored_contexts, among.ignored_contexts)
    return Estimate([*named.sums, *all_chosen(among.sums, choices)], ignored)


def _require_propensities(counted: Tally) -> None:
    if counted.shape.propensity is None:
        raise ModelError(
            "logging='propensity', but the log was read without. Name their column: "
            "read_log(…, propensity='…')."
        )


def _repetition(counted: Tally, parts: list[Question]) -> list[str]:
    """A warning where frequencies are asked for of contexts that hardly repeat."""
    weighing = dict.fromkeys(
        e.name
        for q in parts
        if q.logging is None
        for e in q.estimators
        if e.model.sees_items and not isinstance(e, Ladder)  # which knows what to do with few
    )
    if not weighing:
        return []
    contexts, median = contexts_repeat(counted)
    if median >= FEW_RECORDS:
        return []
    message = (
        f"the contexts hardly repeat: the median of {contexts:,} contexts has {median:g} records, "
        f"fewer than {FEW_RECORDS}. The log then says little about what else could have been "
        f"shown, and {', '.join(weighing)} weigh by its frequencies. Use a coarser context (a "
        "query class, or context=None), read the log with propensity=, or give the logging policy "
        "with logging=."
    )
    warnings.warn(message, ForeclickWarning, stacklevel=3)
    return [message[0].upper() + message[1:]]


def _row(
    sums: Sums,
    baseline: Sums | None,
    counted: Tally,
    asked: tuple[float, IntervalKind],
    cap: float | None,
) -> dict[str, Any]:
    stratum, value = sums.stratum, sums.value
    production = stratum.production(sums.metric) if baseline is None else baseline.value
    change = None if value is None or production is None else value - production
    lift = change / production if change is not None and production else None
    found = ends(sums, baseline, production, *asked) if sums.asked else {}
    margin = {"margin": sums.margin(cap)} if sums.asked else {}
    return {
        "estimator": sums.estimator,
        "metric": sums.metric.name,
        "clip": sums.clip,
        **stratum.segment,
        "value": value,
        **_part(found, "se", "low", "high"),
        **margin,
        "production": production,
        "change": change,
        **_part(found, "change_low", "change_high"),
        "lift": lift,
        **_part(found, "lift_low", "lift_high"),
        "covered": sums.covered_share,
        "clipped": sums.clipped / sums.mass if sums.mass else 0.0,
        "ess": sums.ess,
        "contexts": stratum.contexts,
        "records": stratum.records,
        "missing_contexts": stratum.missing_contexts,
        "dropped": counted.dropped_rows,
    }


def _evidence(
    row: dict[str, Any], confidence: float, sums: Sums, error: float
) -> inference.Evidence:
    return inference.Evidence(
        estimator=row["estimator"],
        metric=row["metric"],
        change=row["change"],
        low=row["change_low"],
        high=row["change_high"],
        margin=row["margin"],
        covered=row["covered"],
        production=row["production"],
        confidence=confidence,
        repeated=sums.repeated,
        error=error,
        assumes=sums.rungs is None,
    )


def _error(sums: Sums, backtest: Backtest | None, choices: dict[Metric, Choice]) -> float:
    """By how much whoever answered was off in the backtest, if there is one."""
    if backtest is None:
        return 0.0
    name = choices[sums.metric].chosen if sums.estimator == AUTO else sums.estimator
    return backtest.error(name, sums.metric.name, sums.clip)


def _said(rows: list[dict[str, Any]], verdicts: list[inference.Verdict]) -> list[str]:
    """A sentence for each metric, by the estimator that was chosen, or that is our choice."""
    if len({(row["clip"], row["records"]) for row in rows}) > 1:
        return []  # several clips or segments: the column says it shorter
    notes = []
    for metric in dict.fromkeys(row["metric"] for row in rows):
        mine = [i for i, row in enumerate(rows) if row["metric"] == metric]
        preferred = [
            i for name in (AUTO, "ladder", "ip") for i in mine if rows[i]["estimator"] == name
        ]
        chosen = [*preferred, *mine][0]
        if rows[chosen]["value"] is None:
            continue  # said below, for all estimators together
        word = verdicts[chosen].word
        notes.append(f"{word[0].upper()}{word[1:]}: {verdicts[chosen].because}")
    return notes


def _part(values: dict[str, float | None], *names: str) -> dict[str, float | None]:
    return {name: values[name] for name in names if name in values}


def _coverage(rows: list[dict[str, Any]], answer: Estimate) -> list[str]:
    """In plain words: what the log cannot see of the candidate."""
    notes = []
    names = dict.fromkeys(str(row["estimator"]) for row in rows)
    by_name = {name: [row for row in rows if row["estimator"] == name] for name in names}
    silent = [_silent(name, mine) for name, mine in by_name.items()]
    if any(silent):
        notes.append(
            f"No answer by {', '.join(filter(None, silent))}: nothing of what the candidate would "
            "show was ever shown, so the log cannot tell its value. Check that contexts and items "
            "are spelt as in the log, or show the candidate to a few users first."
        )
    lowest = {
        name: min((row["covered"] for row in mine if row["value"] is not None), default=1.0)
        for name, mine in by_name.items()
    }
    thin = [f"{name} {covered:.0%}" for name, covered in lowest.items() if covered < _THIN]
    if thin:
        notes.append(
            "Too low by what was never shown: only part of the candidate's exposure is covered "
            f"({', '.join(thin)}), and the rest counts as no clicks. Trust an estimator with more "
            "coverage, or see fc.support."
        )
    lost = {s.estimator: s.unlogged for s in answer.sums if s.unlogged}
    if lost:
        named = ", ".join(f"{name} {count:,.0f}" for name, count in lost.items())
        notes.append(
            f"Logged records in cells with probability 0 under the given logging policy: {named}. "
            "They weigh M where it is finite and are left out where it is not. Check logging=."
        )
    if answer.ignored_contexts:
        notes.append(
            f"{answer.ignored_contexts:,} contexts that only the candidate has were ignored."
        )
    return notes


_RUNGS = {
    "prefix": "seen below the same items",
    "list": "seen in the same list",
    "position": "seen at this position",
    "item": "inferred from other positions",
    "context": "from the context's mean",
    "log": "from the mean of all contexts",
}


def _order(rung: str) -> int:
    """Where a rung stands; a user's own stand above that of the whole log."""
    return list(_RUNGS).index(rung if rung in _RUNGS else "log") * 2 - (rung not in _RUNGS)


def _looked_up(answer: Estimate) -> list[str]:
    """Of each ladder, in plain words, what its answer rests on."""
    notes = []
    for name in dict.fromkeys(s.estimator for s in answer.sums if s.rungs):
        mine = [s for s in answer.sums if s.estimator == name and s.rungs]
        names = sorted({rung for s in mine for rung in s.rungs or {}}, key=_order)
        totals = {rung: sum((s.rungs or {}).get(rung, 0.0) for s in mine) for rung in names}
        whole = sum(totals.values())
        shares = [
            f"{total / whole:.1%} {_RUNGS.get(rung, f'from the mean of its {rung}')}"
            for rung, total in totals.items()
            if whole and total / whole >= _WORTH_SAYING
        ]
        if shares:
            notes.append(f"Where {name} looked: {', '.join(shares)}.")
    return notes


def _silent(name: str, rows: list[dict[str, Any]]) -> str:
    """An estimator without an answer, and in how much of the table."""
    without = sum(row["value"] is None for row in rows)
    if without in (0, len(rows)):
        return name if without else ""
    return f"{name} (in {without} of {len(rows)} rows)"
