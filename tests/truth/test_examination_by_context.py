"""If this fails, a curve for each context gives another value than the paper's formula.

    V̂(h) = 1/|S| Σ_S Σ_k θ_k w(a_k, k) min{⟨θ ∘ p_x, h(a_k, · | x)⟩ / ⟨θ ∘ p_x, π̂(a_k, · | x)⟩, M}

A context at a time, by the oracle, which takes one curve.
"""

import math
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_any
from foreclick.question import Question
from foreclick.run.estimate import estimate
from tests.answers import SAME, theta_of
from tests.cases import plain, tables
from tests.truth import oracle, protocol, spread

CASE = plain.drawn(3, records=300, contexts=6, periods=5, ragged=True, missing=True)
RECORDS, CANDIDATE = CASE.records, CASE.candidate
CONTEXTS = sorted(oracle.by_context(RECORDS))
P = {x: tuple(np.random.default_rng([8, i]).uniform(0.1, 1, 4)) for i, x in enumerate(CONTEXTS)}
CURVES: dict[Any, Any] = {  # in every spelling that one curve for all contexts has
    x: [list(p), p, np.array(p), lambda k, p=p: p[k - 1]][i % 4]
    for i, (x, p) in enumerate(P.items())
}
CLIPS = (0.6, 1.5, math.inf)
DCG = theta_of("dcg@4")


def by_context(curves=CURVES, clip=CLIPS):
    return fc.Weighted("pbm", list(clip), examination=curves)


def literal(records, candidate, theta, clip, **options):
    """Σ_x n_x / n V̂_x; by weights of records, where they have some."""
    total = 0.0
    for x, own in oracle.by_context(records).items():
        value = oracle.value("pbm", own, candidate, theta, clip, p=P[x], **options)
        total += oracle.count(own) * value
    return total / oracle.count(records)


def rate_of_place(records, k):
    """Clicks at a position, over how often it was looked at."""
    there = [record for record in records if len(record.items) >= k]
    return sum(r.clicks[k - 1] for r in there) / sum(P[r.context][k - 1] for r in there)


@pytest.mark.parametrize("rows", [1, 10**9])
@pytest.mark.parametrize("missing", ["production", "drop"])
@pytest.mark.parametrize("metric", ["clicks@3", "dcg@4"])
def test_an_answer_is_the_formula_of_the_paper(metric, missing, rows):
    """With what it rests on, as sums over contexts and cells."""
    estimators = [by_context(clip=CLIPS[:2]), by_context(clip=CLIPS[2:])]
    asked: dict[str, Any] = {"metrics": metric, "missing": missing, "estimators": estimators}
    found = fc.evaluate(CASE.tally(rows), CASE.policy, **asked)
    assert {*CONTEXTS} - {*CANDIDATE}, "so that something is missing"
    used = [r for r in RECORDS if missing == "production" or r.context in CANDIDATE]
    theta = theta_of(metric)
    for row, clip in zip(found, CLIPS, strict=True):
        right = literal(used, CANDIDATE, theta, clip) + oracle.unchanged(used, CANDIDATE, theta)
        assert row["value"] == pytest.approx(right, rel=SAME)
        sums = oracle.Mass()
        for x, own in oracle.by_context(used).items():
            sums = sums.plus(*oracle.mass("pbm", own, CANDIDATE, theta, clip, p=P[x]))
        shares = sums.shares(len(used))
        assert {name: row[name] for name in shares} == pytest.approx(shares, rel=SAME)
        if math.isinf(clip):  # what was never shown, as if all of it were as good as the best place
            best = max(rate_of_place(used, k) for k in range(1, len(theta) + 1))
            unseen = best * (sums.candidate - sums.covered) / len(used)
            assert row["margin"] == pytest.approx(unseen, rel=SAME)


def test_a_logging_policy_that_is_known_is_weighed_by_the_same_curves():
    pi = fc.Lists(tables.lists_table(CASE.shown))
    asked: Any = {"metrics": "dcg@4", "missing": "drop", "logging": pi, "confidence": None}
    found = fc.evaluate(CASE.log, CASE.policy, estimators=by_context(), **asked)
    used = [record for record in RECORDS if record.context in CANDIDATE]
    right = [literal(used, CANDIDATE, DCG, clip, logging=CASE.shown) for clip in CLIPS]
    assert found["value"] == pytest.approx(right, rel=SAME)


def test_what_a_record_moves_is_the_derivative_of_the_formula():
    case = CASE.taking([i for i, r in enumerate(RECORDS) if r.context in CANDIDATE][:60])
    question = Question(
        [case.policy],
        parse_estimators([by_context(clip=(1.5,))]),
        parse_any("dcg@4"),
        clusters=("record",),
    )
    (found,) = estimate(case.tally(), question).of_candidate(0)
    right = spread.by_quotients(
        lambda records: literal(records, CANDIDATE, DCG, 1.5), case.records, DCG
    )
    shown = found.covariance - found.hidden
    assert shown == pytest.approx(right, rel=1e-6, abs=1e-9)  # a difference quotient


def test_only_the_shape_of_each_curve_matters_and_one_for_all_is_one():
    candidate = fc.Lists(tables.lists_table(CASE.shown))
    scales, p = np.linspace(1, 9, len(CONTEXTS)), (1, 0.5, 0.2, 0.1)
    scaled = {x: [s * v for v in p] for x, s in zip(CONTEXTS, scales, strict=True)}
    one, each, other = (
        fc.evaluate(
            CASE.log, candidate, metrics="dcg@4", estimators=by_context(curves, (math.inf,))
        ).to_dicts()[0]
        for curves in (p, dict.fromkeys(CONTEXTS, p), scaled)
    )
    assert each == pytest.approx(one, rel=1e-9)
    for column in ("value", "se", "low", "high", "lift_low", "lift_high"):
        assert other[column] == pytest.approx(one[column], rel=1e-9)


@pytest.mark.parametrize("forward", [False, True])
def test_a_backtest_predicts_by_them(forward):
    found = fc.backtest(CASE.log, metrics="dcg@4", estimators=by_context(), forward=forward)
    dated = [protocol.Dated(*each) for each in zip(CASE.columns["day"], RECORDS, strict=True)]
    for row, clip in zip(found, CLIPS, strict=True):
        right = protocol.backtest(
            dated, "pbm", DCG, clip, forward=forward, predict=lambda _, *asked: literal(*asked)
        )
        assert (row["rmse"], row["bias"]) == pytest.approx((right.rmse, right.bias), rel=1e-9)


def test_a_comparison_is_of_the_same_values():
    policies = {"new": plain.drawn(4, contexts=6, ragged=True).candidate, "old": CASE.shown}
    lists = {name: fc.Lists(tables.lists_table(own)) for name, own in policies.items()}
    by = by_context(clip=(math.inf,))
    found = fc.compare(CASE.log, lists, metrics="dcg@4", estimators=by)
    right = {name: literal(RECORDS, own, DCG, math.inf) for name, own in policies.items()}
    values = {row["candidate"]: row["value"] for row in found if row["against"] == "production"}
    assert values == pytest.approx(right, rel=SAME)


def test_estimators_with_curves_by_context_are_values():
    one, other = by_context({"q": [1, 0.5]}), by_context({"q": (1, 0.5)})
    assert one == other != by_context({"q": [1, 0.4]})
    assert hash(one) == hash(other)
