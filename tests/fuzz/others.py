"""All that oracles can say of a case: backtests, ladders, ratios, baselines, comparisons too."""

from __future__ import annotations

import datetime as dt
import math
import random
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

import foreclick as fc
from foreclick.errors import BacktestError, ForeclickWarning, ModelError
from foreclick.estimators import Top
from foreclick.ladder.fit import fit_ladders
from foreclick.logs import CONTEXT
from foreclick.question import Question, policy_depth
from foreclick.questions.backtest import backtest_by
from foreclick.run.estimate import estimate
from foreclick.run.holdout import Protocol
from tests.answers import clipped
from tests.cases.case import Case, Measure
from tests.cases.hostile import draw
from tests.fuzz import unchanged
from tests.fuzz.judge import (
    SAME,
    Difference,
    answered,
    answers_of,
    ask,
    assert_add_up,
    assert_close,
    expected,
    expected_of,
    judge,
    metrics_of,
    question_of,
    refused,
    told,
)
from tests.fuzz.pairs import judge_baseline, judge_compare
from tests.fuzz.ratios import judge_ratios
from tests.truth import firsts, oracle, protocol
from tests.truth import ladder as rungs
from tests.truth.oracle import Record
from tests.truth.protocol import Dated

LOGS = {"changes": unchanged.compared, "tiny": unchanged.contradictions}
"""What is asked of other logs than those with an oracle."""

P = (1.0, 0.7, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)


def compared(seed: int, only: str | None = None) -> tuple[int, int, str]:
    """The seed, how many answers of its case agree with an oracle, and what went wrong.

    Args:
        seed: the number of the log.
        only: one of `MORE` or `LOGS`; None: the usual, and one of `MORE` in turn.
    """
    if only in LOGS:
        count, wrong = LOGS[only](seed)
        return seed, count, "\n".join(wrong)
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
    if any(row.day is None for row in case.rows):
        return 0
    forward, by_records = rng.random() < 0.3, rng.random() < 0.5
    days = [row.day for row in case.rows]
    how: dict[str, Any] = {}
    fold: Callable[[Any], Any] = lambda day: day  # noqa: E731
    if isinstance(days[0], int) and rng.random() < 0.4:
        first = min(days)
        fold, how = lambda day: (day - first) // 2, {"block": 2}
    elif isinstance(days[0], dt.date) and rng.random() < 0.4:
        first = min(days)
        fold, how = lambda day: (day - first).days // 7, {"block": 7}
    log = {first: _dated(case, first=first) for first in (False, True)}
    hazards = any(m.first for m in case.asked.measures) and set(case.asked.models) & set(
        firsts.SLOTS
    )
    refusals: set[type[Exception]] = (
        {ModelError} if hazards and any(map(math.isfinite, case.asked.clips)) else set()
    )
    if not _pairs(log[False], fold):
        refusals.add(BacktestError)
    found = answered(
        refusals,
        lambda: backtest_by(
            Protocol({}, forward, weight="records" if by_records else "pairs"),
            case.tally(),
            metrics=[fc.Metric(measure.spelling) for measure in case.asked.measures],
            estimators=clipped(
                [told(model) for model in case.asked.models], list(case.asked.clips)
            ),
            **how,
        ).to_dicts(),
    )
    by_name = {fc.Metric(measure.spelling).name: measure for measure in case.asked.measures}
    for row in found or ():
        measure = by_name[row["metric"]]
        right = protocol.backtest(
            log[measure.first],
            row["estimator"],
            measure.theta,
            row["clip"],
            forward=forward,
            by_records=by_records,
            fold=fold,
            predict=firsts.value if measure.first else oracle.value,
        )
        _assert_backtest(row, right, measure, log[measure.first])
    return len(found or (1,))


def _dated(case: Case, *, first: bool) -> list[Dated]:
    records = firsts.only_first(case.records) if first else case.records
    return [Dated(row.day, record) for row, record in zip(case.rows, records, strict=True)]


def _pairs(log: list[Dated], fold: Callable[[Any], Any]) -> bool:
    """Whether any context has a fold to hold out, and others to learn from."""
    folds: dict[object, set[object]] = {}
    for dated in log:
        folds.setdefault(dated.record.context, set()).add(fold(dated.day))
    return any(len(some) > 1 for some in folds.values())


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
    measures = [measure for measure in case.asked.measures if not measure.first]
    records = [record for record in case.records if record.context in case.candidate]
    complete = case.asked.kind in ("Lists", "Ranking", "Observed")
    if not measures or not records or not complete or not _ordinary(records):
        return 0
    items = {item for record in case.records for item in record.items}
    if not any(items & set(a) for r in records for a in case.candidate[r.context]):
        return 0
    top: Top = rng.choice(("list", "ip"))
    stopping = 0.0 if top == "ip" else rng.choice((0.0, 0.7, 1.0, None))
    ladder = fc.Ladder(top, rng.choice((P, None)), stopping)
    tally = case.tally()
    metrics = list(dict.fromkeys(fc.Metric(measure.spelling) for measure in measures))
    policy = case.policy
    question = Question([policy], [ladder], metrics, missing="drop", clusters=("record",))
    found = estimate(tally, question)
    (fit,) = fit_ladders(tally, question, policy_depth(question, tally.shape))
    truth = rungs.Truth.of(fit)
    by_name = {fc.Metric(measure.spelling).name: measure for measure in measures}
    depth = policy_depth(question, tally.shape)  # nothing below is looked at
    shown: dict[Any, dict[Any, float]] = {}
    for context, lists in case.candidate.items():
        for listed, mass in lists.items():
            own = shown.setdefault(context, {})
            own[listed[:depth]] = own.get(listed[:depth], 0.0) + mass
    for one in found.of_candidate(0):
        measure = by_name[one.metric.name]
        right = truth.value(records, shown, measure.theta)
        if one.value is None and not one.parts[0].coverage.covered:
            continue  # nothing of the candidate was ever shown
        size = max(abs(right), one.production or 0.0)
        within = 1e-7 * size + 1e-15 * max(measure.theta)  # the value is a difference
        if one.value is None or abs(one.value - right) > within:
            raise Difference(f"{ladder.name} of {measure.spelling}: {one.value} is not {right}")
    split = estimate(tally, replace(question, by=("land",)))
    assert_add_up(split)
    for one, whole in zip(found.of_candidate(0), split.of_candidate(0, whole=True), strict=True):
        same = one.value is whole.value or math.isclose(
            one.value,  # type: ignore[arg-type]
            whole.value,  # type: ignore[arg-type]
            rel_tol=SAME,
            abs_tol=1e-300,
        )
        if not same:
            raise Difference(f"by land, {ladder.name} of {one.metric}: {one.value}, {whole.value}")
    return len(metrics)


def _ordinary(records: list[Record]) -> bool:
    """Whether least squares has the digits for a log: no row counts more than a million others.

    A single record is among the others, for a prior is worth some.
    """
    weights = [1.0, *(record.weight for record in records)]
    clicks = [click for record in records for click in record.clicks if click > 0]
    apart = max(weights) / min(weights) * (max(clicks) / min(clicks) if clicks else 1.0)
    return bool(clicks) and apart < 1e6


def judge_contexts(case: Case) -> int:
    """How many answers for single contexts were compared: each is as if it were the log."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    case = case.asking(by=False)
    logged = list(dict.fromkeys(row.context for row in case.rows))
    named = rng.sample(logged, rng.randint(1, len(logged)))
    tally = case.tally()
    kind = pa.string() if isinstance(named[0], str) else pa.int64()
    question = question_of(case, metrics_of(case))
    question = replace(question, contexts=pa.array(named, kind))
    found = answered(refused(case), lambda: estimate(tally, question))
    if found is None:
        return 1
    assert_add_up(found)
    by_name = {fc.Metric(measure.spelling).name: measure for measure in case.asked.measures}
    compared = 0
    for one in found.of_candidate(0):
        x, measure = one.stratum.segment[CONTEXT], by_name[one.metric.name]
        rows = [row for row in case.rows if (row.context if row.context in named else None) == x]
        right = expected(case, rows, one.estimator, measure, one.clip)
        where = f"{one.estimator}, {measure.spelling}, M={one.clip}, context {x!r}"
        for name, value in right.items():
            if name != "contexts":
                assert_close(name, one, value, right, where)
        compared += 1
    return compared


def judge_public(case: Case) -> int:
    """How many rows of `evaluate` were compared: with oracles, and errors with those inside."""
    by = clipped([told(model) for model in case.asked.models], list(case.asked.clips))
    found = answered(
        refused(case),
        lambda: fc.evaluate(
            case.log,
            case.policy,
            estimators=by,
            metrics=metrics_of(case),
            missing=case.asked.missing,  # type: ignore[arg-type]
            logging=case.logging,
            by="land" if case.asked.by else None,
            confidence=fc.Confidence(clusters="record") if case.asked.clusters else None,
        ),
    )
    if found is None:
        return 1
    records = case.asking(clusters="record" if case.asked.clusters else None)
    inner = answers_of(ask(records, case.asked.slots))
    by_name = {fc.Metric(measure.spelling).name: measure for measure in case.asked.measures}
    for number, row in enumerate([*found, *found.whole]):
        land = row["land"] if case.asked.by and number < len(found) else ...
        name, metric, clip = row["estimator"], row["metric"], row["clip"]
        where = f"{name}, {metric}, M={clip}, {land!r}"
        right = expected_of(case, land, name, by_name[metric], clip)
        for column, value in right.items():
            if column != "size":
                assert_close(column, row, value, right, where)
        one = inner.pop((name, metric, clip, land))
        if row.get("se") is not None:
            variance = max(float(one.covariance[0, 0]), 0.0)
            if not math.isclose(row["se"] ** 2, variance, rel_tol=1e-9, abs_tol=1e-300):
                raise Difference(f"se of {where}: {row['se']} is not √{variance}")
    if inner:
        raise Difference(f"no rows of {list(inner)}")
    return len(found)


MORE: dict[str, Callable[[Case], int]] = {
    "backtest": judge_backtest,
    "ladder": judge_ladder,
    "ratios": judge_ratios,
    "baseline": judge_baseline,
    "compare": judge_compare,
    "contexts": judge_contexts,
    "public": judge_public,
}
"""What is asked of a log besides, in turn."""
