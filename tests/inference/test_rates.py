"""Intervals of click rates, against the quantiles of χ² that Garwood's are."""

import numpy as np
import pytest
from scipy import stats

from foreclick.inference import rate_intervals

CLICKS = np.array([0.0, 0.5, 1.0, 3.0, 40.0])
EXPOSURE = np.array([10.0, 20.0, 5.0, 50.0, 400.0])


def test_known_exposure_gives_garwoods_intervals():
    low, high = rate_intervals(CLICKS, EXPOSURE, np.zeros(5), 0.9)
    least = np.where(CLICKS > 0, stats.chi2.ppf(0.05, np.maximum(2 * CLICKS, 1e-9)) / 2, 0.0)
    assert low == pytest.approx(least / EXPOSURE, rel=1e-9)
    assert high == pytest.approx(stats.chi2.ppf(0.95, 2 * CLICKS + 2) / 2 / EXPOSURE, rel=1e-9)


def test_errors_of_clicks_and_exposure_add_by_their_squares():
    exact, far = rate_intervals(CLICKS, EXPOSURE, np.zeros(5), 0.9), np.full(5, 0.3)
    low, high = rate_intervals(CLICKS, EXPOSURE, far, 0.9)
    some, rate = CLICKS > 0, CLICKS / EXPOSURE
    below, above = (np.abs(np.log(end[some] / rate[some])) for end in exact)
    assert low[some] == pytest.approx(rate[some] * np.exp(-np.hypot(below, 0.3)))
    assert high[some] == pytest.approx(rate[some] * np.exp(np.hypot(above, 0.3)))
    assert (low[0], high[0]) == (0.0, pytest.approx(exact[1][0] * np.exp(0.3)))
