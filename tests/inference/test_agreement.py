"""Predicted beside measured: the factor, the slope and the bias are those of simulated errors."""

from typing import Any

import numpy as np
import pytest

from foreclick.inference import mean_difference, slope, widening


def told(found):
    assert found is not None
    return found


def errors(seed: int, factor: float, count: int = 200) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    own, rest = rng.uniform(0.5, 2, count), rng.uniform(0.5, 2, count)
    drawn = rng.normal(size=count) * np.sqrt(factor**2 * own + rest)
    return drawn, own, rest


@pytest.mark.parametrize("factor", [1.0, 2.0, 5.0])
def test_the_widening_is_found_as_often_as_it_says(factor):
    held = 0
    for seed in range(200):
        found = told(widening(*errors(seed, factor, 30), confidence=0.95))
        held += found.low <= factor <= found.high
    assert 180 <= held <= 200


def test_predictions_without_errors_cannot_be_widened():
    assert widening(np.ones(3), np.zeros(3), np.ones(3), 0.95) is None


def test_the_slope_is_not_flattened_by_errors_of_predictions():
    rng = np.random.default_rng(1)
    truth = rng.normal(size=2000)
    x, y = truth + rng.normal(size=2000), 1 + 2 * truth + rng.normal(size=2000)
    variances = np.stack([np.ones(2000), np.ones(2000), np.zeros(2000)])
    found = told(slope(x, y, variances, 0.95))
    assert np.polyfit(x, y, 1)[0] < 1.2  # as least squares would have it
    assert found.low < 2 < found.high < 2.4


def test_the_mean_difference_weighs_by_certainty():
    found = mean_difference(np.array([0.0, 10.0]), np.array([1e-6, 100.0]), 0.95)
    assert found.value == pytest.approx(0, abs=1e-3)
