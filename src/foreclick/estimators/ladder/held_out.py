"""How well a ladder predicts each part of a sample from the others, for any strengths.

The error is a quadratic function of the predicted rates, Σ α r² + β r over cells and parts, and a
rate is linear in the rate it borrows from. So the error climbs the ladder together with the counts,
as coefficients α' and β' of the rates below, and a new strength of one rung costs nothing above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Bools, Floats, Ints, ratio, sums
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.estimators.ladder.exposure import MOST_ROUNDS, SETTLED, readers
from foreclick.estimators.ladder.sample import Sample
from foreclick.estimators.ladder.shrinkage import (
    Passing,
    base_rate,
    borrowed,
    climb,
    descend,
    own_weight,
)
from foreclick.estimators.ladder.spec import Ladder

_STEEPEST = 3.0  # no position is examined more than this, by the first one's measure


class _Rung(NamedTuple):
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

    def of_each_share(self) -> Floats | float:
        """Shape (S,) or 1: the exposure of each share's cell."""
        return self.exposed if isinstance(self.exposed, float) else self.exposed[self.cell]


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
        self.rounds = 0
        self._exposing = ladder.exposing
        self._item_rung = ladder.rungs.index("item")
        row, k = np.nonzero((sample.lists != EMPTY)[sample.row_list])
        keys = _cell_keys(ladder, sample, sample.row_list[row], k)
        self.rungs = _rungs(keys, sample.part[row])
        cell, count, _, _, share = self.rungs[0]
        own_n = sums(share, sample.n[row], len(cell))
        own_c = sums(share, sample.clicks[row, k], len(cell))
        n, c = sums(cell, own_n, count), sums(cell, own_c, count)
        self._top = _Climbed(n, c, n[cell] - own_n, c[cell] - own_c, own_n, -2 * own_c, 0.0)
        self._known: list[tuple[float, _Climbed]] = []
        self._lists = _Lists.of(ladder, sample)
        self._expose(p)

    def _expose(self, examination: Floats) -> None:
        """Take another examination of the lists' slots, shape (L, K) or (K,)."""
        j, shown = self._exposing, self._lists.shown
        wide = np.broadcast_to(examination[..., : shown.shape[1]], shown.shape)
        exposed = value_of_each(self._lists.exposing, wide[shown])
        self.rungs[j] = self.rungs[j]._replace(exposed=exposed)
        del self._known[j:]

    def examine(self, strengths: Sequence[float], stopping: float) -> None:
        """Find the rates of items, and the examination of positions and of slots, in turn.

        Given rates and how many readers get to a slot, the p_k that is most likely makes the clicks
        at position k as many as expected.

        Args:
            strengths: of all rungs but the last.
            stopping: κ.
        """
        self.p, self.rounds, lists = self._first_p, 0, self._lists
        self._expose(self.p)
        if self._fixed and not stopping:
            return
        depth = lists.shown.shape[1]
        exposing = self._exposing_passing(strengths)
        before = np.broadcast_to(self.p[:depth], lists.shown.shape)
        for round_ in range(1, MOST_ROUNDS + 1):
            mu = self._item_rates(strengths, exposing)
            reading = readers(mu, lists.item, stopping)
            if not self._fixed:
                attraction = np.append(np.clip(mu, 0, 1), 0.0)[lists.item]
                expected = (lists.n[:, None] * attraction * reading).sum(axis=0)
                found = np.where(expected > 0, ratio(lists.clicks, expected), self.p)
                scale = found[0] if found[0] > 0 else 1.0
                self.p = np.clip(found / scale, 0, _STEEPEST)
            now = reading * self.p[:depth]
            self._expose(now)
            self.rounds = round_
            if np.abs(now - before)[lists.shown].max(initial=0.0) < SETTLED:
                break
            before = now

    def _counts(
        self, strengths: Sequence[float], exposing: Passing | None = None
    ) -> tuple[list[Floats], list[Floats]]:
        """Shape (G,) each, by rung: records and clicks.

        With what the rung with the examination passes on, only those of the rungs below it.
        """
        start = 0
        n, c = [self._top.n], [self._top.c]
        if exposing is not None:
            start = self._exposing + 1
            n, c = [exposing.records(self.rungs[self._exposing].exposed)], [exposing.c]
        for j in range(start, len(strengths)):
            rung, below = self.rungs[j], self.rungs[j + 1]
            passed = climb(n[-1], c[-1], strengths[j], below.of_cell, below.size, rung.exposed)
            n.append(passed[0])
            c.append(passed[1])
        return n, c

    def _exposing_passing(self, strengths: Sequence[float]) -> Passing:
        """What the rung with the examination passes on: the same in every round."""
        j = self._exposing
        n, c = self._counts(strengths[:j])
        below = self.rungs[j + 1]
        return Passing.of(n[-1], c[-1], strengths[j], below.of_cell, below.size)

    def _item_rates(self, strengths: Sequence[float], exposing: Passing) -> Floats:
        """Shape (Q,): the rates of items, from all parts."""
        return self._descended(strengths, *self._counts(strengths, exposing), self._item_rung)[-1]

    def rates(self, strengths: Sequence[float]) -> list[Floats]:
        """Shape (G,) by rung: the rates of all cells, from all parts."""
        return self._descended(strengths, *self._counts(strengths), 0)[::-1]

    def _descended(
        self, strengths: Sequence[float], n: list[Floats], c: list[Floats], last: int
    ) -> list[Floats]:
        """Shape (G,) each, from the coarsest rung to the rung `last`: the rates of cells.

        Args:
            strengths: of all rungs but the coarsest.
            n: Shape (G,) each: records, of as many of the coarsest rungs as are known.
            c: Shape (G,) each: clicks.
            last: the finest rung.
        """
        found = [base_rate(n[-1], c[-1])]
        for j in reversed(range(last, len(strengths))):
            at = j - len(strengths) - 1  # the rung, from the coarsest
            expected = found[-1][self.rungs[j + 1].of_cell] * self.rungs[j].exposed
            found.append(descend(n[at], c[at], strengths[j], expected))
        return found

    def loss(self, strengths: Sequence[float]) -> float:
        """The squared errors of all clicks, but for what does not depend on strengths."""
        at = self._top
        for j, s in enumerate(strengths):
            if j >= len(self._known) or self._known[j][0] != s:
                self._known[j:] = [(s, _climb(at, self.rungs[j], self.rungs[j + 1], s))]
            at = self._known[j][1]
        rate = ratio(at.others_c, at.others_n)
        return at.error + float(np.sum((at.square * rate + at.linear) * rate))


class _Lists(NamedTuple):
    """The lists of a sample, and the cells of their slots.

    Attributes:
        shown: Shape (L, K): which slots show something.
        exposing: Shape (shown slots,): the cell on the rung with the examination.
        item: Shape (L, K): the cell on the rung "item"; -1 where nothing is shown.
        n: Shape (L,): records.
        clicks: Shape (K,): clicks at each position.
    """

    shown: Bools
    exposing: Ints
    item: Ints
    n: Floats
    clicks: Floats

    @classmethod
    def of(cls, ladder: Ladder, sample: Sample) -> _Lists:
        shown = sample.lists != EMPTY
        keys = _cell_keys(ladder, sample, *np.nonzero(shown))
        exposing, items = (
            numbered(keys[j], int(keys[j].max()) + 1)[1]
            for j in (ladder.exposing, ladder.rungs.index("item"))
        )
        item = np.full(shown.shape, -1)
        item[shown] = items
        n = sums(sample.row_list, sample.n, len(sample.lists))
        return cls(shown, exposing, item, n, sample.clicks.sum(axis=0))


def _climb(at: _Climbed, rung: _Rung, below: _Rung, s: float) -> _Climbed:
    """Counts and error on the rung below one of strength s."""
    shares, exposed = len(below.cell), rung.of_each_share()
    passed, passed_others = borrowed(at.n, s), borrowed(at.others_n, s)
    passed_n, passed_c = at.n * passed, at.c * passed
    n = sums(below.of_cell, passed_n * rung.exposed, below.size)
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
    own = {"list": at * depth + k, "prefix": sample.prefix[at, k] * depth + k}
    return [own[name] for name in ladder.rungs if name in own] + coarse


def _rungs(keys: list[Ints], part: Ints) -> list[_Rung]:
    """The rungs of slots.

    Args:
        keys: Shape (slots,) each: by rung, the cell of every slot.
        part: Shape (slots,).
    """
    found: list[_Rung] = []
    parts = int(part.max()) + 1
    cell: Ints = np.arange(len(part))
    while keys:
        cells, of_member = numbered(keys[0], int(keys[0].max()) + 1)
        shares, of_share = numbered(of_member * parts + part, len(cells) * parts)
        of_cell = value_of_each(cell, of_member)
        # From here on a share stands for its members.
        cell, part = shares // parts, shares % parts
        keys = [value_of_each(of_share, key) for key in keys[1:]]
        found.append(_Rung(cell, len(cells), 1.0, of_cell, of_share))
    return found
