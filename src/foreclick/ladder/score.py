"""The ladder on the prior: what candidates earn by rates that lean on what the rankers say.

The rungs that know a position stand on the rates of items, and these on the prior (`coefficients`):
the rung "item" has strength a / m, and exposes the level of its context by m / L. A candidate is
worth what production earned, and what its lists would earn more by these rates than production's
lists: V = F + Σ_g (h_g − n_g) r_g. What both show cancels, and production's own lists are worth
what they earned.

As in `ladder`, records move an estimate by A_g (c_g − r_g n_g), and A comes down the rungs. What
all contexts share, β and the examination of positions, are columns of their own: a score that is
solved says how records move them, and slopes say how they move estimates. The score is itself a
column, of a policy that shows each pair Σ z e times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foreclick.allowances import (
    DEPTH_ERROR,
    FORM_ERROR,
    NEVER_SHOWN_SD,
    SEGMENT_WEIGHT_BOUND,
    SHRINKAGE_ERROR,
    UNREACHABLE_FACTOR,
    UNREACHABLE_SD,
)
from foreclick.batches import (
    EMPTY,
    Batch,
    Bools,
    Floats,
    Ints,
    padded,
    ratio,
    sums,
)
from foreclick.estimation import sources as source
from foreclick.estimation.columns import Loose, Scored, View
from foreclick.estimation.slots import group_sums, row_credit
from foreclick.estimation.sums import Coverage
from foreclick.ladder.behaviour import FEWEST, readers, stop_slope
from foreclick.ladder.coefficients import Pairs, RateParameters, Rates, rates
from foreclick.ladder.features import Words, below, by_row, expected_rates, powers, production_words
from foreclick.ladder.fitted import CandidateFit, LadderFit
from foreclick.ladder.rungs import (
    ChainGradient,
    Rung,
    RungChain,
    SlotChain,
    Slots,
    candidate_slots,
    candidate_words,
    fit_exposure,
    log_cells,
    pairs_of,
    position_chain,
    slot_cells,
    slot_chain,
    used_words_of,
)
from foreclick.ladder.shrinkage import borrowed, leverage_factor
from foreclick.ladder.slot_values import SlotWorths
from foreclick.question import Target

# --- rates of all pairs ---------------------------------------------------------------------------


class ItemPrior(NamedTuple):
    """The rates of all pairs of a batch, those that candidates show and the log never did too.

    Attributes:
        x: Shape (P + new, F); `m0`: what β expects of each, `alpha`: its rate.
        new_depth: Shape (new,): how far a new pair is put down for its depth.
        outside: Shape (new,): the part of its rate that is that of an item out of reach.
        most: Shape (new,): its rate if more is out of reach than seems to be.
        owner: Shape (P + new,): the context.
        kappa: Shape (P + new,): how often a click on it ends the reading.
    """

    x: Floats
    m0: Floats
    alpha: Floats
    new_depth: Floats
    outside: Floats
    most: Floats
    owner: Ints
    kappa: Floats


def _item_prior(
    view: View,
    fit: CandidateFit,
    words: Floats,
    used_words: Floats,
    x: Floats,
    m0: Floats,
    item: Rung,
    level: Floats,
) -> ItemPrior:
    """The rates of all pairs, of which β expects m0 by the words x.

    `words` are those of all candidates, `used_words` those that x is made of.
    """
    batch = view.batch
    pairs, new = batch.pair_count, words.shape[1] - batch.pair_count
    owner = np.zeros(pairs + new, dtype=np.int64)
    owner[:pairs] = batch.pair_context
    steep = max(float(fit.parameters.beta[2]), 0.0)
    before = np.zeros(new, dtype=np.bool_)  # shown in earlier records, so neither deep nor outside
    if fit.earlier is not None:
        before = used_words[-1, pairs:, 0] > 0
    totals, total = np.zeros((4, new)), np.zeros(new)
    for c, (likeness, member) in enumerate(zip(fit.overlaps, view.members, strict=True)):
        slots = member.slots
        fresh = slots.pair >= pairs
        at, mass = slots.pair[fresh] - pairs, slots.mass[fresh]
        owner[pairs + at] = slots.context[fresh]
        listed = mass.sum(axis=1)
        gap, reach = place = below(mass, batch.depth, likeness)
        gap = np.where(before[at], 0.0, gap)
        word = np.column_stack([np.ones(len(at)), words[c, pairs:][at]])
        deep = m0[pairs:][at] * np.exp(-steep * gap)
        # Of all that the candidate has at this rank, production shows some, and the rest is deep.
        alone = expected_rates(word, fit.candidate_only[c].coefficients)
        any_ = np.maximum(reach * alone + (1 - reach) * deep, deep)
        beyond = np.where(before[at], 0.0, place.outside(likeness.outside))
        most = place.outside(max(likeness.outside, likeness.most))
        out, inside = beyond * any_, (1 - beyond) * deep
        good = any_ if likeness.outside else UNREACHABLE_FACTOR * any_
        more = deep + most * (good - deep)
        totals[:, at] += listed * np.stack([gap, out, out + inside, more])
        total[at] += listed
    down, outside, m0[pairs:], most = ratio(totals, total)
    m = m0 * level[owner]
    alpha = m.copy()
    if pairs:
        alpha[:pairs] = (item.c + fit.parameters.a) / (item.n + fit.parameters.a / m[:pairs])
    lift = level[owner[pairs:]]
    by_pair, by_context = fit.log.reading.kappa(batch)
    kappa = np.append(by_pair, by_context[owner[pairs:]])
    return ItemPrior(x, m0, alpha, steep * down, outside * lift, most * lift, owner, kappa)


# --- columns --------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """The rungs of a batch on the prior.

    Attributes:
        chain: the rungs that know a position; `item` and `context`: those below them.
        log_rates: the rates of the log's pairs, `items`: of all pairs.
        used_words: Shape (V, P + new, 2): the words that the rates lean on, beside production's.
    """

    chain: RungChain
    item: Rung
    context: Rung
    log_rates: Rates
    items: ItemPrior
    used_words: Floats


class LadderChain(NamedTuple):
    """The log's cells on all rungs, and the rates of its pairs.

    Attributes:
        positions: the rungs that know a position.
        item, context: the pairs, and their contexts.
        rates: of the pairs.
    """

    positions: RungChain
    item: Rung
    context: Rung
    rates: Rates

    @property
    def whole(self) -> RungChain:
        """All rungs, on a base rate of 1."""
        return RungChain((*self.positions.rungs, self.item, self.context))


def ladder_chain(
    batch: Batch, log: LadderFit, parameters: RateParameters, expected: Floats
) -> LadderChain:
    """The log's cells on every rung.

    Args:
        batch: the records.
        log: the fit to the log.
        parameters: examination, and the strengths of items and contexts.
        expected: Shape (P,): what β expects of each pair.
    """
    count, positions = batch.context_count, position_chain(batch, log, parameters.p)
    n, c = positions.climb()
    pair_rates = rates(batch.pair_context, count, c, n, expected, parameters)
    item = Rung(parameters.a / pair_rates.m, n, c, batch.pair_context, count, expected)
    context = Rung(parameters.t, *item.climb(), np.zeros(count, dtype=np.int64), 1)
    return LadderChain(positions, item, context, pair_rates)


def _standing(view: View, fit: CandidateFit) -> Standing:
    batch = view.batch
    words, pairs = candidate_words(view), batch.pair_count
    never = np.zeros((words.shape[1] - pairs, 2))
    own = np.concatenate([production_words(batch), never])
    used_words = used_words_of(view, words, fit.distinct, fit.earlier)
    x = Words.of(used_words).columns(powers(own))
    m0 = expected_rates(x, fit.parameters.beta)
    at = fit.parameters
    chain, item, context, log_rates = ladder_chain(batch, fit.log, at, m0[:pairs].copy())
    items = _item_prior(view, fit, words, used_words, x, m0, item, log_rates.level)
    return Standing(chain, item, context, log_rates, items, used_words)


def score_prior(
    view: View, targets: list[Target], fit: CandidateFit, *, rows: bool, apart: bool = False
) -> Scored:
    """The columns of a ladder on the prior: a target after the other, candidates side by side.

    Args:
        view: the batch and its candidates.
        targets: metrics of one reward.
        fit: the prior.
        rows: whether ψ of rows is wanted, and with it the last columns, β and log p.
        apart: whether the answer has several parts, so that sums are wanted by context.
    """
    scoring = _Scoring(view, targets, fit, apart=apart)
    scored = scoring.values()
    if rows:
        scoring.errors(scored)
    return scored


class _Scoring:
    """The work on one batch: E columns, then N that contexts share."""

    def __init__(
        self, view: View, targets: list[Target], fit: CandidateFit, *, apart: bool
    ) -> None:
        self.view, self.targets, self.fit, self.apart = view, targets, fit, apart
        batch = view.batch
        self.batch, self.pairs, self.count = batch, batch.pair_count, batch.context_count
        self.cells = log_cells(batch, fit.log.top, fit.log.spec.reward)
        self.standing = _standing(view, fit)
        self.chain, self.items = self.standing.chain, self.standing.items
        depth = min(max(target.metric.depth for target in targets), view.policies.depth)
        self.slots = candidate_slots(view, depth, by_list=fit.log.top == "list")
        self.slot_chain = _slot_chain(view, fit, self.chain, self.items, self.slots)
        self.rate = self.slot_chain.rates[0].rate
        self.theta = np.stack([padded(a.metric.theta, max(depth, batch.depth)) for a in targets])
        self.width = len(targets) * view.count
        self.fresh = self.slots.pair >= self.pairs
        # (E, X): where the candidate has lists; elsewhere it is what production is.
        self.knows = np.tile(view.known.T, (len(targets), 1)).astype(np.float64)
        shown = batch.lists != EMPTY
        self.top_position = np.zeros(len(self.chain.finest.n), dtype=np.int64)
        self.top_position[self.cells.finest[shown]] = np.nonzero(shown)[1]
        self.top_context = batch.pair_context[self.chain.base()]
        self.worth: SlotWorths | None = None
        if fit.click_values is not None:
            self.worth = SlotWorths(view, fit, fit.click_values, self.slots)
        self.shown_worth = 1.0 if self.worth is None else self.worth.shown
        self.top_worth = 1.0 if self.worth is None else self.worth.logged
        f = np.stack([row_credit(batch, target.metric) for target in targets])
        self.credit = np.repeat(f, view.count, axis=0)

    def values(self) -> Scored:
        """What candidates are worth, and what that rests on."""
        slots, fit, count = self.slots, self.fit, self.count
        mass = slots.mass * self.batch.context_n[slots.context]
        h = (self.theta[:, slots.position][:, None] * mass).reshape(self.width, len(slots.pair))
        produced = np.repeat(
            self.theta[:, self.top_position] * self.chain.finest.n, self.view.count, axis=0
        )
        produced = produced * self.knows[:, self.top_context]
        self.shows, self.showed = h * self.shown_worth, produced * self.top_worth
        sources = self._pass_down(self.shows, self.showed)
        clicks, lost = h * self.slot_chain.rate, produced * self.rate
        earned = clicks * self.shown_worth
        if fit.log.stopping:
            self.at_item += self._stopped(earned)
        self.earned = earned
        more = np.zeros(len(slots.pair))
        most = ratio(self.items.most, self.items.alpha[self.pairs :])
        more[self.fresh] = np.maximum(most - 1, 0.0)[slots.pair[self.fresh] - self.pairs]
        coverage = Coverage(
            mass=group_sums(slots.context, h, count),
            covered=group_sums(slots.context, np.where(self.fresh, 0.0, h), count),
            borrowed=group_sums(slots.context, self.fresh * earned * fit.log.spec.unit, count),
            further=group_sums(slots.context, earned * more * fit.log.spec.unit, count),
        )
        rungs = group_sums(slots.context, np.stack([h * source for source in sources]), count)
        self.difference = group_sums(slots.context, earned, count)
        self.difference -= group_sums(self.top_context, lost * self.top_worth, count)
        value = self.difference * fit.log.spec.unit
        value += group_sums(self.batch.row_context, self.credit * self.batch.n, count) * self.knows
        found = Scored(value, coverage, rungs)
        if self.worth is not None:
            found.pull = self.worth.pull(clicks * fit.log.spec.unit, lost * fit.log.spec.unit)
        return found

    def _pass_down(self, h: Floats, produced: Floats) -> list[Floats]:
        """Note what candidates take from each rung, less production; and which share that is."""
        slots, item, size = self.slots, self.standing.item, len(self.items.alpha)
        self.weights = self.slot_chain.weights(h, -produced, size)
        self.at_item = self.weights.base
        left, sources = np.ones(h.shape[1]), []
        for rung, slot in zip(self.chain.rungs, self.slot_chain.rungs, strict=True):
            share = borrowed(slot.n, rung.strength)
            sources.append(left * (1 - share))
            left = left * share
        own = np.zeros(size)
        own[: self.pairs] = 1 - item.borrowed()
        own = own[slots.pair]
        fresh = self.fresh * left
        none = [np.zeros(h.shape[1])] * (len(self.fit.log.spec.ladder.rungs) - len(sources) - 3)
        return [*none, *sources, left * own, left * (1 - own) - fresh, fresh]

    def _stopped(self, earned: Floats) -> Floats:
        """Shape (E, P + new): how far the rate of an item moves what is read below it."""
        batch, lists, slots = self.batch, self.view.policies.lists, self.slots
        kappa, size = self.items.kappa, len(self.items.alpha)
        lost = kappa / np.maximum(1 - kappa * np.clip(self.items.alpha, 0, 1), FEWEST)
        lost = np.append(lost, 0.0)

        def lower(values: Floats, pairs: Ints) -> Floats:
            """What is read below the items of each list, by pair."""
            below = np.cumsum(values[:, ::-1], axis=1)[:, ::-1] - values
            shown = pairs != EMPTY
            return sums(pairs[shown], (below * lost[pairs])[shown], size)

        moved = np.zeros((len(earned), size))
        rate = np.append(self.rate * self.top_worth, 0.0)[self.cells.finest]
        for number, own in enumerate(earned):
            wide = np.zeros(lists.pairs.shape)
            wide[slots.listed, slots.position] = own
            theta = self.theta[number // self.view.count, : batch.depth]
            n = batch.list_n * self.knows[number, batch.list_context]
            moved[number] = lower(theta * rate * n[:, None], batch.lists)
            moved[number] -= lower(wide, lists.pairs)
        return moved

    # --- errors -----------------------------------------------------------------------------------

    def _sums(self, context: Ints, values: Floats) -> Floats:
        """Shape (…, X): sums of values (…, N) by context; shape (…, 1) if there is one part."""
        if self.apart:
            return group_sums(context, values, self.count)
        return np.asarray(values.sum(axis=-1, keepdims=True))

    def errors(self, scored: Scored) -> None:
        """Add how records move the columns, and which errors no record shows."""
        fit, batch, width = self.fit, self.batch, self.width
        taken = fit.log.spec.sample.of(batch, self.view.known)
        words, p = self.standing.used_words, fit.parameters.p
        part = pairs_of(batch, words, fit.log, p, taken)
        factor, slope = self._of_items(scored, part.spans(fit.parameters))
        found = self.slot_chain.gradient(self.weights, factor, batch.pair_context)
        factor = found.by_click
        scored.loose += found.unexplained
        cells = self.chain.examined, self.slots.position, self.cells.examined % batch.depth
        position = self.slot_chain.by_cell(*cells)
        words = self.items.x.shape[1]
        for place in range(1, batch.depth):
            here = np.flatnonzero(position == place)
            moved = found.by_exposure[:, here]
            slope[words + place - 1] = self._sums(found.context[here], moved)
        scored.slope = slope * fit.log.spec.unit
        for name, error in self._shared(slope, found).items():
            scored.shared[name] = error[None] * fit.log.spec.unit
        for loose in scored.loose:
            loose.error[:width] *= fit.log.spec.unit
        scored.psi = self._influence(part, taken, factor)
        if self.apart:
            scored.unshared = self._unshared(factor[:width])
        if self.worth is not None:
            self.worth.errors(scored, self.items.owner)
        weight = np.repeat(self.theta[:, self.top_position], self.view.count, axis=0)
        weight *= self.knows[:, self.top_context] * self.top_worth
        weight += factor[:width]
        scored.coverage = replace(
            scored.coverage,
            weighted=self._sums(self.top_context, weight * self.chain.finest.n),
            squared=self._sums(self.top_context, weight**2 * self.chain.finest.n),
        )

    def _of_items(self, scored: Scored, spans: Floats) -> tuple[Floats, Floats]:
        """How far a click on each pair moves the columns, (E + N, P); and slopes, (N, E, X)."""
        fit, items, pairs, count = self.fit, self.items, self.pairs, self.count
        log_rates, context, n = self.standing.log_rates, self.standing.context, self.standing.item.n
        a, t, new = fit.parameters.a, fit.parameters.t, len(items.alpha) - pairs
        every = np.zeros((self.width + len(fit.solution.inverse), len(items.alpha)))
        every[: self.width] = self.at_item
        every[self.width :, :pairs] = -(spans @ fit.solution.inverse.T).T
        share, exposure = (
            np.append(log_rates.prior_share, np.ones(new)),
            np.append(n, np.zeros(new)),
        )
        m = items.m0 * log_rates.level[items.owner]
        by_level = group_sums(items.owner, every * (share * items.alpha), count)  # by log L
        of_level = by_level / (log_rates.level * (context.n + t))
        passed = of_level[:, items.owner] * exposure
        scored.loose.append(Loose(items.owner, (every - passed) * (share * m / np.sqrt(a))))
        missed = np.sqrt(t) / (context.n + t) / log_rates.level
        scored.loose.append(Loose(np.arange(count), by_level * missed))
        by_mean = (every * items.alpha - passed * m)[: self.width] * share  # by log m
        slope = np.zeros((len(fit.solution.inverse), self.width, count if self.apart else 1))
        if self.apart:
            for j, column in enumerate(items.x.T):
                slope[j] = group_sums(items.owner, by_mean * column, count)
        else:
            slope[: items.x.shape[1], :, 0] = (by_mean @ items.x).T
        factor = of_level[:, self.batch.pair_context] * log_rates.prior_share
        return factor + every[:, :pairs] / (n + a / log_rates.m), slope

    def _stops(self) -> Floats:
        """Shape (cells,): by how much the logarithm of examination falls with that of κ."""
        slots, fit, batch = self.slots, self.fit, self.batch
        lists, kappa = self.view.policies.lists.pairs, fit.log.reading.kappa(batch)[0]
        own = stop_slope(self.items.alpha, lists, self.items.kappa)
        logged = stop_slope(fit.log.reading.attraction(batch), batch.lists, kappa).ravel()
        of_slots, of_log = own[slots.listed, slots.position], logged[self.cells.examined]
        return np.asarray(self.slot_chain.by_cell(self.chain.examined, of_slots, of_log))

    def _shared(self, slope: Floats, found: ChainGradient) -> dict[str, Floats]:
        """Shape (E, X or 1) by source: errors that contexts share, and no score knows of."""
        slots, items, fit = self.slots, self.items, self.fit
        share = np.append(
            self.standing.log_rates.prior_share, np.ones(len(items.alpha) - self.pairs)
        )
        leaning = np.abs(self.at_item) * (items.alpha * share)
        at, out, deep = slots.pair[self.fresh] - self.pairs, *np.zeros((2, len(slots.pair)))
        out[self.fresh] = ratio(items.outside, items.alpha[self.pairs :])[at]
        deep[self.fresh] = items.new_depth[at]
        inside = np.where(self.fresh, self.earned * (1 - out), 0.0)
        change = self._sums(np.arange(self.count), self.difference)
        errors = {
            source.FORM: FORM_ERROR * self._sums(items.owner, leaning),
            source.NEVER_SHOWN: NEVER_SHOWN_SD * self._sums(slots.context, inside),
            source.DEPTH: DEPTH_ERROR * self._sums(slots.context, inside * deep),
            source.UNREACHABLE: UNREACHABLE_SD * self._sums(slots.context, self.earned * out),
            source.SHRINKAGE: SHRINKAGE_ERROR * change,
        }
        if fit.log.stopping and fit.log.stopping.sd:
            stopped = self._sums(found.context, found.by_exposure * self._stops())
            for own, moved in zip(slope, fit.by_stopping, strict=True):
                stopped += own * moved
            errors[source.STOPPING] = fit.log.stopping.sd * stopped
        return errors

    def _influence(self, part: Pairs, taken: Bools, factor: Floats) -> Floats:
        """Shape (E + N, R): ψ + V of rows.

        What a day has over what is expected of it, it has in part made itself expected: of a pair
        with the share h of its exposure on that day, 1 / √(1 − h) undoes it.
        """
        batch, fit, width, of = self.batch, self.fit, self.width, part.of
        rows, reward = np.flatnonzero(taken[batch.row_context]), batch.reward(fit.log.spec.reward)
        turn = np.append(of.turn, len(of.pair))[of.cell]  # (rows, K)
        slot = self.cells.finest[batch.row_list]
        left = -np.append(self.rate, 0.0)[slot]
        left[reward.row, reward.position] += reward.value / fit.log.spec.unit
        if fit.log.spec.dated:
            r, pair = part.rates(fit.parameters), of.pair
            own = part.turn_e(fit.parameters) / (r.exposure + fit.parameters.a / r.m)[pair]
            left[rows] *= np.append(leverage_factor(own), 1.0)[turn]
        psi = by_row(left, slot, factor.T)
        psi[:width] += ratio(self.difference, batch.context_n)[:, batch.row_context]
        _, passed = fit_exposure(batch, fit.log, fit.parameters.p)
        left = left[rows] if passed is None else left[rows] * passed[batch.row_list[rows]]
        score = np.concatenate([part.scores(left, turn), left.T[1:]])
        psi[width:, rows] += fit.solution.inverse @ score
        psi[:width] *= fit.log.spec.unit
        psi[:width] += self.credit * self.knows[:, batch.row_context]
        return psi

    def _unshared(self, factor: Floats) -> Floats:
        """Shape (E, R): what clicks of each row would move columns, if a part had rates of its own.

        By its own clicks alone, an item would move a column by (c − e α̂) (H − E) / E, with E its
        exposure in the log and H that of the candidate: the paper's weights, bounded.
        What influence has of that already is taken away.
        """
        batch, spec, size = self.batch, self.fit.log.spec, len(self.items.alpha)
        reward = batch.reward(spec.reward)
        e = padded(tuple(self.fit.parameters.p), max(len(self.theta[0]), batch.depth))
        top, at = self.chain.base(), e[self.top_position]
        moved = group_sums(self.slots.pair, self.shows * e[self.slots.position], size)
        moved = moved[:, : self.pairs] - group_sums(top, self.showed * at, self.pairs)
        exposure = sums(top, self.chain.finest.n * at, self.pairs)
        alone = np.clip(ratio(moved, exposure), -SEGMENT_WEIGHT_BOUND, SEGMENT_WEIGHT_BOUND)
        missed = alone[:, top] - factor
        slot = self.cells.finest[batch.row_list]
        left = -np.append(self.rate, 0.0)[slot]
        left[reward.row, reward.position] += reward.value / spec.unit
        return by_row(left, slot, missed.T) * spec.unit


def prior_worth(view: View, targets: list[Target], fit: CandidateFit) -> Floats:
    """Shape (A, M): the value of each of the candidates' lists, Σ_k θ_k r."""
    standing = _standing(view, fit)
    depth = min(max(target.metric.depth for target in targets), view.policies.depth)
    slots = candidate_slots(view, depth, by_list=True)
    rate = _slot_chain(view, fit, standing.chain, standing.items, slots).rate
    if fit.click_values is not None:
        rate = rate * SlotWorths(view, fit, fit.click_values, slots).shown
    theta = np.stack([padded(target.metric.theta, depth) for target in targets])[:, slots.position]
    return group_sums(slots.listed, rate * theta * fit.log.spec.unit, len(view.policies.lists.mass))


def _slot_chain(
    view: View, fit: CandidateFit, chain: RungChain, items: ItemPrior, slots: Slots
) -> SlotChain:
    """Slots of candidates on the rungs that know a position."""
    by_list, k = fit.log.top == "list", slots.position
    e = padded(tuple(fit.parameters.p), max(view.policies.depth, view.batch.depth))[k]
    if fit.log.stopping:
        e = e * readers(items.alpha, view.policies.lists.pairs, items.kappa)[slots.listed, k]
    cells = slot_cells(
        view, log_cells(view.batch, fit.log.top, fit.log.spec.reward), slots, by_list=by_list
    )
    return slot_chain(chain, slots, cells, e, items.alpha)
