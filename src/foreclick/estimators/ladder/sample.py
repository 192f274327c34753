"""Some contexts of a log, from which a ladder learns what all contexts share.

Contexts are drawn by the hash of their text, so the sample is the same wherever the log lives. Its
records come in parts that vary independently: periods, buckets of units, or tenths of the records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from foreclick.batches import (
    EMPTY,
    Batch,
    Batches,
    Bools,
    Cluster,
    Floats,
    Ints,
    batches_of,
    context_hashes,
    sums,
)
from foreclick.batches.arrays import numbered
from foreclick.engines import HASHES
from foreclick.estimators.examination import examination_curve
from foreclick.estimators.ladder.rates import reward_of
from foreclick.tallies.base import FEW_PERIODS, Tally

SAMPLE_ROWS = 15_000
"""Rows of a tally that strengths are learnt from: a second's work, and more hardly change them."""

PARTS = 10
"""Parts that are predicted from the others, at most."""


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
        dated: whether parts are periods.
    """

    lists: Ints
    prefix: Ints
    context: Ints
    row_list: Ints
    part: Ints
    n: Floats
    clicks: Floats
    dated: bool = False

    @cached_property
    def curve(self) -> Floats:
        """Shape (K,): how much each position is examined, by the items of the sample that moved."""
        return examination_curve(*sample_counts(self))

    def by_list(self) -> Sample:
        """The same records; every list is a part."""
        return replace(self, part=self.row_list)


def sampled(tally: Tally, reward: str) -> Sample:
    """Contexts with about `SAMPLE_ROWS` rows of a tally, or all of a small one; kept with it.

    Args:
        tally: the log.
        reward: whose clicks are counted.
    """
    key = "ladder sample", tally.stored.op(), reward
    if key not in tally.learnt:
        tally.learnt[key] = _draw(batches_of(tally), reward)
    return cast("Sample", tally.learnt[key])


def _draw(batches: Batches, reward: str) -> Sample:
    apart = _parts_of(batches)
    share = SAMPLE_ROWS / max(batches.rows, 1)
    while share < 1:
        found = _gather(batches, reward, apart, round(share * HASHES))
        if found is not None and len(found.n) >= SAMPLE_ROWS / 20:
            return found if apart else _dealt(found)
        share *= 4  # a few contexts may have most of the log
    found = _gather(batches, reward, apart, HASHES)
    if found is None:
        raise ValueError("a log without records")
    return found if apart else _dealt(found)


def _parts_of(batches: Batches) -> Cluster | None:
    """The clusters that serve as parts: periods, if there are enough; else units, if any."""
    periods = batches.codebook.periods
    if periods is not None and len(periods) - periods.values.null_count >= FEW_PERIODS:
        return "period"
    return "unit" if batches.shape.unit else None


def _gather(batches: Batches, reward: str, apart: Cluster | None, limit: int) -> Sample | None:
    """The contexts whose hash is below the limit, of all batches; None where there are none."""
    found: list[Sample] = []
    before = dict.fromkeys(("list", "pair", "context"), 0)
    for batch in batches:
        drawn = np.ones(batch.context_count, dtype=np.bool_)
        if limit < HASHES:
            drawn = context_hashes(batch)[batch.context_value] < limit
        if drawn.any():
            found.append(_of_batch(batch, drawn, reward, apart, before))
        before["list"] += int(drawn[batch.list_context].sum())
        before["pair"] += batch.pair_count
        before["context"] += batch.context_count
    if not found:
        return None
    return Sample(
        **{
            name: np.concatenate([getattr(s, name) for s in found])
            for name in Sample.__dataclass_fields__
            if name != "dated"
        },
        dated=apart == "period",
    )


def _of_batch(
    batch: Batch, drawn: Bools, reward: str, apart: Cluster | None, before: dict[str, int]
) -> Sample:
    """The drawn contexts of a batch; numbers go on from those of the batches before it."""
    inside = drawn[batch.list_context]
    number = np.cumsum(inside) - 1
    rows = np.flatnonzero(inside[batch.row_list])
    some = batch.take(rows, batch.n[rows])
    grouped = _by_part(some, reward, apart) if apart else _by_pattern(some, reward)
    row_list, part, n, clicks = grouped
    lists, context = batch.lists[inside], batch.list_context[inside]
    return Sample(
        lists=np.where(lists == EMPTY, EMPTY, lists.astype(np.int64) + before["pair"]),
        prefix=_renumbered(batch.prefix[inside]) + before["list"],
        context=context.astype(np.int64) + before["context"],
        row_list=number[row_list] + before["list"],
        part=part,
        n=n,
        clicks=clicks,
    )


def _renumbered(prefix: Ints) -> Ints:
    """Prefixes of some lists, in order, numbered from 0 at each position."""
    new = np.zeros(prefix.shape, dtype=np.bool_)
    new[1:] = prefix[1:] != prefix[:-1]
    return np.cumsum(new, axis=0)


def _by_part(batch: Batch, reward: str, apart: Cluster) -> tuple[Ints, Ints, Floats, Floats]:
    """List, part, records and rewards of each list in each part.

    Of more than ten periods or buckets of units, say, every tenth is of the same one of ten parts.
    """
    count = min(max(batch.cluster_count[apart], 1), PARTS)
    part = batch.clusters[apart].astype(np.int64) % count
    key = batch.row_list.astype(np.int64) * count + part
    groups, row = numbered(key, len(batch.lists) * count)
    earned, size = reward_of(batch, reward), len(groups) * batch.depth
    value = earned.value * batch.n[earned.row]
    clicks = sums(row[earned.row] * batch.depth + earned.position, value, size)
    n = sums(row, batch.n, len(groups))
    return groups // count, groups % count, n, clicks.reshape(-1, batch.depth)


def _by_pattern(batch: Batch, reward: str) -> tuple[Ints, Ints, Floats, Floats]:
    """List, 0, records and rewards of one record, of each list with each pattern of rewards.

    Ordered by context, items with an empty position last, and rewards.
    """
    earned = reward_of(batch, reward)
    clicks = np.zeros((len(batch.n), batch.depth))
    clicks[earned.row, earned.position] = earned.value
    shown = np.where(batch.lists == EMPTY, batch.pair_count, batch.lists)
    rank = np.empty(len(shown), dtype=np.int64)
    rank[np.lexsort((*shown.T[::-1], batch.list_context))] = np.arange(len(shown))
    order = np.lexsort((*clicks.T[::-1], rank[batch.row_list]))
    listed, clicks = batch.row_list[order], clicks[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (listed[1:] != listed[:-1]) | (clicks[1:] != clicks[:-1]).any(axis=1)
    n = sums(np.cumsum(new) - 1, batch.n[order], int(new.sum()))
    return listed[new], np.zeros(len(n), dtype=np.int64), n, clicks[new]


def _dealt(sample: Sample) -> Sample:
    """A sample of patterns, their records dealt out to `PARTS` parts."""
    row, part, times = dealt(np.arange(len(sample.n)), sample.n)
    own: dict[str, Any] = {
        "row_list": sample.row_list[row],
        "part": part,
        "n": times,
        "clicks": sample.clicks[row] * times[:, None],
    }
    return replace(sample, **own)


def dealt(rows: Ints, n: Floats) -> tuple[Ints, Ints, Floats]:
    """Equal records dealt out to `PARTS` parts as evenly as may be: rows, parts, and how many.

    What is left over of row j, fewer than `PARTS` records, goes to the parts from j mod `PARTS` on.
    """
    at = np.arange(PARTS)
    share = np.floor(n / PARTS)[:, None] + ((at - rows[:, None]) % PARTS < (n % PARTS)[:, None])
    row, part = np.nonzero(share)
    return row, part, share[row, part]


def sample_counts(sample: Sample) -> tuple[Floats, Floats]:
    """Shape (P, K) each: the records and the clicks of every pair of the sample."""
    depth = sample.lists.shape[1]
    row, k = np.nonzero((sample.lists != EMPTY)[sample.row_list])
    pair = sample.lists[sample.row_list[row], k].astype(np.int64)
    pairs, number = numbered(pair, int(pair.max(initial=-1)) + 1)
    shape = len(pairs), depth
    n, w = (
        sums(number * depth + k, values, shape[0] * depth).reshape(shape)
        for values in (sample.n[row], sample.clicks[row, k])
    )
    return n, w
