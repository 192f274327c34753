"""Columns of the ladder: values of candidates, gradients, model errors and influence of records.

A candidate is worth what production earned, and what its lists would earn more by the same rates:

    V = F + Σ_g (h_g − n_g) r_g,

where h_g and n_g are the records, times θ, in which the candidate and production show a slot. What
both show cancels, so production's own lists are worth what they earned. `score_ladder` reads in
this order:

    rates         `state.rung_state`: r of the log's cells and of slots that candidates show
    value         `_earnings`: V, and what it rests on
    gradient      `_pair_gradient` and `SlotChain.gradient`: A, how far a click in a cell moves V
    model errors  what no record shows: independent errors of cells, and `_allowances`
    influence     `_influence`: ψ of a record, Σ A (c − r n), and of β and examination

β and the examination of positions, N of them, are shared by all contexts. They solve a score, so
records move them by ψ = J⁻¹ Σ z (c − e α̂), and they move columns by a slope.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foreclick.allowances import (
    FORM_ERROR,
    FORM_ERROR_LATER,
    NEVER_SHOWN_SD,
    RISE_ERROR,
    SEGMENT_WEIGHT_BOUND,
    TOGETHER_ERROR,
    UNREACHABLE_SD,
)
from foreclick.batches import EMPTY, Bools, Floats, Ints, padded, ratio, sums
from foreclick.batches.arrays import taken
from foreclick.batches.batch import BatchPart
from foreclick.estimation import sources as source
from foreclick.estimation.columns import CoefficientInfluence, ColumnBatch, ModelError, View
from foreclick.estimation.slots import group_sums, row_credit
from foreclick.estimation.sums import Coverage
from foreclick.ladder.click_value import ItemGradient
from foreclick.ladder.features import WITH_RISE, ListDays, by_row, list_days
from foreclick.ladder.fitted import CandidateFit
from foreclick.ladder.log_chain import examined_cells, fitted_pairs, pairs_of
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rungs import (
    ChainGradient,
    LogCells,
    Rung,
    SlotChain,
    Weights,
    candidate_slots,
)
from foreclick.ladder.sample import known_contexts, sampled
from foreclick.ladder.shrinkage import leverage_factor
from foreclick.ladder.slot_values import SlotValues, ValueErrors, slot_values
from foreclick.ladder.state import (
    RungState,
    candidate_chain,
    candidate_reading,
    rung_state,
)
from foreclick.question import Target


def score_ladder(
    view: View,
    targets: list[Target],
    fit: CandidateFit,
    *,
    rows: bool,
    own_clicks: bool = False,
    items: ItemGradient | None = None,
) -> ColumnBatch:
    """The columns of a ladder: a target after the other, candidates side by side.

    Args:
        view: the batch and its candidates.
        targets: metrics of one reward.
        fit: the ladder.
        rows: whether errors and ψ of rows are wanted; the last columns of ψ are β and log p.
        own_clicks: whether the answer has several parts, whose own clicks are wanted.
        items: how columns move with what clicks on items earn, over the whole log.
    """
    by_context = own_clicks or view.batch.drawn is not None
    columns = _columns(view, targets, fit, by_context=by_context)
    unit, values, pairs = fit.log.spec.unit, columns.values, columns.state.pairs
    earned = _earnings(columns)
    weights = _rate_weights(columns, earned)
    scored = ColumnBatch(_value(columns, earned), _coverage(columns, earned), _rung_shares(columns))
    if values is not None:
        value_weights = values.weights(earned.clicks * unit, earned.lost * unit)
        by_item = values.sensitivity(value_weights, pairs.context)
        scored = replace(scored, click_value_gradient=by_item)
    if not rows:
        return scored
    width = len(scored.value)
    sample = _fitted_sample(columns)
    on_pairs = _pair_gradient(columns, weights, sample)
    by_pair = on_pairs.of_all_pairs(sample) if fit.log.finer else on_pairs.by_click
    gradient = columns.slots.gradient(weights, by_pair, pairs.context)
    by_click = gradient.by_click[:width]
    slope, residuals = _slope(columns, on_pairs, gradient), _residuals(columns)
    unexplained = [*on_pairs.unexplained, *gradient.unexplained]
    for errors in unexplained:
        errors.error[:width] *= unit
    leveraged = _leveraged(columns, sample, residuals)
    scored = replace(
        scored,
        coverage=_with_weights(scored.coverage, columns, by_click),
        influence=_influence(columns, earned, by_click, leveraged.whole),
        of_coefficients=_coefficient_influence(
            columns, sample, leveraged.sampled, gradient.by_click[width:], on_pairs
        ),
        model_errors=unexplained,
        sensitivity=slope * unit,
        shared_errors=_allowances(columns, earned, weights, gradient, slope),
        own_clicks=_own_clicks(columns, by_click, residuals) if own_clicks else None,
    )
    if values is None or items is None:
        return scored
    of_values = values.errors(value_weights, items, pairs.context, columns.sums)
    return _with_values(scored, of_values)


def _with_values(scored: ColumnBatch, of_values: ValueErrors) -> ColumnBatch:
    """With the influence and the errors of click values."""
    assert scored.influence is not None  # noqa: S101 - of rows
    shared = {name: error[None] for name, error in of_values.shared.items()}
    return replace(
        scored,
        influence=scored.influence + of_values.influence,
        model_errors=scored.model_errors + of_values.unexplained,
        shared_errors=scored.shared_errors | shared,
    )


def list_values(view: View, targets: list[Target], fit: CandidateFit) -> Floats:
    """Shape (A, M): the value of each of the candidates' lists, Σ_k θ_k r."""
    state = rung_state(view, fit)
    depth = min(max(target.metric.depth for target in targets), view.policies.depth)
    slots = candidate_slots(view, depth, by_list=True)
    chain = candidate_chain(view, fit, state, slots)
    rate = chain.rate * fit.log.spec.unit
    if fit.click_values is not None:
        rate = rate * slot_values(view, fit, fit.click_values, slots).shown
    theta = taken(np.stack([padded(a.metric.theta, depth) for a in targets]), slots.position)
    return group_sums(slots.listed, rate * theta, len(view.policies.lists.mass))


# --- value ----------------------------------------------------------------------------------------


class _Columns(NamedTuple):
    """What E columns ask of a batch with G finest cells and Q slots of candidates.

    Attributes:
        view: the batch and its candidates.
        fit: the ladder; `state`: its rates.
        theta: Shape (A, K): the weight of positions.
        known: Shape (E, X): 1 where the candidate has lists; elsewhere it is what production is.
        credit: Shape (E, R): what a record earned.
        cells: the log's.
        weight: Shape (E, G): θ of the finest of them, where the candidate has lists.
        context: Shape (G,): of each.
        slots: of candidates, on the rungs that know a position.
        unlogged: Shape (Q,): whether the log never showed their pairs.
        shown: Shape (E, Q): h, in which a slot is shown by the candidate.
        logged: Shape (E, G): n, in which it is shown by production.
        values: what a click earns at slots, if clicks alone earn the reward.
        by_context: whether sums are wanted by context.
    """

    view: View
    fit: CandidateFit
    state: RungState
    theta: Floats
    known: Floats
    credit: Floats
    cells: LogCells
    weight: Floats
    context: Ints
    slots: SlotChain
    unlogged: Bools
    shown: Floats
    logged: Floats
    values: SlotValues | None
    by_context: bool

    @property
    def rate(self) -> Floats:
        """Shape (G,): the rates of the log's finest cells."""
        return self.slots.logged_rate

    @property
    def shown_value(self) -> Floats | float:
        """Shape (Q,) or 1: what a click earns at slots of candidates."""
        return 1.0 if self.values is None else self.values.shown

    @property
    def logged_value(self) -> Floats | float:
        """Shape (G,) or 1: what a click earns at the log's finest cells."""
        return 1.0 if self.values is None else self.values.logged

    def sums(self, context: Ints, values: Floats) -> Floats:
        """Shape (…, X): sums of values (…, Z) by context; or shape (…, 1) of all contexts."""
        if self.by_context:
            return group_sums(context, values, self.view.batch.context_count)
        return np.asarray(values.sum(axis=-1, keepdims=True))


def _columns(view: View, targets: list[Target], fit: CandidateFit, *, by_context: bool) -> _Columns:
    batch, log, state = view.batch, fit.log, rung_state(view, fit)
    chain = state.log.positions
    depth = min(max(target.metric.depth for target in targets), view.policies.depth)
    theta = np.stack([padded(a.metric.theta, max(depth, batch.depth)) for a in targets])
    slots = candidate_slots(view, depth, by_list=log.top == "list")
    cells = examined_cells(batch, log)
    context = taken(batch.pair_context, chain.base())
    known = np.tile(view.known.T, (len(targets), 1)).astype(np.float64)
    mass = slots.mass * batch.context_n[slots.context]
    shown = taken(theta, slots.position)[:, None] * mass
    weight = taken(np.repeat(theta, view.count, axis=0), cells.position_of)
    weight *= taken(known, context)
    f = np.stack([row_credit(batch, target.metric) for target in targets])
    return _Columns(
        view,
        fit,
        state,
        theta,
        known,
        np.repeat(f, view.count, axis=0),
        cells,
        weight,
        context,
        candidate_chain(view, fit, state, slots),
        slots.pair >= batch.pair_count,
        shown.reshape(len(known), len(slots.pair)),
        weight * chain.finest.n,
        None if fit.click_values is None else slot_values(view, fit, fit.click_values, slots),
        by_context,
    )


class _Earnings(NamedTuple):
    """What columns earn by the rates, in clicks of the fit or what these earn.

    Attributes:
        clicks: Shape (E, Q): of candidates, h r; `earned`: what they earn.
        lost: Shape (E, G): production's clicks, n r.
        difference: Shape (E, X): Σ (h − n) r by context.
    """

    clicks: Floats
    earned: Floats
    lost: Floats
    difference: Floats


def _earnings(columns: _Columns) -> _Earnings:
    slots, count = columns.slots, columns.view.batch.context_count
    clicks, lost = columns.shown * slots.rate, columns.logged * columns.rate
    earned = clicks * columns.shown_value
    difference = group_sums(slots.slots.context, earned, count)
    difference -= group_sums(columns.context, lost * columns.logged_value, count)
    return _Earnings(clicks, earned, lost, difference)


def _value(columns: _Columns, earned: _Earnings) -> Floats:
    """Shape (E, X): n_x V_x."""
    batch = columns.view.batch
    produced = group_sums(batch.row_context, columns.credit * batch.n, batch.context_count)
    return earned.difference * columns.fit.log.spec.unit + produced * columns.known


def _coverage(columns: _Columns, earned: _Earnings) -> Coverage[Floats]:
    """How far the log covers the columns."""
    slots, count = columns.slots.slots, columns.view.batch.context_count
    new, unit, logged = columns.unlogged, columns.fit.log.spec.unit, columns.view.batch.pair_count
    highest = ratio(columns.state.pairs.highest, columns.state.pairs.rate[logged:])
    more = np.zeros(len(slots.pair))
    more[new] = np.maximum(highest - 1, 0.0)[slots.pair[new] - logged]
    return Coverage(
        mass=group_sums(slots.context, columns.shown, count),
        covered=group_sums(slots.context, np.where(new, 0.0, columns.shown), count),
        borrowed=group_sums(slots.context, new * earned.earned * unit, count),
        unreachable_gain=group_sums(slots.context, earned.earned * more * unit, count),
    )


def _with_weights(
    coverage: Coverage[Floats], columns: _Columns, by_click: Floats
) -> Coverage[Floats]:
    """With sums of the weights of records and of their squares, for the effective sample size."""
    weight = columns.weight * columns.logged_value + by_click
    records = weight * columns.slots.log.finest.n
    return replace(
        coverage,
        weighted=columns.sums(columns.context, records),
        squared=columns.sums(columns.context, weight * records),
    )


def _rung_shares(columns: _Columns) -> Floats:
    """Shape (rungs, E, X): how much exposure took its rate from which rung, the finest first."""
    slots, shares = columns.slots, list[Floats]()
    remaining, cell = np.ones(len(slots.cell)), slots.cell
    for rung in slots.chain.rungs:
        share = rung.borrowed()[cell]
        shares.append(remaining * (1 - share))
        remaining, cell = remaining * share, rung.coarser[cell]
    own = 1 - columns.state.pairs.rung.borrowed()[cell]
    new = columns.unlogged * remaining
    names = columns.fit.log.spec.ladder.rungs
    none = [np.zeros(len(remaining))] * (len(names) - len(shares) - 3)
    each = np.stack([*none, *shares, remaining * own, remaining * (1 - own) - new, new])
    count = columns.view.batch.context_count
    return group_sums(slots.slots.context, columns.shown * each[:, None], count)


# --- gradient -------------------------------------------------------------------------------------


def _rate_weights(columns: _Columns, earned: _Earnings) -> Weights:
    """The weights of the rates of all cells and pairs in columns."""
    shown, logged = columns.shown * columns.shown_value, columns.logged * columns.logged_value
    weights = columns.slots.weights(shown, -logged)
    if columns.fit.log.reading.by_list:
        weights = weights._replace(base=weights.base + _stopped(columns, earned.earned))
    return weights


def _stopped(columns: _Columns, earned: Floats) -> Floats:
    """Shape (E, P + U): how far the rate of a pair moves what is read below it."""
    view, slots, pairs = columns.view, columns.slots.slots, columns.state.pairs
    batch, lists, size = view.batch, view.policies.lists, len(pairs.rate)
    of_log = columns.fit.log.reading.of_lists(
        batch,
        batch.lists,
        batch.list_context,
        pairs.rate,
        pairs.kappa,
    )
    of_candidates = candidate_reading(view, columns.fit, columns.state)

    def by_pair(values: Floats, shown_pairs: Ints) -> Floats:
        shown = shown_pairs != EMPTY
        return sums(shown_pairs[shown], values[shown], size)

    moved = np.zeros((len(earned), size))
    rate = np.append(columns.rate * columns.logged_value, 0.0)[columns.cells.finest]
    for number, own in enumerate(earned):
        wide = np.zeros(lists.pairs.shape)
        wide[slots.listed, slots.position] = own
        theta = columns.theta[number // view.count, : batch.depth]
        n = batch.list_n * columns.known[number, batch.list_context]
        moved[number] = by_pair(of_candidates.by_rate(wide), lists.pairs)
        moved[number] -= by_pair(of_log.by_rate(theta * rate * n[:, None]), batch.lists)
    return moved


class _FittedSample(NamedTuple):
    """The contexts of a batch that the fit has learnt from.

    Attributes:
        part: these contexts.
        pairs: their pairs, with the features of candidates.
    """

    part: BatchPart
    pairs: Pairs


def _fitted_sample(columns: _Columns) -> _FittedSample:
    """The contexts of the sample that all candidates know."""
    view, fit = columns.view, columns.fit
    part = sampled(view.batch, fit.log.spec.sample)
    known = np.asarray(view.known.all(axis=1))[part.contexts]
    part = part.within(known_contexts(part.batch, known))
    finer = fit.log.finer  # rungs which pass on by the examination
    pairs = (
        pairs_of(part.batch, fit.log, fit.parameters.p)
        if finer
        else fitted_pairs(part.batch, fit.log)
    )
    return _FittedSample(part, pairs.with_candidates(columns.state.features[:, part.pairs]))


class _PairGradient(NamedTuple):
    """How columns, and the N coefficients that contexts share, move with pairs.

    Attributes:
        by_click: Shape (E, P): columns, with a click on a pair.
        of_coefficients: Shape (N, P'): coefficients, with a click on a pair of the sample.
        by_beta: Shape (F, E, X or 1): columns, with β.
        unexplained: errors of pairs given their contexts' levels, and of these levels.
    """

    by_click: Floats
    of_coefficients: Floats
    by_beta: Floats
    unexplained: list[ModelError]

    def of_all_pairs(self, sample: _FittedSample) -> Floats:
        """Shape (E + N, P): columns and coefficients, with a click on any pair."""
        width = len(self.by_click)
        every = np.zeros((width + len(self.of_coefficients), self.by_click.shape[1]))
        every[:width], every[width:, sample.part.pairs] = self.by_click, self.of_coefficients
        return every


class _OnPairs(NamedTuple):
    """The gradient of V columns on a rung of pairs, Z of them, and on that of contexts.

    Attributes:
        by_log_level: Shape (V, X): with log L.
        by_click: Shape (V, Z): with a click on a pair; `by_error`: with the error of its rate.
    """

    by_log_level: Floats
    by_click: Floats
    by_error: Floats


def _on_pairs(state: RungState, rung: Rung, weight: Floats, rate: Floats) -> _OnPairs:
    """How columns move that count the rates of pairs, (Z,), by weights (V, Z).

    Args:
        state: the rates.
        rung: the pairs.
        weight: of rates.
        rate: of the pairs.
    """
    level, by_log_mean = state.log.rates.level, weight * (rung.borrowed() * rate)
    by_log_level = group_sums(rung.coarser, by_log_mean, len(level))
    by_context = by_log_level / level * state.log.context.own_weight()
    passed = taken(by_context, rung.coarser)
    by_error = rung.unexplained(weight, passed)
    return _OnPairs(by_log_level, rung.gradient(weight, passed), by_error)


def _pair_gradient(columns: _Columns, weights: Weights, sample: _FittedSample) -> _PairGradient:
    """The gradient on the rungs of pairs and contexts, whose strength a / m knows the level L."""
    fit, state, own = columns.fit, columns.state, sample.part.pairs
    pairs, log = state.pairs, state.log
    jacobian = sample.pairs.score_jacobian(fit.parameters)
    of_coefficients = -(fit.solution.inverse @ jacobian.T)
    found = _on_pairs(state, pairs.rung, weights.base, pairs.rate)
    shared = _on_pairs(state, pairs.rung.among(own), of_coefficients, pairs.rate[own])
    sd = pairs.expected / np.sqrt(fit.parameters.a)
    error, error_of_shared = found.by_error * sd, shared.by_error * sd[own]
    other = np.delete(np.arange(len(sd)), own)
    level, of_context = log.rates.level, np.sqrt(fit.parameters.t) * log.context.own_weight()
    by_level = np.concatenate([found.by_log_level, shared.by_log_level]) / level
    unexplained = [
        ModelError(pairs.context[own], np.concatenate([taken(error, own), error_of_shared])),
        ModelError(pairs.context[other], taken(error, other)),
        ModelError(np.arange(len(level)), by_level * of_context),
    ]
    by_log_mean = weights.base * (pairs.rate - pairs.expected) * pairs.rung.borrowed()
    by_log_mean += found.by_error * pairs.expected
    if columns.by_context:
        by_beta = [columns.sums(pairs.context, by_log_mean * x) for x in pairs.features.T]
    else:
        by_beta = [*(by_log_mean @ pairs.features).T[:, :, None]]
    by_click = found.by_click[:, : len(log.item.n)]
    return _PairGradient(by_click, shared.by_click, np.stack(by_beta), unexplained)


def _slope(columns: _Columns, pairs: _PairGradient, gradient: ChainGradient) -> Floats:
    """Shape (N, E, X or 1): how far β and log p move columns."""
    depth, slots = columns.view.batch.depth, columns.slots
    position = slots.of_examined(slots.slots.position, columns.cells.examined % depth)
    count = columns.view.batch.context_count if columns.by_context else 1
    width = max(columns.view.policies.depth, depth)
    at = position + gradient.context * np.int64(width) if columns.by_context else position
    by_p = group_sums(at, gradient.by_exposure, count * width)
    by_p = by_p.reshape(len(by_p), count, width).transpose(2, 0, 1)
    return np.concatenate([pairs.by_beta, by_p[1:depth]])


# --- model errors ---------------------------------------------------------------------------------


def _allowances(
    columns: _Columns,
    earned: _Earnings,
    weights: Weights,
    gradient: ChainGradient,
    slope: Floats,
) -> dict[str, Floats]:
    """Shape (1, E, X or 1) by source: errors that contexts share, and no record shows."""
    fit, pairs, slots = columns.fit, columns.state.pairs, columns.slots.slots
    new, logged = columns.unlogged, columns.view.batch.pair_count
    at, unreachable = slots.pair[new] - logged, np.zeros(len(slots.pair))
    unreachable[new] = ratio(pairs.unreachable, pairs.rate[logged:])[at]
    reachable = np.where(new, earned.earned * (1 - unreachable), 0.0)
    by_rate = np.abs(weights.base) * pairs.rate
    form = FORM_ERROR if fit.earlier is None else FORM_ERROR_LATER
    errors = {
        source.FORM: form * columns.sums(pairs.context, by_rate),
        source.NEVER_SHOWN: NEVER_SHOWN_SD * columns.sums(slots.context, reachable),
        source.UNREACHABLE: UNREACHABLE_SD
        * columns.sums(slots.context, earned.earned * unreachable),
    }
    if fit.log.reading.kappa_sd:
        by_kappa = columns.sums(gradient.context, gradient.by_exposure * _by_kappa(columns))
        by_kappa += np.tensordot(fit.by_stopping, slope, 1)
        errors[source.STOPPING] = fit.log.reading.kappa_sd * by_kappa
    if len(fit.log.parameters.beta) == WITH_RISE:
        rise = WITH_RISE - 1
        errors[source.RISE] = RISE_ERROR * fit.parameters.beta[rise] * slope[rise]
    if fit.log.together:
        every = np.arange(columns.view.batch.context_count)
        change = columns.sums(every, earned.difference)
        errors[source.TOGETHER] = min(fit.log.together, TOGETHER_ERROR) * change
    return {name: error[None] * fit.log.spec.unit for name, error in errors.items()}


def _by_kappa(columns: _Columns) -> Floats:
    """Shape (cells,): the derivative of the logarithm of examination by that of κ."""
    view, slots = columns.view, columns.slots
    of_slots = candidate_reading(view, columns.fit, columns.state).by_kappa()
    of_slots = of_slots[slots.slots.listed, slots.slots.position]
    of_log = columns.fit.log.reading.of_log(view.batch).by_kappa()
    of_log = of_log.ravel()[columns.cells.examined]
    return slots.of_examined(of_slots, of_log)


# --- residuals ------------------------------------------------------------------------------------


class _Residuals(NamedTuple):
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

    def scaled(self, factor: Floats) -> _Residuals:
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


def _residuals(columns: _Columns) -> _Residuals:
    """C − r of the slots of records."""
    batch, spec = columns.view.batch, columns.fit.log.spec
    lists, reward = list_days(batch, dated=spec.dated), batch.reward(spec.reward)
    rate = np.append(columns.rate, 0.0)[columns.cells.finest]
    value = reward.value / spec.unit
    return _Residuals(lists, rate[lists.list], reward.row, reward.position, value)


# --- influence ------------------------------------------------------------------------------------


class _Leveraged(NamedTuple):
    """Residuals over √(1 − h), where the fit knows the day's share h.

    A day's clicks on a pair in part decide what is expected of them: with the share h of the
    pair's exposure on that day, 1 / √(1 − h) undoes it.

    Attributes:
        whole: of all records; `sampled`: of those that the fit has learnt from.
    """

    whole: _Residuals
    sampled: _Residuals


def _leveraged(columns: _Columns, sample: _FittedSample, residuals: _Residuals) -> _Leveraged:
    """The residuals of a batch with their leverage."""
    fit, (part, pairs), spec = columns.fit, sample, columns.fit.log.spec
    days, own, reward = pairs.days, pairs.days.lists, part.batch.reward(spec.reward)
    number = np.zeros(own.size, dtype=np.int64)  # of the sample's lists by day among all
    number[own.of_row] = residuals.lists.of_row[part.rows]
    value = reward.value / spec.unit
    sampled = _Residuals(own, residuals.expected[number], reward.row, reward.position, value)
    if not spec.dated:
        return _Leveraged(residuals, sampled)
    r = pairs.rates(fit.parameters)
    total = r.exposure + fit.parameters.a / r.m
    leverage = pairs.day_exposure(fit.parameters) / total[days.pair]
    factor = np.append(leverage_factor(leverage)[days.pair_day], 1.0)[days.cell]
    of_all = np.ones_like(residuals.expected)
    of_all[number] = factor
    return _Leveraged(residuals.scaled(of_all), sampled.scaled(factor))


def _influence(
    columns: _Columns, earned: _Earnings, by_click: Floats, residuals: _Residuals
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


def _coefficient_influence(
    columns: _Columns,
    sample: _FittedSample,
    residuals: _Residuals,
    by_cell: Floats,
    on_pairs: _PairGradient,
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


def _own_clicks(columns: _Columns, by_click: Floats, residuals: _Residuals) -> Floats:
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
