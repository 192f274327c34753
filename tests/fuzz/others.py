"""All that oracles can say of a case: backtests, ladders, ratios, baselines, comparisons too."""

from __future__ import annotations

import math
import random
import traceback
import warnings
from collections.abc import Callable

import foreclick as fc
from foreclick.errors import BacktestError, ForeclickWarning, MetricError, ModelError
from foreclick.estimators import Question, estimate
from foreclick.estimators.ladder.fit import fitted
from tests.fuzz.arrays import policy_of, tally_of
from tests.fuzz.draws import Case, Measure, draw
from tests.fuzz.judge import SAME, Difference, judge
from tests.fuzz.pairs import judge_baseline, judge_compare
from tests.fuzz.ratios import judge_ratios
from tests.truth import ladder as rungs
from tests.truth import protocol
from tests.truth.protocol import Dated

STRENGTHS = {
    "list": (4.0, 7.0, 3.0, 2.0, 1.5),
    "ip": (3.0, 2.0, 1.5),
}
P = (1.0, 0.7, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)


def compared(seed: int, only: str | None = None) -> tuple[int, int, str]:
    """The seed, how many answers of its case agree with an oracle, and what went wrong.

    Args:
        seed: the number of the log.
        only: one of `MORE`; None: the usual, and one of those in turn.
    """
    case = draw(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForeclickWarning)
            if only is not None:
                return seed, MORE[only](case), ""
            more = list(MORE.values())[seed % len(MORE)]
            return seed, judge(case) + more(case), ""
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        return seed, 0, traceback.format_exc(limit=-3)


def judge_backtest(case: Case) -> int:
    """How many rows of a backtest were compared with the paper's protocol, done literally."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    measures = [measure for measure in case.measures if not measure.first]
    if not measures or any(row.day is None for row in case.rows):
        return 0
    forward, by_records = rng.random() < 0.3, rng.random() < 0.5
    log = [Dated(row.day, row.record) for row in case.rows]
    try:
        found = fc.backtest(
            tally_of(case, slots=case.slots, chunk=case.chunk, times=case.times),
            metrics=[fc.Metric(measure.spelling) for measure in measures],
            estimators=[told(model) for model in case.models],
            clip=list(case.clips),
            forward=forward,
            weight="records" if by_records else "pairs",
        ).to_dicts()
    except (BacktestError, MetricError, ModelError) as error:
        if _pairs(log, forward=forward):
            raise Difference(f"refused without a reason: {error!r}") from error
        return 1
    by_name = {fc.Metric(measure.spelling).name: measure for measure in measures}
    for row in found:
        measure = by_name[row["metric"]]
        right = protocol.backtest(
            log,
            row["estimator"],
            measure.theta,
            row["clip"],
            forward=forward,
            by_records=by_records,
        )
        _assert_backtest(row, right, measure, log)
    return len(found)


def told(model: str) -> fc.Weighted:
    """A click model whose examination is 1/k, as the oracles have it: `pbm` would learn it."""
    return fc.Weighted(model, examination="1/k" if model == "pbm" else None)


def _pairs(log: list[Dated], *, forward: bool) -> bool:
    """Whether any context has a day to hold out, and others to learn from."""
    days: dict[object, set[object]] = {}
    for dated in log:
        days.setdefault(dated.record.context, set()).add(dated.day)
    del forward  # the last of several days has others before it
    return any(len(some) > 1 for some in days.values())


def _assert_backtest(
    row: dict[str, object], right: protocol.Outcome, measure: Measure, log: list[Dated]
) -> None:
    # Errors are differences of means. What is learnt from is all records less those held out, of
    # which little is left where these are nearly all.
    most = max(measure.theta) * max(click for dated in log for click in dated.record.clicks)
    weights = [dated.record.weight for dated in log]
    within = 1e-9 + 1e-15 * sum(weights) / min(weights)
    for name in ("rmse", "bias", "floor", "folds", "contexts", "pairs", "records"):
        one, other = row[name], getattr(right, name)
        where = f"{name} of {row['estimator']}, {measure.spelling}, M={row['clip']}"
        if one is None or other is None:
            if one is not other:
                raise Difference(f"{where}: {one} is not {other}")
            continue
        size = most if name in ("rmse", "bias", "floor") else 0.0
        if not math.isclose(float(one), other, rel_tol=1e-7, abs_tol=within * size):  # type: ignore[arg-type]
            raise Difference(f"{where}: {one} is not {other}")


def judge_ladder(case: Case) -> int:
    """How many values of ladders were compared with rates that are solved for all at once."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    measures = [measure for measure in case.measures if not measure.first]
    records = [record for record in case.records if record.context in case.candidate]
    complete = case.kind in ("Lists", "Ranking", "Observed")
    if not measures or not records or not complete:
        return 0
    top = rng.choice(list(STRENGTHS))
    stopping = 0.0 if top == "ip" else rng.choice((0.0, 0.7, 1.0))
    ladder = fc.Ladder(top, STRENGTHS[top], P, stopping=stopping)  # type: ignore[arg-type]
    tally = tally_of(case, slots=case.slots, chunk=case.chunk, times=case.times)
    metrics = [fc.Metric(measure.spelling) for measure in measures]
    question = Question(policy_of(case, tally), [ladder], metrics, missing="drop")
    found = estimate(tally, question).sums
    fit = fitted(tally, ladder, "clicks", len(P))
    truth = rungs.Truth(top, fit.strengths, P, fit.stopping, fit.base, fit.rounds)
    # Least squares over counts of 10^12 and strengths of 2 lose half of their digits.
    within = SAME * max(1.0, max(record.weight for record in records) * 1e-8)
    for sums, measure in zip(found, measures, strict=True):
        right = truth.value(records, case.candidate, measure.theta)
        if sums.value is None and not sums.parts[0].covered:
            continue  # nothing of the candidate was ever shown
        if sums.value is None or not math.isclose(sums.value, right, rel_tol=within, abs_tol=0.0):
            raise Difference(f"{ladder.name} of {measure.spelling}: {sums.value} is not {right}")
    return len(measures)


MORE: dict[str, Callable[[Case], int]] = {
    "backtest": judge_backtest,
    "ladder": judge_ladder,
    "ratios": judge_ratios,
    "baseline": judge_baseline,
    "compare": judge_compare,
}
"""What is asked of a log besides, in turn."""
