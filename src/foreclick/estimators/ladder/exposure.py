"""How much a slot is examined, given what stands above it: E_k(A) = p_k Π_{j<k} (1 − κ μ_{a_j}).

κ is the share of clicks that end the reading. The rate μ of an item is that of the rung `item`,
per unit of examination, which depends on E in turn: both are found in rounds, from κ = 0, until
they hardly change. How many that takes is learnt from the sample, and every context has as many.
"""

from __future__ import annotations

import numpy as np

from foreclick.batches import Floats, Ints

MOST_ROUNDS = 20
"""Rounds in which rates of items and examination are found, at most."""

SETTLED = 2e-3
"""Examination that changes by less in a round is found."""

FEWEST = 0.02
"""At least this share of readers goes on below an item, so that no examination is 0."""


def readers(mu: Floats, shown: Ints, stopping: float) -> Floats:
    """Shape (L, K): which share of those who look at a list get as far as each position.

    Args:
        mu: Shape (Q,): the rate of each item.
        shown: Shape (L, K): the item at each position, `EMPTY` where nothing is shown.
        stopping: κ.
    """
    going_on = np.maximum(1 - stopping * np.clip(mu, 0, 1), FEWEST)
    found = np.ones(shown.shape)
    # Nobody stops at nothing: `EMPTY` is the number of the last.
    np.cumprod(np.append(going_on, 1.0)[shown[:, :-1]], axis=1, out=found[:, 1:])
    return found
