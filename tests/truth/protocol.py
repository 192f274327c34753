"""The paper's experiment, literally: loops over queries and days, and the oracle for each.

Section 6.1 of the paper: the evaluation set of a query is its records of one day, the production
set those of all other days. π̂ and h are the frequencies of their lists, and V(h) is the mean reward
of the evaluation set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.truth import oracle
from tests.truth.oracle import Context, Record, Theta


class Dated(NamedTuple):
    """A record and its day."""

    day: Any
    record: Record


class Outcome(NamedTuple):
    """How far one estimator was off, over all pairs of a query and a day."""

    rmse: float
    bias: float
    floor: float | None
    folds: int
    contexts: int
    pairs: int
    records: float


def backtest(
    log: Sequence[Dated],
    model: str,
    theta: Theta,
    clip: float,
    *,
    forward: bool = False,
    by_records: bool = False,
    fold: Callable[[Any], Any] = lambda day: day,
    predict: Callable[..., float] = oracle.value,
) -> Outcome:
    """Hold out one fold at a time, in every context."""
    days = sorted({fold(dated.day) for dated in log})
    queries = sorted({dated.record.context for dated in log})
    errors: list[tuple[float, float]] = []
    noise: list[tuple[float, float | None]] = []
    used_days, used_queries, held_records = set(), set(), 0.0
    variances = {query: _variance(log, query, theta, fold) for query in queries}
    for query in queries:
        for day in days:
            held = [d.record for d in log if d.record.context == query and fold(d.day) == day]
            rest = [
                d.record
                for d in log
                if d.record.context == query
                and (fold(d.day) < day if forward else fold(d.day) != day)
            ]
            if not held or not rest:
                continue
            n = sum(record.weight for record in held)
            candidate = oracle.frequencies(held)
            predicted = predict(model, rest, candidate, theta, clip)
            weight = n if by_records else 1.0
            errors.append((weight, predicted - oracle.production(held, theta)))
            noise.append((weight / n, variances[query]))
            used_days.add(day)
            used_queries.add(query)
            held_records += n
    everything = sum(weight for weight, _ in errors)
    return Outcome(
        rmse=math.sqrt(sum(w * e * e for w, e in errors) / everything),
        bias=sum(w * e for w, e in errors) / everything,
        floor=_floor(noise, log, theta, fold, everything),
        folds=len(used_days),
        contexts=len(used_queries),
        pairs=len(errors),
        records=held_records,
    )


def _spread(
    log: Sequence[Dated], query: Context, theta: Theta, fold: Callable[[Any], Any]
) -> tuple[float, float]:
    """Squared deviations of rewards from the mean of their list and day, and their freedom."""
    groups: dict[Any, list[Record]] = {}
    for day, record in log:
        if record.context == query:
            groups.setdefault((fold(day), record.items), []).append(record)
    squares, freedom = 0.0, 0.0
    for records in groups.values():
        mean = oracle.production(records, theta)
        squares += sum(r.weight * (oracle.reward(r, theta) - mean) ** 2 for r in records)
        freedom += sum(r.weight for r in records) - 1
    least = 1e-9 * sum(r.weight for records in groups.values() for r in records)
    return squares, freedom if freedom > least else 0.0  # thirds add up to 1 and a last digit


def _variance(
    log: Sequence[Dated], query: Context, theta: Theta, fold: Callable[[Any], Any]
) -> float | None:
    squares, freedom = _spread(log, query, theta, fold)
    return squares / freedom if freedom > 0 else None


def _floor(
    noise: Sequence[tuple[float, float | None]],
    log: Sequence[Dated],
    theta: Theta,
    fold: Callable[[Any], Any],
    everything: float,
) -> float | None:
    """√ mean Var(f | A) / n; a query whose lists never repeat takes the variance of all."""
    spreads = [_spread(log, query, theta, fold) for query in {d.record.context for d in log}]
    known = [(squares, freedom) for squares, freedom in spreads if freedom > 0]
    pooled = sum(s for s, _ in known) / sum(f for _, f in known) if known else None
    total = 0.0
    for share, variance in noise:
        if variance is None and pooled is None:
            return None
        total += share * (pooled if variance is None else variance)  # type: ignore[operator]
    return math.sqrt(total / everything)
