"""Rewards that clicks earn: what a click is worth at the slots of a batch.

The worth of a click stands on rungs, as click rates do, with clicks in the place of records and
rewards in that of clicks: w = (R + s w') / (C + s), by list, prefix and position, and below them by
item (`click_value`). A rung of these has a worth of its own only where it predicts the rewards of
clicks on other days better than the one below; so what a click earns may depend on the list that it
is made in, and where it does not, no precision is lost. At position k, a click is worth k^δ times
as much as at the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from foreclick.allowances import CLICK_VALUE_SHRINKAGE_ERROR, CLICK_VALUE_SLOPE_SD
from foreclick.batches import Batch, Floats, Ints, sums
from foreclick.batches.arrays import numbered
from foreclick.estimation.columns import ColumnBatch, ModelError, View
from foreclick.estimation.slots import group_sums
from foreclick.estimation.sources import VALUE_SHRINKAGE, VALUE_SLOPE
from foreclick.ladder.candidates import examined_records
from foreclick.ladder.click_value import Worth, clicked, learn_worth, mean_and_noise
from foreclick.ladder.fitted import CandidateFit, LadderFit
from foreclick.ladder.rungs import (
    RungChain,
    Slots,
    Weights,
    log_cells,
    slot_cells,
    slot_chain,
)
from foreclick.ladder.shrinkage import GAIN, least, leverage_factor
from foreclick.ladder.strengths import STRENGTHS
from foreclick.metrics import CLICKS

_STEPS, _CLOSE = 20, 1e-9


def worth_chain(batch: Batch, top: str, worth: Worth) -> RungChain:
    """The rungs that know a position, with clicks and what they earned."""
    cells, earned = log_cells(batch, top, CLICKS), log_cells(batch, top, worth.reward)
    cells = cells._replace(n=cells.c, c=earned.c / (worth.mean or 1.0))
    at = np.broadcast_to(worth.at(np.arange(batch.depth)), batch.lists.shape)
    return cells.chain(worth.strengths, at, batch.pair_count)


def with_worth(
    fit: LadderFit, reward: str, parts: Sequence[tuple[Batch, pa.Array, Floats]]
) -> tuple[LadderFit, Worth]:
    """The fit of clicks with the rungs that click values need, and these.

    Args:
        fit: the fit of clicks to the log.
        reward: what clicks earn.
        parts: of each batch, the items of pairs, those that candidates alone show too, and, shape
            (1 + V, Q), how often production and candidates have these examined.
    """
    mean, noise = mean_and_noise(reward, [batch for batch, *_ in parts])
    count = 3 if fit.spec.ladder.top == "list" else 1
    wide = replace(fit, strengths=(np.inf,) * (count - len(fit.strengths)) + fit.strengths)

    def learnt(worth: Worth) -> Worth:
        counts = [(*part, *worth_chain(b, wide.top, worth).climb()) for b, *part in parts]
        return learn_worth(worth, counts)

    worth = learnt(Worth(reward, mean, noise, (np.inf,) * count))
    if noise:
        clicks = [_Clicks(wide, worth, *part) for part in parts]
        slope, sd = _by_position(worth, clicks)
        worth = learnt(replace(worth, slope=slope, slope_sd=sd))
        strengths = _strengths(worth, clicks)
        if np.isfinite(strengths).any():
            worth = learnt(replace(worth, strengths=strengths))
    if len(fit.strengths) < count and np.isinf(worth.strengths[:-1]).all():
        return fit, replace(worth, strengths=worth.strengths[-1:])
    return wide, worth


class _Clicks:
    """Clicks of a batch, S of them.

    Attributes:
        c, r: Shape (S,): how many there are alike, and what they earned.
        m, position: Shape (S,): what is expected of the pair, and the position.
        cells: Shape (S,) each: the pair, and the cells above it, coarsest first.
    """

    def __init__(
        self, fit: LadderFit, worth: Worth, batch: Batch, items: pa.Array, examined: Floats
    ) -> None:
        at, cells, k = clicked(batch, worth.reward), log_cells(batch, fit.top, CLICKS), batch.depth
        taken = fit.spec.strength_sample.of(batch)[batch.row_context[at.row]]
        row, self.position, pair = at.row[taken], at.position[taken], at.pair[taken]
        self.one_c, self.one_r = at.c[taken], at.r[taken] / worth.mean
        self.c, self.r = self.one_c * batch.n[row], self.one_r * batch.n[row]
        self.m = worth.of(items, examined, *np.zeros((2, batch.pair_count))).m[pair]
        slot = batch.row_list[row].astype(np.int64) * k + self.position
        self.cells = [pair, cells.position[pair * k + self.position].astype(np.int64)]
        if fit.top == "list":
            self.cells += [cells.prefix[slot].astype(np.int64), slot]
        self.day = batch.clusters["period"][row].astype(np.int64) if fit.spec.dated else None

    def others(self, cell: Ints, each: Floats | float = 1.0) -> tuple[Floats, Floats]:
        """Shape (S,): clicks, each counted so often, and rewards of the cell on other days.

        In a log without days, those of other records.
        """
        size, found = int(cell.max(initial=-1)) + 1, []
        for all_, one in ((self.c * each, self.one_c * each), (self.r, self.one_r)):
            own = one
            if self.day is not None:
                days = int(self.day.max(initial=0)) + 1
                entries, entry = numbered(cell * days + self.day, size * days)
                own = sums(entry, all_, len(entries))[entry]
            found.append(np.maximum(sums(cell, all_, size)[cell] - own, 0.0))
        return found[0], found[1]


def _by_position(worth: Worth, clicks: Sequence[_Clicks]) -> tuple[float, float]:
    """δ, by which a click at position k is worth k^δ times as much; and its standard deviation.

    By clicks on the same pair at different positions: what other pairs earn says nothing of it.
    """
    slope, known = 0.0, worth.noise / CLICK_VALUE_SLOPE_SD**2
    for _ in range(_STEPS):
        score, bend = -slope * known, known
        for at in clicks:
            pair, x = at.cells[0], np.log1p(at.position)
            size = int(pair.max(initial=-1)) + 1
            e = at.c * np.exp(slope * x)
            whole = sums(pair, e, size)[pair]
            w = sums(pair, at.r, size)[pair] / whole
            off = x - sums(pair, e * x, size)[pair] / whole
            score += float(x @ (at.r - e * w))
            bend += float((e * w * off) @ x)
        step = score / bend
        slope += float(np.clip(step, -0.3, 0.3))
        if abs(step) < _CLOSE:
            break
    return slope, float(np.sqrt(worth.noise / bend))


def _strengths(worth: Worth, clicks: Sequence[_Clicks]) -> tuple[float, ...]:
    """Of the rungs that know a position, finest first, by what other days say of each click."""
    c, r = (np.concatenate([getattr(at, name) for at in clicks]) for name in ("c", "r"))
    expected, a, found = [], worth.theta.a, []
    for at in clicks:
        nu = worth.at(at.position)
        n_left, r_left = at.others(at.cells[0], nu)
        expected.append((r_left + a) / (n_left + a / at.m) * nu)
    w = np.concatenate(expected)
    for j in range(1, len(worth.strengths) + 1):
        left = [at.others(at.cells[j]) for at in clicks]
        n_left, r_left = (np.concatenate(each) for each in zip(*left, strict=True))

        def at_strength(s: float) -> Floats:
            return np.asarray((r_left + s * w) / (n_left + s))  # noqa: B023

        def loss(w: Floats) -> float:
            return float(c @ w - r @ np.log(w)) / worth.noise

        best, losses = least(lambda j: loss(at_strength(STRENGTHS[j])), len(STRENGTHS))
        # Twice, because of two days each predicts the other.
        better = loss(w) - losses[best] > 2 * GAIN
        found.append(float(STRENGTHS[best]) if better else np.inf)
        w = w if np.isinf(found[-1]) else at_strength(found[-1])
    return tuple(found[::-1])


class SlotWorths:
    """The worth of a click at the slots of a batch, those of the log and those of candidates.

    Attributes:
        logged: Shape (G,): at the log's top cells.
        shown: Shape (Q,): at the slots that candidates show.
    """

    def __init__(self, view: View, fit: CandidateFit, worth: Worth, slots: Slots) -> None:
        self.worth, self.batch, top = worth, view.batch, fit.log.top
        self.cells = log_cells(view.batch, top, CLICKS)
        chain = worth_chain(view.batch, top, worth)
        self.pairs = worth.of(*examined_records(view, fit), *chain.climb())
        cells = slot_cells(view, self.cells, slots, by_list=top == "list")
        nu = worth.at(slots.position)
        self.chain = slot_chain(chain, slots, cells, nu, self.pairs.w)
        self.rate = self.chain.rates[0].rate
        self.logged = self.rate * worth.mean
        self.shown = self.chain.rate * worth.mean

    def pull(self, shown: Floats, logged: Floats) -> Floats:
        """Shape (E, I + F): how the worth of items, and γ, move columns.

        Args:
            shown: Shape (E, Q): the clicks of candidates.
            logged: Shape (E, G): those of production.
        """
        mean, size = self.worth.mean, len(self.pairs.w)
        found = self.chain.weights(shown, -logged, size)
        self.weights = Weights(tuple(own * mean for own in found.rungs), found.base * mean)
        self.by_pair = self.weights.base
        return np.asarray(self.worth.pulled(self.pairs, self.by_pair * self.pairs.w))

    def errors(self, found: ColumnBatch, owner: Ints) -> None:
        """Add how what clicks earned moves the first columns, and what no record shows.

        Args:
            found: the columns.
            owner: Shape (P + new,): the context of each pair.
        """
        batch, worth, pairs, count = self.batch, self.worth, self.pairs, self.batch.context_count
        error, moves = worth.errors(pairs, self.by_pair * pairs.w)
        loose, moves = [ModelError(owner, error)], moves[:, : batch.pair_count]
        expected = pairs.prior_share * (worth.theta.t * worth.level / worth.due)[pairs.item]
        owed = group_sums(owner, self.by_pair * ((pairs.w - 1) * expected), count)
        shared = {VALUE_SHRINKAGE: CLICK_VALUE_SHRINKAGE_ERROR * owed}
        gradient = self.chain.gradient(self.weights, moves, owner, worth.noise)
        loose, moves = loose + gradient.unexplained, gradient.by_click
        if worth.slope:
            cells = self.cells.examined % batch.depth
            number, of_slots = self.chain.chain.examined, self.chain.slots.position
            by_slope = np.log1p(self.chain.by_cell(number, of_slots, cells)) * worth.slope_sd
            by_slope = group_sums(gradient.context, gradient.by_exposure * by_slope, count)
            shared[VALUE_SLOPE] = by_slope
        psi: Any = found.influence
        psi[: len(moves)] += self._influence(moves)
        more = (0, len(psi) - len(moves)), (0, 0)
        found.model_errors += [ModelError(at, np.pad(each, more)) for at, each in loose]
        whole = any(
            each.shape[2] != count for each in found.shared_errors.values()
        )  # of all contexts
        for source, each in shared.items():
            found.shared_errors[source] = (each.sum(axis=1, keepdims=True) if whole else each)[None]

    def _influence(self, moves: Floats) -> Floats:
        """Shape (E, R): what clicks earned besides what is expected of them, by how it counts.

        As for clicks, 1 / √(1 − h) undoes that a day has made itself expected; or a record has, in
        a log without days. Not a row: how many records one has depends on what else is read.
        """
        batch, worth, at = self.batch, self.worth, clicked(self.batch, self.worth.reward)
        own = at.c
        if "period" in batch.clusters:
            day = batch.clusters["period"][at.row]
            days = int(day.max(initial=0)) + 1
            entries, entry = numbered(at.pair * days + day, batch.pair_count * days)
            own = sums(entry, at.c * batch.n[at.row], len(entries))[entry]
        cell = self.cells.finest[batch.row_list[at.row], at.position]
        left = at.r / (worth.mean or 1.0) - at.c * self.rate[cell]
        left *= leverage_factor(own / self.pairs.weight[at.pair])
        return np.stack([sums(at.row, left * each[cell], len(batch.n)) for each in moves])
