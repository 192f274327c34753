"""Predictions beside measurements: how far they are apart, and whether by more than chance.

Both have errors. With predictions x, measurements y and the variance v of each difference x − y,
Q = Σ (x − y)² / v is about as large as their number k, if intervals are as wide as they should be.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foreclick.inference import student

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_WIDEST = 1e3  # times; intervals that are shorter still are none
_LEAST = 1e-12  # of the largest variance: what is certain does not outweigh all else for ever
_ANGLES = 3_600


class Told(NamedTuple):
    """A number with its interval; an end is None where the data set none."""

    value: float
    low: float | None
    high: float | None


def mean_difference(difference: Floats, variance: Floats, confidence: float) -> Told:
    """The mean difference, each as much as it is sure; wider where they differ beyond chance.

    Examples:
        >>> told = mean_difference(np.array([1.0, 3.0]), np.array([1.0, 1.0]), 0.95)
        >>> told.value, round(told.high - told.value, 2)
        (2.0, 1.96)
    """
    weight = 1 / np.maximum(variance, max(_LEAST * variance.max(), _LEAST**10))
    middle = float(weight @ difference / weight.sum())
    beyond = float(weight @ (difference - middle) ** 2) / max(len(difference) - 1, 1)
    se = math.sqrt(max(beyond, 1.0) / weight.sum())
    reach = student.quantile((1 + confidence) / 2, math.inf) * se
    return Told(middle, middle - reach, middle + reach)


def widening(difference: Floats, own: Floats, rest: Floats, confidence: float) -> Told | None:
    """By what factor f the errors of predictions are larger than their intervals say.

    f solves Σ d² / (f² own + rest) = k, and for its interval quantiles of χ² with k degrees of
    freedom instead of k. None where predictions have no errors of their own.

    Args:
        difference: Shape (k,): d, predicted − measured.
        own: Shape (k,): the variances of predictions.
        rest: Shape (k,): what the differences vary besides, by measurement.
        confidence: of the interval.

    Examples:
        >>> d, one = np.array([3.0, -3.0]), np.ones(2)
        >>> widening(d, one, 0 * one, 0.95).value, widening(d, one, 5 * one, 0.95).value
        (3.0, 2.0)
    """
    if not own.any():
        return None

    def factor(target: float) -> float:
        low, high = 0.0, _WIDEST
        for _ in range(60):
            middle = (low + high) / 2
            variance = np.maximum(middle**2 * own + rest, np.finfo(float).tiny)
            low, high = (middle, high) if difference**2 @ (1 / variance) > target else (low, middle)
        return round(high, 12)

    count, tail = len(difference), (1 - confidence) / 2
    return Told(
        factor(count),
        factor(student.chi_square(1 - tail, count)),
        factor(student.chi_square(tail, count)),
    )


def slope(x: Floats, y: Floats, covariance: Floats, confidence: float) -> Told | None:
    """Of the line y = a + b x, where both have errors (York, 1966).

    b makes Σ (y − a − b x)² / (v_y + b² v_x − 2 b v_xy) smallest; its interval holds all b for
    which the sum is larger by less than a quantile of χ². None of fewer than three points.

    Args:
        x: Shape (k,): predictions.
        y: Shape (k,): measurements.
        covariance: Shape (3, k): v_x, v_y and v_xy of each.
        confidence: of the interval.

    Examples:
        >>> x, small = np.array([-1.0, 0.0, 1.0]), np.full((3, 3), [[1e-4], [1e-4], [0.0]])
        >>> round(slope(x, 2 * x, small, 0.95).value, 2)
        2.0
    """
    if len(x) < 3:
        return None
    b = np.tan(np.linspace(-np.pi / 2, np.pi / 2, _ANGLES + 1)[1:-1])[:, None]
    weight = 1 / np.maximum(covariance[1] + b**2 * covariance[0] - 2 * b * covariance[2], 1e-300)
    left = y - b * x
    level = (weight * left).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)
    missed = (weight * (left - level) ** 2).sum(axis=1)
    best = int(missed.argmin())
    more = student.chi_square(confidence, 1) * max(missed[best] / (len(x) - 2), 1.0)
    within = np.flatnonzero(missed <= missed[best] + more)
    open_ = within[0] == 0 or within[-1] == len(b) - 1
    low, high = (None, None) if open_ else (float(b[within[0], 0]), float(b[within[-1], 0]))
    return Told(float(b[best, 0]), low, high)
