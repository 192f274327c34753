"""Some contexts of a log, from which a ladder learns what all contexts share.

Contexts are drawn by the hash of their text, so the sample is the same wherever the log lives. Its
records come in parts that vary independently: periods, buckets of units, or tenths of the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

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
from foreclick.estimate.places import examination_curve
from foreclick.estimators.ladder.classes import classes_of
from foreclick.estimators.ladder.items import FOLDS, Items
from foreclick.estimators.ladder.rates import reward_of
from foreclick.tallies.base import FEW_PERIODS, Tally

if TYPE_CHECKING:
    from foreclick.estimators.ladder.effects import ItemEffects

SAMPLE_ROWS = 15_000
"""Rows of a tally that strengths are learnt from: a second's work, and more hardly change them."""

PARTS = 10
"""Parts that are predicted from the others, at most."""


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Sample:
    """Some contexts of a log: a row for each list in each part.

    Sizes: G rows, L lists, K positions, C classes, Q pairs. Numbers need not be consecutive.

    Attributes:
        lists: Shape (L, K): the pair of each slot, `EMPTY` where nothing is shown.
        prefix: Shape (L, K): the number of the list's beginning down to each position.
        context: Shape (L,).
        classes: Shape (C, L): the classes of the list's context, finest first.
        row_list: Shape (G,).
        part: Shape (G,).
        n: Shape (G,): records.
        clicks: Shape (G, K): summed rewards.
        pair_row: Shape (Q,): the row of each pair in a table of items, in the order of pairs.
        pair_context: Shape (Q,).
        pair_fold: Shape (Q,): the fold of the pair's context. No pairs without a table.
        dated: whether parts are periods.
    """

    lists: Ints
    prefix: Ints
    context: Ints
    classes: Ints
    row_list: Ints
    part: Ints
    n: Floats
    clicks: Floats
    pair_row: Ints = field(default_factory=_none)
    pair_context: Ints = field(default_factory=_none)
    pair_fold: Ints = field(default_factory=_none)
    dated: bool = False

    @cached_property
    def curve(self) -> Floats:
        """Shape (K,): how much each position is examined, by the items of the sample that moved."""
        return examination_curve(*sample_counts(self))

    def by_list(self) -> Sample:
        """The same records; every list is a part."""
        return replace(self, part=self.row_list)


def sampled(
    tally: Tally,
    reward: str,
    segments: Sequence[str] = (),
    parts: int = PARTS,
    items: Items | ItemEffects | None = None,
) -> Sample:
    """Contexts with about `SAMPLE_ROWS` rows of a tally, or all of a small one; kept with it.

    Args:
        tally: the log.
        reward: whose clicks are counted.
        segments: what contexts have in common.
        parts: how many parts periods or buckets of units make up, at most.
        items: a table of items.
    """
    key = "ladder sample", tally.stored.op(), reward, tuple(segments), parts, items
    if key not in tally.learnt:
        make = _Drawing(reward, tuple(segments), _parts_of(batches_of(tally)), parts, items)
        tally.learnt[key] = _draw(batches_of(tally), make)
    return cast("Sample", tally.learnt[key])


def _draw(batches: Batches, make: _Drawing) -> Sample:
    apart = make.apart
    share = SAMPLE_ROWS / max(batches.rows, 1)
    while share < 1:
        found = _gather(batches, make, round(share * HASHES))
        if found is not None and len(found.n) >= SAMPLE_ROWS / 20:
            return found if apart else _dealt(found)
        share *= 4  # a few contexts may have most of the log
    found = _gather(batches, make, HASHES)
    if found is None:
        raise ValueError("a log without records")
    return found if apart else _dealt(found)


def _parts_of(batches: Batches) -> Cluster | None:
    """The clusters that serve as parts: periods, if there are enough; else units, if any."""
    periods = batches.codebook.periods
    if periods is not None and len(periods) - periods.values.null_count >= FEW_PERIODS:
        return "period"
    return "unit" if batches.shape.unit else None


class _Drawing(NamedTuple):
    """What is drawn of the contexts of a sample: see `sampled`; and which clusters are parts."""

    reward: str
    segments: tuple[str, ...]
    apart: Cluster | None
    parts: int
    items: Items | ItemEffects | None = None


def _gather(batches: Batches, what: _Drawing, limit: int) -> Sample | None:
    """The contexts whose hash is below the limit, of all batches; None where there are none."""
    found: list[Sample] = []
    before = dict.fromkeys(("list", "pair", "context"), 0)
    for batch in batches:
        drawn = np.ones(batch.context_count, dtype=np.bool_)
        if limit < HASHES:
            drawn = context_hashes(batch)[batch.context_value] < limit
        if drawn.any():
            classes = classes_of(batch, what.segments, batches)
            found.append(_of_batch(batch, drawn, what, classes, before))
        before["list"] += int(drawn[batch.list_context].sum())
        before["pair"] += batch.pair_count
        before["context"] += batch.context_count
    if not found:
        return None
    axis = {"classes": 1}
    return Sample(
        **{
            name: np.concatenate([getattr(s, name) for s in found], axis=axis.get(name, 0))
            for name in Sample.__dataclass_fields__
            if name != "dated"
        },
        dated=what.apart == "period",
    )


def _of_batch(
    batch: Batch,
    drawn: Bools,
    what: _Drawing,
    classes: Ints,
    before: dict[str, int],
) -> Sample:
    """The drawn contexts of a batch; numbers go on from those of the batches before it."""
    inside = drawn[batch.list_context]
    number = np.cumsum(inside) - 1
    rows = np.flatnonzero(inside[batch.row_list])
    some = batch.take(rows, batch.n[rows])
    reward, apart = what.reward, what.apart
    grouped = _by_part(some, reward, apart, what.parts) if apart else _by_pattern(some, reward)
    row_list, part, n, clicks = grouped
    lists, context = batch.lists[inside], batch.list_context[inside]
    found = Sample(
        lists=np.where(lists == EMPTY, EMPTY, lists.astype(np.int64) + before["pair"]),
        prefix=_renumbered(batch.prefix[inside]) + before["list"],
        context=context.astype(np.int64) + before["context"],
        classes=classes[:, context],
        row_list=number[row_list] + before["list"],
        part=part,
        n=n,
        clicks=clicks,
    )
    if what.items is None:
        return found
    return _with_pairs(found, batch, drawn, what.items, before["context"])


def _with_pairs(
    found: Sample, batch: Batch, drawn: Bools, items: Items | ItemEffects, before: int
) -> Sample:
    """The sample with the pairs of the drawn contexts: row in the item table, context, fold."""
    pair = np.flatnonzero(drawn[batch.pair_context])
    context = batch.pair_context[pair]
    return replace(
        found,
        pair_row=items.rows(batch, batch.items, context, batch.pair_item[pair]),
        pair_context=context.astype(np.int64) + before,
        pair_fold=context_hashes(batch)[batch.context_value[context]] % FOLDS,
    )


def _renumbered(prefix: Ints) -> Ints:
    """Prefixes of some lists, in order, numbered from 0 at each position."""
    new = np.zeros(prefix.shape, dtype=np.bool_)
    new[1:] = prefix[1:] != prefix[:-1]
    return np.cumsum(new, axis=0)


def _by_part(
    batch: Batch, reward: str, apart: Cluster, parts: int
) -> tuple[Ints, Ints, Floats, Floats]:
    """List, part, records and rewards of each list in each part.

    Of more than ten periods or buckets of units, say, every tenth is of the same one of ten parts.
    """
    count = min(max(batch.cluster_count[apart], 1), parts)
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


def sample_counts(sample: Sample, *, apart: bool = False) -> tuple[Floats, Floats]:
    """Shape (P, K) each: the records and the clicks of every pair of the sample.

    Args:
        sample: some contexts.
        apart: whether a pair is another one in each part of the records.
    """
    depth = sample.lists.shape[1]
    row, k = np.nonzero((sample.lists != EMPTY)[sample.row_list])
    pair = sample.lists[sample.row_list[row], k].astype(np.int64)
    if apart:
        pair = pair * (int(sample.part.max(initial=0)) + 1) + sample.part[row]
    pairs, number = numbered(pair, int(pair.max(initial=-1)) + 1)
    shape = len(pairs), depth
    n, w = (
        sums(number * depth + k, values, shape[0] * depth).reshape(shape)
        for values in (sample.n[row], sample.clicks[row, k])
    )
    return n, w
