"""From rows of a tally to a batch, columns become codes; and back.

Rows come in canonical order (`Shape.order`). Values that the whole log shares, periods and
segments, have one number everywhere (`Codes`); contexts and items are numbered within the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches.arrays import Bools, Floats, Ints
from foreclick.batches.batch import EMPTY, Batch, Cluster, Reward, paired
from foreclick.engines import BUCKETS
from foreclick.logs import BUCKET, CONTEXT, PERIOD, N, Shape

_SAFE = 2**29  # a quarter of the largest 32-bit integer: candidates add cells of their own


@dataclass(frozen=True)
class Codes:
    """The values of a column that the whole log shares, rising, NULL last."""

    values: pa.Array

    @classmethod
    def from_values(cls, values: pa.Array | pa.ChunkedArray) -> Codes:
        """Of all values that occur."""
        unique = _whole(pc.unique(values))
        return cls(unique.take(pc.sort_indices(unique)))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def known(self) -> int:
        """How many values there are besides NULL, whose number is this one."""
        return len(self.values) - int(self.values.null_count)

    def number(self, column: pa.ChunkedArray) -> Ints:
        """Shape (R,): the number of each row's value."""
        return np.asarray(_whole(pc.index_in(column, value_set=self.values)), dtype=np.int32)


@dataclass(frozen=True)
class Codebook:
    """What is numbered alike in all batches of a log.

    Attributes:
        periods: None for a log without.
        segments: by column.
    """

    periods: Codes | None = None
    segments: dict[str, Codes] = field(default_factory=dict)

    def column(self, name: str) -> Codes:
        """The values of a segment column, or of the periods."""
        if name not in self.segments and self.periods is not None:
            return self.periods
        return self.segments[name]

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
    contexts = _taken(rows[CONTEXT], np.flatnonzero(new_context))
    return Batch(
        depth=shape.depth,
        contexts=contexts,
        context_value=np.arange(len(contexts)),
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
        segments={name: codes.number(rows[name]) for name, codes in codebook.segments.items()},
        propensity=_propensity(rows, shape),
        stratum=np.zeros(len(contexts), dtype=np.int32),
    )


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
    values = _whole(column)
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
    encoded = _whole(pa.chunked_array(columns)).dictionary_encode()
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


def _propensity(rows: pa.Table, shape: Shape) -> Floats | None:
    if shape.propensity is None:
        return None
    columns = [_numbers(rows[c]).astype(np.float64) for c in shape.propensities]
    return columns[0] if shape.propensity == "list" else np.stack(columns, axis=1)


def _numbers(column: pa.ChunkedArray) -> Any:  # noqa: ANN401 - integers or doubles
    """A column of numbers, 0 where there is none."""
    values = _whole(column)
    return np.asarray(values.fill_null(0) if values.null_count else values)


def _taken(column: pa.ChunkedArray, rows: Ints) -> pa.Array:
    return _whole(column).take(pa.array(rows))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def row_schema(shape: Shape, kinds: pa.Schema) -> pa.Schema:
    """The columns of rows with one column a position, in the types that the tally has.

    Args:
        shape: of the tally.
        kinds: its columns; rewards that it keeps as masks become small integers.
    """
    return pa.schema(
        (name, kinds.field(name).type if name in kinds.names else pa.int8())
        for name in shape.columns
    )


def decode(batch: Batch, shape: Shape, codebook: Codebook, schema: pa.Schema) -> pa.Table:
    """The rows of a batch, a column for each key of the tally and the count.

    Args:
        batch: some records.
        shape: of the tally.
        codebook: the values behind the numbers of periods and segments.
        schema: the columns wanted; see `row_schema`.
    """
    lists = batch.lists[batch.row_list]
    there = lists != EMPTY
    columns = {CONTEXT: batch.contexts.take(pa.array(batch.context_value[batch.row_context]))}
    if shape.period and codebook.periods is not None:
        columns[PERIOD] = codebook.periods.values.take(pa.array(batch.clusters["period"]))
    for name in shape.segments:
        columns[name] = codebook.segments[name].values.take(pa.array(batch.segments[name]))
    if shape.unit:
        columns[BUCKET] = pa.array(batch.clusters["unit"])
    for k, name in enumerate(shape.items):
        at = pa.array(batch.pair_item[lists[:, k]], mask=~there[:, k])
        columns[name] = batch.items.take(at)
    for reward in shape.rewards:
        values = batch.reward_table(reward)
        for k, name in enumerate(shape.reward(reward)):
            columns[name] = pa.array(values[:, k], mask=~there[:, k])
    if batch.propensity is not None:
        whole = shape.propensity == "list"
        for k, name in enumerate(shape.propensities):
            column = batch.propensity if whole else batch.propensity[:, k]
            columns[name] = pa.array(column, mask=None if whole else ~there[:, k])
    columns[N] = pa.array(batch.n)
    return pa.table(
        [columns[name].cast(schema.field(name).type) for name in schema.names], schema=schema
    )
