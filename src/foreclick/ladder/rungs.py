"""The ladder's cells: those of the log, from fine ones to coarse ones, and those of candidates.

Counts climb from a cell to the one below it, rates come back down; `shrinkage` has the formula, and
`prior` what stands below the rungs that know a position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import EMPTY, Batch, Bools, Floats, Ints, padded, sums
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.batches.candidate import matched_prefixes
from foreclick.estimation.columns import View
from foreclick.estimation.slots import group_sums
from foreclick.ladder.coefficients import Pairs, Prior
from foreclick.ladder.features import production_words, seen, steps
from foreclick.ladder.shrinkage import borrowed, climb, descend, own_weight
from foreclick.logs import ITEM, N
from foreclick.policies.base import PolicyTable

ITEM_1 = f"{ITEM}_1"

# --- the log's cells ------------------------------------------------------------------------------


class Rung(NamedTuple):
    """The log's cells of one rung.

    Attributes:
        s: the strength; shape (G,) if cells have their own.
        n, c: Shape (G,): records and clicks.
        below: Shape (G,): the cell of the next rung that each backs off to.
        size: how many cells the next rung has.
        exposed: Shape (G,) or 1: how much a record of a cell exposes the cell below.
    """

    s: Any
    n: Floats
    c: Floats
    below: Ints
    size: int
    exposed: Floats | float = 1.0

    def climbed(self) -> tuple[Floats, Floats]:
        """Records and clicks of the cells of the next rung."""
        return climb(self.n, self.c, self.s, self.below, self.size, self.exposed)

    def rates(self, below: Floats) -> tuple[Floats, Floats]:
        """Shape (G,) each: the rates, and what the rung below, of these rates, expects."""
        expected = below[self.below] * self.exposed
        return descend(self.n, self.c, self.s, expected), expected


class Cells(NamedTuple):
    """The cells of a batch on the rungs that know a position, and how often they were seen.

    Attributes:
        slot: Shape (L, K): the top's cell of each slot, one beyond the last where nothing is shown.
        position: Shape (P · K + 1,): the cell on the rung "position" of every slot, -1 for none.
        starts: Shape (K,): on the rung "prefix", the cell of the first prefix down to a position.
        n, c: Shape (G,): records and clicks of the top's cells.
        prefix: Shape (L · K,): the prefix of each slot; below it, and shape (prefixes,), the cell
            on the rung "position" of each.
        one: a slot, of L · K, of each cell that examination is of.
        pair: Shape (positions,): the pair of each cell on the rung "position".
    """

    slot: Ints
    position: Ints
    starts: Ints
    n: Floats
    c: Floats
    prefix: Ints
    below: Ints
    one: Ints
    pair: Ints

    def rungs(self, strengths: Sequence[float], exposed: Floats, pairs: int) -> list[Rung]:
        """The rungs down to "position", of slots that are examined so much, shape (L, K)."""
        if not len(self.prefix):
            own = exposed.ravel()[self.one]
            return [Rung(strengths[0], self.n, self.c, self.pair, pairs, own)]
        rungs = [Rung(strengths[0], self.n, self.c, self.prefix, len(self.below))]
        own = exposed.ravel()[self.one]
        rungs.append(
            Rung(strengths[1], *rungs[0].climbed(), self.below, len(self.pair), own),
        )
        rungs.append(Rung(strengths[2], *rungs[1].climbed(), self.pair, pairs))
        return rungs


def cells_of(batch: Batch, top: str, reward: str) -> Cells:
    """The cells of a batch, kept with it."""

    def make() -> Cells:
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
            slot = np.full(shown.shape, len(slots))
            slot.ravel()[cells] = cell
            n = sums(slot, np.repeat(batch.list_n, k), len(slots) + 1)[:-1]
            c = sums(slot[line, earned.position], value, len(slots))
            one = slots % k  # any slot at the same position
            return Cells(slot, position, starts, n, c, none, none, one, slots // k)
        slot = np.where(shown, np.arange(shown.size).reshape(shown.shape), shown.size)
        size = batch.prefix.max(axis=0, initial=-1).astype(np.int64) + 1
        starts = np.cumsum(size) - size
        prefix = (batch.prefix + starts).ravel()
        n = (batch.list_n[:, None] * shown).ravel()
        c = sums(line * np.int64(k) + earned.position, value, shown.size)
        count = int(size.sum())
        below = value_of_each(prefix[cells], cell, count)
        one = value_of_each(prefix[cells], cells, count)  # a slot of each prefix
        return Cells(slot, position, starts, n, c, prefix.astype(np.int32), below, one, slots // k)

    return batch.cached(("ladder cells", top, reward), make)


# --- the candidates' slots ------------------------------------------------------------------------


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


def slots_of(view: View, depth: int, *, by_list: bool) -> Slots:
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


class Path(NamedTuple):
    """Where slots of candidates stand on one rung.

    Attributes:
        cell: Shape (Q,): the log's cell; from its count on for cells that the log never showed.
        n: Shape (Q,): records of the cell.
        exposed: Shape (Q,) or 1: how much a record exposes the cell below.
        expected: Shape (Q,): what the rung below expects.
        rate: Shape (Q,).
    """

    cell: Ints
    n: Floats
    exposed: Floats | float
    expected: Floats
    rate: Floats


class Places(NamedTuple):
    """The cells of slots on the rungs that know a position, finest first.

    Attributes:
        own: Shape (Q,) each: the log's cell; -1 for one that the log never showed.
        other: Shape (Q,) each: what tells such cells from each other.
    """

    own: list[Ints]
    other: list[Ints]


def places_of(view: View, cells: Cells, slots: Slots, *, by_list: bool) -> Places:
    """Where slots of candidates stand."""
    batch, policies, k = view.batch, view.policies, slots.position
    pair, depth, width = slots.pair, batch.depth, policies.depth
    logged = (pair < batch.pair_count) & (k < depth)
    own: list[Ints] = [cells.position[np.where(logged, pair * np.int64(depth) + k, -1)]]
    other: list[Ints] = [pair * np.int64(width) + k]
    if by_list:
        lists, listed = policies.lists, slots.listed
        begins = matched_prefixes(batch, lists, width)
        begin, whole = begins[listed, k], begins[listed, -1]
        start = cells.starts[np.minimum(k, depth - 1)]
        fine = np.where(whole < 0, -1, whole * depth + k), np.where(begin < 0, -1, begin + start)
        own = [*fine, *own]
        other = [np.arange(len(k)), lists.prefix[listed, k] * np.int64(width) + k, *other]
    return Places(own, other)


def climbed_down(
    rungs: Sequence[Rung], rates: Sequence[Floats], places: Places, e: Floats, below: Floats
) -> list[Path]:
    """Where slots stand on each rung, and with which rate.

    Args:
        rungs: the log's.
        rates: Shape (G,) by rung: the rates of its cells.
        places: the cells of the slots.
        e: Shape (Q,): how much each slot is examined.
        below: Shape (Q,): the rate that the coarsest of these rungs leans on.
    """
    paths = []
    for j in reversed(range(len(rungs))):
        rung, fresh = rungs[j], places.own[j] < 0
        cell = np.where(fresh, 0, places.own[j])
        exposed: Floats | float = 1.0
        if isinstance(rung.exposed, np.ndarray):
            exposed = np.where(fresh, e, rung.exposed[cell] if len(rung.n) else 0.0)
        expected = below * exposed
        n, rate = np.zeros(len(cell)), expected
        if len(rung.n):
            n = np.where(fresh, 0.0, rung.n[cell])
            rate = np.where(fresh, expected, rates[j][cell])
        if fresh.any():
            new = np.unique(places.other[j][fresh], return_inverse=True)[1].ravel()
            cell[fresh] = len(rung.n) + new
        paths.append(Path(cell, n, exposed, expected, rate))
        below = rate
    return paths[::-1]


# --- what columns take from cells -----------------------------------------------------------------


def rates_of(rungs: Sequence[Rung], below: Floats) -> list[tuple[Floats, Floats]]:
    """Shape (G,) each, by rung: the rates of the log's cells, and what was expected of them."""
    found = []
    for rung in reversed(rungs):
        found.append(rung.rates(below))
        below = found[-1][0]
    return found[::-1]


def pair_of(rungs: Sequence[Rung]) -> Ints:
    """Shape (G,): the pair of each cell of the finest of some rungs."""
    at = rungs[0].below
    for rung in rungs[1:]:
        at = rung.below[at]
    return at


def passed_down(
    rungs: Sequence[Rung], paths: Sequence[Path], pair: Ints, shown: Floats, own: Floats, size: int
) -> tuple[list[Floats], Floats]:
    """Shape (E, cells) by rung, and (E, size) of pairs: how much their rates count in columns.

    Args:
        rungs: the log's, finest first.
        paths: where slots of candidates stand on them.
        pair: Shape (Q,): the pair of each slot.
        shown: Shape (E, Q): how much the rates of slots count.
        own: Shape (E, G): how much those of the log's finest cells do, beside.
        size: how many pairs there are.
    """
    used = []
    for rung, path in zip(rungs, paths, strict=True):
        cells = int(max(path.cell.max(initial=-1) + 1, len(rung.n)))
        used.append(group_sums(path.cell, shown, cells))
        used[-1][:, : len(rung.n)] += own
        shown = shown * (borrowed(path.n, rung.s) * path.exposed)
        passed = own * (borrowed(rung.n, rung.s) * rung.exposed)
        own = group_sums(rung.below, passed, rung.size)
    found = group_sums(pair, shown, size)
    found[:, : own.shape[1]] += own
    return used, found


def moved_up(rung: Rung, used: Floats, passed_on: Floats) -> Floats:
    """Shape (E, G): how far a click in each cell moves columns; the last ones do not use the rung.

    Args:
        rung: the log's cells.
        used: how much their rates count, by `passed_down`.
        passed_on: Shape (E, G): how far a click in the cell below moves columns.
    """
    found = passed_on * borrowed(rung.n, rung.s) if np.isfinite(rung.s) else passed_on
    found[: len(used)] += used[:, : len(rung.n)] * own_weight(rung.n, rung.s)
    return found


def errors_of(
    rung: Rung,
    path: Path,
    used: Floats,
    passed_on: Floats,
    expected: Floats,
    slot_context: Ints,
    cell_context: Ints,
) -> tuple[Floats, Floats, Ints]:
    """How far columns are off if cells are not what the rung below expects of them.

    Args:
        rung: the log's cells.
        path: those of candidates.
        used: as for `moved_up`.
        passed_on: as for `moved_up`.
        expected: Shape (G,): what is expected of the log's cells.
        slot_context: Shape (Q,): the contexts of slots.
        cell_context: Shape (G,): those of the log's cells.

    Returns:
        Shape (E, cells): by how much for a difference of 1; shape (cells,): what is expected, and
        the context.
    """
    size, cells = len(rung.n), used.shape[1]
    found = np.zeros((len(passed_on), cells))
    found[: len(used)] = used
    found[:, :size] -= passed_on * rung.n
    found[:, :size] *= borrowed(rung.n, rung.s)
    due, where = np.zeros(cells), np.zeros(cells, dtype=np.int64)
    due[path.cell], due[:size] = path.expected, expected
    where[path.cell], where[:size] = slot_context, cell_context
    return found, due, where


# --- what the prior sees of a batch ---------------------------------------------------------------


def candidate_words(view: View) -> Floats:
    """Shape (C, P + new, 2): each candidate's word on every pair that any of them shows."""
    k, each = view.batch.depth, [member.slots for member in view.members]
    last = max(int(slots.pair.max(initial=-1)) for slots in each)
    words = np.zeros((view.count, max(last + 1, view.batch.pair_count), 2))
    for word, slots in zip(words, each, strict=True):
        mass = slots.mass[:, :k]
        word[slots.pair] = np.column_stack([mass.sum(axis=1), mass @ steps(k)[: mass.shape[1]]])
    return words


def used_words_of(view: View, words: Floats, fit: Prior) -> Floats:
    """Shape (V, P + new, 2): the candidates' words that count; last, what earlier clicks say."""
    used = words[list(fit.distinct)]
    if fit.earlier is None:
        return used
    return np.concatenate([used, _earlier_word(view, fit.earlier.rates, words.shape[1])[None]])


def _earlier_word(view: View, rates: PolicyTable, size: int) -> Floats:
    """Shape (size, 2): whether a pair was shown before the log, and the rate that it had then."""
    coding = view.members[0].coding
    table, context = rates.within(coding.view)
    item = pc.index_in(table[ITEM_1].combine_chunks(), value_set=coding.view.values).fill_null(-1)
    pair = coding.pairs(context, np.asarray(item), add=False)
    here = np.flatnonzero((pair >= 0) & (pair < size))
    word = np.zeros((size, 2))
    word[pair[here], 0] = 1.0
    word[pair[here], 1] = np.asarray(table[N])[here]
    return word


def examined(view: View, fit: Prior) -> tuple[pa.Array, Floats]:
    """The items of all pairs, and how often production and candidates have these examined.

    A candidate has what production has in contexts that it does not know.
    """
    batch, coding, slots = view.batch, view.members[0].coding, view.policies.slots
    words, p = candidate_words(view), fit.theta.p
    found = np.zeros((1 + len(fit.distinct), words.shape[1]))
    found[:, : batch.pair_count] = batch.shown @ p
    for own, c in zip(found[1:], fit.distinct, strict=True):
        own[: batch.pair_count] *= ~view.known[:, c][batch.pair_context]
        mass = view.policies.slot_mass[c, :, : len(p)]
        own[slots.pair] += mass @ p[: mass.shape[1]] * batch.context_n[slots.context]
    items = coding.items_of(np.arange(words.shape[1]))
    return coding.view.values.take(pa.array(items)), found


def overlap(view: View) -> Floats:
    """Shape (2, C, K): what candidates show at each rank, and which part production has, too."""
    batch, k = view.batch, view.batch.depth
    production = np.append(production_words(batch)[:, 0], 0.0)
    shown = np.zeros((2, view.count, k))
    for c, member in enumerate(view.members):
        slots = member.slots
        share = production[np.minimum(slots.pair, batch.pair_count)]
        mass = slots.mass[:, :k] * (batch.context_n > 0)[slots.context][:, None]
        shown[:, c, : mass.shape[1]] = mass.sum(axis=0), share @ mass
    return shown


def pairs_of(batch: Batch, words: Floats, fit: Prior, taken: Bools, *, keep: bool = False) -> Pairs:
    """The pairs of the contexts that take part, as the fit sees them.

    What does not depend on the candidates' words is kept with the batch, if that is wanted.
    """
    upper = np.isfinite(fit.strengths).any()
    p = fit.theta.p.tobytes() if upper else b""  # by which upper rungs pass on
    key = "pairs", fit.reward, fit.strengths, p, fit.stopping, fit.base, taken.tobytes()
    pairs: Pairs | None = batch.cache.get(key)
    if pairs is None:
        sub = batch
        if not taken.all():
            sub = batch.cached(("taken", taken.tobytes()), lambda: batch.only(taken))
        of = seen(sub, dated=fit.dated)
        pairs = Pairs(of, fit.reward, fit.unit, taken, *fit_exposure(batch, fit))
    if keep:
        batch.cache[key] = pairs
    return pairs.with_words(words[:, : batch.pair_count])


def fit_exposure(batch: Batch, fit: Prior) -> tuple[Floats | None, Floats | None]:
    """Shape (L, K): of each slot, readers times what upper rungs pass on, and that alone."""
    reading = fit.readers_of(batch)
    if np.isinf(fit.strengths).all():
        return reading, None
    rungs = upper_rungs(batch, fit)
    cells = cells_of(batch, fit.top, fit.reward)
    passed = borrowed(rungs[0].n, rungs[0].s)
    at: Any = rungs[0].below
    for rung in rungs[1:]:
        passed = passed * borrowed(rung.n, rung.s)[at]
        at = rung.below[at]
    passed = np.append(passed, 0.0)[cells.slot]
    return passed if reading is None else passed * reading, passed


def upper_rungs(batch: Batch, fit: Prior) -> list[Rung]:
    """The rungs that know a position."""
    p = padded(tuple(fit.theta.p), batch.depth)
    reading = fit.readers_of(batch)
    exposed = np.broadcast_to(p, batch.lists.shape) if reading is None else reading * p
    cells = cells_of(batch, fit.top, fit.reward)
    cells = cells._replace(c=cells.c / fit.unit)
    return cells.rungs(fit.strengths, exposed, batch.pair_count)
