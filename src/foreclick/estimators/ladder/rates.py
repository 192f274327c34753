"""The cells of a ladder over a batch, rung by rung: their counts, and which cell each backs off to.

Within a batch the rungs go from the top to the context; the log's is a sum over all contexts. A
candidate's cells that the log never showed
follow those of the log, without records, so that every formula is one array expression for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from foreclick.batches import EMPTY, Batch, Bools, Candidate, Floats, Ints, Reward, padded, sums
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.batches.matching import matched_prefixes
from foreclick.estimators.ladder.exposure import readers
from foreclick.estimators.ladder.shrinkage import Passing, borrowed, climb, descend, own_weight
from foreclick.estimators.ladder.spec import Fitted, Ladder
from foreclick.metrics import first_of


def reward_of(batch: Batch, name: str) -> Reward:
    """A reward of the log, or the first clicks that a metric of these weighs."""
    source = first_of(name)
    return batch.rewards[name] if source is None else batch.first(source)


def sums_of_each(group: Ints, values: Floats, count: int) -> Floats:
    """Shape (M, count): the sums of M rows of values, shape (M, G), by group, shape (G,)."""
    return np.stack([sums(group, row, count) for row in values])


# --- rungs ----------------------------------------------------------------------------------------

Pairs = tuple[Ints | slice, Ints | slice]
"""Pairs of estimates, by their numbers: the first of each pair, and the second."""

EACH: Pairs = (slice(None), slice(None))
"""Every estimate with itself."""


@dataclass(frozen=True, eq=False)
class Rungs:
    """Some rungs of a ladder, finest first, above a coarser rung that is kept elsewhere.

    Attributes:
        strengths: s of each rung.
        n: Shape (G_j,) of rung j: records of each cell.
        c: Shape (G_j,): clicks of each cell.
        below: Shape (G_j,): the cell of the next rung that each cell backs off to.
        exposed: Shape (G_j,) or 1: how much a record of a cell exposes the cell below.
        base: how many cells the rung below the last has.
    """

    strengths: Sequence[float]
    n: Sequence[Floats]
    c: Sequence[Floats]
    below: Sequence[Ints]
    exposed: Sequence[Floats | float]
    base: int

    @classmethod
    def climbed(
        cls,
        strengths: Sequence[float],
        n: Floats,
        c: Floats,
        below: Sequence[Ints],
        exposed: Sequence[Floats | float],
        base: int,
        first: Passing | None = None,
    ) -> Rungs:
        """The rungs whose finest has cells with n records and c clicks.

        `first` is what that rung passes on, where it is known.
        """
        records, clicks = [n], [c]
        for j, s in enumerate(strengths[:-1]):
            if first is None or j:
                first = Passing.of(records[j], clicks[j], s, below[j], len(below[j + 1]))
            records.append(first.records(exposed[j]))
            clicks.append(first.c)
        return cls(strengths, records, clicks, below, exposed, base)

    def __len__(self) -> int:
        return len(self.n)

    @cached_property
    def borrowed(self) -> list[Floats]:
        """Shape (G_j,): which share of a cell's rate comes from the rung below."""
        return [borrowed(n, s) for n, s in zip(self.n, self.strengths, strict=True)]

    @cached_property
    def own_weight(self) -> list[Floats]:
        """Shape (G_j,): how far one click of a cell moves its rate."""
        return [own_weight(n, s) for n, s in zip(self.n, self.strengths, strict=True)]

    @cached_property
    def end(self) -> list[Ints]:
        """Shape (G_j,): the cell of the last of these rungs that each cell leads to."""
        found: list[Ints] = [np.arange(len(self.n[-1]))]
        for below in reversed(self.below[:-1]):
            found.append(found[-1][below])
        return found[::-1]

    def last(self, count: int) -> Rungs:
        """The coarsest of these rungs alone."""
        return Rungs(
            self.strengths[-count:],
            self.n[-count:],
            self.c[-count:],
            self.below[-count:],
            self.exposed[-count:],
            self.base,
        )

    def passed_on(self) -> tuple[Floats, Floats]:
        """Shape (G,) of the last rung: records and clicks each cell passes on to the rung below."""
        share = self.borrowed[-1]
        return self.n[-1] * share * self.exposed[-1], self.c[-1] * share

    def rates(self, base: Floats) -> tuple[list[Floats], list[Floats]]:
        """The rates of all cells, and what the rung below expects of them.

        Args:
            base: Shape (base,): the rates below the last rung.
        """
        rates, expected = [], []
        for j in reversed(range(len(self))):
            expected.append(base[self.below[j]] * self.exposed[j])
            base = descend(self.n[j], self.c[j], self.strengths[j], expected[-1])
            rates.append(base)
        return rates[::-1], expected[::-1]

    def reached(self, cells: Ints, h: Floats) -> list[Reach]:
        """By rung, how much exposure of a candidate gets its rate from which cells.

        Args:
            cells: Shape (Q,): cells of the finest rung.
            h: Shape (M, Q): their exposure.
        """
        found = []
        for j in range(len(self)):
            used, at = numbered(cells, len(self.n[j]))
            found.append(Reach(used, sums_of_each(at, h, len(used))))
            h = found[-1].h * (self.borrowed[j][used] * exposure_at(self.exposed[j], used))
            cells = self.below[j][used]
        return found

    def factors(self, reached: Sequence[Reach], base: Floats, first: int = 0) -> list[Floats]:
        """Shape (M, G_j): A, how far one click of a cell moves each of M estimates.

        Args:
            reached: by rung, what of the candidate gets its rate from which cells.
            base: Shape (M, base): the factors below the last rung, which also stand last in what is
                returned.
            first: the finest rung whose factors are wanted.
        """
        found = [base]
        for j in reversed(range(first, len(self))):
            each = np.take(found[-1], self.below[j], axis=1)
            each *= self.borrowed[j]
            cells, h = reached[j]
            each[:, cells] += h * self.own_weight[j][cells]
            found.append(each)
        return found[::-1]

    def unsettled(
        self,
        reached: Sequence[Reach],
        lower: Sequence[Floats],
        expected: Sequence[Floats],
        pairs: Pairs = EACH,
    ) -> Floats:
        """Shape (M, G) of the last rung: the variance of M estimates that shrinkage hides.

        What is a cell's own and shrinkage takes from it is wrong in every log alike. A cell differs
        from the rung below with variance r'/s. For each click that a cell has more than the rung
        below expects, the estimate is off by slip: the candidate's slots miss s / (n + s) of it,
        and the rung below takes it for its own. So the variance is Σ slip² r'/s, and the covariance
        of two estimates the sum of the products of their slips.

        Args:
            reached: by rung, what of the candidate gets its rate from which cells.
            lower: by rung, the factors of the rung below.
            expected: what the rung below expects of all cells.
            pairs: of which pairs of estimates the covariance is wanted: M of them.
        """
        last, (one, other) = len(self) - 1, pairs
        total = np.zeros((len(lower[0][one]), len(self.n[-1])))
        for j, s in enumerate(self.strengths):
            if np.isinf(s):
                continue
            factor, below, n = lower[j], self.below[j], self.n[j]
            spread = self.borrowed[j] ** 2 * expected[j] / s
            cells, h = reached[j]
            slip = h - factor[:, below[cells]] * n[cells]
            product = slip[one] * slip[other] * spread[cells]
            total += sums_of_each(self.end[j][cells], product, total.shape[1])
            # Where the candidate shows nothing, slip is - n times the factor of the cell below.
            spread *= n * n
            spread[cells] = 0.0
            square = factor[one] * factor[other]
            if j == last:
                total += square[:, below] * spread
            else:
                by_cell = square * sums(below, spread, factor.shape[1])
                total += sums_of_each(self.end[j + 1], by_cell, total.shape[1])
        return total


class Reach(NamedTuple):
    """Exposure of a candidate that gets its rate from the cells of a rung.

    Attributes:
        cells: Shape (Q,), rising: the cells that some gets its rate from.
        h: Shape (M, Q): how much, for each of M metrics.
    """

    cells: Ints
    h: Floats


def exposure_at(values: Floats | float, at: Ints) -> Floats | float:
    """The exposure of some cells, of one for each cell or the same for all."""
    return values[at] if isinstance(values, np.ndarray) else values


# --- the log's cells ------------------------------------------------------------------------------


class LogCells(NamedTuple):
    """The cells of a batch.

    Attributes:
        rungs: from the top to the context; below each context stands a base of its own.
        top: Shape (L, K): the top's cell of each slot, one beyond the last where nothing is shown.
        slots: Shape (S,), rising: `pair * K + position` of each cell of the rung "position".
        starts: Shape (K,): on the rung "prefix", the cell of the first prefix down to a position.
        attraction: Shape (P,): μ of each pair, by which fewer examine what stands below it; those
            of a candidate's new pairs follow.
        new_attraction: Shape (X,): μ of what a context never showed.
    """

    rungs: Rungs
    top: Ints
    slots: Ints
    starts: Ints
    attraction: Floats
    new_attraction: Floats


class _Numbers(NamedTuple):
    """The cells of a batch, without counts.

    Attributes:
        shown: Shape (L, K): which slots show something.
        below: Shape (G_j,) of each rung: the cell of the next one.
        top: Shape (shown slots,): the cell on the first rung.
        exposing: Shape (shown slots,): the cell on the rung with the examination.
        slots, starts: as those of `LogCells`.
    """

    shown: Bools
    below: list[Ints]
    top: Ints
    exposing: Ints
    slots: Ints
    starts: Ints


def log_cells(batch: Batch, fit: Fitted, reward: str) -> LogCells:
    """The cells of a batch, kept with it.

    Args:
        batch: the records.
        fit: the ladder.
        reward: whose rates are estimated.
    """
    key = "ladder cells", fit, reward
    return cast("LogCells", batch.keep(key, lambda: _log_cells(batch, fit, reward)))


def slot_examination(batch: Batch, fit: Fitted, reward: str) -> Floats:
    """Shape (L, K): E of each slot of the log; that of nothing where nothing is shown."""
    log = log_cells(batch, fit, reward)
    p = padded(fit.examined, batch.depth)
    if not fit.stopping:
        return np.broadcast_to(p, batch.lists.shape)
    return readers(log.attraction, batch.lists, fit.stopping) * p


def _numbers(batch: Batch, ladder: Ladder) -> _Numbers:
    shown = batch.lists != EMPTY
    slots, cell = numbered(batch.slot[shown], batch.pair_count * batch.depth)
    below: list[Ints] = [slots // batch.depth, batch.pair_context, np.arange(batch.context_count)]
    starts: Ints = np.zeros(batch.depth, dtype=np.int64)
    exposing = cell
    if ladder.top == "list":
        prefix = batch.prefix.astype(np.int64)
        size = prefix.max(axis=0, initial=-1) + 1
        starts = np.cumsum(size) - size
        exposing = (prefix + starts)[shown]
        below = [value_of_each(exposing, cell, int(size.sum())), *below]
        cell = np.flatnonzero(shown)
        below = [value_of_each(cell, exposing, shown.size), *below]
    return _Numbers(shown, below, cell, exposing, slots, starts)


def _log_cells(batch: Batch, fit: Fitted, reward: str) -> LogCells:
    numbers = _numbers(batch, fit.ladder)
    count = len(numbers.below[0])
    top = np.full(numbers.shown.shape, count, dtype=np.int64)
    top[numbers.shown] = numbers.top
    n = sums(top, np.repeat(batch.list_n, batch.depth), count)
    earned = reward_of(batch, reward)
    value = earned.value * batch.n[earned.row]
    c = sums(top[batch.row_list[earned.row], earned.position], value, count)
    rungs, (attraction, new) = _examined_rungs(batch, fit, numbers, n, c)
    return LogCells(rungs, top, numbers.slots, numbers.starts, attraction, new)


def _examined_rungs(
    batch: Batch, fit: Fitted, numbers: _Numbers, n: Floats, c: Floats
) -> tuple[Rungs, list[Floats]]:
    """The rungs of a batch, and μ of its pairs and contexts, from the counts of the top."""
    contexts, below, shown = batch.context_count, numbers.below, numbers.shown
    strengths, j = fit.strengths[: len(below)], fit.ladder.exposing
    records, clicks = [n], [c]
    if j:  # a list passes its counts on without a look at the examination
        n, c = climb(n, c, strengths[0], below[0], len(below[1]))
        records, clicks = [*records, n], [*clicks, c]
    p = padded(fit.examined, batch.depth)
    slot = value_of_each(numbers.exposing, np.flatnonzero(shown), len(n))  # one of each cell
    exposed = p[slot % batch.depth]
    mu = [np.zeros(batch.pair_count), np.zeros(contexts)]
    first = Passing.of(n, c, strengths[j], below[j], len(below[j + 1]))
    for round_ in range(fit.rounds + 1):
        each = [exposed, *[1.0] * (len(below) - j - 1)]
        rungs = Rungs.climbed(strengths[j:], n, c, below[j:], each, contexts, first)
        if not fit.stopping or round_ == fit.rounds:
            break
        mu = rungs.last(2).rates(np.full(contexts, fit.base))[0]
        exposed = (readers(mu[0], batch.lists, fit.stopping) * p).ravel()[slot]
    if j:
        records, clicks = [records[0], *rungs.n], [clicks[0], *rungs.c]
        rungs = Rungs(strengths, records, clicks, below, [1.0, *rungs.exposed], contexts)
    return rungs, mu


# --- the candidate's cells ------------------------------------------------------------------------


class CandidateCells(NamedTuple):
    """The cells of a batch and those that only a candidate has, and the candidate's slots in them.

    Attributes:
        rungs: the log's cells, followed by the candidate's new ones.
        cell: Shape (S,): the top's cell of each slot that the candidate shows.
        position: Shape (S,), from 0.
        context: Shape (S,).
        mass: Shape (C, S): how likely the slot is in its context, by C candidates.
        listed: Shape (S,): the candidate's list that has the slot, where lists are kept apart.
    """

    rungs: Rungs
    cell: Ints
    position: Ints
    context: Ints
    mass: Floats
    listed: Ints


def candidate_cells(
    batch: Batch, candidate: Candidate, fit: Fitted, log: LogCells, *, by_list: bool = False
) -> CandidateCells:
    """The cells of a batch together with those of a candidate.

    Args:
        batch: the records.
        candidate: in the batch's numbers.
        fit: the ladder.
        log: the batch's cells.
        by_list: whether slots of different lists are kept apart with the top "ip", too.
    """
    if fit.ladder.top == "ip" and not by_list:
        slots = candidate.slots
        at, k = np.nonzero(slots.mass > 0)
        pair, context, mass = slots.pair[at], slots.context[at], candidate.slot_mass[:, at, k]
    else:
        lists = candidate.lists
        at, k = np.nonzero((lists.pairs != EMPTY) & (lists.mass > 0)[:, None])
        pair, context, mass = lists.pairs[at, k], lists.context[at], candidate.list_mass[:, at]
    log = _with_pairs(candidate, log, pair, context)
    found, rungs = _with_slots(batch, fit, log, pair, k)
    if fit.ladder.top != "ip":
        found, rungs = _with_lists(batch, candidate, fit, log, (found, rungs), at, k)
    return CandidateCells(rungs, found, k, context, mass, at)


def _with_pairs(candidate: Candidate, log: LogCells, pair: Ints, context: Ints) -> LogCells:
    """The log's cells, with pairs that the log never showed."""
    known = candidate.batch.pair_count
    contexts = np.zeros(max(int(pair.max(initial=-1)) + 1 - known, 0), dtype=np.int64)
    unseen = pair >= known
    contexts[pair[unseen] - known] = context[unseen]
    rungs = _extended(log.rungs, len(log.rungs) - 2, contexts, 1.0)
    attraction = np.concatenate([log.attraction, log.new_attraction[contexts]])
    return log._replace(rungs=rungs, attraction=attraction)


def _with_slots(
    batch: Batch, fit: Fitted, log: LogCells, pair: Ints, k: Ints
) -> tuple[Ints, Rungs]:
    """The cell of each slot on the rung "position", and the rungs with new slots."""
    inside = (k < batch.depth) & (pair < batch.pair_count)
    key = np.where(inside, pair * batch.depth + k, -1)
    at = np.searchsorted(log.slots, key)
    hit = inside & (at < len(log.slots))
    hit[hit] = log.slots[at[hit]] == key[hit]
    width = int(k.max(initial=0)) + 1
    new, number = np.unique((pair * width + k)[~hit], return_inverse=True)
    at[~hit] = len(log.slots) + number
    examined = padded(fit.examined, max(width, len(fit.examined)))[new % width]
    return at, _extended(log.rungs, len(log.rungs) - 3, new // width, examined)


def _with_lists(
    batch: Batch,
    candidate: Candidate,
    fit: Fitted,
    log: LogCells,
    coarser: tuple[Ints, Rungs],
    at: Ints,
    k: Ints,
) -> tuple[Ints, Rungs]:
    """The cell of each slot on the top, and the rungs with new prefixes and new lists.

    Args:
        batch: the records.
        candidate: in the batch's numbers.
        fit: the ladder.
        log: the batch's cells.
        coarser: the cell of each slot on the rung "position", and the rungs so far.
        at: Shape (S,): the list of each slot.
        k: Shape (S,): its position.
    """
    lists, depth = candidate.lists, candidate.depth
    cell, rungs = coarser
    begins = matched_prefixes(batch, lists, depth)
    new = begins[at, k] < 0
    found = begins[at, k] + log.starts[np.minimum(k, batch.depth - 1)]
    _, first, number = np.unique(
        (lists.prefix[at, k] * depth + k)[new], return_index=True, return_inverse=True
    )
    found[new] = len(log.rungs.n[fit.ladder.exposing]) + number
    exposed = _candidate_exposure(candidate, fit, log)[at, k]
    below, examined = cell[new][first], exposed[new][first]
    rungs = _extended(rungs, fit.ladder.exposing, below, examined)
    whole = begins[at, -1]  # at its last position a prefix is a list
    new = whole < 0
    top = np.where(new, 0, whole * batch.depth + k)
    top[new] = len(log.rungs.n[0]) + np.arange(int(new.sum()))
    return top, _extended(rungs, 0, found[new], 1.0)


def _candidate_exposure(candidate: Candidate, fit: Fitted, log: LogCells) -> Floats:
    """Shape (lists, D): E of each slot of the candidate's lists."""
    lists = candidate.lists
    p = padded(fit.examined, candidate.depth)
    if not fit.stopping:
        return np.broadcast_to(p, lists.pairs.shape)
    return readers(log.attraction, lists.pairs, fit.stopping) * p


def _extended(rungs: Rungs, j: int, below: Ints, exposed: Floats | float) -> Rungs:
    """The rungs with further cells on rung j that the log never showed."""
    nothing = np.zeros(len(below))
    n, c, down, e = list(rungs.n), list(rungs.c), list(rungs.below), list(rungs.exposed)
    n[j], c[j] = np.concatenate([n[j], nothing]), np.concatenate([c[j], nothing])
    down[j] = np.concatenate([down[j], below])
    if isinstance(e[j], np.ndarray):
        e[j] = np.concatenate([e[j], np.broadcast_to(exposed, below.shape)])
    return replace(rungs, n=n, c=c, below=down, exposed=e)
