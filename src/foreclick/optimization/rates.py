"""Click rates of every item at every position by the ladder, and how uncertain they are.

What was never shown at a position has a rate too, from the rungs below. A rate r of a cell with n
records, on a rung of strength s, has the variance

    r / (n + s) + (s / (n + s))² · the variance of the rung below.

A ladder moves what it knows of an item from one position to another by the ratio of their
examinations p. Where items hardly moved, the log says little about these ratios, and an item that
would be moved is a guess however often it was shown. The errors of log p have a covariance Σ, and
to first order a rate r_ak has, from these errors alone, the variance

    dᵀ Σ d,    d_j = ∂ r_ak / ∂ log p_j.

An item at the position where it always stood does not depend on p, but for what its context lends
it; at another position it does, by all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foreclick.batches import Floats, Ints, sums
from foreclick.learn.shrinkage import borrowed, climb, descend, own_weight

# The standard error of log p where the log says nothing: p may be off tenfold.
UNKNOWN = math.log(10.0)


class SlotCounts(NamedTuple):
    """Records and clicks of items at positions, in some contexts.

    Attributes:
        owner: Shape (P,): the context of each item.
        n: Shape (P, K): how many records show the item at the position.
        c: Shape (P, K): their clicks there.
        records: Shape (X,): records of each context.
    """

    owner: Ints
    n: Floats
    c: Floats
    records: Floats

    def by_context(self, values: Floats) -> Floats:
        """Shape (X, K): the sums of values (P, K) over the items of each context."""
        return np.stack([sums(self.owner, of, len(self.records)) for of in values.T], axis=1)


class Derivatives(NamedTuple):
    """How rates of items at positions depend on log p: ∂ r_ak / ∂ log p_j.

    It is own_ak (lever_aj + rate_a 1{j = k}).

    Attributes:
        rate: Shape (P,): the click rate of an item where it is examined, μ_a.
        lever: Shape (P, K): ∂ μ_a / ∂ log p_j.
        own: Shape (P, K): how much of p_k μ_a the rate borrows, p_k s / (n + s).
    """

    rate: Floats
    lever: Floats
    own: Floats

    def of_items(self, h: Floats) -> Floats:
        """Shape (P, K): the derivative of Σ_k h_ak r_ak, for weights h of shape (P, K)."""
        weight = h * self.own
        return np.asarray(weight.sum(axis=1)[:, None] * self.lever + weight * self.rate[:, None])


class Rates(NamedTuple):
    """Click rates of items at positions.

    Attributes:
        rate: Shape (P, K).
        variance: Shape (P, K): by the noise of clicks and the errors of the examination.
        step: Shape (P, K): how far one click of the item moves the rate, at the position and by
            what was shown elsewhere; it may be all that a rate rests on.
        by_p: how rates depend on the examination; None if that is given.
    """

    rate: Floats
    variance: Floats
    step: Floats
    by_p: Derivatives | None

    def at(self, items: slice) -> Rates:
        """Those of some items."""
        by_p = self.by_p and Derivatives(*(part[items] for part in self.by_p))
        return Rates(self.rate[items], self.variance[items], self.step[items], by_p)


def examination_covariance(information: Floats) -> Floats:
    """Shape (K, K): the covariance of log p, from what the log says and no less than it may be.

    Args:
        information: Shape (K, K): about log p, from items that moved.
    """
    return np.asarray(np.linalg.inv(information + np.eye(len(information)) / UNKNOWN**2))


@dataclass(frozen=True, eq=False)
class LadderRates:
    """A fitted ladder over items at positions.

    Attributes:
        strengths: of the rungs position, item and context.
        examined: p_1, p_2, ….
        base: the click rate of the whole log, of a slot that is examined for certain.
        covariance: Shape (K, K): of log p; None if the examination is given.
        clicks: Shape (K,): the share of all clicks at each position, which is how much the click
            rate of the whole log depends on its p.
    """

    strengths: tuple[float, float, float]
    examined: tuple[float, ...]
    base: float = 0.0
    covariance: Floats | None = None
    clicks: Floats | float = 0.0

    def climbed(self, counts: SlotCounts) -> list[tuple[Floats, Floats]]:
        """Records and clicks of items (P,), of contexts (X,), and what contexts pass on (X,)."""
        owner, n, c, records = counts
        item = np.repeat(np.arange(len(n)), n.shape[1])
        p = np.tile(self.examined[: n.shape[1]], len(n))
        items = climb(n.ravel(), c.ravel(), self.strengths[0], item, len(n), p)
        contexts = climb(*items, self.strengths[1], owner, len(records))
        each = np.arange(len(records))
        return [items, contexts, climb(*contexts, self.strengths[2], each, len(each))]

    def rates(self, counts: SlotCounts) -> Rates:
        """The rates of `Ladder("ip")`, of every item at every position, and how far to trust them.

        Args:
            counts: what the log has of some contexts.
        """
        owner, n, c, _ = counts
        of_position, of_item, of_context = self.strengths
        p = np.array(self.examined[: n.shape[1]])
        items, contexts, _ = self.climbed(counts)
        lent, item_lent = borrowed(n, of_position), borrowed(items[0], of_item)
        own, item_own = own_weight(n, of_position), own_weight(items[0], of_item)
        context_own = own_weight(contexts[0], of_context)
        # From the coarsest rung down.
        below = descend(*contexts, of_context, np.array(self.base))
        mean = descend(*items, of_item, below[owner])
        rate = descend(n, c, of_position, mean[:, None] * p)
        variance = mean * item_own + item_lent**2 * (below * context_own)[owner]
        variance = rate * own + lent**2 * (variance[:, None] * p * p)
        by_item = np.where(items[0] > 0, item_own, 0.0)
        step = np.where(n > 0, own, 0.0) + lent * p * by_item[:, None]
        if self.covariance is None:
            return Rates(rate, variance, step, None)
        # What items lend to their context, s N / (N + s) and s c / (N + s), by log p.
        exposed = n * lent * p
        slope_n = counts.by_context(item_lent[:, None] ** 2 * exposed)
        slope_c = counts.by_context(-(items[1] * item_lent * item_own)[:, None] * exposed)
        lever_x = (slope_c - below[:, None] * slope_n) * context_own[:, None]
        lever_x -= (self.base * borrowed(contexts[0], of_context))[:, None] * self.clicks
        lever = item_lent[:, None] * lever_x[owner] - (mean * item_own)[:, None] * exposed
        moved = lever @ self.covariance
        quadratic = (
            (moved * lever).sum(axis=1)[:, None]
            + 2 * mean[:, None] * moved
            + mean[:, None] ** 2 * np.diag(self.covariance)
        )
        by_p = Derivatives(mean, lever, lent * p)
        return Rates(rate, variance + np.maximum(quadratic, 0.0) * by_p.own**2, step, by_p)

    def se(self, gradient: Floats) -> float:
        """The standard error, by the errors of p, of a sum of rates with this gradient by log p."""
        if self.covariance is None:
            return 0.0
        return math.sqrt(max(float(gradient @ self.covariance @ gradient), 0.0))
