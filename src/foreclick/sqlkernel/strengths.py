"""What a ladder learns of a log as a whole: the strengths of its rungs, and the examination.

Both are a few numbers that all contexts share, so a sample of contexts is enough, and it is looked
at here, in NumPy. Strengths are those that predict each part of the sample (a period, a bucket of
users, a tenth of the records) best from the other parts: what a ladder is for is to predict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foreclick.sqlkernel.ladder import Ladder

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PARTS = 10
"""Parts that records are dealt to where neither periods nor units keep them apart."""

_GUESS = {"prefix": 50.0, "list": 20.0, "position": 20.0, "item": 5.0, "context": 5.0}
_GRID: Floats = np.array([0.1 * 10 ** (j / 3) for j in range(19)])  # from .1 to 100,000
_ROUNDS = 4
_PASSES = 2000
_CLOSE = 1e-12


@dataclass(frozen=True, eq=False)
class Sample:
    """Some contexts of a log: a row for each list in each part.

    Attributes:
        contexts, parts: Shape (R,): codes.
        items: Shape (R, K): codes, -1 where nothing was shown.
        n: Shape (R,): records.
        clicks: Shape (R, K): summed rewards.
        classes: Shape (R,) each: codes of what contexts have in common.
    """

    contexts: Integers
    parts: Integers
    items: Integers
    n: Floats
    clicks: Floats
    classes: tuple[Integers, ...] = ()


def dealt(rows: Integers, n: Floats) -> tuple[Integers, Integers, Floats]:
    """Equal records dealt out to `PARTS` parts as evenly as may be: rows, parts, and how many.

    Rows are numbered in some order that clicks have no part in; each starts with another part.
    """
    at = np.arange(PARTS)
    share = np.floor(n / PARTS)[:, None] + ((at - rows[:, None]) % PARTS < (n % PARTS)[:, None])
    row, part = np.nonzero(share)
    return row, part, share[row, part]


# --- examination --------------------------------------------------------------------------------


def examined(sample: Sample) -> Floats:
    """p_1 … p_K by maximum likelihood, c_xak ~ Poisson(n_xak μ_xa p_k), from items that moved.

    p and μ in turn, each given the other. Positions that share no item with the others keep the
    height that the positions' click rates give them.
    """
    depth = sample.items.shape[1]
    row, k = np.nonzero(sample.items >= 0)
    item = _codes(sample.contexts[row], sample.items[row, k])
    cell = _codes(item, k)
    n = np.bincount(cell, sample.n[row])
    c = np.bincount(cell, sample.clicks[row, k])
    of_item, of_position = _first(cell, item), _first(cell, k)
    shown = np.bincount(of_position, n, depth)
    p = ratio(np.bincount(of_position, c, depth), shown)
    moved = np.bincount(of_item)[of_item] > 1
    n, c, of_item, of_position = n[moved], c[moved], of_item[moved], of_position[moved]
    by_item, by_position = np.bincount(of_item, c), np.bincount(of_position, c, depth)
    for _ in range(_PASSES if len(n) else 0):
        rate = ratio(by_item, np.bincount(of_item, n * p[of_position]))
        expected = np.bincount(of_position, n * rate[of_item], depth)
        # Where no item with clicks moved, nothing is known that was not before.
        new = np.where(expected > 0, ratio(by_position, expected), p)
        far = np.max(np.abs(new - p)) > _CLOSE * max(float(np.max(p)), _CLOSE)
        p = new
        if not far:
            break
    scale = p[0] if p[0] > 0 else p.max()
    return np.asarray(p / scale if scale > 0 else np.ones(depth))


# --- strengths ----------------------------------------------------------------------------------


def strengths(ladder: Ladder, sample: Sample, p: Floats) -> tuple[float, ...]:
    """The strengths that predict each part best from the others, by squared error of clicks.

    One rung after the other, on a grid, until none moves.
    """
    found = np.array([_GUESS.get(rung, _GUESS["context"]) for rung in ladder.rungs[:-1]])
    if len(np.unique(sample.parts)) < 2:  # noqa: PLR2004 - nothing to predict from
        return tuple(found.tolist())
    tree = _Tree(ladder, sample, p)
    at = [int(np.argmin(np.abs(np.log(_GRID / s)))) for s in found]
    known: dict[tuple[int, ...], float] = {}

    def loss(where: list[int]) -> float:
        key = tuple(where)
        if key not in known:
            known[key] = tree.loss(_GRID[where])
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
                if not loss(further) < loss(at):
                    break
                at = further
    return at


@dataclass(frozen=True, eq=False)
class _Rung:
    """The cells of a rung, and the pairs of a cell and a part that has records in it.

    Attributes:
        cell: the cell of each pair.
        below: the cell of the next rung that each cell belongs to; `pair_below`: the same of pairs.
        exposed: how much a record of a cell exposes the cell below.
    """

    cell: Integers
    below: Integers
    pair_below: Integers
    exposed: Floats


class _Tree:
    """The cells of a sample, rung by rung, and what of them is left to predict each part from."""

    def __init__(self, ladder: Ladder, sample: Sample, p: Floats) -> None:
        row, k = np.nonzero(sample.items >= 0)
        cells = _cells_of(ladder, sample, row, k)
        pairs = [_codes(cell, sample.parts[row]) for cell in cells]
        self.n = np.bincount(pairs[0], sample.n[row])
        self.c = np.bincount(pairs[0], sample.clicks[row, k])
        self.rungs: list[_Rung] = []
        for rung, (cell, pair) in enumerate(zip(cells, pairs, strict=True)):
            last = rung == len(cells) - 1
            by_position = ladder.rungs[rung] == "position"
            below, pair_below = (cell, pair) if last else (cells[rung + 1], pairs[rung + 1])
            self.rungs.append(
                _Rung(
                    cell=_first(pair, cell),
                    below=_first(cell, below),
                    pair_below=_first(pair, pair_below),
                    exposed=p[_first(cell, k)] if by_position else np.ones(int(cell.max()) + 1),
                )
            )

    def loss(self, strengths: Floats) -> float:
        """The squared errors of all clicks, but for what does not depend on strengths."""
        rates = self.rates(strengths)
        return float(np.sum((self.n * rates - 2 * self.c) * rates))

    def rates(self, strengths: Floats) -> Floats:
        """The rate of every pair of the top rung, as the other parts tell it."""
        first = self.rungs[0]
        n, c = np.bincount(first.cell, self.n), np.bincount(first.cell, self.c)
        left, left_c = n[first.cell] - self.n, c[first.cell] - self.c
        climbed = [(left, left_c)]
        for rung, s, after in zip(self.rungs[:-1], strengths, self.rungs[1:], strict=True):
            told, told_left = s / (n + s), s / (left + s)
            count, exposed = int(rung.below.max()) + 1, rung.exposed[rung.cell]
            gone = (n * told)[rung.cell] - left * told_left
            gone_c = (c * told)[rung.cell] - left_c * told_left
            n = np.bincount(rung.below, n * told * rung.exposed, count)
            c = np.bincount(rung.below, c * told, count)
            left = n[after.cell] - np.bincount(rung.pair_below, gone * exposed)
            left_c = c[after.cell] - np.bincount(rung.pair_below, gone_c)
            left, left_c = np.maximum(left, 0), np.maximum(left_c, 0)  # of differences of sums
            climbed.append((left, left_c))
        rate = ratio(left_c, left)
        steps = list(zip(self.rungs[:-1], strengths, climbed[:-1], strict=True))
        for rung, s, (left, left_c) in reversed(steps):
            rate = (left_c + s * rate[rung.pair_below] * rung.exposed[rung.cell]) / (left + s)
        return np.asarray(rate)


def _cells_of(ladder: Ladder, sample: Sample, row: Integers, k: Integers) -> list[Integers]:
    """The cells of every slot, rung by rung."""
    context = sample.contexts[row]
    item = _codes(context, sample.items[row, k])
    classes = [_codes(*(c[row] for c in sample.classes[j:])) for j in range(len(sample.classes))]
    coarse = [_codes(item, k), item, _codes(context), *classes, np.zeros_like(context)]
    if ladder.top == "ip":
        return coarse
    so_far = _codes(sample.contexts)
    prefixes = [so_far := _codes(so_far, column) for column in sample.items.T + 1]
    if ladder.top == "list":
        return [_codes(so_far[row], k), *coarse]
    return [_codes(np.stack(prefixes, axis=1)[row, k], k), *coarse]


# --- parts of formulas --------------------------------------------------------------------------


def _codes(*columns: Integers) -> Integers:
    """A number from 0 for every combination of values."""
    found = np.unique(columns[0], return_inverse=True)[1]
    for column in columns[1:]:
        values, code = np.unique(column, return_inverse=True)
        found = np.unique(found * len(values) + code, return_inverse=True)[1]
    return np.asarray(found, dtype=np.int64)


def _first(code: Integers, values: Integers) -> Integers:
    """The value of each code, where all rows of a code have the same."""
    found = np.empty(int(code.max()) + 1, dtype=np.int64)
    found[code] = values
    return found


def ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """Part / whole, 0 where there is nothing."""
    out = np.zeros_like(part, dtype=np.float64)
    return np.asarray(np.divide(part, whole, out=out, where=whole > 0))
