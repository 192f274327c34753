"""If this fails, what `errors` prints is not what the interval consists of."""

import math
from collections import defaultdict
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
from tests.questions.scenes import shop_of

pytestmark = pytest.mark.filterwarnings("ignore:the contexts hardly repeat")

EQUAL = 1e-9  # of a standard error: the same sums, in another order
DAYS = 28
FORM = "form of the regression"
ROOT = ((0.0, 0.0), (0.2, 0.0), (0.1, 0.3))
LEARNT = fc.Weighted("pbm", examination=LearntCurve((1.0, 0.7, 0.5), ROOT))


@pytest.fixture(scope="module")
def shop():
    return shop_of(Shop(records=6_000), 3, unit=None)


def check(found, *by, freedom=None):
    """The squares add up to the variance, and what is left of the ends to the margins."""
    table, sources = found.errors(), defaultdict(list)
    for each in table:
        sources[tuple(each[name] for name in ("metric", *by))].append(each)
    answers = [row for row in found.rows if row["estimator"] == found.answering]
    rows = {tuple(row[name] for name in ("metric", *by)): row for row in answers}
    assert sources.keys() == {key for key, row in rows.items() if row["lift_low"] is not None}
    for key, own in sources.items():
        row = rows[key]
        assert len({each["source"] for each in own}) == len(own)
        se = math.sqrt(sum(each["lift_se"] ** 2 for each in own))
        less, more = (sum(each[side] for each in own) for side in ("less", "more"))
        assert sum(each["share"] for each in own) == pytest.approx(1.0, abs=EQUAL)
        up, down = row["lift_high"] - more - row["lift"], row["lift"] - less - row["lift_low"]
        assert up == pytest.approx(down, abs=EQUAL * max(se, row["lift_high"]))
        if freedom is not None:
            assert up == pytest.approx(stdtrit(freedom, 0.975) * se, rel=EQUAL)
    return table


@pytest.mark.parametrize(
    ("asked", "sources"),
    [
        ({"metrics": ["clicks@3", "dcg@10"]}, {FORM, "item effects"}),
        ({"estimators": "ladder-ip"}, {FORM}),
        *(({"estimators": by}, set()) for by in ("ip", "list", "item", "prefix", "ip:2")),
        ({"estimators": LEARNT, "metrics": "clicks@3"}, {"examination"}),
        ({"baseline": "worse", "estimators": "ladder"}, {FORM}),
        ({"baseline": "worse", "estimators": "ip"}, set()),
    ],
)
def test_they_add_up_to_the_interval(shop, asked, sources):
    _, log, candidates = shop
    asked = {"metrics": "dcg@5"} | asked
    if "baseline" in asked:
        asked["baseline"] = candidates[asked["baseline"]]
    table = check(fc.evaluate(log, candidates["better"], **asked), freedom=DAYS - 1)
    assert sources | {"periods"} <= set(table["source"])
    assert {*table["kind"]} == {"sampling", "unseen"} | ({"model"} if FORM in sources else set())


@pytest.mark.parametrize("unit", [None, "user"])
@pytest.mark.parametrize("period", [None, "day"])
def test_they_add_up_whoever_varies_together(shop, period, unit):
    drawn, _, candidates = shop
    log = fc.read_log(drawn.log, context="query", period=period, unit=unit)
    found = fc.evaluate(log, candidates["worse"], metrics="clicks@3")
    freedom = {"periods": DAYS - 1} if period else {}
    freedom |= {"units": 29} if unit else {}
    table = check(found, freedom=min(freedom.values(), default=math.inf))
    assert {"periods", "units", "records"} & {*table["source"]} == ({*freedom} or {"records"})


def test_they_add_up_in_every_segment():
    like = Shop(records=6_000, others=(0.3, 1.0))
    _, log, candidates = shop_of(like, 3, unit=None, segments="taste")
    found = fc.evaluate(log, candidates["better"], metrics="dcg@10", by="taste")
    assert "segment's own clicks" in check(found, "taste")["source"]


@pytest.mark.parametrize("metric", ["revenue@3", "revenue@3/clicks@3"])
def test_they_add_up_for_what_clicks_earn(metric):
    like, rewards = Shop(records=6_000, prices=0.6), {"revenue": "revenue"}
    _, log, candidates = shop_of(like, 3, unit=None, rewards=rewards)
    found = fc.evaluate(log, candidates["better"], metrics=metric, estimators="ladder")
    assert "shrinkage of click values" in check(found, freedom=DAYS - 1)["source"]


def test_a_candidate_that_is_a_sample_is_a_source(shop):
    drawn, log, _ = shop
    sample = fc.Observed(fc.read_log(drawn.log, context="query", where="day < 15"))
    found = fc.evaluate(log, sample, metrics="clicks@3", missing="production")
    assert "candidate's sample" in check(found, freedom=DAYS - 1)["source"]


@pytest.mark.parametrize(
    ("constant", "source"), [("FORM_ERROR", FORM), ("NEVER_SHOWN_SD", "items never shown")]
)
def test_twice_an_allowance_is_twice_its_own_error_alone(shop, monkeypatch, constant, source):
    drawn, _, candidates = shop
    log = fc.read_log(drawn.log, context="query", period="day")

    def errors():
        asked: Any = {"metrics": "clicks@3", "estimators": "ladder"}
        found = fc.evaluate(log, candidates["better"], **asked).errors()
        return {row["source"]: row["lift_se"] for row in found}

    before = errors()
    twice = 2 * getattr(allowances, constant)
    monkeypatch.setattr(f"foreclick.ladder.score.{constant}", twice)
    assert errors() == pytest.approx(before | {source: 2 * before[source]})


@pytest.mark.parametrize("users", ["users differ", "shop"])
def test_clicks_that_come_together_widen_a_lift_in_proportion(users):
    _, log, candidates = shop_of(replace(REGIMES[users], records=20_000), 3, unit=None)
    fit = production_fit(batches_of(log), fc.Ladder(), "clicks")
    found = fc.evaluate(log, candidates["better"], metrics="clicks@3", estimators="ladder")
    sources = {row["source"]: row["lift_se"] for row in found.errors()}
    if users == "shop":
        assert fit.together == 0
        assert "clicks that come together" not in sources
        return
    assert fit.together == pytest.approx(0.48, abs=0.05)
    expected = allowances.TOGETHER_ERROR * found["lift"][0]
    assert sources["clicks that come together"] == pytest.approx(expected)


def test_without_intervals_there_is_nothing_to_take_apart(shop):
    _, log, candidates = shop
    found = fc.evaluate(log, candidates["better"], metrics="clicks@3", confidence=None).errors()
    assert not found.rows
    assert "nothing to take apart" in str(found)


def test_a_price_that_never_varies_hardly_has_an_error_in_a_segment_of_another_taste():
    """Own clicks of both parts of the ratio are one error, and cancel: the ends were ± 35 %."""
    drawn = draw(Shop(records=6_000, others=(0.3, 1.0)), 3)
    paid = pa.array([[2.0 * each for each in clicks] for clicks in drawn.log["clicks"].to_pylist()])
    roles: dict[str, Any] = {"context": "query", "period": "day", "segments": "taste"}
    log = fc.read_log(drawn.log.append_column("paid", paid), **roles, rewards={"revenue": "paid"})
    candidate = fc.Ranking(drawn.candidates["better"], context="query")
    clicks, price = (
        fc.evaluate(log, candidate, metrics=metric, estimators="ladder", by="taste")
        for metric in ("clicks@3", "revenue@3/clicks@3")
    )
    assert clicks["lift_low"][0] < -0.15
    # What was never seen is left: it may be clicked and not bought.
    assert -0.05 < min(price["lift_low"]) < max(price["lift_high"]) < 0.05
