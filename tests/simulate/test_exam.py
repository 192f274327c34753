"""If this fails, the exam marks answers by a wrong truth."""

import numpy as np
import pytest

from tests.simulate.small import expected

pytest.importorskip("sklearn")

from benchmarks import exam


@pytest.mark.parametrize("kind", [exam.NAVIGATIONAL, exam.BROWSING, exam.CHOOSING])
@pytest.mark.parametrize("mood", range(exam.MOODS))
def test_expected_clicks_are_those_of_every_outcome(kind: int, mood: int):
    relevance, steps = [0.9, 0.1, 0.4], []
    for k, r in enumerate(relevance):
        rate = r * (0.9 - 0.02 * k) + (1 - r) * 0.15 / (1 + k)
        gone = 0.97 if kind == exam.NAVIGATIONAL else 0.15 + 0.7 * r
        if kind == exam.BROWSING:
            steps.append((rate / (1 + np.exp((k + 1 - exam.HALFWAY[mood]) / 1.8)), 1.0, 1.0))
        else:
            steps.append((rate, exam.GOES_ON[mood] * (1 - gone), exam.GOES_ON[mood]))
    padded = np.array([[*relevance, *[0.0] * (exam.POSITIONS - 3)]])
    found = exam.expected(np.array([kind]), np.array([mood]), padded)[0, :3]
    np.testing.assert_allclose(found, expected(steps), rtol=1e-12)
