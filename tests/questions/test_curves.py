"""Click models that learn from the log how much positions are examined: `pbm`, by its name."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.estimate.work import estimate
from foreclick.estimators import LearntCurve, parse_estimators
from foreclick.learn.curves import with_curves
from foreclick.metrics import parse_any
from foreclick.question import Question
from foreclick.tallies.base import local_tally

CONTEXTS, ITEMS, K, DAYS = 8, 5, 4, 7
P = np.array([1.0, 0.8, 0.7, 0.6])
PAPER = fc.Weighted("pbm", examination="1/k")


def clicked(lists, context, rng):
    """What position-based users click."""
    appeal = 0.1 + 0.5 * np.random.default_rng(0).random((CONTEXTS, ITEMS))
    rates = appeal[context[:, None], lists] * P[: lists.shape[1]]
    return {
        "context": context,
        "items": list(lists),
        "clicks": list((rng.random(rates.shape) < rates).astype(np.int8)),
        "day": rng.integers(0, DAYS, len(context)),
    }


def table(records, seed, moving=K):
    """Lists whose first positions exchange their items at random; the others stay."""
    rng = np.random.default_rng(seed)
    context = rng.integers(0, CONTEXTS, records)
    lists = np.tile(np.arange(ITEMS), (records, 1))
    lists[:, :moving] = rng.permuted(lists[:, :moving], axis=1)
    return clicked(lists[:, :K], context, rng)


def drawn(records, seed, moving=K):
    return fc.read_log(pa.table(table(records, seed, moving)), period="day")


TURNED = fc.Ranking({"context": np.arange(CONTEXTS), "items": [[3, 2, 1, 0]] * CONTEXTS})


@pytest.fixture(scope="module")
def log():
    return drawn(4000, 1)


@pytest.fixture(scope="module")
def stuck():
    return drawn(400, 2, moving=0)


def learnt(log, metrics="dcg@4", estimators="pbm"):
    """The curve that `pbm` takes, and the notes."""
    (by,), notes = with_curves(
        local_tally(log)[0], parse_estimators(estimators), parse_any(metrics)
    )
    return by.model.examination, notes


def test_the_curve_is_that_of_examination(log):
    curve, notes = learnt(log)
    found = fc.examination(log)
    assert curve.p == pytest.approx(found.curve, rel=1e-12)
    covariance = np.array(curve.root) @ np.array(curve.root).T
    se = np.array([row["se"] / row["examination"] for row in found.to_dicts()])
    assert np.sqrt(np.diag(covariance)) == pytest.approx(se, rel=1e-9)
    assert not notes


def value(log, estimator):
    return fc.evaluate(log, TURNED, metrics="dcg@4", estimators=estimator)["value"]


ASKED = {
    "evaluate": value,
    "compare": lambda log, by: fc.compare(log, {"a": TURNED}, metrics="dcg@4", estimators=by)["se"],
    "backtest": lambda log, by: fc.backtest(log, metrics="dcg@4", estimators=by)["rmse"],
    "support": lambda log, by: fc.support(log, TURNED, metrics="dcg@4", estimators=by)["lowest"],
    "optimize": lambda log, by: fc.optimize(log, metrics="dcg@4", estimators=by, judge=None)[
        "value"
    ],
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_by_its_name_it_is_learnt_by_every_verb(log, stuck, ask):
    curve, _ = learnt(log)
    (by_name,), (given,), (paper,) = (
        ask(log, by) for by in ("pbm", fc.Weighted("pbm", examination=curve), PAPER)
    )
    assert by_name == pytest.approx(given, rel=1e-12)
    assert by_name != pytest.approx(paper, rel=1e-3)
    assert ask(stuck, "pbm") == ask(stuck, PAPER)


def asked(log, estimator, metric, clusters=(), policy=TURNED, logging=None):
    question = Question(
        [policy], [estimator], parse_any(metric), clusters=clusters, loggings=[logging]
    )
    return estimate(local_tally(log)[0], question).of_candidate()[0]


@pytest.mark.parametrize(
    ("metric", "clip", "known"),
    [
        ("clicks@3", math.inf, False),
        ("dcg@4", 0.9, False),
        ("dcg@4", math.inf, True),
        ("mrr@4", math.inf, False),
        ("clicks@2/dcg@4", math.inf, False),
    ],
)
def test_an_error_of_the_curve_moves_the_value_as_far_as_it_does(log, metric, clip, known):
    """Errors of size 1 in log p of one position after the other: it is off by the derivatives."""
    p = np.array([1.0, 0.5, 0.4, 0.1])
    root = tuple(map(tuple, np.eye(K).tolist()))
    logging = fc.Observed(log) if known else None
    by = fc.Weighted("pbm", clip, LearntCurve(tuple(p.tolist()), root))
    found = asked(log, by, metric, ("period",), logging=logging)
    slopes = []
    for j in range(K):
        ends = []
        for step in (1e-5, -1e-5):
            moved = p * np.exp(step * (np.arange(K) == j))
            by = fc.Weighted("pbm", clip, moved.tolist())
            ends.append(asked(log, by, metric, logging=logging).value)
        slopes.append((ends[0] - ends[1]) / 2e-5)
    assert np.abs(slopes).max() > 1e-3
    assert found.off_by == pytest.approx(slopes, rel=1e-5, abs=1e-8)
    given = asked(log, fc.Weighted("pbm", clip, p.tolist()), metric, ("period",), logging=logging)
    more = found.covariance - given.covariance
    assert more == pytest.approx(np.diag([np.sum(np.square(slopes)), 0]), rel=1e-4, abs=1e-12)


def test_where_nothing_moves_it_is_one_over_k_and_says_so(stuck):
    curve, notes = learnt(stuck)
    assert curve == "learnt"
    assert "does not tell how much positions are examined" in notes[0]
    assert "pbm takes 1/k" in notes[0]
    found = fc.evaluate(stuck, TURNED, metrics="dcg@4", estimators="pbm")
    assert notes[0] in found.notes
    assert not learnt(stuck, "clicks@1")[1]  # one position is all that counts


def test_below_the_positions_that_it_tells_of_it_goes_on_as_one_over_k():
    some = drawn(4000, 3, moving=2)
    curve, notes = learnt(some)
    assert curve.p[1] == pytest.approx(0.8, rel=0.15)
    assert curve.p[2:] == pytest.approx([curve.p[1] * 2 / 3, curve.p[1] / 2])
    assert curve(6) == pytest.approx(curve.p[1] / 3)
    assert curve.root[3] == curve.root[1]  # as far off as where it goes on from
    assert "the examination of positions 3–4" in notes[0]
    assert not learnt(some, "clicks@2")[1]
