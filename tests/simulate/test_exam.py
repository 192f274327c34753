"""The truth of `benchmarks.exam`: expected clicks are those of every outcome."""

import itertools

import numpy as np
import pytest

pytest.importorskip("sklearn")

from benchmarks import exam


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
