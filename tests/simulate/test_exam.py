"""The exam's own truth: clicks as frequent as expected, and candidates that know nothing later."""

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from benchmarks import exam

from tests.tries import LONG

SIZE: dict[str, Any] = {"lists": 6_000, "queries": 60, "items": 4_000}


@pytest.fixture(scope="module")
def drawn():
    if not LONG:
        pytest.skip("the exam trains rankers for half a minute, and hardly changes")
    return exam.draw(5, **SIZE)


@pytest.mark.parametrize("kind", [exam.NAVIGATIONAL, exam.BROWSING, exam.CHOOSING])
@pytest.mark.parametrize("mood", range(exam.MOODS))
def test_expected_clicks_are_those_of_every_outcome(kind: int, mood: int):
    relevance = [0.9, 0.1, 0.4]
    total = np.zeros(3)
    for clicks in itertools.product((0, 1), repeat=3):
        for last in range(3):  # the last position that is read
            chance = 1.0
            for k, (r, click) in enumerate(zip(relevance, clicks, strict=True)):
                rate = r * (0.9 - 0.02 * k) + (1 - r) * 0.15 / (1 + k)
                if kind == exam.BROWSING:
                    rate /= 1 + np.exp((k + 1 - exam.HALFWAY[mood]) / 1.8)
                else:
                    rate *= k <= last
                chance *= rate if click else 1 - rate
                gone = 0.97 if kind == exam.NAVIGATIONAL else 0.15 + 0.7 * r
                on = exam.GOES_ON[mood] * (1 - click * gone)
                if kind != exam.BROWSING and k <= last < 2:
                    chance *= on if k < last else 1 - on
                elif kind != exam.BROWSING and k < last:
                    chance *= on
            total += chance * np.array(clicks) / (3 if kind == exam.BROWSING else 1)
    padded = np.array([[*relevance, *[0.0] * (exam.POSITIONS - 3)]])
    found = exam.expected(np.array([kind]), np.array([mood]), padded)[0, :3]
    np.testing.assert_allclose(found, total, rtol=1e-12)


def test_clicks_are_as_frequent_as_expected(drawn):
    clicks = np.array(drawn.log["clicks"].to_pylist())
    found, right = clicks.sum(axis=0), drawn.expected["production"].sum(axis=0)
    assert (np.abs(found - right) < 4 * np.sqrt(right) + 4).all()


def test_candidates_know_nothing_of_later_days(drawn):
    """A log that ends on day 20 has the same ones, and is the beginning of the longer log."""
    short = exam.draw(5, **SIZE, days=exam.TRAINED_UNTIL + 1)
    assert short.candidates == drawn.candidates
    assert drawn.log.slice(0, short.log.num_rows).equals(short.log)
    assert all(lists.num_rows == SIZE["queries"] for lists in drawn.candidates.values())
