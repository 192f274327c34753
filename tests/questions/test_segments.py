"""If this fails, a segment of another taste is judged by what everybody else clicks."""

from typing import Any

import pytest

import foreclick as fc
from foreclick.simulate.shop import Shop
from tests.questions.scenes import shop_of


def by_taste(differ, seed):
    """A segment with a taste that differs as far, what it is worth there, and the answer."""
    like = Shop(records=60_000, others=(0.2, differ), candidates=("better",))
    drawn, log, candidates = shop_of(like, seed, segments="taste")
    asked: Any = {"metrics": "dcg@10", "estimators": "ladder", "by": "taste"}
    found = fc.evaluate(log, candidates["better"], **asked)
    truth = drawn.lift("better of others", "dcg@10", "production of others")
    return found.to_dicts()[found["taste"].index("other")], truth, found


@pytest.mark.parametrize("seed", [500, 501])
def test_its_interval_allows_for_its_own_clicks(seed):
    """It said +4.6 % (+2.8 to +6.5), better, where the truth was -1 %."""
    row, truth, found = by_taste(1.0, seed)
    assert row["lift_low"] <= truth <= row["lift_high"]
    assert row["verdict"] == "cannot tell"
    said = " ".join(str(found).split())
    assert "Clicks in other" in said
    assert "Next: evaluate such a segment alone, read_log(…, where=…)." in said


def test_one_of_the_same_taste_gets_its_verdict():
    row, _, found = by_taste(0.0, 500)
    assert row["verdict"] == "better"
    assert "Clicks in" not in str(found)
