"""From a covariance to what it allows: quantiles, intervals, contrasts, predictions beside results.

NumPy arrays in, numbers out: nothing here knows a log, a click model or a table.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_ROUNDING = 1e-12
_DRAWS = 20_000  # of estimates, for joint intervals
_WIDEST = 1e3  # times; intervals that are shorter still are none
_LEAST = 1e-12  # of the largest variance: what is certain does not outweigh all else for ever
_ANGLES = 3_600  # at which a slope is tried


class Interval(NamedTuple):
    """A standard error and the ends of an interval."""

    se: float
    low: float
    high: float


class Bounded(NamedTuple):
    """A number with its interval; an end is None where the data set none."""

    value: float
    low: float | None
    high: float | None


# --- distributions --------------------------------------------------------------------------------


def _special() -> ModuleType:
    # A third of the time that `import foreclick` would take, for what many sessions never need.
    from scipy import special  # noqa: PLC0415

    return special


def t_quantile(upper: float, freedom: float) -> float:
    """Where Student's t reaches `upper`: the normal distribution with infinite freedom.

    Examples:
        >>> round(t_quantile(0.975, math.inf), 3), round(t_quantile(0.975, 26), 3)
        (1.96, 2.056)
    """
    special = _special()
    return float(special.ndtri(upper) if math.isinf(freedom) else special.stdtrit(freedom, upper))


def t_tail(t: ArrayLike, freedom: float) -> Floats:
    """How often chance alone goes further than `t`, to one side.

    Examples:
        >>> round(float(t_tail(1.96, math.inf)), 3), round(float(t_tail(2.056, 26)), 3)
        (0.025, 0.025)
    """
    special, below = _special(), -np.asarray(t, dtype=np.float64)
    tail = special.ndtr(below) if math.isinf(freedom) else special.stdtr(freedom, below)
    return np.asarray(tail, dtype=np.float64)


def chi_square(upper: float, freedom: float) -> float:
    """Where the distribution function of χ² reaches `upper`.

    Examples:
        >>> round(chi_square(0.95, 1), 2)
        3.84
    """
    return float(_special().chdtri(freedom, 1 - upper))


def quantile(confidence: float, freedom: float) -> float:
    """How many standard errors an interval reaches to either side.

    Examples:
        >>> round(quantile(0.95, math.inf), 3), round(quantile(0.95, 26), 3)
        (1.96, 2.056)
    """
    return t_quantile((1 + confidence) / 2, freedom)


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
    return -t_quantile(float(t_tail(reach, math.inf)), freedom)


def bisect(too_small: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest number between two that is not too small, by 60 halvings.

    Examples:
        >>> bisect(lambda x: x * x < 2, 0.0, 2.0) == math.sqrt(2)
        True
    """
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return high


def margins(confidence: float, power: float) -> float:
    """How many standard errors a change must have, to be told from none with this power.

    Examples:
        >>> round(margins(0.95, 0.8), 3)
        2.802
    """
    return quantile(confidence, math.inf) + t_quantile(power, math.inf)


def sample_size(variance: float, effect: float, margin: float) -> float:
    """The number of records n at which `margin` times √(variance / n) is the effect.

    Examples:
        >>> round(sample_size(0.25 + 0.25, 0.02, margins(0.95, 0.8)))  # of each half of an A/B test
        9811
    """
    root = math.sqrt(variance) * margin / effect if effect else math.inf
    return root * root  # a power would raise where this is infinite


# --- intervals ------------------------------------------------------------------------------------


def interval(center: float, jacobian: ArrayLike, covariance: Floats, reach: float) -> Interval:
    """Of a function of estimates: its value, its slopes, and the covariance of the estimates."""
    slopes = np.asarray(jacobian, dtype=np.float64)
    variance = float(slopes @ covariance @ slopes)
    terms = float(np.abs(slopes) @ np.abs(covariance) @ np.abs(slopes))
    # What is left of a difference of equals is rounding, not uncertainty.
    se = math.sqrt(variance) if variance > _ROUNDING * terms else 0.0
    return Interval(se, center - reach * se, center + reach * se)


def jackknife(middle: float, without: Sequence[float], confidence: float) -> Interval:
    """Around a statistic, from its values without each of G clusters: θ_c.

    se² = (G − 1)/G Σ (θ_c − θ̄)², and Student's t with G − 1 degrees of freedom.

    Examples:
        >>> numbers = [1.0, 2.0, 6.0]
        >>> around = jackknife(3.0, [(sum(numbers) - x) / 2 for x in numbers], 0.95)
        >>> round(around.se**2, 6), round(float(np.var(numbers, ddof=1)) / 3, 6)
        (2.333333, 2.333333)
    """
    left = np.asarray(without, dtype=np.float64)
    count = len(left)
    se = math.sqrt((count - 1) / count * float(((left - left.mean()) ** 2).sum()))
    reach = quantile(confidence, count - 1) * se
    return Interval(se, middle - reach, middle + reach)


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


# --- several differences at once ------------------------------------------------------------------


class Contrasts(NamedTuple):
    """Differences with their standard errors, by pair of estimates.

    Attributes:
        change: a − b of each pair.
        se: its standard error, from the covariance of the two.
        reach: how many standard errors its own interval reaches.
        joint: how many all of them together do: none is outside its interval, at the confidence.
    """

    change: Floats
    se: Floats
    reach: float
    joint: float


def contrasts(
    values: Sequence[float],
    covariance: Floats,
    pairs: Sequence[tuple[int, int]],
    confidence: float,
    freedom: float,
) -> Contrasts:
    """The differences of pairs of estimates, of which the covariance is known.

    `joint` is the quantile of the largest of several correlated t values, by seeded draws of the
    estimates, not of their differences: of 300 estimates there are 45,000.
    """
    one, other = np.asarray(pairs, dtype=np.intp).reshape(-1, 2).T
    change = np.asarray(values)[one] - np.asarray(values)[other]
    diagonal, common = np.diag(covariance), covariance[one, other] + covariance[other, one]
    variance = diagonal[one] + diagonal[other] - common
    terms = np.abs(diagonal[one]) + np.abs(diagonal[other]) + np.abs(common)
    se = np.sqrt(np.where(variance > _ROUNDING * terms, variance, 0.0))
    uncertain, reach = np.flatnonzero(se > 0), quantile(confidence, freedom)
    if len(uncertain) <= 1:
        return Contrasts(change, se, reach, reach)
    rng = np.random.default_rng(0)
    scale = np.sqrt(np.clip(diagonal, 0.0, None))
    unit = np.where(scale > 0, scale, 1.0)
    # The symmetric root: it hardly moves when the covariance hardly does, whatever the signs of
    # vectors are; and of what is 0 but for rounding it is 0.
    roots, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    roots = np.where(roots > _ROUNDING * roots[-1], roots, 0.0)
    root = unit[:, None] * (vectors * np.sqrt(roots)) @ vectors.T
    drawn, largest = root @ rng.standard_normal((len(covariance), _DRAWS)), np.zeros(_DRAWS)
    for pair in uncertain.tolist():
        apart = np.abs(drawn[one[pair]] - drawn[other[pair]]) / se[pair]
        np.maximum(largest, apart, out=largest)
    if math.isfinite(freedom):
        largest = largest / np.sqrt(rng.chisquare(freedom, _DRAWS) / freedom)
    return Contrasts(change, se, reach, max(float(np.quantile(largest, confidence)), reach))


# --- predictions beside measurements --------------------------------------------------------------
#
# Both have errors. With predictions x, measurements y and the variance v of each difference x − y,
# Q = Σ (x − y)² / v is about their number k, if intervals are as wide as they should be.


def mean_difference(difference: Floats, variance: Floats, confidence: float) -> Bounded:
    """The mean difference, each as much as it is sure; wider where they differ beyond chance.

    Examples:
        >>> mean = mean_difference(np.array([1.0, 3.0]), np.array([1.0, 1.0]), 0.95)
        >>> mean.value, round(mean.high - mean.value, 2)
        (2.0, 1.96)
    """
    weight = 1 / np.maximum(variance, max(_LEAST * variance.max(), _LEAST**10))
    middle = float(weight @ difference / weight.sum())
    beyond = float(weight @ (difference - middle) ** 2) / max(len(difference) - 1, 1)
    reach = quantile(confidence, math.inf) * math.sqrt(max(beyond, 1.0) / weight.sum())
    return Bounded(middle, middle - reach, middle + reach)


def widening(
    difference: Floats, predicted: Floats, rest: Floats, confidence: float
) -> Bounded | None:
    """By what factor f the errors of predictions are larger than their intervals say.

    f solves Σ d² / (f² v + rest) = k, and for its interval quantiles of χ² with k degrees of
    freedom instead of k. None where predictions have no errors of their own.

    Args:
        difference: Shape (k,): d, predicted − measured.
        predicted: Shape (k,): v, the variances of predictions.
        rest: Shape (k,): what the differences vary besides, by measurement.
        confidence: of the interval.

    Examples:
        >>> d, one = np.array([3.0, -3.0]), np.ones(2)
        >>> widening(d, one, 0 * one, 0.95).value, widening(d, one, 5 * one, 0.95).value
        (3.0, 2.0)
    """
    if not predicted.any():
        return None

    def factor(target: float) -> float:
        def too_small(f: float) -> bool:
            variance = np.maximum(f**2 * predicted + rest, np.finfo(float).tiny)
            return bool(difference**2 @ (1 / variance) > target)

        return round(bisect(too_small, 0.0, _WIDEST), 12)

    count, tail = len(difference), (1 - confidence) / 2
    ends = (factor(chi_square(upper, count)) for upper in (1 - tail, tail))
    return Bounded(factor(count), *ends)


def slope(x: Floats, y: Floats, covariance: Floats, confidence: float) -> Bounded | None:
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
    more = chi_square(confidence, 1) * max(missed[best] / (len(x) - 2), 1.0)
    within = np.flatnonzero(missed <= missed[best] + more)
    if within[0] == 0 or within[-1] == len(b) - 1:
        return Bounded(float(b[best, 0]), None, None)
    return Bounded(float(b[best, 0]), float(b[within[0], 0]), float(b[within[-1], 0]))
