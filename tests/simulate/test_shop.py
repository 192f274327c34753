"""If this fails, the shop's truth, by which the default estimator was judged, is wrong."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from foreclick.simulate import shop
from foreclick.simulate.shop import REGIMES, Shop, draw
from tests.simulate.small import expected

TINY = Shop(records=400, queries=3, positions=3, days=4, pool=5, catalogue=50)
EXAMINATION = [k**-0.8 for k in (1, 2, 3)]


def arrays(drawn: shop.ShopLog):
    """Queries, lists and clicks of a log."""
    log = drawn.log
    items, clicks = (np.array(log[name].to_pylist()) for name in ("items", "clicks"))
    return np.asarray(log["query"]), items, clicks


@pytest.mark.parametrize("users", ["pbm", "dbn"])
def test_the_truth_is_that_of_every_outcome(users: str):
    kind = replace(TINY, users=users)
    drawn, goods = draw(kind, seed=2), shop._goods(kind, TINY.queries, 2)
    rates = {(x, i): goods.attraction[x, place] for (x, place), i in np.ndenumerate(goods.items)}
    query, items, _ = arrays(drawn)

    def mean(lists: Any) -> Any:  # noqa: ANN401
        found = []
        for x, shown in zip(query, lists, strict=True):
            alpha = [float(rates[x, item]) for item in shown]
            looked = [(a * e, 1.0, 1.0) for a, e in zip(alpha, EXAMINATION, strict=True)]
            stops = [(a, 0.85 * 0.4, 0.85) for a in alpha]
            found.append(expected(looked if users == "pbm" else stops))
        return np.mean(found, axis=0)

    shown = {"production": items}
    shown |= {k: np.array(v["items"].to_pylist())[query] for k, v in drawn.candidates.items()}
    for name, lists in shown.items():
        np.testing.assert_allclose(drawn.expected[name, "clicks"], mean(lists), rtol=1e-12)
    better, own = (drawn.expected[name, "clicks"] for name in ("better", "production"))
    for metric, theta in (("clicks@2", [1, 1, 0]), ("dcg@10", 1 / np.log2([2, 3, 4]))):
        assert drawn.lift("better", metric) == pytest.approx(better @ theta / (own @ theta) - 1)


@pytest.mark.parametrize("users", ["pbm", "dbn"])
def test_clicks_are_as_frequent_as_expected(users: str):
    drawn = draw(replace(TINY, records=40_000, users=users, days=28, taste=0.3), seed=3)
    clicks = arrays(drawn)[2]
    np.testing.assert_allclose(
        clicks.mean(axis=0), drawn.expected["production", "clicks"], rtol=0.08
    )


@pytest.mark.parametrize("regime", REGIMES)
def test_every_regime_draws(regime: str):
    small = replace(REGIMES[regime], records=600, queries=min(REGIMES[regime].queries, 2000))
    drawn = draw(small, seed=4)
    query, items, clicks = arrays(drawn)
    assert items.shape == clicks.shape == (600, 10)
    assert (np.diff(np.sort(items, axis=1), axis=1) > 0).all()  # no item twice
    assert set(np.unique(clicks)) <= {0, 1}
    assert np.array_equal(np.unique(query), np.arange(query.max() + 1))
    assert np.asarray(drawn.log["day"]).max() <= 27
    assert tuple(drawn.candidates) == small.candidates
    for name, table in drawn.candidates.items():
        assert table.num_rows == query.max() + 1
        assert {len(shown) for shown in table["items"].to_pylist()} == {10}
        assert -0.9 < drawn.lift(name, "dcg@10") < 2


def test_models_are_worth_what_their_names_say():
    lifts = [draw(Shop(records=5000, queries=500), seed) for seed in range(3)]
    better, equal, worse, tweak = (
        np.mean([drawn.lift(name, "clicks@3") for drawn in lifts])
        for name in ("better", "similar", "worse", "tweak")
    )
    assert worse < -0.05 < equal < 0.05 < tweak < better


def test_feedback_moves_what_was_clicked_up():
    """On the last day, items that were clicked much stand higher than they would without."""
    calm = replace(TINY, records=20_000, pool=20, catalogue=2000, days=6, nightly=0.0, noise=1.5)
    found = []
    for feedback in (0.0, 1.0):
        drawn = draw(replace(calm, versions=(1.0,), feedback=feedback), seed=6)
        query, items, _ = arrays(drawn)
        day = np.asarray(drawn.log["day"])
        lists = [items[(query == 0) & (day == d)][0].tolist() for d in (0, 5)]
        found.append((*lists, drawn.lift("better", "clicks@3")))
    (first, last, lift), (learnt_first, learnt_last, learnt_lift) = found
    assert first == last == learnt_first != learnt_last
    assert learnt_lift < lift  # a ranker that learns is harder to beat


def test_users_stay_in_their_arm_and_the_truth_is_what_is_counted():
    drawn = draw(replace(TINY, records=60_000, test="worse", start=1, candidates=()), seed=4)
    table = drawn.log.to_pandas()
    assert table.variant[table.day == 0].isna().all()
    tested = table[table.day > 0]
    assert (tested.groupby("user").variant.nunique() == 1).all()
    counted = {name: np.stack(some.clicks).mean(axis=0) for name, some in tested.groupby("variant")}
    assert set(counted) == set(shop.ARMS)
    for name, clicks in counted.items():
        assert clicks == pytest.approx(drawn.expected[name, "clicks"], abs=0.03)
    assert drawn.lift("treatment", "clicks@3", "control") < 0


def test_arms_may_learn_from_the_clicks_of_all_users():
    """On the first day they have learnt nothing; later, other lists are shown than if each did."""
    kind = replace(TINY, records=8_000, test="similar", feedback=1.0, candidates=())
    apart, pooled = (draw(replace(kind, pooled=pooled), seed=4) for pooled in (False, True))
    day = np.asarray(apart.log["day"])
    same = (arrays(apart)[1] == arrays(pooled)[1]).all(axis=1)
    assert same[day == 0].all()
    assert not same[day == 3].all()


def test_other_users_click_by_a_taste_of_their_own():
    """Their clicks follow their own truth, and the sum of both parts is that of all."""
    kind = replace(TINY, records=60_000, others=(0.3, 1.0))
    drawn = draw(kind, 3)
    clicks, taste = arrays(drawn)[2], np.array(drawn.log["taste"])
    theirs = drawn.expected["production of others", "clicks"]
    whole = drawn.expected["production", "clicks"] * kind.records
    for name, right in (("other", theirs), ("usual", whole - theirs)):
        assert clicks[taste == name].sum(axis=0) == pytest.approx(right, rel=0.1)
    same = draw(replace(kind, others=(0.3, 0.0)), 3)
    lift = same.lift("worse of others", "clicks@3", "production of others")
    assert same.lift("worse", "clicks@3") == pytest.approx(lift, abs=0.05)
