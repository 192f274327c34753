"""Whether the click rates of items change over the periods of a log, for a note.

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

from foreclick.batches import EMPTY, Batch, Batches, Floats, ratio, sums
from foreclick.inference import excess
from foreclick.kept import kept
from foreclick.ladder.sample import fit_log

ITEMS_CHANGE = "Click rates of items change"
"""How a note on trends of items begins."""

_ENOUGH = 3  # periods in which an item must have been shown for its slope to be one
_SURE = 3.0  # standard errors from which a trend is one
_WORTH = 0.1  # of a rate, from the first to the last period: less is not reported


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
            "what it may be at the end of the log. Use fewer periods, or "
            "tally(log).weigh(half_life=…)."
        )
        return [note]


def drift_of(batches: Batches, reward: str, examined: Floats) -> Drift:
    """How click rates change from period to period, by the contexts that a ladder is fitted to.

    Args:
        batches: the log.
        reward: what is counted as clicks.
        examined: Shape (K,): p_1, p_2, ….
    """
    return _drift_of(batches, reward, tuple(examined.tolist()))


@kept
def _drift_of(batches: Batches, reward: str, examined: tuple[float, ...]) -> Drift:
    periods, drift = batches.codebook.periods, Drift(0.0, 0.0, 0.0)
    if periods is not None and periods.known >= _ENOUGH:
        some = fit_log(batches).batches
        each = [_scores(batch, reward, np.array(examined), periods.known) for batch in some]
        score, information = (np.concatenate(column) for column in zip(*each, strict=True))
        total, square = float(information.sum()), float(information @ information)
        if total > 0:
            common, last = float(score.sum()) / total, periods.known - 1
            residual = score - common * information
            spread, z = excess(float(residual @ residual), total, square)
            se = math.sqrt(total + spread**2 * square) / total
            sure = abs(common) > _SURE * se and abs(common) * last >= _WORTH
            apart = z > _SURE and spread * last >= _WORTH
            drift = Drift(common if sure else 0.0, spread if apart else 0.0, last / 2)
    return drift


def _scores(batch: Batch, reward: str, examined: Floats, known: int) -> tuple[Floats, Floats]:
    """Shape (P,) each: S and I of every item of a context; positions count as they are examined."""
    period = batch.clusters["period"]
    n = np.where(period < known, batch.n, 0.0)
    time = (
        period - (known - 1) / 2
    )  # from the middle, so that squares of large numbers don't cancel
    pairs = np.where(batch.lists == EMPTY, batch.pair_count, batch.lists)
    exposed = []
    for power in (0, 1, 2):
        of_list = sums(batch.row_list, n * time**power, len(batch.lists))
        weight = of_list[:, None] * examined[: batch.depth]
        exposed.append(sums(pairs, weight, batch.pair_count + 1)[:-1])
    e, et, ett = exposed
    earned = batch.reward(reward)
    pair = pairs[batch.row_list[earned.row], earned.position]
    value = earned.value * n[earned.row]
    clicks, moment = (
        sums(pair, value * time[earned.row] ** power, batch.pair_count + 1)[:-1] for power in (0, 1)
    )
    mean, rate = ratio(et, e), ratio(clicks, e)
    information = np.maximum(rate * (ett - et * mean), 0.0)
    return np.where(information > 0, moment - clicks * mean, 0.0), information
