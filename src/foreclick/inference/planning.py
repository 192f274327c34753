"""How much must be seen to tell a change: sample sizes, and traffic dealt to contexts.

Two policies h and π show the lists A of a context x with other probabilities. A log in which they
are shown with probabilities m tells their difference with a variance of

    v_x / n_x,    v_x = Σ_A (h_A − π_A)² s_A² / m_A,

for n_x records and rewards of variance s_A²: the influence of a record is (h − π) / m (f − f̄_A)
(STATISTICS, section 2). Here m = π + ε_x (h − π): a share ε_x of the traffic is shown h.

Of all ways to deal a share B of the traffic to contexts with shares q_x, the best is the one in
which a little more would help every context alike, −v_x'(ε_x) = λ. While shares are small, that is
Neyman's rule: ε_x in proportion to the standard deviation of what h shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foreclick.inference import student
from foreclick.inference.intervals import quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_GRID = 96  # shares at which the gain of a context is known; between them it is nearly a power
_LEAST = 1e-7  # the smallest share of a context
_STEPS = 60  # halvings of λ


class Differences(NamedTuple):
    """The lists that two policies show with unequal probabilities.

    Attributes:
        context: Shape (L,): below `contexts`.
        candidate: Shape (L,): h.
        production: Shape (L,): π.
        variance: Shape (L,): s², of the reward of a record that shows the list.
        contexts: how many there are.
    """

    context: Ints
    candidate: Floats
    production: Floats
    variance: Floats
    contexts: int

    def variances(self, share: Floats) -> Floats:
        """Shape (X,): v_x, if the candidate has this share of each context; inf if it is unseen."""
        apart = self.candidate - self.production
        shown = self.production + share[self.context] * apart
        with np.errstate(divide="ignore"):
            each = np.where(apart == 0, 0.0, apart**2 * self.variance / shown)
        return self._by_context(each)

    def gains(self, share: float) -> Floats:
        """Shape (X,): −v_x'(ε), what a little more of the candidate would take off the variance."""
        apart = self.candidate - self.production
        shown = self.production + share * apart
        return self._by_context(apart**3 * self.variance / shown**2)

    def apart(self) -> Floats:
        """Shape (X,): the share of requests that the two answer with another list."""
        return self._by_context(np.maximum(self.candidate - self.production, 0.0))

    def _by_context(self, values: Floats) -> Floats:
        return np.asarray(np.bincount(self.context, values, self.contexts), dtype=np.float64)


def margins(confidence: float, power: float) -> float:
    """How many standard errors a change must have, to be told from none with this power.

    Examples:
        >>> round(margins(0.95, 0.8), 3)
        2.802
    """
    return quantile(confidence, math.inf) + student.quantile(power, math.inf)


def sample_size(variance: float, effect: float, confidence: float, power: float) -> float:
    """The number of records n at which √(variance / n) tells an effect from none.

    Examples:
        >>> round(sample_size(0.25 + 0.25, 0.02, 0.95, 0.8))  # in each half of an A/B test
        9811
    """
    return variance * (margins(confidence, power) / effect) ** 2


@dataclass(frozen=True, eq=False)
class Allocation:
    """The best way to deal traffic to contexts.

    Attributes:
        lists: what the policies show.
        weight: Shape (X,): q_x, the share of the traffic that each context has.
        most: the share of a context that may be shown the candidate.
    """

    lists: Differences
    weight: Floats
    most: float

    @cached_property
    def _grid(self) -> Floats:
        return np.geomspace(_LEAST, self.most, _GRID)

    @cached_property
    def _gains(self) -> Floats:
        """Shape (X, grid)."""
        gains = np.stack([self.lists.gains(float(share)) for share in self._grid], axis=1)
        # A gain falls as the share grows; rounding must not hide it.
        return np.minimum.accumulate(gains, axis=1)

    def best(self, budget: float) -> Floats:
        """Shape (X,): the share of each context's traffic that should be shown the candidate.

        Args:
            budget: B, the share of all traffic that may be.
        """
        gains, grid = self._gains, self._grid
        least = _shares(gains, grid, 0.0)
        if float(self.weight @ least) <= budget:
            return least
        low, high = -800.0, math.log(float(gains.max()))
        for _ in range(_STEPS):
            middle = (low + high) / 2
            spent = float(self.weight @ _shares(gains, grid, math.exp(middle)))
            low, high = (middle, high) if spent > budget else (low, middle)
        return _shares(gains, grid, math.exp(high))


def _shares(gains: Floats, grid: Floats, price: float) -> Floats:
    """Shape (X,): the share at which the gain of each context falls to the price."""
    above = (gains > price).sum(axis=1)
    row = np.flatnonzero((above > 0) & (above < len(grid)))
    found = np.where(above == len(grid), grid[-1], 0.0)
    left, right = gains[row, above[row] - 1], gains[row, above[row]]
    powers = (right > 0) & (price > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(
            powers,
            (np.log(left) - np.log(price)) / (np.log(left) - np.log(right)),
            (left - price) / (left - right),
        )
    start, end = grid[above[row] - 1], grid[above[row]]
    found[row] = np.where(powers, start * (end / start) ** part, start + part * (end - start))
    return found
