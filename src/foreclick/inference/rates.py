"""Intervals of click rates: clicks by chance, divided by exposure that is itself an estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def rate_intervals(
    clicks: Floats, exposure: Floats, reach: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Ends of the intervals of rates, clicks / exposure.

    Clicks have a Poisson distribution, whose interval is exact (Garwood, 1936). The log of the
    exposure has an error that reaches so far; on the scale of logs the two are independent, and
    their squares add, on either side.

    Args:
        clicks: Shape (P,): need not be whole. Of values that are not 0 or 1, the number of clicks
            with the same relative error, (Σ v)² / Σ v².
        exposure: Shape (P,), above 0: clicks divided by it are the rates.
        reach: Shape (P,): how far the interval of log exposure reaches to either side.
        confidence: of the intervals.

    Examples:
        >>> low, high = rate_intervals(np.array([0, 9.0]), np.array([100.0] * 2), np.zeros(2), 0.95)
        >>> low.round(4).tolist(), high.round(4).tolist()
        ([0.0, 0.0412], [0.0369, 0.1708])
    """
    from scipy import special  # noqa: PLC0415 - as in `student`

    tail = (1 - confidence) / 2
    some = clicks > 0
    least = np.where(some, special.gammaincinv(np.where(some, clicks, 1.0), tail), 0.0)
    most = special.gammaincinv(clicks + 1, 1 - tail)
    below = np.where(some, np.log(np.where(some, clicks, 1.0) / np.where(some, least, 1.0)), 0.0)
    above = np.log(most / np.where(some, clicks, most))
    rate = np.where(some, clicks, most) / exposure
    low = np.where(some, rate * np.exp(-np.hypot(below, reach)), 0.0)
    return low, rate * np.exp(np.hypot(above, reach))
