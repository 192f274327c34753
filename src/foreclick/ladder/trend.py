"""Whether the click rates of items change over the periods of a log, for a note.

An item whose clicks w_t have the mean μ e_t exp(b t), in periods t = 0, 1, … with exposure e_t, has
to first order the score S = Σ (t − t̄) w_t for its slope b, where t̄ = Σ e_t t / Σ e_t, and the
information I = μ Σ e_t (t − t̄)². Slopes b = g + noise of spread τ then give S the mean g I and the
variance I + τ² I². As items are compared with themselves, a ranker that learns to show better items
is no trend; nor are readers who stop earlier because items above are better, since e has them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foreclick.batches import Batches, Floats, ratio
from foreclick.estimation.fits import Drift
from foreclick.inference import excess
from foreclick.kept import kept
from foreclick.ladder.log_chain import plain_pairs
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.sample import fit_log

_ENOUGH = 3  # periods in which an item must have been shown for its slope to be one
_SURE = 3.0  # standard errors from which a trend is one
_WORTH = 0.1  # of a rate, from the first to the last period: less is not reported


def drift_of(parts: Sequence[Pairs], at: RateParameters, periods: int) -> Drift:
    """How click rates change from period to period.

    Args:
        parts: the pairs of each batch, by period.
        at: examination.
        periods: how many there are; records of none do not count.
    """
    if periods < _ENOUGH:
        return Drift()
    each = [_scores(part, at, periods) for part in parts]
    score, information = (np.concatenate(column) for column in zip(*each, strict=True))
    total, square = float(information.sum()), float(information @ information)
    if total <= 0:
        return Drift()
    common, last = float(score.sum()) / total, periods - 1
    residual = score - common * information
    spread, z = excess(float(residual @ residual), total, square)
    se = math.sqrt(total + spread**2 * square) / total
    sure = abs(common) > _SURE * se and abs(common) * last >= _WORTH
    apart = z > _SURE and spread * last >= _WORTH
    return Drift(common if sure else 0.0, spread if apart else 0.0, last / 2)


@kept
def drift_by_positions(batches: Batches, reward: str, examined: tuple[float, ...]) -> Drift:
    """The same of a reward whose readers all see the positions as they are examined, (K,)."""
    periods = batches.codebook.periods
    if periods is None:
        return Drift()
    some = fit_log(batches).batches
    parts = [plain_pairs(batch, reward, 1.0, dated=True) for batch in some]
    at = RateParameters(np.zeros(4), np.array(examined), 1.0, 1.0)
    return drift_of(parts, at, periods.known)


def _scores(part: Pairs, at: RateParameters, periods: int) -> tuple[Floats, Floats]:
    """Shape (P,) each: S and I of every item of a context."""
    days = part.days
    known, exposure = days.day < periods, part.day_exposure(at)
    # From the middle, so that squares of large numbers do not cancel.
    time = days.day - (periods - 1) / 2
    e, et, ett = (days.by_pair(np.where(known, exposure * time**power, 0.0)) for power in (0, 1, 2))
    clicks, moment = (
        days.by_pair(np.where(known, part.day_clicks * time**power, 0.0)) for power in (0, 1)
    )
    mean, rate = ratio(et, e), ratio(clicks, e)
    information = np.maximum(rate * (ett - et * mean), 0.0)
    return np.where(information > 0, moment - clicks * mean, 0.0), information
