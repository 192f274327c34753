"""Retrieval overlap: which of a candidate's items production can show, and where it has them.

Two rankers score a pool of items with normal scores of a correlation. Production shows the first K
of the pool; some items of the candidate it may not retrieve at all. A candidate alone does not tell
a small pool from one that production reaches in part. But production's own lists change, from the
first days to the last, and all come from the same pool: how much they have in common tells its
size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.allowances import OVERLAP_MISFIT
from foreclick.batches import EMPTY, Batch, Floats, sums
from foreclick.kept import kept
from foreclick.ladder.features import list_days

LEAST_UNREACHABLE = 0.2
"""The least share of what a candidate shows that is taken to be out of production's reach."""

APART = 0.25
"""The first and the last quarter of the days are compared."""


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


@kept
def production_overlap(batch: Batch) -> Floats:
    """Shape (2, K): what the first days show at each rank, and the part that the last ones have.

    Contexts with records on both count alike.
    """
    days, count = list_days(batch, dated=True), batch.cluster_count["period"]
    context, lists = batch.list_context[days.list], batch.lists[days.list]
    first = np.where(days.day < APART * count, days.n, 0.0)
    last = np.where(days.day >= (1 - APART) * count, days.n, 0.0)
    records = [sums(context, each, batch.context_count) for each in (first, last)]
    both = (records[0] > 0) & (records[1] > 0)
    first, last = (
        each * (both / np.maximum(own, 1e-300))[context]
        for each, own in zip((first, last), records, strict=True)
    )
    some, shown = lists != EMPTY, np.where(lists != EMPTY, lists, 0)
    pairs, by_slot = shown.ravel(), (last[:, None] * some).ravel()
    share = sums(pairs, by_slot, batch.pair_count)[shown]
    listed = first[:, None] * some
    return np.stack([listed.sum(axis=0), (listed * share).sum(axis=0)])


def fit_overlaps(
    listed: Floats, both: Floats, production: Floats, *, same_retrieval: bool = False
) -> tuple[Overlap, ...]:
    """For each of C candidates, the overlap by which production shows what it does.

    With f_k the share of what the candidate has at rank k that production has in its list, were
    all within its reach, it has (1 − w) f_k. A small w is not told from another shape of f.

    Args:
        listed: Shape (C, K): what the candidate shows at each rank.
        both: Shape (C, K): which part of it production's lists have, too.
        production: Shape (2, K): the same of production's first and last days; 0 if not known.
        same_retrieval: whether production can show all that the candidate can.
    """
    count, depth = listed.shape
    shares = np.arange(0, 0.05 if same_retrieval else 0.8, 0.05)
    best = np.full((count, len(shares)), np.inf)
    fits = [[Overlap(4.0 * depth, 0.0)] * len(shares) for _ in range(count)]
    for pool in (depth * 1.05 * 1.07 ** np.arange(58)).tolist():
        (own,), _ = _misfits(pool, production[:1], production[1:], 0.0)
        for j, share in enumerate(shares.tolist()):
            cost, correlation = _misfits(pool, listed, both, share)
            for c in np.flatnonzero(cost + own < best[:, j]):
                best[c, j] = cost[c] + own
                fits[c][j] = Overlap(pool, float(correlation[c]), share)
    return tuple(_chosen(*each, shares) for each in zip(fits, np.sqrt(best), strict=True))


def _chosen(fits: list[Overlap], root: Floats, shares: Floats) -> Overlap:
    """The fit that counts: with items out of reach only if it is clearly better than without."""
    at = int(root.argmin())
    if root[0] <= root[at] + OVERLAP_MISFIT:
        return fits[0]
    chosen = fits[at] if shares[at] >= LEAST_UNREACHABLE else fits[0]
    most = float(shares[root <= root[at] + OVERLAP_MISFIT].max())
    return chosen._replace(most_unreachable=most)


_CORRELATIONS = np.linspace(0, 0.995, 120)[:, None]


def _misfits(
    pool: float, listed: Floats, both: Floats, unreachable: float
) -> tuple[Floats, Floats]:
    """Shape (C,) each: the mean square misfit to the best curve of a pool, and its correlation."""
    from scipy.special import ndtr, ndtri  # noqa: PLC0415 - slow to import

    depth = listed.shape[1]
    shared = both / np.maximum(listed, 1e-300)
    weight = listed / np.maximum(listed.sum(axis=1, keepdims=True), 1e-300)
    # What the candidate ranks is larger than what production can show of it.
    z, cut = _rank_scores_of(depth, pool / (1 - unreachable)), ndtri(1 - depth / pool)
    curve = ndtr((_CORRELATIONS * z - cut) / np.sqrt(1 - _CORRELATIONS**2))
    missed = (1 - unreachable) * curve - shared[:, None]
    cost = np.einsum("crk,ck->cr", missed**2, weight)
    return cost.min(axis=1), _CORRELATIONS[cost.argmin(axis=1), 0]


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
    scores = _rank_scores_of(mass.shape[1], overlap.pool / (1 - overlap.unreachable))
    z = mass @ scores / np.maximum(mass.sum(axis=1), 1e-300)
    h = (cut - rho * z) / rest
    less = np.exp(-(h**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(h))
    return UnloggedRanks(np.maximum(cut - (rho * z - rest * less), 0.0), ndtr(-h))
