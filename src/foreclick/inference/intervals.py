"""Intervals from the covariance of an estimate V and of what it is compared with, F."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


_ROUNDING = 1e-12


class Interval(NamedTuple):
    """A standard error and the ends of an interval."""

    se: float
    low: float
    high: float


def quantile(confidence: float, freedom: float) -> float:
    """How many standard errors an interval reaches to either side.

    Examples:
        >>> round(quantile(0.95, math.inf), 3), round(quantile(0.95, 26), 3)
        (1.96, 2.056)
    """
    upper = (1 + confidence) / 2
    return float(ndtri(upper) if math.isinf(freedom) else stdtrit(freedom, upper))


def value(v: float, covariance: Floats, reach: float) -> Interval:
    """Of V itself; rewards are not negative, so neither is its lower end."""
    found = _around(v, covariance, np.array([1.0, 0.0]), reach)
    return found._replace(low=max(found.low, 0.0))


def change(v: float, f: float, covariance: Floats, reach: float) -> Interval:
    """Of V − F, paired."""
    return _around(v - f, covariance, np.array([1.0, -1.0]), reach)


def lift(v: float, f: float, covariance: Floats, reach: float) -> Interval:
    """Of V / F − 1, paired, by the delta method."""
    return _around(v / f - 1, covariance, np.array([1.0, -v / f]) / f, reach)


def _around(center: float, covariance: Floats, gradient: Floats, reach: float) -> Interval:
    variance = float(gradient @ covariance @ gradient)
    terms = float(np.abs(gradient) @ np.abs(covariance) @ np.abs(gradient))
    # What is left of a difference of equals is rounding, not uncertainty.
    se = math.sqrt(variance) if variance > _ROUNDING * terms else 0.0
    return Interval(se, center - reach * se, center + reach * se)
