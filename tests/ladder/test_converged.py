"""If this fails, a fit that has not converged gives numbers that look like any others."""

import pytest

import foreclick as fc
from foreclick.errors import ModelError
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
