"""The A/B test that would tell a candidate from production: its size, with and without CUPED."""

from __future__ import annotations

import math

from foreclick.analysis.arms import Arms
from foreclick.estimators import Clusters, Question, estimate, parse_estimators
from foreclick.inference.planning import sample_size
from foreclick.metrics import Metric
from foreclick.policies import Policy
from foreclick.results import Result, Value
from foreclick.tallies.base import Tally


def ab_test(
    tally: Tally,
    policy: Policy,
    metric: Metric,
    arms: Arms,
    goal: float,
    promise: tuple[float, float],
    traffic: float | None,
) -> Result:
    """Records in each half of an A/B test, without and with predictions as a covariate.

    The covariate g is what production is predicted to earn in the context of a request, which no
    half can change. Of the reward of a record, f − β (g − ḡ) is left.
    """
    q, mean = arms.weight, arms.mean
    total = float(arms.squares.sum() / arms.n.sum()) - mean**2
    _, inside = arms.variances()
    expected = float(q @ arms.predicted)
    other = float(q @ (inside + (arms.predicted - expected) ** 2))
    g = arms.production - float(q @ arms.production)
    spread, moved = float(q @ g**2), float(q @ (g * (arms.predicted - expected)))
    slope = (spread + moved) / (2 * spread) if spread else 0.0
    taken = 2 * slope * (spread + moved) - 2 * slope**2 * spread
    grown = _grown(tally, policy, metric)
    rows: list[dict[str, Value]] = []
    for name, variance in (
        ("difference of means", total + other),
        ("CUPED", total + other - taken),
    ):
        size = sample_size(grown * variance, goal, *promise) if goal else math.inf
        rows.append(
            {
                "test": name,
                "variance": variance / 2,
                "reduction": 1 - variance / (total + other) if total + other else 0.0,
                "records": size if math.isinf(size) else math.ceil(size),
                "days": None if traffic is None else 2 * size / traffic,
            }
        )
    return Result(tuple(rows), tuple(rows[0]))


def _grown(tally: Tally, policy: Policy, metric: Metric) -> float:
    """How much more the mean varies from user to user than independent records would; 1 without."""
    if not tally.shape.unit:
        return 1.0
    found = []
    kinds: tuple[Clusters, ...] = ("unit", "record")
    for kind in kinds:
        question = Question(
            candidate=policy,
            estimators=parse_estimators("rcm"),
            metrics=(metric,),
            missing="production",
            clusters=(kind,),
        )
        spread = estimate(tally, question).sums[0].spread
        found.append(float(spread.covariance[1, 1]) if spread is not None else 0.0)
    return max(found[0] / found[1], 1.0) if found[1] else 1.0
