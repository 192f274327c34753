"""Intervals from the covariance of an estimate V and of what it is compared with, F."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foreclick.inference import student

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    return student.quantile((1 + confidence) / 2, freedom)


def anytime(confidence: float, freedom: float, time: float, tuned: float) -> float:
    """The same for intervals that hold at every look together, however often a log is looked at.

    An asymptotic confidence sequence: a normal mixture over what the truth might be (Robbins, 1970;
    Waudby-Smith et al., 2024). With α = 1 − confidence it reaches, after time t,

        √(2 (tρ² + 1) / (tρ²) · ln(√(tρ² + 1) / α))

    standard errors. ρ makes it short about t = `tuned`; it has to be settled before the first look.
    An early look costs more than a late one: three times the best reach at t = tuned / 100, a sixth
    more at 100 × tuned. Where clusters are few, Student's t of the same tail takes its place.

    Args:
        confidence: that all looks together hold the truth.
        freedom: degrees of freedom of the standard error.
        time: t, what the estimate has seen so far; its variance falls as 1 / t.
        tuned: the time at which the interval should be short.

    Examples:
        >>> [round(anytime(0.95, math.inf, t, 14), 2) for t in (4, 14, 60)]
        [3.22, 3.04, 3.13]
        >>> round(anytime(0.95, 13, 14, 14), 2)
        3.76
    """
    risk = 1 - confidence
    tight = -2 * math.log(risk) + math.log1p(-2 * math.log(risk))  # ρ² · tuned
    grown = tight * time / tuned
    reach = math.sqrt(2 * (grown + 1) / grown * math.log(math.sqrt(grown + 1) / risk))
    return -student.quantile(float(student.beyond(reach, math.inf)), freedom)


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


def jackknife(middle: float, without: Sequence[float], confidence: float) -> Interval:
    """Around a statistic, from its values without each of G clusters: θ_c.

    se² = (G − 1)/G Σ (θ_c − θ̄)², and Student's t with G − 1 degrees of freedom.

    Examples:
        >>> numbers = [1.0, 2.0, 6.0]
        >>> found = jackknife(3.0, [(sum(numbers) - x) / 2 for x in numbers], 0.95)
        >>> round(found.se**2, 6), round(float(np.var(numbers, ddof=1)) / 3, 6)
        (2.333333, 2.333333)
    """
    left = np.asarray(without, dtype=np.float64)
    count = len(left)
    se = math.sqrt((count - 1) / count * float(((left - left.mean()) ** 2).sum()))
    reach = quantile(confidence, count - 1) * se
    return Interval(se, middle - reach, middle + reach)


def _around(center: float, covariance: Floats, gradient: Floats, reach: float) -> Interval:
    variance = float(gradient @ covariance @ gradient)
    terms = float(np.abs(gradient) @ np.abs(covariance) @ np.abs(gradient))
    # What is left of a difference of equals is rounding, not uncertainty.
    se = math.sqrt(variance) if variance > _ROUNDING * terms else 0.0
    return Interval(se, center - reach * se, center + reach * se)


def excess(squared: float, information: float, square: float) -> tuple[float, float]:
    """How much effects differ beyond chance: their spread, and how sure it is that there is one.

    An effect b of spread τ gives a score S of counted clicks the variance I + τ² I²; by chance
    alone its square has the variance 2 I² + I.

    Args:
        squared: Σ S².
        information: Σ I.
        square: Σ I².

    Returns:
        τ, and how many standard errors τ² is above 0.

    Examples:
        >>> spread, sure = excess(500.0, 100.0, 10000.0)
        >>> spread, round(sure, 2)
        (0.2, 2.82)
    """
    if square <= 0:
        return 0.0, 0.0
    left = squared - information
    return math.sqrt(max(left / square, 0.0)), left / math.sqrt(2 * square + information)
