"""Whether the click rates of a log change over its periods, in words."""

from __future__ import annotations

import math
from typing import NamedTuple

from foreclick import inference
from foreclick.batches import Batches, Floats
from foreclick.estimators.trend import item_trends

ITEMS_CHANGE = "Click rates of items change"
"""How a note on trends of items begins."""

_WORTH = 0.1  # of a rate, from the first to the last period: less is not worth speaking of


class Drift(NamedTuple):
    """How log rates change from one period to the next; 0 where that may be chance.

    Attributes:
        common: what all items share, up or down.
        spread: how much items differ in it, as a standard deviation.
        ahead: how many periods the end of the log is from its middle.
    """

    common: float
    spread: float
    ahead: float

    @property
    def fastest(self) -> float:
        """How fast the rate of an item may change."""
        return abs(self.common) + self.spread

    @property
    def at_end(self) -> float:
        """How far the end of the log is above its mean, as a share of it."""
        return math.expm1(self.common * self.ahead)

    def notes(self) -> list[str]:
        """What the reader of a value should know."""
        found = []
        if self.common:
            word = "rise" if self.common > 0 else "fall"
            found.append(
                f"Click rates {word} by {abs(math.expm1(self.common)):.1%} a period, all items "
                f"alike. Values are means over the log; at its end they are {self.at_end:+.0%} "
                "off, and intervals of the value reach that far. A lift is less concerned."
            )
        if self.spread:
            found.append(
                f"{ITEMS_CHANGE} by {math.expm1(self.spread):.1%} a period, each its own way. "
                "Where items were shown in some periods only, their rates are those of "
                "these periods; the intervals allow for that. Use fewer periods, or half_life=."
            )
        return found

    def warning(self) -> list[str]:
        """What the reader of an evaluation should know, whose intervals do not allow for it."""
        if not self.spread:
            return []
        note = (
            f"{ITEMS_CHANGE} by {math.expm1(self.spread):.1%} a period, each its own way. A rate "
            "is that of the periods in which its item was shown, which the intervals do not allow "
            "for. Use fewer periods, or half_life=."
        )
        return [note]


def drift_of(batches: Batches, reward: str, examined: Floats) -> Drift:
    """How the click rates of a log change from period to period.

    Args:
        batches: the log.
        reward: what is counted as clicks.
        examined: Shape (K,): p_1, p_2, ….
    """
    key = "drift", reward, tuple(examined.tolist())
    if key not in batches.kept:
        batches.kept[key] = _drift(batches, reward, examined)
    return batches.kept[key]  # type: ignore[no-any-return]


def _drift(batches: Batches, reward: str, examined: Floats) -> Drift:
    totals, periods = item_trends(batches, reward, examined), batches.codebook.periods
    if totals is None or periods is None:
        return Drift(0.0, 0.0, 0.0)
    found, last = inference.trend(totals), periods.known - 1
    common, spread = found.drift(last, _WORTH)
    return Drift(math.copysign(common, found.common), spread, last / 2)
