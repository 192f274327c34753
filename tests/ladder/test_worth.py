"""If this fails, revenue that clicks earn is not what the formulas say."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import batches_of
from foreclick.estimation.columns import View
from foreclick.ladder import click_value, shrinkage
from foreclick.ladder.candidates import examined_records
from foreclick.ladder.click_value import ValuePart
from foreclick.ladder.fit import fit_candidates, with_click_values
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.sample import earned_by_clicks, sampled
from foreclick.ladder.score import score_ladder
from foreclick.metrics import Metric
from foreclick.question import Target
from foreclick.simulate import shop
from tests.cases.plain import drawn
from tests.cases.tables import lists_table, log_table
from tests.ladder.scenes import ranking, read, told
from tests.ladder.test_ladder import SMALL, P
from tests.tries import tries
from tests.truth import ladder as oracle
from tests.truth.oracle import clicks_at

BIDS = shop.Shop(records=8_000, queries=60, pool=20, catalogue=400, positions=5, prices=0.6)


def paying(found: shop.ShopLog, values: Any) -> fc.Log:  # noqa: ANN401
    """The log of a shop whose slots paid so much."""
    log = found.log.append_column("paid", [values])
    return read(found._replace(log=log), rewards={"paid": "paid"})


@pytest.mark.truth
@pytest.mark.parametrize("seed", range(1, tries(3, 5)))
@pytest.mark.parametrize("strengths", [None, (3.0, 7.0, 5.0), (math.inf, 4.0, math.inf), (2.0,)])
def test_it_is_what_loops_over_the_formulas_give(
    seed: int, strengths: tuple[float, ...] | None, monkeypatch: pytest.MonkeyPatch
):
    if strengths is not None:
        monkeypatch.setattr(click_value, "_finer_strengths", lambda *_: strengths)
    rng, case = np.random.default_rng(seed), drawn(seed, replace(SMALL, text=seed % 2 == 1))
    records = [record for record in case.records if record.context in case.candidate]
    price = {item: rng.gamma(2.0) for record in records for item in record.items}
    earned = [
        [c * price[i] * float(rng.choice([0.5, 1.0, 1.5])) for i, c in zip(r.items, r.clicks)]  # noqa: B905
        for r in records
    ]
    tally = fc.tally(fc.read_log(log_table(records, paid=earned), rewards={"paid": "paid"}))
    ladder = fc.Ladder("ip" if strengths == (2.0,) else "list", P, stopping=0.0)
    lists = fc.Lists(lists_table(case.candidate))
    fit = fit_candidates(tally, ladder, ["paid"], [lists], 6, drop=True)["paid"]
    found = fit.click_values
    assert found is not None
    paid, clicks = sum(map(sum, earned)), sum(sum(r.clicks) for r in records)
    assert found.mean == pytest.approx(paid / clicks)
    gamma, p = found.items.parameters, [*fit.parameters.p.tolist(), *[0.0] * 20]
    at, slope = found.positions.strengths, found.positions.slope
    truth = oracle.Worths(gamma.beta.tolist(), gamma.a, gamma.t, found.mean, p, at, slope)
    worths, score = truth.of(records, earned, case.candidate)
    # All that is known of γ beforehand is a variance of 1, and a click varies by φ.
    np.testing.assert_allclose(score, found.dispersion * gamma.beta, atol=1e-8)
    value = told(tally, lists, "paid@2", estimators=ladder, missing="drop")["value"]
    right = oracle.Truth.of(fit).value(records, case.candidate, clicks_at(2), earned, worths)
    assert value == pytest.approx(right, rel=1e-8)


@pytest.mark.parametrize("price", [1.0, 2.5])
def test_clicks_that_are_all_worth_the_same_are_clicks(price: float):
    found = shop.draw(replace(BIDS, prices=0.0), 3)
    log = paying(found, [[price * c for c in each] for each in found.log["clicks"].to_pylist()])
    asked: dict[str, Any] = {"metrics": ["clicks@3", "paid@3"], "estimators": "ladder"}
    clicks, same = fc.evaluate(log, ranking(found, "better"), **asked).to_dicts()
    for name in ("value", "se", "low", "high", "change_low", "change_high"):
        assert same[name] == pytest.approx(price * clicks[name], rel=1e-9), name
    for name in ("lift", "lift_low", "lift_high", "covered", "ess"):
        assert same[name] == pytest.approx(clicks[name], rel=1e-9), name
    assert same["verdict"] == clicks["verdict"]
    clicks, same = fc.backtest(log, **asked).to_dicts()
    for name in ("rmse", "bias", "floor"):
        assert same[name] == pytest.approx(price * clicks[name], rel=1e-9), name


@pytest.mark.parametrize(
    ("strengths", "slope"), [((math.inf,) * 3, 0.0), ((100.0, math.inf, 60.0), 0.3)]
)
def test_a_reward_moves_the_answer_as_psi_says(
    strengths: tuple[float, ...], slope: float, monkeypatch: pytest.MonkeyPatch
):
    """A hundredth more of some rewards, and everything learnt again but strengths and noise."""
    found = shop.draw(BIDS, 5)
    roles: dict[str, Any] = {"period": None, "unit": None, "rewards": {"orders": "orders"}}
    tally, candidate = fc.tally(read(found, **roles)), ranking(found, "worse")
    (batch,) = batches_of(tally)
    mean = batch.rewards["orders"].value.sum() / batch.rewards["clicks"].value.sum()
    given = {
        "mean_and_dispersion": lambda *_: (mean, 8.0),
        "_finer_strengths": lambda *_: strengths,
        "_position_slope": lambda *_: (slope, 0.01),
        "_item_strengths": lambda *o: RateParameters(o[5].beta, o[5].p, 8.0 * 4, 8.0 * 3),
    }
    for name, function in given.items():
        monkeypatch.setattr(click_value, name, function)
    monkeypatch.setattr(shrinkage, "LEVERAGE_BOUND", 0.0)
    base = fit_candidates(tally, fc.Ladder(), ["clicks"], [candidate], 6, drop=False)["clicks"]
    target = Target(fc.Ladder().model, Metric("orders@3"), math.inf, fc.Ladder())

    def asked(batch: Any) -> Any:  # noqa: ANN401
        view = View.of(batch, [candidate], 6)
        every = sampled(batch, base.log.spec.sample)
        part = ValuePart(batch, *examined_records(view, base), every)
        log, values = with_click_values(base.log, "orders", [part])
        fit = replace(base, log=log, click_values=values)
        sensitivity: Any = score_ladder(view, [target], fit, rows=False).click_value_gradient
        items = values.items.gradient(sensitivity)
        return score_ladder(view, [target], fit, rows=True, items=items)

    before, reward = asked(batch), batch.rewards["orders"]
    psi, right = [], []
    for row in reward.row[:: len(reward.row) // 12]:
        more = reward._replace(value=reward.value + 0.01 * (reward.row == row))
        after = asked(replace(batch, rewards={**batch.rewards, "orders": more}))
        right.append(float(after.value.sum() - before.value.sum()))
        psi.append(float((after.influence[0] - before.influence[0])[row] * batch.n[row]))
    np.testing.assert_allclose(psi, right, rtol=0.05, atol=7e-4)


def test_what_is_earned_without_clicks_is_no_worth_of_clicks():
    for without in (0, 1.5):
        table = {
            "context": ["q"] * 40,
            "items": [[1, 2], [2, 1]] * 20,
            "clicks": [[1, 0], [0, 0]] * 20,
            "paid": [[2.5, 0], [0, without]] + [[2.5, 0], [0, 0]] * 19,
        }
        batches = batches_of(fc.tally(fc.read_log(table, rewards={"paid": "paid"})))
        assert earned_by_clicks(batches, "paid") is not bool(without)
        assert not earned_by_clicks(batches, "clicks")


def test_parts_add_up_to_the_whole():
    found = shop.draw(BIDS, 7)
    land = np.array(["NL", "BE", "FR"])[np.asarray(found.log["user"]) % 3]
    found = found._replace(log=found.log.append_column("land", [land]))
    log = read(found, unit=None, segments="land", rewards={"revenue": "revenue"})
    candidate = ranking(found, "better")
    whole = told(log, candidate, "revenue@3")
    parts = fc.evaluate(log, candidate, by="land", metrics="revenue@3", estimators="ladder")
    total = sum(row["value"] * row["records"] for row in parts.to_dicts())
    assert total / whole["records"] == pytest.approx(whole["value"], rel=1e-9)
    assert all(se > whole["se"] for se in parts["se"])


@pytest.mark.parametrize("bought", [0.3, 1.0])
def test_a_candidate_of_dear_items_is_held(bought: float):
    kind, held = replace(BIDS, records=20_000, bought=bought, candidates=("dear",)), []
    for seed in (11, 12, 13):
        found = shop.draw(kind, seed)
        log = read(found, rewards={"revenue": "revenue"})
        row, truth = told(log, ranking(found, "dear"), "revenue@3"), found.lift("dear", "revenue@3")
        assert abs(row["lift"] - truth) < 0.06
        held.append(row["lift_low"] <= truth <= row["lift_high"])
    assert sum(held) >= 2


def test_a_click_may_be_worth_more_at_lower_positions():
    kind = replace(BIDS, records=20_000, bought=0.3, candidates=("better", "worse", "dear"))
    found, more = shop.draw(kind, 21), np.arange(1, 6) ** 0.5
    log = paying(found, (np.array(found.log["revenue"].to_pylist()) * more).tolist())
    truth = found._replace(expected={key: each * more for key, each in found.expected.items()})
    for name in found.candidates:
        row = told(log, ranking(found, name), "paid@3")
        assert row["lift_low"] < truth.lift(name, "revenue@3") < row["lift_high"], name


def test_a_column_that_nobody_uses_does_not_move_the_error_of_a_ratio():
    """It parts rows of equal records, in a log that has no days to count by."""
    rng = np.random.default_rng(8)
    clicks = rng.integers(0, 2, (400, 2))
    log = {
        "context": rng.integers(0, 3, 400).tolist(),
        "items": [rng.permutation(3)[:2].tolist() for _ in range(400)],
        "clicks": clicks.tolist(),
        "paid": (clicks * rng.choice([1.0, 4.0], clicks.shape)).tolist(),
        "idle": rng.integers(0, 50, 400).tolist(),
    }
    lists = {"context": [0, 1, 2], "items": [[0, 1], [2, 0], [1, 2]]}
    one, other = (
        told(fc.read_log(log, rewards={"paid": "paid"}, segments=idle), lists, "paid@2/clicks@2")
        for idle in ([], ["idle"])
    )
    assert other["se"] == pytest.approx(one["se"], rel=1e-12, abs=0)
