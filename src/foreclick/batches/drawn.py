"""Some contexts of a log, drawn by what was counted in them, never by their names or their place.

Contexts are ranked by a signature: a hash of how often each of their lists was shown and clicked at
each position, and in which periods or buckets of users. Contexts of the same signature are alike in
all that is learnt from them; what candidates show there ranks them, where that counts. Multiples of
the golden ratio then spread ranks evenly over 0 to 1, so that of contexts that are alike a share is
drawn, whichever they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from foreclick.batches.arrays import Bools, Floats, Ints, starts_of, sums
from foreclick.batches.batch import EMPTY, Batch
from foreclick.batches.candidate import Candidate
from foreclick.batches.encode import Codebook, Codes, wide
from foreclick.batches.source import Batches
from foreclick.engines import HASHES, hashed_here
from foreclick.engines.base import GOLDEN, mixed
from foreclick.logs import PERIOD

_FINE = 64  # parts of a record that are told apart, where records have weights
_RATIO = (np.sqrt(5.0) - 1) / 2


def context_draws(batches: Batches, reward: str) -> list[Floats]:
    """By batch, shape (X,): a number from 0 to 1 for each context; below a share, it is drawn.

    Of a log that does not stay in memory, which would have to be read once more, it is the hash of
    the context's text.

    Args:
        batches: the log.
        reward: what is counted as clicks.
    """
    key = "draws", reward
    if key not in batches.cache:
        draws = draws_by_content(batches, reward) if batches.small else []
        if not batches.small:  # which is known for sure when all were read
            draws = [text_draws(batch) for batch in batches]
        batches.cache[key] = draws
    return batches.cache[key]  # type: ignore[no-any-return]


def draws_by_content(
    batches: Iterable[Batch], reward: str, candidates: Sequence[Sequence[Candidate]] = ()
) -> list[Floats]:
    """The same by what was counted in each context; 1 for those without records.

    Args:
        batches: the log.
        reward: what is counted as clicks.
        candidates: by batch, those that rank contexts in which the same was counted.
    """
    each = [
        (
            batch.cached(("signature", reward), partial(_signatures, batch, reward)),
            _shown_hashes(batch, reward, members),
            batch.context_n > 0,
        )
        for batch, members in zip(batches, candidates or repeat(()), strict=False)
    ]
    signatures, shown, used = (np.concatenate(column) for column in zip(*each, strict=True))
    some = np.flatnonzero(used)
    order = some[np.lexsort((shown[some], signatures[some]))]
    draws = np.ones(len(used))
    draws[order] = (np.arange(1, len(order) + 1) * _RATIO) % 1
    return np.split(draws, np.cumsum([len(own) for own, *_ in each])[:-1])


def text_draws(batch: Batch) -> Floats:
    """Shape (X,): a number from 0 to 1 for each context, the hash of its text."""
    text = batch.contexts.cast(pa.string()).fill_null("").to_pylist()
    hashes = np.array([hashed_here(f"foreclick:{t}") for t in text], dtype=np.int64)
    return np.asarray(hashes / HASHES)


def _signatures(batch: Batch, reward: str) -> Any:  # noqa: ANN401 - (X,) numbers of 64 bits
    """Shape (X,): a hash of what was counted in each context.

    An item is known by how often it was shown and clicked at each position; a list by its items,
    and by how often which of them were clicked together, in which periods or buckets of users.
    """
    earned, items = batch.reward(reward), _item_hashes(batch, reward)
    rows = np.zeros(len(batch.n), dtype=np.uint64)
    for code in batch.clusters.values():
        rows = mixed(rows + code.astype(np.uint64) * GOLDEN)
    click = mixed(_bits(earned.value) * GOLDEN + earned.position.astype(np.uint64))
    rows = mixed(rows + _run_sums(earned.row, click, len(rows)))
    lists = np.zeros(len(batch.lists), dtype=np.uint64)
    for k in range(batch.depth):
        lists = mixed(lists * GOLDEN + items[batch.lists[:, k]])
    for part in (rows >> np.uint64(44), rows << np.uint64(20) >> np.uint64(44)):
        # However many rows have the same records, the sum over them is exact, or rounded alike.
        when = sums(batch.row_list, batch.n * part.astype(np.float64), len(lists))
        lists = mixed(lists + _bits(when) * GOLDEN)
    return _run_sums(batch.list_context, lists, batch.context_count)


def _item_hashes(batch: Batch, reward: str) -> Any:  # noqa: ANN401 - (P + 1,) numbers of 64 bits
    """Shape (P + 1,): a hash of how often each pair was shown and clicked; the last is 0."""

    def make() -> Any:  # noqa: ANN401
        earned = batch.reward(reward)
        clicked = batch.by_slot(batch.earned_slot(earned), earned.value * batch.n[earned.row])
        items = np.zeros(batch.pair_count + 1, dtype=np.uint64)
        for k in range(batch.depth):
            for column in (batch.shown[:, k], clicked[:, k]):
                items[:EMPTY] = mixed(items[:EMPTY] + _bits(column) * GOLDEN)
        return items

    return batch.cached(("item hashes", reward), make)


def _shown_hashes(batch: Batch, reward: str, members: Sequence[Candidate]) -> Any:  # noqa: ANN401
    """Shape (X,): a hash of what candidates show in each context; 0 without candidates."""
    total = np.zeros(batch.context_count, dtype=np.uint64)
    for member in members:
        slots = member.slots
        hashes = _item_hashes(batch, reward)[np.minimum(slots.pair, batch.pair_count)]
        for column in slots.mass.T:
            hashes = mixed(hashes + _bits(column) * GOLDEN)
        order = np.argsort(slots.context, kind="stable")
        total = mixed(total + _run_sums(slots.context[order], hashes[order], len(total)))
    return total


def _run_sums(group: Ints, values: Any, count: int) -> Any:  # noqa: ANN401 - numbers of 64 bits
    """Shape (count,): the sums of values, modulo 2**64, by group, shape (N,), which rise."""
    totals, starts = np.zeros(count, dtype=np.uint64), starts_of(group, count)
    some = np.flatnonzero(starts[1:] > starts[:-1])
    if len(some):  # reduceat has no empty runs
        totals[some] = np.add.reduceat(values, starts[some])
    return totals


def _bits(values: Floats) -> Any:  # noqa: ANN401 - numbers of 64 bits
    return np.round(values * _FINE).astype(np.int64).view(np.uint64)


def some_contexts(batches: Batches, reward: str, share: float) -> Batches:
    """The batches of about that share of the contexts, with all their records."""
    if share >= 1:
        return batches
    drawn = [draws < share for draws in context_draws(batches, reward)]
    source = _Taken(batches, drawn, batches.codebook, round(share * batches.rows))
    return Batches(batches.tally, source=source)


def only_contexts(batches: Batches, taken: Sequence[Bools]) -> Batches:
    """The batches without the other contexts, as if the log had never had these, nor their periods.

    Args:
        batches: the log.
        taken: Shape (X,) by batch: the contexts that take part.
    """
    book, number = batches.codebook, None
    if book.periods is not None:
        there = np.zeros(len(book.periods), dtype=np.bool_)
        for batch, contexts in zip(batches, taken, strict=True):
            there[batch.clusters["period"][contexts[batch.row_context]]] = True
        periods = Codes(book.periods.values.filter(pa.array(there)))
        book, number = Codebook({**book.columns, PERIOD: periods}), np.cumsum(there) - 1
    return Batches(batches.tally, source=_Taken(batches, taken, book, batches.rows, number))


@dataclass(eq=False)
class _Taken:
    """Batches without the contexts that were not taken; periods may have other numbers."""

    batches: Batches
    taken: Sequence[Bools]
    codebook: Codebook
    rows: int
    number: Ints | None = None

    def __iter__(self) -> Iterator[Batch]:
        for batch, contexts in zip(self.batches, self.taken, strict=True):
            some = batch.among(contexts[batch.row_context])
            if self.number is not None:
                clusters = {**some.clusters, "period": self.number[some.clusters["period"]]}
                count = wide(self.codebook.clusters("period"), len(some.n) * some.depth)
                counts = {**some.cluster_count, "period": count}
                some = replace(some, clusters=clusters, cluster_count=counts)
            if len(some.n):
                yield some
