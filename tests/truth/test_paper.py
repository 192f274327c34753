"""If this fails, an estimator is not the one in Table 2 of the paper.

The record sums of the oracle are those of the table, term by term.
"""

import math
import random

import pytest

import foreclick as fc
from tests.answers import SAME, clipped, log_of
from tests.cases import plain, tables
from tests.truth import oracle, protocol
from tests.truth.paper import paper

TABLE = ("list", "ip", "rctr", "pbm", "item")
CLIPS = (0.5, 1, 2, 5, math.inf)
THETAS = {"clicks@3": oracle.clicks_at(3), "dcg@4": oracle.dcg_at(4), "own": (0.3, 0, 1.7, 0.2)}
CASE = plain.drawn(17, records=300, contexts=4, items=6, depth=4)
"""Lists of equal length, as in the paper; some of the candidate's were never shown."""


def ask(estimators, metric="clicks@3", **options):
    theta = THETAS["own"]
    metric = fc.Metric(theta) if metric == "own" else metric
    candidate = fc.Lists(tables.lists_table(plain.half_new(CASE)))
    asked = {"estimators": estimators, "metrics": metric, "confidence": None} | options
    return fc.evaluate(log_of(CASE.records), candidate, **asked)


@pytest.mark.parametrize("known", [False, True], ids=["estimated", "known"])
@pytest.mark.parametrize("metric", THETAS)
@pytest.mark.parametrize("model", TABLE)
def test_table_2(model, metric, known):
    """Each estimator for any θ and M, with π̂ from the log or a logging policy that is given."""
    pi = CASE.shown if known else None
    logging = fc.Lists(tables.lists_table(CASE.shown)) if known else None
    found = ask(clipped(paper([model]), CLIPS), metric, logging=logging)
    h, theta = plain.half_new(CASE), THETAS[metric]
    assert [*found["clip"]] == ([math.inf] if model == "rctr" else [*CLIPS])
    for row in found:
        right = oracle.value(model, CASE.records, h, theta, row["clip"], logging=pi)
        assert row["value"] == pytest.approx(right, rel=SAME)


@pytest.mark.parametrize("metric", THETAS)
def test_the_random_and_the_rank_based_model_are_the_mean_of_what_was_logged(metric):
    """They are one estimator, whatever the candidate: sections 3.3 and 3.4."""
    mean = oracle.production(CASE.records, THETAS[metric])
    assert ask(["rcm", "rctr"], metric)["value"] == pytest.approx([mean] * 2, rel=SAME)


@pytest.mark.parametrize("metric", THETAS)
def test_the_item_estimator_is_the_position_based_one_with_all_positions_examined(metric):
    everywhere = fc.Weighted("pbm", list(CLIPS), examination=lambda _: 1.0)
    one, other = (ask(by, metric)["value"] for by in (everywhere, fc.Weighted("item", [*CLIPS])))
    assert one == pytest.approx(other, rel=SAME)


def test_as_m_falls_to_0_so_does_the_estimate():
    """Section 3.1; and it never falls where M rises."""
    for model in ("list", "ip", "item", "pbm"):
        values = ask(clipped(paper([model]), (1e-9, *CLIPS)))["value"]
        assert values == sorted(values)
        assert values[0] == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("model", TABLE)
def test_section_6_1_each_day_is_predicted_from_the_others(model):
    """The root of the mean squared error over queries and days; 1/k is the examination."""
    rng = random.Random(6)  # noqa: S311 - no secret
    dated = [protocol.Dated(rng.randrange(5), record) for record in CASE.records]
    log = fc.read_log(tables.log_table(CASE.records, day=[d.day for d in dated]), period="day")
    found = fc.backtest(log, metrics="dcg@4", estimators=clipped(paper([model]), CLIPS))
    for row in found:
        right = protocol.backtest(dated, model, THETAS["dcg@4"], row["clip"])
        assert row["rmse"] == pytest.approx(right.rmse, rel=1e-9)
        assert (row["folds"], row["pairs"]) == (right.folds, right.pairs)
