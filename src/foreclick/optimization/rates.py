"""Click rates of every item at every position by the ladder, and how uncertain they are.

What was never shown at a position has a rate too, from the rungs below, and the rate α of an item
leans on what production says of it (`learn.prior`). A rate r of a cell with n records, on a rung of
strength s, has the variance

    r / (n + s) + (s / (n + s))² · the variance of the rung below,

of which the last is that of the level of the context. Errors of what all contexts share, γ = (β,
log p), come on top: where items hardly moved, the log says little about the ratios of p, and an
item that would be moved is a guess however often it was shown. To first order a rate r_ak has, from
these errors alone, the variance

    dᵀ Σ d,    d_j = ∂ r_ak / ∂ γ_j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foreclick.batches import Floats, Ints
from foreclick.learn.prior import Prior, design, expected_rates, moved_rates, rates, steps
from foreclick.learn.shrinkage import borrowed, descend, own_weight


class ItemCounts(NamedTuple):
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


class Derivatives(NamedTuple):
    """How rates of items at positions depend on γ: own_ak (lever_aj + rate_a ∂ log p_k / ∂ γ_j).

    Attributes:
        rate: Shape (P,): the click rate of an item where it is examined, α_a.
        lever: Shape (P, N): ∂ α_a / ∂ γ_j.
        own: Shape (P, K): how much of p_k α_a the rate borrows, p_k s / (n + s).
    """

    rate: Floats
    lever: Floats
    own: Floats

    def of_items(self, h: Floats) -> Floats:
        """Shape (N,): the derivative of Σ_a Σ_k h_ak r_ak, for weights h of shape (P, K)."""
        weight = h * self.own
        found = weight.sum(axis=1) @ self.lever
        found[self.lever.shape[1] - h.shape[1] + 1 :] += (self.rate @ weight)[1:]
        return np.asarray(found)


class ItemRates(NamedTuple):
    """Click rates of items at positions.

    Attributes:
        rate: Shape (P, K).
        variance: Shape (P, K): by the noise of clicks and the errors of what contexts share.
        step: Shape (P, K): how far one click of the item moves the rate, at the position and by
            what was shown elsewhere; it may be all that a rate rests on.
        by_shared: how rates depend on what contexts share.
    """

    rate: Floats
    variance: Floats
    step: Floats
    by_shared: Derivatives

    def at(self, items: slice) -> ItemRates:
        """Those of some items."""
        by_shared = Derivatives(*(part[items] for part in self.by_shared))
        return ItemRates(self.rate[items], self.variance[items], self.step[items], by_shared)


@dataclass(frozen=True, eq=False)
class LadderRates:
    """A fitted ladder over items at positions.

    Attributes:
        fit: of `Ladder("ip")`, by production's word.
        covariance: Shape (N, N): of β and log p.
    """

    fit: Prior
    covariance: Floats

    def rates(self, counts: ItemCounts) -> ItemRates:
        """The rate of every item at every position, and how far to trust it.

        Args:
            counts: what the log has of some contexts.
        """
        owner, n, c, records = counts
        theta, (s,), unit, depth = self.fit.theta, self.fit.strengths, self.fit.unit, n.shape[1]
        p, c = theta.p, c / unit
        lent, own = borrowed(n, s), own_weight(n, s)
        passed = n * lent
        words = np.stack([n.sum(axis=1), n @ steps(depth)], axis=1)
        words = words / np.maximum(records, 1e-300)[owner][:, None]
        x = design(words, np.zeros((0, len(n), 2)))
        expected = expected_rates(x, theta.beta)
        r = rates(owner, len(records), (c * lent).sum(axis=1), passed @ p, expected, theta)
        item_own = 1 / (r.exposure + theta.a / r.m)
        rate = descend(n, c, s, r.alpha[:, None] * p)
        variance = r.alpha * item_own + (r.alpha * r.lean) ** 2 / r.weight[owner]
        variance = rate * own + lent**2 * (variance[:, None] * p * p)
        by_item = np.where(r.exposure > 0, item_own, 0.0)
        step = np.where(n > 0, own, 0.0) + lent * p * by_item[:, None]
        lever = moved_rates(owner, len(records), r, x, passed, theta)
        by_shared = Derivatives(r.alpha * unit, lever * unit, lent * p)
        moved, first = lever @ self.covariance, lever.shape[1] - depth + 1
        quadratic = np.repeat((moved * lever).sum(axis=1)[:, None], depth, axis=1)
        quadratic[:, 1:] += 2 * r.alpha[:, None] * moved[:, first:]
        quadratic[:, 1:] += r.alpha[:, None] ** 2 * np.diag(self.covariance)[first:]
        variance = variance + np.maximum(quadratic, 0.0) * by_shared.own**2
        return ItemRates(rate * unit, variance * unit**2, step * unit, by_shared)

    def se(self, gradient: Floats) -> float:
        """The standard error, by the errors of γ, of a sum of rates with this gradient by γ."""
        return math.sqrt(max(float(gradient @ self.covariance @ gradient), 0.0))
