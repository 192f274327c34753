"""Strengths: how far rates of items, contexts, positions and lists lean on coarser ones.

A strength is judged by Σ c log μ − μ of clicks c whose mean μ the days before foretell; in a log
without days, all other records of the cell. Of the finer rungs, from "position" up to "list", one
that does not predict better than coarser rungs do, by `GAIN`, has no rates of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foreclick.batches import Floats, Ints, sums
from foreclick.batches.arrays import numbered, ordered, value_of_each
from foreclick.ladder.features import sums_before
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rates import RateParameters
from foreclick.ladder.shrinkage import (
    GAIN,
    best_strength,
    minimum_on_grid,
    negative_binomial_loss,
    poisson_loss,
    poisson_losses,
)

STRENGTHS: Floats = np.exp(np.linspace(0.0, 11.0, 23))

GAIN_Z = 2.0
"""The least gain of a finer rung over its standard error: a few cells gain something by chance."""


def item_strengths(parts: Sequence[Pairs], at: RateParameters) -> RateParameters:
    """The parameters with the strengths a and t that predict the clicks of a day best.

    By Σ c log μ − μ, which is largest for the right mean, however clicks vary around it; a on the
    later half of the days, when features have become what they are. Without days, by the negative
    binomial distribution of clicks, scaled to vary as clicks of 0 and 1 do.
    """
    of_pairs, of_contexts, binary = [], [], np.zeros(2)
    for part in parts:
        days, r, batch = part.days, part.rates(at), part.batch
        e, m, c = part.day_exposure(at), part.day_expected(at), part.day_clicks
        binary += r.alpha**2 @ np.asarray(part.exposed[0] @ at.p**2), r.alpha @ r.exposure
        of_pairs.append(np.stack([c, e, m]))
        if days.dated:
            earlier = days.before(c), days.before(e)
            # Without earlier records, a day's loss is the same at any strength.
            some = np.flatnonzero((earlier[1] > 0) & (days.day >= days.days // 2))
            of_pairs[-1] = np.stack([c, e, m, *earlier])[:, some]
        share, context = r.prior_share[days.pair], batch.pair_context[days.pair].astype(np.int64)
        # Pair-days of a context are in the order of pairs: bring those of a day together.
        context_days, number = numbered(
            context * days.days + days.day, batch.context_count * days.days
        )
        each = [sums(number, values, len(context_days)) for values in (share * c, share * e * m)]
        owner = value_of_each(number, context)
        of_contexts.append(np.stack([*each, *(sums_before(owner, one) for one in each)]))
    c, e, m, *of_earlier = np.concatenate(of_pairs, axis=1)
    clicks, mean, clicks_before, mean_before = np.concatenate(of_contexts, axis=1)
    if not of_earlier:
        scale = max(1 - binary[0] / binary[1], 0.01) if binary[1] > 0 else 1.0
        return replace(
            at,
            a=best_strength(negative_binomial_loss(c / scale, e * m / scale)),
            t=best_strength(negative_binomial_loss(clicks, mean)),
        )
    c_before, e_before = of_earlier

    def of_pair(log_a: float) -> float:
        a = np.exp(log_a)
        return poisson_loss(c, e * (c_before + a) / (e_before + a / m))

    def of_context(log_t: float) -> float:
        t = np.exp(log_t)
        return poisson_loss(clicks, mean * (clicks_before + t) / (mean_before + t))

    return replace(at, a=best_strength(of_pair), t=best_strength(of_context))


# --- finer rungs ----------------------------------------------------------------------------------


class ListSlots(NamedTuple):
    """The slots of the lists of a batch by day, S of them, with the cells that they belong to.

    Attributes:
        listed, position: Shape (S,): the list, and the position.
        cell: Shape (S,): (pair, day, position), by `PairDays`.
        finer: shape (S,) each: the prefix and the list of each slot, if lists are told apart.
        n, c: Shape (S,): records and their clicks.
    """

    listed: Ints
    position: Ints
    cell: Ints
    finer: list[Ints]
    n: Floats
    c: Floats


def list_slots(part: Pairs, reward: str, unit: float, prefix: Ints | None) -> ListSlots:
    """The slots of all lists; `prefix`, shape (L · K,), numbers the beginnings of lists."""
    days, batch, k = part.days, part.batch, part.batch.depth
    of, earned = days.lists, batch.reward(reward)
    number, position = np.nonzero(days.cell < len(days.pair_day))
    slot = of.of_row[earned.row] * np.int64(k) + earned.position
    clicks = sums(slot, batch.n[earned.row] * earned.value / unit, of.size * k)
    finer: list[Ints] = []
    if prefix is not None:
        listed = of.list[number].astype(np.int64) * k + position
        finer = [prefix[listed].astype(np.int64), listed]
    cell, c = days.cell[number, position], clicks[number * k + position]
    return ListSlots(of.list[number], position, cell, finer, of.n[number], c)


class EntryCounts(NamedTuple):
    """Cells of a rung on each day: what they earn, and what they earned before.

    Attributes:
        one: what a record adds to n; None in a log with days. Without days, what was earned before
            is all that was earned.
    """

    c: Floats
    n: Floats
    c_before: Floats
    n_before: Floats
    one: Floats | None = None

    def by_click(self) -> tuple[Floats, Floats]:
        """Shape (entries,) each: records that were clicked, and what others add to n."""
        one = np.ones(1) if self.one is None else self.one
        return self.c, np.maximum(self.n - self.c * one, 0.0)


class EntryRung(NamedTuple):
    """A rung of one batch.

    Attributes:
        entries: its cells on each day.
        coarser: the entry of the next coarser rung that each belongs to.
        exposure: how much a record of each is examined.
    """

    entries: EntryCounts
    coarser: Ints
    exposure: Floats | float


def finer_strengths(
    parts: Sequence[Pairs],
    slots: Sequence[ListSlots],
    at: RateParameters,
    reading: Sequence[Floats | None],
) -> tuple[float, ...]:
    """Strengths of the rungs that know a position, finest first; infinite for no rate of its own.

    Args:
        parts: the pairs of each batch.
        slots: their slots.
        at: β, p, and the strengths of items and contexts.
        reading: Shape (L, K) by batch: the readers of each slot; None: all.
    """
    expected, chains = [], []
    for part, own_slots, read in zip(parts, slots, reading, strict=True):
        expected.append(_item_rates(part, at))
        chains.append(_chain(part, own_slots, at, read))
    return best_strengths(chains, expected, GAIN, GAIN_Z)


def best_strengths(
    chains: Sequence[Sequence[EntryRung]], expected: Sequence[Floats], gain: float, gain_z: float
) -> tuple[float, ...]:
    """The strengths that predict clicks best, finest first; infinite for no rates of its own.

    Args:
        chains: the rungs of each batch, the coarsest first.
        expected: by batch, what the cells below them expect.
        gain: the least gain of a rung that has rates of its own.
        gain_z: the same over its standard error.
    """
    fitted: list[float] = []
    for rungs in zip(*chains, strict=True):
        expected = [x[of.coarser] * of.exposure for of, x in zip(rungs, expected, strict=True)]
        entries, x = _told(rungs, expected)
        best, losses = minimum_on_grid(
            lambda j: _loss(entries, x, STRENGTHS[j]),  # noqa: B023
            len(STRENGTHS),
        )
        s = float(STRENGTHS[best])
        gained = _loss(entries, x, np.inf) - losses[best]
        if gained <= gain or gained <= gain_z * _gain_sd(entries, x, s):
            s = np.inf
        fitted.append(s)
        expected = [_rate(of.entries, x, s) for of, x in zip(rungs, expected, strict=True)]
    return tuple(fitted[::-1])


def _told(rungs: Sequence[EntryRung], expected: Sequence[Floats]) -> tuple[EntryCounts, Floats]:
    """The entries of all batches that earlier records tell of, and what is expected of them.

    The others cost the same at any strength.
    """
    some = [np.flatnonzero(of.entries.n_before) for of in rungs]

    def told(values: Iterable[Floats]) -> Floats:
        return np.concatenate([each[at] for each, at in zip(values, some, strict=True)])

    c, n, c_before, n_before, one = zip(*(of.entries for of in rungs), strict=True)
    ones = None if one[0] is None else told(one)
    return EntryCounts(told(c), told(n), told(c_before), told(n_before), ones), told(expected)


def _loss(at: EntryCounts, x: Floats, s: float) -> float:
    """Σ μ − c log μ of a rung of strength s."""
    if at.one is None:
        return poisson_loss(at.c, at.n * _rate(at, x, s))
    each = zip(at.by_click(), _record_losses(at, x, s), strict=True)
    return float(sum(records @ losses for records, losses in each))


def _gain_sd(at: EntryCounts, x: Floats, s: float) -> float:
    """The standard error of the gain of a rung of strength s: by cell and day, or by record."""
    if at.one is None:
        coarse, fine = (poisson_losses(at.c, at.n * _rate(at, x, each)) for each in (np.inf, s))
        return float(np.sqrt(((coarse - fine) ** 2).sum()))
    each = zip(at.by_click(), _record_losses(at, x, np.inf), _record_losses(at, x, s), strict=True)
    return float(np.sqrt(sum(records @ (coarse - fine) ** 2 for records, coarse, fine in each)))


def _record_losses(at: EntryCounts, x: Floats, s: float) -> tuple[Floats, Floats]:
    """Shape (entries,) each: the loss of a record that was clicked, and of one that was not."""
    one = np.ones(1) if at.one is None else at.one
    # Each record from the others.
    others = at._replace(c_before=np.maximum(at.c - 1, 0.0), n_before=at.n - one)
    clicked = _rate(others, x, s) * one
    unclicked = _rate(others._replace(c_before=at.c), x, s)
    return clicked - np.log(np.maximum(clicked, 1e-300)), unclicked


def _rate(at: EntryCounts, x: Floats, s: float) -> Floats:
    """The rate of a cell on a day, from the days before and what the rung below expects."""
    if np.isinf(s):
        return x
    return np.asarray((at.c_before + s * x) / (at.n_before + s))


def _item_rates(part: Pairs, at: RateParameters) -> Floats:
    """Shape (R,): the rate of a pair by the days before; by all records if there are none."""
    days, c = part.days, part.day_clicks
    if not days.dated:
        return part.rates(at).alpha[days.pair]
    e, m = part.day_exposure(at), part.day_expected(at)
    return np.asarray((days.before(c) + at.a) / (days.before(e) + at.a / m))


def _chain(
    part: Pairs, slots: ListSlots, at: RateParameters, reading: Floats | None
) -> list[EntryRung]:
    """The rungs from "position" up."""
    days, batch = part.days, part.batch
    own = days.pair[days.pair_day] * np.int64(batch.depth) + days.position
    each = part.d * at.p[days.position]
    one = None if days.dated else each / np.maximum(days.cell_n, 1e-300)
    day, count = days.day[days.pair_day], days.days
    rungs = [EntryRung(_entries(own, day, count, part.c, each, one), days.pair_day, 1.0)]
    day, coarser = day[slots.cell], slots.cell
    exposed = _exposed(slots, at, reading)
    for number, cell in enumerate(slots.finer):
        keys, entry = numbered(cell * count + day, (int(cell.max(initial=0)) + 1) * count)
        c, n = sums(entry, slots.c, len(keys)), sums(entry, slots.n, len(keys))
        exposure = 1.0 if number else value_of_each(entry, exposed, len(keys))
        one = None if days.dated else np.ones(len(keys))
        entries = _entries(keys // count, keys % count, count, c, n, one)
        rungs.append(EntryRung(entries, value_of_each(entry, coarser, len(keys)), exposure))
        coarser = entry
    return rungs


def _exposed(slots: ListSlots, at: RateParameters, reading: Floats | None) -> Floats:
    """Shape (S,): how much a record of each slot is examined."""
    examined = at.p[slots.position]
    if reading is None:
        return examined
    return np.asarray(examined * reading[slots.listed, slots.position])


def _entries(
    cell: Ints, day: Ints, days: int, c: Floats, n: Floats, one: Floats | None
) -> EntryCounts:
    if one is not None:
        return EntryCounts(c, n, c, n, one)
    size = (int(cell.max(initial=0)) + 1) * days
    order = ordered(cell * np.int64(days) + day, size)[1]
    before = np.empty((2, len(order)))
    for own, values in zip(before, (c, n), strict=True):
        own[order] = np.maximum(sums_before(cell[order], values[order]), 0.0)
    return EntryCounts(c, n, *before)
