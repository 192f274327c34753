"""If this fails, a segment of another taste is judged by what everybody else clicks."""

import math
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.metrics import parse_any
from foreclick.question import Question
from foreclick.run.estimate import estimate
from foreclick.simulate.shop import Shop
from foreclick.tallies.base import local_tally
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


@pytest.mark.parametrize("clusters", [("period",), ("record",)])
def test_own_clicks_are_beyond_their_share_of_all_and_add_up_to_nothing(clusters):
    """Their standard error is that of a sum of clusters, which are independent."""
    rng, n = np.random.default_rng(3), 600
    items = rng.random((n, 5)).argsort(axis=1)[:, :3]
    table = {
        "context": rng.integers(0, 6, n),
        "items": items.tolist(),
        "clicks": (rng.random((n, 3)) < 0.1 + 0.1 * items).astype(int).tolist(),
        "day": rng.integers(0, 2, n),
        "taste": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
    }
    log = fc.read_log(table, period="day", segments="taste")
    new = fc.Ranking({"context": range(6), "items": [[4, 3, 2]] * 6})
    asked = Question([new], [fc.Ladder()], parse_any("clicks@3"), by=("taste",), clusters=clusters)
    found = estimate(local_tally(log)[0], asked)
    (column, *_) = found.of_candidate()[0].columns
    size = [int(np.sum(table["taste"] == taste)) for taste in "abc"]
    shifts, errors = zip(*(found.own_clicks(s, column) for s in range(3)), strict=True)
    assert np.dot(size, shifts) == pytest.approx(0, abs=1e-9)
    assert max(map(abs, shifts)) > 1e-3
    assert min(errors) > 1e-3
    for s, error in enumerate(errors):
        if clusters == ("period",):
            (sums,) = found.found.groups[0].own_clicks
            days = sums[s, :, 0] / size[s] - sums[-1, :, 0] / n
            assert len(days) == 2
            assert error == pytest.approx(math.sqrt(2 * days.var(ddof=1)))
            assert shifts[s] == pytest.approx(days.sum())
    assert found.own_clicks(3, column) == (0, 0)  # of the whole
