"""Ratios of two metrics: the ratio of what oracles say of each, and how far records move it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

import foreclick as fc
from foreclick.estimators import RatioSums, estimate
from foreclick.estimators.answer import Answer
from tests.fuzz.arrays import tally_of
from tests.fuzz.draws import Case, Measure, Row
from tests.fuzz.judge import (
    Difference,
    answered,
    assert_close,
    expected,
    question_of,
    refused,
    strata_of,
    used_rows,
)
from tests.truth import oracle, spread

SHOWN = "shown@"


def judge_ratios(case: Case, pairs: Sequence[tuple[Measure, Measure]] = ()) -> int:
    """How many ratios were compared: these, or two that the case's metrics make."""
    pairs = pairs or _draw(case)
    used = tuple(dict.fromkeys(itertools.chain.from_iterable(pairs)))
    metrics = {fc.Ratio(*(m.spelling for m in pair)): pair for pair in pairs}
    tally = tally_of(case, slots=case.slots, chunk=case.chunk, times=case.times)
    question = question_of(case, tally, tuple(metrics))
    with without_hidden():
        found = answered(
            refused(replace(case, measures=used)), lambda: estimate(tally, question).sums
        )
    if found is None:
        return 1
    if len(found) != len(metrics) * len(case.models) * len(case.clips) * len(strata_of(case)):
        raise Difference(f"{len(found)} rows")
    for sums in found:
        if not isinstance(sums, RatioSums):
            raise Difference(f"{sums.metric} is no ratio")
        land = sums.stratum.segment.get("land", ...)
        _assert_ratio(case, sums, metrics[sums.metric], land)
    return len(found)


def without_hidden() -> Any:  # noqa: ANN401 - a patch
    """Leaves out what small cells hide: it has an oracle for one metric and candidate alone."""
    return mock.patch.object(Answer, "_hidden", return_value=np.zeros((2, 2)))


def _draw(case: Case) -> list[tuple[Measure, Measure]]:
    """Pairs of the case's metrics, and of each with what is shown."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    deep = rng.randint(1, 4)
    shown = Measure(f"{SHOWN}{deep}", oracle.clicks_at(deep))
    pairs = [*itertools.permutations(case.measures, 2), *((m, shown) for m in case.measures)]
    known = [p for p in pairs if fc.Metric(p[0].spelling) != fc.Metric(p[1].spelling)]
    return rng.sample(known, min(len(known), 2))


def _is_shown(measure: Measure) -> bool:
    return isinstance(measure.spelling, str) and measure.spelling.startswith(SHOWN)


def _assert_ratio(
    case: Case,
    found: RatioSums,
    pair: tuple[Measure, Measure],
    land: Any,  # noqa: ANN401 - a segment
) -> None:
    where = f"{found.estimator}, {found.metric}, M={found.clip}, {land!r}"
    rows = [row for row in case.rows if land in (..., row.land)]
    over, under = (_part(case, rows, found.estimator, m, found.clip) for m in pair)
    right: dict[str, Any] = {
        name: over[name] / under[name] if over[name] is not None and under[name] else None
        for name in ("value", "production")
        if name in over and name in under
    }
    right |= {name: over[name] for name in ("records", "contexts") if name in over}
    for name, worst in (("covered", min), ("clipped", max), ("ess", min)):
        if name in over and (name in under or _is_shown(pair[1])):
            right[name] = worst(over[name], under.get(name, over[name]))
    for name, value in right.items():
        assert_close(name, found, value, right, where)
    _assert_spread(case, found, rows, pair, where)


def _part(case: Case, rows: list[Row], model: str, measure: Measure, clip: float) -> dict[str, Any]:
    """What oracles say of a numerator or a denominator."""
    if not _is_shown(measure):
        return expected(case, rows, model, measure, clip)
    used = used_rows(case, rows)
    if not used:
        return {"value": None, "production": None}
    n, theta = sum(row.weight for row in used), measure.theta
    value = sum(
        row.weight * chance * sum(theta[: len(items)])
        for row in used
        for items, chance in case.candidate.get(row.context, {row.items: 1.0}).items()
    )
    produced = sum(row.weight * sum(theta[: len(row.items)]) for row in used)
    return {"value": value / n, "production": produced / n}


def _assert_spread(
    case: Case, found: RatioSums, rows: list[Row], pair: tuple[Measure, Measure], where: str
) -> None:
    """The covariance of the ratio and production's: of ψ_R = (ψ_N − R ψ_D) / D."""
    used = used_rows(case, rows)
    if found.spread is None or any(m.first for m in pair) or case.logging == "propensity":
        return
    periods = len({row.day for row in used})
    if found.clip == 1.0 or case.kind == "Observed" or sum(row.weight for row in used) <= 2:
        return
    if case.clusters == "period" and periods < 2:
        return
    over, under = (_moves(case, used, found.estimator, m, found.clip) for m in pair)
    ratios = np.array([found.value, found.production])
    below = np.array([found.under.value, found.under.production])
    moves = (over - ratios * under) / below
    days = [row.day for row in used] if case.clusters == "period" else None
    right = spread.added_up(moves, [row.weight for row in used], days)
    # Both parts move far more than their ratio does where they move together.
    size = float((ratios**2).max())
    if not np.allclose(found.spread.covariance, right, rtol=1e-7, atol=1e-12 * size):
        raise Difference(f"covariance of {where}: {found.spread.covariance} is not {right}")


def _moves(case: Case, rows: list[Row], model: str, measure: Measure, clip: float) -> spread.Floats:
    """How far each record moves a part, and production's."""
    records, logging = [row.record for row in rows], case.pi
    if _is_shown(measure):  # one cell a context, of which all is clicked
        records = [r._replace(clicks=(1.0,) * len(r.items)) for r in records]
        model, clip, logging = "rcm", math.inf, None
    told = spread.influence(model, records, case.candidate, measure.theta, clip, logging=logging)
    return told.moves
