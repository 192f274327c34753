"""Items that many contexts show: what the others say of an item, as its features.

The rate of item a in context x is about m_x g_a: the mean of the context times an effect that goes
with the item. Without the contexts of one fold,

    m_x = Σ_a c_xa / Σ_a n_xa g_a        g_a = (Σ_x c_xa + λ) / (Σ_x n_xa m_x + λ)

in turn, with n and c the records, so far as they were examined, and the clicks. What the clicks of
an item are beyond those expected, shrunk by one λ or another, are its features in the contexts of
that fold: so no context is told of its own clicks. They are the coefficients of an indicator of
each item, found without a column for each. How far they are to be trusted, `features` learns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foreclick.batches import (
    Batch,
    Bools,
    Floats,
    Ints,
    batches_of,
    context_hashes,
    ratio,
    sums,
)
from foreclick.engines import HASHES
from foreclick.estimators.ladder.items import (
    FOLDS,
    UNKNOWN,
    item_folds,
    numbers_of,
    plain,
)
from foreclick.estimators.ladder.rates import reward_of
from foreclick.estimators.ladder.sample import sampled
from foreclick.tallies.base import Tally

MOST_PAIRS = 5_000_000
"""Items in contexts that effects are learnt from; of more, those of some contexts."""

_USUAL = 10.0  # λ while means and effects are found in turn
_SHRUNK = (1.0, 10.0, 100.0)  # λ of the features
_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class ItemEffects:
    """What contexts of other folds say of each item: in the place of a table of items.

    Attributes:
        items: (I,) values.
        matrix: Shape (FOLDS × I, features): of fold × I + item.
        fold: Shape (FOLDS × I,): the fold of the item.
        known: Shape (FOLDS × I,): whether other contexts have shown it.
    """

    items: pa.Array
    matrix: Floats
    fold: Ints
    known: Bools

    def rows(self, batch: Batch, items: pa.Array, context: Ints, item: Ints) -> Ints:
        """Shape (P,): the row of each pair, `UNKNOWN` for items that no other context has shown.

        Args:
            batch: whose contexts are meant.
            items: values of items.
            context: Shape (P,): contexts of the batch.
            item: Shape (P,): numbers among the values.
        """
        number = numbers_of(items, self.items)[item]
        fold = context_hashes(batch)[batch.context_value[context]] % FOLDS
        row = fold * len(self.items) + number
        there = number != UNKNOWN
        there[there] = self.known[row[there]]
        return np.where(there, row, UNKNOWN)


def item_effects(tally: Tally, reward: str) -> ItemEffects:
    """The effects of all items of a log; kept with it."""
    key = "item effects", tally.stored.op(), reward
    if key not in tally.learnt:
        pairs = _gathered(tally, reward)
        found = [_effects(pairs, fold) for fold in range(FOLDS)]
        tally.learnt[key] = ItemEffects(
            pairs.items,
            np.concatenate([features for features, _ in found]),
            np.tile(item_folds(pairs.items), FOLDS),
            np.concatenate([known for _, known in found]),
        )
    return cast("ItemEffects", tally.learnt[key])


class _Pairs(NamedTuple):
    """Items in contexts.

    Attributes:
        items: (I,) values.
        context, item, fold: Shape (P,) each.
        n: Shape (P,): records, so far as they were examined.
        c: Shape (P,): clicks.
    """

    items: pa.Array
    context: Ints
    item: Ints
    fold: Ints
    n: Floats
    c: Floats


def _gathered(tally: Tally, reward: str) -> _Pairs:
    """The items of all contexts, or of those whose hash is lowest."""
    parts: list[tuple[pa.Array, list[NDArray[Any]]]] = []
    limit, before = HASHES, 0
    examined = sampled(tally, reward).curve
    for batch in batches_of(tally):
        drawn = context_hashes(batch)[batch.context_value[batch.pair_context]]
        context = batch.pair_context.astype(np.int64) + before
        n, c = batch.shown @ examined, _clicks(batch, reward)
        parts.append((plain(batch.items), _below([drawn, context, batch.pair_item, n, c], limit)))
        before += batch.context_count
        while sum(len(each[0]) for _, each in parts) > MOST_PAIRS:
            limit //= 2
            parts = [(items, _below(each, limit)) for items, each in parts]
    values = pa.concat_arrays([items for items, _ in parts]).unique()
    drawn, context, n, c = (np.concatenate([each[j] for _, each in parts]) for j in (0, 1, 3, 4))
    item = np.concatenate([numbers_of(items, values)[each[2]] for items, each in parts])
    return _Pairs(values, np.unique(context, return_inverse=True)[1], item, drawn % FOLDS, n, c)


def _below(pairs: list[NDArray[Any]], limit: int) -> list[NDArray[Any]]:
    """The pairs of contexts whose hash, which comes first, is below a limit."""
    return pairs if limit == HASHES else [each[pairs[0] < limit] for each in pairs]


def _clicks(batch: Batch, reward: str) -> Floats:
    """Shape (P,): what each pair has earned."""
    earned, size = reward_of(batch, reward), batch.pair_count * batch.depth
    worth = earned.value * batch.n[earned.row]
    found = sums(batch.earned_slot(earned), worth, size + 1)[:size]
    return np.asarray(found.reshape(batch.pair_count, batch.depth).sum(axis=1))


def _effects(pairs: _Pairs, without: int) -> tuple[Floats, Bools]:
    """Shape (I, features): what contexts of other folds say of each item; and whether they do."""
    some = pairs.fold != without
    context, item, n, c = pairs.context[some], pairs.item[some], pairs.n[some], pairs.c[some]
    contexts, count = int(pairs.context.max(initial=-1)) + 1, len(pairs.items)
    clicks, earned = sums(item, c, count), sums(context, c, contexts)
    effect = np.ones(count)
    for _ in range(_ROUNDS):
        mean = ratio(earned, sums(context, n * effect[item], contexts))
        expected = sums(item, n * mean[context], count)
        effect = (clicks + _USUAL) / (expected + _USUAL)
    features = [(clicks - expected) / (expected + shrunk) for shrunk in _SHRUNK]
    return np.stack(features, axis=1), expected > 0
