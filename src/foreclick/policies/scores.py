"""Tables of scores, and how tables that are no policy are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from foreclick.engines import Table
from foreclick.errors import PolicyError
from foreclick.logs import CONTEXT, ITEM, N, Roles, compress, numbered
from foreclick.words import no_column, number_of

_WORTH = "worth"  # a name that is free in a compressed table


def scored(source: Table, context: str | None, item: str, score: str) -> Table:
    """`context`, `item`, `score` and `n` of a table of scores, each item scored once."""
    if score not in source.columns:
        raise PolicyError(no_column("score", score, source.columns))
    say = source.engine.say
    worth = say.cast(f"s.{say.name(score)}", "real")
    named = source.with_column(_WORTH, worth, pa.float64())
    roles = Roles(context=context, items=[item], rewards={}, segments=(_WORTH,))
    stored = compress(named, roles, "refuse").stored
    first = numbered(ITEM, 1)[0]
    columns = {CONTEXT: CONTEXT, ITEM: first, "score": _WORTH, N: N}
    kinds = pa.schema([stored.kinds.field(c).with_name(name) for name, c in columns.items()])
    sql = f"SELECT {stored.engine.say.names(columns)} FROM {stored.rows} AS s"
    rows = stored.query(sql, kinds)
    finite = rows.engine.say.finite("abs(score)")
    refuse(
        rows,
        f"SELECT * FROM {rows.rows} AS s WHERE score IS NULL OR NOT ({finite})",
        lambda row: f"item {row[ITEM]!r} of context {row[CONTEXT]!r} has the score {row['score']}",
        "give every item a finite score",
    )
    refuse(
        rows,
        f"SELECT {CONTEXT}, {ITEM}, {rows.total(N)} AS n FROM {rows.rows} AS s "
        f"GROUP BY {CONTEXT}, {ITEM} HAVING {rows.total(N)} > 1",
        lambda row: f"item {row[ITEM]!r} stands {row[N]} times in context {row[CONTEXT]!r}",
        "score each item once",
    )
    return rows


def refuse(table: Table, wrong: str, say: Callable[[dict[str, Any]], str], remedy: str) -> None:
    """Raise if a SELECT gives wrong rows: how many, one example, the remedy."""
    found = table.engine.ask(f"SELECT count(*) AS n FROM ({wrong}) AS w", _COUNT)["n"][0].as_py()
    if found:
        first = f"SELECT * FROM ({wrong}) AS w ORDER BY {CONTEXT} LIMIT 1"
        example = table.engine.ask(first).to_pylist()[0]
        raise PolicyError(f"{say(example)} ({number_of(found, 'such case')}): {remedy}.")


_COUNT = pa.schema({"n": pa.int64()})
