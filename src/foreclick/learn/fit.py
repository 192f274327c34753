"""What a ladder learns of a log as a whole: strengths of its rungs, examination, and κ.

All are a few numbers that contexts share, so a sample of contexts is enough. Strengths and κ are
those that predict each part of the sample best from the others, by squared error of clicks. Parts
are periods, if there are enough; else buckets of units, if there are any; else every list, if there
are thirty or more; and what a list is worth that was seen before, the strength of the top, is then
learnt by leaving out every single record.

The error is a quadratic function of the predicted rates, Σ α r² + β r over cells and parts, and a
rate is linear in the rate it borrows from. So the error climbs the ladder together with the counts,
as coefficients α' and β' of the rates below, and a new strength of one rung costs nothing above it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from foreclick.batches import (
    EMPTY,
    Batch,
    Batches,
    Bools,
    Candidate,
    Cluster,
    Coding,
    Floats,
    Ints,
    batches_of,
    context_draws,
    only_contexts,
    ratio,
    sums,
)
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.estimators import Ladder
from foreclick.learn.places import examination_curve
from foreclick.learn.shrinkage import Fitted, borrowed, climb, descend, own_weight, readers
from foreclick.models import ClickModel
from foreclick.policies import Policy
from foreclick.progress import say
from foreclick.tallies.base import FEW_PERIODS, Tally

SAMPLE = 15_000
"""Lists, each in each part, that strengths are learnt from: more hardly change them."""

PARTS = 10
"""Parts that periods or buckets of units make up, at most."""

MOST_ROUNDS = 20
"""Rounds in which rates of items and examination are found, at most."""

STOPPING = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0)
"""The grid of κ."""

_GUESS = {"list": 1000.0, "prefix": 1000.0, "position": 300.0, "item": 10.0, "context": 100.0}
_GRID: Floats = np.array([0.1 * 10 ** (j / 3) for j in range(19)])  # from .1 to 100,000
_MANY_LISTS = 30  # fewer say too little of each other to learn strengths from
_USUAL_STOPPING = 0.6  # where the search begins
_ROUNDS = 2
_TIE = 1e-6  # a loss that is smaller by less predicts no better
_SETTLED = 2e-3  # examination that changes by less in a round is found
_STEEPEST = 3.0  # no position is examined more than this, by the first one's measure


def fitted(
    tally: Tally, ladder: Ladder, reward: str, depth: int = 0, taken: list[Bools] | None = None
) -> Fitted:
    """The ladder with its strengths and examination, learnt from a sample of contexts.

    Args:
        tally: the log.
        ladder: with or without strengths and examination.
        reward: the reward whose rates are estimated.
        depth: how deep a given examination is to reach; a learnt one ends where the log's lists
            do, and is 0 further down.
        taken: Shape (X,) by batch: the contexts that take part; None for all.
    """
    given = None
    if ladder.examination is not None:
        depth = max(depth, tally.shape.depth)
        given = np.array(ClickModel(ladder.name, (), ladder.examination).examined(depth))
    if ladder.strengths is not None and given is not None and ladder.stopping == 0:
        return Fitted(ladder, ladder.strengths, tuple(given.tolist()))
    if taken is not None:
        some = only_contexts(batches_of(tally), taken)
        return learnt(ladder, _sample(some, reward), given)
    key = "ladder", tally.stored, ladder, reward, None if given is None else tuple(given)
    if key not in tally.learnt:
        say(f"Learning {ladder.name} from a sample of contexts")
        tally.learnt[key] = learnt(ladder, sampled(tally, reward), given)
    return cast("Fitted", tally.learnt[key])


def taken_contexts(tally: Tally, policies: Sequence[Policy]) -> list[Bools] | None:
    """Shape (X,) by batch: the contexts that all policies know; None if these are all, or none."""
    taken = []
    for batch in batches_of(tally):
        coding = Coding(batch, 1)
        known = [Candidate(coding, policy).known for policy in policies]
        taken.append(np.logical_and.reduce(known))
    return None if all(each.all() for each in taken) or not any(map(np.any, taken)) else taken


# --- the sample -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sample:
    """Some contexts of a log: a row for each list in each part.

    Sizes: G rows, L lists, K positions. Numbers need not be consecutive.

    Attributes:
        lists: Shape (L, K): the pair of each slot, `EMPTY` where nothing is shown.
        prefix: Shape (L, K): the number of the list's beginning down to each position.
        context: Shape (L,).
        row_list: Shape (G,).
        part: Shape (G,).
        n: Shape (G,): records.
        clicks: Shape (G, K): summed rewards.
        times: Shape (G,): how many parts are like this one.
        dated: whether parts are periods.
    """

    lists: Ints
    prefix: Ints
    context: Ints
    row_list: Ints
    part: Ints
    n: Floats
    clicks: Floats
    times: Floats
    dated: bool = False

    @cached_property
    def curve(self) -> Floats:
        """Shape (K,): how much each position is examined, by the items of the sample that moved."""
        return examination_curve(*sample_counts(self))

    def by_list(self) -> Sample:
        """The same records; every list is a part."""
        n, clicks = self.n * self.times, self.clicks * self.times[:, None]
        ones = np.ones(len(n))
        return replace(self, part=self.row_list, n=n, clicks=clicks, times=ones)


def sampled(tally: Tally, reward: str) -> Sample:
    """Contexts with about `SAMPLE` lists, or all of a small log; kept with it."""
    key = "ladder sample", tally.stored, reward
    if key not in tally.learnt:
        tally.learnt[key] = _sample(batches_of(tally), reward)
    return cast("Sample", tally.learnt[key])


def _sample(batches: Batches, reward: str) -> Sample:
    periods = batches.codebook.periods
    apart: Cluster | None = "unit" if batches.shape.unit else None
    if periods is not None and periods.known >= FEW_PERIODS:
        apart = "period"
    size = sum(len(_rows(batch, np.arange(len(batch.n)), reward, apart)[0]) for batch in batches)
    share, draws = SAMPLE / max(size, 1), None
    while True:
        if share < 1 and draws is None:
            draws = context_draws(batches, reward)
        found: list[Sample] = []
        before = dict.fromkeys(("list", "pair", "context", "part"), 0)
        for number, batch in enumerate(batches):
            drawn: Bools = np.ones(batch.context_count, dtype=np.bool_)
            if draws is not None and share < 1:
                drawn = draws[number] < share
            if drawn.any():
                found.append(_of_batch(batch, drawn, reward, apart, before))
            before["pair"] += batch.pair_count
            before["context"] += batch.context_count
        rows = sum(len(each.n) for each in found)
        if rows and (share >= 1 or rows >= SAMPLE / 20):
            break
        if share >= 1:
            raise ValueError("a log without records")
        share *= 4  # a few contexts may have most of the log
    names = [name for name in Sample.__dataclass_fields__ if name != "dated"]
    columns = {name: np.concatenate([getattr(s, name) for s in found]) for name in names}
    return Sample(**columns, dated=apart == "period")


def _of_batch(
    batch: Batch, drawn: Bools, reward: str, apart: Cluster | None, before: dict[str, int]
) -> Sample:
    """The drawn contexts of a batch; numbers go on from those of the batches before it."""
    inside = drawn[batch.list_context]
    number = np.cumsum(inside) - 1
    rows = np.flatnonzero(inside[batch.row_list])
    row_list, part, n, clicks, times = _rows(batch, rows, reward, apart)
    if apart is None:
        part = part + before["part"]
    lists, prefix = batch.lists[inside], batch.prefix[inside]
    new = np.zeros(prefix.shape, dtype=np.bool_)
    new[1:] = prefix[1:] != prefix[:-1]
    found = Sample(
        lists=np.where(lists == EMPTY, EMPTY, lists.astype(np.int64) + before["pair"]),
        prefix=np.cumsum(new, axis=0) + before["list"],
        context=batch.list_context[inside].astype(np.int64) + before["context"],
        row_list=number[row_list] + before["list"],
        part=part,
        n=n,
        clicks=clicks,
        times=times,
    )
    before["list"] += int(inside.sum())
    before["part"] += len(n)
    return found


def _rows(
    batch: Batch, rows: Ints, reward: str, apart: Cluster | None
) -> tuple[Ints, Ints, Floats, Floats, Floats]:
    """List, part, records, rewards and times of each list in each part, for some rows.

    Of more than ten periods or buckets of units, say, every tenth is of the same one of ten parts.
    Without any, a part is a single record; records of one list with the same rewards are alike.
    """
    some = batch.take(rows, batch.n[rows])
    earned, k = some.reward(reward), batch.depth
    if apart is None:
        clicks = np.zeros((len(some.n), k))
        clicks[earned.row, earned.position] = earned.value
        keys = np.column_stack([some.row_list, clicks])
        order = np.lexsort(keys.T[::-1])
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (keys[order][1:] != keys[order][:-1]).any(axis=1)
        times = sums(np.cumsum(new) - 1, some.n[order], int(new.sum()))
        first = order[new]
        ones = np.ones(len(first))
        return some.row_list[first], np.arange(len(first)), ones, clicks[first], times
    count = min(max(batch.cluster_count[apart], 1), PARTS)
    part = some.clusters[apart].astype(np.int64) % count
    groups, row = numbered(some.row_list.astype(np.int64) * count + part, len(batch.lists) * count)
    value = earned.value * some.n[earned.row]
    summed = sums(row[earned.row] * k + earned.position, value, len(groups) * k)
    n, times = sums(row, some.n, len(groups)), np.ones(len(groups))
    return groups // count, groups % count, n, summed.reshape(-1, k), times


def sample_counts(sample: Sample) -> tuple[Floats, Floats]:
    """Shape (P, K) each: the records and the clicks of every pair of the sample."""
    depth = sample.lists.shape[1]
    row, k = np.nonzero((sample.lists != EMPTY)[sample.row_list])
    pair = sample.lists[sample.row_list[row], k].astype(np.int64)
    pairs, number = numbered(pair, int(pair.max(initial=-1)) + 1)
    shape = len(pairs), depth
    n, w = (
        sums(number * depth + k, sample.times[row] * values, shape[0] * depth).reshape(shape)
        for values in (sample.n[row], sample.clicks[row, k])
    )
    return n, w


# --- strengths and κ ------------------------------------------------------------------------------


def learnt(ladder: Ladder, sample: Sample, given: Floats | None = None) -> Fitted:
    """The strengths, examination and κ that predict each part best from the others.

    κ by the strengths so far, strengths by that κ, and both once more.

    Args:
        ladder: what it has of its own is not learnt.
        sample: the records.
        given: Shape (K,) or longer: the examination, if it is not to be learnt.
    """
    curve = sample.curve if given is None else given
    tree = HeldOut(ladder, sample, curve, fixed=given is not None)
    guessed = [_GUESS.get(rung, _GUESS["context"]) for rung in ladder.rungs[:-1]]
    strengths = list(ladder.strengths or guessed)
    stopping = 0.0 if ladder.stopping is None else ladder.stopping
    by_list, several = tree, sample.times.sum() > 1 and len(np.unique(sample.part)) > 1
    if several and not sample.dated and len(sample.lists) >= _MANY_LISTS:
        by_list = HeldOut(ladder, sample.by_list(), curve, fixed=given is not None)
    if several:  # else there is nothing to predict from
        # By parts one learns what a list is worth that was seen before; by lists all else.
        seen = [] if by_list is tree or ladder.top != "list" else [0]
        others = [j for j in range(len(strengths)) if j not in seen]
        stopping = _USUAL_STOPPING if ladder.stopping is None else stopping
        for _ in range(_ROUNDS):
            before = strengths, stopping
            if ladder.stopping is None:
                stopping = _searched_stopping(by_list, strengths, stopping)
            if ladder.strengths is None:
                by_list.examine(strengths, stopping)
                strengths = _searched_strengths(by_list, strengths, others)
                if seen:
                    tree.examine(strengths, stopping)
                    strengths = _searched_strengths(tree, strengths, seen)
            if before == (strengths, stopping):
                break
    tree.examine(strengths, stopping)
    base = float(tree.rates(strengths)[-1][0])
    return Fitted(ladder, tuple(strengths), tuple(tree.p.tolist()), stopping, base, tree.rounds)


def _searched_stopping(tree: HeldOut, strengths: list[float], start: float) -> float:
    """κ on its grid, given strengths."""
    known: dict[int, float] = {}

    def loss(where: list[int]) -> float:
        at = where[0]
        if at not in known:
            tree.examine(strengths, STOPPING[at])
            known[at] = tree.loss(strengths)
        return known[at]

    return STOPPING[_walk(loss, [STOPPING.index(start)], 0, len(STOPPING), (2, 1))[0]]


def _searched_strengths(tree: HeldOut, start: list[float], rungs: Sequence[int]) -> list[float]:
    """Strengths on their grid, one of some rungs after the other, from the coarsest."""
    at = [int(np.argmin(np.abs(np.log(_GRID / s)))) for s in start]
    known: dict[tuple[int, ...], float] = {}

    def loss(where: list[int]) -> float:
        key = tuple(where)
        if key not in known:
            known[key] = tree.loss(tuple(_GRID[where].tolist()))
        return known[key]

    for strides in ((3, 1), (1,)):
        for rung in reversed(rungs):
            at = _walk(loss, at, rung, len(_GRID), strides)
    return [float(_GRID[j]) for j in at]


def _walk(
    loss: Callable[[list[int]], float], at: list[int], rung: int, size: int, strides: Sequence[int]
) -> list[int]:
    """Walk along one number's grid as long as it goes down, with strides that shrink."""
    for stride in strides:
        for step in (stride, -stride):
            while 0 <= at[rung] + step < size:
                further = [*at[:rung], at[rung] + step, *at[rung + 1 :]]
                if not loss(further) < loss(at) - _TIE * abs(loss(at)):
                    break
                at = further
    return at


# --- the error of prediction ----------------------------------------------------------------------


class _Shares(NamedTuple):
    """The G cells of a rung, and its S *shares*: a cell with a part that has records in it.

    Attributes:
        cell: Shape (S,): the cell of each share.
        size: G.
        exposed: Shape (G,) or 1: how much a record of a cell exposes the cell below.
        of_cell: the cell that each cell of the rung above backs off to; unused for the top.
        of_share: the share that each share of the rung above belongs to; for the top, each slot.
    """

    cell: Ints
    size: int
    exposed: Floats | float
    of_cell: Ints
    of_share: Ints


class _Climbed(NamedTuple):
    """What has climbed to the cells of a rung.

    Attributes:
        n, c: Shape (G,): records and clicks of each cell.
        others_n, others_c: Shape (S,): those that the other parts than a share's give its cell.
        square, linear: Shape (S,): α and β, coefficients of the error in the share's rate.
        error: the part of the error that no rate below changes.
    """

    n: Floats
    c: Floats
    others_n: Floats
    others_c: Floats
    square: Floats
    linear: Floats
    error: float


class HeldOut:
    """The error of predicting each part of a sample from the others, as a function of strengths.

    Args:
        ladder: its rungs.
        sample: the records.
        p: Shape (K,) or longer: the examination of positions; `examine` finds that of slots.
        fixed: whether `examine` leaves that of positions as it is.

    Attributes:
        p: Shape (K,) or longer: the examination of positions so far.
        rounds: how many rounds it took to find it.
    """

    def __init__(self, ladder: Ladder, sample: Sample, p: Floats, *, fixed: bool = True) -> None:
        self.p, self._first_p, self._fixed = p, p, fixed or ladder.top == "ip"
        self.rounds, self._exposing, self._item = 0, ladder.exposing, ladder.rungs.index("item")
        row, k = np.nonzero((sample.lists != EMPTY)[sample.row_list])
        keys = _cell_keys(ladder, sample, sample.row_list[row], k)
        self.rungs = _rungs(keys, sample.part[row])
        cell, count, _, _, share = self.rungs[0]
        times = value_of_each(share, sample.times[row], len(cell))
        own_n = sums(share, sample.n[row], len(cell))
        own_c = sums(share, sample.clicks[row, k], len(cell))
        n, c = sums(cell, own_n * times, count), sums(cell, own_c * times, count)
        self._top = _Climbed(
            n, c, n[cell] - own_n, c[cell] - own_c, own_n * times, -2 * own_c * times, 0.0
        )
        self._known: list[tuple[float, _Climbed]] = []
        # The lists: which slots show something, and the cells of these.
        self._shown = sample.lists != EMPTY
        keys = _cell_keys(ladder, sample, *np.nonzero(self._shown))
        self._slots, items = (
            numbered(keys[j], int(keys[j].max()) + 1)[1] for j in (self._exposing, self._item)
        )
        self._items = np.full(self._shown.shape, EMPTY)
        self._items[self._shown] = items
        self._n = sums(sample.row_list, sample.n * sample.times, len(sample.lists))
        self._clicks = sample.times @ sample.clicks
        self._expose(p)

    def _expose(self, examination: Floats) -> None:
        """Take another examination of the lists' slots, shape (L, K) or (K,)."""
        j, shown = self._exposing, self._shown
        wide = np.broadcast_to(examination[..., : shown.shape[1]], shown.shape)
        self.rungs[j] = self.rungs[j]._replace(exposed=value_of_each(self._slots, wide[shown]))
        del self._known[j:]

    def examine(self, strengths: Sequence[float], stopping: float) -> None:
        """Find the rates of items, and the examination of positions and of slots, in turn.

        Given rates and how many readers get to a slot, the p_k that is most likely makes the clicks
        at position k as many as expected.

        Args:
            strengths: of all rungs but the last.
            stopping: κ.
        """
        self.p, self.rounds = self._first_p, 0
        self._expose(self.p)
        if self._fixed and not stopping:
            return
        depth, j = self._shown.shape[1], self._exposing
        top = self._counts(strengths[:j])[-1]  # the same in every round
        before = np.broadcast_to(self.p[:depth], self._shown.shape)
        for round_ in range(1, MOST_ROUNDS + 1):
            mu = self.rates(strengths, (j, top))[self._item - j]
            reading = readers(mu, self._items, stopping)
            if not self._fixed:
                attraction = np.append(np.clip(mu, 0, 1), 0.0)[self._items]
                expected = (self._n[:, None] * attraction * reading).sum(axis=0)
                found = np.where(expected > 0, ratio(self._clicks, expected), self.p)
                self.p = np.clip(found / (found[0] if found[0] > 0 else 1.0), 0, _STEEPEST)
            now = reading * self.p[:depth]
            self._expose(now)
            self.rounds = round_
            if np.abs(now - before)[self._shown].max(initial=0.0) < _SETTLED:
                break
            before = now

    def _counts(
        self, strengths: Sequence[float], start: tuple[int, tuple[Floats, Floats]] | None = None
    ) -> list[tuple[Floats, Floats]]:
        """Shape (G,) each, by rung: records and clicks; from a rung on whose counts are known."""
        first, counts = (0, (self._top.n, self._top.c)) if start is None else start
        found = [counts]
        for j in range(first, len(strengths)):
            rung, below = self.rungs[j], self.rungs[j + 1]
            found.append(climb(*found[-1], strengths[j], below.of_cell, below.size, rung.exposed))
        return found

    def rates(
        self, strengths: Sequence[float], start: tuple[int, tuple[Floats, Floats]] | None = None
    ) -> list[Floats]:
        """Shape (G,) by rung: the rates of all cells, from all parts; from a rung on."""
        counts = self._counts(strengths, start)
        first = 0 if start is None else start[0]
        found = [ratio(counts[-1][1], counts[-1][0])]
        for j in reversed(range(first, len(strengths))):
            expected = found[-1][self.rungs[j + 1].of_cell] * self.rungs[j].exposed
            found.append(descend(*counts[j - first], strengths[j], expected))
        return found[::-1]

    def loss(self, strengths: Sequence[float]) -> float:
        """The squared errors of all clicks, but for what does not depend on strengths."""
        at = self._top
        for j, s in enumerate(strengths):
            if j >= len(self._known) or self._known[j][0] != s:
                self._known[j:] = [(s, _climb(at, self.rungs[j], self.rungs[j + 1], s))]
            at = self._known[j][1]
        rate = ratio(at.others_c, at.others_n)
        return at.error + float(np.sum((at.square * rate + at.linear) * rate))


def _climb(at: _Climbed, rung: _Shares, below: _Shares, s: float) -> _Climbed:
    """Counts and error on the rung below one of strength s."""
    shares, e = len(below.cell), rung.exposed
    exposed = e if isinstance(e, float) else e[rung.cell]
    passed, passed_others = borrowed(at.n, s), borrowed(at.others_n, s)
    passed_n, passed_c = at.n * passed, at.c * passed
    n = sums(below.of_cell, passed_n * e, below.size)
    c = sums(below.of_cell, passed_c, below.size)
    # What the other parts pass on: everything, less what a part's own cells pass on due to it.
    own_n = (passed_n[rung.cell] - at.others_n * passed_others) * exposed
    own_c = passed_c[rung.cell] - at.others_c * passed_others
    others_n = n[below.cell] - sums(below.of_share, own_n, shares)
    others_c = c[below.cell] - sums(below.of_share, own_c, shares)
    # r = own + slope r': the error in r becomes an error in r'.
    own, slope = at.others_c * own_weight(at.others_n, s), passed_others * exposed
    bent = at.square * own
    return _Climbed(
        n,
        c,
        np.maximum(others_n, 0),  # differences of sums may round below 0
        np.maximum(others_c, 0),
        sums(below.of_share, at.square * slope * slope, shares),
        sums(below.of_share, (2 * bent + at.linear) * slope, shares),
        at.error + float(np.sum((bent + at.linear) * own)),
    )


def _cell_keys(ladder: Ladder, sample: Sample, at: Ints, k: Ints) -> list[Ints]:
    """Shape (slots,) each: the cell of every slot on each rung, by numbers with gaps.

    Args:
        ladder: its rungs.
        sample: the lists.
        at: Shape (slots,): the list.
        k: Shape (slots,): the position.
    """
    depth = sample.lists.shape[1]
    pair = sample.lists[at, k]
    coarse = [pair * depth + k, pair, sample.context[at], np.zeros_like(at)]
    fine = [at * depth + k, sample.prefix[at, k] * depth + k] if ladder.top == "list" else []
    return fine + coarse


def _rungs(keys: list[Ints], part: Ints) -> list[_Shares]:
    """The rungs of slots.

    Args:
        keys: Shape (slots,) each: by rung, the cell of every slot.
        part: Shape (slots,).
    """
    found: list[_Shares] = []
    parts = int(part.max()) + 1
    cell: Ints = np.arange(len(part))
    while keys:
        cells, of_member = numbered(keys[0], int(keys[0].max()) + 1)
        shares, of_share = numbered(of_member * parts + part, len(cells) * parts)
        of_cell = value_of_each(cell, of_member)
        # From here on a share stands for its members.
        cell, part = shares // parts, shares % parts
        keys = [value_of_each(of_share, key) for key in keys[1:]]
        found.append(_Shares(cell, len(cells), 1.0, of_cell, of_share))
    return found
