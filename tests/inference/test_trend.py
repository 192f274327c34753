"""Trends of click rates: found where there are some, all together or each its own way."""

from __future__ import annotations

import numpy as np
import pytest

from foreclick.inference import trend
from foreclick.inference.trend import _SURE, Trend, excess

ITEMS, PERIODS = 400, 14


def totals(slopes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sums that a trend is found from, of items whose rates have these slopes."""
    time = np.arange(PERIODS) - (PERIODS - 1) / 2
    exposed = rng.uniform(20, 60, (len(slopes), PERIODS))
    clicks = rng.poisson(0.3 * exposed * np.exp(slopes[:, None] * time))
    mean = (exposed * time).sum(axis=1) / exposed.sum(axis=1)
    off = time - mean[:, None]
    score = (off * clicks).sum(axis=1)
    rate = clicks.sum(axis=1) / exposed.sum(axis=1)
    information = rate * (exposed * off**2).sum(axis=1)
    parts = score, information, score**2, score * information, information**2
    return np.array([part.sum() for part in parts])


@pytest.mark.parametrize(
    ("common", "spread"), [(0.05, 0.0), (-0.05, 0.0), (0.0, 0.05), (0.03, 0.04)]
)
def test_slopes_and_their_spread_are_found(common: float, spread: float):
    rng = np.random.default_rng(31)
    found = trend(totals(common + spread * rng.standard_normal(ITEMS), rng))
    assert abs(found.common - common) < 4 * found.common_se + 0.003
    assert found.spread == pytest.approx(spread, abs=0.006)
    assert found.drift(PERIODS, 0.1) == pytest.approx((abs(common), spread), abs=0.006)


def test_chance_is_no_trend():
    rng = np.random.default_rng(32)
    for _ in range(20):
        assert trend(totals(np.zeros(ITEMS), rng)).drift(PERIODS, 0.0) == (0.0, 0.0)


def test_a_trend_too_small_to_matter_is_none():
    rng = np.random.default_rng(33)
    found = trend(totals(np.full(50 * ITEMS, 0.004), rng))
    assert found.drift(PERIODS, 0.0)[0] > 0
    assert found.drift(PERIODS, 0.1) == (0.0, 0.0)


def test_nothing_says_nothing():
    assert trend(np.zeros(5)).drift(PERIODS, 0.0) == (0.0, 0.0)
    assert excess(0.0, 0.0, 0.0) == (0.0, 0.0)


def test_at_the_edge_is_not_beyond_it():
    assert Trend(_SURE * 0.25, 0.25, 0.1, _SURE).drift(PERIODS, 0.0) == (0.0, 0.0)
    assert Trend(-1.0, 0.0, 1.0, 9.0).drift(10, 10.0) == (1.0, 1.0)
