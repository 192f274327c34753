"""The pairs of a batch as the fit sees them: clicks and exposure by day, and the score.

**Production learns from its clicks.** Clicks by chance raise an item's rank, so the plain score is
biased. But whatever z was known before the clicks of a day, Σ z (c − e α̂) = 0 on average, with α̂
the pair's rate by the whole log: z is an instrument. So β and the examination p of positions solve
it with z the features as they stood on each day, and the position. Without days, z are the features
of the whole log: the plain score.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foreclick.batches import Batch, Floats, Ints, sums
from foreclick.batches.arrays import taken
from foreclick.ladder.features import CandidateFeatures, PairDays, by_row, production_powers
from foreclick.ladder.rates import (
    RateParameters,
    Rates,
    jacobian_by_mean,
    mean_jacobian,
    rates,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class _Evaluated(NamedTuple):
    """What β and p say of pairs.

    Attributes:
        at: β, p and strengths.
        rates: of the pairs.
        exposures: Shape (B, P): Σ e, times the powers of production's features.
    """

    at: RateParameters
    rates: Rates
    exposures: Floats


class Pairs:
    """The clicks and the exposure of the pairs of a batch, from which coefficients are learnt.

    Args:
        days: the pairs by day.
        reward: what is counted.
        unit: how much of the reward counts as one click.
        exposed: Shape (L, K), or (Z, K) by day: the readers of each slot, times what finer rungs
            pass on; None: 1.
        passed: Shape (L, K): the share of clicks that finer rungs pass on; None: 1.

    Attributes:
        c, d: Shape (U,): clicks of each cell, and its records as far as they count.
        z: Shape (B, R): powers of production's features up to and with each day, the instruments;
            `whole_log`: Shape (B, P): of all days.
        clicks: Shape (P,): C; `weighted_clicks`: Shape (B, P): Σ c z.
        day_clicks: Shape (R,): clicks of each pair-day.
        position_clicks: Shape (K,): clicks at each position.
        exposed: sparse, shape (P, K), by power: Σ d z; `by_position`: the first of
            them in full.
        candidates: the features of candidates.
        weight: Shape (P,) or 1: for how many of the log's records one of each pair's stands, if
            contexts were drawn. Scores have it; counts, by which rates shrink, do not.
    """

    candidates: CandidateFeatures
    _last: _Evaluated | None

    def __init__(
        self,
        days: PairDays,
        reward: str,
        unit: float,
        exposed: Floats | None = None,
        passed: Floats | None = None,
    ) -> None:
        self.days, batch = days, days.batch
        weights = batch.context_weight
        self.weight = np.ones(1) if weights is None else weights[batch.pair_context]
        earned, count = batch.reward(reward), len(days.pair_day)
        value, lists = batch.n[earned.row] * earned.value / unit, days.lists
        if passed is not None:
            value = value * passed[batch.row_list[earned.row], earned.position]
        cell = days.cell[lists.of_row[earned.row], earned.position]
        self.c = sums(cell, value, count + 1)[:count]
        self.d = days.cell_n
        if exposed is not None:
            by_day = exposed if len(exposed) == lists.size else exposed[lists.list]
            self.d = self._by_cell(lists.n[:, None] * by_day)
        self.day_clicks = days.by_pair_day(self.c)
        self.z, self.whole_log = days.features, days.whole_log
        self.weighted_clicks = days.by_pair(self.day_clicks * self.z)
        self.clicks = self.weighted_clicks[0]
        weighted = self.c if weights is None else self.c * self.weight[days.pair[days.pair_day]]
        self.position_clicks = sums(days.position, weighted, batch.depth)
        self.exposed = self._exposed(self.z)
        self.by_position = np.asarray(self.exposed[0].toarray())

    def with_candidates(self, features: Floats) -> Pairs:
        """The same pairs with the features of candidates, shape (V, P, 2), beside production's."""
        pairs = copy(self)
        pairs.candidates = CandidateFeatures.of(features, len(self.z))
        pairs._last = None  # noqa: SLF001 - of the same class
        return pairs

    def with_production(self, count: int) -> Pairs:
        """The same pairs with so many columns of production's features: 4, or 5 with its rise."""
        if count == len(self.z):
            return self
        pairs, rise = copy(self), self.days.rise[None]
        pairs.z = np.vstack([self.z, rise])
        pairs.whole_log = production_powers(self.batch, count)
        pairs.weighted_clicks = np.vstack(
            [self.weighted_clicks, self.days.by_pair(self.day_clicks * rise)]
        )
        pairs.exposed = [*self.exposed, *self._exposed(rise)]
        pairs._last = None  # noqa: SLF001 - of the same class
        return pairs

    @property
    def batch(self) -> Batch:
        """The records."""
        return self.days.batch

    def _by_cell(self, values: Floats) -> Floats:
        """Shape (U,): sums of values of slots, shape (Z, K)."""
        days, count = self.days, len(self.days.pair_day)
        return sums(days.cell.ravel(), values.ravel(), count + 1)[:count]

    def _exposed(self, z: Floats) -> list[csr_array[np.float64]]:
        """Σ d z of pairs by position, shape (P, K), for each z of pair-days, shape (B, R)."""
        from scipy import sparse  # noqa: PLC0415 - slow to import

        days, (k, count) = self.days, (self.batch.depth, self.batch.pair_count)
        slots, number = days.slots
        first, position = np.searchsorted(slots, np.arange(count + 1) * np.int64(k)), slots % k
        return [
            sparse.csr_array(
                (sums(number, self.d * power[days.pair_day], len(slots)), position, first),
                shape=(count, k),
            )
            for power in z
        ]

    # --- rates ------------------------------------------------------------------------------------

    def rates(self, parameters: RateParameters) -> Rates:
        """Rates of all pairs; those of the last parameters are kept."""
        return self._at(parameters).rates

    def exposures(self, parameters: RateParameters) -> Floats:
        """Shape (B, P): Σ e of each pair, times the powers of production's features."""
        return self._at(parameters).exposures

    def _at(self, parameters: RateParameters) -> _Evaluated:
        if self._last is None or self._last.at is not parameters:
            exposures = np.stack([np.asarray(each @ parameters.p) for each in self.exposed])
            expected = self.candidates.expected(self.whole_log, parameters.beta)
            where = self.batch.pair_context, self.batch.context_count
            start = None if self._last is None else self._last.rates.level
            found = rates(*where, self.clicks, exposures[0], expected, parameters, start)
            self._last = _Evaluated(parameters, found, exposures)
        return self._last

    def day_exposure(self, parameters: RateParameters) -> Floats:
        """Shape (R,): the exposure of each pair-day."""
        return self.days.by_pair_day(self.d * parameters.p[self.days.position])

    def day_expected(self, parameters: RateParameters) -> Floats:
        """Shape (R,): exp(β x) of each pair-day, by production's features up to the day."""
        return self.candidates.expected(self.z, parameters.beta, self.days.pair)

    # --- the score --------------------------------------------------------------------------------

    def _residual(self, parameters: RateParameters) -> Floats:
        """Shape (B, P): what each pair has of the score, by power of production's features."""
        _, r, exposures = self._at(parameters)
        return np.asarray((self.weighted_clicks - exposures * r.alpha) * self.weight)

    def score(self, parameters: RateParameters) -> Floats:
        """Shape (F + K − 1,): Σ z (c − e α̂), of features and of positions below the first."""
        alpha, weight = self.rates(parameters).alpha, self.weight
        expected = ((weight * alpha) @ self.by_position) * parameters.p
        of_features = self.candidates.sums(self._residual(parameters))
        return np.append(of_features, (self.position_clicks - expected)[1:])

    def list_scores(self, values: Floats) -> Floats:
        """Shape (F + K − 1, Z): Σ z values of lists by day, of values of their slots, (Z, K)."""
        days = self.days
        pair_day = np.append(days.pair_day, len(days.pair))[days.cell]
        pair, blocks = np.append(days.pair, self.batch.pair_count)[pair_day], []
        each = [values * np.append(power, 0.0)[pair_day] for power in self.z]
        for power, _, own in self.candidates.factors():
            blocks.append(by_row(each[power], pair, own))
        return np.concatenate([*blocks, values.T[1:]])

    def slot_scores(self, cell: Ints, position: Ints) -> Floats:
        """Shape (F + K − 1, Z): z of some slots, by their cells and positions, shape (Z,)."""
        days, depth = self.days, self.batch.depth
        pair_day = days.pair_day[cell]
        own = self.candidates.taken(days.pair[pair_day])
        of_features = own.columns(taken(self.z, pair_day))
        return np.concatenate([of_features.T, position == np.arange(1, depth)[:, None]])

    def score_jacobian(self, parameters: RateParameters) -> Floats:
        """Shape (P, F + K − 1): Σ z e, by how much the score falls with the rate of each pair."""
        by_feature = self.candidates.columns(self.exposures(parameters))
        return np.hstack([by_feature, self.by_position[:, 1:] * parameters.p[1:]])

    def mean_jacobian(self, parameters: RateParameters) -> Floats:
        """Shape (P, F + K − 1): the derivative of log m of each pair by β and log p."""
        where = self.batch.pair_context, self.batch.context_count
        x = self.candidates.columns(self.whole_log)
        return mean_jacobian(*where, self.rates(parameters), x, self.by_position, parameters)

    def rate_jacobian(self, parameters: RateParameters) -> Floats:
        """Shape (P, F + K − 1): the derivative of the rate of each pair by β and log p."""
        r, of_mean = self.rates(parameters), self.mean_jacobian(parameters)
        return jacobian_by_mean(r, of_mean, self.by_position, parameters)

    def score_covariance(self, parameters: RateParameters) -> Floats:
        """Shape (N, N): the covariance of the score, by contexts."""
        days, k, batch = self.days, self.batch.depth, self.batch
        alpha, context, count = (
            self.rates(parameters).alpha,
            batch.pair_context,
            batch.context_count,
        )
        pair, weight = days.pair[days.pair_day], np.broadcast_to(self.weight, alpha.shape)
        of_cells = (self.c - self.d * parameters.p[days.position] * alpha[pair]) * weight[pair]
        places = sums(context[pair] * np.int64(k) + days.position, of_cells, count * k)
        columns = self.candidates.columns(self._residual(parameters))
        by_feature = np.stack([sums(context, own, count) for own in columns.T], axis=1)
        score = np.hstack([by_feature, places.reshape(count, k)[:, 1:]])
        return np.asarray(score.T @ score)

    def jacobian(self, parameters: RateParameters) -> Floats:
        """Shape (N, N): by how much the score falls with β and log p."""
        f, p = len(parameters.beta), parameters.p
        _, r, exposures = self._at(parameters)
        alpha = r.alpha * self.weight
        moved, by_position = alpha * r.prior_share, self.by_position[:, 1:] * p[1:]
        # By log m, of rates and of means.
        by_mean = self.candidates.columns(exposures * moved)
        by_mean = np.hstack([by_mean, by_position * moved[:, None]])
        found = by_mean.T @ self.mean_jacobian(parameters)
        # By the exposure of pairs, at the same m.
        own = by_position * (alpha / (r.exposure + parameters.a / r.m))[:, None]
        found[f:, f:] += np.diag(((alpha @ self.by_position) * p)[1:]) - by_position.T @ own
        for power, columns, values in self.candidates.factors():
            found[columns, f:] -= (values * exposures[power][:, None]).T @ own
            shown = np.asarray(self.exposed[power].T @ (values * alpha[:, None]))
            found[columns, f:] += (shown.T * p)[:, 1:]
        return found
