"""Score tests of feedback (ranks follow clicks) and of leakage (a candidate knows the clicks).

**A candidate that counts the log's own clicks.** Given the log, what an honest ranker knows of a
rate depends on the log's clicks through the posterior of that rate alone: of its logarithm by a
smooth curve, whatever the exposure. A count of clicks depends on the clicks themselves: few chances
to be clicked make it follow luck more than a posterior does. So a candidate's rank feature of pair
i = (x, j) is regressed on what is known of the pair without counting,

    y_i = u_c + .4 s_c = γ f(s, u, log m, log α̂, log E, log n_x, M, A) + δ ν_i + error,
    ν_i = log(1 + C) − log(1 + E α̂)

with m and α̂ by production's features alone, and δ is 0 of honest candidates. A second ν counts the
clicks on the item in all other contexts, where M expects them beforehand and A afterwards. Errors
are clustered by item, and by context; the larger standard error counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from foreclick.batches import Floats, Ints, sums
from foreclick.estimation.fits import Slope
from foreclick.ladder.features import production_features
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rates import RateParameters

SHOWN_WEIGHT = 0.4
"""Weight of s_c in y beside u_c, so that being listed last is more than not being listed."""

LEAST_CLUSTERS = 30
"""Items and contexts that the test of counted clicks must have at least, or it is not made."""

_SAME = 1e-10  # of the variance of a column: what is left of it is rounding


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


def early_z(parts: Sequence[Pairs], features: Sequence[Floats], at: RateParameters) -> Floats:
    """Shape (C,): by how many standard errors candidates predict early clicks better than later.

    Of each pair, clicks before a day are held against those after it, as its exposure would share
    them out. A candidate that was trained on early clicks ranks pairs with high residuals high.
    The larger z of two days.

    Args:
        parts: the pairs of each batch.
        features: Shape (C, P, 2) by batch: the candidates'.
        at: β, p and strengths.
    """
    return np.maximum(*(_early_z(parts, features, at, share) for share in (0.5, 0.75)))


def _early_z(
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
        columns.append(np.concatenate([days.whole_log[1:, some], own[:, some, 1]]).T)
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


# --- candidates that count the log's clicks -------------------------------------------------------


def counted_clicks(
    parts: Sequence[Pairs], features: Sequence[Floats], at: RateParameters
) -> list[tuple[Slope, Slope]]:
    """How far each candidate follows clicks themselves: on a pair, and on its item elsewhere.

    Where the log has too few items or contexts, or counts tell nothing that the rates do not, all
    slopes are 0.

    Args:
        parts: the pairs of each batch, without candidates.
        features: Shape (C, P, 2) by batch: the candidates'.
        at: β of production's features, p and strengths.
    """
    y = np.concatenate([own[..., 1] + SHOWN_WEIGHT * own[..., 0] for own in features], axis=1).T
    items = [part.batch.items.take(pa.array(part.batch.pair_item)) for part in parts]
    coded = pa.chunked_array(items).combine_chunks().dictionary_encode()
    item = coded.indices.to_numpy(zero_copy_only=False)
    starts = np.cumsum([0, *(part.batch.context_count for part in parts)])
    context = np.concatenate(
        [p.batch.pair_context + s for p, s in zip(parts, starts, strict=False)]
    )
    known, counts = _known_and_counted(parts, item, len(coded.dictionary), at)
    clusters = [(item, len(coded.dictionary)), (context, int(starts[-1]))]
    if min(len(np.unique(which)) for which, _ in clusters) < LEAST_CLUSTERS:
        return [(Slope(), Slope())] * y.shape[1]
    both = _without(known, np.column_stack([counts, y]))
    nu, residual = both[:, :2], both[:, 2:]
    slopes = [
        _slopes(one, whole, residual, clusters) for one, whole in zip(nu.T, counts.T, strict=True)
    ]
    return list(zip(*slopes, strict=True))


def _known_and_counted(
    parts: Sequence[Pairs], item: Ints, items: int, at: RateParameters
) -> tuple[Floats, Floats]:
    """Shape (P, 15) and (P, 2): what is known of each pair without counting, and both ν."""
    found = [part.rates(at) for part in parts]
    clicks = np.concatenate([part.clicks for part in parts])
    e, m, alpha = (
        np.concatenate([getattr(each, name) for each in found])
        for name in ("exposure", "m", "alpha")
    )
    records = np.concatenate([p.batch.context_n[p.batch.pair_context] for p in parts])
    share, height = np.concatenate([production_features(p.batch) for p in parts], axis=1)

    def elsewhere(values: Floats) -> Floats:
        return np.maximum(sums(item, values, items)[item] - values, 0.0)

    expected, after = elsewhere(e * m), elsewhere(e * alpha)
    curves = np.column_stack(
        [
            np.log1p(expected),
            np.log((1 + after) / (1 + expected)),
            np.log1p(e),
            np.log1p(records),
            np.log(alpha / m),
        ]
    )
    rates = np.column_stack([np.log(m), np.log(alpha) ** 2])
    known = np.column_stack([share, height, share**2, curves, curves**2, rates])
    counted = np.column_stack([clicks, elsewhere(clicks)])
    return known, np.log1p(counted) - np.log1p(np.column_stack([e * alpha, after]))


def _without(known: Floats, values: Floats) -> Floats:
    """Shape (P, V): values without what a constant and the columns of `known` explain of them."""
    known, values = known - known.mean(axis=0), values - values.mean(axis=0)
    known = known / np.maximum(np.sqrt((known**2).mean(axis=0)), 1e-300)
    slope = np.linalg.lstsq(known.T @ known, known.T @ values, rcond=_SAME)[0]
    return np.asarray(values - known @ slope)


def _slopes(
    nu: Floats, whole: Floats, residual: Floats, clusters: Sequence[tuple[Ints, int]]
) -> list[Slope]:
    """The coefficient of ν of each candidate, and its z by the larger of its standard errors.

    Args:
        nu: Shape (P,): without what is known.
        whole: Shape (P,): with it.
        residual: Shape (P, C): the candidates' features without what is known.
        clusters: the cluster of each pair, and how many there are.
    """
    size = float(nu @ nu)
    if size <= _SAME * float(whole @ whole):
        return [Slope()] * residual.shape[1]
    found = []
    for own in residual.T:
        score = nu * own
        total = float(score.sum())
        spread = max(float((sums(which, score, count) ** 2).sum()) for which, count in clusters)
        found.append(Slope(total / size, total / math.sqrt(spread + 1e-300)))
    return found
