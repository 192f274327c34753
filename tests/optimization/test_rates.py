"""The ladder's rates of items at positions: how they move with what contexts share."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import foreclick as fc
from foreclick.learn.prior import Prior, Theta
from foreclick.optimization.choice import LadderRates
from tests.answers import close

STEP = 1e-6
# To first order, strengths of items do not move with the rates that they are of.
DERIVATIVE = 0.15


def some_counts(seed: int) -> tuple[np.ndarray, ...]:
    """Three contexts with four, three and five items at four positions."""
    rng = np.random.default_rng(seed)
    n = np.where(rng.random((12, 4)) < 0.6, rng.integers(0, 30, (12, 4)), 0).astype(np.float64)
    c = np.floor(n * rng.random((12, 4)))
    return np.repeat([0, 1, 2], [4, 3, 5]), n, c, np.array([50.0, 60.0, 70.0])


def ladder_of(s: float, a: float, t: float, p: tuple[float, ...]) -> LadderRates:
    """A ladder that is given."""
    theta = Theta(np.array([-1.0, 0.4, 0.3, -0.2]), np.array(p), a, t)
    nothing = np.zeros(3 + len(p))
    fit = Prior(fc.Ladder("ip"), "clicks", 1.0, theta, np.diag(nothing), nothing, (s,), dated=True)
    return LadderRates(fit, np.diag(nothing))


def by_differences(ladder: LadderRates, counts: tuple[np.ndarray, ...]) -> np.ndarray:
    """Shape (N, P, K): the derivative of every rate by β and by log p."""
    found = []
    for step in STEP * np.eye(len(ladder.covariance)):
        ends = [
            replace(ladder, fit=replace(ladder.fit, theta=ladder.fit.theta.moved(sign * step)))
            .rates(*counts)
            .rate
            for sign in (1, -1)
        ]
        found.append((ends[0] - ends[1]) / (2 * STEP))
    return np.array(found)


@pytest.mark.parametrize(
    ("s", "a", "t"), [(7.0, 3.0, 4.0), (math.inf, 3.0, 4.0), (5.0, 20.0, 50.0)]
)
def test_derivatives_are_those_of_the_rates(s: float, a: float, t: float):
    ladder, counts = ladder_of(s, a, t, (1.0, 0.6, 0.4, 0.3)), some_counts(1)
    rng = np.random.default_rng(2)
    root = 0.3 * rng.normal(size=(7, 7))
    learnt = replace(ladder, covariance=root @ root.T)
    slopes, rates = by_differences(ladder, counts), learnt.rates(*counts)
    variance = np.einsum("iak,ij,jak->ak", slopes, root @ root.T, slopes)
    added = rates.variance - ladder.rates(*counts).variance
    np.testing.assert_allclose(added, variance, atol=1e-3, rtol=DERIVATIVE)
    h = rng.random(counts[1].shape)
    each = [float((h * slope).sum()) for slope in slopes]
    gradient = rates.gradient(h)
    assert np.linalg.norm(gradient - each) < DERIVATIVE * np.linalg.norm(each)
    assert learnt.se(gradient) == pytest.approx(float(np.linalg.norm(gradient @ root)))


def test_pessimism_lowers_rates_by_what_they_may_be_off():
    """One item at one position, by hand: three rungs, each with its own doubt."""
    ladder = ladder_of(4.0, 3.0, 2.0, (1.0,))
    counts = np.array([0]), np.array([[12.0]]), np.array([[6.0]]), np.array([12.0])
    rate, off, step, *_ = ladder.rates(*counts)
    n, c = 12 * 4 / 16, 6 * 4 / 16
    expected, level = math.exp(-1.0 + 0.4 - 0.2), 1.0
    for _ in range(6):
        lean = 1 / (1 + n * expected * level / 3)
        level = (lean * c + 2) / (lean * n * expected + 2)
    m = expected * level
    lean = 1 / (1 + n * m / 3)
    item = (c + 3) / (n + 3 / m)
    top = (6 + 4 * item) / 16
    doubt = item / (n + 3 / m) + (item * lean) ** 2 / (lean * n * m + 2 * level)
    doubt = top / 16 + (4 / 16) ** 2 * doubt
    assert close(rate[0, 0], top, 1e-12)
    assert close(off[0, 0], doubt, 1e-12)
    assert close(step[0, 0], 1 / 16 + (4 / 16) / (n + 3 / m), 1e-12)  # of one click
