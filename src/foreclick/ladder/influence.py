"""Influence on ladder columns: ψ of a record, Σ A (c − r n), and ψ on β and examination."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.allowances import (
    SEGMENT_WEIGHT_BOUND,
)
from foreclick.batches import EMPTY, Floats, Ints, padded, ratio, sums
from foreclick.batches.arrays import taken
from foreclick.estimation.columns import CoefficientInfluence
from foreclick.estimation.slots import group_sums
from foreclick.ladder.earnings import (
    Columns,
    Earnings,
)
from foreclick.ladder.features import ListDays, by_row, list_days
from foreclick.ladder.gradient import (
    FittedSample,
    PairGradient,
)
from foreclick.ladder.shrinkage import leverage_factor


class Residuals(NamedTuple):
    """c − r of the slots of records: r by lists and days, c where something was clicked.

    Attributes:
        lists: the lists by day.
        expected: Shape (Z, K): r.
        row, position: Shape (C,): of the clicks.
        value: Shape (C,): c of one record.
    """

    lists: ListDays
    expected: Floats
    row: Ints
    position: Ints
    value: Floats

    def scaled(self, factor: Floats) -> Residuals:
        """Times factors of the slots of lists by day, shape (Z, K)."""
        at = factor[self.lists.of_row[self.row], self.position]
        return self._replace(expected=self.expected * factor, value=self.value * at)

    def over_slots(self, cell: Ints, by_cell: Floats) -> Floats:
        """Shape (V, R): Σ_k A (c − r) of records.

        Args:
            cell: Shape (L, K): the cell of each slot of lists; their count where nothing is shown.
            by_cell: Shape (V, cells): A.
        """
        expected = by_row(-self.expected, cell[self.lists.list], by_cell.T)
        clicked = cell[self.lists.list[self.lists.of_row[self.row]], self.position]
        return self.with_clicks(expected, taken(by_cell, clicked))

    def with_clicks(self, of_lists: Floats, of_clicks: Floats) -> Floats:
        """Shape (V, R): what lists by day have, (V, Z), and Σ A c of clicks, with A (V, C)."""
        found = taken(of_lists, self.lists.of_row)
        for own, each in zip(found, of_clicks, strict=True):
            np.add(own, sums(self.row, each * self.value, len(own)), out=own)
        return found


def residuals_of(columns: Columns) -> Residuals:
    """C − r of the slots of records."""
    batch, spec = columns.view.batch, columns.fit.log.spec
    lists, reward = list_days(batch, dated=spec.dated), batch.reward(spec.reward)
    rate = np.append(columns.rate, 0.0)[columns.cells.finest]
    value = reward.value / spec.unit
    return Residuals(lists, rate[lists.list], reward.row, reward.position, value)


# --- influence ------------------------------------------------------------------------------------


class Leveraged(NamedTuple):
    """Residuals over √(1 − h), where the fit knows the day's share h.

    A day's clicks on a pair in part decide what is expected of them: with the share h of the
    pair's exposure on that day, 1 / √(1 − h) undoes it.

    Attributes:
        whole: of all records; `sampled`: of those that the fit has learnt from.
    """

    whole: Residuals
    sampled: Residuals


def leveraged_residuals(columns: Columns, sample: FittedSample, residuals: Residuals) -> Leveraged:
    """The residuals of a batch with their leverage."""
    fit, (part, pairs), spec = columns.fit, sample, columns.fit.log.spec
    days, own, reward = pairs.days, pairs.days.lists, part.batch.reward(spec.reward)
    number = np.zeros(own.size, dtype=np.int64)  # of the sample's lists by day among all
    number[own.of_row] = residuals.lists.of_row[part.rows]
    value = reward.value / spec.unit
    sampled = Residuals(own, residuals.expected[number], reward.row, reward.position, value)
    if not spec.dated:
        return Leveraged(residuals, sampled)
    r = pairs.rates(fit.parameters)
    total = r.exposure + fit.parameters.a / r.m
    leverage = pairs.day_exposure(fit.parameters) / total[days.pair]
    factor = np.append(leverage_factor(leverage)[days.pair_day], 1.0)[days.cell]
    of_all = np.ones_like(residuals.expected)
    of_all[number] = factor
    return Leveraged(residuals.scaled(of_all), sampled.scaled(factor))


def influence_of(
    columns: Columns, earned: Earnings, by_click: Floats, residuals: Residuals
) -> Floats:
    """Shape (E, R): ψ + V of records.

    Args:
        columns: E of them.
        earned: by which columns differ from production.
        by_click: Shape (E, G): how far a click in a cell moves columns.
        residuals: of all records.
    """
    batch, unit = columns.view.batch, columns.fit.log.spec.unit
    psi = residuals.over_slots(columns.cells.finest, by_click)
    psi += taken(ratio(earned.difference, batch.context_n), batch.row_context)
    psi *= unit
    psi += columns.credit * taken(columns.known, batch.row_context)
    return psi


def coefficient_influence(
    columns: Columns,
    sample: FittedSample,
    residuals: Residuals,
    by_cell: Floats,
    on_pairs: PairGradient,
) -> CoefficientInfluence:
    """ψ of records on β and log p: by their own score, and by the rates in those of others.

    Args:
        columns: of the batch.
        sample: the contexts that the fit has learnt from.
        residuals: of their records.
        by_cell: Shape (N, G): how far a click in a cell moves coefficients, if finer rungs have
            rates of their own.
        on_pairs: the same of pairs, if not.
    """
    fit, (part, pairs), lists = columns.fit, sample, residuals.lists
    if fit.log.finer:
        cell = columns.cells.finest[part.lists]
        psi = residuals.over_slots(cell, by_cell)
        passed = np.append(columns.state.log.positions.passed(), 0.0)[cell]
        residuals = residuals.scaled(passed[lists.list])
    else:
        shown = np.where(part.batch.lists == EMPTY, part.batch.pair_count, part.batch.lists)
        psi = residuals.over_slots(shown, on_pairs.of_coefficients)
    clicked = pairs.days.cell[lists.of_row[residuals.row], residuals.position]
    score = residuals.with_clicks(
        pairs.list_scores(-residuals.expected), pairs.slot_scores(clicked, residuals.position)
    )
    return CoefficientInfluence(part.rows, psi + fit.solution.inverse @ score)


def own_clicks_of(columns: Columns, by_click: Floats, residuals: Residuals) -> Floats:
    """Shape (E, R): what clicks of each row would move columns, if a part had rates of its own.

    By its own clicks alone, a pair would move a column by (c − e α̂) (H − E) / E, with E its
    exposure in the log and H that of the candidate: the paper's weights, bounded.
    What influence has of that already is taken away.

    Args:
        columns: E of them.
        by_click: Shape (E, G): how far a click in a cell moves them.
        residuals: of all records.
    """
    batch, slots, chain = columns.view.batch, columns.slots.slots, columns.slots.log
    p = padded(tuple(columns.fit.parameters.p), max(len(columns.theta[0]), batch.depth))
    size, pair, e = batch.pair_count, chain.base(), p[columns.cells.position_of]
    shown, known = columns.shown * columns.shown_value * p[slots.position], ~columns.unlogged
    gradient = group_sums(slots.pair[known], shown[:, known], size)
    gradient -= group_sums(pair, columns.logged * columns.logged_value * e, size)
    own_weight = ratio(gradient, sums(pair, chain.finest.n * e, size))
    own_weight = np.clip(own_weight, -SEGMENT_WEIGHT_BOUND, SEGMENT_WEIGHT_BOUND)
    excess_weight = own_weight[:, pair] - by_click
    return residuals.over_slots(columns.cells.finest, excess_weight) * columns.fit.log.spec.unit
