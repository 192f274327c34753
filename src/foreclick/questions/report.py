"""`report`: everything a team needs to decide about a candidate, gathered in one value."""

from __future__ import annotations

import datetime as dt
import html
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from foreclick.batches import count_periods
from foreclick.errors import ForeclickWarning
from foreclick.estimators import parse_estimators
from foreclick.learn.clusters import clusters_of
from foreclick.logs import Log
from foreclick.metrics import USUAL_METRICS, AnyMetric, Metric, parse_any
from foreclick.options import Confidence, flag, sure, verb
from foreclick.policies import Marginals, PolicyLike, as_policy
from foreclick.progress import say
from foreclick.question import Missing, Question
from foreclick.questions.backtest import Backtest
from foreclick.questions.backtest import backtest as run_backtest
from foreclick.questions.check import Check, check
from foreclick.questions.contexts import ContextChanges, context_changes
from foreclick.questions.evaluate import (
    Evaluation,
    evaluate,
    loggings_of,
    usual_estimators,
)
from foreclick.questions.replay import Replay
from foreclick.questions.support import LATTICE, Support, support
from foreclick.results import Headline, Result, Value
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
    say("evaluating")
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
            say("evaluating each segment")
            parts["segments"] = evaluate(counted, policy, **options, by=by, guardrails=guardrails)
        if by_model:
            say("asking the other click models")
            parts["models"] = evaluate(counted, policy, **options, estimators="all")
    if sums:
        say("looking for the candidate in the log")
        models = LATTICE if not isinstance(policy, Marginals) else LATTICE[2:]
        parts["support"] = support(
            counted, policy, metrics=sums, estimators=models, missing=missing
        )
    if sums:
        say("comparing contexts")
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
        say("backtesting")
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
