"""Whether the click rates of a log change over its periods, in words."""

from __future__ import annotations

import math
from typing import NamedTuple

from foreclick import inference
from foreclick.batches import Batches, Floats, batches_of
from foreclick.estimators import Question
from foreclick.estimators.ladder.sample import sampled
from foreclick.estimators.trend import item_trends
from foreclick.tallies.base import Tally

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

    def notes(self) -> list[str]:
        """What the reader of a value should know."""
        if not self.common:
            return self.of_items()
        word = "rise" if self.common > 0 else "fall"
        at_end = math.expm1(self.common * self.ahead)
        common = (
            f"Click rates {word} by {abs(math.expm1(self.common)):.1%} a period, all items alike. "
            f"Values are means over the log; at its end they are {at_end:+.0%} off, which the "
            "intervals do not allow for. A lift is less concerned."
        )
        return [common, *self.of_items()]

    def of_items(self) -> list[str]:
        """The same of items that change each its own way."""
        if not self.spread:
            return []
        note = (
            f"{ITEMS_CHANGE} by {math.expm1(self.spread):.1%} a period, each its own way. A rate "
            "is that of the periods in which its item was shown; the intervals do not allow for "
            "what it may be at the end of the log. Use fewer periods, or half_life=."
        )
        return [note]


def trend_notes(counted: Tally, question: Question) -> list[str]:
    """A note on items that change, where a ladder answers: its rates are those of all periods."""
    sums = [ask for _, asks in question.ladders for _, ask in asks if not ask.metric.first]
    if not (sums and question.clusters and counted.shape.period and counted.shape.rewards):
        return []
    reward = counted.shape.rewards[0]
    return drift_of(batches_of(counted), reward, sampled(counted, reward).curve).of_items()


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
