"""Click rates of items predicted from their features: what an item leans on beside its context.

The rate of an item, relative to the mean of its context, is a linear function of how far its
features f are from those of the context's other items,

    r = m e,    e = 1 + (f − f̄)·β

with m and f̄ the mean rate and the mean features of what the context has shown. The ladder takes e
for the exposure of its rung `item` (`shrinkage`), so an item that was never shown gets m e, and one
that was shown leans on m e as far as it was shown rarely. β is found by ridge regression: with n
records and c clicks of each item, so far as they count on the rung below (n s / (n + s)),

    (G + λ c) β = b,    G = Σ_x m_x Σ_a n_a (f_a − f̄_x)(f_a − f̄_x)ᵀ,    b = Σ_a c_a (f_a − f̄_x)

with c the clicks of all items and features of standard deviation 1, so that λ means the same in
every log. The sums are over contexts, so what is learnt without some of them is a subtraction.
Contexts and items have folds, and an item in a context is predicted by the β of other contexts and
other items. λ is what predicts items best that are held out in this way; features that predict no
better than the mean of the context are not used. Where there are few contexts, only items are held
out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foreclick.batches import Batch, Candidate, Floats, Ints, context_hashes, ratio, sums
from foreclick.estimators.ladder.items import FOLDS, UNKNOWN, Items
from foreclick.estimators.ladder.shrinkage import borrowed

if TYPE_CHECKING:
    from foreclick.estimators.ladder.effects import ItemEffects

_FEW_CONTEXTS = 30  # as many are dealt out to folds, and their errors are clusters
_RIDGE: Floats = np.array([10 ** (j / 2) for j in range(-8, 3)])  # of features of sd 1
_LOWEST = 0.05  # of the context's rate: no item is predicted to be worth less
_ONE_SIDED = 1.645  # standard errors: what features explain is as much or more, at 95 %


class Evidence(NamedTuple):
    """How well features predicted items that were held out.

    Attributes:
        items: how many items in contexts were held out.
        explained: the share of the squared error of their click rates, against the context's mean,
            that features took away; the noise of clicks is in both.
        least: the lower end of its 95 % interval, 0 at least.
    """

    items: int
    explained: float
    least: float

    @property
    def doubt(self) -> float:
        """The part of an error that features may have left, √(1 − least)."""
        return math.sqrt(1 - self.least)


class Leaning(NamedTuple):
    """The G item cells of a batch, and what features say of them.

    Attributes:
        row: Shape (G,): the row in the item table, `UNKNOWN` for cells that are not predicted.
        context: Shape (G,).
        relative: Shape (G,): e, 1 where nothing is predicted.
        centre: Shape (X, d): f̄ of each context; NaN where it has shown no item of the table.
        fold: Shape (X,).
    """

    row: Ints
    context: Ints
    relative: Floats
    centre: Floats
    fold: Ints


@dataclass(frozen=True, eq=False)
class Features:
    """What a ladder has learnt from a table of items.

    Attributes:
        items: the table.
        coefficients: Shape (folds of contexts, folds of items, d): β learnt from the others.
        covariance: Shape (d, d): of β.
        limits: the lowest and the highest e of items that were shown; no other is beyond.
        evidence: how well it did on held-out items; None if features were of no use.
        spread: the variance of the rate of an item that was held out, around what was predicted,
            over that prediction; the noise of its clicks included.
    """

    items: Items | ItemEffects
    coefficients: Floats
    covariance: Floats
    limits: tuple[float, float]
    evidence: Evidence | None
    spread: float

    def of_batch(self, batch: Batch, weight: Floats) -> Leaning:
        """What features say of the pairs of a batch.

        Args:
            batch: the records.
            weight: Shape (P,): records of each pair so far as they count on the rung below.
        """

        def make() -> Ints:
            return self.items.rows(batch, batch.items, batch.pair_context, batch.pair_item)

        row: Ints = batch.keep(("item rows", self.items), make)  # type: ignore[assignment]
        fold = context_hashes(batch)[batch.context_value] % FOLDS
        return self._of_shown(row, batch.pair_context, fold, weight)

    def of_sample(self, counts: ItemCounts, s: float) -> Floats:
        """Shape (Q,): e of the items of a sample.

        Args:
            counts: the items.
            s: the strength of the rung `item`.
        """
        values, context = np.unique(counts.context, return_inverse=True)
        fold = np.zeros(len(values), dtype=np.int64)
        fold[context] = counts.fold
        return self._of_shown(counts.row, context, fold, counts.n * borrowed(counts.n, s)).relative

    def _of_shown(self, row: Ints, context: Ints, fold: Ints, weight: Floats) -> Leaning:
        """What features say of items that were shown, from which f̄ follows."""
        weight = weight * (row != UNKNOWN)
        centre = _centre(self.items.matrix[row], weight, context, len(fold))
        return self._leaning(row, context, centre, fold)

    def with_new(self, lean: Leaning, candidate: Candidate, context: Ints) -> Leaning:
        """The same, with pairs that only a candidate shows.

        Args:
            lean: of the batch's own pairs.
            candidate: whose coding has the new pairs' items.
            context: Shape (new pairs,).
        """
        coding, count = candidate.coding, len(lean.row)
        item = coding.items_of(count + np.arange(len(context)))
        row = self.items.rows(coding.batch, coding.view.values, context, item)
        new = self._leaning(row, context, lean.centre, lean.fold)
        return lean._replace(
            row=np.concatenate([lean.row, new.row]),
            context=np.concatenate([lean.context, new.context]),
            relative=np.concatenate([lean.relative, new.relative]),
        )

    def _leaning(self, row: Ints, context: Ints, centre: Floats, fold: Ints) -> Leaning:
        unknown = np.isnan(centre[:, 0])[context]
        row = np.where(unknown | (self.evidence is None), UNKNOWN, row)
        relative = np.ones(len(row))
        some = np.flatnonzero(row != UNKNOWN)
        beta = self.coefficients[fold[context[some]] % len(self.coefficients)]
        beta = beta[np.arange(len(some)), self.items.fold[row[some]]]
        apart = self.items.matrix[row[some]] - centre[context[some]]
        relative[some] = np.clip(1 + (apart * beta).sum(axis=1), *self.limits)
        return Leaning(row, context, relative, centre, fold)

    def slopes(self, lean: Leaning, cells: Ints) -> Floats:
        """Shape (cells, d): how far e of some item cells moves with β, if not for its limits."""
        row = lean.row[cells]
        apart = self.items.matrix[row] - lean.centre[lean.context[cells]]
        return np.where((row == UNKNOWN)[:, None], 0.0, apart)


def _centre(features: Floats, weight: Floats, context: Ints, count: int) -> Floats:
    """Shape (X, d): the mean features of each context; NaN without weight."""
    total = sums(context, weight, count)
    found = [ratio(sums(context, weight * each, count), total) for each in features.T]
    return np.where(total[:, None] > 0, np.stack(found, axis=1), np.nan)


# --- learning -------------------------------------------------------------------------------------


class ItemCounts(NamedTuple):
    """The items of a sample of contexts.

    Attributes:
        row: Shape (Q,): the row of each item in a context in the item table, or `UNKNOWN`.
        context: Shape (Q,), rising.
        fold: Shape (Q,): the fold of the context.
        n: Shape (Q,): records.
        c: Shape (Q,): clicks.
    """

    row: Ints
    context: Ints
    fold: Ints
    n: Floats
    c: Floats


class _Sums(NamedTuple):
    """Sums over some items of all contexts.

    Attributes:
        mean: Shape (X,): m.
        apart: Shape (Q, d): f − f̄ of all items, 0 where the context has no f̄.
        gram: Shape (folds, d, d): G, by fold of contexts.
        gained: Shape (folds, d): b.
    """

    mean: Floats
    apart: Floats
    gram: Floats
    gained: Floats

    def without(self, fold: int) -> tuple[Floats, Floats]:
        """G and b of the other folds of contexts; of all, if there is only one."""
        gram, gained = self.gram.sum(axis=0), self.gained.sum(axis=0)
        if len(self.gram) == 1:
            return gram, gained
        return gram - self.gram[fold], gained - self.gained[fold]


class _Data:
    """The items of a sample that the table has, with features of standard deviation 1.

    Args:
        items: the table.
        counts: the items.
        s: the strength of the rung `item`.
    """

    def __init__(self, items: Items | ItemEffects, counts: ItemCounts, s: float) -> None:
        some = (counts.row != UNKNOWN) & (counts.n > 0)
        row, n, c = counts.row[some], counts.n[some], counts.c[some]
        share = borrowed(n, s)
        self.n, self.c = n * share, c * share
        values, self.context = np.unique(counts.context[some], return_inverse=True)
        self.contexts = len(values)
        self.folds = FOLDS if self.contexts >= _FEW_CONTEXTS else 1
        self.fold, self.item_fold = counts.fold[some] % self.folds, items.fold[row]
        self.features = items.matrix[row]
        self.scale = np.ones(self.features.shape[1])
        whole = self.sums(np.ones(len(row), dtype=np.bool_))
        self.clicks = max(float(self.c.sum()), 1e-300)
        variance = np.diag(whole.gram.sum(axis=0)) / self.clicks
        self.scale = np.where(variance > 0, np.sqrt(variance), 1.0)
        self.features = self.features / self.scale

    def sums(self, taken: Floats) -> _Sums:
        """Sums over the items that are taken, shape (Q,)."""
        n, c = self.n * taken, self.c * taken
        mean = ratio(*(sums(self.context, each, self.contexts) for each in (c, n)))
        centre = _centre(self.features, n, self.context, self.contexts)[self.context]
        apart = np.where(np.isnan(centre), 0.0, self.features - centre)
        weight = n * mean[self.context]
        gram, gained = [], []
        for fold in range(self.folds):
            inside = self.fold == fold
            z = apart[inside]
            gram.append((z * weight[inside, None]).T @ z)
            gained.append((z * c[inside, None]).sum(axis=0))
        return _Sums(mean, apart, np.stack(gram), np.stack(gained))

    def clustered(self, values: Floats) -> Floats:
        """Sums of contexts, or the values of items where contexts are few."""
        return sums(self.context, values, self.contexts) if self.folds > 1 else values


def learn_features(items: Items | ItemEffects, counts: ItemCounts, s: float) -> Features:
    """What the features of items say of their click rates.

    Args:
        items: the table.
        counts: the items of a sample.
        s: the strength of the rung `item`.
    """
    data = _Data(items, counts, s)
    width = items.matrix.shape[1]
    shape = data.folds, FOLDS, width
    if not len(data.n):
        return Features(items, np.zeros(shape), np.zeros((width, width)), (1.0, 1.0), None, 0.0)
    beta, predicted, mean, tested = _held_out(data)
    weight, actual = data.n * tested, ratio(data.c, data.n)
    error = weight * (actual - mean * predicted) ** 2  # shape (ridges, Q)
    best = int(np.argmin(error.sum(axis=1)))
    usual = weight * (actual - mean) ** 2
    evidence = _evidence(int(tested.sum()), data.clustered(usual), data.clustered(error[best]))
    whole = data.sums(np.ones(len(data.n), dtype=np.bool_))
    expected = float((weight * mean * predicted[best]).sum())
    spread = float(error[best].sum()) / expected if expected > 0 else 0.0
    return Features(
        items,
        beta[best] / data.scale,
        _covariance(data, whole, float(_RIDGE[best]) * data.clicks)
        / np.outer(data.scale, data.scale),
        _limits(data, whole, beta[best]),
        evidence,
        spread,
    )


def _held_out(data: _Data) -> tuple[Floats, Floats, Floats, Floats]:
    """What each item is predicted to be, by other contexts and other items.

    Returns:
        β of every ridge, fold of contexts and fold of items; e of every ridge and item, shape
        (ridges, Q); the mean of the context's other items, shape (Q,); and shape (Q,), which items
        have such a mean.
    """
    width = data.features.shape[1]
    beta = np.zeros((len(_RIDGE), data.folds, FOLDS, width))
    relative, mean = np.ones((len(_RIDGE), len(data.n))), np.zeros(len(data.n))
    tested = np.zeros(len(data.n))
    for g in range(FOLDS):
        out = data.item_fold == g
        others = data.sums((~out).astype(np.float64))
        mean[out] = others.mean[data.context[out]]
        tested[out] = others.mean[data.context[out]] > 0
        for f in range(data.folds):
            gram, gained = others.without(f)
            beta[:, f, g] = _ridge(gram, gained, data.clicks)
            inside = np.flatnonzero(out & (data.fold == f))
            e = 1 + others.apart[inside] @ beta[:, f, g].T
            relative[:, inside] = np.maximum(e, _LOWEST).T
    return beta, relative, mean, tested


def _ridge(gram: Floats, gained: Floats, clicks: float) -> Floats:
    """Shape (ridges, d): β for every λ."""
    value, vector = np.linalg.eigh(gram)
    along = vector.T @ gained
    each = [along / (np.maximum(value, 0) + ridge * clicks) for ridge in _RIDGE]
    return np.stack([vector @ coordinates for coordinates in each])


def _evidence(items: int, usual: Floats, left: Floats) -> Evidence | None:
    """How much of the squared errors of clusters, shape (T,) each, features took away."""
    total = float(usual.sum())
    if total <= 0 or float(left.sum()) >= total:
        return None
    explained = 1 - float(left.sum()) / total
    count = int((usual > 0).sum())
    if count < 2:  # noqa: PLR2004 - one number has no spread
        return Evidence(items, explained, 0.0)
    off = usual - left - explained * usual
    error = math.sqrt(float((off * off).sum()) * count / (count - 1)) / total
    return Evidence(items, explained, max(explained - _ONE_SIDED * error, 0.0))


def _covariance(data: _Data, whole: _Sums, ridge: float) -> Floats:
    """Shape (d, d): the covariance of β, by contexts, or by items where contexts are few.

    And by what the ridge took from β, as far as that can be told from what it left.
    """
    gram, gained = whole.gram.sum(axis=0), whole.gained.sum(axis=0)
    inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))
    beta = inverse @ gained
    expected = data.n * whole.mean[data.context] * (1 + whole.apart @ beta)
    each = whole.apart * (data.c - expected)[:, None]
    score = np.stack([data.clustered(column) for column in each.T], axis=1)
    taken = ridge * beta
    return np.asarray(inverse @ (score.T @ score + np.outer(taken, taken)) @ inverse)


def _limits(data: _Data, whole: _Sums, beta: Floats) -> tuple[float, float]:
    """The lowest and the highest e of the items that were shown."""
    relative = 1 + (whole.apart * beta[data.fold, data.item_fold]).sum(axis=1)
    low, high = float(relative.min()), float(relative.max())
    return max(low, _LOWEST), max(high, 1.0)
