"""Several differences of several estimates at once: paired, and corrected for their number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foreclick.inference import student
from foreclick.inference.intervals import quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

_DRAWS = 20_000
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Contrasts:
    """Differences with their standard errors, by pair of estimates.

    Attributes:
        change: a − b of each pair.
        se: its standard error, from the covariance of the two.
        reach: how many standard errors its own interval reaches.
        joint: how many all of them together do: none is outside its interval, at the confidence.
        p: how often chance alone would give a difference as large, by Student's t.
    """

    change: Floats
    se: Floats
    reach: float
    joint: float
    p: Floats


def contrasts(
    values: Sequence[float],
    covariance: Floats,
    pairs: Sequence[tuple[int, int]],
    confidence: float,
    freedom: float,
    seed: int = 0,
) -> Contrasts:
    """The differences of pairs of estimates, of which the covariance is known."""
    one, other = np.asarray(pairs, dtype=np.intp).reshape(-1, 2).T
    change = np.asarray(values)[one] - np.asarray(values)[other]
    own, common = np.diag(covariance), covariance[one, other] + covariance[other, one]
    variance = own[one] + own[other] - common
    terms = np.abs(own[one]) + np.abs(own[other]) + np.abs(common)
    se = np.sqrt(np.where(variance > _ROUNDING * terms, variance, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(se > 0, change / se, np.where(np.abs(change) > _ROUNDING, np.inf, 0.0))
    some = se > 0
    return Contrasts(
        change=change,
        se=se,
        reach=quantile(confidence, freedom),
        joint=_joint(covariance, one[some], other[some], se[some], confidence, freedom, seed),
        p=2 * student.beyond(np.abs(t), freedom),
    )


def _joint(
    covariance: Floats,
    one: Ints,
    other: Ints,
    se: Floats,
    confidence: float,
    freedom: float,
    seed: int,
) -> float:
    """The quantile of the largest of several correlated t values, by seeded draws.

    Estimates are drawn, not their differences: of 300 there are 45,000.
    """
    if len(se) <= 1:
        return quantile(confidence, freedom)
    rng = np.random.default_rng(seed)
    scale = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    unit = np.where(scale > 0, scale, 1.0)
    # The symmetric root: it hardly moves when the covariance hardly does, whatever the signs of
    # vectors are; and of what is 0 but for rounding it is 0.
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    values = np.where(values > _ROUNDING * values[-1], values, 0.0)
    root = unit[:, None] * (vectors * np.sqrt(values)) @ vectors.T
    drawn = root @ rng.standard_normal((len(covariance), _DRAWS))
    largest = np.zeros(_DRAWS)
    for a, b, error in zip(one.tolist(), other.tolist(), se.tolist(), strict=True):
        np.maximum(largest, np.abs(drawn[a] - drawn[b]) / error, out=largest)
    if math.isfinite(freedom):
        largest = largest / np.sqrt(rng.chisquare(freedom, _DRAWS) / freedom)
    return max(float(np.quantile(largest, confidence)), quantile(confidence, freedom))


def holm(p: Floats) -> Floats:
    """P values that may be read one by one: with any number of them, one false alarm is as rare.

    Examples:
        >>> [round(float(x), 4) for x in holm(np.array([0.01, 0.04, 0.03]))]
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(p)
    factors = len(p) - np.arange(len(p))
    adjusted = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return _back(adjusted, order)


def benjamini_hochberg(p: Floats) -> Floats:
    """P values by which to pick winners, of which at most that share is false.

    Examples:
        >>> [round(float(x), 4) for x in benjamini_hochberg(np.array([0.01, 0.04, 0.03]))]
        [0.03, 0.04, 0.04]
    """
    order = np.argsort(p)
    factors = len(p) / np.arange(1, len(p) + 1)
    adjusted = np.minimum(np.minimum.accumulate((p[order] * factors)[::-1])[::-1], 1.0)
    return _back(adjusted, order)


def _back(adjusted: Floats, order: NDArray[np.intp]) -> Floats:
    found = np.empty_like(adjusted)
    found[order] = adjusted
    return found
