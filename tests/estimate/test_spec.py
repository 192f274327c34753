"""Estimators as values, and how they are spelt."""

import math

import pytest

import foreclick as fc
from foreclick.errors import OptionError
from foreclick.estimators import clips, parse_estimators
from foreclick.models import MODELS, ClickModel


def test_estimators_are_values():
    estimator = fc.Weighted("ip", clip=100)
    assert (estimator.name, estimator.model, estimator.clip) == ("ip", MODELS["ip"], (100.0,))
    assert estimator == fc.Weighted("ip", clip=[100.0]) != fc.Weighted("ip")
    assert hash(estimator) == hash(fc.Weighted("ip", clip=[100.0]))
    assert fc.Weighted("dctr") == fc.Weighted("item")
    assert fc.Weighted("pbm", examination=[1, 0.2]).model.examined(2) == (1, 0.2)


def test_clips_are_numbers_above_0_and_repeats_count_once():
    assert clips(5) == (5.0,)
    assert clips([100, 1, 100.0, math.inf]) == (100.0, 1.0, math.inf)
    for wrong in (0, -1, math.nan, [], [1, 0], "3", ["a"], None):
        with pytest.raises(OptionError, match="number above 0"):
            clips(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "clip"),
    [
        ("ip", math.inf),
        (MODELS["ip"], math.inf),
        (fc.Weighted("ip"), math.inf),
        (fc.Weighted(ClickModel("ip", cell="item"), 3), 3.0),
    ],
)
def test_one_is_a_list_of_one_and_without_a_clip_weights_are_not_bounded(given, clip):
    (found,) = parse_estimators(given)
    assert (found.name, found.clip) == ("ip", (clip,))
