"""`explore`: what to show next, where and for how long, until a candidate's change can be told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from foreclick import inference
from foreclick.analysis.ab_test import ab_test
from foreclick.analysis.arms import Arms, arms_of
from foreclick.analysis.evaluate import Evaluation, evaluate
from foreclick.analysis.traffic import Plan
from foreclick.batches import Floats, count_periods
from foreclick.engines import write_readable
from foreclick.errors import ModelError, PolicyError
from foreclick.inference.planning import margins
from foreclick.logs import CONTEXT
from foreclick.metrics import USUAL_METRICS, Metric, only_metric
from foreclick.options import checked, choice, whole
from foreclick.policies import Lists, PolicyLike, as_policy
from foreclick.progress import Say
from foreclick.results import Result
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle
from foreclick.words import number_of

SHARE = 0.1
"""Of all traffic, that is shown the candidate unless another is asked for."""

_ROUNDING = 1e-6
_FEW = 5  # records of the candidate that a context needs, for its own mean to be used


@dataclass(frozen=True, repr=False)
class Explored(Result):
    """What to show next: one row per context, those that take most of the traffic first.

    | column | meaning |
    |---|---|
    | context | the last row has all others together |
    | records | of the log |
    | differs | the share of its requests that the candidate would answer with another list |
    | share | the share of its traffic that should be shown the candidate |
    | part | its part of all traffic that is shown the candidate |
    | change | candidate − production, as the ladder predicts it |
    | se | the standard error of this change after `days` |

    Attributes:
        share: the share of all traffic that is shown the candidate.
        days: how long, or infinite if no time is enough; None if the records of a day are unknown.
        records: how many records that is.
        se: the standard error of the change after these records.
        effect: the change that can then be told from none: with `power`, at `confidence`.
        policy: what to show: a mix of production and the candidate, with probabilities. Serve it by
            `Lists.serving`, and log the propensities.
        production: what production shows, to compare the candidate with: `evaluate(new_log,
            candidate, baseline=explored.production, estimators="list")`.
        test: the A/B test that would follow: records in each half, and days with all the traffic,
            without and with the predictions of this log as a covariate (CUPED).
        predictions: an Arrow table, by context: what production and the candidate are predicted to
            earn a record. `production` is the covariate.
        evaluation: what the log says of the candidate already.
    """

    share: float = field(kw_only=True)
    days: float | None = field(kw_only=True)
    records: float = field(kw_only=True)
    se: float = field(kw_only=True)
    effect: float = field(kw_only=True)
    policy: Lists = field(kw_only=True, compare=False)
    production: Lists = field(kw_only=True, compare=False)
    test: Result = field(kw_only=True)
    predictions: pa.Table = field(kw_only=True, compare=False)
    evaluation: Evaluation = field(kw_only=True)

    def write(self, path: str | Path) -> None:
        """Write the policy, as Parquet or CSV by the ending of the name; `fc.Lists` reads it."""
        write_readable(self.policy.table, path)


@checked(
    missing=choice("error", "production"),
    contexts=whole(1, "how many rows the table has", "10"),
)
def explore(  # noqa: PLR0913 - all but two are keywords
    log: LogLike,
    candidate: PolicyLike,
    *,
    metric: str | Metric | Sequence[str | Metric] = USUAL_METRICS[0],
    effect: float = 0.02,
    share: float | None = None,
    days: float | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    most: float = 0.5,
    records_per_day: float | None = None,
    production: PolicyLike | None = None,
    missing: Literal["error", "production"] = "error",
    contexts: int = 10,
    metrics: str | Metric | Sequence[str | Metric] | None = None,
    progress: Say | None = None,  # noqa: ARG001 - `checked` heeds it
) -> Explored:
    """How much traffic, in which contexts and for how long, until a candidate's change is told.

    A share ε_x of the requests of each context is shown the candidate, the others what production
    shows, by chance and with logged propensities. After n records the change V(h) − V(π) has, by
    the influence of records on the estimator `list`, which assumes no click model,

        se² = 1/n Σ_x q_x (v_x + (Δ_x − Δ)²),    v_x = Σ_A (h − π)² s_A² / (π + ε_x (h − π))

    The traffic is dealt to contexts so that this is least: while shares are small, in proportion to
    the traffic of a context times the standard deviation of its rewards (Neyman, 1934). s² comes
    from the log; for what was never shown it grows with the reward that the ladder predicts.

    Args:
        log: a Log or Tally.
        candidate: a policy of whole lists.
        metric: what is counted.
        effect: the change to be told from none, as a share of production: 0.02 for two per cent.
        share: of all traffic that may be shown the candidate. By default a tenth; with `days`, as
            much as it takes.
        days: how long it may take. By default, as long as it takes.
        power: how often such a change is told.
        confidence: of the interval that tells it.
        most: the share of a single context's traffic that may be shown the candidate.
        records_per_day: of all contexts; by default those of the log over its periods.
        production: the policy that is in production; by default, the lists of the log, as often as
            it shows them.
        missing: what contexts without a list of the candidate count as: "error" or "production".
        contexts: how many rows the table has, the others are summed up.
        metrics: the same as `metric`.
        progress: called with what is being done; by default it is shown on a terminal.

    Examples:
        >>> log = {
        ...     "context": ["q"] * 400,
        ...     "items": [[1, 2]] * 400,
        ...     "clicks": [[1, 0], [0, 0]] * 200,
        ... }
        >>> plan = explore(
        ...     log, {"context": ["q"], "items": [[2, 1]]}, metric="clicks@2", effect=0.1
        ... )
        >>> round(plan.share, 3), plan.days is None
        (0.1, True)
        >>> print(plan.policy.serving())
        Picker(1 context, seed=0)
    """
    what = only_metric(metric if metrics is None else metrics, "traffic is planned for")
    counted, notes = settle(log)
    policy = as_policy(candidate, counted)
    if not policy.complete:
        raise PolicyError(
            f"{type(policy).__name__} does not say which items stand together in a list, so it "
            "cannot be shown. Give whole lists with their probabilities, Lists(…)."
        )
    now = evaluate(counted, policy, metrics=what, missing=missing, confidence=confidence)
    shown = None if production is None else as_policy(production, counted, "production")
    arms = arms_of(counted, policy, shown, what)
    traffic = _records_per_day(counted, arms, records_per_day)
    if days is not None and traffic is None:
        raise ModelError(
            "days= needs to know how many records a day has, and the log was read without a "
            "period. Read it with period=, or give records_per_day=."
        )
    goal = effect * arms.mean
    plan = Plan(arms, arms.differences(), most, margins(confidence, power), goal)
    if days is None or share is not None:
        dealt = plan.best(SHARE if share is None else share)
    else:
        dealt = plan.enough(days * float(traffic or 0.0))
    records = plan.records(dealt) if days is None else days * float(traffic or 0.0)
    test = ab_test(counted, policy, what, arms, goal, (confidence, power), traffic)
    found: dict[str, Any] = {
        "share": float(arms.weight @ dealt),
        "days": None if traffic is None else records / traffic,
        "records": records,
        "se": plan.se(dealt, records),
        "effect": plan.told(dealt, records),
    }
    promise = f"in {what.name} from none, {power:.0%} of the time at {confidence:.0%} confidence"
    title = _sentence(found, plan, effect, promise)
    return Explored(
        tuple(plan.rows(dealt, records, contexts)),
        _COLUMNS,
        tuple(notes + _notes(found, plan, dealt, now, test)),
        title,
        **found,
        policy=Lists(arms.mixed(dealt)),
        production=Lists(arms.mixed(np.zeros(len(dealt)))),
        test=test,
        predictions=_predictions(arms),
        evaluation=now,
    )


_COLUMNS = ("context", "records", "differs", "share", "part", "change", "se")


def _records_per_day(tally: Tally, arms: Arms, given: float | None) -> float | None:
    """How many records a period of the log has; None if that is unknown."""
    if given is not None:
        return given
    periods = count_periods(tally) if tally.shape.period else 0
    return float(arms.n.sum()) / periods if periods else None


def _predictions(arms: Arms) -> pa.Table:
    return pa.table(
        {
            CONTEXT: arms.contexts,
            "production": pa.array(arms.production),
            "candidate": pa.array(arms.predicted),
        }
    )


# --- in words -----------------------------------------------------------------------------------


def _sentence(found: dict[str, Any], plan: Plan, effect: float, promise: str) -> str:
    """The answer."""
    if not plan.lists.apart().any():
        return "The candidate shows what production shows: there is nothing to explore."
    if not plan.goal:
        return "Production earns nothing, so there is no share of it to tell."
    told = found["effect"] / plan.goal * effect
    long = f"{_count(found['records'])} records"
    if found["days"] is not None:
        long = f"{_days(found['days'])}, {long}"
    where = f"Show the candidate to {found['share']:.1%} of the traffic for {long}"
    if told > effect * (1 + _ROUNDING):
        return f"{where}: that tells a change of {told:.2%} {promise}, and not yet of {effect:.2%}."
    return f"{where}: that tells a change of {told:.2%} {promise}."


def _notes(
    found: dict[str, Any], plan: Plan, dealt: Floats, now: Evaluation, test: Result
) -> list[str]:
    """What else should be known."""
    notes = []
    said = now["verdict"][0]
    if said in (inference.BETTER, inference.WORSE):
        notes.append(f"The log tells already, if its click model holds. {now.verdicts[0]}")
    q = plan.arms.weight
    used = dealt > 0
    if used.any():
        notes.append(
            f"{int(used.sum()):,} of {len(q):,} contexts are randomised, with {q[used].sum():.1%} "
            "of the traffic; in the others the candidate shows what production shows, or too "
            "little would be learnt."
        )
    thin = used & (found["records"] * q * dealt < _FEW)
    if thin.any():
        notes.append(
            f"{number_of(int(thin.sum()), 'context')}, with {q[thin].sum():.1%} of the traffic, "
            f"will show the candidate less than {_FEW} times each, too seldom for a mean of their "
            "own. Evaluate with logging='propensity' if that is much."
        )
    plain, less = test.to_dicts()
    if math.isfinite(plain["records"]):
        days = "" if plain["days"] is None else f" ({_days(plain['days'])} with all the traffic)"
        notes.append(
            f"An A/B test of the same promise needs {plain['records']:,} records in each half"
            f"{days}; {less['records']:,} with the predictions of this log as a covariate (CUPED), "
            f"which takes off {less['reduction']:.0%} of the variance."
        )
    return notes


def _count(value: float) -> str:
    return "no number of" if math.isinf(value) else f"{math.ceil(value):,}"


def _days(value: float) -> str:
    if math.isinf(value):
        return "ever"
    return f"{value:.1f} days" if value < 10 else f"{math.ceil(value):,} days"  # noqa: PLR2004
