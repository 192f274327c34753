"""Which positions can be compared, and curves from matrices of exchanges."""

import numpy as np
import pytest

from foreclick.estimators.places import Graph, bradley_terry, newton_step


def graph(won, both=None):
    won = np.array(won, float)
    exchanged = (won + won.T > 0) if both is None else np.array(both)
    return Graph(won.sum(axis=1), exchanged.sum(axis=1), exchanged.astype(float), won)


def test_two_places_are_compared_by_their_ratio():
    assert bradley_terry(graph([[0, 30], [10, 0]])) == pytest.approx([1, 1 / 3])


def test_a_steep_curve_is_climbed_where_newton_would_jump():
    won = [[0, 1e6, 0], [1, 0, 1e6], [0, 1, 0]]
    assert bradley_terry(graph(won)) == pytest.approx([1, 1e-6, 1e-12], rel=1e-6)


def test_a_step_is_never_too_long():
    """One item, seen as often at both places, with 900 of 1,000 clicks at the second."""
    found = Graph(
        np.array([100.0, 900.0]), np.ones(2), np.ones((2, 2)), np.array([[0, 50.0], [450, 0]])
    )
    n, clicks, p = np.array([10.0, 10.0]), 1000.0, np.array([1.0, 1e-3])
    for _ in range(20):
        total = n @ p
        step, _ = newton_step(found, p, clicks / total * n, clicks / total**2 * np.outer(n, n))
        assert step[0] == 0
        assert abs(step[1]) <= 1
        p = p * np.exp(step)
    assert p == pytest.approx([1, 9])


def test_the_reference_is_the_first_place_that_can_be_compared():
    """1 beats nobody and nobody beats it; 2 and 3 beat each other; 4 loses; 5 only wins."""
    won = np.zeros((5, 5))
    won[1, 2], won[2, 1], won[2, 3], won[4, 1] = 3, 2, 1, 1
    found = graph(won)
    assert found.reference == 1
    assert found.told.tolist() == [False, True, True, False, False]
    assert found.nothing.tolist() == [False, False, False, True, False]
    assert found.linked[1].tolist() == [False, True, True, True, True]
    assert found.free.tolist() == [2]
    curve = found.with_zeros(bradley_terry(found))
    assert np.allclose(curve, [np.nan, 1, 2 / 3, 0, np.nan], equal_nan=True)


def test_chains_of_any_length_connect():
    won = np.diag(np.ones(29), 1) + np.diag(np.ones(29), -1)
    assert graph(won).told.all()
    assert bradley_terry(graph(won)) == pytest.approx(np.ones(30))
