"""If this fails, a fit that has not converged gives numbers that look like any others."""

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.errors import ModelError
from foreclick.estimators import Ladder
from foreclick.ladder.fit import production_fit
from foreclick.simulate.shop import Shop, draw

LIMITS = ("coefficients.ROUNDS", "rates.LEVEL_ROUNDS")
SHOP = Shop(
    records=6_000,
    queries=40,
    pool=20,
    catalogue=400,
    positions=5,
    candidates=("better",),
)


@pytest.fixture(scope="module")
def shop():
    return draw(SHOP, 1)


@pytest.fixture
def log(shop):
    """With a candidate that is better, and is called so where fits converge."""
    new = fc.Ranking(shop.candidates["better"], context="query")
    return fc.tally(fc.read_log(shop.log, context="query", period="day", unit="user")), new


@pytest.fixture(params=LIMITS)
def unsolved(request, monkeypatch):
    """Fits that stop after one step."""
    monkeypatch.setattr(f"foreclick.ladder.{request.param}", 1)


def test_a_fit_that_converges_has_a_verdict(log):
    tally, new = log
    found = fc.evaluate(tally, new, metrics="clicks@2", estimators="ladder")
    assert found["verdict"] == ["better"]
    assert "converge" not in str(found)


def test_nothing_is_called_better_or_worse_by_it(log, unsolved):
    tally, new = log
    found = fc.evaluate(tally, new, metrics=["clicks@2", "dcg@3"], estimators=["ladder", "ip"])
    words = {(row["estimator"], row["verdict"]) for row in found if row["estimator"] == "ladder"}
    assert words == {("ladder", "cannot tell")}
    assert "the fit of click rates did not converge" in str(found)
    assert "Next: use an estimator without a fit, estimators='ip'." in str(found).replace(
        "\n  ", " "
    )
    alone = fc.evaluate(tally, new, metrics="clicks@2", estimators="ip")
    assert "converge" not in str(alone)


@pytest.mark.parametrize(
    "ask",
    [
        fc.optimize,
        fc.judgments,
        lambda tally: fc.backtest(tally, estimators="ladder"),
        lambda tally: fc.explore(tally, fc.Observed(tally)),
    ],
    ids=["optimize", "judgments", "backtest", "explore"],
)
def test_no_policy_grade_or_prediction_is_made_of_it(log, unsolved, ask):
    tally, _ = log
    with pytest.raises(ModelError, match="did not converge on this log"):
        ask(tally)


def test_strengths_that_do_not_settle_are_noticed(log, monkeypatch):
    monkeypatch.setattr("foreclick.ladder.fit.SETTLED", 0.0)
    tally, new = log
    found = fc.evaluate(tally, new, metrics="clicks@2", estimators="ladder")
    assert found["verdict"] == ["cannot tell"]
    assert "the fit of click rates did not converge" in str(found)


# --- logs whose clicks by period identify nothing -------------------------------------------------


def lists_as_periods(seed, contexts=8, items=12, lists=40, positions=5):
    """A log whose periods are its lists, in no order; rates of items have a long tail."""
    rng, rows = np.random.default_rng(seed), []
    for x in range(contexts):
        rate = np.minimum(rng.gamma(0.15, 1.0, items), 0.95)
        for _ in range(lists):
            shown = np.argsort(-rate + rng.normal(0, 0.3, items))[:positions]
            clicks = rng.random((int(2 + rng.pareto(0.8) * 5), positions)) < rate[shown]
            rows += [(f"q{x}", shown, each, str(shown)) for each in clicks[:2_000]]
    columns: dict[str, list[object]] = {
        "query": [r[0] for r in rows],
        "shown": [r[3] for r in rows],
    }
    for k in range(positions):
        columns[f"item_{k}"] = [str(row[1][k]) for row in rows]
        columns[f"clicks_{k}"] = [int(row[2][k]) for row in rows]
    log = fc.read_log(
        pa.table(columns), context="query", items="item_*", clicks="clicks_*", period="shown"
    )
    return fc.tally(log)


def test_every_fit_is_solved_with_or_without_periods():
    tallies = [lists_as_periods(seed) for seed in range(6)]
    fits = [production_fit(batches_of(tally), Ladder(), "clicks") for tally in tallies]
    assert {fit.spec.by_period_fails for fit in fits} == {True, False}
    for fit in fits:
        assert all(report.converged and report.score < 1 for report in fit.reports)
        assert fit.spec.dated is not fit.spec.by_period_fails


@pytest.mark.parametrize("seed", range(2))
def test_an_answer_says_that_periods_are_left_out(seed):
    tally = lists_as_periods(seed)
    fails = production_fit(batches_of(tally), Ladder(), "clicks").spec.by_period_fails
    found = fc.evaluate(tally, fc.Observed(tally), estimators="ladder")
    assert ("the fit leaves periods out" in " ".join(found.notes)) is fails
