"""How alike two rankers are, by what both show; and where production has what it never showed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.batches import Floats

LEAST_OUTSIDE = 0.2
"""The least share of what a candidate shows that is taken to be out of production's reach."""

DOUBTFUL = 0.03
"""By so much must it fit better, for each unit of that share."""

MISFIT = 0.01
"""A share that fits worse by no more than this may be the right one."""


class Alike(NamedTuple):
    """How alike two rankers are: scores of a pool of items, normal, with a correlation.

    Attributes:
        pool, correlation: of what both can show.
        outside: the share of what the candidate shows that production cannot; `most`: what it may
            be at most.
    """

    pool: float
    correlation: float
    outside: float = 0.0
    most: float = 0.0


def alike(listed: Floats, both: Floats, *, same_retrieval: bool = False) -> Alike:
    """The pool, the correlation and the outside by which production shows what a candidate does.

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
    outside = np.arange(0, 0.05 if same_retrieval else 0.8, 0.05)
    best = np.full(len(outside), np.inf)
    fits = [Alike(4.0 * depth, 0.0)] * len(outside)
    for pool in depth * 1.25 * 1.3 ** np.arange(13):
        z, cut = _heights(depth, pool), ndtri(1 - depth / pool)
        curve = ndtr((rho * z - cut) / np.sqrt(1 - rho**2))
        cost = (((1 - outside[:, None]) * curve - shared) ** 2) @ weight
        for j, at in enumerate(cost.argmin(axis=0)):
            if cost[at, j] < best[j]:
                best[j] = cost[at, j]
                fits[j] = Alike(float(pool), float(rho[at, 0, 0]), float(outside[j]))
    root = np.sqrt(best)
    most = float(outside[root <= root.min() + MISFIT].max(initial=0.0))
    at = int(np.argmin(best + (DOUBTFUL * outside) ** 2))
    return fits[at if outside[at] >= LEAST_OUTSIDE else 0]._replace(most=most)


def _heights(depth: int, pool: float) -> Floats:
    """Shape (K,): the normal scores of the first ranks of a pool; nothing is below its last."""
    from scipy.special import ndtri  # noqa: PLC0415 - slow to import

    rank = np.minimum(np.arange(1, depth + 1), pool)
    return np.asarray(ndtri(1 - (rank - 0.375) / (pool + 0.25)))


class Below(NamedTuple):
    """Where production has items that it never showed, shape (N,) each.

    Attributes:
        gap: how far below its last position, if it can show them at all.
        reach: how likely it shows an item that the candidate has at this rank.
    """

    gap: Floats
    reach: Floats

    def outside(self, share: float) -> Floats:
        """How likely each is out of reach, if such a share of what the candidate shows is."""
        return np.asarray(share / np.maximum(share + (1 - share) * (1 - self.reach), 1e-12))


def below(word: Floats, depth: int, alike: Alike) -> Below:
    """Where production has items that it never showed.

    Args:
        word: Shape (N, K): how likely the candidate shows it at each position.
        depth: K of production's lists.
        alike: how alike both rankers are.
    """
    from scipy.special import log_ndtr, ndtr, ndtri  # noqa: PLC0415 - slow to import

    pool, rho, *_ = alike
    rest = np.sqrt(1 - rho**2)
    cut = ndtri(1 - depth / pool)
    z = word @ _heights(word.shape[1], pool) / np.maximum(word.sum(axis=1), 1e-300)
    h = (cut - rho * z) / rest
    less = np.exp(-(h**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(h))
    return Below(np.maximum(cut - (rho * z - rest * less), 0.0), ndtr(-h))
