"""If this fails, what `errors` prints is not what the interval consists of."""

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from scipy.special import stdtrit

import foreclick as fc
from foreclick import allowances
from foreclick.batches import batches_of
from foreclick.estimators import LearntCurve
from foreclick.ladder.fit import production_fit
from foreclick.simulate.shop import REGIMES, Shop, draw

pytestmark = pytest.mark.filterwarnings("ignore:the contexts hardly repeat")

EQUAL = 1e-9  # of a standard error: the same sums, in another order
DAYS = 28


def ranked(drawn, name):
    return fc.Ranking(drawn.candidates[name], context="query")


@pytest.fixture(scope="module")
def shop():
    return draw(Shop(records=6_000), 3)


@pytest.fixture(scope="module")
def days(shop):
    return fc.tally(fc.read_log(shop.log, context="query", period="day"))


@pytest.fixture(scope="module")
def priced():
    drawn = draw(Shop(records=6_000, prices=0.6), 3)
    rewards = {"revenue": "revenue"}
    return drawn, fc.tally(fc.read_log(drawn.log, context="query", period="day", rewards=rewards))


def keys(row, by=()):
    return tuple(row[name] for name in ("metric", *by))


def check(found, by=(), freedom=None):
    """The squares add up to the variance, and what is left of the ends to the margins."""
    answers = [row for row in found.rows if row["estimator"] == found.answering]
    table = found.errors()
    assert {keys(row, by) for row in table} == {
        keys(row, by) for row in answers if row["lift_low"] is not None
    }
    for row in answers:
        own = [each for each in table if keys(each, by) == keys(row, by)]
        if not own:
            continue
        assert len({each["source"] for each in own}) == len(own)
        se = math.sqrt(sum(each["lift_se"] ** 2 for each in own))
        less, more = (sum(each[side] for each in own) for side in ("less", "more"))
        assert sum(each["share"] for each in own) == pytest.approx(1.0, abs=EQUAL)
        up, down = row["lift_high"] - more - row["lift"], row["lift"] - less - row["lift_low"]
        assert up == pytest.approx(down, abs=EQUAL * max(se, row["lift_high"]))
        if freedom is not None:
            reach = stdtrit(freedom, 0.975)
            assert up == pytest.approx(reach * se, rel=EQUAL)
    return table


def test_they_add_up_to_the_interval_of_a_ladder(shop, days):
    found = fc.evaluate(days, ranked(shop, "better"), metrics=["clicks@3", "dcg@10"])
    table = check(found, freedom=DAYS - 1)
    assert {"sampling", "model", "unseen"} == set(table["kind"])
    assert {"periods", "item effects", "form of the regression"} < set(table["source"])


@pytest.mark.parametrize("unit", [None, "user"])
@pytest.mark.parametrize("period", [None, "day"])
def test_they_add_up_whoever_varies_together(shop, period, unit):
    log = fc.read_log(shop.log, context="query", period=period, unit=unit)
    found = fc.evaluate(log, ranked(shop, "worse"), metrics="clicks@3")
    kinds = {"periods"} if period else set()
    kinds |= {"units"} if unit else set()
    freedom = min([DAYS - 1] * bool(period) + [29] * bool(unit), default=math.inf)
    table = check(found, freedom=freedom)
    assert {"periods", "units", "records"} & set(table["source"]) == (kinds or {"records"})


@pytest.mark.parametrize("estimator", ["ip", "list", "item", "prefix", "ladder-ip", "ip:2"])
def test_they_add_up_by_every_estimator(shop, days, estimator):
    found = fc.evaluate(days, ranked(shop, "better"), metrics="dcg@5", estimators=estimator)
    check(found, freedom=DAYS - 1)


def test_they_add_up_against_a_baseline(shop, days):
    one, other = (ranked(shop, name) for name in ("better", "worse"))
    for estimator in ("ladder", "ip"):
        found = fc.evaluate(days, one, metrics="clicks@3", baseline=other, estimators=estimator)
        check(found, freedom=DAYS - 1)


def test_they_add_up_in_every_segment():
    drawn = draw(Shop(records=6_000, others=(0.3, 1.0)), 3)
    log = fc.read_log(drawn.log, context="query", period="day", segments="taste")
    found = fc.evaluate(log, ranked(drawn, "better"), metrics="dcg@10", by="taste")
    assert "segment's own clicks" in check(found, ("taste",))["source"]


@pytest.mark.parametrize("metric", ["revenue@3", "revenue@3/clicks@3"])
def test_they_add_up_for_what_clicks_earn(priced, metric):
    drawn, log = priced
    found = fc.evaluate(
        log,
        ranked(drawn, "better"),
        metrics=metric,
        estimators="ladder",
    )
    assert "shrinkage of click values" in check(found, freedom=DAYS - 1)["source"]


def test_an_examination_that_was_learnt_is_a_source(shop, days):
    root = ((0.0, 0.0), (0.2, 0.0), (0.1, 0.3))
    curve = LearntCurve((1.0, 0.7, 0.5), root)
    found = fc.evaluate(
        days,
        ranked(shop, "better"),
        metrics="clicks@3",
        estimators=fc.Weighted("pbm", examination=curve),
    )
    assert "examination" in check(found, freedom=DAYS - 1)["source"]


def test_a_candidate_that_is_a_sample_is_a_source(shop, days):
    sample = fc.Observed(fc.read_log(shop.log, context="query", where="day < 15"))
    found = fc.evaluate(days, sample, metrics="clicks@3", missing="production")
    assert "candidate's sample" in check(found, freedom=DAYS - 1)["source"]


@pytest.mark.parametrize(
    ("constant", "source"),
    [
        ("FORM_ERROR", "form of the regression"),
        ("NEVER_SHOWN_SD", "items never shown"),
    ],
)
def test_twice_an_allowance_is_twice_its_own_error_alone(shop, monkeypatch, constant, source):
    log = fc.read_log(shop.log, context="query", period="day")

    def errors():
        found = fc.evaluate(log, ranked(shop, "better"), metrics="clicks@3", estimators="ladder")
        return {row["source"]: row["lift_se"] for row in found.errors()}

    before = errors()
    place = f"foreclick.ladder.score.{constant}"
    monkeypatch.setattr(place, 2 * getattr(allowances, constant))
    after = errors()
    assert after == pytest.approx(before | {source: 2 * before[source]})


@pytest.mark.parametrize("users", ["users differ", "shop"])
def test_clicks_that_come_together_widen_a_lift_in_proportion(users):
    drawn = draw(replace(REGIMES[users], records=20_000), 3)
    log = fc.read_log(drawn.log, context="query", period="day")
    fit = production_fit(batches_of(fc.tally(log)), fc.Ladder(), "clicks")
    found = fc.evaluate(log, ranked(drawn, "better"), metrics="clicks@3", estimators="ladder")
    sources = {row["source"]: row["lift_se"] for row in found.errors()}
    if users == "shop":
        assert fit.together == 0
        assert "clicks that come together" not in sources
        return
    assert fit.together == pytest.approx(0.48, abs=0.05)
    expected = allowances.TOGETHER_ERROR * found["lift"][0]
    assert sources["clicks that come together"] == pytest.approx(expected)


def test_without_intervals_there_is_nothing_to_take_apart(shop, days):
    found = fc.evaluate(days, ranked(shop, "better"), metrics="clicks@3", confidence=None)
    assert not found.errors().rows
    assert "nothing to take apart" in str(found.errors())


def test_a_price_that_never_varies_hardly_has_an_error_in_a_segment_of_another_taste():
    """Own clicks of both parts of the ratio are one error, and cancel: the ends were ± 35 %."""
    drawn = draw(Shop(records=6_000, others=(0.3, 1.0)), 3)
    paid = pa.array([[2.0 * each for each in clicks] for clicks in drawn.log["clicks"].to_pylist()])
    log = fc.read_log(
        drawn.log.append_column("paid", paid),
        context="query",
        period="day",
        segments="taste",
        rewards={"revenue": "paid"},
    )
    asked: dict[str, Any] = {"estimators": "ladder", "by": "taste"}
    clicks, price = (
        fc.evaluate(log, ranked(drawn, "better"), metrics=metric, **asked)
        for metric in ("clicks@3", "revenue@3/clicks@3")
    )
    assert clicks["lift_low"][0] < -0.15
    # What was never seen is left: it may be clicked and not bought.
    assert -0.05 < min(price["lift_low"]) < max(price["lift_high"]) < 0.05
