"""Columns of the ladder: values of candidates, gradients, model errors and influence of records.

A candidate is worth what production earned, and what its lists would earn more by the same rates:

    V = F + Σ_g (h_g − n_g) r_g,

where h_g and n_g are the records, times θ, in which the candidate and production show a slot. What
both show cancels, so production's own lists are worth what they earned. `score_ladder` reads in
this order:

    rates         `state.rung_state`: r of the log's cells and of slots that candidates show
    value         `earnings`: V, and what it rests on
    gradient      `gradient` and `SlotChain.gradient`: A, how far a click in a cell moves V
    model errors  what no record shows: independent errors of cells, and `_allowances`
    influence     `influence`: ψ of a record, Σ A (c − r n), and of β and examination

β and the examination of positions, N of them, are shared by all contexts. They solve a score, so
records move them by ψ = J⁻¹ Σ z (c − e α̂), and they move columns by a slope.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from foreclick.allowances import (
    FORM_ERROR,
    FORM_ERROR_LATER,
    NEVER_SHOWN_SD,
    RISE_ERROR,
    TOGETHER_ERROR,
    UNREACHABLE_SD,
)
from foreclick.batches import Floats, padded, ratio
from foreclick.batches.arrays import taken
from foreclick.estimation import sources as source
from foreclick.estimation.columns import ColumnBatch, View
from foreclick.estimation.slots import group_sums
from foreclick.ladder.click_value import ItemGradient
from foreclick.ladder.earnings import (
    Columns,
    Earnings,
    columns_of,
    coverage_of,
    earnings_of,
    rung_shares,
    value_of,
    with_weights,
)
from foreclick.ladder.features import WITH_RISE
from foreclick.ladder.fitted import CandidateFit
from foreclick.ladder.gradient import (
    fitted_sample,
    pair_gradient,
    rate_weights,
    slope_of,
)
from foreclick.ladder.influence import (
    coefficient_influence,
    influence_of,
    leveraged_residuals,
    own_clicks_of,
    residuals_of,
)
from foreclick.ladder.rungs import (
    ChainGradient,
    Weights,
    candidate_slots,
)
from foreclick.ladder.slot_values import ValueErrors, slot_values
from foreclick.ladder.state import (
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
    columns = columns_of(view, targets, fit, by_context=by_context)
    unit, values, pairs = fit.log.spec.unit, columns.values, columns.state.pairs
    earned = earnings_of(columns)
    weights = rate_weights(columns, earned)
    scored = ColumnBatch(
        value_of(columns, earned), coverage_of(columns, earned), rung_shares(columns)
    )
    if values is not None:
        value_weights = values.weights(earned.clicks * unit, earned.lost * unit)
        by_item = values.sensitivity(value_weights, pairs.context)
        scored = replace(scored, click_value_gradient=by_item)
    if not rows:
        return scored
    width = len(scored.value)
    sample = fitted_sample(columns)
    on_pairs = pair_gradient(columns, weights, sample)
    by_pair = on_pairs.of_all_pairs(sample) if fit.log.finer else on_pairs.by_click
    gradient = columns.slots.gradient(weights, by_pair, pairs.context)
    by_click = gradient.by_click[:width]
    slope, residuals = slope_of(columns, on_pairs, gradient), residuals_of(columns)
    unexplained = [*on_pairs.unexplained, *gradient.unexplained]
    for errors in unexplained:
        errors.error[:width] *= unit
    leveraged = leveraged_residuals(columns, sample, residuals)
    scored = replace(
        scored,
        coverage=with_weights(scored.coverage, columns, by_click),
        influence=influence_of(columns, earned, by_click, leveraged.whole),
        of_coefficients=coefficient_influence(
            columns, sample, leveraged.sampled, gradient.by_click[width:], on_pairs
        ),
        model_errors=unexplained,
        sensitivity=slope * unit,
        shared_errors=_allowances(columns, earned, weights, gradient, slope),
        own_clicks=own_clicks_of(columns, by_click, residuals) if own_clicks else None,
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


# --- model errors ------------------------------------------------------------------------------


def _allowances(
    columns: Columns,
    earned: Earnings,
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


def _by_kappa(columns: Columns) -> Floats:
    """Shape (cells,): the derivative of the logarithm of examination by that of κ."""
    view, slots = columns.view, columns.slots
    of_slots = candidate_reading(view, columns.fit, columns.state).by_kappa()
    of_slots = of_slots[slots.slots.listed, slots.slots.position]
    of_log = columns.fit.log.reading.of_log(view.batch).by_kappa()
    of_log = of_log.ravel()[columns.cells.examined]
    return slots.of_examined(of_slots, of_log)
