"""`report`: everything a team needs to decide about a candidate, gathered in one value."""

from __future__ import annotations

import datetime as dt
import html
import math
import platform
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from foreclick.analysis.backtest import Backtest
from foreclick.analysis.backtest import backtest as run_backtest
from foreclick.analysis.check import Check, check
from foreclick.analysis.clusters import clusters_of
from foreclick.analysis.context_changes import ContextChanges, context_changes
from foreclick.analysis.evaluate import LOGGING, Evaluation, evaluate, with_logging
from foreclick.analysis.headline import usual_estimators
from foreclick.analysis.support import LATTICE, Support, support
from foreclick.batches import count_periods
from foreclick.errors import ForeclickWarning
from foreclick.estimators import EstimatorLike, Missing, Question, parse_estimators
from foreclick.logs import Log
from foreclick.metrics import USUAL_METRICS, AnyMetric, Metric, parse_any
from foreclick.options import checked, flag, whole
from foreclick.policies import Marginals, Policy, PolicyLike, as_policy
from foreclick.progress import Say, say
from foreclick.results import Headline, Result, Value
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle

CLIPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0, math.inf)
"""The bounds of weights at which a report shows the estimates."""

TOP = 5
"""So many contexts that gain and so many that lose are named."""


@dataclass(frozen=True, repr=False)
class Report(Result):
    """An evaluation with what surrounds it, to be saved as a page.

    Its rows, columns and notes are those of the evaluation, so that `print` and `to_pandas` give
    the answer. What was not asked for, or the log cannot say, is None.

    Attributes:
        evaluation: the answer, for the whole log.
        segments: the answer by segment, with `by`.
        models: the same by every click model.
        clips: the estimates of weighted estimators at several clips M.
        support: how much of the candidate the log has seen.
        contexts: which contexts gain and lose most.
        check: what is in the log: clicks by position and by period.
        backtest: which estimator would have been right on this log.
        confidence: of the intervals.
        made: how it was made, as pairs of a name and a text.
        date: when it was made.
    """

    evaluation: Evaluation = field(kw_only=True)
    segments: Evaluation | None = None
    models: Evaluation | None = None
    clips: Evaluation | None = None
    support: Support | None = None
    contexts: ContextChanges | None = None
    check: Check | None = None
    backtest: Backtest | None = None
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


@checked(backtest=flag, contexts=whole(0, "how many contexts are listed", "5"), logging=LOGGING)
def report(  # noqa: PLR0913 - all but two are keywords
    log: LogLike,
    candidate: PolicyLike,
    *,
    metrics: str | AnyMetric | Sequence[str | AnyMetric] = USUAL_METRICS,
    title: str | None = None,
    by: str | Sequence[str] | None = None,
    baseline: PolicyLike | None = None,
    missing: Missing = "error",
    logging: Policy | Literal["frequency", "propensity"] | None = None,
    confidence: float = 0.95,
    practical: float = 0.0,
    guardrails: Mapping[str | AnyMetric, float] | None = None,
    backtest: bool = True,
    contexts: int = TOP,
    command: str | None = None,
    metric: str | AnyMetric | Sequence[str | AnyMetric] | None = None,
    progress: Say | None = None,  # noqa: ARG001 - `checked` heeds it
) -> Report:
    """A candidate's evaluation with everything a team needs to decide on it, as one page.

    It holds the verdict and the estimates, how much of the candidate the log has seen, how the
    answer moves with the click model and with the clip M, which contexts gain and lose most with
    their lists before and after, clicks by position and by period, and a backtest. Each part is
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
        logging: as for `evaluate`.
        confidence: of the intervals.
        practical: as for `evaluate`.
        guardrails: as for `evaluate`.
        backtest: whether to run one, if the log has two periods or more.
        contexts: how many contexts that gain, and how many that lose, are listed; 0 for none.
        command: what was typed to make the report, to be printed in it.
        metric: the same as `metrics`.
        progress: called with what is being done; by default it is shown on a terminal.

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
    policy = as_policy(candidate, counted)
    asked = tuple(parse_any(metrics if metric is None else metric))
    options: dict[str, Any] = {
        "metrics": asked,
        "missing": missing,
        "logging": logging,
        "baseline": baseline,
        "confidence": confidence,
        "practical": practical,
    }
    say("evaluating")
    evaluation = evaluate(counted, policy, **options, guardrails=guardrails)
    parts = _Parts(counted, policy, asked, options)
    return Report(
        evaluation.rows,
        evaluation.columns,
        evaluation.notes,
        title or "Candidate ranking",
        evaluation=evaluation,
        segments=parts.segments(by, guardrails),
        models=parts.models(),
        clips=parts.clips(),
        support=parts.support(),
        contexts=parts.contexts(contexts),
        check=check(log if isinstance(log, Log) else counted),
        backtest=parts.backtest() if backtest else None,
        confidence=confidence,
        made=_made(log, counted, asked, by, options, command),
        date=dt.datetime.now(dt.UTC),
    )


@dataclass(frozen=True)
class _Parts:
    """The parts of a report beside the answer; None for those that the log cannot give.

    Attributes:
        tally: the log.
        policy: the candidate.
        metrics: what is counted.
        options: of `evaluate`.
    """

    tally: Tally
    policy: Policy
    metrics: tuple[AnyMetric, ...]
    options: dict[str, Any]

    @property
    def sums(self) -> list[Metric]:
        """The metrics that are sums over positions."""
        return [metric for metric in self.metrics if isinstance(metric, Metric)]

    @property
    def usual(self) -> list[EstimatorLike]:
        """The estimator that answers, and those that check it."""
        parts = [part for metric in self.metrics for part in metric.parts]
        return list(usual_estimators(self.tally, self.policy, self.options["logging"], parts))

    def _evaluate(self, **changes: Any) -> Evaluation:  # noqa: ANN401 - options of evaluate
        with warnings.catch_warnings():
            # The answer has given it already.
            warnings.simplefilter("ignore", ForeclickWarning)
            return evaluate(self.tally, self.policy, **(self.options | changes))

    def segments(
        self,
        by: str | Sequence[str] | None,
        guardrails: Mapping[str | AnyMetric, float] | None,
    ) -> Evaluation | None:
        """The answer by segment."""
        if not by:
            return None
        say("evaluating each segment")
        return self._evaluate(by=by, guardrails=guardrails)

    def models(self) -> Evaluation | None:
        """The answer by every click model; those that use propensities have no others."""
        if self._weighs():
            return None
        say("asking the other click models")
        return self._evaluate(estimators="all")

    def clips(self) -> Evaluation | None:
        """Estimates at several M, of metrics that are sums of weighted clicks."""
        metrics = [metric for metric in self.sums if not metric.first]
        if not metrics or self._weighs():
            return None
        say("clipping weights")
        return self._evaluate(metrics=metrics, estimators=["ip", "item", "pbm"], clip=CLIPS)

    def _weighs(self) -> bool:
        """Whether logging probabilities are known, so that `list` or `ip` alone answers."""
        return not any(str(name).startswith("ladder") for name in self.usual)

    def support(self) -> Support | None:
        """What the log has seen of the candidate."""
        if not self.sums:
            return None
        say("looking for the candidate in the log")
        models = LATTICE if not isinstance(self.policy, Marginals) else LATTICE[2:]
        return support(
            self.tally,
            self.policy,
            metrics=self.sums,
            estimators=models,
            missing=self.options["missing"],
        )

    def contexts(self, top: int) -> ContextChanges | None:
        """Which contexts gain and lose most, by the estimator that answers."""
        if not self.sums or not top:
            return None
        say("comparing contexts")
        baseline = self.options["baseline"]
        kinds, _ = clusters_of(self.tally, "auto")
        question = Question(
            self.policy,
            parse_estimators(self.usual[0]),
            self.sums[:1],
            self.options["missing"],
            baseline=None if baseline is None else as_policy(baseline, self.tally, "baseline"),
            clusters=kinds,
        )
        question = with_logging(self.tally, question, self.options["logging"])[0]
        return context_changes(self.tally, question, top, self.options["confidence"])

    def backtest(self) -> Backtest | None:
        """Which estimator would have been right; None for a log of one period."""
        metrics = [metric for metric in self.sums if not metric.shown]
        if not self.tally.shape.period or count_periods(self.tally) < 2 or not metrics:  # noqa: PLR2004
            return None
        say("backtesting")
        usual = [name for name in self.usual if str(name) != "list"]
        others = [name for name in ("list", "item", "rctr") if name not in usual]
        return run_backtest(self.tally, metrics=metrics, estimators=[*usual, *others])


# --- how it was made ----------------------------------------------------------------------------

_PACKAGES = ("foreclick", "numpy", "scipy", "duckdb", "ibis-framework")


def _made(
    log: LogLike,
    counted: Tally,
    metrics: Sequence[AnyMetric],
    by: str | Sequence[str] | None,
    options: dict[str, Any],
    command: str | None,
) -> tuple[tuple[str, str], ...]:
    """Versions, columns, counts and the call, for whoever wants to repeat it."""
    shape, facts = counted.shape, []
    if isinstance(log, Log):
        columns = ", ".join(f"{role}={column}" for role, column in log.roles.named())
        facts += [("Log", f"{log.rows:,} rows in {log.source.name}"), ("Columns", columns)]
    else:
        has = [name for name, there in (("period", shape.period), ("unit", shape.unit)) if there]
        facts.append(("Log", f"a tally of {counted.row_count():,} rows"))
        facts.append(("Columns", ", ".join(["context", "items", *shape.rewards, *has])))
    if counted.dropped_rows:
        causes = ", ".join(f"{cause}: {rows:,}" for cause, rows in counted.dropped.items())
        facts.append(("Rows left out", f"{counted.dropped_rows:,} ({causes})"))
    facts.append(("Call", _call(metrics, by, options)))
    if command:
        facts.append(("Command", command))
    versions = [f"{name} {_version(name)}" for name in _PACKAGES]
    facts.append(("Versions", ", ".join(["Python " + platform.python_version(), *versions])))
    return tuple(facts)


_USUAL = {"missing": "error", "confidence": 0.95, "practical": 0.0}


def _call(
    metrics: Sequence[AnyMetric], by: str | Sequence[str] | None, options: dict[str, Any]
) -> str:
    said = [f"metrics={[str(metric) for metric in metrics]!r}"]
    said += [] if not by else [f"by={by!r}"]
    for name, value in options.items():
        if name == "metrics" or value is None or value == _USUAL.get(name):
            continue
        said.append(f"{name}={value!r}" if isinstance(value, str | float | int) else f"{name}=…")
    return f"fc.report(log, candidate, {', '.join(said)})"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a checkout
        return "(not installed)"
