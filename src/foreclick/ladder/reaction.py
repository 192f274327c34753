"""How far lists react to clicks, and the share of the mirrored score that follows.

With the symbols of `mirror` and the clicks C of a pair, Σ_d z_d c_d − f_D C compares the pair's
days with each other, whatever its rate is: it is 0 on average where lists do not react to clicks.
χ² is that of its sums by context, for the features s, u and s². The score of the fit is (1 − w)
that of features by day and w the mirrored one, with w = .4 max(0, 1 − 20 / χ²).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foreclick.batches import Floats, sums
from foreclick.ladder.mirror import Mirror
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rates import RateParameters

MOST = 0.4
"""The share of the mirrored score where lists surely react.

Chosen: that of features by day is biased upwards, most where versions become better (exams 601,
602 and 811); the mirrored one downwards, most where nightly models learn from clicks (feedback
shops 101, 102, 803 and 811), for rates then count luck a second time. By 1/2, these lost 5 %."""

CHANCE = 20.0
"""χ² up to which contrasts of days are taken for chance; of three degrees of freedom.

Measured: 0 to 8 in 16 shops without feedback, 116 to 440 where lists react."""


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
