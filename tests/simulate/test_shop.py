"""If this fails, the shop's truth, by which the default estimator was judged, is wrong."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from foreclick.simulate import shop
from foreclick.simulate.shop import REGIMES, Shop, draw
from tests.simulate.small import outcomes_of

TINY = Shop(records=400, queries=3, positions=3, days=4, pool=5, catalogue=50)
EXAMINATION = [k**-0.8 for k in (1, 2, 3)]


def arrays(drawn: shop.ShopLog):
    """Queries, lists and clicks of a log."""
    log = drawn.log
    items, clicks = (np.array(log[name].to_pylist()) for name in ("items", "clicks"))
    return np.asarray(log["query"]), items, clicks


def enumerated(users: str, attraction: list[float]) -> Any:  # noqa: ANN401 - an array
    """Expected clicks of one list: a sum over everything that a reader may do."""
    steps = [
        (alpha * EXAMINATION[k], 1.0, 1.0) if users == "pbm" else (alpha, 0.85 * 0.4, 0.85)
        for k, alpha in enumerate(attraction)
    ]
    return np.sum([p * np.array(clicks) for p, clicks in outcomes_of(steps)], axis=0)


@pytest.mark.parametrize("users", ["pbm", "dbn"])
def test_the_truth_is_that_of_every_outcome(users: str, monkeypatch):
    goods = []
    make = shop._goods

    def spied(*arguments):
        goods.append(make(*arguments))
        return goods[-1]

    monkeypatch.setattr(shop, "_goods", spied)
    drawn = draw(replace(TINY, users=users), seed=2)
    rates = {
        (x, item): float(goods[0].attraction[x, place])
        for (x, place), item in np.ndenumerate(goods[0].items)
    }
    query, items, _ = arrays(drawn)

    def mean(lists):
        found = [
            enumerated(users, [rates[x, i] for i in a]) for x, a in zip(query, lists, strict=True)
        ]
        return np.mean(found, axis=0)

    np.testing.assert_allclose(drawn.expected["production", "clicks"], mean(items), rtol=1e-12)
    for name, table in drawn.candidates.items():
        lists = np.array(table["items"].to_pylist())[query]
        np.testing.assert_allclose(drawn.expected[name, "clicks"], mean(lists), rtol=1e-12)
    better, own = (drawn.expected[name, "clicks"] for name in ("better", "production"))
    assert drawn.lift("better", "clicks@2") == pytest.approx(better[:2].sum() / own[:2].sum() - 1)
    assert drawn.lift("better", "dcg@10") == pytest.approx(
        better @ (1, np.log(2) / np.log(3), 0.5) / (own @ (1, np.log(2) / np.log(3), 0.5)) - 1
    )


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
    ranks = {}
    for feedback in (0.0, 1.0):
        drawn = draw(replace(calm, versions=(1.0,), feedback=feedback), seed=6)
        query, items, _ = arrays(drawn)
        day = np.asarray(drawn.log["day"])
        ranks[feedback] = [items[(query == 0) & (day == d)][0].tolist() for d in (0, 5)]
        lifts = drawn.lift("better", "clicks@3")
        ranks[feedback].append(lifts)
    assert ranks[0.0][0] == ranks[0.0][1] == ranks[1.0][0]
    assert ranks[1.0][1] != ranks[1.0][0]
    assert ranks[1.0][2] < ranks[0.0][2]  # a ranker that learns is harder to beat


class TestABTest:
    SHOP = replace(TINY, records=60_000, test="worse", start=1, candidates=())

    @pytest.fixture
    def drawn(self):
        return draw(self.SHOP, seed=4)

    def test_users_stay_in_their_arm(self, drawn):
        table = drawn.log.to_pandas()
        assert table.variant[table.day == 0].isna().all()
        assert set(table.variant[table.day > 0]) == set(shop.ARMS)
        assert (table[table.day > 0].groupby("user").variant.nunique() == 1).all()

    def test_the_truth_is_what_is_counted(self, drawn):
        table = drawn.log.to_pandas()
        tested = table[table.day > 0]
        for name, some in tested.groupby("variant"):
            counted = np.stack(some.clicks).mean(axis=0)
            assert counted == pytest.approx(drawn.expected[name, "clicks"], abs=0.03)
        assert drawn.lift("treatment", "clicks@3", "control") < 0


def test_other_users_click_by_a_taste_of_their_own():
    """Their clicks follow their own truth, and the sum of both parts is that of all."""
    shop = replace(TINY, records=60_000, others=(0.3, 1.0))
    drawn = draw(shop, 3)
    taste = np.array(drawn.log["taste"])
    clicks = np.array(drawn.log["clicks"].to_pylist())
    expected = drawn.expected["production of others", "clicks"]
    assert clicks[taste == "other"].sum(axis=0) == pytest.approx(expected, rel=0.1)
    whole = drawn.expected["production", "clicks"] * shop.records
    usual = clicks[taste == "usual"].sum(axis=0)
    assert usual == pytest.approx(whole - expected, rel=0.1)
    same = draw(replace(shop, others=(0.3, 0.0)), 3)
    lifts = [
        same.lift("worse", "clicks@3"),
        same.lift("worse of others", "clicks@3", "production of others"),
    ]
    assert lifts[0] == pytest.approx(lifts[1], abs=0.05)
