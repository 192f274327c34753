"""What a click earns: the reward per click of an item, for rewards that only clicks earn.

With R reward of C clicks on a pair i of context and item j, in units of the log's reward per click,

    log μ_i = γ · (1, g_i, g_j),    m_i = μ_i L_j,   L_j ~ Γ(s, s),   w_i = m_i G_i,  G_i ~ Γ(b, b)
    ŵ_i = (R_i + φ b) / (C_i + φ b / m_i),

where φ is the variance of the reward of a click over its mean, and g = (h − n) / (h + n) is the
contrast of how often a candidate has a pair, or an item of all contexts, examined, and production.
So a candidate of dear items is known by what the items earn that it shows more often. It is the
regression of click rates with clicks in the place of records, and an item in that of a context.

At position k a click earns k^δ times as much as at the first. On the rungs that know a position it
has a value of its own, (R + s w) / (C + s), only where that predicts the rewards of other days'
clicks better; so it may depend on the list, and where it does not, no precision is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.allowances import CLICK_VALUE_SLOPE_SD, COEFFICIENT_PRECISION
from foreclick.batches import Batch, Floats, Ints, padded, ratio, sums
from foreclick.batches.arrays import numbered
from foreclick.batches.batch import BatchPart
from foreclick.estimation.fits import FitReport
from foreclick.estimation.slots import group_sums
from foreclick.ladder.features import expected_rates
from foreclick.ladder.rates import RateParameters, rates
from foreclick.ladder.rungs import Rung, RungChain, log_cells
from foreclick.ladder.shrinkage import GAIN, best_strength, negative_binomial_loss
from foreclick.ladder.strengths import EntryCounts, EntryRung, best_strengths
from foreclick.metrics import CLICKS

_NO_VARIATION = 1e18  # a strength by which all items have the same value
_STRENGTH_ROUNDS, _ROUNDS = 4, 30  # rounds in which strengths are learnt, and all
_SLOPE_ROUNDS, _SLOPE_STEP = 20, 1e-9
_LEAST, _ROUNDING = 1e-300, 1e-12


class PairValues(NamedTuple):
    """What a click on each pair of a batch earns, the log's pairs first, Q of them.

    Attributes:
        rung: the pairs on their items, with clicks in the place of records.
        x: Shape (Q, F): 1, and contrasts of the pair and of the item with each candidate.
        value, expected: Shape (Q,): ŵ and m.
    """

    rung: Rung
    x: Floats
    value: Floats
    expected: Floats


class ItemGradient(NamedTuple):
    """How columns move with what clicks on items earn, over the whole log.

    Attributes:
        by_level: Shape (E, I): with the score of log L.
        by_score: Shape (E, F): with the score of γ.
    """

    by_level: Floats
    by_score: Floats


@dataclass(frozen=True, eq=False)
class ItemValues:
    """What clicks on items earn.

    Attributes:
        parameters: γ, and φ b and φ s as the strengths of pairs and items.
        items: I of them.
        contrast: Shape (V, I): of how often candidates and production have them examined.
        level: Shape (I,): L; `weight`: what log L is divided by.
        centre: Shape (I, F): how γ moves log L, downwards.
        inverse: Shape (F, F): how the score moves γ.
        report: how the fit ended.
    """

    parameters: RateParameters
    items: pa.Array
    contrast: Floats
    level: Floats
    weight: Floats
    centre: Floats
    inverse: Floats
    report: FitReport

    def of_pairs(self, items: pa.Array, examined: Floats, c: Floats, r: Floats) -> PairValues:
        """What clicks on pairs of these items earn; the log's come first.

        Args:
            items: Shape (Q,): of pairs.
            examined: Shape (1 + V, Q): records in which production and candidates have them
                examined.
            c: Shape (P,): C of the log's pairs.
            r: Shape (P,): R.
        """
        item = np.asarray(pc.index_in(items, value_set=self.items), dtype=np.int64)
        c, r = (padded(each, len(item)) for each in (c, r))
        x = _design(examined, self.contrast[:, item])
        mean = expected_rates(x, self.parameters.beta)
        strength = self.parameters.a / (mean * self.level[item])
        rung = Rung(strength, c, r, item, len(self.items), mean)
        return PairValues(rung, x, *rung.descend(self.level))

    def sensitivity(self, pairs: PairValues, by_log: Floats) -> Floats:
        """Shape (E, I + F): how far log L and γ move columns, which log ŵ moves by `by_log`."""
        by_expected = by_log * pairs.rung.borrowed()
        by_item = group_sums(pairs.rung.coarser, by_expected, len(self.items))
        return np.hstack([by_item, by_expected @ pairs.x])

    def gradient(self, sensitivity: Floats) -> ItemGradient:
        """How scores of log L and γ move columns, of which these are the sums over the log."""
        by_level, by_beta = np.split(sensitivity, [len(self.items)], axis=1)
        by_score = (by_beta - by_level @ self.centre) @ self.inverse
        return ItemGradient(by_level / self.weight, by_score)


class PositionEffect(NamedTuple):
    """How what a click earns depends on where it is made.

    Attributes:
        strengths: of the rungs that know a position, as those of `LadderFit`.
        slope: δ; `slope_sd`: its standard deviation.
    """

    strengths: tuple[float, ...]
    slope: float = 0.0
    slope_sd: float = 0.0

    def factor(self, position: Ints) -> Floats:
        """How many times as much a click earns at positions, counted from 0."""
        return np.asarray((1.0 + position) ** self.slope)


@dataclass(frozen=True, eq=False)
class ClickValue:
    """What a click earns in a log.

    Attributes:
        reward: which one.
        mean: the log's reward per click, in which all else is measured.
        dispersion: φ.
        positions: how it depends on the position and the list.
        items: how it depends on the item.
    """

    reward: str
    mean: float
    dispersion: float
    positions: PositionEffect
    items: ItemValues

    @property
    def report(self) -> FitReport:
        """How the fit ended."""
        return self.items.report

    def chain(self, batch: Batch, top: str) -> RungChain:
        """The rungs that know a position, with rewards over clicks."""
        return _value_chain(batch, top, self.reward, self.mean, self.positions)

    def pair_errors(
        self, pairs: PairValues, by_log: Floats, gradient: ItemGradient, weight: Floats
    ) -> tuple[Floats, Floats]:
        """Shape (E, Q) each: independent errors of pairs, and how a reward there moves columns.

        Args:
            pairs: of a batch.
            by_log: Shape (E, Q): how far the logarithm of their values moves columns.
            gradient: of columns over the whole log.
            weight: Shape (Q,) or 1: the sampling weights by which all of this will be multiplied.
                The fit of items does not have them.
        """
        rung, item, share = pairs.rung, pairs.rung.coarser, pairs.rung.borrowed()
        shared = gradient.by_score @ (pairs.x - self.items.centre[item]).T
        shared = (gradient.by_level[:, item] + shared) / weight
        by_value = by_log / pairs.value
        sd = np.sqrt(self.dispersion / self.items.parameters.a)
        error = (by_value - shared * rung.n) * (share * pairs.expected * sd)
        return error, by_value * rung.own_weight() + shared * share

    def covariance(self, gradient: ItemGradient) -> Floats:
        """Shape (E, E): of columns, by errors of items and of γ that no record shows."""
        error = gradient.by_level - gradient.by_score @ self.items.centre.T
        error = error * np.sqrt(self.dispersion * self.items.parameters.t)
        known = COEFFICIENT_PRECISION * self.dispersion**2
        return np.asarray(error @ error.T + known * gradient.by_score @ gradient.by_score.T)


def _value_chain(
    batch: Batch, top: str, reward: str, mean: float, positions: PositionEffect
) -> RungChain:
    cells, earned = log_cells(batch, top, CLICKS), log_cells(batch, top, reward)
    cells = cells._replace(n=cells.c, c=earned.c / (mean or 1.0))
    factor = np.broadcast_to(positions.factor(np.arange(batch.depth)), batch.lists.shape)
    return cells.chain(positions.strengths, factor, batch.pair_count)


def _design(examined: Floats, of_items: Floats) -> Floats:
    """Shape (Q, 1 + 2 V): of pairs that production and V candidates have examined so often."""
    return np.concatenate([np.ones_like(examined[:1]), _contrast(examined), of_items]).T


def _contrast(examined: Floats) -> Floats:
    """Shape (V, Q): (h − n) / (h + n), of how often production and V candidates show something."""
    return ratio(examined[1:] - examined[:1], examined[1:] + examined[:1])


# --- clicks and their rewards ---------------------------------------------------------------------


class ClickedSlots(NamedTuple):
    """The slots of rows that were clicked, S of them.

    Attributes:
        row, position, pair: Shape (S,).
        c, r: Shape (S,): clicks and reward of one record.
    """

    row: Ints
    position: Ints
    pair: Ints
    c: Floats
    r: Floats


def clicked_slots(batch: Batch, reward: str) -> ClickedSlots:
    """The clicks of a batch, and what they earned."""
    clicks = batch.reward(CLICKS)
    some = clicks.value > 0
    row, position = clicks.row[some].astype(np.int64), clicks.position[some].astype(np.int64)
    pair = batch.lists[batch.row_list[row], position].astype(np.int64)
    earned = batch.reward_table(reward)[row, position]
    return ClickedSlots(row, position, pair, clicks.value[some], earned)


def mean_and_dispersion(reward: str, batches: Sequence[Batch]) -> tuple[float, float]:
    """The reward of a click, and φ in its units, by clicks on the same pair.

    And by one more, which varies as those of all items do: no pair may have been clicked twice.
    """
    counts = []
    for batch in batches:
        at = clicked_slots(batch, reward)
        each = (batch.n[at.row] * values for values in (at.c, at.r, at.r**2 / at.c))
        counts.append([sums(at.pair, values, batch.pair_count) for values in each])
    c, r, q = np.concatenate(counts, axis=1)
    whole = max(c.sum(), _LEAST)
    mean = float(r.sum() / whole)
    if not mean:
        return 0.0, 0.0
    r, q = r / mean, q / mean**2
    varies = (q - ratio(r**2, c)).sum() + q.sum() / whole - 1
    dispersion = float(varies / (np.maximum(c - 1, 0).sum() + 1))
    return mean, dispersion if dispersion > _ROUNDING else 0.0


# --- the fit --------------------------------------------------------------------------------------


class ValuePart(NamedTuple):
    """A batch that click values are learnt from.

    Attributes:
        batch: the records.
        items: Shape (Q,): the items of pairs, those that candidates alone show too.
        examined: Shape (1 + V, Q): records in which production and candidates have them examined.
        sample: the contexts that strengths are learnt from.
    """

    batch: Batch
    items: pa.Array
    examined: Floats
    sample: BatchPart


def fit_click_values(
    reward: str, parts: Sequence[ValuePart], top: str, *, dated: bool
) -> ClickValue:
    """What a click earns in a log.

    Args:
        reward: which one.
        parts: the log.
        top: the finest cells.
        dated: whether periods tell days apart.
    """
    mean, dispersion = mean_and_dispersion(reward, [part.batch for part in parts])

    def fitted(positions: PositionEffect) -> ClickValue:
        chains = [_value_chain(part.batch, top, reward, mean, positions) for part in parts]
        items = _fit_items(parts, [chain.climb() for chain in chains], dispersion)
        return ClickValue(reward, mean, dispersion, positions, items)

    found = fitted(PositionEffect((np.inf,) * (3 if top == "list" else 1)))
    if not dispersion:
        return found
    clicks = [_sampled_clicks(part, found, top, dated=dated) for part in parts]
    slope = _position_slope(clicks, dispersion)
    found = fitted(PositionEffect(found.positions.strengths, *slope))
    strengths = _finer_strengths(found, clicks)
    if np.isfinite(strengths).any():
        found = fitted(PositionEffect(strengths, *slope))
    return found


def _fit_items(
    parts: Sequence[ValuePart], counts: Sequence[tuple[Floats, Floats]], dispersion: float
) -> ItemValues:
    """What clicks earn by item: γ by Newton's steps, alternating with strengths at first.

    Args:
        parts: the log.
        counts: Shape (P,) each by batch: clicks and rewards that reach pairs of the log.
        dispersion: φ.
    """
    every = pa.chunked_array([part.items for part in parts]).combine_chunks().dictionary_encode()
    items, item = every.dictionary, np.asarray(every.indices, dtype=np.int64)
    examined = np.concatenate([part.examined for part in parts], axis=1)
    count = len(items)
    contrast = _contrast(group_sums(item, examined, count))
    c, r = (
        np.concatenate([padded(o, len(part.items)) for o, part in zip(own, parts, strict=True)])
        for own in zip(*counts, strict=True)
    )
    some = np.flatnonzero(c > 0)
    c, r, item, x = c[some], r[some], item[some], _design(examined, contrast[:, item])[some]
    at = RateParameters(np.zeros(x.shape[1]), np.ones(1), _NO_VARIATION, _NO_VARIATION)
    ridge = COEFFICIENT_PRECISION * (dispersion or 1.0) * np.eye(x.shape[1])
    size = np.inf
    for iteration in range(_ROUNDS):
        if dispersion and iteration < _STRENGTH_ROUNDS:
            at = _item_strengths(item, count, r, c, x, at, dispersion)
        found = rates(item, count, r, c, expected_rates(x, at.beta), at)
        weight = found.prior_share * c * found.m
        centre = (group_sums(item, weight * x.T, count) / found.weight).T
        inverse = np.linalg.inv((x * weight[:, None]).T @ (x - centre[item]) + ridge)
        score = x.T @ (found.prior_share * (r - c * found.m)) - ridge @ at.beta
        step = inverse @ score
        size = float(np.abs(step).max())
        if iteration >= _STRENGTH_ROUNDS and size < _ROUNDING:
            break
        at = at.moved(step * min(1.0, 0.5 / max(size, _LEAST)))
    report = FitReport(size < _ROUNDING, iteration + 1)
    return ItemValues(at, items, contrast, found.level, found.weight, centre, inverse, report)


def _item_strengths(
    item: Ints, count: int, r: Floats, c: Floats, x: Floats, at: RateParameters, dispersion: float
) -> RateParameters:
    """φ b and φ s by the negative binomial distribution of rewards in units of φ.

    Of pairs, by the rewards of the item in other contexts, where there are any.
    """
    expected = c * expected_rates(x, at.beta)
    by_item = (sums(item, v, count) / dispersion for v in (r, expected))
    t = dispersion * best_strength(negative_binomial_loss(*by_item))
    share = 1 / (1 + expected / at.a)
    others = [sums(item, share * v, count)[item] - share * v + t for v in (r, expected)]
    some = np.bincount(item, minlength=count)[item] > 1
    mean = expected * others[0] / others[1] / dispersion
    b = best_strength(negative_binomial_loss((r / dispersion)[some], mean[some]))
    return RateParameters(at.beta, at.p, dispersion * b, t)


class _Clicks(NamedTuple):
    """Clicks of a batch, S slots of rows of them.

    Attributes:
        c, r: Shape (S,): clicks of all records of the row, and what they earned.
        one_c, one_r: Shape (S,): the same of one record.
        expected: Shape (S,): m of the pair.
        position: Shape (S,).
        cells: Shape (S,) each: the pair, and its finer cells, the finest last.
        day: Shape (S,): of the record; None in a log without days.
    """

    c: Floats
    r: Floats
    one_c: Floats
    one_r: Floats
    expected: Floats
    position: Ints
    cells: list[Ints]
    day: Ints | None

    def others(self, cell: Ints, factor: Floats | float = 1.0) -> tuple[Floats, Floats]:
        """Shape (S,): rewards, and clicks times a factor, of the cell on other days.

        In a log without days, those of other records.
        """
        size, found = int(cell.max(initial=-1)) + 1, []
        for all_, one in ((self.c * factor, self.one_c * factor), (self.r, self.one_r)):
            own = one
            if self.day is not None:
                days = int(self.day.max(initial=0)) + 1
                entries, entry = numbered(cell * days + self.day, size * days)
                own = sums(entry, all_, len(entries))[entry]
            found.append(np.maximum(sums(cell, all_, size)[cell] - own, 0.0))
        return found[1], found[0]


def _sampled_clicks(part: ValuePart, values: ClickValue, top: str, *, dated: bool) -> _Clicks:
    """The clicks in contexts of the sample."""
    batch, at = part.batch, clicked_slots(part.batch, values.reward)
    cells, k = log_cells(batch, top, CLICKS), batch.depth
    in_sample = np.zeros(batch.context_count, dtype=np.bool_)
    in_sample[part.sample.contexts] = True
    some = in_sample[batch.row_context[at.row]]
    row, position, pair = at.row[some], at.position[some], at.pair[some]
    one_c, one_r, n = at.c[some], at.r[some] / values.mean, batch.n[row]
    none = np.zeros(batch.pair_count)
    expected = values.items.of_pairs(part.items, part.examined, none, none).expected[pair]
    slot = batch.row_list[row].astype(np.int64) * k + position
    finer = [pair, cells.position[pair * k + position].astype(np.int64)]
    if top == "list":
        finer += [cells.prefix[slot].astype(np.int64), slot]
    day = batch.clusters["period"][row].astype(np.int64) if dated else None
    return _Clicks(one_c * n, one_r * n, one_c, one_r, expected, position, finer, day)


def _position_slope(clicks: Sequence[_Clicks], dispersion: float) -> tuple[float, float]:
    """δ, by which a click at position k earns k^δ times as much; and its standard deviation.

    By clicks on the same pair at different positions, so that values of pairs cancel.
    """
    slope, known = 0.0, dispersion / CLICK_VALUE_SLOPE_SD**2
    for _ in range(_SLOPE_ROUNDS):
        score, curvature = -slope * known, known
        for at in clicks:
            pair, x = at.cells[0], np.log1p(at.position)
            size = int(pair.max(initial=-1)) + 1
            e = at.c * np.exp(slope * x)
            whole = sums(pair, e, size)[pair]
            w = sums(pair, at.r, size)[pair] / whole
            centred = x - sums(pair, e * x, size)[pair] / whole
            score += float(x @ (at.r - e * w))
            curvature += float((e * w * centred) @ x)
        step = score / curvature
        slope += float(np.clip(step, -0.3, 0.3))
        if abs(step) < _SLOPE_STEP:
            break
    return slope, float(np.sqrt(dispersion / curvature))


def _finer_strengths(values: ClickValue, clicks: Sequence[_Clicks]) -> tuple[float, ...]:
    """Of the rungs that know a position, finest first: they predict other days' clicks best."""
    expected, chains = [], list[list[EntryRung]]()
    a, unit = values.items.parameters.a, values.dispersion
    for at in clicks:
        factor = values.positions.factor(at.position)
        r, c = at.others(at.cells[0], factor)
        expected.append((r + a) / (c + a / at.expected) * factor)
        own, each = (at.r / unit, at.c / unit), np.arange(len(at.c))
        cells = at.cells[1 : len(values.positions.strengths) + 1]
        chains.append([EntryRung(EntryCounts(*own, *at.others(cell)), each, 1.0) for cell in cells])
    # Twice the gain, because of two days each predicts the other.
    return best_strengths(chains, expected, 2 * GAIN, 0.0)
