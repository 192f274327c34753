"""From a policy to production: which list a request is shown, drawn by a hash of its id.

A request has a number u, from 0 to 16**7 - 1; the lists of a context share these numbers out in
proportion to their probabilities. All of it is integers and single divisions, so that a list is
the same wherever it is drawn.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from typing import Any

import pyarrow as pa

from foreclick.engines import (
    DUCKDB,
    HASHES,
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
        #: by context: where the numbers of each list end, and the list with its probability
        self._lists: dict[str, tuple[list[int], list[tuple[tuple[Any, ...], float]]]] = {}
        for context, *items, propensity, beyond in _shares(rows):
            while items[-1] is None:  # beyond the list's end
                items.pop()
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
        lists = None if context is None else self._lists.get(str(context))
        if lists is None:
            return None, None
        ends, shown = lists
        return shown[bisect_right(ends, hashed_here(f"foreclick:{self.seed}:{request}"))]

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
    table = open_source(requests)
    roles = {REQUEST: request} | ({} if context is None else {CONTEXT: context})
    for role, column in roles.items():
        if column not in table.columns:
            raise SourceError(
                f"{role}={column!r} is not among {', '.join(table.columns)}. Say which column "
                f"holds the {role}{', or context=None: one for all' if role == CONTEXT else ''}."
            )
    kinds = {role: key_type(table.kinds.field(c).type, role) for role, c in roles.items()}
    columns = table.select(*dict.fromkeys(roles.values())).to_pyarrow()
    drawn = pa.table({role: columns[c].cast(kinds[role]) for role, c in roles.items()})
    if context is None:
        drawn = drawn.append_column(CONTEXT, pa.repeat(0, len(drawn)))
    nameless = drawn[REQUEST].null_count
    if nameless:
        raise InvalidLogError(
            f"{nameless:,} of {len(drawn):,} requests have no id, by which their list is drawn: "
            "they would all be shown the same. Number them, or leave them out."
        )
    pairs = list(zip(drawn[REQUEST].to_pylist(), drawn[CONTEXT].to_pylist(), strict=True))
    picker = Picker(rows, seed)
    picked = [picker(request, where) for request, where in pairs]
    lists, propensities = zip(*picked, strict=True) if picked else ((), ())
    missing = lists.count(None)
    if missing:
        one, where = pairs[lists.index(None)]
        warnings.warn(
            f"the policy has no list for {missing:,} of {len(drawn):,} requests, for example for "
            f"request {one!r} in context {where!r}: their items and "
            "propensity are null. Add these contexts to the policy, or show what is shown today "
            "and log its own propensity.",
            ForeclickWarning,
            stacklevel=3,
        )
    kind = rows.stored.kinds.field(rows.shape.items[0]).type
    return drawn.append_column(ITEMS, pa.array(lists, pa.list_(kind))).append_column(
        PROPENSITY, pa.array(propensities, pa.float64())
    )


def _shares(rows: Log) -> list[tuple[Any, ...]]:
    """Context, items, probability, and below which number requests are shown each list.

    The lists of a context are in the order of their numbers, which is the same everywhere: by
    falling probability, then by a hash.
    """
    table = bring(rows.stored, default_engine())
    items, number = ", ".join(rows.shape.items), DUCKDB.number_of
    # A Ranking may hold its list twice, and shows it always.
    mass = number(1) if rows.roles.count is None else DUCKDB.cast(N, "real")
    texts = [
        f"coalesce('{k}:' || md5({DUCKDB.cast(c, 'text')}), '')"
        for k, c in enumerate(rows.shape.items, start=1)
    ]
    cut = (
        f"SELECT {DUCKDB.cast(CONTEXT, 'text')} AS {CONTEXT}, {items}, {mass} AS mass, "
        f"md5({' || '.join(texts)}) AS tie, "  # no two lists have the same
        f"CAST(floor({mass} * {number(_PARTS)}) AS BIGINT) AS part FROM {table.rows}"
    )
    order = f"PARTITION BY {CONTEXT} ORDER BY part DESC, tie ROWS UNBOUNDED PRECEDING"
    summed = (
        f"SELECT *, CAST(sum(part) OVER ({order}) AS BIGINT) AS up_to, "
        f"CAST(sum(part) OVER (PARTITION BY {CONTEXT}) AS BIGINT) AS everything FROM ({cut})"
    )
    first, beyond = (
        f"CAST(floor(CAST({parts} AS DOUBLE) / CAST(everything AS DOUBLE) * {number(HASHES)}) "
        "AS BIGINT)"
        for parts in ("up_to - part", "up_to")
    )
    whole = f"floor(CAST(everything AS DOUBLE) * {number(_GRAIN / _PARTS)} + {number(0.5)})"
    share = f"least(mass / ({whole} * {number(1 / _GRAIN)}), {number(1)})"
    sql = (
        f"SELECT {CONTEXT}, {items}, {share} AS {PROPENSITY}, {beyond} AS beyond FROM ({summed}) "
        f"WHERE {first} < {beyond} ORDER BY {CONTEXT}, beyond"
    )
    columns = table.engine.ask(sql).columns
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
