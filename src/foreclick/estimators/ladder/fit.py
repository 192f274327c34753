"""What a ladder learns of a log as a whole: the strengths of its rungs, and the examination.

Both are a few numbers that all contexts share, so a sample of contexts is enough. Strengths are
those that predict each part of the sample (a period, a bucket of users, a tenth of the records)
best from the other parts, by squared error of clicks.

The error is a quadratic function of the predicted rates, Σ α r² + β r over cells and parts, and a
rate is linear in the rate it borrows from. So the error climbs the ladder together with the counts,
as coefficients α' and β' of the rates below, and a new strength of one rung costs nothing above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from foreclick.batches import EMPTY, Floats, Ints, ratio, sums
from foreclick.batches.arrays import numbered, value_of_each
from foreclick.errors import ModelError
from foreclick.estimators.examination import examination_curve
from foreclick.estimators.ladder.classes import check_classes
from foreclick.estimators.ladder.sample import Sample, sampled
from foreclick.estimators.ladder.shrinkage import borrowed, own_weight
from foreclick.estimators.ladder.spec import Fitted, Ladder
from foreclick.models import ClickModel
from foreclick.tallies.base import Tally

_GUESS = {"prefix": 50.0, "list": 20.0, "position": 20.0, "item": 5.0, "context": 5.0}
_GRID: Floats = np.array([0.1 * 10 ** (j / 3) for j in range(19)])  # from .1 to 100,000
_ROUNDS = 4
_TIE = 1e-13  # losses that differ by less are equal but for rounding


def fitted(tally: Tally, ladder: Ladder, reward: str, depth: int = 0) -> Fitted:
    """The ladder with its strengths and examination, learnt from a sample of contexts.

    Args:
        tally: the log.
        ladder: with or without strengths and examination.
        reward: the reward whose rates are estimated.
        depth: how deep a given examination is to reach; a learnt one ends where the log's lists
            do, and is 0 further down.
    """
    _check_segments(tally, ladder)
    given = None
    if ladder.examination is not None:
        depth = max(depth, tally.shape.depth)
        given = np.array(ClickModel(ladder.name, (), ladder.examination).examined(depth))
    if ladder.strengths is not None and given is not None:
        return Fitted(ladder, ladder.strengths, tuple(given.tolist()))
    key = "ladder", tally.stored.op(), ladder, reward, None if given is None else tuple(given)
    if key not in tally.learnt:
        sample = sampled(tally, reward, ladder.segments)
        p = sample_curve(sample) if given is None else given
        learnt = ladder.strengths or strengths(ladder, sample, p)
        tally.learnt[key] = Fitted(ladder, learnt, tuple(p.tolist()))
    return cast("Fitted", tally.learnt[key])


def _check_segments(tally: Tally, ladder: Ladder) -> None:
    """Refuse segments that the log was read without, or that are no classes of contexts."""
    can = tally.shape.segments
    unknown = [name for name in ladder.segments if name not in can]
    if unknown:
        raise ModelError(
            f"by={unknown[0]!r}: the log was read with the segments {', '.join(can) or '(none)'}. "
            f"Read it with segments=({unknown[0]!r},)."
        )
    check_classes(tally, ladder.segments)


# --- examination ----------------------------------------------------------------------------------


def sample_curve(sample: Sample) -> Floats:
    """Shape (K,): how much each position is examined, by the items of the sample that moved."""
    depth = sample.lists.shape[1]
    row, k = np.nonzero((sample.lists != EMPTY)[sample.row_list])
    pair = sample.lists[sample.row_list[row], k]
    pairs, number = numbered(pair, int(pair.max(initial=-1)) + 1)
    shape = len(pairs), depth
    n, w = (
        sums(number * depth + k, values, shape[0] * depth).reshape(shape)
        for values in (sample.n[row], sample.clicks[row, k])
    )
    return examination_curve(n, w)


# --- strengths ------------------------------------------------------------------------------------


def strengths(ladder: Ladder, sample: Sample, p: Floats) -> tuple[float, ...]:
    """The strengths that predict each part best from the others.

    One rung after the other, on a grid, until none moves.
    """
    found = np.array([_GUESS.get(rung, _GUESS["context"]) for rung in ladder.rungs[:-1]])
    if len(np.unique(sample.part)) < 2:  # noqa: PLR2004 - nothing to predict from
        return tuple(found.tolist())
    tree = HeldOut(ladder, sample, p)
    at = [int(np.argmin(np.abs(np.log(_GRID / s)))) for s in found]
    known: dict[tuple[int, ...], float] = {}

    def loss(where: list[int]) -> float:
        key = tuple(where)
        if key not in known:
            known[key] = tree.loss(tuple(_GRID[where].tolist()))
        return known[key]

    for _ in range(_ROUNDS):
        before = list(at)
        for rung in reversed(range(len(at))):
            at = _descend(loss, at, rung)
        if at == before:
            break
    return tuple(float(_GRID[j]) for j in at)


def _descend(loss: Callable[[list[int]], float], at: list[int], rung: int) -> list[int]:
    """Walk along one rung's grid as long as it goes down, with strides that halve."""
    for stride in (4, 2, 1):
        for step in (stride, -stride):
            while 0 <= at[rung] + step < len(_GRID):
                further = [*at[:rung], at[rung] + step, *at[rung + 1 :]]
                if not loss(further) < loss(at) - _TIE * abs(loss(at)):
                    break
                at = further
    return at


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
        p: Shape (K,) or longer: the examination.
    """

    def __init__(self, ladder: Ladder, sample: Sample, p: Floats) -> None:
        row, k = np.nonzero((sample.lists != EMPTY)[sample.row_list])
        keys = _cell_keys(ladder, sample, row, k)
        self.rungs = _rungs(ladder, keys, sample.part[row], k, p)
        cell, count, _, _, share = self.rungs[0]
        own_n = sums(share, sample.n[row], len(cell))
        own_c = sums(share, sample.clicks[row, k], len(cell))
        n, c = sums(cell, own_n, count), sums(cell, own_c, count)
        self._top = _Climbed(n, c, n[cell] - own_n, c[cell] - own_c, own_n, -2 * own_c, 0.0)
        self._known: list[tuple[float, _Climbed]] = []

    def loss(self, strengths: tuple[float, ...]) -> float:
        """The squared errors of all clicks, but for what does not depend on strengths."""
        at = self._top
        for j, s in enumerate(strengths):
            if j >= len(self._known) or self._known[j][0] != s:
                self._known[j:] = [(s, _climb(at, self.rungs[j], self.rungs[j + 1], s))]
            at = self._known[j][1]
        rate = ratio(at.others_c, at.others_n)
        return at.error + float(np.sum((at.square * rate + at.linear) * rate))


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


def _cell_keys(ladder: Ladder, sample: Sample, row: Ints, k: Ints) -> list[Ints]:
    """Shape (slots,) each: the cell of every slot on each rung, by numbers with gaps."""
    depth = sample.lists.shape[1]
    at = sample.row_list[row]
    pair = sample.lists[at, k]
    coarse = [pair * depth + k, pair, sample.context[at], *sample.classes[:, at], np.zeros_like(at)]
    if ladder.top == "ip":
        return coarse
    own = at if ladder.top == "list" else sample.prefix[at, k]
    return [own * depth + k, *coarse]


def _rungs(ladder: Ladder, keys: list[Ints], part: Ints, k: Ints, p: Floats) -> list[_Rung]:
    """The rungs of slots.

    Args:
        ladder: its rungs.
        keys: Shape (slots,) each: by rung, the cell of every slot.
        part: Shape (slots,).
        k: Shape (slots,): the position.
        p: the examination.
    """
    found: list[_Rung] = []
    parts = int(part.max()) + 1
    cell: Ints = np.arange(len(part))
    for name in ladder.rungs:
        cells, of_member = numbered(keys[0], int(keys[0].max()) + 1)
        shares, of_share = numbered(of_member * parts + part, len(cells) * parts)
        of_cell = value_of_each(cell, of_member)
        # From here on a share stands for its members.
        cell, part, k = shares // parts, shares % parts, value_of_each(of_share, k)
        keys = [value_of_each(of_share, key) for key in keys[1:]]
        exposed = p[value_of_each(cell, k)] if name == "position" else 1.0
        found.append(_Rung(cell, len(cells), exposed, of_cell, of_share))
    return found
