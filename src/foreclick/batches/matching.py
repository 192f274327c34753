"""Where lists begin alike: bisection over lists in lexicographic order."""

from __future__ import annotations

import numpy as np

from foreclick.batches.arrays import Bools, Ints
from foreclick.batches.batch import EMPTY, Batch
from foreclick.batches.candidate import CodedLists


def matched_prefixes(batch: Batch, lists: CodedLists, depth: int) -> Ints:
    """Shape (M, depth): which prefix of the log (`Batch.prefix`) each list begins with, or -1.

    A position beyond the log's last is matched by a list that shows nothing there.
    """
    first = begin_alike(batch.context_lists, batch.lists, lists.context, lists.pairs[:, :depth])
    level = np.minimum(np.arange(depth), batch.depth - 1)
    found = batch.prefix[np.maximum(first, 0), level] if len(batch.lists) else first
    return np.where(first >= 0, found, -1)


def begin_alike(starts: Ints, lists: Ints, context: Ints, wanted: Ints) -> Ints:
    """Shape (M, D): the first list that begins as each wanted one does down to a position, or -1.

    Args:
        starts: Shape (X + 1,): where the lists of each context begin.
        lists: Shape (L, K): pairs, in lexicographic order within a context.
        context: Shape (M,): of each wanted list.
        wanted: Shape (M, D): its pairs.
    """
    low: Ints = starts[context]
    high: Ints = starts[context + 1]
    found = np.full(wanted.shape, -1, dtype=np.int64)
    for k in range(wanted.shape[1]):
        pair = wanted[:, k]
        if k < lists.shape[1]:
            column = lists[:, k]
            low, high = (
                _bisect(column, low, high, pair, right=False),
                _bisect(column, low, high, pair, right=True),
            )
        else:
            high = np.where(pair == EMPTY, high, low)
        there = low < high
        found[there, k] = low[there]
    return found


def _bisect(column: Ints, low: Ints, high: Ints, value: Ints, *, right: bool) -> Ints:
    """Where each value belongs between low and high, a part of the column that rises."""
    low, high = low.copy(), high.copy()
    open_: Bools = low < high
    while open_.any():
        middle = (low + high) // 2
        at = column[np.where(open_, middle, 0)]
        up = open_ & ((at <= value) if right else (at < value))
        low = np.where(up, middle + 1, low)
        high = np.where(open_ & ~up, middle, high)
        open_ = low < high
    return low
