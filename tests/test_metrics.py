"""Metrics: one spelling each, for equality, hashing and printing."""

import math
from typing import Any, ClassVar

import pytest

import foreclick as fc
from foreclick.errors import MetricError
from foreclick.metrics import Metric, parse_metrics


@pytest.mark.parametrize(
    ("spelling", "name", "reward", "theta"),
    [
        (" clicks@3 ", "clicks@3", "clicks", (1, 1, 1)),
        ("clicks@03", "clicks@3", "clicks", (1, 1, 1)),
        ("clicks:clicks@2", "clicks@2", "clicks", (1, 1)),
        ("dcg@4", "dcg@4", "clicks", tuple(1 / math.log2(k + 1) for k in (1, 2, 3, 4))),
        ("clicks:dcg@1", "dcg@1", "clicks", (1,)),
        ("orders@3", "orders@3", "orders", (1, 1, 1)),
        ("orders:dcg@2", "orders:dcg@2", "orders", (1, 1 / math.log2(3))),
        ("success@3", "success@3", "__first_clicks", (1, 1, 1)),
        ("clicks:mrr@3", "mrr@3", "__first_clicks", (1, 1 / 2, 1 / 3)),
        ("orders:success@2", "orders:success@2", "__first_orders", (1, 1)),
        ([1, 0.5, 0.25], "theta[1,0.5,0.25]", "clicks", (1, 0.5, 0.25)),
        ([0, 1, 0, 2, 0, 0], "theta[0,1,0,2]", "clicks", (0, 1, 0, 2)),
    ],
)
def test_a_spelling_has_one_name_one_reward_and_its_weights(spelling, name, reward, theta):
    metric = Metric(spelling)
    assert (str(metric), repr(metric), metric.name) == (name, name, name)
    assert (metric.reward, metric.theta, metric.depth) == (reward, theta, len(theta))
    assert metric.first == reward.startswith("__first_")
    assert metric.source == reward.removeprefix("__first_")
    again = Metric(name) if isinstance(spelling, str) else Metric(metric)
    assert (again, hash(again)) == (metric, hash(metric))


def test_different_metrics_differ():
    one = Metric("clicks@2")
    assert one not in {Metric("clicks@3"), Metric("dcg@2"), Metric("orders@2")}
    assert str(Metric([0.1234567])) != str(Metric([0.12345671]))
    assert str(Metric([1, 0.5], reward="orders")) == "orders:theta[1,0.5]"
    assert Metric("dcg@3", reward="orders").reward == "orders"
    assert Metric("mrr@2", reward="orders").source == "orders"


def test_several():
    assert parse_metrics("clicks@2") == parse_metrics(Metric("clicks@2")) == (Metric("clicks@2"),)
    assert parse_metrics([1, 0.5]) == (Metric([1, 0.5]),)
    found = parse_metrics(["dcg@2", "clicks@1", "dcg@2", [1, 0.5]])
    assert [str(metric) for metric in found] == ["dcg@2", "clicks@1", "theta[1,0.5]"]
    for wrong, message in (([], "empty"), ((), "empty"), (3, "metrics=3")):
        with pytest.raises(MetricError, match=message):
            parse_metrics(wrong)


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
        metrics: Any = ["clicks@2", "orders@2", "orders:dcg@2", Metric([0, 1], reward="orders")]
        asked: Any = {"estimators": "item", "confidence": None}
        found = fc.evaluate(log, self.CANDIDATE, metrics=metrics, **asked)["production"]
        assert found == pytest.approx([1.5, 1.5, (2 / math.log2(3) + 1) / 2, 1.0], rel=1e-12)
