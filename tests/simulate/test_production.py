"""The drifting ranker does what its parameters say."""

import numpy as np
import pytest

from foreclick.simulate import Drifting

CONTEXTS, ITEMS, POSITIONS = 400, 40, 10


@pytest.fixture(scope="module")
def ranker():
    return Drifting(CONTEXTS, ITEMS, POSITIONS, seed=7)


def test_the_base_list_has_its_mass_and_the_variants_are_zipf(ranker):
    shown = ranker.on(3)
    mass = np.bincount(shown.contexts, shown.probabilities)
    np.testing.assert_allclose(mass, 1, atol=1e-12)
    base, variants = shown.probabilities[:CONTEXTS], shown.probabilities[CONTEXTS:]
    assert 0.23 <= base.min() < 0.24
    assert 0.34 < base.max() <= 0.35
    first = variants[shown.contexts[CONTEXTS:] == 5]
    np.testing.assert_allclose(first[1] / first[0], 2**-0.7, rtol=1e-12)
    np.testing.assert_allclose(first[2] / first[0], 3**-0.7, rtol=1e-12)


def test_few_variants_come_back(ranker):
    """87 % are drawn anew, so that most of yesterday's lists are gone today."""
    yesterday, today = (
        {(x, *a) for x, a in zip(s.contexts.tolist(), s.lists.tolist(), strict=True)}
        for s in (ranker.on(8), ranker.on(9))
    )
    assert 0.03 < len(yesterday & today) / len(today) < 0.25
    lasting = Drifting(CONTEXTS, ITEMS, POSITIONS, seed=7, fresh=0.0, events=0.0)
    first, second = lasting.on(8), lasting.on(9)
    both = (first.contexts == 3).sum(), (second.contexts == 3).sum()
    here = [s.lists[s.contexts == 3][: min(both)].tolist() for s in (first, second)]
    assert here[0] == here[1]
