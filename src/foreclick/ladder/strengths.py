"""What stands above the rates of items: do lists and positions differ?

Rungs that know a position are worth having where they predict clicks of a day better than coarser
rungs do, all from the days before; in a log without days, clicks of a record from all others of its
cell. A strength is judged by Σ c log μ − μ, from the coarsest rung to the finest; a rung that does
not predict better by `GAIN` has no rate of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foreclick.batches import Floats, Ints, sums
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.ladder.coefficients import Pairs, RateParameters
from foreclick.ladder.features import Seen
from foreclick.ladder.shrinkage import GAIN, least, loss_of

STRENGTHS: Floats = np.exp(np.linspace(0.0, 11.0, 23))


class RowSlots(NamedTuple):
    """The slots of the rows of a batch, S of them, with the cells that they belong to.

    Attributes:
        row, position: Shape (S,).
        cell: Shape (S,): (pair, day, position), by `Seen`.
        finer: shape (S,) each: the prefix and the list of each slot, if lists are told apart.
        n, c: Shape (S,): records and their clicks.
    """

    row: Ints
    position: Ints
    cell: Ints
    finer: list[Ints]
    n: Floats
    c: Floats


def row_slots(part: Pairs, reward: str, unit: float, prefix: Ints | None) -> RowSlots:
    """The slots of all rows; `prefix`, shape (L · K,), numbers the beginnings of lists."""
    of, batch = part.of, part.of.batch
    k = batch.depth
    row, position = np.nonzero(of.cell < len(of.turn))
    n, clicks = batch.n[row], batch.reward_table(reward)[row, position] / unit
    finer: list[Ints] = []
    if prefix is not None:
        listed = batch.row_list[row].astype(np.int64) * k + position
        finer = [prefix[listed].astype(np.int64), listed]
    return RowSlots(row, position, of.cell[row, position], finer, n, n * clicks)


# --- strengths ------------------------------------------------------------------------------------


class _Entries(NamedTuple):
    """Cells of a rung on each day: what they earn, what they earned before, and where they lead.

    Attributes:
        one: what a record adds to n; None in a log with days. Without days, what was earned before
            is all that was earned.
    """

    c: Floats
    n: Floats
    c_before: Floats
    n_before: Floats
    below: Ints
    one: Floats | None = None


def upper_strengths(
    parts: Sequence[Pairs],
    slots: Sequence[RowSlots],
    theta: RateParameters,
    reading: Sequence[Floats | None],
) -> tuple[float, ...]:
    """Strengths of the rungs that know a position, finest first; infinite for no rate of its own.

    Args:
        parts: the pairs of each batch.
        slots: their slots.
        theta: the prior.
        reading: Shape (L, K) by batch: the readers of each slot; None: all.
    """
    expected, chains = [], []
    for part, row_slots_, read in zip(parts, slots, reading, strict=True):
        expected.append(_item_rates(part, theta))
        chains.append(_chain(part, row_slots_, theta, read))
    fitted: list[float] = []
    for j in range(len(chains[0])):
        entries = [chain[j] for chain in chains]
        below = [x[at.below] * e for x, (at, e) in zip(expected, entries, strict=True)]
        best, losses = least(lambda j: _loss(entries, below, STRENGTHS[j]), len(STRENGTHS))  # noqa: B023
        gain = _loss(entries, below, np.inf) - losses[best]
        s = float(STRENGTHS[best]) if gain > GAIN else np.inf
        fitted.append(s)
        expected = [_rate(at, x, s) for (at, _), x in zip(entries, below, strict=True)]
    return tuple(fitted[::-1])


def _loss(entries: Sequence[tuple[_Entries, Floats]], below: Sequence[Floats], s: float) -> float:
    """Σ μ − c log μ of a rung of strength s."""
    total = 0.0
    for (at, _), x in zip(entries, below, strict=True):
        if at.one is None:
            total += loss_of(at.c, at.n * _rate(at, x, s))
            continue
        # Each record from the others: those that were clicked, and those that were not.
        left = at.n - at.one
        some = _rate(at._replace(c_before=np.maximum(at.c - 1, 0.0), n_before=left), x, s) * at.one
        none = _rate(at._replace(c_before=at.c, n_before=left), x, s)
        total += float(at.c @ (some - np.log(np.maximum(some, 1e-300))))
        total += float(np.maximum(at.n - at.c * at.one, 0.0) @ none)
    return total


def _rate(at: _Entries, x: Floats, s: float) -> Floats:
    """The rate of a cell on a day, from the days before and what the rung below expects."""
    if np.isinf(s):
        return x
    return np.asarray((at.c_before + s * x) / (at.n_before + s))


def _item_rates(part: Pairs, theta: RateParameters) -> Floats:
    """Shape (turns,): the rate of a pair, of the days before; of all records if there are none."""
    of = part.of
    if not of.dated:
        return part.rates(theta).alpha[of.pair]
    e, m = part.turn_e(theta), part.turn_m(theta)
    c_before, e_before = of.so_far(part.turn_c) - part.turn_c, of.so_far(e) - e
    return np.asarray((c_before + theta.a) / (e_before + theta.a / m))


def _chain(
    part: Pairs, at: RowSlots, theta: RateParameters, reading: Floats | None
) -> list[tuple[_Entries, Floats]]:
    """The rungs from "position" up: entries, and how much a record of each is examined."""
    of, batch = part.of, part.of.batch
    examined = theta.p[of.position]
    own = of.pair[of.turn] * np.int64(batch.depth) + of.position
    each = part.d * examined
    one = None if of.dated else each / np.maximum(part.cell_n, 1e-300)
    entries = _entries(own, of.day[of.turn], of.days, part.c, each, of.turn, one)
    rungs = [(entries, np.ones(len(of.turn)))]
    day, below = of.day[of.turn][at.cell], at.cell
    exposed = _exposed(part, at, theta, reading)
    for number, cell in enumerate(at.finer):
        keys, entry = numbered(cell * of.days + day, (int(cell.max(initial=0)) + 1) * of.days)
        c, n = sums(entry, at.c, len(keys)), sums(entry, at.n, len(keys))
        lower = value_of_each(entry, below, len(keys))
        each = value_of_each(entry, exposed, len(keys)) if number == 0 else np.ones(len(keys))
        one = None if of.dated else np.ones(len(keys))
        entries = _entries(keys // of.days, keys % of.days, of.days, c, n, lower, one)
        rungs.append((entries, each))
        below = entry
    return rungs


def _exposed(part: Pairs, at: RowSlots, theta: RateParameters, reading: Floats | None) -> Floats:
    """Shape (S,): how much a record of each slot is examined."""
    examined = theta.p[at.position]
    if reading is None:
        return examined
    return np.asarray(examined * reading[part.of.batch.row_list[at.row], at.position])


def _entries(
    cell: Ints, day: Ints, days: int, c: Floats, n: Floats, below: Ints, one: Floats | None
) -> _Entries:
    if one is not None:
        return _Entries(c, n, c, n, below, one)
    key = cell * np.int64(days) + day
    order = np.argsort(key, kind="stable")
    before = []
    for values in (c, n):
        run = np.empty(len(order))
        run[order] = Seen.until(cell[order], values[order]) - values[order]
        before.append(np.maximum(run, 0.0))
    return _Entries(c, n, before[0], before[1], below)


# --- production that learns from its clicks -------------------------------------------------------


def _surprise(values: Floats) -> float:
    """How many standard errors the sum of independent values, (N,), is above 0."""
    return float(values.sum() / np.sqrt((values**2).sum() + 1e-300))


def reacts(parts: Sequence[Pairs], theta: RateParameters) -> float:
    """By how many standard errors production moves an item up after a lucky day.

    Less the same with time reversed: that rank and clicks both know the rate cancels.
    """
    total = []
    for part in parts:
        of, batch = part.of, part.of.batch
        due = part.turn_e(theta) * part.rates(theta).alpha[of.pair]
        luck = (part.turn_c - due) / np.sqrt(due + 0.05)
        height = of.height / of.n
        later = np.flatnonzero(np.diff(of.pair, prepend=-1) == 0)
        move = (height[later] - height[later - 1]) * (luck[later - 1] + luck[later])
        context = batch.pair_context[of.pair[later]]
        total.append(sums(context, move, batch.context_count))
    return _surprise(np.concatenate(total))


# --- candidates that have seen the clicks ---------------------------------------------------------


def leaks(parts: Sequence[Pairs], words: Sequence[Floats], theta: RateParameters) -> Floats:
    """Shape (C,): by how many standard errors candidates predict early clicks better than later.

    Of each pair, clicks before a day are held against those after it, as its exposure would share
    them out. If the candidate was trained on the early ones, it places high what was lucky then.
    The larger of two days.

    Args:
        parts: the pairs of each batch.
        words: Shape (C, P, 2) by batch: the candidates'.
        theta: the prior.
    """
    return np.maximum(*(_leaks(parts, words, theta, share) for share in (0.5, 0.75)))


def _leaks(
    parts: Sequence[Pairs], words: Sequence[Floats], theta: RateParameters, share: float
) -> Floats:
    columns, over, weights, before = [], [], [], 0
    contexts: list[Ints] = []
    for part, word in zip(parts, words, strict=True):
        of, batch = part.of, part.of.batch
        e = part.turn_e(theta)
        early = of.day < of.days * share
        c0, e0, c1, e1 = (
            of.by_pair(np.where(when, value, 0.0))
            for when in (early, ~early)
            for value in (part.turn_c, e)
        )
        some = np.flatnonzero((e0 > 0) & (e1 > 0))
        both = (e0 + e1)[some]
        over.append(((c0 * e1 - c1 * e0)[some]) / both)
        weights.append((e0 * e1)[some] / both * part.rates(theta).alpha[some])
        columns.append(np.column_stack([of.whole[some, 1:], word[:, some, 1].T]))
        contexts.append(batch.pair_context[some] + before)
        before += batch.context_count
    x, d, w = (np.concatenate(each) for each in (columns, over, weights))
    context = np.concatenate(contexts)
    total = np.maximum(sums(context, w, before), 1e-300)
    x = x - np.column_stack([(sums(context, w * one, before) / total)[context] for one in x.T])
    root = np.sqrt(w)[:, None]
    # What the candidates say that production does not.
    slope = np.linalg.lstsq(root * x[:, :3], root * x[:, 3:], rcond=None)[0]
    own = x[:, 3:] - x[:, :3] @ slope
    return np.array([_surprise(sums(context, each * d, before)) for each in own.T])
