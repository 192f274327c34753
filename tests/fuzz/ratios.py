"""Ratios of two metrics: the ratio of what oracles say of each, and how far records move it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np

import foreclick as fc
from foreclick.estimation.estimates import Estimate, Estimates
from foreclick.run.estimate import estimate
from tests.cases.case import Case, Measure, Row
from tests.fuzz.judge import (
    LEAST,
    Difference,
    answered,
    answers_of,
    assert_add_up,
    assert_close,
    expected_of,
    inside,
    question_of,
    refused,
    spread_known,
    strata_of,
    used_rows,
)
from tests.truth import firsts, oracle, spread

SHOWN = "shown@"


def judge_ratios(case: Case, pairs: Sequence[tuple[Measure, Measure]] = ()) -> int:
    """How many ratios were compared: these, or two that the case's metrics make."""
    pairs = pairs or _draw(case)
    used = tuple(dict.fromkeys(itertools.chain.from_iterable(pairs)))
    metrics = {fc.Ratio(*(m.spelling for m in pair)): pair for pair in pairs}
    tally = case.tally()
    question = question_of(case, tuple(metrics))
    with without_hidden():
        found = answered(refused(case.asking(measures=used)), lambda: estimate(tally, question))
        if found is None:
            return 1
        assert_add_up(found)
        rows = answers_of(found)
        if len(rows) != len(metrics) * len(case.asked.bounded) * len(strata_of(case)):
            raise Difference(f"{len(rows)} rows")
        by_name: dict[str, tuple[Measure, Measure]] = {m.name: p for m, p in metrics.items()}
        for (_, name, _, land), one in rows.items():
            if not isinstance(one.metric, fc.Ratio) or len(one.parts) != 2:
                raise Difference(f"{one.metric} is no ratio")
            _assert_ratio(case, one, by_name[name], land)
    return len(rows)


def without_hidden() -> Any:  # noqa: ANN401 - a patch
    """Leaves out what small cells hide, for what records show alone."""

    def nothing(_: Estimates, __: int, ___: int, other: int | None = None) -> spread.Floats:
        return np.zeros((2, 2) if other is None else (1, 1))

    return mock.patch.object(Estimates, "of_small_cells", nothing)


def _draw(case: Case) -> list[tuple[Measure, Measure]]:
    """Pairs of the case's metrics, and of each with what is shown."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    deep = rng.randint(1, 4)
    shown = Measure(f"{SHOWN}{deep}", oracle.clicks_at(deep))
    pairs = [
        *itertools.permutations(case.asked.measures, 2),
        *((m, shown) for m in case.asked.measures),
    ]
    known = [p for p in pairs if fc.Metric(p[0].spelling) != fc.Metric(p[1].spelling)]
    return rng.sample(known, min(len(known), 2))


def _is_shown(measure: Measure) -> bool:
    return isinstance(measure.spelling, str) and measure.spelling.startswith(SHOWN)


def _assert_ratio(
    case: Case,
    found: Estimate,
    pair: tuple[Measure, Measure],
    land: Any,  # noqa: ANN401 - a segment
) -> None:
    where = f"{found.estimator}, {found.metric}, M={found.clip}, {land!r}"
    over, under = (_part(case, land, found.estimator, m, found.clip) for m in pair)
    right: dict[str, Any] = {
        name: over[name] / under[name] if over[name] is not None and under[name] else None
        for name in ("value", "production")
        if name in over and name in under
    }
    if "size" in over or "size" in under:
        if not under["value"] or abs(under["value"]) < LEAST or _cancels(over) or _cancels(under):
            return  # of a part, little is left
        right["size"] = over.get("size", over["value"] or 0.0) / abs(under["value"])
    right |= {name: over[name] for name in ("records", "contexts") if name in over}
    for name, worst in (("covered", min), ("clipped", max), ("ess", min)):
        if name in over and (name in under or _is_shown(pair[1])):
            right[name] = worst(over[name], under.get(name, over[name]))
    for name, value in right.items():
        if name != "size":
            assert_close(name, found, value, right, where)
    _assert_spread(case, found, land, pair, where)


def _cancels(part: dict[str, Any]) -> bool:
    """Whether what records stand for adds up to next to nothing."""
    value = part["value"]
    return value is not None and abs(value) < 1e-4 * part.get("size", 0.0)


def _part(
    case: Case,
    land: Any,  # noqa: ANN401 - a segment
    model: str,
    measure: Measure,
    clip: float,
) -> dict[str, Any]:
    """What oracles say of a numerator or a denominator."""
    if not _is_shown(measure):
        return expected_of(case, land, model, measure, clip)
    every = used_rows(case, case.rows)
    used = [row for row in every if land in (..., row.land)]
    if not used:
        return {"value": None, "production": None}
    n, theta = sum(row.times for row in used), measure.theta
    value = sum(
        row.times * chance * sum(theta[: len(items)])
        for row in used
        for items, chance in case.candidate.get(row.context, {row.items: 1.0}).items()
    )
    produced = sum(row.times * sum(theta[: len(row.items)]) for row in used)
    return {"value": value / n, "production": produced / n}


def _assert_spread(
    case: Case,
    found: Estimate,
    land: Any,  # noqa: ANN401 - a segment
    pair: tuple[Measure, Measure],
    where: str,
) -> None:
    """The covariance of the ratio and production's: of ψ_R = (ψ_N − R ψ_D) / D."""
    used = used_rows(case, case.rows)
    at = np.flatnonzero(inside(used, land))
    if not found.has_variance or not all(
        spread_known(case, m, found.estimator, found.clip) for m in pair
    ):
        return
    mine = [used[i] for i in at]
    if sum(row.times for row in mine) <= 2:
        return
    over, under = (_moves(case, used, found.estimator, m, found.clip)[at] for m in pair)
    ratios = np.array([found.value, found.production], dtype=np.float64)
    below = np.array([found.parts[1].value, found.stratum.production(found.parts[1].metric)])
    moves = (over - ratios * under) / below
    weights = [row.times for row in mine]
    if land is not ...:
        moves = moves - np.average(moves, axis=0, weights=weights)
    days = [row.day for row in mine] if case.asked.clusters == "period" else None
    right = spread.added_up(moves, weights, days)
    # Both parts move far more than their ratio does where they move together.
    size = float((ratios**2).max())
    if land is not ...:
        size = max(size, float((moves**2).max()), float(((over / below) ** 2).max()))
    if not np.allclose(found.covariance, right, rtol=1e-7, atol=1e-12 * size):
        raise Difference(f"covariance of {where}: {found.covariance} is not {right}")


def _moves(case: Case, rows: list[Row], model: str, measure: Measure, clip: float) -> spread.Floats:
    """How far each record moves a part, and production's."""
    records, logging = [row.record for row in rows], case.asked.pi
    if measure.first:
        records = firsts.only_first(records)
    if _is_shown(measure):  # one cell a context, of which all is clicked
        records = [r._replace(clicks=(1.0,) * len(r.items)) for r in records]
        model, clip, logging = "rcm", math.inf, None
    told = spread.influence(model, records, case.candidate, measure.theta, clip, logging=logging)
    return told.moves
