"""The mirrored score: instruments that know no click of their day or after it.

**Why.** Where lists react to clicks, the rank features x of the whole log know the clicks' luck, so
that Σ x (c − e α̂) is off; features as they stood on the day, z, know only earlier luck, but α̂ knows
all of it. Both are biased, with opposite signs. Let f_d be anything known before the clicks of day
d, e_d the exposure of a pair on that day, and E_d that up to and with it. With

    z_d = f_d + (f_d − f_{d−1}) E_{d−1} / e_d,    Σ_d z_d e_d = f_D E_D,

Σ_d z_d (c_d − e_d m) = Σ_d z_d c_d − f_D E_D m is 0 on average where E(α | x) = m, whatever lists
react to: the regression of rates on features of the whole log, without their luck. f_d = b_d x_d,
with features x_d counted up to day d over all records of the context, and the weight
b_d = a / (a + E_d m): that of the whole log would know later clicks.

**Levels.** Days whose readers click more are the noise of such contrasts of days. So e_d is times
M_d = Σ c / Σ e α̂ of the day, by the fit that the weights are from. M, weights and instruments are
given: whatever they are, the score is 0 on average. Their errors are not allowed for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foreclick.batches import Floats
from foreclick.ladder.features import PairDays
from foreclick.ladder.rates import RateParameters


@dataclass(frozen=True, eq=False)
class Mirror:
    """What the mirrored score of a log is made of.

    Attributes:
        share: w, its share in the score.
        at: by which parameters pairs are weighed and exposed.
        level: Shape (D,): M, the level of each day.
    """

    share: float
    at: RateParameters
    level: Floats


def instruments(days: PairDays, exposure: Floats, strength: Floats) -> Floats:
    """Shape (4, R): z of pair-days, by powers of production's features.

    Args:
        days: the pairs by day.
        exposure: Shape (R,): e, with the level of the day.
        strength: Shape (P,): a / m.
    """
    before = days.before(exposure)
    weight = 1 / (1 + (before + exposure) / strength[days.pair])
    f = weight * days.whole_log_until
    return np.asarray(f + days.change(f) * (before / np.maximum(exposure, 1e-300)))
