"""Intervals that hold at every look."""

import math

import numpy as np
import pytest
from scipy.stats import norm, t

from foreclick.inference import anytime, quantile


@pytest.mark.parametrize("later", [0.25, 1, 4])
def test_by_hand(later):
    """ρ² = (6 + ln 7) / t*, nearly, at α = e^−3; at t = later t* it is the formula of the paper."""
    confidence = 1 - math.exp(-3)
    u = later * (6 + math.log(7))
    expected = math.sqrt(2 * (u + 1) / u * (0.5 * math.log(u + 1) + 3))
    assert anytime(confidence, math.inf, 50 * later, 50) == pytest.approx(expected)


def test_only_the_share_of_the_tuned_time_counts_and_there_it_is_about_the_shortest():
    times = np.geomspace(1, 10_000, 401)
    reaches = [anytime(0.95, math.inf, time, 100) for time in times]
    assert anytime(0.95, math.inf, 30, 100) == pytest.approx(anytime(0.95, math.inf, 0.3, 1))
    # ρ is chosen for the width at t*, reach / √t; the reach itself is least a little later.
    assert reaches[int(np.searchsorted(times, 100))] < 1.01 * min(reaches)


@pytest.mark.parametrize("freedom", [3, 29])
def test_of_few_clusters_the_tail_is_as_rare(freedom):
    reach = anytime(0.95, freedom, 14, 14)
    assert t.sf(reach, freedom) == pytest.approx(norm.sf(anytime(0.95, math.inf, 14, 14)))
    assert anytime(0.95, 1e6, 14, 14) == pytest.approx(anytime(0.95, math.inf, 14, 14), rel=1e-4)


@pytest.mark.parametrize("few", [False, True])
def test_all_looks_together_hold_the_truth(few):
    """Means of normal days, looked at every day from the fourth; with known or estimated spread."""
    rng = np.random.default_rng(few)
    days = rng.standard_normal((4000, 200))
    count = np.arange(1, 201)
    mean = days.cumsum(axis=1) / count
    left = (days**2).cumsum(axis=1) - count * mean**2
    sd = np.sqrt(left / np.maximum(count - 1, 1))
    distance = (np.abs(mean) * np.sqrt(count))[:, 3:] / (sd[:, 3:] if few else 1.0)
    freedom = [k - 1 if few else math.inf for k in count[3:]]
    reach = [anytime(0.95, f, k, 14) for f, k in zip(freedom, count[3:], strict=True)]
    once = [quantile(0.95, f) for f in freedom]
    assert (distance <= reach).all(axis=1).mean() >= 0.95
    assert (distance <= once).all(axis=1).mean() < 0.75  # whoever peeks
