"""The ladder's formula: counts climb from fine cells to coarse ones, rates come back down.

A rung of strength s lets the rung below count as much as s records of its own. With n records and
c clicks in a cell, and the rate r' of its cell on the rung below,

    r = (c + s r' e) / (n + s)                                                (downwards)
    n' = Σ n e s / (n + s),    c' = Σ c s / (n + s)                           (upwards)

where e says how much a record of the cell exposes the cell below: the examination of its position
on the step from (item, position) to item, and 1 elsewhere. With s = ∞ a rung has no rate of its
own. Everything that uses a ladder goes through these functions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.batches.arrays import Floats, Ints, ratio, sums


def borrowed(n: Floats, s: float) -> Floats:
    """Which share of a cell's rate comes from the rung below: s / (n + s)."""
    return np.ones_like(n) if np.isinf(s) else np.asarray(s / (n + s))


def own_weight(n: Floats, s: float) -> Floats:
    """How far one click of a cell moves its rate: 1 / (n + s)."""
    return np.zeros_like(n) if np.isinf(s) else np.asarray(1 / (n + s))


class Passing(NamedTuple):
    """What the cells of a rung pass on to those of the rung below, for any exposure.

    Attributes:
        n: Shape (G,): records that each cell passes on, n s / (n + s).
        c: Shape (G',): clicks that each cell below gets.
        below: Shape (G,): the cell of the rung below that each belongs to.
    """

    n: Floats
    c: Floats
    below: Ints

    @classmethod
    def of(cls, n: Floats, c: Floats, s: float, below: Ints, count: int) -> Passing:
        """What cells with n records and c clicks pass on to `count` cells, by the strength s."""
        share = borrowed(n, s)
        return cls(n * share, sums(below, c * share, count), below)

    def records(self, exposed: Floats | float) -> Floats:
        """Shape (G',): records that each cell below gets; `exposed` is e of the cells above."""
        return sums(self.below, self.n * exposed, len(self.c))


def climb(
    n: Floats, c: Floats, s: float, below: Ints, count: int, exposed: Floats | float = 1.0
) -> tuple[Floats, Floats]:
    """Records and clicks that the cells of a rung pass on to those of the rung below.

    Args:
        n: Shape (G,): records of each cell.
        c: Shape (G,): clicks of each cell.
        s: the strength of the rung.
        below: Shape (G,): the cell of the rung below that each belongs to.
        count: how many cells the rung below has.
        exposed: Shape (G,): how much a record exposes the cell below.
    """
    passing = Passing.of(n, c, s, below, count)
    return passing.records(exposed), passing.c


def descend(n: Floats, c: Floats, s: float, expected: Floats) -> Floats:
    """The rate of each cell, from its counts and from what the rung below expects of it.

    Args:
        n: records of each cell.
        c: clicks of each cell.
        s: the strength of the rung.
        expected: the rate of the cell below times the exposure, r' e.
    """
    return np.asarray(c * own_weight(n, s) + expected * borrowed(n, s))


def base_rate(n: Floats, c: Floats) -> Floats:
    """The rate on the coarsest rung, 0 where nothing was shown."""
    return ratio(c, n)
