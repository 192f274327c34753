"""`estimators="auto"`: the estimator that predicted the log's own periods best answers.

A choice is uncertain too. Without one of the periods the backtest might have chosen another
estimator, and its answer another value: an interval by periods counts both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foreclick.analysis.backtest import Backtest, backtest
from foreclick.errors import BacktestError
from foreclick.estimators import (
    Ladder,
    Question,
    Spread,
    Sums,
    Weighted,
    clustered,
    parse_estimators,
)
from foreclick.metrics import Metric
from foreclick.tallies.base import Tally

AUTO = "auto"
BY_DEFAULT = "ladder"
"""The estimator where there is nothing to choose by."""

AUTO_ESTIMATORS: tuple[Weighted | Ladder, ...] = (
    Ladder(),
    Ladder("prefix"),
    Ladder("ip"),
    Weighted("ip", clip=math.inf),
)
"""The estimators that `auto` chooses among; of equals, the first."""


@dataclass(frozen=True)
class Choice:
    """The estimator chosen for one metric.

    Attributes:
        chosen: the name of the estimator.
        without: the estimator that the backtest would have chosen without each of its periods.
        because: in one sentence, why.
    """

    chosen: str
    without: dict[Any, str]
    because: str


def wants_auto(estimators: object) -> bool:
    """Whether "auto" is among the estimators."""
    return estimators == AUTO or (isinstance(estimators, list | tuple) and AUTO in estimators)


def named_estimators(estimators: object, clip: float | Sequence[float]) -> list[Weighted | Ladder]:
    """The estimators that are asked for by name, without "auto"."""
    if not wants_auto(estimators):
        return parse_estimators(estimators, clip)
    listed = estimators if isinstance(estimators, list | tuple) else [estimators]
    # Together with those, so that "auto" alone is something to ask for.
    return parse_estimators([*(e for e in listed if e != AUTO), *AUTO_ESTIMATORS], clip)[
        : -len(AUTO_ESTIMATORS)
    ]


def auto_questions(question: Question) -> list[Question]:
    """Builds one question per group of metrics, for all estimators that `auto` may choose."""
    return [
        replace(question, estimators=auto_estimators(metrics), metrics=metrics)
        for metrics in _answered_alike(question.metrics)
    ]


def auto_estimators(metrics: Sequence[Metric]) -> list[Weighted | Ladder]:
    """The estimators that `auto` may choose for all of these metrics."""
    firsts = any(metric.first for metric in metrics)
    return [e for e in AUTO_ESTIMATORS if not (firsts and e == Ladder("ip"))]


def _answered_alike(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """Groups of metrics that the same estimators can answer for."""
    groups = [[m for m in metrics if m.first is first] for first in (False, True)]
    return [group for group in groups if group]


def choose(
    counted: Tally, metrics: Sequence[Metric], tested: Backtest | None
) -> dict[Metric, Choice]:
    """Chooses an estimator for each metric, by a backtest of this log if none is given."""
    if tested is not None:
        return {metric: _choose(tested, metric) for metric in metrics}
    if not counted.shape.period:
        why = "the log has no periods to choose by; read it with period="
        return dict.fromkeys(metrics, Choice(BY_DEFAULT, {}, why))
    try:
        made = [
            (group, backtest(counted, metrics=group, estimators=auto_estimators(group)))
            for group in _answered_alike(metrics)
        ]
    except BacktestError:
        why = "no context was seen in two periods, so there is nothing to choose by"
        return dict.fromkeys(metrics, Choice(BY_DEFAULT, {}, why))
    found = {metric: _choose(own, metric) for group, own in made for metric in group}
    return {metric: found[metric] for metric in metrics}


def _choose(tested: Backtest, metric: Metric) -> Choice:
    names = [e.name for e in AUTO_ESTIMATORS]
    squared: dict[str, dict[Any, float]] = {name: {} for name in names}
    counts: dict[Any, float] = {}
    rows: Sequence[Mapping[str, Any]] = tested.periods.rows if tested.periods else ()
    for row in rows:
        mine = row["metric"] == metric.name and math.isinf(row["clip"])
        if mine and row["estimator"] in squared:
            counts[row["period"]] = row[tested.weight]
            squared[row["estimator"]][row["period"]] = row["rmse"] ** 2 * row[tested.weight]
    known = {name: by_period for name, by_period in squared.items() if by_period}
    if not known:
        raise BacktestError(
            f"the backtest has no row of {', '.join(names)} for {metric.name!r}, so there is "
            "nothing to choose among. Leave backtest= out, or ask it for these."
        )
    sums = {name: sum(by_period.values()) for name, by_period in known.items()}
    best = min(sums, key=sums.__getitem__)
    rmse = {name: math.sqrt(total / sum(counts.values())) for name, total in sums.items()}
    others = sorted((error, name) for name, error in rmse.items() if name != best)
    beside = ", ".join(f"{name} {error:.4g}" for error, name in others)
    because = f"it predicted the log's own periods best, RMSE {rmse[best]:.4g}"
    without = {
        period: min(known, key=lambda name: sums[name] - known[name].get(period, 0.0))
        for period in counts
    }
    return Choice(best, without, because + (f" ({beside})" if beside else ""))


def chosen_sums(said: Iterable[Sums], choices: Mapping[Metric, Choice]) -> list[Sums]:
    """For each metric and part of the log, the answer of whoever was chosen.

    Args:
        said: what everybody said who might have been.
        choices: who answers for each metric.
    """
    answers: dict[Metric, dict[Any, dict[str, Sums]]] = {metric: {} for metric in choices}
    for s in said:
        answers[s.metric].setdefault(s.stratum.number, {})[s.estimator] = s
    return [as_chosen(choices[m], mine) for m, parts in answers.items() for mine in parts.values()]


def as_chosen(choice: Choice, answers: dict[str, Sums]) -> Sums:
    """The answer of whoever was chosen, with the uncertainty of the choice.

    Args:
        choice: who answers.
        answers: what everybody said, by name: the same metric and part of the log.
    """
    mine = answers[choice.chosen]
    return replace(mine, name=AUTO, spread=_spread(choice, answers))


def _spread(choice: Choice, answers: dict[str, Sums]) -> Spread | None:
    """The chosen one's spread; by periods, with the choice made anew without each of them.

    Without cluster d an estimate is V − G/(G−1) s_d. So far as another estimator would have given
    it, its cluster's sum is (V − V') (G−1)/G + s'_d.
    """
    mine = answers[choice.chosen]
    spread = mine.spread
    if spread is None or spread.kind != "period" or spread.sums is None or mine.value is None:
        return spread
    periods = sorted(choice.without, key=lambda period: (period is None, period))
    if len(periods) != len(spread.sums):
        return spread
    sums = spread.sums.copy()
    share = (len(sums) - 1) / len(sums)
    for d, period in enumerate(periods):
        other = answers[choice.without[period]]
        theirs = other.spread
        if theirs is None or theirs.sums is None or other.value is None:
            continue
        sums[d, 0] = (mine.value - other.value) * share + theirs.sums[d, 0]
    more = clustered(sums).covariance - clustered(spread.sums).covariance
    return replace(spread, covariance=spread.covariance + more, sums=sums)
