"""`report`: everything a team needs to decide about a candidate, gathered in one value."""

from __future__ import annotations

import datetime as dt
import html
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import (
    EMPTY,
    Bools,
    Candidate,
    Coding,
    Floats,
    Ints,
    batches_of,
    count_periods,
    sums,
)
from foreclick.errors import ForeclickWarning
from foreclick.estimation.clusters import clusters_of
from foreclick.estimation.estimates import Estimates
from foreclick.estimators import parse_estimators
from foreclick.logs import CONTEXT, Log
from foreclick.metrics import USUAL_METRICS, AnyMetric, Metric, parse_any
from foreclick.options import Confidence, sure, verb
from foreclick.policies import Marginals, PolicyLike, policy_for
from foreclick.progress import planned, report_reached, report_step
from foreclick.question import Missing, Question
from foreclick.questions.answers import Evaluation
from foreclick.questions.asked import make_question
from foreclick.questions.backtest import Backtest
from foreclick.questions.backtest import backtest as run_backtest
from foreclick.questions.check import Check, check_of, counting
from foreclick.questions.depth import compared_down
from foreclick.questions.inquiry import Request, inquire, result_row
from foreclick.questions.intervals import Pair
from foreclick.questions.plan import CONTEXTS, SEGMENTS, report_stages
from foreclick.questions.replay import Replay
from foreclick.questions.support import LATTICE, Support, support_of, support_question
from foreclick.results import Headline, Result, Value
from foreclick.rules import flag
from foreclick.run.effort import announce_effort
from foreclick.run.estimate import context_values, estimate
from foreclick.tallies import LogLike, Tally, local_tally

TOP = 3  # so many contexts that gain, and so many that lose, are named


@dataclass(frozen=True, repr=False)
class Report(Result):
    """An evaluation with the sections of a report, to be saved as a page.

    Its rows, columns and notes are those of the evaluation, so that `print` and `to_pandas` give
    the answer. Sections that were not asked for, or that the log cannot fill, are None.

    Attributes:
        evaluation: the answer, for the whole log.
        segments: the answer by segment, with `by`.
        models: the answer by every click model.
        support: how much of the candidate the log covers.
        contexts: the contexts that gain and lose most.
        check: what is in the log: clicks by position and by period.
        backtest: the errors of estimators on this log.
        past: past A/B tests, predicted and measured.
        confidence: as for `evaluate`. With ``Confidence(past=replay)`` the page also shows the past
            A/B tests.
        made: how the report was made, as pairs of a name and a text.
        date: the day on which it was made.
    """

    evaluation: Evaluation = field(kw_only=True)
    segments: Evaluation | None = None
    models: Evaluation | None = None
    support: Support | None = None
    contexts: ContextChanges | None = None
    check: Check | None = None
    backtest: Backtest | None = None
    past: Replay | None = None
    confidence: float = 0.95
    made: tuple[tuple[str, str], ...] = ()
    date: dt.datetime | None = None

    @property
    def headline(self) -> Headline:
        """The answer, as the evaluation prints it."""
        return self.evaluation.headline

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns that the table of the evaluation prints."""
        return self.evaluation.shown

    def displayed(self, row: Mapping[str, Value]) -> Mapping[str, Value]:
        """A row as the table of the evaluation prints it."""
        return self.evaluation.displayed(row)

    def _repr_html_(self) -> str:
        """The page in a frame of its own: neither it nor the notebook changes the other's looks."""
        return (
            '<iframe title="foreclick report" sandbox="" style="width:100%;height:48rem;'
            f'border:1px solid #8884;border-radius:6px" srcdoc="{html.escape(self.page())}">'
            "</iframe>"
        )


@verb(backtest=flag, confidence=sure)
def report(
    log: LogLike,
    candidate: PolicyLike,
    *,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS,
    by: str | Sequence[str] | None = None,
    baseline: PolicyLike | None = None,
    missing: Missing = "error",
    confidence: float | Confidence = 0.95,
    min_effect: float = 0.0,
    guardrails: Mapping[str | AnyMetric, float] | None = None,
    backtest: bool = True,
) -> Report:
    """Evaluate a candidate, and gather on one page what a team needs to decide on it.

    The page has the verdict and the estimates, how much of the candidate the log covers, the answer
    by every click model, the contexts that gain and lose most with their lists before and after,
    clicks by position and by period, and a backtest. Each part is the result of the verb of that
    name: `evaluate`, `support`, `check`, `backtest`.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        candidate: a policy; or a table, from which a policy is made, as in `evaluate`.
        metrics: as for `evaluate`. Contexts are listed by the first metric that is no ratio.
        by: segment columns (or "period") for which the answer is also given.
        baseline: as for `evaluate`.
        missing: as for `evaluate`.
        confidence: as for `evaluate`. With ``Confidence(past=replay)`` the page also shows the past
            A/B tests.
        min_effect: as for `evaluate`.
        guardrails: as for `evaluate`.
        backtest: whether to run a backtest, if the log has two periods or more.

    Returns:
        A `Report`; its `save("report.html")` writes the page.

    Raises:
        PolicyError, MetricError, ModelError, OptionError: as for `evaluate`.

    Examples:
        >>> log = {
        ...     "context": ["shoes"] * 6,
        ...     "items": [["boot", "sandal"], ["sandal", "boot"]] * 3,
        ...     "clicks": [[0, 1], [1, 0], [1, 0], [1, 0], [0, 0], [0, 0]],
        ... }
        >>> r = report(log, {"context": ["shoes"], "items": [["sandal", "boot"]]})
        >>> r.contexts.lists[0].before.items, r.contexts.lists[0].after.items
        (('boot', 'sandal'), ('sandal', 'boot'))
        >>> r.save("report.html")  # doctest: +SKIP
    """
    tally, heard = local_tally(log)
    asked, policy = parse_any(metrics), policy_for(tally, candidate)
    policies = {"the candidate": policy}
    if baseline is not None:
        policies["the baseline"] = policy_for(tally, baseline, "baseline")
    wanted, _ = compared_down(tally, policies, asked, USUAL_METRICS)
    request = Request(
        metrics=asked,
        missing=missing,
        baseline=baseline,
        confidence=confidence,
        min_effect=min_effect,
        guardrails=guardrails,
    )
    level = request.level
    # A backtest or a replay corrects the answer alone.
    alone = replace(request, confidence=replace(level, past=None))
    sums_of = [metric for metric in wanted if isinstance(metric, Metric)]
    earned = [metric for metric in sums_of if not metric.shown]
    held_out = bool(backtest and earned and tally.shape.period) and count_periods(tally) > 1
    depths = len({part.depth for metric in wanted for part in metric.parts})
    further = {"segments": bool(by), "contexts": bool(sums_of), "backtest": held_out}
    parts: dict[str, Any] = {}
    with planned(report_stages(tally, depths, **further)):
        answer = inquire(tally, heard, policy, request)
        usual = [e.name for e in answer.question.estimators]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForeclickWarning)  # the answer has given it already
            # Where logging probabilities are known, `list` or `ip` alone answers.
            models = None
            if any(name.startswith("ladder") for name in usual):
                every = replace(alone, estimators="all", guardrails=None)
                models = inquire(tally, heard, policy, every)
            seen, said = None, list[str]()
            if sums_of:
                lattice = parse_estimators(
                    LATTICE[2:] if isinstance(policy, Marginals) else LATTICE
                )
                seen, said = support_question(tally, policy, sums_of, lattice, missing)
            once = _together(answer.question, None if models is None else models.question, seen)
            announce_effort(tally, once.estimators, len(once.candidates))
            report_step("evaluating")
            with batches_of(tally).beside(counting(tally)) as counted:
                estimates = estimate(tally, once)

            def found(question: Question) -> Estimates:
                return estimates if _has(once, question) else estimate(tally, question)

            evaluation = answer.answer(estimates)
            if models is not None:
                parts["models"] = models.answer(found(models.question))
            if seen is not None:
                parts["support"] = support_of(tally, seen, found(seen), [*heard, *said])
            if by:
                report_step("evaluating each segment")
                report_reached(SEGMENTS)
                segments = inquire(tally, heard, policy, replace(alone, by=by))
                parts["segments"] = segments.answer(estimate(tally, segments.question))
        if sums_of:
            report_step("comparing contexts")
            report_reached(CONTEXTS)
            question, _ = make_question(
                tally,
                [*policies.values()],
                sums_of[:1],
                usual[0],
                missing,
                clusters=clusters_of(tally, "auto")[0],
            )
            parts["contexts"] = context_changes(tally, question, TOP, level.level)
        parts["check"] = check_of(tally, log, counted.found or ())
        if held_out:
            report_step("backtesting")
            first = [name for name in usual if name != "list"]
            others = [name for name in ("list", "item", "rctr") if name not in first]
            parts["backtest"] = run_backtest(tally, metrics=earned, estimators=[*first, *others])
    return Report(
        evaluation.rows,
        evaluation.columns,
        evaluation.notes,
        evaluation=evaluation,
        **parts,
        past=level.past if isinstance(level.past, Replay) else None,
        confidence=level.level,
        made=tuple(_made(log, tally, replace(request, by=by or None))),
        date=dt.datetime.now(dt.UTC),
    )


def _together(answer: Question, models: Question | None, seen: Question | None) -> Question:
    """The question of the answer, with as many of the others as one estimate can answer, too.

    Args:
        answer: by the usual estimators.
        models: by all of them.
        seen: for the support of the candidate, without a baseline.
    """
    once = answer
    if models is not None and _has(every := replace(models, metrics=answer.metrics), answer):
        once = every
    if seen is not None and _has(more := replace(once, top=seen.top), seen):
        once = more
    return once


def _has(question: Question, other: Question) -> bool:
    """Whether the estimates of a question are those of another one, too."""
    logging = {e: question.logging_of(number) for number, e in enumerate(question.estimators)}
    # Of contexts that not all candidates know, each alone would have more.
    alone = len(other.candidates) == len(question.candidates) or question.missing != "drop"
    return (
        alone
        and other.top <= question.top
        and set(other.metrics) <= set(question.metrics)
        and all(
            e in logging and logging[e] == other.logging_of(number)
            for number, e in enumerate(other.estimators)
        )
    )


def _made(log: LogLike, tally: Tally, asked: Request) -> Iterator[tuple[str, str]]:
    """Versions, columns, counts and the call, for whoever wants to repeat it."""
    if isinstance(log, Log):
        yield "Log", f"{log.rows:,} rows in {log.source.name}"
        named = log.roles.named()
    else:
        yield "Log", f"a tally of {tally.row_count():,} rows"
        named = [(role, column or "one for all") for role, column in tally.names.items()]
    yield "Columns", ", ".join(f"{role}: {column}" for role, column in named)
    if tally.dropped_rows:
        causes = ", ".join(f"{cause}: {rows:,}" for cause, rows in tally.dropped.items())
        yield "Rows left out", f"{tally.dropped_rows:,} ({causes})"
    call = [f"metrics={[str(metric) for metric in parse_any(asked.metrics)]!r}"]
    for option in fields(Request)[1:]:
        name, value = option.name, getattr(asked, option.name)
        plain = isinstance(value, str | float | int)  # tables compare cell by cell
        if value is not None and not (plain and value == option.default):
            call.append(f"{name}={value!r}" if plain or name == "by" else f"{name}=…")
    yield "Call", f"fc.report(log, candidate, {', '.join(call)})"
    versions = [f"Python {platform.python_version()}"]
    for package in ("foreclick", "numpy", "scipy", "duckdb"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # run from a checkout
            versions.append(f"{package} (not installed)")
    yield "Versions", ", ".join(versions)


# --- contexts that gain and lose ------------------------------------------------------------------

_ROUNDING = 1e-12  # of production; a change below it is none
_COLUMNS: tuple[str, ...] = ("context", "records", "share", "production", "value")
_COLUMNS += ("change", "change_low", "change_high", "adds")


class MostShown(NamedTuple):
    """The list that a context shows most often, and the share of its requests that get it."""

    items: tuple[Any, ...]
    share: float


class Sides(NamedTuple):
    """What a context shows most often today, and what the candidate would show there."""

    before: MostShown
    after: MostShown


class Group(NamedTuple):
    """Contexts that gain, lose, or stay as they are.

    Attributes:
        contexts: how many.
        records: how many records they have.
        adds: what they add to the change of the whole log.
    """

    contexts: int
    records: float
    adds: float


@dataclass(frozen=True, repr=False)
class ContextChanges(Result):
    """The contexts that gain most, then those that lose most: one row per context.

    | column | meaning |
    |---|---|
    | context | its value in the log |
    | records, share | its records, and their share of all records |
    | production, value | the mean reward per record today, and the estimate for the candidate |
    | change, change_low, change_high | value − production, with its interval |
    | adds | its contribution to the change of the whole log: share × change |

    Attributes:
        estimator, metric: the estimator and metric of the changes.
        lists: for each row, the lists before and after.
        gain, lose, same: the number of contexts in the log with each sign of change.
    """

    estimator: str = ""
    metric: str = ""
    lists: tuple[Sides, ...] = ()
    gain: Group = field(kw_only=True)
    lose: Group = field(kw_only=True)
    same: Group = field(kw_only=True)


def context_changes(
    tally: Tally, question: Question, top: int, confidence: float
) -> ContextChanges:
    """The contexts that gain and lose most; what all contexts add makes up the change of the log.

    Args:
        tally: the log.
        question: of one estimator and one metric that is a sum over positions, about a candidate,
            and a baseline if there is one.
        top: how many contexts that gain, and how many that lose.
        confidence: of each interval on its own.
    """
    contexts, weight, value, before = context_values(tally, question)
    change, total = value - before, float(weight.sum())
    least = _ROUNDING * max(float(np.abs(before).sum()), _ROUNDING)
    order = np.lexsort((np.arange(len(change)), -change))
    up, down = order[change[order] > least][:top], order[change[order] < -least][::-1][:top]
    chosen = np.concatenate([up, down])
    rows = []
    if len(chosen):
        by_context = replace(question, contexts=contexts.take(pa.array(chosen)))
        estimates = estimate(tally, by_context)
        both = (estimates.of_candidate(c) for c in range(len(question.candidates)))
        for x, *ones in zip(chosen, *both, strict=False):  # the last part is all other contexts
            row = result_row(Pair(*ones), tally, Confidence(confidence))
            row |= {"share": weight[x] / total, "adds": change[x] / total}
            rows.append({name: row.get(name) for name in _COLUMNS})

    def group(which: Bools) -> Group:
        there = which & (weight > 0)
        adds = float(change[there].sum()) / (total or 1.0)
        return Group(int(there.sum()), float(weight[there].sum()), adds)

    return ContextChanges(
        tuple(rows),
        _COLUMNS,
        estimator=question.estimators[0].name,
        metric=question.parts[0].name,
        lists=_sides(tally, question, [row["context"] for row in rows]),
        gain=group(change > least),
        lose=group(change < -least),
        same=group(np.abs(change) <= least),
    )


def _sides(tally: Tally, question: Question, contexts: list[Any]) -> tuple[Sides, ...]:
    """What some contexts show before and after, as far as the metric counts."""
    sides: dict[Any, Sides] = {}
    depth = min(max(question.depth, 3), 10)
    for batch in batches_of(_among(tally, contexts)) if contexts else ():
        wanted = pa.array(contexts, batch.contexts.type)
        there = np.asarray(pc.is_in(batch.contexts, value_set=wanted))
        if not there.any():
            continue
        coding = Coding(batch, depth)
        shown = []
        for policy in reversed(question.candidates):
            candidate = Candidate(coding, policy, there)
            if policy.complete:
                lists = candidate.lists
                shown.append((lists.context, lists.pairs, lists.mass))
            else:
                shown.append((candidate.slots.context, candidate.slots.pair, candidate.slots.mass))
        if len(shown) == 1:  # before is what the log shows; lists that begin alike are one
            top = min(depth, batch.depth)
            _, first, number = np.unique(
                batch.prefix[:, top - 1], return_index=True, return_inverse=True
            )
            context, n = batch.list_context[first], sums(number, batch.list_n, len(first))
            shown.insert(0, (context, batch.lists[first][:, :top], n / batch.context_n[context]))
        for x in np.flatnonzero(there):
            name = batch.contexts[int(x)].as_py()
            sides[name] = Sides(*(_most_shown(coding, int(x), *side) for side in shown))
    return tuple(sides[name] for name in contexts)


def _among(tally: Tally, contexts: list[Any]) -> Tally:
    """The records of some contexts; of all of them where batches stay in memory."""
    if None in contexts or not batches_of(tally).asks:
        return tally
    say = tally.engine.say
    text = say.cast(say.column(CONTEXT), "text")
    some = (f"{text} = {say.literal(str(context))}" for context in contexts)
    return tally.with_rows(tally.stored.where(" OR ".join(some)))


def _most_shown(coding: Coding, x: int, context: Ints, pairs: Ints, mass: Floats) -> MostShown:
    """The likeliest list of a context, the first of equals; of marginals, item by item.

    Args:
        coding: the numbers of a batch.
        x: the context.
        context: Shape (M,): that of each list, or of each item.
        pairs: Shape (M, D): lists, or (M,): items.
        mass: Shape (M,): how likely lists are, or (M, D): items at positions.
    """
    rows = np.flatnonzero(context == x)
    if not len(rows):
        return MostShown((), 0.0)
    best, most = mass[rows].argmax(axis=0), mass[rows].max(axis=0)
    chosen = pairs[rows][best]
    if mass.ndim == 2:
        chosen, most = np.where(most > 0, chosen, EMPTY), most[0]
    items = coding.items_of(chosen[chosen != EMPTY])
    return MostShown(tuple(coding.view.values.take(pa.array(items)).to_pylist()), float(most))
