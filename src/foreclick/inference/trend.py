"""Whether click rates rise or fall over periods: all of them together, and each on its own way.

An item whose clicks w_t have the mean μ e_t exp(b t), in periods t = 0, 1, … with exposure e_t, has
to first order the score S = Σ (t − t̄) w_t for its slope b, where t̄ = Σ e_t t / Σ e_t, and the
information I = μ Σ e_t (t − t̄)². Slopes b = g + noise of spread τ then give S the mean g I and the
variance I + τ² I². As items are compared with themselves, a ranker that learns to show better items
is no trend.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

_SURE = 3.0
"""Standard errors from which a trend is one."""


class Trend(NamedTuple):
    """How click rates change from one period to the next.

    Attributes:
        common: g, the change of log rates that all items share.
        common_se: its standard error.
        spread: τ, how much the slopes of items differ.
        spread_z: how many standard errors τ² is above 0.
    """

    common: float
    common_se: float
    spread: float
    spread_z: float

    def drift(self, periods: float, worth: float) -> tuple[float, float]:
        """|g| and τ where each is more than chance, and worth speaking of; else 0.

        Args:
            periods: how many periods the log spans.
            worth: the change over all of them that is worth speaking of.
        """
        common = abs(self.common) if abs(self.common) > _SURE * self.common_se else 0.0
        spread = self.spread if self.spread_z > _SURE else 0.0
        return (
            common if common * periods >= worth else 0.0,
            spread if spread * periods >= worth else 0.0,
        )


def trend(sums: np.ndarray) -> Trend:
    """The trend of items, from sums over them of S, I, S², S I and I².

    Examples:
        Ten items whose rates rise by a tenth, as far as a hundred units of information tell:

        >>> found = trend(np.array([100.0, 1000.0, 2000.0, 10000.0, 100000.0]))
        >>> round(found.common, 6), round(found.common_se, 4), round(found.spread, 6)
        (0.1, 0.0316, 0.0)
    """
    score, information, squared, product, square = (float(x) for x in sums)
    if information <= 0:
        return Trend(0.0, math.inf, 0.0, 0.0)
    common = score / information
    left = squared - 2 * common * product + common**2 * square
    spread, z = excess(left, information, square)
    se = math.sqrt(information + spread**2 * square) / information
    return Trend(common, se, spread, z)


def excess(squared: float, information: float, square: float) -> tuple[float, float]:
    """How much effects differ beyond chance: their spread, and how sure it is that there is one.

    An effect b of spread τ gives a score S of counted clicks the variance I + τ² I²; by chance
    alone its square has the variance 2 I² + I.

    Args:
        squared: Σ S².
        information: Σ I.
        square: Σ I².

    Returns:
        τ, and how many standard errors τ² is above 0.

    Examples:
        >>> spread, sure = excess(500.0, 100.0, 10000.0)
        >>> spread, round(sure, 2)
        (0.2, 2.82)
    """
    if square <= 0:
        return 0.0, 0.0
    left = squared - information
    return math.sqrt(max(left / square, 0.0)), left / math.sqrt(2 * square + information)
