"""From rows of a tally to a batch, columns become codes; and back.

Rows come in canonical order (`Shape.order`). Values that the whole log shares, periods and
segments, have one number everywhere (`Codes`); contexts and items are numbered within the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches.arrays import Bools, Floats, Ints
from foreclick.batches.batch import EMPTY, Batch, Cluster, Drawn, Reward, paired
from foreclick.engines import BUCKETS
from foreclick.logs import BUCKET, CONTEXT, PERIOD, PROPENSITY, N, Shape
from foreclick.logs.roles import INCLUSION, SAMPLING_WEIGHT

_SAFE = 2**29  # a quarter of the largest 32-bit integer: candidates add cells of their own


@dataclass(frozen=True)
class Codes:
    """The values of a column that the whole log shares, rising, NULL last."""

    values: pa.Array

    @classmethod
    def from_values(cls, values: pa.Array | pa.ChunkedArray) -> Codes:
        """Of all values that occur."""
        unique = pc.unique(values)
        return cls(unique.take(pc.sort_indices(unique)))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def known(self) -> int:
        """How many values there are besides NULL, whose number is this one."""
        return len(self.values) - int(self.values.null_count)

    def number(self, column: pa.ChunkedArray) -> Ints:
        """Shape (R,): the number of each row's value."""
        return np.asarray(pc.index_in(column, value_set=self.values), dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Codebook:
    """What is numbered alike in all batches of a log: columns of segments, and the periods."""

    columns: dict[str, Codes]

    @property
    def periods(self) -> Codes | None:
        """None for a log without."""
        return self.columns.get(PERIOD)

    def clusters(self, kind: Cluster) -> int:
        """How many clusters of a kind the whole log has."""
        return BUCKETS if kind == "unit" else len(self.periods or ())


def encode(rows: pa.Table, shape: Shape, codebook: Codebook) -> Batch:
    """The batch of some whole contexts, from their rows in canonical order."""
    rows, new_context, new_list = _merged(rows, shape)
    first = np.flatnonzero(new_list)
    context = np.cumsum(new_context, dtype=np.int32) - 1
    items, shown = _items([_taken(rows[column], first) for column in shape.items])
    pair_context, pair_item, lists = paired(context[first], shown, len(items))
    clusters: dict[Cluster, Ints] = {}
    if codebook.periods is not None:
        clusters["period"] = codebook.periods.number(rows[PERIOD])
    if shape.unit:
        clusters["unit"] = _numbers(rows[BUCKET]).astype(np.int32)
    chances = [_numbers(rows[c]).astype(np.float64) for c in shape.propensities]
    return Batch(
        depth=shape.depth,
        contexts=_taken(rows[CONTEXT], np.flatnonzero(new_context)),
        items=items,
        pair_context=pair_context,
        pair_item=pair_item,
        lists=lists,
        list_context=context[first],
        row_list=np.cumsum(new_list, dtype=np.int32) - 1,
        n=_numbers(rows[N]).astype(np.float64),
        rewards={name: _reward(rows, shape, name) for name in shape.rewards},
        clusters=clusters,
        cluster_count={
            kind: wide(codebook.clusters(kind), rows.num_rows * shape.depth) for kind in clusters
        },
        segments={name: codebook.columns[name].number(rows[name]) for name in shape.segments},
        propensity=np.stack(chances, axis=1)
        if shape.propensity == "slot"
        else next(iter(chances), None),
        drawn=Drawn(*map(_chance, (rows[SAMPLING_WEIGHT], rows[INCLUSION])))
        if shape.drawn
        else None,
    )


def _chance(column: pa.ChunkedArray) -> Floats:
    """A weight or a probability; 1 in a log of which nothing was drawn."""
    return np.asarray(pc.fill_null(column, 1.0).combine_chunks(), np.float64)


def wide(count: int, others: int) -> int:
    """A number that makes products with up to so many others 64-bit integers, if they need that.

    Numbers of pairs, lists and slots are 32-bit integers, and NumPy multiplies them as such by a
    number of Python's.
    """
    return np.int64(count) if count * others >= _SAFE else count  # type: ignore[return-value]


def _merged(rows: pa.Table, shape: Shape) -> tuple[pa.Table, Bools, Bools]:
    """Rows with equal keys, from several files or tallies, as one.

    Also, of each row, whether a context begins with it, and whether a list does.
    """
    new = _changes(rows[CONTEXT])
    new_context = new.copy()
    for column in shape.items:
        new |= _changes(rows[column])
    new_list = new.copy()
    for column in shape.order[1 + len(shape.items) :]:
        if not new.all():
            new |= _changes(rows[column])
    if new.all():
        return rows, new_context, new_list
    first = np.flatnonzero(new)
    n = np.add.reduceat(_numbers(rows[N]), first)
    merged = pa.table({c: _taken(rows[c], first) for c in shape.order})
    return merged.append_column(N, pa.array(n)), new_context[first], new_list[first]


def _changes(column: pa.ChunkedArray) -> Bools:
    """Shape (R,): whether a value is another than that of the row before; NULL equals NULL."""
    changes = np.ones(len(column), dtype=np.bool_)
    if len(column) < 2:
        return changes
    values = column.combine_chunks()
    if pa.types.is_integer(values.type) and not values.null_count:
        plain = np.asarray(values)
        np.not_equal(plain[1:], plain[:-1], out=changes[1:])
        return changes
    differs = pc.not_equal(values.slice(1), values.slice(0, len(values) - 1))
    changes[1:] = np.asarray(differs.fill_null(False))
    if values.null_count:
        there = np.asarray(values.is_valid())
        changes[1:] |= there[1:] != there[:-1]
    return changes


def _items(columns: Sequence[pa.Array]) -> tuple[pa.Array, Ints]:
    """The items that lists show, rising, and of each list (L, K) their numbers."""
    encoded = pa.concat_arrays(columns).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    rank = np.full(len(order) + 1, EMPTY, dtype=np.int32)  # the last is that of no item, -1
    rank[np.asarray(order)] = np.arange(len(order))
    number = rank[np.asarray(encoded.indices.fill_null(EMPTY))]
    return encoded.dictionary.take(order), number.reshape(len(columns), -1).T


def _reward(rows: pa.Table, shape: Shape, name: str) -> Reward:
    """The entries of a reward that are not 0, row after row."""
    depth = shape.depth
    if name in shape.masks:
        mask = _numbers(rows[name]).astype(np.int64)
        some = np.flatnonzero(mask)
        bits = (mask[some, None] >> np.arange(depth)) & 1 == 1
        at = np.flatnonzero(bits)
        row, position = some[at // depth], at % depth
        return Reward(row.astype(np.int32), position.astype(np.int8), np.ones(len(at)))
    values = np.stack([_numbers(rows[c]) for c in shape.reward(name)], axis=1).astype(np.float64)
    row, position = np.nonzero(values)
    entries = values[row, position]
    return Reward(row.astype(np.int32), position.astype(np.int8), entries)


def _numbers(column: pa.ChunkedArray) -> Any:  # noqa: ANN401 - integers or doubles
    """A column of numbers, 0 where there is none."""
    values = column.combine_chunks()
    return np.asarray(values.fill_null(0) if values.null_count else values)


def _taken(column: pa.ChunkedArray, rows: Ints) -> pa.Array:
    return column.combine_chunks().take(pa.array(rows))


def decode(batch: Batch, shape: Shape, codebook: Codebook) -> dict[str, pa.Array]:
    """The keys of the rows of a batch without buckets, one column a position, by `Shape.keys`.

    Args:
        batch: some records.
        shape: of the tally.
        codebook: the values behind the numbers of periods and segments.
    """
    lists = batch.lists[batch.row_list]
    empty = lists == EMPTY
    keys = {CONTEXT: batch.contexts.take(pa.array(batch.row_context))}
    for name in (*([PERIOD] if shape.period else []), *shape.segments):
        keys[name] = codebook.columns[name].values.take(pa.array(batch.codes(name)))
    for k, name in enumerate(shape.items):
        keys[name] = batch.items.take(pa.array(batch.pair_item[lists[:, k]], mask=empty[:, k]))
    for reward in shape.rewards:
        values = batch.reward_table(reward)
        for k, name in enumerate(shape.reward(reward)):
            keys[name] = pa.array(values[:, k], mask=empty[:, k])
    if shape.propensity == "list":
        keys[PROPENSITY] = pa.array(batch.propensity)
    elif batch.propensity is not None:
        for k, name in enumerate(shape.propensities):
            keys[name] = pa.array(batch.propensity[:, k], mask=empty[:, k])
    return keys
