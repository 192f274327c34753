"""Gradients of ladder columns: how far clicks on pairs, β and examination move them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Floats, Ints, sums
from foreclick.batches.arrays import taken
from foreclick.batches.batch import BatchPart
from foreclick.estimation.columns import ModelError
from foreclick.estimation.slots import group_sums
from foreclick.ladder.earnings import (
    Columns,
    Earnings,
)
from foreclick.ladder.log_chain import fitted_pairs, pairs_of
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rungs import (
    ChainGradient,
    Rung,
    Weights,
)
from foreclick.ladder.sample import known_contexts, sampled
from foreclick.ladder.state import (
    RungState,
    candidate_reading,
)


def rate_weights(columns: Columns, earned: Earnings) -> Weights:
    """The weights of the rates of all cells and pairs in columns."""
    shown, logged = columns.shown * columns.shown_value, columns.logged * columns.logged_value
    weights = columns.slots.weights(shown, -logged)
    if columns.fit.log.reading.by_list:
        weights = weights._replace(base=weights.base + _stopped(columns, earned.earned))
    return weights


def _stopped(columns: Columns, earned: Floats) -> Floats:
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


class FittedSample(NamedTuple):
    """The contexts of a batch that the fit has learnt from.

    Attributes:
        part: these contexts.
        pairs: their pairs, with the features of candidates.
    """

    part: BatchPart
    pairs: Pairs


def fitted_sample(columns: Columns) -> FittedSample:
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
    return FittedSample(part, pairs.with_candidates(columns.state.features[:, part.pairs]))


class PairGradient(NamedTuple):
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

    def of_all_pairs(self, sample: FittedSample) -> Floats:
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


def pair_gradient(columns: Columns, weights: Weights, sample: FittedSample) -> PairGradient:
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
    return PairGradient(by_click, shared.by_click, np.stack(by_beta), unexplained)


def slope_of(columns: Columns, pairs: PairGradient, gradient: ChainGradient) -> Floats:
    """Shape (N, E, X or 1): how far β and log p move columns."""
    depth, slots = columns.view.batch.depth, columns.slots
    position = slots.of_examined(slots.slots.position, columns.cells.examined % depth)
    count = columns.view.batch.context_count if columns.by_context else 1
    width = max(columns.view.policies.depth, depth)
    at = position + gradient.context * np.int64(width) if columns.by_context else position
    by_p = group_sums(at, gradient.by_exposure, count * width)
    by_p = by_p.reshape(len(by_p), count, width).transpose(2, 0, 1)
    return np.concatenate([pairs.by_beta, by_p[1:depth]])
