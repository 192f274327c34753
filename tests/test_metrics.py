"""Metrics: one spelling each, for equality, hashing and printing."""

import math
from typing import Any, ClassVar

import pytest

import foreclick as fc
from foreclick.errors import MetricError, SourceError
from foreclick.metrics import Metric, parse_metrics


def test_clicks_weigh_every_position_alike():
    assert Metric("clicks@3").theta == (1.0, 1.0, 1.0)


def test_dcg_discounts_by_the_logarithm_of_the_next_position():
    expected = [1 / math.log2(k + 1) for k in (1, 2, 3, 4)]
    assert Metric("dcg@4").theta == pytest.approx(expected, abs=0)


@pytest.mark.parametrize(
    ("spelling", "name", "reward", "depth"),
    [
        ("clicks@3", "clicks@3", "clicks", 3),
        (" clicks@3 ", "clicks@3", "clicks", 3),
        ("clicks@03", "clicks@3", "clicks", 3),
        ("clicks:clicks@3", "clicks@3", "clicks", 3),
        ("dcg@10", "dcg@10", "clicks", 10),
        ("clicks:dcg@10", "dcg@10", "clicks", 10),
        ("orders@3", "orders@3", "orders", 3),
        ("orders:dcg@2", "orders:dcg@2", "orders", 2),
        ("success@3", "success@3", "__first_clicks", 3),
        ("clicks:mrr@3", "mrr@3", "__first_clicks", 3),
        ("orders:success@2", "orders:success@2", "__first_orders", 2),
    ],
)
def test_a_spelling_has_one_name_one_reward_and_one_depth(spelling, name, reward, depth):
    metric = Metric(spelling)
    assert (str(metric), repr(metric), metric.name) == (name, name, name)
    assert (metric.reward, metric.depth) == (reward, depth)


def test_success_and_reciprocal_rank_weigh_first_clicks():
    success, rank = Metric("success@3"), Metric("mrr@3")
    assert success.theta == (1.0, 1.0, 1.0)
    assert rank.theta == (1.0, 1 / 2, 1 / 3)
    assert (success.first, rank.first, Metric("clicks@3").first) == (True, True, False)
    assert success.source == rank.source == Metric("clicks@3").source == "clicks"
    assert Metric("mrr@2", reward="orders").source == "orders"


def test_equal_spellings_are_equal_and_hash_alike():
    assert Metric("clicks@2") == Metric("clicks:clicks@2")
    assert len({Metric("clicks@2"), Metric("clicks:clicks@2"), Metric(Metric("clicks@2"))}) == 1


@pytest.mark.parametrize("other", ["clicks@3", "dcg@2", "orders@2"])
def test_different_spellings_differ(other):
    assert Metric("clicks@2") != Metric(other)


def test_a_metric_of_a_metric_is_itself():
    metric = Metric([1, 0.5], reward="orders")
    assert Metric(metric) == metric


def test_weights_of_your_own_are_spelt_out():
    metric = Metric([1, 0.5, 0.25])
    assert str(metric) == "theta[1,0.5,0.25]"
    assert metric.theta == (1.0, 0.5, 0.25)
    assert str(Metric([1, 0.5], reward="orders")) == "orders:theta[1,0.5]"


def test_trailing_zeros_are_cut_and_others_kept():
    metric = Metric([0, 1, 0, 2, 0, 0])
    assert (list(metric.theta), metric.depth) == ([0, 1, 0, 2], 4)
    assert metric == Metric([0, 1, 0, 2])


@pytest.mark.parametrize("weights", [[1, -0.5], [1, math.nan], [math.inf], [1e308], [0, 0], []])
def test_weights_must_be_finite_not_negative_and_not_all_zero(weights):
    with pytest.raises(MetricError, match=r"must be 0, or from 1e-12 to 1e\+12, and not all 0"):
        Metric(weights)


def test_the_first_wrong_weight_is_named():
    with pytest.raises(MetricError, match=r"of which -2\.0 is the first"):
        Metric([1, -2, -3])


@pytest.mark.parametrize("spelling", ["@3", "many@-1", ""])
def test_a_metric_that_is_none_is_refused_with_examples(spelling):
    with pytest.raises(MetricError, match=r"not understood.*'dcg@10'"):
        Metric(spelling)


@pytest.mark.parametrize(
    ("spelling", "meant"),
    [
        ("clicks", "clicks@3"),
        ("clicks@0", "clicks@3"),
        ("clicks@-1", "clicks@3"),
        ("clicks@3@4", "clicks@3"),
        ("dcg @10", "dcg@10"),
        ("DCG@10", "dcg@10"),
        ("Success@2", "success@2"),
    ],
)
def test_a_misspelt_metric_is_refused_with_what_was_meant(spelling, meant):
    with pytest.raises(MetricError, match=f"Did you mean '{meant}'"):
        Metric(spelling)


def test_ndcg_is_refused_with_the_reason_and_what_to_use():
    with pytest.raises(MetricError, match=r"ideal list.*Use 'dcg@K'"):
        Metric("ndcg@10")


def test_two_rewards_in_one_spelling_are_refused_with_both_readings():
    with pytest.raises(MetricError, match=r"'clicks@3' or 'orders:dcg@3'"):
        Metric("orders:clicks@3")


@pytest.mark.parametrize("spec", [3, None, ["x"]])
def test_anything_else_is_refused_as_a_metric(spec):
    with pytest.raises(MetricError):
        Metric(spec)


def test_a_reward_beside_a_spelling_is_used_or_refused():
    assert Metric("dcg@3", reward="orders").reward == "orders"


def test_different_weights_have_different_names():
    assert str(Metric([0.1234567])) != str(Metric([0.12345671]))


class TestSeveral:
    def test_one_metric_is_a_list_of_one(self):
        assert parse_metrics("clicks@2") == parse_metrics(Metric("clicks@2"))
        assert parse_metrics("clicks@2") == (Metric("clicks@2"),)

    def test_a_bare_list_of_weights_is_one_metric(self):
        assert parse_metrics([1, 0.5]) == (Metric([1, 0.5]),)

    def test_repeats_count_once_and_the_order_stays(self):
        found = parse_metrics(["dcg@2", "clicks@1", "dcg@2", [1, 0.5]])
        assert [str(metric) for metric in found] == ["dcg@2", "clicks@1", "theta[1,0.5]"]

    @pytest.mark.parametrize("metrics", [[], ()])
    def test_none_at_all_is_refused(self, metrics):
        with pytest.raises(MetricError, match="empty"):
            parse_metrics(metrics)

    def test_what_cannot_be_a_list_is_refused(self):
        with pytest.raises(MetricError, match="metrics=3"):
            parse_metrics(3)


class TestRewards:
    LOG: ClassVar[Any] = {
        "context": ["q"] * 6,
        "items": [[1, 2], [2, 1]] * 3,
        "clicks": [[1, 1], [1, 0]] * 3,
        "bought": [[0, 2], [1, 0]] * 3,
    }
    CANDIDATE: ClassVar[Any] = {"context": ["q"], "items": [[2, 1]]}

    def test_each_reward_is_weighed_by_its_own_metrics(self):
        log = fc.read_log(self.LOG, rewards={"orders": "bought"})
        found = fc.evaluate(
            log,
            self.CANDIDATE,
            estimators="item",
            metrics=["clicks@2", "orders@2", "orders:dcg@2", Metric([0, 1], reward="orders")],
            confidence=None,
        )
        discount = 1 / math.log2(3)
        by_name = dict(zip(found["metric"], found["production"], strict=True))
        assert by_name == pytest.approx(
            {
                "clicks@2": 1.5,
                "orders@2": 1.5,
                "orders:dcg@2": (2 * discount + 1) / 2,
                "orders:theta[0,1]": 1.0,
            },
            rel=1e-12,
        )

    def test_a_reward_the_log_lacks_is_named_with_those_it_has(self):
        with pytest.raises(MetricError, match=r"no reward 'orders'.*read with clicks"):
            fc.evaluate(self.LOG, self.CANDIDATE, metrics="orders@2", confidence=None)

    @pytest.mark.parametrize("name", ["success", "MRR", "dcg"])
    def test_a_reward_cannot_be_called_as_a_metric(self, name):
        with pytest.raises(SourceError, match=rf"'{name}@3' is a metric already.*my_{name}"):
            fc.read_log(self.LOG, rewards={name: "bought"})

    def test_a_log_without_clicks_has_no_clicks_to_weigh(self):
        log = fc.read_log(self.LOG, clicks=None)
        with pytest.raises(MetricError, match="no rewards at all"):
            fc.evaluate(log, self.CANDIDATE, metrics="clicks@2", confidence=None)
