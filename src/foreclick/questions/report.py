"""`report`: everything a team needs to decide about a candidate, gathered in one value."""

from __future__ import annotations

import datetime as dt
import html
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import (
    EMPTY,
    Batch,
    Candidate,
    Coding,
    Floats,
    Ints,
    batches_of,
    count_periods,
    sums,
)
from foreclick.errors import ForeclickWarning
from foreclick.estimate.work import context_values, estimate
from foreclick.estimators import parse_estimators
from foreclick.learn.clusters import clusters_of
from foreclick.logs import Log
from foreclick.metrics import USUAL_METRICS, AnyMetric, Metric, parse_any
from foreclick.options import Confidence, sure, verb
from foreclick.policies import Marginals, Policy, PolicyLike, as_policy
from foreclick.progress import report_step
from foreclick.question import Missing, Question
from foreclick.questions.backtest import Backtest
from foreclick.questions.backtest import backtest as run_backtest
from foreclick.questions.check import Check, check
from foreclick.questions.evaluate import (
    Evaluation,
    evaluate,
    loggings_of,
    usual_estimators,
)
from foreclick.questions.replay import Replay
from foreclick.questions.support import LATTICE, Support, support
from foreclick.questions.verdicts import Pair
from foreclick.results import Headline, Result, Value
from foreclick.rules import flag
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle

TOP = 3
"""So many contexts that gain and so many that lose are named."""

_USUAL = {"missing": "error", "confidence": 0.95, "min_effect": 0.0}


@dataclass(frozen=True, repr=False)
class Report(Result):
    """An evaluation with what surrounds it, to be saved as a page.

    Its rows, columns and notes are those of the evaluation, so that `print` and `to_pandas` give
    the answer. What was not asked for, or the log cannot say, is None.

    Attributes:
        evaluation: the answer, for the whole log.
        segments: the answer by segment, with `by`.
        models: the same by every click model.
        support: how much of the candidate the log has seen.
        contexts: which contexts gain and lose most.
        check: what is in the log: clicks by position and by period.
        backtest: which estimator would have been right on this log.
        past: past A/B tests, predicted and measured.
        confidence: as for `evaluate`. With ``Confidence(past=replay)`` the page also shows the past
            A/B tests.
        made: how it was made, as pairs of a name and a text.
        date: when it was made.
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
        """The answer, as the evaluation gives it."""
        return self.evaluation.headline

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns that the table of the evaluation prints."""
        return self.evaluation.shown

    def displayed(self, row: Mapping[str, Value]) -> Mapping[str, Value]:
        """As the table of the evaluation prints it."""
        return self.evaluation.displayed(row)

    def _repr_html_(self) -> str:
        """The page in a frame of its own: neither it nor the notebook changes the other's looks."""
        return (
            '<iframe title="foreclick report" sandbox="" style="width:100%;height:48rem;'
            f'border:1px solid #8884;border-radius:6px" srcdoc="{html.escape(self.page())}">'
            "</iframe>"
        )


@verb(
    backtest=flag,
    confidence=sure,
)
def report(
    log: LogLike,
    candidate: PolicyLike,
    *,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS,
    title: str | None = None,
    by: str | Sequence[str] | None = None,
    baseline: PolicyLike | None = None,
    missing: Missing = "error",
    confidence: float | Confidence = 0.95,
    min_effect: float = 0.0,
    guardrails: Mapping[str | AnyMetric, float] | None = None,
    backtest: bool = True,
) -> Report:
    """A candidate's evaluation with everything a team needs to decide on it, as one page.

    It holds the verdict and the estimates, how much of the candidate the log has seen, how the
    answer moves with the click model, which contexts gain and lose most with their lists before
    and after, clicks by position and by period, and a backtest. Each part is
    what the verb of that name gives, with the same options: `evaluate`, `support`, `check`,
    `backtest`.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        candidate: a policy; a table with `context` and `items` is taken as a Ranking.
        metrics: as for `evaluate`. Contexts are listed for the first one that is no ratio.
        title: the heading of the page.
        by: segment columns (or "period") for which the answer is given too.
        baseline: as for `evaluate`.
        missing: as for `evaluate`.
        confidence: as for `evaluate`. With ``Confidence(past=replay)`` the page also shows the past
            A/B tests.
        min_effect: as for `evaluate`.
        guardrails: as for `evaluate`.
        backtest: whether to run one, if the log has two periods or more.

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
    counted, _ = settle(log)
    policy = as_policy(candidate, counted.names)
    asked = tuple(parse_any(metrics))
    wished = confidence if isinstance(confidence, Confidence) else Confidence(confidence)
    past = wished.past if isinstance(wished.past, Replay) else None
    options: dict[str, Any] = {
        "metrics": asked,
        "missing": missing,
        "baseline": baseline,
        "confidence": replace(wished, past=None),
        "min_effect": min_effect,
    }
    report_step("evaluating")
    evaluation = evaluate(
        counted, policy, **(options | {"confidence": wished}), guardrails=guardrails
    )
    sums = [each for each in asked if isinstance(each, Metric)]
    all_parts = [part for each in asked for part in each.parts]
    usual = usual_estimators(counted, policy, None, all_parts)
    # Where logging probabilities are known, `list` or `ip` alone answers.
    by_model = any(str(name).startswith("ladder") for name in usual)
    parts: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForeclickWarning)  # the answer has given it already
        if by:
            report_step("evaluating each segment")
            parts["segments"] = evaluate(counted, policy, **options, by=by, guardrails=guardrails)
        if by_model:
            report_step("asking the other click models")
            parts["models"] = evaluate(counted, policy, **options, estimators="all")
    if sums:
        report_step("looking for the candidate in the log")
        models = LATTICE if not isinstance(policy, Marginals) else LATTICE[2:]
        parts["support"] = support(
            counted, policy, metrics=sums, estimators=models, missing=missing
        )
    if sums:
        report_step("comparing contexts")
        by_one = parse_estimators(usual[0])
        both = [policy]
        if baseline is not None:
            both.append(as_policy(baseline, counted.names, "baseline"))
        question = Question(
            both,
            by_one,
            sums[:1],
            missing,
            loggings=loggings_of(counted, by_one, sums[:1], None),
            clusters=clusters_of(counted, "auto")[0],
        )
        parts["contexts"] = context_changes(counted, question, TOP, wished.level)
    parts["check"] = check(log if isinstance(log, Log) else counted)
    earned = [each for each in sums if not each.shown]
    if backtest and earned and counted.shape.period and count_periods(counted) > 1:
        report_step("backtesting")
        first = [name for name in usual if str(name) != "list"]
        others = [name for name in ("list", "item", "rctr") if name not in first]
        parts["backtest"] = run_backtest(counted, metrics=earned, estimators=[*first, *others])
    return Report(
        evaluation.rows,
        evaluation.columns,
        evaluation.notes,
        title or "Candidate ranking",
        evaluation=evaluation,
        **parts,
        past=past,
        confidence=wished.level,
        made=tuple(_made(log, counted, {"by": by or None, **options, "confidence": confidence})),
        date=dt.datetime.now(dt.UTC),
    )


def _made(log: LogLike, counted: Tally, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Versions, columns, counts and the call, for whoever wants to repeat it."""
    if isinstance(log, Log):
        yield "Log", f"{log.rows:,} rows in {log.source.name}"
        yield "Columns", ", ".join(f"{role}={column}" for role, column in log.roles.named())
    else:
        shape = counted.shape
        has = [name for name, there in (("period", shape.period), ("unit", shape.unit)) if there]
        yield "Log", f"a tally of {counted.row_count():,} rows"
        yield "Columns", ", ".join(["context", "items", *shape.rewards, *has])
    if counted.dropped_rows:
        causes = ", ".join(f"{cause}: {rows:,}" for cause, rows in counted.dropped.items())
        yield "Rows left out", f"{counted.dropped_rows:,} ({causes})"
    said = [f"metrics={[str(metric) for metric in options['metrics']]!r}"]
    for name, value in options.items():
        if value is None or name == "metrics" or (name in _USUAL and value == _USUAL[name]):
            continue
        plain = name == "by" or isinstance(value, str | float | int)
        said.append(f"{name}={value!r}" if plain else f"{name}=…")
    yield "Call", f"fc.report(log, candidate, {', '.join(said)})"
    versions = [f"Python {platform.python_version()}"]
    for package in ("foreclick", "numpy", "scipy", "duckdb"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # run from a checkout
            versions.append(f"{package} (not installed)")
    yield "Versions", ", ".join(versions)


# --- contexts that gain and lose ------------------------------------------------------------------

_ROUNDING = 1e-12  # of production; a change below it is none


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


_NONE = Group(0, 0.0, 0.0)


@dataclass(frozen=True, repr=False)
class ContextChanges(Result):
    """The contexts that gain most, then those that lose most: one row per context.

    | column | meaning |
    |---|---|
    | context | its value in the log |
    | records, share | its records, and its share of all records |
    | production, value | the mean reward of a record today, and by the estimate for the candidate |
    | change, change_low, change_high | their difference, with its interval |
    | adds | what it adds to the change of the whole log: share × change |

    Attributes:
        estimator, metric: by which click model, and what is counted.
        lists: for each row, what it shows before and after.
        gain, lose, same: all contexts of the log by the sign of their change.
    """

    estimator: str = ""
    metric: str = ""
    lists: tuple[Sides, ...] = ()
    gain: Group = _NONE
    lose: Group = _NONE
    same: Group = _NONE


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
    change = value - before
    total = float(weight.sum())
    least = _ROUNDING * max(float(np.abs(before).sum()), _ROUNDING)
    order = np.lexsort((np.arange(len(change)), -change))
    up, down = order[change[order] > least][:top], order[change[order] < -least][::-1][:top]
    chosen = np.concatenate([up, down])
    rows = []
    if len(chosen):
        some = contexts.take(pa.array(chosen))
        found = estimate(tally, replace(question, contexts=some))
        mine = found.of_candidate(0)[: len(chosen)]
        both = len(question.candidates) > 1
        others = found.of_candidate(1) if both else [None] * len(mine)
        for x, own, other in zip(chosen, mine, others, strict=False):
            pair = Pair(own, other)
            ends = pair.ends(confidence, "sampling")
            rows.append(
                {
                    "context": own.stratum.segment["context"],
                    "records": own.stratum.records,
                    "share": weight[x] / total,
                    "production": pair.production,
                    "value": own.value,
                    "change": pair.change,
                    "change_low": ends["change_low"],
                    "change_high": ends["change_high"],
                    "adds": change[x] / total,
                }
            )
    return ContextChanges(
        tuple(rows),
        _CHANGES,
        estimator=question.estimators[0].name,
        metric=question.parts[0].name,
        lists=_sides(tally, question, [row["context"] for row in rows]),
        gain=_group(change > least, change, weight),
        lose=_group(change < -least, change, weight),
        same=_group(np.abs(change) <= least, change, weight),
    )


_CHANGES = (
    "context",
    "records",
    "share",
    "production",
    "value",
    "change",
    "change_low",
    "change_high",
    "adds",
)


def _group(which: Any, change: Floats, weight: Floats) -> Group:  # noqa: ANN401 - (X,) booleans
    there = which & (weight > 0)
    total = float(weight.sum()) or 1.0
    return Group(int(there.sum()), float(weight[there].sum()), float(change[there].sum()) / total)


# --- lists --------------------------------------------------------------------------------------


def _sides(tally: Tally, question: Question, contexts: list[Any]) -> tuple[Sides, ...]:
    """What some contexts show before and after, as far as the metric counts."""
    found: dict[Any, Sides] = {}
    depth = min(max(question.depth, 3), 10)
    for batch in batches_of(tally) if contexts else ():
        wanted = pa.array(contexts, batch.contexts.type)
        there = np.asarray(pc.is_in(batch.contexts, value_set=wanted))[batch.context_value]
        if not there.any():
            continue
        coding = Coding(batch, depth)
        new, *old = question.candidates
        before = _policy(coding, old[0], there) if old else _logged(batch, coding)
        after = _policy(coding, new, there)
        for x in np.flatnonzero(there):
            name = batch.contexts[int(batch.context_value[x])].as_py()
            found[name] = Sides(before(x), after(x))
    return tuple(found[name] for name in contexts)


def _logged(batch: Batch, coding: Coding) -> Any:  # noqa: ANN401 - from a context to its list
    """What the log shows most often at the top of a context's lists; of several, the first."""
    top = min(coding.depth, batch.depth)
    beginning = batch.prefix[:, top - 1]

    def most(x: int) -> MostShown:
        begin, end = batch.context_lists[x : x + 2]
        alike = beginning[begin:end] - beginning[begin]
        shown = sums(alike, batch.list_n[begin:end], int(alike.max()) + 1)
        at = begin + int(np.argmax(alike == np.argmax(shown)))
        return MostShown(
            _items_of(coding, batch.lists[at][:top]), float(shown.max() / batch.context_n[x])
        )

    return most


def _policy(coding: Coding, policy: Policy, within: Any) -> Any:  # noqa: ANN401
    """The likeliest list of a policy in a context; of marginals, the likeliest item by position."""
    candidate = Candidate(coding, policy, within)

    def listed(x: int) -> MostShown:
        lists = candidate.lists
        mine = np.flatnonzero(lists.context == x)
        if not len(mine):
            return MostShown((), 0.0)
        at = mine[int(np.argmax(lists.mass[mine]))]
        return MostShown(_items_of(coding, lists.pairs[at]), float(lists.mass[at]))

    def by_slot(x: int) -> MostShown:
        slots = candidate.slots
        mine = np.flatnonzero(slots.context == x)
        if not len(mine):
            return MostShown((), 0.0)
        mass = slots.mass[mine]
        best = np.where(mass.max(axis=0) > 0, slots.pair[mine][mass.argmax(axis=0)], EMPTY)
        return MostShown(_items_of(coding, best), float(mass.max(axis=0)[0]))

    return listed if policy.complete else by_slot


def _items_of(coding: Coding, pairs: Ints) -> tuple[Any, ...]:
    shown = np.asarray(pairs)[np.asarray(pairs) != EMPTY]
    return tuple(coding.view.values.take(pa.array(coding.items_of(shown))).to_pylist())
