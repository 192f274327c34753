"""If this fails, a segment of another taste is judged by what everybody else clicks."""

from dataclasses import replace

import pytest

import foreclick as fc
from foreclick.simulate.shop import Shop, draw

SHOP = Shop(records=60_000, others=(0.2, 1.0), candidates=("better",))


def by_taste(shop, seed):
    drawn = draw(shop, seed)
    log = fc.read_log(drawn.log, context="query", period="day", unit="user", segments="taste")
    candidate = fc.Ranking(drawn.candidates["better"], context="query")
    found = fc.evaluate(log, candidate, metrics="dcg@10", estimators="ladder", by="taste")
    truth = drawn.lift("better of others", "dcg@10", "production of others")
    (row,) = [row for row in found if row["taste"] == "other"]
    return row, truth, found


@pytest.mark.parametrize("seed", [500, 501])
def test_its_interval_allows_for_its_own_clicks(seed):
    """It said +4.6 % (+2.8 to +6.5), better, where the truth was -1 %."""
    row, truth, found = by_taste(SHOP, seed)
    assert row["lift_low"] <= truth <= row["lift_high"]
    assert row["verdict"] == "cannot tell"
    said = " ".join(str(found).split())
    assert "Clicks in other" in said
    assert "Next: evaluate such a segment alone, read_log(…, where=…)." in said


def test_one_of_the_same_taste_gets_its_verdict():
    row, _, found = by_taste(replace(SHOP, others=(0.2, 0.0)), 500)
    assert row["verdict"] == "better"
    assert "Clicks in" not in str(found)
