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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from foreclick.batches import EMPTY, Batch, Floats, Ints, sums
from foreclick.batches.arrays import numbered, taken, value_of_each
from foreclick.estimation.columns import ModelError, View
from foreclick.estimation.slots import group_sums
from foreclick.kept import kept
from foreclick.ladder.shrinkage import borrowed, climb, descend, own_weight

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
        """Whether its cells have rates of their own, on a rung of one strength."""
        return bool(np.isfinite(self.strength))

    def borrowed(self) -> Floats:
        """Shape (G,): s / (n + s), the share of each rate that the coarser cell decides."""
        return borrowed(self.n, self.strength)

    def climb(self) -> tuple[Floats, Floats]:
        """Records and clicks of the cells of the next rung."""
        return climb(self.n, self.c, self.strength, self.coarser, self.size, self.exposure)

    def descend(self, coarser: Floats) -> CellRates:
        """The rates of its cells, given those of the next rung."""
        expected = coarser[self.coarser] * self.exposure
        return CellRates(descend(self.n, self.c, self.strength, expected), expected)

    def gradient(self, weight: Floats, passed: Floats) -> Floats:
        """Shape (E + N, G): A, how far a click in each cell moves columns.

        Args:
            weight: Shape (E, cells): how much columns count the rates of cells, the log's first.
            passed: Shape (E + N, G): A', how far a click in the coarser cell moves columns.
        """
        found = passed * self.borrowed() if self.has_rates else passed
        found[: len(weight)] += weight[:, : len(self.n)] * own_weight(self.n, self.strength)
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


class SlotRung(NamedTuple):
    """The cells of slots on one rung.

    Attributes:
        cell: Shape (Q,): the log's cell; from its count on for cells that the log never showed.
        cells: how many there are, with those.
        n: Shape (Q,): records of the cell.
        exposure: Shape (Q,) or 1: how much a record exposes the coarser cell.
        rate, expected: Shape (Q,): as of the log's cells.
    """

    cell: Ints
    cells: int
    n: Floats
    exposure: Floats | float
    rate: Floats
    expected: Floats


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
    """Slots of candidates on the log's chain.

    Attributes:
        chain: the log's cells; `rates`: theirs.
        slots: of candidates.
        rungs: their cells, the finest first.
    """

    chain: RungChain
    rates: tuple[CellRates, ...]
    slots: Slots
    rungs: tuple[SlotRung, ...]

    @property
    def rate(self) -> Floats:
        """Shape (Q,): the rate of each slot."""
        return self.rungs[0].rate

    def by_cell(self, number: int, of_slots: NDArray[S], of_log: NDArray[S]) -> NDArray[S]:
        """Shape (cells,): values of the cells of a rung, as slots and the log's cells have them."""
        rung = self.rungs[number]
        found = np.zeros(rung.cells, dtype=of_slots.dtype)
        found[rung.cell], found[: len(of_log)] = of_slots, of_log
        return found

    def weights(self, shown: Floats, logged: Floats, pairs: int) -> Weights:
        """How much columns count the rates of all cells that their slots rest on.

        Args:
            shown: Shape (E, Q): how much they count the rates of slots.
            logged: Shape (E, G): the same of the log's finest cells.
            pairs: how many there are.
        """
        found = []
        for rung, slot in zip(self.chain.rungs, self.rungs, strict=True):
            found.append(group_sums(slot.cell, shown, slot.cells))
            found[-1][:, : len(rung.n)] += logged
            shown = shown * (borrowed(slot.n, rung.strength) * slot.exposure)
            passed = logged * (rung.borrowed() * rung.exposure)
            logged = group_sums(rung.coarser, passed, rung.size)
        base = group_sums(self.slots.pair, shown, pairs)
        base[:, : logged.shape[1]] += logged
        return Weights(tuple(found), base)

    def gradient(
        self, weights: Weights, by_base: Floats, context: Ints, dispersion: float = 1.0
    ) -> ChainGradient:
        """How far a click in each cell moves columns, from coarse cells to fine ones.

        Args:
            weights: of E columns.
            by_base: Shape (E + N, pairs): how far a click on a pair moves them, and N others.
            context: Shape (pairs,): the context of each.
            dispersion: φ, the variance of a click over its mean.
        """
        gradient, unexplained, width = by_base, [], len(weights.base)
        by_exposure = np.zeros((width, 0))
        where: Ints = np.zeros(0, dtype=np.int64)
        for j, rung in reversed(list(enumerate(self.chain.rungs))):
            passed, owner = taken(gradient, rung.coarser), context[self.chain.base(j)]
            owner = self.by_cell(j, self.slots.context, owner)
            expected = self.by_cell(j, self.rungs[j].expected, self.rates[j].expected)
            # A rung without rates of its own has no model errors; its exposure may matter.
            off = self.unexplained(j, weights, passed if rung.has_rates else passed[:width])
            if rung.has_rates:
                error = off * np.sqrt(dispersion * expected / rung.strength)
                unexplained.append(ModelError(owner, error))
            if j == self.chain.examined:
                by_exposure, where = off[:width] * expected, owner
            gradient = rung.gradient(weights.rungs[j], passed)
        return ChainGradient(gradient, by_exposure, where, unexplained)

    def unexplained(self, number: int, weights: Weights, passed: Floats) -> Floats:
        """Shape (E, cells): (h − A' n) s / (n + s), the derivative of columns by errors of cells.

        The error of a cell is its rate minus what its coarser cell expects of it.

        Args:
            number: of the rung.
            weights: h.
            passed: Shape (E, G): A'.
        """
        rung, weight = self.chain.rungs[number], weights.rungs[number]
        off = np.zeros((len(passed), weight.shape[1]))
        off[: len(weight)] = weight
        own = off[:, : len(rung.n)]
        own -= passed * rung.n
        own *= rung.borrowed()
        return off


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

    @property
    def position_of(self) -> Ints:
        """Shape (G,): the position of each of the finest cells."""
        slots = np.arange(len(self.n)) if len(self.prefix) else self.examined
        return np.asarray(slots % self.finest.shape[1])

    def chain(self, strengths: Sequence[float], exposure: Floats, pairs: int) -> RungChain:
        """The rungs down to "position", of slots with these exposures, shape (L, K)."""
        own = exposure.ravel()[self.examined]
        if not len(self.prefix):
            return RungChain((Rung(strengths[0], self.n, self.c, self.pair, pairs, own),))
        lists = Rung(strengths[0], self.n, self.c, self.prefix, len(self.coarser))
        prefixes = Rung(strengths[1], *lists.climb(), self.coarser, len(self.pair), own)
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


class SlotCells(NamedTuple):
    """The cells of slots on the rungs that know a position, finest first.

    Attributes:
        logged: Shape (Q,) each: the log's cell; -1 for one that the log never showed.
        other: Shape (Q,) each: what tells such cells from each other.
    """

    logged: list[Ints]
    other: list[Ints]


def slot_cells(view: View, cells: LogCells, slots: Slots, *, by_list: bool) -> SlotCells:
    """The cells that slots of candidates belong to."""
    batch, policies, k = view.batch, view.policies, slots.position
    pair, depth, width = slots.pair, batch.depth, policies.depth
    known = (pair < batch.pair_count) & (k < depth)
    logged: list[Ints] = [cells.position[np.where(known, pair * np.int64(depth) + k, -1)]]
    other: list[Ints] = [pair * np.int64(width) + k]
    if by_list:
        lists, listed = policies.lists, slots.listed
        begin, whole = policies.begins[listed, k], policies.begins[listed, -1]
        start = cells.starts[np.minimum(k, depth - 1)]
        fine = np.where(whole < 0, -1, whole * depth + k), np.where(begin < 0, -1, begin + start)
        logged = [*fine, *logged]
        other = [np.arange(len(k)), lists.prefix[listed, k] * np.int64(width) + k, *other]
    return SlotCells(logged, other)


def slot_chain(
    chain: RungChain, slots: Slots, cells: SlotCells, exposure: Floats, base: Floats
) -> SlotChain:
    """Slots of candidates on a chain, with their rates.

    Args:
        chain: the log's.
        slots: of candidates.
        cells: theirs.
        exposure: Shape (Q,): of each slot.
        base: Shape (pairs,): the base rates.
    """
    rates, rate, found = chain.rates(base), base[slots.pair], []
    for j in reversed(range(len(chain.rungs))):
        rung, new = chain.rungs[j], cells.logged[j] < 0
        cell = np.where(new, 0, cells.logged[j])
        e: Floats | float = 1.0
        if isinstance(rung.exposure, np.ndarray):
            e = np.where(new, exposure, rung.exposure[cell] if len(rung.n) else 0.0)
        expected = rate * e
        n, rate = np.zeros(len(cell)), expected
        if len(rung.n):
            n = np.where(new, 0.0, rung.n[cell])
            rate = np.where(new, expected, rates[j].rate[cell])
        count = len(rung.n)
        if new.any():
            distinct, number = np.unique(cells.other[j][new], return_inverse=True)
            cell[new] = count + number.ravel()
            count += len(distinct)
        found.append(SlotRung(cell, count, n, e, rate, expected))
    return SlotChain(chain, rates, slots, tuple(found[::-1]))
