"""Ratios of two metrics: the ratio of what oracles say of each, and how far records move it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np

import foreclick as fc
from foreclick.estimation.estimates import Estimate, Estimates
from foreclick.run.estimate import estimate
from tests.cases.case import Case, Measure
from tests.fuzz.judge import (
    LEAST,
    Expected,
    answered,
    answers_of,
    assert_add_up,
    covariance,
    differ,
    hold_all,
    hold_columns,
    question_of,
    refused,
    rows_asked,
)
from tests.truth import oracle
from tests.truth.spread import Floats


def judge_ratios(case: Case, pairs: Sequence[tuple[Measure, Measure]] = ()) -> int:
    """How many ratios were compared: these, or two that the case's metrics make."""
    pairs = pairs or _draw(case)
    used = tuple(dict.fromkeys(itertools.chain.from_iterable(pairs)))
    metrics = {fc.Ratio(*(m.spelling for m in pair)): pair for pair in pairs}
    by_name = {metric.name: pair for metric, pair in metrics.items()}
    question = question_of(case, tuple(metrics))
    with without_hidden():
        refusals = refused(case.asking(measures=used))
        found = answered(refusals, lambda: estimate(case.tally(), question))
        if found is None:
            return 1
        assert_add_up(found)
        rows = rows_asked(case, answers_of(found), metrics)
        for (model, name, clip, land), one in rows.items():
            over, under = (Expected(case, model, m, clip, land) for m in by_name[name])
            _hold_ratio(one, over, under, f"{model}, {one.metric}, M={clip}, {land!r}")
    return len(rows)


def without_hidden() -> Any:  # noqa: ANN401 - a patch
    """Leaves out what small cells hide, for what records show alone."""

    def nothing(_: Estimates, __: int, ___: int, other: int | None = None) -> Floats:
        return np.zeros((2, 2) if other is None else (1, 1))

    return mock.patch.object(Estimates, "of_small_cells", nothing)


def _draw(case: Case) -> list[tuple[Measure, Measure]]:
    """Pairs of the case's metrics, and of each with what is shown."""
    rng = random.Random(case.seed)  # noqa: S311 - no secret
    deep = rng.randint(1, 4)
    shown = Measure(f"shown@{deep}", oracle.clicks_at(deep))
    measures = case.asked.measures
    pairs = [*itertools.permutations(measures, 2), *((m, shown) for m in measures)]
    known = [p for p in pairs if fc.Metric(p[0].spelling) != fc.Metric(p[1].spelling)]
    return rng.sample(known, min(len(known), 2))


def _hold_ratio(found: Estimate, over: Expected, under: Expected, where: str) -> None:
    if not isinstance(found.metric, fc.Ratio) or len(found.parts) != 2:
        differ("ratio", found.metric, where)
    above, below, size = over.columns, under.columns, over.size
    right: dict[str, Any] = {
        name: above[name] / below[name] if above[name] is not None and below[name] else None
        for name in ("value", "production")
        if name in above and name in below
    }
    if over.size is not None or under.size is not None:
        if abs(below["value"] or 0.0) < LEAST or _cancels(over) or _cancels(under):
            return  # of a part, little is left
        size = (above["value"] or 0.0 if size is None else size) / abs(below["value"])
    right |= {name: above[name] for name in ("records", "contexts") if name in above}
    for name, worst in (("covered", min), ("clipped", max), ("ess", min)):
        if name in above and (name in below or under.measure.shown):
            right[name] = worst(above[name], below.get(name, above[name]))
    hold_columns(found, right, where, size)
    if found.has_variance and over.spread_known and under.spread_known and not over.few:
        _hold_spread(found, over, under, where)


def _cancels(part: Expected) -> bool:
    """Whether what records stand for adds up to next to nothing."""
    value = part.columns["value"]
    return value is not None and abs(value) < 1e-4 * (part.size or 0.0)


def _hold_spread(found: Estimate, over: Expected, under: Expected, where: str) -> None:
    """The covariance of the ratio and production's: of ψ_R = (ψ_N − R ψ_D) / D."""
    whole, clusters = over.land is ..., over.case.asked.clusters
    ratios = np.array([found.value, found.production], dtype=np.float64)
    below = np.array([found.parts[1].value, found.stratum.production(found.parts[1].metric)])
    moves = (over.moves - ratios * under.moves) / below
    right = covariance(moves, over.own, [clusters or ""], whole=whole)
    # Both parts move far more than their ratio does where they move together.
    most = [ratios] if whole else [ratios, moves, over.moves / below]
    size = max(float((each**2).max()) for each in most)
    hold_all(f"covariance of {where}", found.covariance, right, 1e-12 * size)
