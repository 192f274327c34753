"""Estimators as values, and how they are spelt."""

import math

import pytest

import foreclick as fc
from foreclick.errors import ModelError, OptionError
from foreclick.estimators import clips, parse_estimators
from foreclick.models import MODELS, ClickModel


def test_an_estimator_is_a_model_and_a_clip():
    estimator = fc.Weighted("ip", clip=100)
    assert (estimator.name, estimator.model, estimator.clip) == ("ip", MODELS["ip"], (100.0,))


def test_estimators_are_values():
    assert fc.Weighted("ip", clip=100) == fc.Weighted("ip", clip=[100.0])
    assert hash(fc.Weighted("ip", clip=100)) == hash(fc.Weighted("ip", clip=[100.0]))
    assert fc.Weighted("ip", clip=100) != fc.Weighted("ip")
    assert fc.Weighted("dctr") == fc.Weighted("item")


def test_an_examination_goes_to_the_model():
    assert fc.Weighted("pbm", examination=[1, 0.2]).model.examined(2) == (1, 0.2)


class TestClips:
    def test_one_is_a_tuple_of_one(self):
        assert clips(5) == (5.0,)
        assert clips(math.inf) == (math.inf,)

    def test_repeats_count_once_and_the_order_stays(self):
        assert clips([100, 1, 100.0, math.inf]) == (100.0, 1.0, math.inf)

    @pytest.mark.parametrize("wrong", [0, -1, math.nan, [], [1, 0]])
    def test_anything_not_above_0_is_refused(self, wrong):
        with pytest.raises(OptionError, match=r"number above 0.*math\.inf for none"):
            clips(wrong)

    @pytest.mark.parametrize("wrong", ["3", ["a"], None])
    def test_what_is_no_number_is_refused(self, wrong):
        with pytest.raises(OptionError, match="number above 0"):
            clips(wrong)


class TestSeveral:
    def test_without_a_clip_weights_are_not_bounded(self):
        found = parse_estimators(["list", fc.Weighted("ip", clip=7), fc.Weighted("item")])
        assert [e.clip for e in found] == [(math.inf,), (7.0,), (math.inf,)]

    @pytest.mark.parametrize("one", ["ip", MODELS["ip"], fc.Weighted("ip")])
    def test_one_is_a_list_of_one(self, one):
        (found,) = parse_estimators(one)
        assert found == fc.Weighted("ip", clip=math.inf)

    def test_a_model_of_your_own_is_an_estimator(self):
        (found,) = parse_estimators(fc.Weighted(ClickModel("mine", cell="item"), 3))
        assert (found.name, found.clip) == ("mine", (3.0,))

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ([], "empty"),
            (3, "estimators=3"),
            ([3], "3 is no estimator"),
            (["cascade"], "no estimator 'cascade'"),
        ],
    )
    def test_anything_else_is_refused(self, wrong, message):
        with pytest.raises(ModelError, match=message):
            parse_estimators(wrong)
