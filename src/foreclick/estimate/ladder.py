"""The ladder: what candidates earn by rates that climb from fine cells to coarse ones.

The value is Σ_x n_x Σ_g h_g r_g over the candidate's cells, with the rates r that `Ladder` defines.
Strengths given, a rate moves with the counts of its own cell and with the rate of the rung below,
which moves with all of its cells. So a record t moves the estimate by A_g (c_g(t) − r_g n_g(t)),
summed over the cells of the top. A comes down the ladder as rates do. With H the exposure of the
candidate that gets
its rate from a cell, of its own or by backing off,

    A = H / (n + s) + A' s / (n + s).

Below the contexts stands one rate, that of the log. It is a column of its own (the *shared* one),
which records of all contexts move, and every estimate moves with it by its slope.

What shrinkage hides: a cell differs from the rung below with variance r'/s, and what is a cell's
own and shrinkage takes from it is wrong in every log alike. For each click that a cell has more
than the rung below expects, the estimate is off by its *slip*: the candidate's slots miss s/(n + s)
of it, and the rung below takes it for its own. The errors of cells are independent: one error
vector a cell, so that two candidates that show the same are off by the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Batch, Floats, Ints, padded, ratio, sums
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.batches.matching import matched_prefixes
from foreclick.estimate.cells import RewardCounts, group_sums
from foreclick.estimate.columns import Loose, Scored, View, influence
from foreclick.learn.shrinkage import Fitted, borrowed, climb, descend, own_weight, readers
from foreclick.question import Ask

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
        found = [Rung(strengths[0], self.n, self.c, self.prefix, len(self.below))]
        own = exposed.ravel()[self.one]
        found.append(
            Rung(strengths[1], *found[0].climbed(), self.below, len(self.pair), own),
        )
        found.append(Rung(strengths[2], *found[1].climbed(), self.pair, pairs))
        return found


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

    return batch.keep(("ladder cells", top, reward), make)  # type: ignore[return-value]


class LogRungs(NamedTuple):
    """The cells of a batch on every rung.

    Attributes:
        rungs: finest first, down to the contexts.
        cells: those that know a position.
        attraction: Shape (P,): μ of each pair, by which fewer examine what stands below it.
        new_attraction: Shape (X,): μ of what a context never showed.
    """

    rungs: list[Rung]
    cells: Cells
    attraction: Floats
    new_attraction: Floats


def log_rungs(batch: Batch, fit: Fitted, reward: str) -> LogRungs:
    """The cells of a batch, kept with it."""

    def make() -> LogRungs:
        pairs, contexts = batch.pair_count, batch.context_count
        cells = cells_of(batch, fit.ladder.top, reward)
        exposed = p = np.broadcast_to(padded(fit.examined, batch.depth), batch.lists.shape)
        mu, s = [np.zeros(pairs), np.zeros(contexts)], fit.strengths[-2:]
        log = np.zeros(contexts, dtype=np.int64)
        for round_ in range(fit.rounds + 1):
            rungs = cells.rungs(fit.strengths, exposed, pairs)
            rungs.append(Rung(s[0], *rungs[-1].climbed(), batch.pair_context, contexts))
            rungs.append(Rung(s[1], *rungs[-1].climbed(), log, 1))
            if not fit.stopping or round_ == fit.rounds:
                break
            of_context = rungs[-1].rates(np.array([fit.base]))[0]
            mu = [rungs[-2].rates(of_context)[0], of_context]
            exposed = readers(mu[0], batch.lists, fit.stopping) * p
        return LogRungs(rungs, cells, *mu)

    return batch.keep(("ladder rungs", fit, reward), make)  # type: ignore[return-value]


def slot_examination(batch: Batch, fit: Fitted, reward: str) -> Floats:
    """Shape (L, K): e of each slot of the log; that of nothing where nothing is shown."""
    p = padded(fit.examined, batch.depth)
    if not fit.stopping:
        return np.broadcast_to(p, batch.lists.shape)
    return readers(log_rungs(batch, fit, reward).attraction, batch.lists, fit.stopping) * p


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
    found = []
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
        found.append(Path(cell, n, exposed, expected, rate))
        below = rate
    return found[::-1]


def _paths(
    view: View, fit: Fitted, log: LogRungs, rates: list[Floats], base: float, slots: Slots
) -> list[Path]:
    """Where slots stand on each rung."""
    batch, k = view.batch, slots.position
    by_list = fit.ladder.top == "list"
    e = padded(fit.examined, max(view.policies.depth, batch.depth))[k]
    if by_list and fit.stopping:
        lists, mu = view.policies.lists, log.attraction
        most = max(int(lists.pairs.max(initial=-1)) + 1 - len(mu), 0)
        row, column = np.nonzero(lists.pairs >= len(mu))
        owner = value_of_each(lists.pairs[row, column] - len(mu), lists.context[row], most)
        mu = np.concatenate([mu, log.new_attraction[owner]])
        e = e * readers(mu, lists.pairs, fit.stopping)[slots.listed, k]
    fine = places_of(view, log.cells, slots, by_list=by_list)
    item = np.where(slots.pair < batch.pair_count, slots.pair, -1)
    places = Places([*fine.own, item, slots.context], [*fine.other, slots.pair, slots.context])
    return climbed_down(log.rungs, rates, places, e, np.full(len(k), base))


# --- columns --------------------------------------------------------------------------------------


class LogRate(NamedTuple):
    """The click rate that all contexts share: records that reach the log's rung, and its rate."""

    n: float
    rate: float

    def rates(self, log: LogRungs) -> list[tuple[Floats, Floats]]:
        """By rung, shape (G,) each: the rates of cells, and what the rung below expects."""
        found, below = [], np.array([self.rate])
        for rung in reversed(log.rungs):
            found.append(rung.rates(below))
            below = found[-1][0]
        return found[::-1]


def passed_on(batch: Batch, fit: Fitted, reward: str) -> tuple[float, float]:
    """Records and clicks that a batch passes on to the log's rung."""
    n, c = log_rungs(batch, fit, reward).rungs[-1].climbed()
    return float(n[0]), float(c[0])


def score_ladder(
    view: View, asks: list[Ask], fit: Fitted, base: LogRate, *, rows: bool, apart: bool = False
) -> Scored:
    """The columns of a ladder: an ask after the other, the candidates of each side by side.

    Args:
        view: the batch and its candidates.
        asks: metrics of one reward.
        fit: the ladder.
        base: the rate of the log.
        rows: whether ψ of rows is wanted, and with it the last column, the rate of the log.
        apart: whether the answer has several parts, so that facts are wanted by context.
    """
    batch, reward = view.batch, asks[0].metric.reward
    log = log_rungs(batch, fit, reward)
    settled = base.rates(log)
    count = batch.context_count
    depth = min(max(ask.metric.depth for ask in asks), view.policies.depth)
    slots = slots_of(view, depth, by_list=fit.ladder.top == "list")
    paths = _paths(view, fit, log, [rate for rate, _ in settled], base.rate, slots)
    theta = np.stack([padded(ask.metric.theta, depth) for ask in asks])[:, slots.position]
    mass = slots.mass * batch.context_n[slots.context]
    width = len(asks) * view.count
    h = (theta[:, None] * mass).reshape(width, len(slots.pair))  # (E, Q)
    earned, unseen = h * paths[0].rate, paths[-2].n <= 0
    left, reach, sources, reached = np.ones(h.shape[1]), h, [], []
    for rung, path in zip(log.rungs, paths, strict=True):
        cells, first, number = np.unique(path.cell, return_index=True, return_inverse=True)
        reached.append((cells, first, group_sums(number.ravel(), reach, len(cells))))
        passed = borrowed(path.n, rung.s)
        sources.append(left * (1 - passed))
        left = left * passed
        reach = reach * (passed * path.exposed)
    sources.append(left)
    facts = {
        "mass": h,
        "covered": np.where(unseen, 0.0, h),
        "borrowed": np.where(unseen, earned, 0.0),
        "rungs": np.stack([h * source for source in sources]),
    }
    by_context = {k: group_sums(slots.context, each, count) for k, each in facts.items()}
    found = Scored(group_sums(slots.context, earned, count), by_context)
    if not rows:
        return found
    width += 1
    found.slope = group_sums(slots.context, reach, count)[None]
    factor = np.zeros((width, 1))
    factor[-1, 0] = 1 / base.n if base.n > 0 else 0.0
    owner = None  # the context of each cell of the rung below; of the log, none
    for j in reversed(range(len(log.rungs))):
        rung, path, (cells, first, used) = log.rungs[j], paths[j], reached[j]
        logged = int(np.searchsorted(cells, len(rung.n)))
        mine, n, lent = cells[:logged], rung.n, borrowed(rung.n, rung.s)
        if not math.isinf(rung.s):
            error = borrowed(path.n[first], rung.s) * np.sqrt(path.expected[first] / rung.s)
            slip = np.zeros((width, len(cells)))
            slip[:-1] = used
            slip[:, :logged] -= factor[:, rung.below[mine]] * n[mine]
            found.loose.append(Loose(slots.context[first], slip * error))
            # Where the candidate shows nothing, slip is - n times the factor of the cell below.
            rest = (n * lent) ** 2 * settled[j][1] / rung.s
            rest[mine] = 0.0
            rest = np.sqrt(sums(rung.below, rest, rung.size))
            found.loose.append(Loose(owner, factor * rest))
        last = np.zeros((width, len(n) + (j == 0)))  # the top's ends with no cell
        np.take(factor, rung.below, axis=1, out=last[:, : len(n)], mode="clip")
        last[:, : len(n)] *= lent
        last[:-1, mine] += used[:, :logged] * own_weight(n[mine], rung.s)
        factor = last
        owner = np.arange(len(n)) if owner is None else owner[rung.below]
    n, a, last = log.rungs[0].n, factor[:-1, :-1], factor[-1, :-1]
    common = np.zeros((width, count))
    common[:-1] = ratio(found.value, batch.context_n)
    rate, expected = np.append(settled[0][0], 0.0), np.zeros((width, len(log.cells.slot)))
    for own, values in zip(expected, factor, strict=True):
        cost = values * rate
        for column in log.cells.slot.T:
            np.add(own, cost[column], out=own)
    counted = [RewardCounts(reward, batch.reward(reward))] * width
    found.psi = influence(batch, batch.row_list, log.cells.slot, common, factor, expected, counted)
    # Σ n A and Σ n A² over the top's cells, where A still lacks slope × that of the shared rate.
    weighted = a * n
    for name, one, other in (
        ("weighted", weighted, None),
        ("squared", weighted, a),
        ("crossed", weighted, last),
        ("last weighted", n[None], last),
        ("last squared", n[None], last**2),
    ):
        if apart and owner is not None:
            product = one if other is None else one * other
            found.facts[name] = group_sums(owner, product, count)
        elif other is None:
            found.facts[name] = one.sum(axis=1)[:, None]
        else:
            found.facts[name] = np.einsum("eg,eg->e", one, np.broadcast_to(other, one.shape))[
                :, None
            ]
    return found


def ladder_worth(view: View, asks: list[Ask], fit: Fitted, base: LogRate) -> Floats:
    """Shape (A, M): the value of each of the candidates' lists, Σ_k θ_k r."""
    log = log_rungs(view.batch, fit, asks[0].metric.reward)
    depth = min(max(ask.metric.depth for ask in asks), view.policies.depth)
    slots = slots_of(view, depth, by_list=True)
    rates = [rate for rate, _ in base.rates(log)]
    rate = _paths(view, fit, log, rates, base.rate, slots)[0].rate
    theta = np.stack([padded(ask.metric.theta, depth) for ask in asks])[:, slots.position]
    return group_sums(slots.listed, rate * theta, len(view.policies.lists.mass))
