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
from tests.cases.case import Case
from tests.cases.hostile import draw
from tests.fuzz import unchanged
from tests.fuzz.judge import (
    Expected,
    answered,
    answers_of,
    ask,
    asks_hazards,
    assert_add_up,
    estimators_of,
    hold,
    judge,
    measures_of,
    metrics_of,
    question_of,
    refused,
    rows_asked,
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


# --- backtests ------------------------------------------------------------------------------------


def judge_backtest(case: Case) -> int:
    """How many rows of a backtest were compared with the paper's protocol, done literally."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    days = [row.day for row in case.rows]
    if None in days:
        return 0
    forward, by_records = rng.random() < 0.3, rng.random() < 0.5
    block, fold = _folds(days, rng)
    refusals: set[type[Exception]] = set()
    if asks_hazards(case) and any(map(math.isfinite, case.asked.clips)):
        refusals.add(ModelError)
    pairs = {(row.context, fold(row.day)) for row in case.rows}
    if len(pairs) == len({context for context, _ in pairs}):  # nothing to learn from
        refusals.add(BacktestError)
    weight = "records" if by_records else "pairs"
    found = answered(
        refusals,
        lambda: backtest_by(
            Protocol({}, forward, weight=weight),  # type: ignore[arg-type]
            case.tally(),
            metrics=metrics_of(case),
            estimators=estimators_of(case),
            **block,
        ).to_dicts(),
    )
    for row in found or ():
        measure = measures_of(case)[row["metric"]]
        records = firsts.only_first(case.records) if measure.first else case.records
        right = protocol.backtest(
            [Dated(*dated) for dated in zip(days, records, strict=True)],
            row["estimator"],
            measure.theta,
            row["clip"],
            forward=forward,
            by_records=by_records,
            fold=fold,
            predict=firsts.value if measure.first else oracle.value,
        )
        # Errors are differences of means. What is learnt from is all records less those held out,
        # of which little is left where these are nearly all.
        most = max(measure.theta) * max(click for record in records for click in record.clicks)
        weights = [record.weight for record in records]
        within = most * (1e-9 + 1e-15 * sum(weights) / min(weights))
        where = f"{row['estimator']}, {measure.spelling}, M={row['clip']}"
        for name, value in right._asdict().items():
            far = within if name in ("rmse", "bias", "floor") else 0.0
            hold(f"{name} of {where}", row[name], value, far, 1e-7)
    return len(found or (1,))


def _folds(days: list[Any], rng: random.Random) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """Single days, or blocks of days: how the library is told, and the block of a day."""
    if isinstance(days[0], int | dt.date) and rng.random() < 0.4:
        first = min(days)
        if isinstance(first, int):
            return {"block": 2}, lambda day: (day - first) // 2
        return {"block": 7}, lambda day: (day - first).days // 7
    return {}, lambda day: day


# --- ladders --------------------------------------------------------------------------------------


def judge_ladder(case: Case) -> int:
    """How many values of ladders were compared with rates that are solved for all at once."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    measures = tuple(measure for measure in case.asked.measures if not measure.first)
    case = case.asking(measures=measures)
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
    tally, metrics = case.tally(), metrics_of(case)
    question = Question([case.policy], [ladder], metrics, missing="drop", clusters=("record",))
    found = estimate(tally, question)
    depth = policy_depth(question, tally.shape)  # nothing below is looked at
    (fit,) = fit_ladders(tally, question, depth)
    truth = rungs.Truth.of(fit)
    shown: dict[Any, dict[Any, float]] = {}
    for context, lists in case.candidate.items():
        own = shown.setdefault(context, {})
        for listed, mass in lists.items():
            own[listed[:depth]] = own.get(listed[:depth], 0.0) + mass
    split = estimate(tally, replace(question, by=("land",)))
    assert_add_up(split)
    for one, whole in zip(found.of_candidate(0), split.of_candidate(0, whole=True), strict=True):
        theta = measures_of(case)[one.metric.name].theta
        where = f"{ladder.name} of {one.metric}"
        hold(f"by land, {where}", whole.value, one.value)
        if one.value is None and not one.parts[0].coverage.covered:
            continue  # nothing of the candidate was ever shown
        right = truth.value(records, shown, theta)
        size = max(abs(right), one.production or 0.0)
        within = 1e-7 * size + 1e-15 * max(theta)  # the value is a difference
        hold(where, one.value, right, within, 0.0)
    return len(metrics)


def _ordinary(records: list[Record]) -> bool:
    """Whether least squares has the digits for a log: no row counts more than a million others.

    A single record is among the others, for a prior is worth some.
    """
    weights = [1.0, *(record.weight for record in records)]
    clicks = [click for record in records for click in record.clicks if click > 0]
    apart = max(weights) / min(weights) * (max(clicks) / min(clicks) if clicks else 1.0)
    return bool(clicks) and apart < 1e6


# --- single contexts, and the public verb ---------------------------------------------------------


def judge_contexts(case: Case) -> int:
    """How many answers for single contexts were compared: each is as if it were the log."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    case = case.asking(by=False)
    own = case.columns["context"]
    logged = list(dict.fromkeys(own))
    named = rng.sample(logged, rng.randint(1, len(logged)))
    kind = pa.string() if isinstance(named[0], str) else pa.int64()
    question = replace(question_of(case), contexts=pa.array(named, kind))
    found = answered(refused(case), lambda: estimate(case.tally(), question))
    if found is None:
        return 1
    assert_add_up(found)
    rows = found.of_candidate(0)
    for one in rows:
        x = one.stratum.segment[CONTEXT]
        some = [i for i, c in enumerate(own) if (c if c in named else None) == x]
        key = one.estimator, one.metric.name, one.clip, ...
        Expected.of(case.taking(some), key).hold(one, but=("contexts",))
    return len(rows)


def judge_public(case: Case) -> int:
    """How many rows of `evaluate` were compared: with oracles, and errors with those inside."""
    found = answered(
        refused(case),
        lambda: fc.evaluate(
            case.log,
            case.policy,
            estimators=estimators_of(case),
            metrics=metrics_of(case),
            missing=case.asked.missing,  # type: ignore[arg-type]
            logging=case.logging,
            by="land" if case.asked.by else None,
            confidence=fc.Confidence(clusters="record") if case.asked.clusters else None,
        ),
    )
    if found is None:
        return 1
    lands = [row["land"] if case.asked.by else ... for row in found]
    rows = {
        (row["estimator"], row["metric"], row["clip"], land): row
        for row, land in zip(
            [*found, *found.whole], [*lands, *[...] * len(found.whole)], strict=True
        )
    }
    inner = answers_of(ask(case.asking(clusters="record" if case.asked.clusters else None)))
    for key, row in rows_asked(case, rows).items():
        Expected.of(case, key).hold(row)
        if row.get("se") is not None:
            variance = max(float(inner[key].covariance[0, 0]), 0.0)
            hold(f"squared se of {key}", row["se"] ** 2, variance)
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
