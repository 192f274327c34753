"""A fit that did not converge says so: its numbers would look like any others."""

import pytest

import foreclick as fc
from foreclick.errors import ModelError
from tests.questions.verbs import table

LIMITS = ("ROUNDS", "LEVEL_ROUNDS")


@pytest.fixture
def log():
    source, roles, new = table(text=True)
    return fc.tally(fc.read_log(source, **roles)), new


@pytest.fixture(params=LIMITS)
def unsolved(request, monkeypatch):
    """Fits that stop after one step."""
    monkeypatch.setattr(f"foreclick.ladder.coefficients.{request.param}", 1)


def test_nothing_is_called_better_or_worse_by_it(log, unsolved):
    tally, new = log
    found = fc.evaluate(tally, new, metrics=["clicks@2", "dcg@3"], estimators=["ladder", "ip"])
    words = {(row["estimator"], row["verdict"]) for row in found if row["estimator"] == "ladder"}
    assert words == {("ladder", "cannot tell")}
    assert "the fit of click rates did not converge" in str(found)
    assert "Next: ask by an estimator that fits nothing, estimators='ip'." in str(found).replace(
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
        lambda tally: fc.explore(tally, {f"q{x}": [100, 101] for x in range(12)}),
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
    assert set(fc.evaluate(tally, new, estimators="ladder")["verdict"]) == {"cannot tell"}
