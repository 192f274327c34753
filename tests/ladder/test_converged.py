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

SHOP = Shop(6_000, 40, pool=20, catalogue=400, positions=5, candidates=("better",))
UNSOLVED = "the fit of click rates did not converge"


@pytest.fixture(scope="module")
def shop():
    return draw(SHOP, 1)


@pytest.fixture
def log(shop):
    """With a candidate that is better, and is called so where fits converge."""
    new = fc.Ranking(shop.candidates["better"], context="query")
    return fc.tally(fc.read_log(shop.log, context="query", period="day", unit="user")), new


@pytest.fixture(params=["coefficients.ROUNDS", "rates.LEVEL_ROUNDS"])
def unsolved(request, monkeypatch):
    """Fits that stop after one step."""
    monkeypatch.setattr(f"foreclick.ladder.{request.param}", 1)


def judged(log, estimators, metrics=("clicks@2",)):
    """The verdicts by the ladder, and all that is printed, in one line."""
    found = fc.evaluate(*log, metrics=metrics, estimators=estimators)
    verdicts = {row["verdict"] for row in found if row["estimator"] == "ladder"}
    return verdicts, " ".join(str(found).split())


def test_a_fit_that_converges_has_a_verdict(log):
    verdicts, printed = judged(log, "ladder")
    assert verdicts == {"better"}
    assert "converge" not in printed


@pytest.mark.usefixtures("unsolved")
def test_nothing_is_called_better_or_worse_by_it(log):
    verdicts, printed = judged(log, ["ladder", "ip"], ["clicks@2", "dcg@3"])
    assert verdicts == {"cannot tell"}
    assert UNSOLVED in printed
    assert "Next: use an estimator without a fit, estimators='ip'." in printed
    assert "converge" not in judged(log, "ip")[1]


@pytest.mark.usefixtures("unsolved")
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
def test_no_policy_grade_or_prediction_is_made_of_it(log, ask):
    with pytest.raises(ModelError, match="did not converge on this log"):
        ask(log[0])


def test_strengths_that_do_not_settle_are_noticed(log, monkeypatch):
    monkeypatch.setattr("foreclick.ladder.fit.SETTLED", 0.0)
    verdicts, printed = judged(log, "ladder")
    assert verdicts == {"cannot tell"}
    assert UNSOLVED in printed


# --- logs whose clicks by period identify nothing -------------------------------------------------


def lists_as_periods(seed):
    """A log whose periods are its lists, in no order; rates of items have a long tail."""
    rng, rows = np.random.default_rng(seed), []
    for x in range(3):
        rate = np.minimum(rng.gamma(0.15, 1.0, 12), 0.95)
        for _ in range(40):
            shown = np.argsort(-rate + rng.normal(0, 0.3, 12))[:5]
            clicks = rng.random((int(2 + rng.pareto(0.8) * 5), 5)) < rate[shown]
            rows += [(x, shown, each, str(shown)) for each in clicks[:2_000].astype(int)]
    names = ("context", "items", "clicks", "shown")
    table = {
        name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    return fc.tally(fc.read_log(pa.table(table), period="shown"))


def test_every_fit_is_solved_and_an_answer_says_where_periods_are_left_out():
    fails = set()
    for seed in range(4):
        tally = lists_as_periods(seed)
        fit = production_fit(batches_of(tally), Ladder(), "clicks")
        assert all(report.converged and report.score < 1 for report in fit.reports)
        assert fit.spec.dated is not fit.spec.by_period_fails
        notes = " ".join(fc.evaluate(tally, fc.Observed(tally), estimators="ladder").notes)
        assert ("the fit leaves periods out" in notes) is fit.spec.by_period_fails
        fails.add(fit.spec.by_period_fails)
    assert fails == {True, False}
