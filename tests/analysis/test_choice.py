"""`estimators="auto"`: who is chosen, what is said of it, and what that adds to an interval."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick import simulate
from foreclick.analysis.choice import AUTO_ESTIMATORS, Choice, _choose, as_chosen, choose
from foreclick.errors import BacktestError
from foreclick.estimators import Question, Spread, Sums, clustered, estimate, parse_estimators
from foreclick.metrics import Metric, parse_metrics
from foreclick.policies import as_policy
from tests.answers import close, same, settled

METRIC = Metric("clicks@3")


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Users who read downwards: what stands above an item tells much about it."""
    rng = np.random.default_rng(0)
    world = simulate.Cascade(rng.uniform(0.1, 0.6, (6, 6)), 4)
    shown = simulate.Drifting(6, 6, 4, simulate.Drift(days=8, variants=(3, 6)), 1)
    return simulate.Simulation(world, shown, 6000).sample(seed=2)


@pytest.fixture(scope="module")
def log(table: pa.Table) -> fc.Log:
    return fc.read_log(table, context="query", period="day")


@pytest.fixture(scope="module")
def late(table: pa.Table) -> fc.Observed:
    """What was shown on the last days."""
    return fc.Observed(fc.read_log(table, context="query", where="day > 4"))


@pytest.fixture(scope="module")
def tested(log: fc.Log) -> fc.Backtest:
    return fc.backtest(log, metrics=[METRIC], estimators=list(AUTO_ESTIMATORS))


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


def auto_beside(others: list[Any], *asked: Any, **options: Any) -> dict[str, Any]:  # noqa: ANN401
    """The one row of "auto", asked for beside others."""
    found = fc.evaluate(*asked, estimators=[*others, "auto"], metrics=[METRIC], **options)
    (row,) = [row for row in settled(found) if row["estimator"] == "auto"]
    return row


@pytest.mark.parametrize("chosen", ["ladder"])
def test_it_answers_alike_whatever_else_is_asked_for(log: fc.Log, late: fc.Observed, chosen: str):
    tested = fc.backtest(log, metrics=[METRIC], estimators=["ip", "ladder"], clip=[2, 5, math.inf])
    assert tested.periods is not None
    rows = tuple(row for row in tested.periods.rows if row["estimator"] == chosen)
    tested = replace(tested, periods=replace(tested.periods, rows=rows))
    alone = auto_beside([], log, late, backtest=tested)
    mild = fc.Ladder(strengths=[9, 9, 9, 9])
    assert same(auto_beside(["ip"], log, late, backtest=tested, clip=2), alone)
    beside = auto_beside(["ip", mild], log, late, backtest=tested, clip=[2, 5])
    assert same(beside, alone)
    assert beside["clip"] == math.inf


def test_the_baseline_is_answered_for_by_the_same(
    log: fc.Log, late: fc.Observed, tested: fc.Backtest
):
    options: dict[str, Any] = {"clusters": None, "clip": 5, "backtest": tested}
    one = auto_beside(["list"], log, late, baseline=fc.Observed(log), **options)
    other = auto_beside(["list"], log, fc.Observed(log), baseline=late, **options)
    assert close(one["value"], other["production"])


def test_a_choice_does_not_depend_on_other_metrics(log: fc.Log):
    first, counted = Metric("success@3"), fc.tally(log)
    both = choose(counted, [first, METRIC], None)
    assert list(both) == [first, METRIC]
    assert "ladder-ip" in both[METRIC].because
    assert both[METRIC] == choose(counted, [METRIC], None)[METRIC]


def test_without_periods_the_ladder_answers():
    table = pa.table({"context": ["q"] * 8, "items": [[1, 2], [2, 1]] * 4, "clicks": [[1, 0]] * 8})
    found = fc.evaluate(table, {"context": ["q"], "items": [[2, 1]]}, estimators="auto")
    assert found["estimator"] == ["auto", "auto"]
    assert any("no periods to choose by" in note for note in found.notes)


def test_first_clicks_are_chosen_for_by_those_who_know_them(log: fc.Log):
    found = fc.evaluate(
        log, fc.Observed(log), estimators="auto", metrics=["success@3", "clicks@3"], clusters=None
    )
    assert found["estimator"] == ["auto", "auto"]
    assert found["metric"] == ["success@3", "clicks@3"]
    assert 0 < found["value"][0] < 1


def test_periods_count_as_they_did_in_the_backtest(tested: fc.Backtest):
    """Day 1 has half of the pairs and nearly no records; `ladder` was right there, `ip` later."""

    def row(estimator: str, day: int, rmse: float) -> dict[str, Any]:
        pairs, records = (10, 20.0) if day == 1 else (10, 980.0)
        known = {"metric": METRIC.name, "clip": math.inf, "pairs": pairs, "records": records}
        return {"estimator": estimator, "period": day, "rmse": rmse, **known}

    errors = {"ladder": (0.1, 0.5), "ip": (0.9, 0.4)}
    rows = [row(name, d, e) for name, by_day in errors.items() for d, e in enumerate(by_day, 1)]
    periods = fc.results.Result(tuple(rows), tuple(rows[0]))
    by_pairs = _choose(replace(tested, periods=periods), METRIC)
    by_records = _choose(replace(tested, periods=periods, weight="records"), METRIC)
    assert (by_pairs.chosen, by_records.chosen) == ("ladder", "ip")
    right = math.sqrt(0.02 * 0.9**2 + 0.98 * 0.4**2)
    assert f"RMSE {right:.4g}" in by_records.because


def test_the_error_that_is_told_is_that_of_the_backtest(log: fc.Log):
    found = fc.backtest(log, metrics=[METRIC], estimators=["ip"], weight="records")
    assert f"RMSE {found['rmse'][0]:.4g}" in _choose(found, METRIC).because


def answers_of(log: fc.Log) -> dict[str, Sums]:
    question = Question(
        as_policy(fc.Observed(log)),
        parse_estimators(list(AUTO_ESTIMATORS)),
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
