"""How heavy the tail of the weights is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

FEWEST = 5
"""Different weights in the tail; of fewer, nobody can say how it falls."""

_SHARE, _ROOTS = 0.2, 3.0  # the tail: 3 √n records, or a fifth where that is less or too few
_PRIOR, _TOWARDS = 10.0, 0.5  # as if ten more records of a tail with k = 0.5 had been seen


def pareto_k(weights: ArrayLike, counts: ArrayLike, records: float | None = None) -> float | None:
    """The shape k of a generalized Pareto distribution, fitted to the largest weights.

    Moments of order 1 / k and above do not exist. Below 0.5 the weights have a variance, and an
    interval means what it says; up to 0.7 it converges slowly; above, the largest weights rule the
    estimate, and those that are larger still were not seen yet (Vehtari et al., "Pareto smoothed
    importance sampling", JMLR 2024; the fit is Zhang and Stephens', Technometrics 2009).

    Args:
        weights: different weights, in any order; the largest are enough.
        counts: how many records have each.
        records: how many there are in all, if not the sum of the counts.

    Returns:
        k, or None if the tail has fewer than five different weights.

    Examples:
        >>> even = (np.arange(1000) + 0.5) / 1000
        >>> round(pareto_k((1 - even) ** -0.5, np.ones(1000)), 1)
        0.5
    """
    order = np.argsort(np.asarray(weights, dtype=np.float64))[::-1]
    falling = np.asarray(weights, dtype=np.float64)[order]
    often = np.asarray(counts, dtype=np.float64)[order]
    everyone = float(often.sum()) if records is None else records
    for size in (min(_ROOTS * math.sqrt(everyone), _SHARE * everyone), _SHARE * everyone):
        # The tail is above the first weight whose records do not all fit into it.
        fits = int(np.searchsorted(np.cumsum(often), size, side="right"))
        cut = falling[min(fits, len(falling) - 1)] if len(falling) else 0.0
        beyond = (falling[falling > cut] - cut)[::-1]
        if len(np.unique(beyond)) >= FEWEST:
            here = often[: len(beyond)][::-1]
            total = float(here.sum())
            return (_shape(beyond, here, total) * total + _TOWARDS * _PRIOR) / (total + _PRIOR)
    return None


def _shape(beyond: Floats, often: Floats, total: float) -> float:
    """Zhang and Stephens' estimate, from rising excesses that are there so many times each.

    The likelihood is averaged over a grid of θ, by which x ↦ −ln(1 − θ x) makes them exponential.
    """
    steps = 30 + int(math.sqrt(total))
    quartile = beyond[np.searchsorted(np.cumsum(often), math.floor(total / 4 + 0.5))]
    grid = 1 - np.sqrt(steps / (np.arange(1, steps + 1) - 0.5))
    theta = 1 / beyond[-1] + grid / (3 * quartile)
    mean = np.log1p(-theta[:, None] * beyond) @ often / total
    likelihood = total * (np.log(-theta / mean) - mean - 1)
    share = np.exp(likelihood - likelihood.max())
    best = float(theta @ share / share.sum())
    return float(np.log1p(-best * beyond) @ often / total)
