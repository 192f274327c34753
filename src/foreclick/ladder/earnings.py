"""Values of ladder columns: what a candidate shows more than production, times its rate.

    V = F + Σ_g (h_g − n_g) r_g,

where h_g and n_g are the records, times θ, in which the candidate and production show a slot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foreclick.batches import Bools, Floats, Ints, padded, ratio
from foreclick.batches.arrays import taken
from foreclick.estimation.columns import View
from foreclick.estimation.slots import group_sums, row_credit
from foreclick.estimation.sums import Coverage
from foreclick.ladder.fitted import CandidateFit
from foreclick.ladder.log_chain import examined_cells
from foreclick.ladder.rungs import (
    LogCells,
    SlotChain,
    candidate_slots,
)
from foreclick.ladder.slot_values import SlotValues, slot_values
from foreclick.ladder.state import (
    RungState,
    candidate_chain,
    rung_state,
)
from foreclick.question import Target


class Columns(NamedTuple):
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


def columns_of(
    view: View, targets: list[Target], fit: CandidateFit, *, by_context: bool
) -> Columns:
    """What the candidates and production show of a batch, a target after the other."""
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
    return Columns(
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


class Earnings(NamedTuple):
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


def earnings_of(columns: Columns) -> Earnings:
    """What each slot of candidates and each cell of the log earns by its rate."""
    slots, count = columns.slots, columns.view.batch.context_count
    clicks, lost = columns.shown * slots.rate, columns.logged * columns.rate
    earned = clicks * columns.shown_value
    difference = group_sums(slots.slots.context, earned, count)
    difference -= group_sums(columns.context, lost * columns.logged_value, count)
    return Earnings(clicks, earned, lost, difference)


def value_of(columns: Columns, earned: Earnings) -> Floats:
    """Shape (E, X): n_x V_x."""
    batch = columns.view.batch
    produced = group_sums(batch.row_context, columns.credit * batch.n, batch.context_count)
    return earned.difference * columns.fit.log.spec.unit + produced * columns.known


def coverage_of(columns: Columns, earned: Earnings) -> Coverage[Floats]:
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


def with_weights(
    coverage: Coverage[Floats], columns: Columns, by_click: Floats
) -> Coverage[Floats]:
    """With sums of the weights of records and of their squares, for the effective sample size."""
    weight = columns.weight * columns.logged_value + by_click
    records = weight * columns.slots.log.finest.n
    return replace(
        coverage,
        weighted=columns.sums(columns.context, records),
        squared=columns.sums(columns.context, weight * records),
    )


def rung_shares(columns: Columns) -> Floats:
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
