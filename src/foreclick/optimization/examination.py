"""How far rates may be off because the examination of positions is itself an estimate.

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

from foreclick.batches import Floats, sums
from foreclick.estimate.ladder import borrowed, climb, descend, own_weight
from foreclick.optimization.ladder import LadderRates, SlotCounts

UNKNOWN = math.log(10.0)
"""The standard error of log p where the log says nothing: p may be off tenfold."""

SHARED = 2.0
"""How much more an error of p weighs than one of clicks: it is the same in all contexts, so that it
harms many of them at once, where errors of clicks average out."""


def examination_covariance(information: Floats) -> Floats:
    """Shape (K, K): the covariance of log p, from what the log says and no less than it may be.

    Args:
        information: Shape (K, K): about log p, from items that moved; see
            `foreclick.estimate.places.curve_information`.
    """
    return np.asarray(np.linalg.inv(information + np.eye(len(information)) / UNKNOWN**2))


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

    def at(self, some: slice) -> Derivatives:
        """Those of some items."""
        return Derivatives(self.rate[some], self.lever[some], self.own[some])

    def of_items(self, h: Floats) -> Floats:
        """Shape (P, K): the derivative of Σ_k h_ak r_ak, for weights h of shape (P, K)."""
        weight = h * self.own
        return np.asarray(weight.sum(axis=1)[:, None] * self.lever + weight * self.rate[:, None])


@dataclass(frozen=True, eq=False)
class ExaminationError:
    """How uncertain p is, and what depends on it.

    Attributes:
        covariance: Shape (K, K): of log p.
        clicks: Shape (K,): the share of all clicks at each position, which is how much the click
            rate of the whole log depends on its p.
    """

    covariance: Floats
    clicks: Floats

    def variance(self, derivatives: Derivatives) -> Floats:
        """Shape (P, K): the variance of rates that comes from the errors of p."""
        rate, lever, own = derivatives
        moved = lever @ self.covariance
        quadratic = (
            (moved * lever).sum(axis=1)[:, None]
            + 2 * rate[:, None] * moved
            + rate[:, None] ** 2 * np.diag(self.covariance)
        )
        return np.asarray(np.maximum(quadratic, 0.0) * own**2)

    def se(self, gradient: Floats) -> float:
        """The standard error of a sum of rates that has this gradient by log p, shape (K,)."""
        return math.sqrt(max(float(gradient @ self.covariance @ gradient), 0.0))

    def derivatives(self, ladder: LadderRates, counts: SlotCounts) -> Derivatives:
        """How the ladder's rates depend on log p."""
        owner, n, c, records = counts
        of_position, of_item, of_context = ladder.strengths
        p, size = np.array(ladder.examined[: n.shape[1]]), len(records)
        lent = borrowed(n, of_position)
        exposed = n * lent * p
        items = exposed.sum(axis=1), (c * lent).sum(axis=1)
        contexts = climb(*items, of_item, owner, size)
        below = descend(*contexts, of_context, np.array(ladder.base))
        # What items lend to their context, s N / (N + s) and s c / (N + s), by log p.
        share = borrowed(items[0], of_item)
        slope_n = by_context(share[:, None] ** 2 * exposed, counts)
        slope_c = by_context(
            -(items[1] * share * own_weight(items[0], of_item))[:, None] * exposed, counts
        )
        lever_x = (slope_c - below[:, None] * slope_n) * own_weight(contexts[0], of_context)[
            :, None
        ]
        lever_x -= (ladder.base * borrowed(contexts[0], of_context))[:, None] * self.clicks
        rate = descend(*items, of_item, below[owner])
        lever = -(rate * own_weight(items[0], of_item))[:, None] * exposed
        lever += share[:, None] * lever_x[owner]
        return Derivatives(rate, lever, lent * p)


def by_context(values: Floats, counts: SlotCounts) -> Floats:
    """Shape (X, K): the sums of values (P, K) over the items of each context."""
    return np.stack([sums(counts.owner, of, len(counts.records)) for of in values.T], axis=1)
