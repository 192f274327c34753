"""Click rates in one batch: of the log's cells, of its pairs, and of pairs that it never showed.

A pair of the log has the rate α̂ = (C + a) / (E + a / m), with m = exp(β x) L of its features x and
of the level L of its context. One that only a candidate shows stands below production's last
position, if production can retrieve it at all: with the gap g below it, in normal scores of rank,
and the probability w that production cannot,

    α = (1 − w) m exp(−β_u g) + w m_c,

where m_c is what the features of the candidate alone predict.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.allowances import UNREACHABLE_FACTOR
from foreclick.batches import Batch, Bools, Floats, Ints, padded, ratio
from foreclick.estimation.columns import View
from foreclick.ladder.behaviour import readers
from foreclick.ladder.candidates import candidate_features, used_features
from foreclick.ladder.features import (
    CandidateFeatures,
    expected_rates,
    powers,
    production_features,
)
from foreclick.ladder.fitted import CandidateFit
from foreclick.ladder.log_chain import LadderChain, ladder_chain
from foreclick.ladder.overlap import unlogged_ranks
from foreclick.ladder.rungs import SlotChain, Slots, log_cells, slot_chain


class PairRates(NamedTuple):
    """The rates of all pairs: P of the log, then U that it never showed.

    Attributes:
        features: Shape (P + U, F): x.
        expected: Shape (P + U,): exp(β x), put down by the gap: m of a level of 1.
        rate: Shape (P + U,): α.
        prior_share: Shape (P + U,): the share of α that m decides.
        exposure: Shape (P + U,): E.
        context: Shape (P + U,).
        kappa: Shape (P + U,): the probability that a click on the pair ends the reading.
        depth: Shape (U,): β_u g, by which the logarithm of a rate is put down.
        unreachable: Shape (U,): w m_c.
        highest: Shape (U,): the rate if more is out of production's reach than seems.
    """

    features: Floats
    expected: Floats
    rate: Floats
    prior_share: Floats
    exposure: Floats
    context: Ints
    kappa: Floats
    depth: Floats
    unreachable: Floats
    highest: Floats


class RungState(NamedTuple):
    """The rates of a batch.

    Attributes:
        log: the log's cells on all rungs.
        pairs: the rates of all pairs.
        features: Shape (V, P + U, 2): the candidates' rank features that rates lean on.
    """

    log: LadderChain
    pairs: PairRates
    features: Floats


def rung_state(view: View, fit: CandidateFit) -> RungState:
    """The rates of the log's cells and of all pairs."""
    batch, count = view.batch, view.batch.pair_count
    every = candidate_features(view)
    own = production_features(batch)
    own = np.concatenate([own, np.zeros((2, every.shape[1] - count))], axis=1)
    used = used_features(view, every, fit.distinct, fit.earlier)
    x = CandidateFeatures.of(used).columns(powers(own))
    expected = expected_rates(x, fit.parameters.beta)
    log = ladder_chain(batch, fit.log, fit.parameters, expected[:count].copy())
    shown_before = np.zeros(own.shape[1] - count, dtype=np.bool_)
    if fit.earlier is not None:
        shown_before = used[-1, count:, 0] > 0
    new = _unlogged(view, fit, every[:, count:], expected[count:], shown_before)
    return RungState(log, _pair_rates(batch, fit, log, x, expected[:count], new), used)


def candidate_chain(view: View, fit: CandidateFit, state: RungState, slots: Slots) -> SlotChain:
    """Slots of candidates on the rungs that know a position, with their rates."""
    log, k = fit.log, slots.position
    e = padded(tuple(fit.parameters.p), max(view.policies.depth, view.batch.depth))[k]
    if log.stopping:
        reading = readers(state.pairs.rate, view.policies.lists.pairs, state.pairs.kappa)
        e = e * reading[slots.listed, k]
    cells = log_cells(view.batch, log.top, log.spec.reward)
    return slot_chain(view, cells, state.log.positions, slots, e, state.pairs.rate)


class _Unlogged(NamedTuple):
    """Pairs that the log never showed, U of them, at a level of 1: means over candidates.

    Attributes:
        context: Shape (U,).
        depth, unreachable, highest: Shape (U,): as of `PairRates`.
        expected: Shape (U,): m.
    """

    context: Ints
    depth: Floats
    unreachable: Floats
    expected: Floats
    highest: Floats


def _unlogged(
    view: View, fit: CandidateFit, features: Floats, expected: Floats, shown_before: Bools
) -> _Unlogged:
    """What is expected of pairs that the log never showed, by how often each candidate does.

    Args:
        view: the batch and its candidates.
        fit: the ladder.
        features: Shape (C, U, 2): of every candidate.
        expected: Shape (U,): exp(β x).
        shown_before: Shape (U,): in earlier records, so that they are within reach.
    """
    count = view.batch.pair_count
    context = np.zeros(len(expected), dtype=np.int64)
    total, shown = np.zeros((4, len(expected))), np.zeros(len(expected))
    for c, member in enumerate(view.members):
        some = member.slots.pair >= count
        at, mass = member.slots.pair[some] - count, member.slots.mass[some]
        context[at] = member.slots.context[some]
        by_candidate = _unlogged_by(
            view.batch.depth, fit, c, mass, features[c, at], expected[at], shown_before[at]
        )
        total[:, at] += mass.sum(axis=1) * by_candidate
        shown[at] += mass.sum(axis=1)
    return _Unlogged(context, *ratio(total, shown))


def _unlogged_by(
    depth: int,
    fit: CandidateFit,
    candidate: int,
    mass: Floats,
    features: Floats,
    expected: Floats,
    shown_before: Bools,
) -> Floats:
    """Shape (4, N): β_u g, w m_c, m and the highest m of pairs that one candidate shows.

    Args:
        depth: K of production's lists.
        fit: the ladder.
        candidate: which one.
        mass: Shape (N, K): how likely the candidate shows each pair at each position.
        features: Shape (N, 2): of the candidate.
        expected: Shape (N,): exp(β x).
        shown_before: Shape (N,): in earlier records.
    """
    overlap, slope = fit.overlaps[candidate], max(float(fit.parameters.beta[2]), 0.0)
    place = unlogged_ranks(mass, depth, overlap)
    gap = np.where(shown_before, 0.0, place.gap)
    reachable = expected * np.exp(-slope * gap)
    # Of all that the candidate has at this rank, production shows some and could show the rest.
    x = np.column_stack([np.ones(len(features)), features])
    of_rank = expected_rates(x, fit.candidate_only[candidate].coefficients)
    of_rank = np.maximum(place.reach * of_rank + (1 - place.reach) * reachable, reachable)
    unreachable = np.where(shown_before, 0.0, place.unreachable(overlap.unreachable))
    most = place.unreachable(max(overlap.unreachable, overlap.most_unreachable))
    best = of_rank if overlap.unreachable else UNREACHABLE_FACTOR * of_rank
    by_unreachable = unreachable * of_rank
    mean = by_unreachable + (1 - unreachable) * reachable
    highest = reachable + most * (best - reachable)
    return np.stack([slope * gap, by_unreachable, mean, highest])


def _pair_rates(
    batch: Batch,
    fit: CandidateFit,
    log: LadderChain,
    features: Floats,
    expected: Floats,
    new: _Unlogged,
) -> PairRates:
    """The rates of all pairs, with the levels of their contexts.

    Args:
        batch: the records.
        fit: the ladder.
        log: the log's cells, with the rates of its pairs.
        features: Shape (P + U, F): x.
        expected: Shape (P,): exp(β x) of the log's pairs.
        new: those that it never showed.
    """
    level, by_pair, by_context = log.rates.level, *fit.log.reading.kappa(batch)
    new_level = level[new.context]
    unshown = np.zeros(len(new.context))
    return PairRates(
        features,
        np.append(expected, new.expected),
        np.append(log.rates.alpha, new.expected * new_level),
        np.append(log.rates.prior_share, np.ones(len(unshown))),
        np.append(log.item.n, unshown),
        np.append(batch.pair_context, new.context).astype(np.int64),
        np.append(by_pair, by_context[new.context]),
        new.depth,
        new.unreachable * new_level,
        new.highest * new_level,
    )
