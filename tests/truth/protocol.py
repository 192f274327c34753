"""The paper's experiment, literally: loops over queries and days, and the oracle for each.

Section 6.1 of the paper: the evaluation set of a query is its records of one day, the production
set those of all other days. π̂ and h are the frequencies of their lists, and V(h) is the mean reward
of the evaluation set.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    queries: dict[Context, list[Dated]] = defaultdict(list)  # with folds for days
    for day, record in log:
        queries[record.context].append(Dated(fold(day), record))
    pairs: list[tuple[Context, Any, float, float]] = []  # with records and the error
    for query, own in queries.items():
        for day in sorted({at for at, _ in own}):
            held = [r for at, r in own if at == day]
            rest = [r for at, r in own if (at < day if forward else at != day)]
            if rest:
                predicted = predict(model, rest, oracle.frequencies(held), theta, clip)
                error = predicted - oracle.production(held, theta)
                pairs.append((query, day, oracle.count(held), error))
    weights = [n if by_records else 1.0 for _, _, n, _ in pairs]
    variance = _variances(queries, theta)

    def mean(values: Iterable[float]) -> float:
        return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)

    noise = mean(variance[query] / n for query, _, n, _ in pairs)
    return Outcome(
        rmse=math.sqrt(mean(error**2 for *_, error in pairs)),
        bias=mean(error for *_, error in pairs),
        floor=None if math.isnan(noise) else math.sqrt(noise),
        folds=len({day for _, day, _, _ in pairs}),
        contexts=len({query for query, *_ in pairs}),
        pairs=len(pairs),
        records=sum(n for _, _, n, _ in pairs),
    )


def _variances(queries: Mapping[Context, Sequence[Dated]], theta: Theta) -> dict[Context, float]:
    """Var(f | A) of each query, around the mean of a list and day.

    A query whose lists never repeat takes the variance of all; nan if there is none.
    """
    spreads = {}
    for query, own in queries.items():
        groups: dict[Any, list[Record]] = defaultdict(list)
        for day, record in own:
            groups[day, record.items].append(record)
        squares, freedom = 0.0, 0.0
        for records in groups.values():
            mean = oracle.production(records, theta)
            squares += sum(r.weight * (oracle.reward(r, theta) - mean) ** 2 for r in records)
            freedom += oracle.count(records) - 1
        # thirds add up to 1 and a last digit
        if freedom > 1e-9 * oracle.count(record for _, record in own):
            spreads[query] = squares, freedom
    whole = [sum(each) for each in zip(*spreads.values(), strict=True)] or [math.nan, 1.0]
    return {x: squares / n for x in queries for squares, n in [spreads.get(x, whole)]}
