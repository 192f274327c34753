"""From a policy to production: which list a request is shown, drawn by a hash of its id.

A request has a number u, from 0 to 16**7 - 1; the lists of a context share these numbers out in
proportion to their probabilities. All of it is integers and single divisions, so that every engine
and Python draw the same list.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from typing import Any

import numpy as np
import pyarrow as pa

from foreclick.engines import (
    DUCKDB,
    HASHES,
    Table,
    TableLike,
    bring,
    default_engine,
    hashed_here,
    open_source,
)
from foreclick.errors import ForeclickWarning, InvalidLogError, SourceError
from foreclick.logs import CONTEXT, PROPENSITY, Log, N, key_type
from foreclick.words import number_of

REQUEST, ITEMS = "request", "items"
_FIRST, _BEYOND = "first", "beyond"  # a list has the numbers from `first` on, below `beyond`
_NUMBER, _PLACE = "number", "place"
_PARTS = 2**52  # sums of parts of a probability stay exact as doubles
_GRAIN = 2**40  # of the sum that probabilities are divided by: 0.9 of 0.9 + 0.1 stays 0.9


class Picker:
    """The lists of a policy in memory, for the process that serves them.

    ``picker(request, context)`` gives the list to show and its probability, both None where the
    policy has none: the same list that `Lists.sample` draws for this request with this seed, in
    a few microseconds. It can be pickled.

    Examples:
        >>> from foreclick import Lists
        >>> table = {"context": [7, 7], "items": [[1, 2], [2, 1]], "probability": [0.75, 0.25]}
        >>> picker = Lists(table).serving(seed=1)
        >>> picker("r1", 7)
        ((1, 2), 0.75)
        >>> picker("r1", 8)
        (None, None)
    """

    def __init__(self, rows: Log, seed: int) -> None:
        self.seed = seed
        self._salt = _salt(seed)
        shares = _shares(rows)
        named = {CONTEXT: DUCKDB.cast(CONTEXT, "text")}
        named |= {c: c for c in (*rows.shape.items, PROPENSITY, _BEYOND)}
        sql = f"SELECT {DUCKDB.names(named)} FROM {shares.rows} AS s ORDER BY {CONTEXT}, {_BEYOND}"
        found = shares.engine.ask(sql)
        lists = _listed(found, rows.shape.items).to_pylist()
        columns = (found[name].to_pylist() for name in (CONTEXT, _BEYOND, PROPENSITY))
        #: by context: where the numbers of each list end, and the list with its probability
        self._lists: dict[str, tuple[list[int], list[tuple[tuple[Any, ...], float]]]] = {}
        for context, beyond, propensity, items in zip(*columns, lists, strict=True):
            ends, shown = self._lists.setdefault(context, ([], []))
            ends.append(beyond)
            shown.append((tuple(items), propensity))

    def __call__(
        self, request: int | str, context: int | str | None
    ) -> tuple[tuple[Any, ...] | None, float | None]:
        """The list for this request, and its probability.

        Args:
            request: the request's id.
            context: its context; 0 for a policy with one context for all.
        """
        found = None if context is None else self._lists.get(str(context))
        if found is None:
            return None, None
        ends, shown = found
        return shown[bisect_right(ends, hashed_here(f"{self._salt}{request}"))]

    def __repr__(self) -> str:
        n = len(self._lists)
        return f"Picker({number_of(n, 'context')}, seed={self.seed})"


def sample(
    rows: Log,
    requests: TableLike,
    request: str,
    context: str | None,
    seed: int,
) -> pa.Table:
    """See `Lists.sample`."""
    shares = _shares(rows)
    asked = _asked(requests, request, context, _salt(seed))
    items = ", ".join(f"l.{name}" for name in rows.shape.items)
    found = shares.engine.ask(
        f"SELECT r.{REQUEST}, r.{CONTEXT}, {items}, l.{PROPENSITY} FROM {asked.rows} AS r "
        f"LEFT JOIN {bring(shares, asked.engine).rows} AS l "
        f"ON r.{_PLACE} = {DUCKDB.cast(f'l.{CONTEXT}', 'text')} "
        f"AND r.{_NUMBER} >= l.{_FIRST} AND r.{_NUMBER} < l.{_BEYOND}"
    )
    _complain(found)
    lists = _listed(found, rows.shape.items)
    return (
        found.select([REQUEST, CONTEXT])
        .append_column(ITEMS, lists)
        .append_column(PROPENSITY, found[PROPENSITY])
    )


def _salt(seed: int) -> str:
    return f"foreclick:{seed}:"


def _shares(rows: Log) -> Table:
    """`context`, `item_1` …, `propensity`, and the numbers of requests that each list is shown to.

    The order of the lists is the same everywhere: by falling probability, then by a hash.
    """
    table = bring(rows.stored, default_engine())
    items, number = ", ".join(rows.shape.items), DUCKDB.number_of
    # A Ranking may hold its list twice, and shows it always.
    mass = number(1) if rows.roles.weight is None else DUCKDB.cast(N, "real")
    texts = [
        f"coalesce('{k}:' || md5({DUCKDB.cast(c, 'text')}), '')"
        for k, c in enumerate(rows.shape.items, start=1)
    ]
    tie = f"md5({' || '.join(texts)})"  # no two lists have the same
    part = DUCKDB.cast(f"floor({mass} * {number(_PARTS)})", "whole")
    cut = (
        f"SELECT {CONTEXT}, {items}, {mass} AS mass, {tie} AS tie, {part} AS part FROM {table.rows}"
    )
    order = f"PARTITION BY {CONTEXT} ORDER BY part DESC, tie ROWS UNBOUNDED PRECEDING"
    summed = (
        f"SELECT *, CAST(sum(part) OVER ({order}) AS BIGINT) AS up_to, "
        f"CAST(sum(part) OVER (PARTITION BY {CONTEXT}) AS BIGINT) AS everything FROM ({cut})"
    )
    whole_mass = f"floor(CAST(everything AS DOUBLE) * {number(_GRAIN / _PARTS)} + {number(0.5)})"
    share = f"mass / ({whole_mass} * {number(1 / _GRAIN)})"
    shares = (
        f"SELECT {CONTEXT}, {items}, least({share}, {number(1)}) AS {PROPENSITY}, "
        f"{_number_at('up_to - part')} AS {_FIRST}, {_number_at('up_to')} AS {_BEYOND} "
        f"FROM ({summed})"
    )
    kinds = [table.kinds.field(name) for name in (CONTEXT, *rows.shape.items)]
    kinds += [pa.field(PROPENSITY, pa.float64())]
    kinds += [pa.field(name, pa.int64()) for name in (_FIRST, _BEYOND)]
    return table.query(f"SELECT * FROM ({shares}) WHERE {_FIRST} < {_BEYOND}", pa.schema(kinds))


def _number_at(parts: str) -> str:
    """The number of requests at which so many parts are passed."""
    share = f"CAST({parts} AS DOUBLE) / CAST(everything AS DOUBLE)"
    return f"CAST(floor({share} * {DUCKDB.number_of(HASHES)}) AS BIGINT)"


def _asked(requests: TableLike, request: str, context: str | None, salt: str) -> Table:
    """The requests in this process, each with its number."""
    table = open_source(requests)
    for role, column in ((REQUEST, request), (CONTEXT, context)):
        if column is not None and column not in table.columns:
            raise SourceError(
                f"{role}={column!r} is not among {', '.join(table.columns)}. Say which column "
                f"holds the {role}{', or context=None: one for all' if role == CONTEXT else ''}."
            )
    here = bring(
        table.select(*dict.fromkeys([request, *([context] if context else [])])), default_engine()
    )
    kinds = {REQUEST: key_type(table.kinds.field(request).type, REQUEST), CONTEXT: pa.int64()}
    columns = {REQUEST: f"s.{DUCKDB.name(request)}", CONTEXT: "0"}
    if context is not None:
        kinds[CONTEXT] = key_type(table.kinds.field(context).type, CONTEXT)
        columns[CONTEXT] = f"s.{DUCKDB.name(context)}"
    keys = {
        name: DUCKDB.cast(column, "text" if kinds[name] == pa.string() else "whole")
        for name, column in columns.items()
    }
    keys |= {
        _PLACE: DUCKDB.cast(keys[CONTEXT], "text"),
        _NUMBER: DUCKDB.hashed(keys[REQUEST], salt),
    }
    kinds |= {_PLACE: pa.string(), _NUMBER: pa.int64()}
    return here.query(f"SELECT {DUCKDB.names(keys)} FROM {here.rows} AS s", pa.schema(kinds))


def _complain(found: pa.Table) -> None:
    """Requests need an id; those without a list are worth a warning."""
    nameless = found[REQUEST].null_count
    if nameless:
        raise InvalidLogError(
            f"{nameless:,} of {len(found):,} requests have no id, by which their list is drawn: "
            "they would all be shown the same. Number them, or leave them out."
        )
    missing = found[PROPENSITY].null_count
    if missing:
        example = found.filter(found[PROPENSITY].is_null()).slice(0, 1).to_pylist()[0]
        warnings.warn(
            f"the policy has no list for {missing:,} of {len(found):,} requests, for example for "
            f"request {example[REQUEST]!r} in context {example[CONTEXT]!r}: their items and "
            "propensity are null. Add these contexts to the policy, or show what is shown today "
            "and log its own propensity.",
            ForeclickWarning,
            stacklevel=4,
        )


def _listed(table: pa.Table, items: list[str]) -> pa.ChunkedArray:
    """The columns `item_1` … as one of lists, which end with their last item; null if empty."""
    kind = table.schema.field(items[0]).type
    lists = [_listed_batch(batch, items) for batch in table.select(items).to_batches()]
    return pa.chunked_array(lists, type=pa.list_(kind))


def _listed_batch(batch: pa.RecordBatch, items: list[str]) -> pa.ListArray:
    columns = [batch.column(c) for c in items]
    there = np.stack([np.asarray(c.is_valid()) for c in columns], axis=1)
    depth = np.arange(1, len(items) + 1)
    lengths = (there * depth).max(axis=1)
    rows, places = np.nonzero(depth <= lengths[:, None])
    values = pa.concat_arrays(columns).take(pa.array(rows + places * len(batch)))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), values, mask=pa.array(lengths == 0)
    )
