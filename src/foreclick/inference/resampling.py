"""From a statistic of many altered logs to how uncertain it is. NumPy only.

The log is altered by whole *clusters* (a day, a bucket of users), c = 1 … G, because records of one
cluster vary together. With θ̂ of the log as it is:

| | altered logs | variance | interval |
|---|---|---|---|
| jackknife | each leaves one cluster out: θ_c | (G − 1)/G Σ (θ_c − θ̄)² | θ̂ ± t_{G−1} se |
| bootstrap | each draws G clusters, with repeats: θ_b | that of θ_b | quantiles of θ_b |
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foreclick.inference.intervals import quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Resampled(NamedTuple):
    """What the altered logs say of a statistic."""

    se: float
    low: float
    high: float
    bias: float


def jackknife(value: float, without: Sequence[float], confidence: float) -> Resampled:
    """From the statistic without each of the clusters.

    The bias is (G − 1)(θ̄ − θ̂), what a statistic that is not linear gains or loses by the log's
    finite size; the interval is around θ̂ all the same.

    Examples:
        >>> numbers = [1.0, 2.0, 6.0]
        >>> found = jackknife(3.0, [(sum(numbers) - x) / 2 for x in numbers], 0.95)
        >>> round(found.se**2, 6), round(float(np.var(numbers, ddof=1)) / 3, 6)
        (2.333333, 2.333333)
    """
    left = np.asarray(without, dtype=np.float64)
    count = len(left)
    middle = left.mean()
    se = math.sqrt((count - 1) / count * float(((left - middle) ** 2).sum()))
    reach = quantile(confidence, count - 1) * se
    return Resampled(se, value - reach, value + reach, float((count - 1) * (middle - value)))


def bootstrap(value: float, drawn: Sequence[float], confidence: float) -> Resampled:
    """From the statistic of logs drawn anew.

    The interval is by percentiles: it stays where the statistic can be, and a statistic that is
    transformed has the transformed interval. With G clusters its variance is (G − 1)/G of what it
    should be, so of few clusters the jackknife says more.
    """
    found = np.asarray(drawn, dtype=np.float64)
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Resampled(float(found.std(ddof=1)), float(low), float(high), float(found.mean() - value))


def draws(clusters: int, replicates: int, seed: int) -> NDArray[np.int64]:
    """(replicates, clusters): how often each cluster is drawn, of as many draws as clusters.

    Examples:
        >>> draws(5, 2, seed=1).sum(axis=1).tolist()
        [5, 5]
    """
    rng = np.random.default_rng(seed)
    return rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=replicates)
