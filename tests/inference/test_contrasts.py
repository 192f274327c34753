"""Differences of several estimates, by hand and by simulation."""

import itertools
import math

import numpy as np
import pytest

from foreclick.inference import contrasts, quantile

COVARIANCE = np.array([[4.0, 3.0, 1.0], [3.0, 4.0, 1.0], [1.0, 1.0, 2.0]])


def test_by_hand():
    found = contrasts([1.0, 3.0, 2.0], COVARIANCE, [(0, 2), (0, 1)], 0.95, math.inf)
    assert found.change == pytest.approx([-1.0, -2.0])
    assert found.se == pytest.approx([2.0, math.sqrt(2)])  # 4 + 2 − 2·1, 4 + 4 − 2·3
    assert found.reach == pytest.approx(1.959964, abs=1e-6)


@pytest.mark.parametrize("freedom", [8, math.inf])
def test_joint_intervals_hold_together(freedom):
    pairs = [(0, 2), (1, 2), (0, 1)]
    found = contrasts([0.0, 0.0, 0.0], COVARIANCE, pairs, 0.9, freedom)
    assert found.joint > found.reach == quantile(0.9, freedom)
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(np.zeros(3), COVARIANCE, 50_000)
    if math.isfinite(freedom):
        draws /= np.sqrt(rng.chisquare(freedom, (50_000, 1)) / freedom)
    differences = np.stack([draws[:, a] - draws[:, b] for a, b in pairs], axis=1)
    held = (np.abs(differences) <= found.joint * found.se).all(axis=1).mean()
    assert held == pytest.approx(0.9, abs=0.01)


def test_many_estimates_need_no_matrix_of_their_pairs():
    """Of independent estimates with equal errors: Tukey's range of 60, a t value of it over √2."""
    count = 60
    pairs = list(itertools.combinations(range(count), 2))
    found = contrasts([0.0] * count, np.eye(count), pairs, 0.95, math.inf)
    assert found.se == pytest.approx([math.sqrt(2)] * len(pairs))
    ranges = np.ptp(np.random.default_rng(5).standard_normal((20_000, count)), axis=1)
    assert found.joint == pytest.approx(np.quantile(ranges, 0.95) / math.sqrt(2), rel=0.01)


def test_estimates_of_different_sizes_keep_their_differences():
    """The error of one estimate is a million times that of two which are nearly equal."""
    small = np.array([[1.0, 1 - 1e-9], [1 - 1e-9, 1.0]])
    whole = np.zeros((3, 3))
    whole[:2, :2], whole[2, 2] = small, 1e12
    found = contrasts([0.0] * 3, whole, [(0, 1), (0, 2)], 0.95, math.inf)
    assert found.se[0] == pytest.approx(math.sqrt(2e-9), rel=1e-6)
    assert found.joint == pytest.approx(2.2365, abs=0.03)  # Šidák: two independent ones
