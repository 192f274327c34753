"""Which beginnings of a policy's lists the log has shown.

Lists of a batch are in lexicographic order, so the prefixes down to a position are in order of
(prefix down to the position above, pair): each level is one bisection over these two as one number.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from foreclick.batches.arrays import Ints
from foreclick.batches.batch import EMPTY, Batch
from foreclick.batches.candidate import CodedLists

NO_PREFIX = -1
"""The number of a prefix that the log has never shown."""


def matched_prefixes(batch: Batch, lists: CodedLists, depth: int) -> Ints:
    """Shape (M, depth): the number in `batch.prefix` of each list's beginning, `NO_PREFIX` if new.

    Beyond the log's last position a list equals the log's only if it shows nothing there.

    Args:
        batch: the log's records.
        lists: M lists of at least `depth` positions.
        depth: down to which position they are matched.
    """
    found = np.empty((len(lists.pairs), depth), dtype=np.int64)
    above: Ints = lists.context.astype(np.int64)
    for k in range(depth):
        pair = lists.pairs[:, k]
        if k < batch.depth:
            keys = cast("Ints", batch.keep(("prefix keys", k), lambda k=k: _keys(batch, k)))
            wanted = above * (batch.pair_count + 1) + pair + 1
            at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
            same = (keys[at] == wanted) if len(keys) else np.zeros(len(wanted), dtype=np.bool_)
            here = np.where(same & (pair < batch.pair_count) & (above >= 0), at, NO_PREFIX)
        else:
            here = np.where(pair == EMPTY, above, NO_PREFIX)
        found[:, k] = above = here
    return found


def _keys(batch: Batch, k: int) -> Ints:
    """Shape (prefixes down to k,), rising: the prefix above and the pair at k, as one number."""
    first = prefix_starts(batch, k)
    above: Ints = batch.list_context[first] if k == 0 else batch.prefix[first, k - 1]
    found: Ints = above.astype(np.int64) * (batch.pair_count + 1) + batch.lists[first, k] + 1
    return found


def prefix_starts(batch: Batch, k: int) -> Ints:
    """Shape (prefixes down to k,): the first list of each, in the order of their numbers."""
    prefix = batch.prefix[:, k]
    new = np.ones(len(prefix), dtype=np.bool_)
    new[1:] = prefix[1:] != prefix[:-1]
    return np.flatnonzero(new)
