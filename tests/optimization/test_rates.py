"""Errors of the examination: derivatives of the ladder's rates, and what items that moved say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from foreclick.learn.places import curve_information, examination_curve
from foreclick.optimization.rates import UNKNOWN, LadderRates, SlotCounts, examination_covariance
from tests.answers import close

STEP = 1e-6
# Differences of rates 2e-6 apart in log p.
DERIVATIVE = 1e-8


def some_counts(seed: int) -> SlotCounts:
    """Three contexts with four, three and five items at four positions."""
    rng = np.random.default_rng(seed)
    n = np.where(rng.random((12, 4)) < 0.6, rng.integers(0, 30, (12, 4)), 0).astype(np.float64)
    c = np.floor(n * rng.random((12, 4)))
    return SlotCounts(np.repeat([0, 1, 2], [4, 3, 5]), n, c, np.array([50.0, 60.0, 70.0]))


def by_differences(ladder: LadderRates, counts: SlotCounts) -> np.ndarray:
    """Shape (K, P, K): the derivative of every rate by each log p_j."""
    found = []
    for j in range(len(ladder.examined)):
        ends = []
        for sign in (1, -1):
            p = np.array(ladder.examined)
            p[j] *= math.exp(sign * STEP)
            ends.append(replace(ladder, examined=tuple(p)).rates(counts).rate)
        found.append((ends[0] - ends[1]) / (2 * STEP))
    return np.array(found)


@pytest.mark.parametrize(
    "strengths", [(7.0, 3.0, 4.0), (math.inf, 3.0, 4.0), (7.0, math.inf, 2.0), (5.0, 2.0, math.inf)]
)
def test_derivatives_are_those_of_the_rates(strengths: tuple[float, float, float]):
    ladder, counts = LadderRates(strengths, (1.0, 0.6, 0.4, 0.3), 0.2), some_counts(1)
    rng = np.random.default_rng(2)
    root = rng.normal(size=(4, 4))
    learnt = replace(ladder, covariance=root @ root.T)  # the log's own rate stays as it is
    slopes, rates = by_differences(ladder, counts), learnt.rates(counts)
    variance = np.einsum("iak,ij,jak->ak", slopes, root @ root.T, slopes)
    added = rates.variance - ladder.rates(counts).variance
    np.testing.assert_allclose(added, variance, atol=DERIVATIVE, rtol=1e-7)
    h = rng.random(counts.n.shape)
    each = [
        [float((h * slope)[counts.owner == x].sum()) for slope in slopes]
        for x in range(len(counts.records))
    ]
    assert rates.by_p is not None
    gradient = counts.by_context(rates.by_p.of_items(h))
    np.testing.assert_allclose(gradient, each, atol=DERIVATIVE)
    of_all = gradient.sum(axis=0)
    assert learnt.se(of_all) == pytest.approx(float(np.linalg.norm(of_all @ root)))


def test_an_item_that_never_moved_is_known_where_it_stood_and_nowhere_else():
    n = np.diag([400.0, 400.0, 400.0])
    counts = SlotCounts(np.zeros(3, dtype=np.int64), n, 0.25 * n, np.array([400.0]))
    # Items learn next to nothing from their context.
    ladder = LadderRates((50.0, 0.01, 0.01), (1.0, 0.5, 0.3), 0.25)
    covariance = examination_covariance(np.zeros((3, 3)))
    learnt = replace(ladder, covariance=covariance, clicks=np.full(3, 1 / 3))
    se = np.sqrt(learnt.rates(counts).variance - ladder.rates(counts).variance)
    at_home, away = np.diag(se), se[~np.eye(3, dtype=np.bool_)]
    assert at_home.max() < 1e-4
    rate = ladder.rates(counts).rate[~np.eye(3, dtype=np.bool_)]
    # The ratio of two p, each unknown.
    np.testing.assert_allclose(away, rate * UNKNOWN * math.sqrt(2), rtol=1e-3)


def test_information_is_the_curvature_of_the_likelihood():
    rng = np.random.default_rng(5)
    n = np.where(rng.random((30, 4)) < 0.7, rng.integers(0, 40, (30, 4)), 0).astype(np.float64)
    w = np.floor(n * rng.random((30, 4)) * 0.4)
    p = examination_curve(n, w)
    moved = ((n > 0).sum(axis=1) > 1) & (w.sum(axis=1) > 0)

    def likelihood(log_p: np.ndarray) -> float:
        total = n[moved] @ np.exp(log_p)
        return float(w[moved].sum(axis=0) @ log_p - w[moved].sum(axis=1) @ np.log(total))

    step, at = 1e-4 * np.eye(4), np.log(p)
    curvature = [
        [
            -sum(si * sj * likelihood(at + si * a + sj * b) for si in (1, -1) for sj in (1, -1))
            / 4e-8
            for b in step
        ]
        for a in step
    ]
    found = curve_information(n, w, p)
    np.testing.assert_allclose(found, curvature, atol=1e-3)
    np.testing.assert_allclose(found.sum(axis=0), 0.0, atol=1e-9)  # p has no scale of its own


def test_pessimism_lowers_rates_by_what_they_may_be_off():
    """One item at one position, by hand: three rungs, each with its own doubt."""
    ladder = LadderRates((4.0, 3.0, 2.0), (1.0,), 0.3)
    counts = SlotCounts(np.array([0]), np.array([[12.0]]), np.array([[6.0]]), np.array([12.0]))
    rate, off, step, _ = ladder.rates(counts)
    n_item, c_item = 12 * 4 / 16, 6 * 4 / 16
    n_context, c_context = n_item * 3 / (n_item + 3), c_item * 3 / (n_item + 3)
    context = (c_context + 2 * 0.3) / (n_context + 2)
    item = (c_item + 3 * context) / (n_item + 3)
    top = (6 + 4 * item) / 16
    doubt = context / (n_context + 2)
    doubt = item / (n_item + 3) + (3 / (n_item + 3)) ** 2 * doubt
    doubt = top / 16 + (4 / 16) ** 2 * doubt
    assert close(rate[0, 0], top, 1e-12)
    assert close(off[0, 0], doubt, 1e-12)
    assert close(step[0, 0], 1 / 16 + (4 / 16) / (n_item + 3), 1e-12)  # of one click
