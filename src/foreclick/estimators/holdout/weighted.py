"""Errors of the paper's estimators: every case predicted by the weighted clicks of other folds.

With the exposure P and the credit C of a cell, in the fold itself and in training,

    R_g = (P_g,own / n_own) / (P_g,train / n_train)        V̂ = Σ_g C_g,train / n_train · min(R_g, M)

First clicks by slots are a product of hazards instead, without an M. For the shapes see `cells`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foreclick.batches import Floats, Totals, padded, ratio, sums
from foreclick.estimators.cells import Ask
from foreclick.estimators.first_clicks import product_of
from foreclick.estimators.holdout.cells import Cases, Cut, FoldCells, fold_cells, list_cells, useful


class WeightedErrors:
    """Sums of errors, by fold, of asks that share their cells.

    Args:
        asks: models that differ in their examination alone, with their metrics and clips.
        folds: T.
    """

    def __init__(self, asks: Sequence[Ask], folds: int) -> None:
        self.asks = asks
        self._totals = Totals(folds)

    def add(self, cut: Cut, cases: Cases) -> None:
        """Add the errors in the contexts of a batch."""
        for ask, predicted in predictions(cut, self.asks).items():
            error = predicted[cases.number] - cases.truth[ask.metric][:, None]
            weighted = cases.weight[:, None] * error
            self._totals.add((ask, "error"), weighted, cases.fold)
            self._totals.add((ask, "squared"), weighted * error, cases.fold)

    def sums(self) -> dict[Ask, tuple[Floats, Floats]]:
        """Shape (T, clips) each: the squared errors and the errors."""
        return {
            ask: (self._totals.sum((ask, "squared")), self._totals.sum((ask, "error")))
            for ask in self.asks
        }


def predictions(cut: Cut, asks: Sequence[Ask]) -> dict[Ask, Floats]:
    """Shape (Q, clips) each: what is predicted of every case, by asks that share their cells."""
    model, metrics = asks[0].model, [ask.metric for ask in asks]
    depth = min(max(metric.depth for metric in metrics), cut.batch.depth)
    numbers = list_cells(cut.batch, model, depth)
    cells = fold_cells(cut, numbers, useful(cut.batch, numbers, metrics))
    if asks[0].hazard:
        return {ask: _by_hazard(cells, ask, depth)[:, None] for ask in asks}
    found: dict[Ask, Floats] = {}
    for exposure in dict.fromkeys(_exposure(ask, depth) for ask in asks):
        own = cells.total(cut.showing_n[:, None] * np.array(exposure))
        share = ratio(own, cells.training(own))
        for ask in asks:
            if _exposure(ask, depth) == exposure:
                credit = cells.training(cells.credit(ask.metric, padded(ask.theta, depth)))
                found[ask] = _clipped(cells, share, credit, ask.clips)
    return found


def _exposure(ask: Ask, depth: int) -> tuple[float, ...]:
    """e_k of each position; 1 where all slots of a cell have the same, for it cancels out of R."""
    if ask.model.pins_position and ask.model.examination is None:
        return (1.0,) * depth
    return tuple(padded(ask.exposure, depth).tolist())


def _clipped(cells: FoldCells, share: Floats, credit: Floats, clips: Sequence[float]) -> Floats:
    """Shape (Q, clips): V̂ for every M, from two sums over the cells of a case.

    Every cell falls into the interval (M_{j−1}, M_j] of its R. With a = Σ C R and b = Σ C of each
    interval, V̂(M_j) = Σ_{i ≤ j} a_i + M_j Σ_{i > j} b_i.

    Args:
        cells: the cells, by fold.
        share: Shape (E,): P_own / P_train, 0 for a cell that training never showed.
        credit: Shape (E,): C_train.
        clips: the values of M.
    """
    cut, count = cells.cut, len(cells.cut.case_n)
    finite = np.sort([m for m in clips if math.isfinite(m)])
    width = len(finite) + 1
    r = share * (cut.training_n / cut.case_n)[cells.case]
    at = cells.case * width + np.searchsorted(finite, r)
    a = sums(at, credit * share, count * width).reshape(count, width) / cut.case_n[:, None]
    within = np.cumsum(a, axis=1)[:, [np.searchsorted(finite, m) for m in clips]]
    if not len(finite):
        return within
    b = sums(at, credit, count * width).reshape(count, width)
    above = ratio(np.cumsum(b[:, :0:-1], axis=1)[:, ::-1], cut.training_n[:, None])
    above = np.append(above, np.zeros((count, 1)), axis=1)  # nothing is above M = ∞
    bound = [m if math.isfinite(m) else 0.0 for m in clips]
    return np.asarray(within + bound * above[:, [np.searchsorted(finite, m) for m in clips]])


def _by_hazard(cells: FoldCells, ask: Ask, depth: int) -> Floats:
    """Shape (Q,): the mean over lists of Σ_k θ_k h_k Π_{j<k} (1 − h_j), h_k = min(p_k r_g, 1)."""
    cut, metric = cells.cut, ask.metric
    examined = padded(ask.model.examined(metric.depth), depth)
    counted = padded(ask.theta, depth)
    at_risk = cells.total(cut.showing_at_risk(metric)[:, :depth] * examined)
    rate = ratio(cells.training(cells.credit(metric, counted)), cells.training(at_risk))
    worth = product_of(np.append(rate, 0.0)[cells.slot_entry], ask).total
    return np.asarray(cut.by_case(cut.showing_n * worth) / cut.case_n)
