"""If this fails, a curve for each context gives another value than the paper's formula.

    V̂(h) = 1/|S| Σ_S Σ_k θ_k w(a_k, k) min{⟨θ ∘ p_x, h(a_k, · | x)⟩ / ⟨θ ∘ p_x, π̂(a_k, · | x)⟩, M}

A context at a time, by the oracle, which takes one curve.
"""

import math
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick import simulate
from foreclick.estimators import parse_estimators
from foreclick.metrics import parse_any
from foreclick.question import Question
from foreclick.run.estimate import estimate
from tests.answers import SAME, log_of, theta_of
from tests.batches.sizes import in_batches
from tests.cases import plain, tables
from tests.truth import oracle, protocol, spread

CASE = plain.drawn(3, records=300, contexts=6, items=6, depth=4, ragged=True, missing=True)
RECORDS, CANDIDATE = CASE.records, CASE.candidate
CONTEXTS = sorted({record.context for record in RECORDS})
P = {x: tuple(np.random.default_rng([8, i]).uniform(0.1, 1, 4)) for i, x in enumerate(CONTEXTS)}
CURVES: dict[Any, Any] = {  # in every spelling that one curve for all contexts has
    x: [list(p), p, np.array(p), lambda k, p=p: p[k - 1]][i % 4]
    for i, (x, p) in enumerate(P.items())
}
CLIPS = (0.6, 1.5, math.inf)


def by_context(curves=CURVES, clip=CLIPS):
    return fc.Weighted("pbm", list(clip), examination=curves)


def of_context(records, x):
    return [record for record in records if record.context == x]


def literal(records, candidate, theta, clip, p=P, **options):
    """Σ_x n_x / n V̂_x; by weights of records, where they have some."""
    total = 0.0
    for x in {record.context for record in records}:
        own = of_context(records, x)
        n = sum(record.weight for record in own)
        total += n * oracle.value("pbm", own, candidate, theta, clip, p=p[x], **options)
    return total / sum(record.weight for record in records)


def rate_of_place(records, k):
    """Clicks at a position, over how often it was looked at."""
    there = [record for record in records if len(record.items) >= k]
    looked = sum(record.weight * P[record.context][k - 1] for record in there)
    return sum(record.weight * record.clicks[k - 1] for record in there) / looked


@pytest.mark.parametrize("rows", [1, 10**9])
@pytest.mark.parametrize("missing", ["production", "drop"])
@pytest.mark.parametrize("metric", ["clicks@3", "dcg@4"])
def test_an_answer_is_the_formula_of_the_paper(metric, missing, rows):
    """With what it rests on, as sums over contexts and cells."""
    log, theta = in_batches(fc.tally(log_of(RECORDS)), rows), theta_of(metric)
    found = fc.evaluate(
        log, fc.Lists(tables.lists_table(CANDIDATE)), metrics=metric, missing=missing,
        estimators=[by_context(clip=CLIPS[:2]), by_context(clip=CLIPS[2:])],
    )  # fmt: skip
    absent = {*CONTEXTS} - {*CANDIDATE}
    assert absent, "so that something is missing"
    used = [r for r in RECORDS if missing == "production" or r.context not in absent]
    for row, clip in zip(found, CLIPS, strict=True):
        silent = sum(oracle.reward(r, theta) for r in used if r.context in absent)
        right = literal(used, CANDIDATE, theta, clip) + silent / len(used)
        assert row["value"] == pytest.approx(right, rel=SAME)
        sums = oracle.Mass(
            *np.sum([
                oracle.mass("pbm", of_context(used, x), CANDIDATE, theta, clip, p=P[x])
                for x in CONTEXTS
            ], axis=0)
        )  # fmt: skip
        assert row["covered"] == pytest.approx(sums.covered / sums.candidate, rel=SAME)
        assert row["clipped"] == pytest.approx(sums.clipped / sums.candidate, rel=SAME)
        ess = len(used) * sums.weighted**2 / (sums.logged * sums.squared)
        assert row["ess"] == pytest.approx(ess, rel=SAME)
        if math.isinf(clip):  # what was never shown, as if all of it were as good as the best place
            best = max(rate_of_place(used, k) for k in range(1, len(theta) + 1))
            unseen = best * (sums.candidate - sums.covered) / len(used)
            assert row["margin"] == pytest.approx(unseen, rel=SAME)


def test_a_logging_policy_that_is_known_is_weighed_by_the_same_curves():
    pi = {x: dict(lists) for x, lists in CASE.shown.items()}
    found = fc.evaluate(
        log_of(RECORDS), fc.Lists(tables.lists_table(CANDIDATE)), metrics="dcg@4", missing="drop",
        estimators=by_context(), logging=fc.Lists(tables.lists_table(pi)), confidence=None,
    )  # fmt: skip
    used = [record for record in RECORDS if record.context in CANDIDATE]
    theta = theta_of("dcg@4")
    right = [literal(used, CANDIDATE, theta, clip, logging=pi) for clip in CLIPS]
    assert found["value"] == pytest.approx(right, rel=SAME)


def test_what_a_record_moves_is_the_derivative_of_the_formula():
    step, theta = 1e-6, theta_of("clicks@3")
    used = [record for record in RECORDS if record.context in CANDIDATE]
    question = Question(
        [fc.Lists(tables.lists_table(CANDIDATE))],
        parse_estimators([by_context(clip=(1.5,))]),
        parse_any("clicks@3"),
        clusters=("record",),
    )
    (found,) = estimate(fc.tally(log_of(used)), question).of_candidate(0)
    n = len(used)

    def value(weights):
        weighed = [r._replace(weight=w) for r, w in zip(used, weights, strict=True)]
        return literal(weighed, CANDIDATE, theta, 1.5)

    moved = [
        [n * (f(1 + d) - f(1 - d)) / (2 * step) for d in step * np.eye(n)]
        for f in (value, lambda w: oracle.production(
            [r._replace(weight=each) for r, each in zip(used, w, strict=True)], theta
        ))
    ]  # fmt: skip
    right = spread.added_up(np.array(moved).T, [1.0] * n, None)
    shown = found.covariance - found.hidden
    assert shown == pytest.approx(right, rel=1e-6, abs=1e-9)  # a difference quotient


def test_only_the_shape_of_each_curve_matters_and_one_for_all_is_one():
    log, candidate = log_of(RECORDS), fc.Lists(tables.lists_table(CASE.shown))
    scales, p = (
        dict(zip(CONTEXTS, np.linspace(1, 9, len(CONTEXTS)), strict=True)),
        (1, 0.5, 0.2, 0.1),
    )

    def ask(examination):
        estimators = by_context(examination, (math.inf,))
        return fc.evaluate(log, candidate, metrics="dcg@4", estimators=estimators).to_dicts()

    (one,), (each,), (scaled,) = map(
        ask, (p, dict.fromkeys(CONTEXTS, p), {x: [s * v for v in p] for x, s in scales.items()})
    )
    assert each == pytest.approx(one, rel=1e-9)
    for column in ("value", "se", "low", "high", "lift_low", "lift_high"):
        assert scaled[column] == pytest.approx(one[column], rel=1e-9)


@pytest.mark.parametrize("forward", [False, True])
def test_a_backtest_predicts_by_them(forward):
    rng = np.random.default_rng(5)
    days = rng.integers(0, 4, len(RECORDS)).tolist()
    dated = [protocol.Dated(day, r) for day, r in zip(days, RECORDS, strict=True)]
    log = fc.read_log(tables.log_table(RECORDS, day=days), period="day")
    found = fc.backtest(log, metrics="dcg@4", estimators=by_context(), forward=forward)

    def predict(_, records, *asked):
        return literal(records, *asked)

    for row, clip in zip(found, CLIPS, strict=True):
        right = protocol.backtest(
            dated, "pbm", theta_of("dcg@4"), clip, forward=forward, predict=predict
        )
        assert (row["rmse"], row["bias"]) == pytest.approx((right.rmse, right.bias), rel=1e-9)


def test_a_comparison_is_of_the_same_values():
    days = [i % 5 for i in range(len(RECORDS))]
    log = fc.read_log(tables.log_table(RECORDS, day=days), period="day")
    policies = {"new": plain.drawn(4, contexts=6, ragged=True).candidate, "old": CASE.shown}
    found = fc.compare(
        log, {name: fc.Lists(tables.lists_table(own)) for name, own in policies.items()},
        metrics="dcg@4", estimators=by_context(clip=(math.inf,)),
    )  # fmt: skip
    right = {
        name: literal(RECORDS, own, theta_of("dcg@4"), math.inf) for name, own in policies.items()
    }
    values = {row["candidate"]: row["value"] for row in found if row["against"] == "production"}
    assert values == pytest.approx(right, rel=SAME)


def test_a_world_whose_contexts_are_examined_differently_is_told_without_bias():
    """An infinite log of two lists a context; one curve for both contexts is off."""
    mu, curves = (0.5, 0.2), {"phone": (1.0, 0.2), "desk": (1.0, 0.9)}
    rows = [(x, shown) for x in curves for shown in ((0, 1), (1, 0))]
    log = fc.read_log(
        {
            "context": [x for x, _ in rows],
            "items": [list(shown) for _, shown in rows],
            "clicks": [
                [mu[a] * p for a, p in zip(shown, curves[x], strict=True)] for x, shown in rows
            ],
            "times": [9e6, 1e6, 1e6, 9e6],
        },
        count="times",
    )
    best = {"context": [*curves], "items": [[1, 0]] * 2}
    truth = float(
        np.mean([simulate.PBM([mu], p).value({"context": [0], "items": [[1, 0]]}, "clicks@2")
                 for p in curves.values()])
    )  # fmt: skip

    def value(examination):
        estimator = fc.Weighted("pbm", examination=examination)
        asked: Any = {"metrics": "clicks@2", "estimators": estimator, "confidence": None}
        return float(fc.evaluate(log, best, **asked)["value"][0])

    assert value(curves) == pytest.approx(truth, rel=SAME)
    assert abs(value((1.0, 0.55)) - truth) > 0.01


def test_estimators_with_curves_by_context_are_values():
    one, other = by_context({"q": [1, 0.5]}), by_context({"q": (1, 0.5)})
    assert one == other != by_context({"q": [1, 0.4]})
    assert hash(one) == hash(other)
