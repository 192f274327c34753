"""How strong a rung is: losses of counts given their means, and the strength with the least.

A rung of strength s lets the next coarser rung count as much as s records of its own, see `rungs`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from foreclick.allowances import LEVERAGE_BOUND
from foreclick.batches import Floats


def leverage_factor(own: Floats) -> Floats:
    """1 / √(1 − h), the leverage correction of a day with the share h of a cell."""
    return np.asarray(1 / np.sqrt(1 - np.minimum(own, LEVERAGE_BOUND)))


GAIN = 4.0
"""The least gain in log-likelihood for which one more parameter is fitted."""

_GRID: Floats = np.linspace(-2.0, 7.0, 28)
_SAME = 1e-12


def minimum_on_grid(loss: Callable[[int], float], size: int) -> tuple[int, dict[int, float]]:
    """The number below `size` with the least loss, of a unimodal loss; and all losses that it took.

    Every fourth is tried first, then those around the best.
    """
    seen = {j: loss(j) for j in range(0, size, 4)}
    at = _first_of_the_least(seen)
    for j in range(max(at - 3, 0), min(at + 4, size)):
        if j not in seen:
            seen[j] = loss(j)
    return _first_of_the_least(seen), seen


def _first_of_the_least(losses: dict[int, float]) -> int:
    """The first number whose loss is the least, but for rounding: a flat loss has no other."""
    least = min(losses.values())
    return min(j for j, each in losses.items() if each <= least + _rounding(least))


def _rounding(loss: float) -> float:
    """Losses that differ by less are the same."""
    return _SAME * max(abs(loss), 1.0)


def best_strength(loss: Callable[[float], float]) -> float:
    """The number whose logarithm has the least loss, between the points of a grid."""
    at, seen = minimum_on_grid(lambda j: loss(_GRID[j]), len(_GRID))
    j = min(max(at, 1), len(_GRID) - 2)
    left, mid, right = (seen[i] if i in seen else loss(_GRID[i]) for i in (j - 1, j, j + 1))
    bend, fall = left - 2 * mid + right, left - right
    if max(abs(bend), abs(fall)) <= _rounding(mid):
        return float(np.exp(_GRID[j]))
    shift = np.clip(fall / (2 * bend), -1, 1) if bend > 0 else np.sign(fall)
    return float(np.exp(_GRID[j] + shift * (_GRID[1] - _GRID[0])))


def poisson_losses(c: Floats, mean: Floats) -> Floats:
    """μ − c log μ of clicks c of means μ, whose sum is least for the right means."""
    losses, hit = mean.copy(), np.flatnonzero(c)
    losses[hit] -= c[hit] * np.log(np.maximum(mean[hit], 1e-300))
    return losses


def poisson_loss(c: Floats, mean: Floats) -> float:
    """Σ μ − c log μ."""
    hit = np.flatnonzero(c)
    return float(mean.sum() - c[hit] @ np.log(np.maximum(mean[hit], 1e-300)))


def negative_binomial_loss(c: Floats, mean: Floats) -> Callable[[float], float]:
    """The loss of log strength, by the negative binomial distribution of counts of these means."""
    from scipy.special import gammaln  # noqa: PLC0415 - slow to import

    c, mean = c[mean > 0], mean[mean > 0]
    hit = np.flatnonzero(c)  # where nothing was clicked, the other terms are 0
    clicked, expected = c[hit], mean[hit]

    def loss(log_s: float) -> float:
        s = np.exp(log_s)
        each = gammaln(clicked + s) - gammaln(s) - clicked * np.log1p(s / expected)
        return float(s * np.log1p(mean / s).sum() - each.sum())

    return loss
