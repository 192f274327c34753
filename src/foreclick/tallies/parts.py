"""Parts of a tally: the records of some values of a column, and counts by columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from foreclick.logs import N

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreclick.tallies.base import Tally


def with_text(tally: Tally, names: Sequence[str]) -> Tally:
    """The same tally with some columns as text."""
    table, say = tally.stored, tally.stored.engine.say
    for name in names:
        table = table.with_column(name, say.cast(say.column(name), "text"), pa.string())
    table = table.select(*tally.shape.stored)
    return replace(tally, stored=table, learnt={}, files=(), in_order=False)


def part(tally: Tally, column: str, texts: Sequence[str]) -> Tally:
    """The records that have one of these texts in a column."""
    stored, say = tally.stored, tally.stored.engine.say
    some = " OR ".join(f"{say.column(column)} = {say.literal(text)}" for text in texts)
    rows = f"SELECT * FROM {stored.rows} AS s WHERE {some}"
    return replace(tally, stored=stored.query(rows), learnt={}, files=(), in_order=False)


def counts(tally: Tally, columns: Sequence[str]) -> pa.Table:
    """How many records have each combination of values, as the column `n`."""
    stored = tally.stored
    keys = ", ".join(map(stored.engine.say.name, columns))
    sql = f"SELECT {keys}, {stored.total(N)} AS {N} FROM {stored.rows} AS s GROUP BY {keys}"
    kinds = pa.schema([stored.kinds.field(name) for name in (*columns, N)])
    return stored.engine.ask(sql, kinds)
