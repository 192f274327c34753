"""The ladder's formula: counts climb from fine cells to coarse ones, rates come back down.

A rung of strength s lets the rung below count as much as s records of its own. With n records and
c clicks in a cell, and the rate r' of its cell on the rung below,

    r = (c + s r' e) / (n + s)                                                (downwards)
    n' = Σ n e s / (n + s),    c' = Σ c s / (n + s)                           (upwards)

where e says how much a record of the cell exposes the cell below. With s = ∞ a rung has no rate of
its own. Everything that uses a ladder goes through these functions.
"""

from __future__ import annotations

import numpy as np

from foreclick.batches import Floats, Ints, sums

MOST_OWN = 0.9
"""Of what a cell rests on, a day has no more than this by itself."""

FEWEST = 0.02
"""At least this share of readers goes on below an item, so that no examination is 0."""


def borrowed(n: Floats, s: Floats | float) -> Floats:
    """Which share of a cell's rate comes from the rung below: s / (n + s)."""
    return np.ones_like(n) if np.ndim(s) == 0 and np.isinf(s) else np.asarray(s / (n + s))


def own_weight(n: Floats, s: Floats | float) -> Floats:
    """How far one click of a cell moves its rate: 1 / (n + s)."""
    return np.zeros_like(n) if np.ndim(s) == 0 and np.isinf(s) else np.asarray(1 / (n + s))


def leverage_factor(own: Floats) -> Floats:
    """1 / √(1 − h), which undoes that a day with the share h of a cell has made itself expected."""
    return np.asarray(1 / np.sqrt(1 - np.minimum(own, MOST_OWN)))


def climb(
    n: Floats, c: Floats, s: Floats | float, below: Ints, count: int, exposed: Floats | float = 1.0
) -> tuple[Floats, Floats]:
    """Records and clicks that the cells of a rung of strength s pass on to the rung below.

    Args:
        n: Shape (G,): records of each cell.
        c: Shape (G,): clicks of each cell.
        s: the strength of the rung.
        below: Shape (G,): the cell of the rung below that each belongs to.
        count: how many cells the rung below has.
        exposed: Shape (G,): how much a record exposes the cell below.
    """
    share = borrowed(n, s)
    return sums(below, n * share * exposed, count), sums(below, c * share, count)


def descend(n: Floats, c: Floats, s: Floats | float, expected: Floats) -> Floats:
    """The rate of each cell, from its counts and from what the rung below expects of it, r' e."""
    return np.asarray(c * own_weight(n, s) + expected * borrowed(n, s))


def readers(mu: Floats, shown: Ints, stopping: float) -> Floats:
    """Shape (L, K): which share of those who look at a list get as far as each position.

    Args:
        mu: Shape (Q,): the rate of each item.
        shown: Shape (L, K): the item at each position, `EMPTY` where nothing is shown.
        stopping: κ.
    """
    going_on = np.maximum(1 - stopping * np.clip(mu, 0, 1), FEWEST)
    share = np.ones(shown.shape)
    # Nobody stops at nothing: `EMPTY` is the number of the last.
    np.cumprod(np.append(going_on, 1.0)[shown[:, :-1]], axis=1, out=share[:, 1:])
    return share


def stop_slope(mu: Floats, shown: Ints, stopping: float) -> Floats:
    """Shape (L, K): by how much the logarithm of readers of a slot falls with κ."""
    mu = np.append(np.clip(mu, 0, 1), 0.0)[shown[:, :-1]]
    slope = np.zeros(shown.shape)
    slope[:, 1:] = -np.cumsum(mu / np.maximum(1 - stopping * mu, FEWEST), axis=1)
    return slope
