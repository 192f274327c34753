"""Which positions can be compared, and curves from matrices of exchanges."""

import numpy as np
import pytest

from foreclick.learn.places import Exchanges, Moved, exchanges_of, likelihood


def exchanges(wins):
    wins = np.array(wins, float)
    both = (wins + wins.T > 0).astype(float)
    return Exchanges(wins.sum(axis=1), both.sum(axis=1), both.sum(axis=1), both, wins)


def test_a_far_start_is_left_where_newton_would_jump():
    """One item, seen as often at both places, with 900 of 1,000 clicks at the second."""
    moved = [Moved.from_counts(np.array([[10.0, 10.0]]), np.array([[100.0, 900.0]]))]
    places = exchanges_of(moved, 1, 2)
    for start in (1e-6, 1.0, 1e6):
        found = likelihood(moved, places, np.array([[1.0, start]]))
        assert found.p[0] == pytest.approx([1, 9])
        assert found.converged.all()


def test_the_reference_is_the_first_place_that_can_be_compared():
    """1 beats nobody and nobody beats it; 2 and 3 beat each other; 4 loses; 5 only wins."""
    wins = np.zeros((5, 5))
    wins[1, 2], wins[2, 1], wins[2, 3], wins[4, 1] = 3, 2, 1, 1
    found = exchanges(wins)
    assert found.reference == 1
    assert found.identified.tolist() == [False, True, True, False, False]
    assert found.zero.tolist() == [False, False, False, True, False]
    assert found.linked[1].tolist() == [False, True, True, True, True]
    assert found.free.tolist() == [2]


def test_chains_of_any_length_connect():
    wins = np.diag(np.ones(29), 1) + np.diag(np.ones(29), -1)
    assert exchanges(wins).identified.all()
