"""Score tests of feedback (ranks follow clicks) and of leakage (a candidate knows the clicks)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foreclick.batches import Floats, Ints, sums
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rates import RateParameters


def _z(values: Floats) -> float:
    """How many standard errors the sum of independent values, (N,), is above 0."""
    return float(values.sum() / np.sqrt((values**2).sum() + 1e-300))


def feedback_z(parts: Sequence[Pairs], at: RateParameters) -> float:
    """The z of the covariance of an item's residual clicks on a day with its next change of rank.

    Minus the same with time reversed, so that what rate and rank have in common cancels.
    """
    total = []
    for part in parts:
        days, batch = part.days, part.batch
        mean = part.day_exposure(at) * part.rates(at).alpha[days.pair]
        residual = (part.day_clicks - mean) / np.sqrt(mean + 0.05)
        height = days.height / days.n
        later = np.flatnonzero(np.diff(days.pair, prepend=-1) == 0)
        change = height[later] - height[later - 1]
        each = change * (residual[later - 1] + residual[later])
        context = batch.pair_context[days.pair[later]]
        total.append(sums(context, each, batch.context_count))
    return _z(np.concatenate(total))


def leakage_z(parts: Sequence[Pairs], features: Sequence[Floats], at: RateParameters) -> Floats:
    """Shape (C,): by how many standard errors candidates predict early clicks better than later.

    Of each pair, clicks before a day are held against those after it, as its exposure would share
    them out. A candidate that was trained on early clicks ranks pairs with high residuals high.
    The larger z of two days.

    Args:
        parts: the pairs of each batch.
        features: Shape (C, P, 2) by batch: the candidates'.
        at: β, p and strengths.
    """
    return np.maximum(*(_leakage_z(parts, features, at, share) for share in (0.5, 0.75)))


def _leakage_z(
    parts: Sequence[Pairs], features: Sequence[Floats], at: RateParameters, share: float
) -> Floats:
    """The same, with the first days that are this share of all against the others."""
    columns, contrasts, weights, before = [], [], [], 0
    contexts: list[Ints] = []
    for part, own in zip(parts, features, strict=True):
        days, batch, e = part.days, part.batch, part.day_exposure(at)
        early = days.day < days.days * share
        c0, e0, c1, e1 = (
            days.by_pair(np.where(when, value, 0.0))
            for when in (early, ~early)
            for value in (part.day_clicks, e)
        )
        some = np.flatnonzero((e0 > 0) & (e1 > 0))
        both = (e0 + e1)[some]
        contrasts.append(((c0 * e1 - c1 * e0)[some]) / both)
        weights.append((e0 * e1)[some] / both * part.rates(at).alpha[some])
        columns.append(np.column_stack([days.whole_log[some, 1:], own[:, some, 1].T]))
        contexts.append(batch.pair_context[some] + before)
        before += batch.context_count
    x, contrast, w = (np.concatenate(each) for each in (columns, contrasts, weights))
    context = np.concatenate(contexts)
    total = np.maximum(sums(context, w, before), 1e-300)
    x = x - np.column_stack([(sums(context, w * one, before) / total)[context] for one in x.T])
    root = np.sqrt(w)[:, None]
    # Candidates' heights, without what production's features explain of them.
    slope = np.linalg.lstsq(root * x[:, :3], root * x[:, 3:], rcond=None)[0]
    own = x[:, 3:] - x[:, :3] @ slope
    return np.array([_z(sums(context, each * contrast, before)) for each in own.T])
