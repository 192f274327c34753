"""Some contexts of a log, drawn by what was counted in them, never by their names or their place.

Contexts are ranked by a signature: a hash of how often each of their items was shown and clicked at
each position, and in which periods or buckets of users. Contexts of the same signature are alike in
all that is learnt from them. Multiples of the golden ratio then spread ranks evenly over 0 to 1, so
that of contexts that are alike a share is drawn, whichever they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from foreclick.batches.arrays import Bools, Floats, Ints, sums
from foreclick.batches.batch import Batch, reward_of
from foreclick.batches.source import Batches
from foreclick.engines import HASHES, hashed_here
from foreclick.engines.mixing import GOLDEN, mixed

_FINE = 64  # parts of a record that are told apart, where records have weights
_RATIO = (np.sqrt(5.0) - 1) / 2


def context_draws(batches: Batches, reward: str, taken: list[Bools] | None = None) -> list[Floats]:
    """By batch, shape (X,): a number from 0 to 1 for each context; below a share, it is drawn.

    Of a log that does not stay in memory, which would have to be read once more, it is the hash of
    the context's text.

    Args:
        batches: the log.
        reward: what is counted as clicks.
        taken: Shape (X,) by batch: the contexts that take part; others are never drawn.
    """
    key = "draws", reward
    if taken is None and key in batches.kept:
        return batches.kept[key]  # type: ignore[no-any-return]
    found: list[Floats]
    if batches.small:
        each = [_signatures(batch, reward) for batch in batches]
        counts = [len(own) for own in each]
        order = np.argsort(np.concatenate(each), kind="stable")
        if taken is not None:
            order = order[np.concatenate(taken)[order]]
        draws = np.ones(sum(counts))
        draws[order] = (np.arange(1, len(order) + 1) * _RATIO) % 1
        found = np.split(draws, np.cumsum(counts)[:-1])
    else:
        found = [_text_hashes(batch) / HASHES for batch in batches]
        if taken is not None:
            found = [np.where(t, own, 1.0) for t, own in zip(taken, found, strict=True)]
    if taken is None:
        batches.kept[key] = found
    return found


def _text_hashes(batch: Batch) -> Ints:
    """Shape (X,): the hash of each context's text, below `HASHES`."""
    text = batch.contexts.cast(pa.string()).fill_null("").to_pylist()
    return np.array([hashed_here(f"foreclick:{t}") for t in text], dtype=np.int64)[
        batch.context_value
    ]


def _signatures(batch: Batch, reward: str) -> Any:  # noqa: ANN401 - (X,) numbers of 64 bits
    """Shape (X,): a hash of what was counted in each context."""
    earned = reward_of(batch, reward)
    clicked = batch.by_slot(batch.earned_slot(earned), earned.value * batch.n[earned.row])
    hashes = np.zeros(batch.pair_count, dtype=np.uint64)
    for k in range(batch.depth):
        for column in (batch.shown[:, k], clicked[:, k]):
            hashes = mixed(hashes + _bits(column) * GOLDEN)
    found = np.zeros(batch.context_count, dtype=np.uint64)
    starts = batch.context_pairs
    some = np.flatnonzero(starts[1:] > starts[:-1])
    if len(some):
        found[some] = np.add.reduceat(hashes, starts[some])
    for kind in batch.clusters:
        code = np.arange(batch.cluster_count[kind], dtype=np.uint64)
        weight = np.asarray(mixed(code * GOLDEN) >> np.uint64(44), dtype=np.float64)
        when = sums(batch.row_context, batch.n * weight[batch.clusters[kind]], batch.context_count)
        found = mixed(found + _bits(when) * GOLDEN)
    return found


def _bits(values: Floats) -> Any:  # noqa: ANN401 - numbers of 64 bits
    return np.round(values * _FINE).astype(np.int64).view(np.uint64)


def some_contexts(batches: Batches, reward: str, share: float) -> Batches:
    """The batches of about that share of the contexts, with all their records."""
    if share >= 1:
        return batches
    return Batches(batches.tally, source=_Drawn(batches, reward, share))


class _Drawn:
    """Batches without the contexts that were not drawn."""

    def __init__(self, batches: Batches, reward: str, share: float) -> None:
        self._batches, self._share = batches, share
        self._draws = context_draws(batches, reward)
        self.codebook, self.rows = batches.codebook, round(share * batches.rows)

    def __iter__(self) -> Iterator[Batch]:
        for batch, draws in zip(self._batches, self._draws, strict=True):
            found = batch.among((draws < self._share)[batch.row_context])
            if len(found.n):
                yield found
