"""A table of items: numbers that say which items are alike, shown or not.

Its rows are those of items, or of items in contexts, and every other column is a *feature*: a
price, a text's match with the query, an embedding. Items get *folds* by the hash of their text, so
that no item is predicted from its own clicks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import Batch, Floats, Ints
from foreclick.engines import hashed_here, open_source
from foreclick.errors import ModelError
from foreclick.policies.base import column_as
from foreclick.words import number_of

FOLDS = 5
"""Folds of items, and of contexts."""

UNKNOWN = -1
"""The row of an item that the table does not have."""


@dataclass(frozen=True, init=False, eq=False)
class Items:
    """What is known of items beside their clicks, for ladders.

    Args:
        table: one row per item, or per context and item: anything `read_log` accepts.
        item: the column of the item, as in the log.
        context: the column of the context, where features depend on it, such as how well a text
            matches a query. A table without such a column, or None, is for all contexts.
        features: the columns of features, by default all others: numbers, or lists of as many
            numbers in every row (embeddings).

    Examples:
        >>> Items({"item": [1, 2], "price": [9.5, 3.0], "text": [[0.1, 0.7], [0.4, 0.2]]})
        Items(2 rows, features price, text)
    """

    columns: tuple[str, ...]
    matrix: Floats
    fold: Ints
    _keys: dict[str, pa.Array] = field(repr=False)
    _print: bytes = field(repr=False)
    _known: dict[tuple[bool, bool], _Index] = field(repr=False)

    def __init__(
        self,
        table: Any,  # noqa: ANN401 - whatever `read_log` accepts
        item: str = "item",
        context: str | None = "context",
        features: Sequence[str] | None = None,
    ) -> None:
        engine, opened = open_source(table)
        found = engine.fetch(opened)
        if item not in found.column_names:
            raise ModelError(
                f"the item table has no column {item!r}, only {', '.join(found.column_names)}. "
                "Name it: Items(table, item='…')."
            )
        keys = [item, *(name for name in (context,) if name in found.column_names and name)]
        named = features or [name for name in found.column_names if name not in (*keys, context)]
        columns = {name: _numbers(found, name) for name in named}
        if not columns:
            raise ModelError("the item table has no features: add columns of numbers.")
        matrix = np.concatenate(list(columns.values()), axis=1)
        ids = {name: found[name].combine_chunks() for name in keys}
        if nameless := max(column.null_count for column in ids.values()):
            raise ModelError(
                f"{number_of(nameless, 'row')} of the item table without an item or context "
                "(NULL). Leave out such rows."
            )
        _refuse_gaps(columns, ids[item])
        _refuse_twice(ids)
        names = dict(zip(keys, ("item", "context"), strict=False))
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "_keys", {names[name]: ids[name] for name in keys})
        object.__setattr__(self, "fold", item_folds(ids[item]))
        contents = hashlib.md5(matrix.tobytes(), usedforsecurity=False)
        contents.update(repr([column.to_pylist() for column in ids.values()]).encode())
        object.__setattr__(self, "_print", contents.digest())
        object.__setattr__(self, "_known", {})

    def __repr__(self) -> str:
        return f"Items({len(self.matrix):,} rows, features {', '.join(self.columns)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and self._print == other._print

    def __hash__(self) -> int:
        return hash(self._print)

    def rows(self, batch: Batch, items: pa.Array, context: Ints, item: Ints) -> Ints:
        """Shape (P,): the row of each pair, `UNKNOWN` for those that the table does not have.

        Args:
            batch: whose contexts are meant.
            items: values of items.
            context: Shape (P,): contexts of the batch.
            item: Shape (P,): numbers among the values.
        """
        text = _is_text(items), _is_text(batch.contexts)
        if text not in self._known:
            self._known[text] = self._index(items, batch.contexts)
        index = self._known[text]
        found = numbers_of(items, index.items)[item]
        if index.contexts is not None:
            outer = numbers_of(batch.contexts, index.contexts)[batch.context_value[context]]
            missing = (found < 0) | (outer < 0)
            found = np.where(missing, UNKNOWN, outer * len(index.items) + found)
        at = np.minimum(np.searchsorted(index.keys, found), len(index.keys) - 1)
        return np.where(index.keys[at] == found, index.row[at], UNKNOWN)

    def _index(self, items: pa.Array, logged: pa.Array) -> _Index:
        """Where each item, or item in a context, has its row; by values of the log's types."""
        item = column_as(self._keys["item"], "item", "item table", items)
        item = item.dictionary_encode()
        keys, contexts = _codes(item), None
        if "context" in self._keys:
            context = column_as(self._keys["context"], "context", "item table", logged)
            context = context.dictionary_encode()
            keys, contexts = _codes(context) * len(item.dictionary) + keys, context.dictionary
        row = np.argsort(keys)
        return _Index(item.dictionary, contexts, keys[row], row)


class _Index(NamedTuple):
    """The rows of a table of items, by their keys.

    Attributes:
        items: values; their numbers are keys, or the last part of keys.
        contexts: values, if the table has contexts.
        keys: Shape (rows,), rising.
        row: Shape (rows,).
    """

    items: pa.Array
    contexts: pa.Array | None
    keys: Ints
    row: Ints


def _is_text(values: pa.Array) -> bool:
    return not pa.types.is_integer(values.type)


def _codes(encoded: pa.DictionaryArray) -> Ints:
    return np.asarray(encoded.indices).astype(np.int64)


def plain(values: pa.Array) -> pa.Array:
    """Values as text, or as integers of one kind."""
    return values.cast(pa.string() if _is_text(values) else pa.int64())


def numbers_of(values: pa.Array, known: pa.Array) -> Ints:
    """The number of each value among those known, or `UNKNOWN`."""
    found = pc.index_in(plain(values), value_set=known).fill_null(UNKNOWN)
    return np.asarray(found).astype(np.int64)


def item_folds(items: pa.Array) -> Ints:
    """The fold of each item, by the hash of its text."""
    text = items.cast(pa.string()).to_pylist()
    return np.array([hashed_here(f"foreclick item:{t}") % FOLDS for t in text], dtype=np.int64)


ID: Literal["id"] = "id"
"""In the place of a table: an item is like itself in other contexts."""


def as_items(items: Any) -> Items | Literal["id"] | None:  # noqa: ANN401 - what `read_log` accepts
    """A table of items, from `Items` or from anything that `read_log` accepts; or their ids."""
    if items is None or isinstance(items, Items):
        return items
    return ID if isinstance(items, str) and items == ID else Items(items)


# --- reading --------------------------------------------------------------------------------------


def _numbers(table: pa.Table, name: str) -> Floats:
    """Shape (rows, columns): a column of numbers, or one of lists of as many numbers."""
    if name not in table.column_names:
        raise ModelError(
            f"the item table has no column {name!r}, only {', '.join(table.column_names)}."
        )
    column = table[name].combine_chunks()
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.asarray(column.cast(pa.float64()), dtype=np.float64).reshape(-1, 1)
    if pa.types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64()), dtype=np.float64).reshape(-1, 1)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = pc.unique(pc.list_value_length(column)).to_pylist()
        if len(lengths) != 1 or None in lengths:
            raise ModelError(
                f"the lists in {name!r} of the item table are not of one length, but of "
                f"{', '.join(str(n) for n in lengths[:3])}. Give as many numbers for every item."
            )
        flat = np.asarray(pc.list_flatten(column).cast(pa.float64()), dtype=np.float64)
        return flat.reshape(len(column), -1)
    raise ModelError(
        f"{name!r} in the item table is {kind}, and features are numbers. Make it numbers (for "
        "each value of a text, a column of 0 and 1), or name the others: Items(table, features=…)."
    )


def _refuse_gaps(columns: dict[str, Floats], item: pa.Array) -> None:
    for name, values in columns.items():
        gaps = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(gaps):
            example = item[int(gaps[0])].as_py()
            raise ModelError(
                f"{number_of(len(gaps), 'row')} of the item table without a finite number in "
                f"{name!r}, for example item {example!r}. Fill them in, or leave such rows out: "
                "their items then count as the mean of their context."
            )


def _refuse_twice(ids: dict[str, pa.Array]) -> None:
    table = pa.table(ids)
    counted = table.group_by(list(ids)).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted["count_all"], 1))
    if len(twice):
        example = ", ".join(f"{name} {twice[name][0].as_py()!r}" for name in ids)
        raise ModelError(
            f"{number_of(len(twice), 'item')} with several rows in the item table, for example "
            f"{example}. Keep one row of each."
        )
