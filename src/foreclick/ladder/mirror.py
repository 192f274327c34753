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

**How far lists react.** Σ_d z_d c_d − f_D C are contrasts of a pair's days, whatever its rate is: 0
on average where lists do not react. χ² is that of their sums by context, for x = s, u and s². The
score is (1 − w) that of features by day and w the mirrored one, with w = .4 max(0, 1 − 20 / χ²).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foreclick.batches import Floats, sums
from foreclick.ladder.features import PairDays
from foreclick.ladder.rates import RateParameters

if TYPE_CHECKING:
    from foreclick.ladder.pairs import Pairs

MOST = 0.4
"""The share of the mirrored score where lists surely react.

Chosen: that of features by day is biased upwards, most where versions become better (exams 601,
602 and 811); the mirrored one downwards, most where nightly models learn from clicks (feedback
shops 101, 102, 803 and 811), for rates then count luck a second time. By 1/2, these lost 5 %."""

CHANCE = 20.0
"""χ² up to which contrasts of days are taken for chance; of three degrees of freedom.

Measured: 0 to 8 in 16 shops without feedback, 116 to 440 where lists react."""


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


def day_levels(parts: Sequence[Pairs], at: RateParameters) -> Floats:
    """Shape (D,): clicks of each day over those expected, by one click more each.

    Args:
        parts: the pairs of each batch.
        at: β, p and strengths.
    """
    counts = np.ones((2, max(part.days.days for part in parts)))
    for part in parts:
        days = part.days
        weight = np.broadcast_to(part.weight, part.clicks.shape)[days.pair]
        expected = part.day_exposure(at) * part.rates(at).alpha[days.pair]
        both = np.stack([part.day_clicks, expected]) * weight
        counts += np.stack([sums(days.day, each, counts.shape[1]) for each in both])
    return np.asarray(counts[0] / counts[1])


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


def reaction(parts: Sequence[Pairs], mirror: Mirror) -> float:
    """χ² of contrasts of days: how surely lists react to clicks.

    Args:
        parts: the pairs of each batch, with the mirrored score.
        mirror: what that is made of.
    """
    total, square = np.zeros(3), np.zeros((3, 3))
    for part in parts:
        days, batch, own = part.days, part.batch, part.mirrored
        assert own is not None  # noqa: S101
        exposure = days.by_pair(part.day_exposure(mirror.at) * mirror.level[days.day])
        # Σ z c less what it would be if clicks came as exposure does, b x C.
        due = np.stack([np.asarray(each @ mirror.at.p) for each in own.exposed[1:]])
        contrast = own.clicks[1:] - due * (part.clicks / np.maximum(exposure, 1e-300))
        contrast *= part.weight
        each = np.stack([sums(batch.pair_context, one, batch.context_count) for one in contrast])
        total, square = total + each.sum(axis=1), square + each @ each.T
    return float(total @ np.linalg.pinv(square) @ total)


def mirrored_share(parts: Sequence[Pairs], mirror: Mirror) -> tuple[float, float]:
    """The share w of the mirrored score, and the χ² that it is from."""
    chi2 = reaction(parts, mirror)
    return MOST * max(1 - CHANCE / max(chi2, 1e-300), 0.0), chi2
