"""Retrieval overlap: which of a candidate's items production can show, and where it has them.

Two rankers score a pool of items with normal scores of a correlation. Production shows the first K
of the pool; some items of the candidate it may not retrieve at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.allowances import OVERLAP_MISFIT
from foreclick.batches import Floats

LEAST_UNREACHABLE = 0.2
"""The least share of what a candidate shows that is taken to be out of production's reach."""

UNREACHABLE_COST = 0.03
"""By so much must it fit better, for each unit of that share."""


class Overlap(NamedTuple):
    """The retrieval overlap of a candidate with production.

    Attributes:
        pool, correlation: of what both can show.
        unreachable: the share of what the candidate shows that production cannot.
        most_unreachable: what that share may be at most.
    """

    pool: float
    correlation: float
    unreachable: float = 0.0
    most_unreachable: float = 0.0


def fit_overlap(listed: Floats, both: Floats, *, same_retrieval: bool = False) -> Overlap:
    """The overlap by which production shows what a candidate does.

    With f_k the share of what the candidate has at rank k that production has in its list, were
    all within its reach, it has (1 − w) f_k. A small w is not told from another shape of f.

    Args:
        listed: Shape (K,): what the candidate shows at each rank.
        both: Shape (K,): which part of it production's lists have, too.
        same_retrieval: whether production can show all that the candidate can.
    """
    from scipy.special import ndtr, ndtri  # noqa: PLC0415 - slow to import

    depth = len(listed)
    shared = both / np.maximum(listed, 1e-300)
    weight = listed / max(listed.sum(), 1e-300)
    rho = np.linspace(0, 0.99, 67)[:, None, None]
    unreachable = np.arange(0, 0.05 if same_retrieval else 0.8, 0.05)
    best = np.full(len(unreachable), np.inf)
    fits = [Overlap(4.0 * depth, 0.0)] * len(unreachable)
    for pool in depth * 1.25 * 1.3 ** np.arange(13):
        z, cut = _rank_scores_of(depth, pool), ndtri(1 - depth / pool)
        curve = ndtr((rho * z - cut) / np.sqrt(1 - rho**2))
        cost = (((1 - unreachable[:, None]) * curve - shared) ** 2) @ weight
        for j, at in enumerate(cost.argmin(axis=0)):
            if cost[at, j] < best[j]:
                best[j] = cost[at, j]
                fits[j] = Overlap(float(pool), float(rho[at, 0, 0]), float(unreachable[j]))
    root = np.sqrt(best)
    most = float(unreachable[root <= root.min() + OVERLAP_MISFIT].max(initial=0.0))
    at = int(np.argmin(best + (UNREACHABLE_COST * unreachable) ** 2))
    chosen = fits[at if unreachable[at] >= LEAST_UNREACHABLE else 0]
    return chosen._replace(most_unreachable=most)


def _rank_scores_of(depth: int, pool: float) -> Floats:
    """Shape (K,): the normal scores of the first ranks of a pool; nothing is below its last."""
    from scipy.special import ndtri  # noqa: PLC0415 - slow to import

    rank = np.minimum(np.arange(1, depth + 1), pool)
    return np.asarray(ndtri(1 - (rank - 0.375) / (pool + 0.25)))


class UnloggedRanks(NamedTuple):
    """Where production has items that it never showed, shape (N,) each.

    Attributes:
        gap: how far below its last position, if it can show them at all.
        reach: how likely it shows an item that the candidate has at this rank.
    """

    gap: Floats
    reach: Floats

    def unreachable(self, share: float) -> Floats:
        """How likely each is out of reach, if such a share of what the candidate shows is."""
        return np.asarray(share / np.maximum(share + (1 - share) * (1 - self.reach), 1e-12))


def unlogged_ranks(mass: Floats, depth: int, overlap: Overlap) -> UnloggedRanks:
    """Where production has items that it never showed.

    Args:
        mass: Shape (N, K): how likely the candidate shows each at each position.
        depth: K of production's lists.
        overlap: of the candidate with production.
    """
    from scipy.special import log_ndtr, ndtr, ndtri  # noqa: PLC0415 - slow to import

    rho = overlap.correlation
    rest = np.sqrt(1 - rho**2)
    cut = ndtri(1 - depth / overlap.pool)
    scores = _rank_scores_of(mass.shape[1], overlap.pool)
    z = mass @ scores / np.maximum(mass.sum(axis=1), 1e-300)
    h = (cut - rho * z) / rest
    less = np.exp(-(h**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(h))
    return UnloggedRanks(np.maximum(cut - (rho * z - rest * less), 0.0), ndtr(-h))
