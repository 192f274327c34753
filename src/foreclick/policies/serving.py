"""From a policy to production: which list a request is shown, drawn by a hash of its id.

A request has a number u, from 0 to 16**7 - 1; the lists of a context share these numbers out in
proportion to their probabilities. All of it is integers and single divisions, so that every engine
and Python draw the same list.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from functools import reduce
from operator import add
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from foreclick.engines import (
    HASHES,
    Engine,
    TableLike,
    bring,
    force,
    hashed_here,
    open_source,
    real,
    unordered,
)
from foreclick.errors import ForeclickWarning, InvalidLogError, SourceError
from foreclick.logs import CONTEXT, PROPENSITY, Log, N, key_of
from foreclick.words import number_of

REQUEST, ITEMS = "request", "items"
_FIRST, _BEYOND = "first", "beyond"  # a list has the numbers from `first` on, below `beyond`
_PART, _WHERE, _NUMBER, _PLACE = "part", "list_context", "number", "place"
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
        named = shares.mutate(**{CONTEXT: shares[CONTEXT].cast("string")})
        found = rows.engine.fetch(named.order_by([CONTEXT, _BEYOND]))
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
    asked = _asked(requests, request, context, rows.engine, _salt(seed))
    shares = _shares(rows)
    shares = shares.mutate(**{_WHERE: shares[CONTEXT].cast("string")}).drop(CONTEXT)
    there = [
        asked[_PLACE] == shares[_WHERE],
        asked[_NUMBER] >= shares[_FIRST],
        asked[_NUMBER] < shares[_BEYOND],
    ]
    drawn = asked.left_join(shares, there).select(REQUEST, CONTEXT, *rows.shape.items, PROPENSITY)
    found = rows.engine.fetch(drawn)
    _complain(found)
    lists = _listed(found, rows.shape.items)
    return (
        found.select([REQUEST, CONTEXT])
        .append_column(ITEMS, lists)
        .append_column(PROPENSITY, found[PROPENSITY])
    )


def _salt(seed: int) -> str:
    return f"foreclick:{seed}:"


def _shares(rows: Log) -> ir.Table:
    """`context`, `item_1` …, `propensity`, and the numbers of requests that each list is shown to.

    The order of the lists is the same on every engine: by falling probability, then by a hash.
    """
    table = rows.table
    # A Ranking may hold its list twice, and shows it always.
    mass = real(1) if rows.roles.weight is None else table[N].cast("float64")
    cut = table.select(
        CONTEXT,
        *rows.shape.items,
        mass=mass,
        tie=_tie(table, rows.shape.items),
        **{_PART: (mass * real(_PARTS)).floor().cast("int64")},
    )
    so_far = ibis.cumulative_window(group_by=CONTEXT, order_by=[ibis.desc(_PART), "tie"])
    summed = cut.mutate(
        up_to=force(cut[_PART].sum().over(so_far), "int64"),
        all=force(cut[_PART].sum().over(group_by=CONTEXT), "int64"),
    )
    whole_mass = (summed["all"].cast("float64") * real(_GRAIN / _PARTS) + real(0.5)).floor()
    share = summed["mass"] / (whole_mass.cast("float64") * real(1 / _GRAIN))
    shares = summed.select(
        CONTEXT,
        *rows.shape.items,
        **{
            PROPENSITY: ibis.least(share, real(1)),
            _FIRST: _number_at(summed["up_to"] - summed[_PART], summed["all"]),
            _BEYOND: _number_at(summed["up_to"], summed["all"]),
        },
    )
    return shares.filter(shares[_FIRST] < shares[_BEYOND])


def _number_at(parts: ir.IntegerColumn, everything: ir.IntegerColumn) -> ir.IntegerColumn:
    """The number of requests at which so many parts are passed."""
    share = parts.cast("float64") / everything.cast("float64")
    return (share * real(HASHES)).floor().cast("int64")


def _tie(table: ir.Table, items: list[str]) -> ir.StringColumn:
    """What lists of the same probability are ordered by; no two lists have the same."""
    empty = ibis.literal("")
    texts = [
        (ibis.literal(f"{k}:") + unordered(table[c].cast("string"))).fill_null(empty)
        for k, c in enumerate(items, start=1)
    ]
    return unordered(reduce(add, texts))


def _asked(
    requests: TableLike,
    request: str,
    context: str | None,
    home: Engine,
    salt: str,
) -> ir.Table:
    """The requests in the policy's engine, each with its number."""
    engine, table = open_source(requests)
    for role, column in ((REQUEST, request), (CONTEXT, context)):
        if column is not None and column not in table.columns:
            raise SourceError(
                f"{role}={column!r} is not among {', '.join(table.columns)}. Say which column "
                f"holds the {role}{', or context=None: one for all' if role == CONTEXT else ''}."
            )
    where = ibis.literal(0, type="int64") if context is None else key_of(table[context], CONTEXT)
    keys = table.select(**{REQUEST: key_of(table[request], REQUEST), CONTEXT: where})
    here = bring(keys, engine, home)
    return here.mutate(
        **{
            _PLACE: here[CONTEXT].cast("string"),
            _NUMBER: home.hashed(here[REQUEST], salt),
        }
    )


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
