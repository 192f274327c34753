"""`estimators="auto"`: who is chosen, what is said of it, and what that adds to an interval."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick import simulate
from foreclick._choice import CANDIDATES, Choice, _choose, as_chosen
from foreclick.errors import BacktestError
from foreclick.estimators import Question, Spread, Sums, clustered, estimate, parse_estimators
from foreclick.metrics import Metric, parse_metrics
from foreclick.policies import as_policy

METRIC = Metric("clicks@3")


@pytest.fixture(scope="module")
def log() -> fc.Log:
    """Users who read downwards: what stands above an item tells much about it."""
    rng = np.random.default_rng(0)
    world = simulate.Cascade(rng.uniform(0.1, 0.6, (6, 6)), 4)
    shown = simulate.Drifting(6, 6, 4, simulate.Drift(days=8, variants=(3, 6)), 1)
    table = simulate.Simulation(world, shown, 6000).sample(seed=2)
    return fc.read_log(table, context="query", period="day")


@pytest.fixture(scope="module")
def tested(log: fc.Log) -> fc.Backtest:
    return fc.backtest(log, metrics=[METRIC], estimators=list(CANDIDATES))


def test_the_best_in_the_backtest_answers(log: fc.Log, tested: fc.Backtest):
    candidate = fc.Observed(log)
    found = fc.evaluate(log, candidate, estimators=["rctr", "auto"], metrics=[METRIC])
    best = tested.to_dicts()[int(np.argmin(tested["rmse"]))]["estimator"]
    alone = fc.evaluate(log, candidate, estimators=[best], metrics=[METRIC])
    assert found["estimator"] == ["rctr", "auto"]
    assert math.isclose(found["value"][1], alone["value"][0], rel_tol=1e-12)
    assert any(note.startswith(f"auto for clicks@3: {best}, for") for note in found.notes)


def test_a_backtest_that_was_made_is_not_made_again(log: fc.Log, tested: fc.Backtest):
    found = fc.evaluate(log, fc.Observed(log), estimators="auto", metrics=[METRIC], backtest=tested)
    assert found["estimator"] == ["auto"]
    other = fc.backtest(log, metrics=[METRIC], estimators=["list"])
    with pytest.raises(BacktestError, match="nothing to choose among"):
        fc.evaluate(log, fc.Observed(log), estimators="auto", metrics=[METRIC], backtest=other)


def test_without_periods_the_ladder_answers():
    table = pa.table({"context": ["q"] * 8, "items": [[1, 2], [2, 1]] * 4, "clicks": [[1, 0]] * 8})
    found = fc.evaluate(table, {"context": ["q"], "items": [[2, 1]]}, estimators="auto")
    assert found["estimator"] == ["auto", "auto"]
    assert any("no periods to choose by" in note for note in found.notes)


def test_first_clicks_are_chosen_for_by_those_who_know_them(log: fc.Log):
    found = fc.evaluate(
        log, fc.Observed(log), estimators="auto", metrics="success@3", clusters=None
    )
    assert found["estimator"] == ["auto"]
    assert 0 < found["value"][0] < 1


def answers_of(log: fc.Log) -> dict[str, Sums]:
    question = Question(
        as_policy(fc.Observed(log)),
        parse_estimators(list(CANDIDATES)),
        parse_metrics([METRIC]),
        clusters=("period",),
    )
    return {s.model.name: s for s in estimate(fc.tally(log), question).sums}


def spread_of(sums: Sums) -> Spread:
    assert sums.spread is not None
    return sums.spread


def test_a_choice_that_hangs_on_one_day_widens_the_interval(log: fc.Log, tested: fc.Backtest):
    answers = answers_of(log)
    firm = Choice("ladder", dict.fromkeys(range(1, 9), "ladder"), "")
    mine, other = answers["ladder"], answers["ip"]
    same = spread_of(as_chosen(firm, answers)).covariance
    np.testing.assert_allclose(same, spread_of(mine).covariance, rtol=1e-12)
    shaky = Choice("ladder", firm.without | {3: "ip"}, "")
    found = spread_of(as_chosen(shaky, answers)).covariance
    # By hand: eight jackknife replicates, of which the third is that of `ip`.
    value, sums, theirs = float(mine.value or 0), spread_of(mine).sums, spread_of(other).sums
    assert sums is not None
    assert theirs is not None
    replicates = value - sums[:, 0] * 8 / 7
    replicates[2] = float(other.value or 0) - theirs[2, 0] * 8 / 7
    right = 7 / 8 * np.sum((replicates - value) ** 2)
    hidden = same[0, 0] - clustered(sums).covariance[0, 0]
    assert found[0, 0] == pytest.approx(right + hidden)
    assert _choose(tested, METRIC).without.keys() == set(range(1, 9))
