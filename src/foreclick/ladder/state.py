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
from foreclick.batches import Bools, Floats, Ints, padded, ratio
from foreclick.estimation.columns import View
from foreclick.ladder.candidates import candidate_features, used_features
from foreclick.ladder.features import (
    CandidateFeatures,
    expected_rates,
    production_powers,
)
from foreclick.ladder.fitted import CandidateFit
from foreclick.ladder.log_chain import LadderChain, ladder_chain
from foreclick.ladder.overlap import UnloggedRanks, unlogged_ranks
from foreclick.ladder.readers import ListReading
from foreclick.ladder.rungs import Rung, SlotChain, Slots, log_cells, slot_chain


class PairRates(NamedTuple):
    """The rates of all pairs: P of the log, then U that it never showed.

    Attributes:
        features: Shape (P + U, F): x.
        rung: the pairs on their contexts; those never shown without records.
        rate: Shape (P + U,): α; `expected`: m.
        kappa: Shape (P + U,): the probability that a click on the pair ends the reading.
        unreachable: Shape (U,): w m_c.
        highest: Shape (U,): the rate if more is out of production's reach than seems.
    """

    features: Floats
    rung: Rung
    rate: Floats
    expected: Floats
    kappa: Floats
    unreachable: Floats
    highest: Floats

    @property
    def context(self) -> Ints:
        """Shape (P + U,)."""
        return self.rung.coarser


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
    alone = len(fit.log.parameters.beta)
    unlogged = np.zeros((alone, every.shape[1] - count))
    unlogged[0] = 1.0
    own = np.hstack([production_powers(batch, alone), unlogged])
    used = used_features(view, every, fit.distinct, fit.earlier)
    x = CandidateFeatures.of(used, alone).columns(own)
    expected = expected_rates(x, fit.parameters.beta)
    log = ladder_chain(batch, fit.log, fit.parameters, expected[:count].copy())
    shown_before = np.zeros(own.shape[1] - count, dtype=np.bool_)
    if fit.earlier is not None:
        shown_before = used[-1, count:, 0] > 0
    context, new = _unlogged(view, fit, every[:, count:], expected[count:], shown_before)
    level, (unreachable, mean, highest) = log.rates.level, new
    strength = fit.parameters.a / np.maximum(mean * level[context], 1e-300)
    rung = log.item.with_unlogged(context, batch.context_count, mean, strength)
    by_pair, by_context = fit.log.reading.kappa(batch)
    pairs = PairRates(
        x,
        rung,
        *rung.descend(level),
        np.append(by_pair, by_context[context]),
        unreachable * level[context],
        highest * level[context],
    )
    return RungState(log, pairs, used)


def candidate_chain(view: View, fit: CandidateFit, state: RungState, slots: Slots) -> SlotChain:
    """Slots of candidates on the rungs that know a position, with their rates."""
    log, k = fit.log, slots.position
    e = padded(tuple(fit.parameters.p), max(view.policies.depth, view.batch.depth))[k]
    if log.reading.by_list:
        e = e * candidate_reading(view, fit, state).readers()[slots.listed, k]
    cells = log_cells(view.batch, log.top, log.spec.reward)
    return slot_chain(view, cells, state.log.positions, slots, e, state.pairs.rate)


def candidate_reading(view: View, fit: CandidateFit, state: RungState) -> ListReading:
    """How candidates' lists are read, where that depends on them."""
    lists, pairs = view.policies.lists, state.pairs
    return fit.log.reading.of_lists(view.batch, lists.pairs, lists.context, pairs.rate, pairs.kappa)


def _unlogged(
    view: View, fit: CandidateFit, features: Floats, expected: Floats, shown_before: Bools
) -> tuple[Ints, Floats]:
    """The contexts of pairs that the log never showed, (U,), and what is expected of them, (3, U).

    At a level of 1: w m_c, α and the highest α, means over candidates by how often each
    shows a pair.

    Args:
        view: the batch and its candidates.
        fit: the ladder.
        features: Shape (C, U, 2): of every candidate.
        expected: Shape (U,): exp(β x).
        shown_before: Shape (U,): in earlier records, so that they are within reach.
    """
    count, depth = view.batch.pair_count, view.batch.depth
    context = np.zeros(len(expected), dtype=np.int64)
    total, shown = np.zeros((3, len(expected))), np.zeros(len(expected))
    for c, member in enumerate(view.members):
        some = member.slots.pair >= count
        at, mass = member.slots.pair[some] - count, member.slots.mass[some]
        context[at] = member.slots.context[some]
        place = unlogged_ranks(mass, depth, fit.overlaps[c])
        x = np.column_stack([np.ones(len(at)), features[c, at]])
        of_rank = expected_rates(x, fit.candidate_only[c].coefficients)
        by_candidate = _unlogged_by(fit, c, place, of_rank, expected[at], shown_before[at])
        total[:, at] += mass.sum(axis=1) * by_candidate
        shown[at] += mass.sum(axis=1)
    return context, ratio(total, shown)


def _unlogged_by(
    fit: CandidateFit,
    c: int,
    place: UnloggedRanks,
    of_rank: Floats,
    expected: Floats,
    shown_before: Bools,
) -> Floats:
    """Shape (3, N): the same of pairs that one candidate shows.

    Args:
        fit: the ladder.
        c: which candidate.
        place: where production has them.
        of_rank: Shape (N,): what the candidate's features alone expect.
        expected: Shape (N,): exp(β x).
        shown_before: Shape (N,): in earlier records.
    """
    overlap, slope = fit.overlaps[c], max(float(fit.parameters.beta[2]), 0.0)
    gap = np.where(shown_before, 0.0, place.gap)
    reachable = expected * np.exp(-slope * gap)
    # Of all that the candidate has at this rank, production shows some and could show the rest.
    of_rank = np.maximum(place.reach * of_rank + (1 - place.reach) * reachable, reachable)
    unreachable = np.where(shown_before, 0.0, place.unreachable(overlap.unreachable))
    most = place.unreachable(max(overlap.unreachable, overlap.most_unreachable))
    best = of_rank if overlap.unreachable else UNREACHABLE_FACTOR * of_rank
    by_unreachable = unreachable * of_rank
    mean = by_unreachable + (1 - unreachable) * reachable
    highest = reachable + most * (best - reachable)
    return np.stack([by_unreachable, mean, highest])
