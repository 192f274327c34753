"""The click rate of every item of a context where it is examined, under the position-based model.

With w_k clicks in n_k records at position k, and p_k how much it is examined, the rate is

    μ = Σ_k w_k / Σ_k p_k n_k,

the maximum of the likelihood that the examination comes from (`estimators.examination`), in which
μ was profiled out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Floats, ratio
from foreclick.estimators.moves import Moves


class Attractions(NamedTuple):
    """Rates of the P pairs of a batch; positions with p = 0 do not count.

    Attributes:
        records: Shape (P,): in how many records the item was shown, at any position.
        examined: Shape (P,): Σ p n, to how many records at the first position that amounts.
        clicks: Shape (P,).
        squares: Shape (P,): the sum of squared rewards, that of clicks if these are 0 or 1.
        rate: Shape (P,): 0 where nothing is examined.
        gradient: Shape (P, K): ∂ log μ / ∂ log p_k = − p_k n_k / Σ p n.
    """

    records: Floats
    examined: Floats
    clicks: Floats
    squares: Floats
    rate: Floats
    gradient: Floats


def attractions(batch: Batch, reward: str, p: Floats) -> Attractions:
    """The rates of all pairs of a batch.

    Args:
        batch: the records.
        reward: what is counted as clicks.
        p: Shape (K,): how much each position is examined, 0 where that is not known.
    """
    earned, n, told = batch.rewards[reward], batch.shown, p > 0
    slot, times = batch.earned_slot(earned), batch.n[earned.row]
    w, squares = (batch.by_slot(slot, times * earned.value**power) for power in (1, 2))
    every = np.arange(batch.pair_count)
    examined, rate = Moves(every, np.zeros_like(every), n, w).rates(p[None])
    return Attractions(
        n.sum(axis=1),
        examined,
        w[:, told].sum(axis=1),
        squares[:, told].sum(axis=1),
        rate,
        ratio(-p * n, np.broadcast_to(examined[:, None], n.shape)),
    )
