"""Rungs of cells: counts climb from fine cells to coarse ones, rates come back down.

List, prefix and position are the rungs that know a position; the pair (context, item) and its
context are coarser. With n records and c clicks in a cell of a rung of strength s, of which a
record has the exposure e, and with r' the rate of its coarser cell,

    r = (c + s e r') / (n + s)                         rates, from coarse to fine
    n' = Σ n e s / (n + s),    c' = Σ c s / (n + s)    counts, from fine to coarse

An estimate Σ h r counts the coarser rate h e s / (n + s), and a click in a cell moves it by

    A = (h + s A') / (n + s)                           gradients, from coarse to fine

where A' is how far a click in the coarser cell does. What a click earns stands on the same rungs,
with clicks in the place of records and rewards in that of clicks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from foreclick.batches import EMPTY, Batch, Floats, Ints, sums
from foreclick.batches.arrays import numbered, taken, value_of_each
from foreclick.estimation.columns import ModelError, View
from foreclick.estimation.slots import group_sums
from foreclick.kept import kept

S = TypeVar("S", bound=np.generic)

# --- rungs ----------------------------------------------------------------------------------------


class Rung(NamedTuple):
    """The cells of one rung, G of them.

    Attributes:
        strength: s; shape (G,) if cells have their own; infinite if they have no rates.
        n, c: Shape (G,): records and clicks.
        coarser: Shape (G,): the cell of the next rung that each belongs to.
        size: how many cells the next rung has.
        exposure: Shape (G,) or 1: e, how much a record of a cell exposes its coarser cell.
    """

    strength: Floats | float
    n: Floats
    c: Floats
    coarser: Ints
    size: int
    exposure: Floats | float = 1.0

    @property
    def has_rates(self) -> bool:
        """Whether its cells have rates of their own."""
        return isinstance(self.strength, np.ndarray) or math.isfinite(self.strength)

    def borrowed(self) -> Floats:
        """Shape (G,): s / (n + s), the share of each rate that the coarser cell decides."""
        s = self.strength
        return np.asarray(s / (self.n + s)) if self.has_rates else np.ones_like(self.n)

    def own_weight(self) -> Floats:
        """Shape (G,): 1 / (n + s), how far a click in each cell moves its rate."""
        return np.asarray(1 / (self.n + self.strength))

    def climb(self) -> tuple[Floats, Floats]:
        """Records and clicks of the cells of the next rung."""
        share, at, size = self.borrowed(), self.coarser, self.size
        return sums(at, self.n * share * self.exposure, size), sums(at, self.c * share, size)

    def descend(self, coarser: Floats) -> CellRates:
        """The rates of its cells, given those of the next rung."""
        expected = coarser[self.coarser] * self.exposure
        return CellRates(self.c * self.own_weight() + expected * self.borrowed(), expected)

    def among(self, cells: Ints) -> Rung:
        """Some of its cells."""

        def of(values: Floats | float) -> Floats | float:
            return values[cells] if isinstance(values, np.ndarray) else values

        n, c, coarser = self.n[cells], self.c[cells], self.coarser[cells]
        return Rung(of(self.strength), n, c, coarser, self.size, of(self.exposure))

    def with_unlogged(
        self, coarser: Ints, size: int, exposure: Floats, strength: Floats | None = None
    ) -> Rung:
        """With cells that have no records, shape (N,) each, and so many cells on the next rung."""
        n, c = (np.append(each, np.zeros(len(coarser))) for each in (self.n, self.c))
        own, s, where = self.exposure, self.strength, np.append(self.coarser, coarser)
        examined = np.append(own, exposure) if isinstance(own, np.ndarray) else own
        return Rung(s if strength is None else np.append(s, strength), n, c, where, size, examined)

    def gradient(self, weight: Floats, passed: Floats) -> Floats:
        """Shape (E + N, G): A, how far a click in each cell moves columns.

        Args:
            weight: Shape (E, cells): how much columns count the rates of cells, the log's first.
            passed: Shape (E + N, G): A', how far a click in the coarser cell moves columns.
        """
        found = passed * self.borrowed() if self.has_rates else passed
        found[: len(weight)] += weight[:, : len(self.n)] * self.own_weight()
        return found

    def unexplained(self, weight: Floats, passed: Floats) -> Floats:
        """Shape (E + N, G): (h − A' n) s / (n + s), how far the error of each cell moves columns.

        That is its rate minus what its coarser cell expects of it.

        Args:
            weight: Shape (E, G): h.
            passed: Shape (E + N, …): A' of the first cells; the others have no records.
        """
        found, logged = np.zeros((len(passed), len(self.n))), passed.shape[1]
        found[: len(weight)] = weight
        found[:, :logged] -= passed * self.n[:logged]
        found *= self.borrowed()
        return found


class CellRates(NamedTuple):
    """Shape (G,) each: the rates of cells, and what their coarser cells expect of them, e r'."""

    rate: Floats
    expected: Floats


@dataclass(frozen=True, eq=False)
class RungChain:
    """Rungs of the log's cells, the finest first, on base rates such as those of pairs."""

    rungs: tuple[Rung, ...]

    @property
    def finest(self) -> Rung:
        """The finest cells."""
        return self.rungs[0]

    @property
    def examined(self) -> int:
        """The number of the rung whose cells are examined more or less."""
        return next(j for j, rung in enumerate(self.rungs) if isinstance(rung.exposure, np.ndarray))

    def climb(self) -> tuple[Floats, Floats]:
        """Records and clicks that reach the base cells."""
        return self.rungs[-1].climb()

    def base(self, first: int = 0) -> Ints:
        """Shape (G,): the base cell of each cell of a rung: its pair."""
        at = self.rungs[first].coarser
        for rung in self.rungs[first + 1 :]:
            at = rung.coarser[at]
        return at

    def passed(self) -> Floats:
        """Shape (G,): Π s / (n + s), the share of a click in a finest cell that base rates get."""
        passed, at = self.finest.borrowed(), self.finest.coarser
        for rung in self.rungs[1:]:
            passed, at = passed * rung.borrowed()[at], rung.coarser[at]
        return passed

    def rates(self, base: Floats) -> tuple[CellRates, ...]:
        """By rung, the rates of its cells, given the base rates."""
        found = []
        for rung in reversed(self.rungs):
            found.append(rung.descend(base))
            base = found[-1].rate
        return tuple(found[::-1])


# --- slots of candidates on a chain ---------------------------------------------------------------


class Slots(NamedTuple):
    """Slots that candidates show, Q of them.

    Attributes:
        listed: Shape (Q,): the list of each; -1 if lists are not told apart.
        position, pair, context: Shape (Q,).
        mass: Shape (C, Q): how likely each candidate shows it.
    """

    listed: Ints
    position: Ints
    pair: Ints
    context: Ints
    mass: Floats


def candidate_slots(view: View, depth: int, *, by_list: bool) -> Slots:
    """The slots that any candidate shows down to a position, of every list apart or of all."""
    policies = view.policies
    if by_list:
        lists = policies.lists
        at, k = np.nonzero((lists.pairs[:, :depth] != EMPTY) & (lists.mass > 0)[:, None])
        return Slots(at, k, lists.pairs[at, k], lists.context[at], policies.list_mass[:, at])
    slots = policies.slots
    at, k = np.nonzero(slots.mass[:, :depth] > 0)
    mass = policies.slot_mass[:, at, k]
    return Slots(np.full(len(at), -1), k, slots.pair[at], slots.context[at], mass)


class Weights(NamedTuple):
    """The weights h of rates in columns.

    Attributes:
        rungs: Shape (E, cells) by rung, the finest first.
        base: Shape (E, pairs).
    """

    rungs: tuple[Floats, ...]
    base: Floats


class ChainGradient(NamedTuple):
    """Gradients of columns on a chain, and the model errors of its cells.

    Attributes:
        by_click: Shape (E + N, G): by a click in each of the finest cells.
        by_exposure: Shape (E, cells): by the logarithm of the exposure of cells on the rung that
            is examined; `context`: Shape (cells,): their contexts.
        unexplained: errors of cells, given what their coarser cells expect of them.
    """

    by_click: Floats
    by_exposure: Floats
    context: Ints
    unexplained: list[ModelError]


@dataclass(frozen=True, eq=False)
class SlotChain:
    """The log's chain with slots of candidates on it.

    Attributes:
        log: the log's cells.
        chain: these, then cells that candidates alone show, which have no records.
        rates: of all of them.
        slots: of candidates.
        cell: Shape (Q,): the finest cell of each.
    """

    log: RungChain
    chain: RungChain
    rates: tuple[CellRates, ...]
    slots: Slots
    cell: Ints

    @cached_property
    def rate(self) -> Floats:
        """Shape (Q,): the rate of each slot."""
        return taken(self.rates[0].rate, self.cell)

    @property
    def logged_rate(self) -> Floats:
        """Shape (G,): the rates of the log's finest cells."""
        return self.rates[0].rate[: len(self.log.finest.n)]

    def of_examined(self, of_slots: NDArray[S], of_log: NDArray[S]) -> NDArray[S]:
        """Shape (cells,): values of the cells that are examined, as slots and the log have them."""
        cell, number = self.cell, self.chain.examined
        for rung in self.chain.rungs[:number]:
            cell = rung.coarser[cell]
        found = value_of_each(cell, of_slots, len(self.chain.rungs[number].n))
        found[: len(of_log)] = of_log
        return found

    def weights(self, shown: Floats, logged: Floats) -> Weights:
        """How much columns count the rates of all cells that their slots rest on.

        Args:
            shown: Shape (E, Q): how much they count the rates of slots.
            logged: Shape (E, G): the same of the log's finest cells.
        """
        weight, found = group_sums(self.cell, shown, len(self.chain.finest.n)), []
        weight[:, : logged.shape[1]] += logged
        for rung in self.chain.rungs:
            found.append(weight)
            passed = weight * (rung.borrowed() * rung.exposure)
            weight = group_sums(rung.coarser, passed, rung.size)
        return Weights(tuple(found), weight)

    def gradient(
        self, weights: Weights, by_base: Floats, context: Ints, dispersion: float = 1.0
    ) -> ChainGradient:
        """How far a click in each of the log's cells moves columns, from coarse cells to fine ones.

        Args:
            weights: of E columns.
            by_base: Shape (E + N, P): how far a click on a pair moves them, and N others.
            context: Shape (pairs,): the context of each.
            dispersion: φ, the variance of a click over its mean.
        """
        gradient, unexplained, width = by_base, [], len(weights.base)
        by_exposure = np.zeros((width, 0))
        where: Ints = np.zeros(0, dtype=np.int64)
        for j, rung in reversed(list(enumerate(self.log.rungs))):
            passed, owner = taken(gradient, rung.coarser), context[self.chain.base(j)]
            # A rung without rates of its own has no model errors; its exposure may matter.
            off = passed if rung.has_rates else passed[:width]
            off = self.chain.rungs[j].unexplained(weights.rungs[j], off)
            expected = self.rates[j].expected
            if rung.has_rates:
                error = off * np.sqrt(dispersion * expected / rung.strength)
                unexplained.append(ModelError(owner, error))
            if j == self.chain.examined:
                by_exposure, where = off[:width] * expected, owner
            gradient = rung.gradient(weights.rungs[j], passed)
        return ChainGradient(gradient, by_exposure, where, unexplained)


# --- the log's cells ------------------------------------------------------------------------------


class LogCells(NamedTuple):
    """The cells of a batch on the rungs that know a position, and how often they were seen.

    Attributes:
        finest: Shape (L, K): the finest cell of each slot; their count where nothing is shown.
        position: Shape (P · K + 1,): the cell on the rung "position" of every (pair, position),
            -1 for none.
        starts: Shape (K,): on the rung "prefix", the cell of the first prefix down to a position.
        n, c: Shape (G,): records and clicks of the finest cells.
        prefix: Shape (L · K,): the prefix of each slot, if lists are told apart.
        coarser: Shape (prefixes,): the cell on the rung "position" of each prefix.
        examined: a slot, of L · K, of each cell on the rung that is examined.
        pair: Shape (positions,): the pair of each cell on the rung "position".
        whole: whether lists, not prefixes, are examined more or less.
    """

    finest: Ints
    position: Ints
    starts: Ints
    n: Floats
    c: Floats
    prefix: Ints
    coarser: Ints
    examined: Ints
    pair: Ints
    whole: bool = False

    @property
    def position_of(self) -> Ints:
        """Shape (G,): the position of each of the finest cells."""
        slots = np.arange(len(self.n)) if len(self.prefix) else self.examined
        return np.asarray(slots % self.finest.shape[1])

    def by_list(self) -> LogCells:
        """With lists, not prefixes, as what is examined more or less."""
        return self._replace(examined=np.arange(len(self.n)), whole=True)

    def chain(self, strengths: Sequence[float], exposure: Floats, pairs: int) -> RungChain:
        """The rungs down to "position", of slots with these exposures, shape (L, K)."""
        own = exposure.ravel()[self.examined]
        if not len(self.prefix):
            return RungChain((Rung(strengths[0], self.n, self.c, self.pair, pairs, own),))
        of_lists, of_prefixes = (own, 1.0) if self.whole else (1.0, own)
        lists = Rung(strengths[0], self.n, self.c, self.prefix, len(self.coarser), of_lists)
        prefixes = Rung(strengths[1], *lists.climb(), self.coarser, len(self.pair), of_prefixes)
        positions = Rung(strengths[2], *prefixes.climb(), self.pair, pairs)
        return RungChain((lists, prefixes, positions))


@kept
def log_cells(batch: Batch, top: str, reward: str) -> LogCells:
    """The cells of a batch, by the finest rung: "list", or "ip" for positions."""
    k, pairs = batch.depth, batch.pair_count
    shown = batch.lists != EMPTY
    cells = np.flatnonzero(shown)
    slots, cell = numbered(batch.slot.ravel()[cells], pairs * k)
    position = np.full(pairs * k + 1, -1, dtype=np.int32)
    position[slots] = np.arange(len(slots), dtype=np.int32)
    earned = batch.reward(reward)
    value, line = earned.value * batch.n[earned.row], batch.row_list[earned.row]
    none, starts = np.zeros(0, dtype=np.int64), np.zeros(k, dtype=np.int64)
    if top != "list":
        finest = np.full(shown.shape, len(slots))
        finest.ravel()[cells] = cell
        n = sums(finest, np.repeat(batch.list_n, k), len(slots) + 1)[:-1]
        c = sums(finest[line, earned.position], value, len(slots))
        examined = slots % k  # any slot at the same position
        return LogCells(finest, position, starts, n, c, none, none, examined, slots // k)
    finest = np.where(shown, np.arange(shown.size).reshape(shown.shape), shown.size)
    size = batch.prefix.max(axis=0, initial=-1).astype(np.int64) + 1
    starts = np.cumsum(size) - size
    prefix = (batch.prefix + starts).ravel()
    n = (batch.list_n[:, None] * shown).ravel()
    c = sums(line * np.int64(k) + earned.position, value, shown.size)
    count = int(size.sum())
    coarser = value_of_each(prefix[cells], cell, count)
    examined = value_of_each(prefix[cells], cells, count)  # a slot of each prefix
    prefix = prefix.astype(np.int32)
    return LogCells(finest, position, starts, n, c, prefix, coarser, examined, slots // k)


def slot_chain(
    view: View, cells: LogCells, chain: RungChain, slots: Slots, exposure: Floats, base: Floats
) -> SlotChain:
    """The log's chain with slots of candidates on it, and all rates.

    Args:
        view: the batch and its candidates.
        cells: the log's.
        chain: their rungs.
        slots: of candidates.
        exposure: Shape (Q,): of each slot.
        base: Shape (pairs,): the base rates.
    """
    rungs: list[Rung] = []
    coarser, size = slots.pair, len(base)
    of_slots = reversed(_slot_cells(view, cells, slots))
    for rung, (cell, other) in zip(reversed(chain.rungs), of_slots, strict=True):
        new = np.flatnonzero(cell < 0)
        distinct, number = np.unique(other[new], return_inverse=True)
        above, examined = (
            value_of_each(number, values[new], len(distinct)) for values in (coarser, exposure)
        )
        rungs.insert(0, rung.with_unlogged(above, size, examined))
        cell[new] = len(rung.n) + number
        coarser, size = cell, len(rung.n) + len(distinct)
    whole = RungChain(tuple(rungs))
    return SlotChain(chain, whole, whole.rates(base), slots, coarser)


def _slot_cells(view: View, cells: LogCells, slots: Slots) -> list[tuple[Ints, Ints]]:
    """Shape (Q,) each, the finest rung first: the log's cell of each slot, -1 for none.

    And what tells cells from each other that the log never showed.
    """
    batch, policies, k = view.batch, view.policies, slots.position
    pair, depth, width = slots.pair, batch.depth, policies.depth
    known = (pair < batch.pair_count) & (k < depth)
    logged = cells.position[np.where(known, pair * np.int64(depth) + k, -1)].astype(np.int64)
    positions = logged, pair * np.int64(width) + k
    if not len(cells.prefix):
        return [positions]
    lists, listed = policies.lists, slots.listed
    begin, whole = policies.begins[listed, k], policies.begins[listed, -1]
    prefix = np.where(begin < 0, -1, begin + cells.starts[np.minimum(k, depth - 1)])
    return [
        (np.where(whole < 0, -1, whole * np.int64(depth) + k), np.arange(len(k))),
        (prefix, lists.prefix[listed, k] * np.int64(width) + k),
        positions,
    ]
