"""If this fails, revenue that clicks earn is not what the formulas say."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

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
from tests.ladder.test_ladder import SMALL, P
from tests.tries import tries
from tests.truth import ladder as oracle
from tests.truth.oracle import Policy, Record, clicks_at

BIDS = shop.Shop(records=8_000, queries=60, pool=20, catalogue=400, positions=5, prices=0.6)


def read(found: shop.ShopLog, reward: str, values: Any = None, **roles: Any) -> fc.Log:  # noqa: ANN401
    """The log of a shop, with another column for a reward if it is given."""
    table = found.log
    if values is not None:
        kept = table.drop([reward]) if reward in table.column_names else table
        table = kept.append_column(reward, [values])
    own = {"period": "day", "unit": "user", "rewards": {reward: reward}} | roles
    return fc.read_log(table, context="query", **own)


def ranking(found: shop.ShopLog, name: str) -> fc.Ranking:
    return fc.Ranking(found.candidates[name], context="query")


class Paid(NamedTuple):
    """A random log of contexts that the candidate knows, and what its clicks earn."""

    records: list[Record]
    candidate: Policy
    earned: list[tuple[float, ...]]

    @classmethod
    def drawn(cls, seed: int) -> Paid:
        rng, case = np.random.default_rng(seed), drawn(seed, **SMALL, text=seed % 2 == 1)
        known = [record for record in case.records if record.context in case.candidate]
        price = {item: rng.gamma(2.0) for record in known for item in record.items}
        earned = [
            tuple(
                click * price[item] * float(rng.choice([0.5, 1.0, 1.5]))
                for item, click in zip(record.items, record.clicks, strict=True)
            )
            for record in known
        ]
        return cls(known, case.candidate, earned)


@pytest.mark.truth
@pytest.mark.parametrize("seed", range(1, tries(3, 5)))
@pytest.mark.parametrize("strengths", [None, (3.0, 7.0, 5.0), (math.inf, 4.0, math.inf), (2.0,)])
def test_it_is_what_loops_over_the_formulas_give(
    seed: int, strengths: tuple[float, ...] | None, monkeypatch: pytest.MonkeyPatch
):
    if strengths is not None:
        monkeypatch.setattr(click_value, "_finer_strengths", lambda *_: strengths)
    case = Paid.drawn(seed)
    earned, lists = case.earned, fc.Lists(lists_table(case.candidate))
    table = log_table(case.records, paid=[list(each) for each in earned])
    tally = fc.tally(fc.read_log(table, rewards={"paid": "paid"}))
    ladder = fc.Ladder("ip" if strengths == (2.0,) else "list", P, stopping=0.0)
    fit = fit_candidates(tally, ladder, ["paid"], [lists], 6, drop=True)["paid"]
    found = fit.click_values
    assert found is not None
    paid, clicked = (
        sum(r.weight * sum(each) for r, each in zip(case.records, of, strict=True))
        for of in (earned, [r.clicks for r in case.records])
    )
    assert found.mean == pytest.approx(paid / clicked)
    gamma, p = found.items.parameters, [*fit.parameters.p.tolist(), *[0.0] * 20]
    at, slope = found.positions.strengths, found.positions.slope
    truth = oracle.Worths(gamma.beta.tolist(), gamma.a, gamma.t, found.mean, p, at, slope)
    worths, score = truth.of(case.records, earned, case.candidate)
    # All that is known of γ beforehand is a variance of 1, and a click varies by φ.
    np.testing.assert_allclose(score, found.dispersion * gamma.beta, atol=1e-8)
    metric, theta = "paid@2", clicks_at(2)
    ask = fc.evaluate(tally, lists, metrics=metric, estimators=ladder, missing="drop")
    right = oracle.Truth.of(fit).value(case.records, case.candidate, theta, earned, worths)
    assert ask["value"][0] == pytest.approx(right, rel=1e-8)


@pytest.mark.parametrize("price", [1.0, 2.5])
def test_clicks_that_are_all_worth_the_same_are_clicks(price: float):
    found_shop = shop.draw(replace(BIDS, prices=0.0), 3)
    paid = [[price * click for click in clicks] for clicks in found_shop.log["clicks"].to_pylist()]
    log, candidate = read(found_shop, "paid", paid), ranking(found_shop, "better")
    found = fc.evaluate(log, candidate, metrics=["clicks@3", "paid@3"], estimators="ladder")
    clicks, same = found.to_dicts()
    for name in ("value", "se", "low", "high", "change_low", "change_high"):
        assert same[name] == pytest.approx(price * clicks[name], rel=1e-9), name
    for name in ("lift", "lift_low", "lift_high", "covered", "ess"):
        assert same[name] == pytest.approx(clicks[name], rel=1e-9), name
    assert same["verdict"] == clicks["verdict"]
    held = fc.backtest(log, estimators="ladder", metrics=["clicks@3", "paid@3"]).to_dicts()
    for name in ("rmse", "bias", "floor"):
        assert held[1][name] == pytest.approx(price * held[0][name], rel=1e-9), name


@pytest.mark.parametrize(
    ("strengths", "slope"), [((math.inf,) * 3, 0.0), ((100.0, math.inf, 60.0), 0.3)]
)
def test_a_reward_moves_the_answer_as_psi_says(
    strengths: tuple[float, ...], slope: float, monkeypatch: pytest.MonkeyPatch
):
    """A hundredth more of some rewards, and everything learnt again but strengths and noise."""
    found_shop = shop.draw(BIDS, 5)
    log = read(found_shop, "orders", period=None, unit=None)
    candidate = ranking(found_shop, "worse")
    (batch,) = batches_of(fc.tally(log))
    mean = batch.rewards["orders"].value.sum() / batch.rewards["clicks"].value.sum()
    monkeypatch.setattr(click_value, "mean_and_dispersion", lambda *_: (mean, 8.0))
    monkeypatch.setattr(click_value, "_finer_strengths", lambda *_: strengths)
    monkeypatch.setattr(click_value, "_position_slope", lambda *_: (slope, 0.01))
    monkeypatch.setattr(shrinkage, "LEVERAGE_BOUND", 0.0)
    given = 8.0 * 4, 8.0 * 3
    with_given = lambda *o: RateParameters(o[5].beta, o[5].p, *given)  # noqa: E731
    monkeypatch.setattr(click_value, "_item_strengths", with_given)
    view = View.of(batch, [candidate], 6)
    fits = fit_candidates(fc.tally(log), fc.Ladder(), ["clicks"], [candidate], 6, drop=False)
    base = fits["clicks"]
    target = Target(fc.Ladder().model, Metric("orders@3"), math.inf, fc.Ladder())

    def asked(view: View) -> Any:  # noqa: ANN401
        every = sampled(view.batch, base.log.spec.sample)
        part = ValuePart(view.batch, *examined_records(view, base), every)
        log, values = with_click_values(base.log, "orders", [part])
        fit = replace(base, log=log, click_values=values)
        sensitivity = score_ladder(view, [target], fit, rows=False).click_value_gradient
        assert sensitivity is not None
        items = values.items.gradient(sensitivity)
        return score_ladder(view, [target], fit, rows=True, items=items)

    before = asked(view)
    reward, told, right = batch.rewards["orders"], [], []
    moved = before.influence[0]
    for row in reward.row[:: len(reward.row) // 12]:
        value = reward.value + 0.01 * (reward.row == row)
        more = replace(batch, rewards={**batch.rewards, "orders": reward._replace(value=value)})
        after = asked(View.of(more, [candidate], 6))
        right.append(float(after.value.sum() - before.value.sum()))
        told.append(float((after.influence[0] - moved)[row] * batch.n[row]))
    np.testing.assert_allclose(told, right, rtol=0.05, atol=7e-4)


def test_what_is_earned_without_clicks_is_no_worth_of_clicks():
    table: dict[str, Any] = {
        "context": ["q"] * 40,
        "items": [[1, 2], [2, 1]] * 20,
        "clicks": [[1, 0], [0, 0]] * 20,
        "paid": [[2.5, 0], [0, 0]] * 20,
    }
    for without in (False, True):
        table["paid"][1] = [0, 1.5 * without]
        log = fc.read_log(table, rewards={"paid": "paid"})
        batches = batches_of(fc.tally(log))
        assert earned_by_clicks(batches, "paid") is not without
        assert not earned_by_clicks(batches, "clicks")


def test_parts_add_up_to_the_whole():
    found_shop = shop.draw(BIDS, 7)
    land = np.array(["NL", "BE", "FR"])[np.asarray(found_shop.log["user"]) % 3]
    found_shop = found_shop._replace(log=found_shop.log.append_column("land", [land]))
    log = read(found_shop, "revenue", unit=None, segments="land")
    candidate = ranking(found_shop, "better")
    options: dict[str, Any] = {"metrics": ["revenue@3"], "estimators": "ladder"}
    found = fc.evaluate(log, candidate, by="land", **options).to_dicts()
    (whole,) = fc.evaluate(log, candidate, **options).to_dicts()
    total = sum(row["value"] * row["records"] for row in found)
    assert total / whole["records"] == pytest.approx(whole["value"], rel=1e-9)
    assert all(row["se"] > whole["se"] for row in found)


@pytest.mark.parametrize("bought", [0.3, 1.0])
def test_a_candidate_of_dear_items_is_held(bought: float):
    kind = replace(BIDS, records=20_000, bought=bought, candidates=("dear",))
    held = []
    for seed in (11, 12, 13):
        found_shop = shop.draw(kind, seed)
        log, candidate = read(found_shop, "revenue"), ranking(found_shop, "dear")
        (row,) = fc.evaluate(log, candidate, metrics="revenue@3", estimators="ladder").to_dicts()
        truth = found_shop.lift("dear", "revenue@3")
        assert abs(row["lift"] - truth) < 0.06
        held.append(row["lift_low"] <= truth <= row["lift_high"])
    assert sum(held) >= 2


def test_a_click_may_be_worth_more_at_lower_positions():
    kind = replace(BIDS, records=20_000, bought=0.3, candidates=("better", "worse", "dear"))
    found_shop = shop.draw(kind, 21)
    more = np.arange(1, kind.positions + 1) ** 0.5
    paid = [[r * m for r, m in zip(each, more)] for each in found_shop.log["revenue"].to_pylist()]  # noqa: B905
    log = read(found_shop, "revenue", paid)
    expected = {key: each * more for key, each in found_shop.expected.items()}
    for name in found_shop.candidates:
        truth = found_shop._replace(expected=expected).lift(name, "revenue@3")
        candidate = ranking(found_shop, name)
        (row,) = fc.evaluate(log, candidate, metrics="revenue@3", estimators="ladder").to_dicts()
        assert row["lift_low"] < truth < row["lift_high"], name


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
    ses = []
    for segments in ([], ["idle"]):
        read_as = fc.read_log(log, rewards={"paid": "paid"}, segments=segments)
        found = fc.evaluate(read_as, lists, metrics="paid@2/clicks@2", estimators="ladder")
        ses.append(found["se"][0])
    assert ses[1] == pytest.approx(ses[0], rel=1e-12, abs=0)
