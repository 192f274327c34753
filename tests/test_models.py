"""If this fails, a click model is computed otherwise than it is declared."""

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.estimators import parse_estimators
from foreclick.metrics import Metric, parse_metrics
from foreclick.models import MODELS, ClickModel, click_model
from tests.answers import SAME, clipped, log_of
from tests.cases import plain, tables
from tests.truth import oracle

SEVEN: dict[str, Any] = {
    "list": ("list", (1, 1, 1), True, True),
    "prefix": ("prefix", (1, 1, 1), True, True),
    "ip": (("item", "position"), (1, 1, 1), False, True),
    "item": (("item",), (1, 1, 1), False, True),
    "pbm": (("item",), (1, 1 / 2, 1 / 3), False, True),
    "rctr": (("position",), (1, 1, 1), False, False),
    "rcm": ((), (1, 1, 1), False, False),
}


def test_the_seven_declarations_from_the_finest_to_the_coarsest():
    assert [*MODELS] == [*SEVEN] == [str(model) for model in MODELS.values()]
    for name, model in MODELS.items():
        assert SEVEN[name] == (model.cell, model.examined(3), model.over_lists, model.sees_items)
    assert click_model("dctr") is MODELS["item"]
    assert fc.Weighted("dctr").name == "item"


def test_examination_is_a_sequence_or_a_function_of_the_position():
    assert ClickModel("mine", "item", [1, 0.5, 0.25]).examined(2) == (1, 0.5)
    assert ClickModel("mine", "item", lambda k: 2**-k).examined(3) == (0.5, 0.25, 0.125)
    told = click_model("pbm", [0.9, 0.1])
    assert (told.cell, told.examined(2)) == (("item",), (0.9, 0.1))
    assert MODELS["pbm"].examined(2) == (1, 1 / 2)


# --- models of a user's own -----------------------------------------------------------------------

RECORDS = plain.drawn(11, records=60, contexts=2).records
CANDIDATE: dict[Any, Any] = {
    "q0": {(101, 104, 102, 100): 0.75, (103, 101, 999, 102): 0.25},
    "q1": {(102, 103, 101, 100): 1.0},
}
CURVE = (0.9, 0.3, 0.2, 0.1)
OWN: dict[str, tuple[Any, Any]] = {
    "window": (lambda s: [s.item, (s.position - 1) // 2], lambda item, k: (item, (k - 1) // 2)),
    "category": (lambda s: [s.item // 2, s.position], lambda item, k: (item // 2, k)),
    "fold": (lambda s: [s.item, s.position <= 3], lambda item, k: (item, k <= 3)),
    "single": (lambda s: s.item // 2, lambda item, _: item // 2),
    "both": (("position", "item"), lambda item, k: (item, k)),
    "told": ("item", lambda item, _: item),
}
"""The cell of a slot, of arrays for the library, and of numbers by hand."""
EXAMINED: dict[str, Callable[[int], float]] = dict.fromkeys(OWN, lambda _: 1.0)
EXAMINED |= {"fold": lambda k: 1 / k, "told": lambda k: CURVE[k - 1]}


def value_by_hand(name: str, theta: Sequence[float], clip: float) -> float:
    """Σ_x n_x/n Σ_g C_g min(H_g/P_g, M)."""
    (_, cell), examined = OWN[name], EXAMINED[name]
    total = 0.0
    for context, lists in CANDIDATE.items():
        here = [record for record in RECORDS if record.context == context]
        clicks, logged, wanted = (defaultdict[Any, float](float) for _ in range(3))
        for record in here:
            for k, (item, click) in enumerate(zip(record.items, record.clicks, strict=True), 1):
                clicks[cell(item, k)] += theta[k - 1] * click
                logged[cell(item, k)] += theta[k - 1] * examined(k) / len(here)
        for items, chance in lists.items():
            for k, item in enumerate(items, 1):
                wanted[cell(item, k)] += chance * theta[k - 1] * examined(k)
        total += sum(c * min(wanted[g] / logged[g], clip) for g, c in clicks.items())
    return total / len(RECORDS)


@pytest.mark.parametrize("clip", [1.5, math.inf])
def test_models_of_your_own_follow_the_formula(clip):
    theta = oracle.dcg_at(4)
    models = [ClickModel(name, cell, EXAMINED[name]) for name, (cell, _) in OWN.items()]
    # Only the shape of an examination matters.
    models.append(ClickModel("scaled", "item", [10 * p for p in CURVE]))
    found = fc.evaluate(
        log_of(RECORDS),
        fc.Lists(tables.lists_table(CANDIDATE)),
        estimators=clipped(models, clip),
        metrics="dcg@4",
        confidence=None,
    )
    by_hand = {name: value_by_hand(name, theta, clip) for name in OWN}
    assert len(set(by_hand.values())) == 6, "the models should disagree, or the test says little"
    expected = by_hand | {"scaled": by_hand["told"]}
    assert dict(zip(found["estimator"], found["value"], strict=True)) == pytest.approx(
        expected, rel=SAME
    )
    if math.isinf(clip):
        for name, p in (("ip", (1, 1, 1, 1)), ("pbm", CURVE)):
            right = oracle.value(name, RECORDS, CANDIDATE, theta, p=p)
            assert by_hand[{"ip": "both", "pbm": "told"}[name]] == pytest.approx(right)


# --- metrics: one spelling each, for equality, hashing and printing -------------------------------


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


class TestRewards:
    def test_each_reward_is_weighed_by_its_own_metrics(self):
        log: Any = {
            "context": ["q"] * 6,
            "items": [[1, 2], [2, 1]] * 3,
            "clicks": [[1, 1], [1, 0]] * 3,
            "bought": [[0, 2], [1, 0]] * 3,
        }
        metrics: Any = ["clicks@2", "orders@2", "orders:dcg@2", Metric([0, 1], reward="orders")]
        read = fc.read_log(log, rewards={"orders": "bought"})
        found = fc.evaluate(read, read, metrics=metrics, estimators="item", confidence=None)
        expected = [1.5, 1.5, (2 / math.log2(3) + 1) / 2, 1.0]
        assert found["production"] == pytest.approx(expected, rel=1e-12)


# --- estimators as values, and how they are spelt -------------------------------------------------


def test_estimators_are_values():
    estimator = fc.Weighted("ip", clip=100)
    assert (estimator.name, estimator.model, estimator.clip) == ("ip", MODELS["ip"], (100.0,))
    assert estimator == fc.Weighted("ip", clip=[100.0]) != fc.Weighted("ip")
    assert hash(estimator) == hash(fc.Weighted("ip", clip=[100.0]))
    assert fc.Weighted("dctr") == fc.Weighted("item")
    assert fc.Weighted("pbm", examination=[1, 0.2]).model.examined(2) == (1, 0.2)


@pytest.mark.parametrize("make", [list, np.array], ids=["list", "array"])
def test_a_curve_may_be_any_sequence(make):
    """An estimator is a value, which finds its fit again by its hash."""
    for by in (fc.Ladder, functools.partial(fc.Weighted, "pbm")):
        one, other = by(examination=make([1.0, 0.5])), by(examination=(1.0, 0.5))
        assert one == other
        assert hash(one) == hash(other)


def test_a_name_may_say_how_far_weights_are_bounded():
    (named,) = parse_estimators("ip:10")
    assert named == fc.Weighted("ip", clip=10)
    assert parse_estimators(["dctr:0.5", "list:inf", "rctr:inf"]) == [
        fc.Weighted("item", clip=0.5),
        *(fc.Weighted(name, clip=math.inf) for name in ("list", "rctr")),
    ]
