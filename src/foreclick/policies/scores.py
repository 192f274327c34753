"""Tables of scores, and how tables that are no policy are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from foreclick.engines import Table
from foreclick.errors import PolicyError
from foreclick.logs import CONTEXT, ITEM, N, Roles, compress, numbered
from foreclick.words import no_column, number_of

_WORTH = "worth"  # a name that is free in a compressed table


@dataclass(frozen=True)
class Scores:
    """A table of scores, of which the `k` best items of each context make a list."""

    source: Table
    item: str
    score: str
    k: int | None

    def __post_init__(self) -> None:
        if self.score not in self.source.columns:
            raise PolicyError(no_column("score", self.score, self.source.columns))

    def ranked(self, context: str | None) -> Table:
        """`context`, `item_1` …: items by falling score; ties by the item itself."""
        rows = _scored(self.source, context, self.item, self.score)
        best = f"row_number() OVER (PARTITION BY {CONTEXT} ORDER BY score DESC, {ITEM}) AS place"
        first = "" if self.k is None else f" WHERE place <= {self.k}"
        ranked = f"SELECT {CONTEXT}, {ITEM}, {best} FROM {rows.rows} AS s"
        ranked = f"SELECT * FROM ({ranked}) AS r{first}"
        longest = rows.engine.ask(f"SELECT max(place) AS k FROM ({ranked}) AS r")["k"][0].as_py()
        names = numbered(ITEM, longest)
        places = enumerate(names, start=1)
        wide = {name: f"max(CASE WHEN place = {at} THEN {ITEM} END)" for at, name in places}
        kinds = [rows.kinds.field(CONTEXT), *(rows.kinds.field(ITEM).with_name(n) for n in names)]
        slots = rows.engine.say.names(wide)
        lists = f"SELECT {CONTEXT}, {slots} FROM ({ranked}) AS r GROUP BY {CONTEXT}"
        return rows.query(lists, pa.schema(kinds))


def _scored(source: Table, context: str | None, item: str, score: str) -> Table:
    """`context`, `item`, `score` and `n` of a table of scores, each item scored once."""
    say = source.engine.say
    worth = say.cast(f"s.{say.name(score)}", "real")
    stored = item_rows(source.with_column(_WORTH, worth, pa.float64()), context, item, _WORTH)
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


def item_rows(
    source: Table, context: str | None, item: str, number: str, weight: str | None = None
) -> Table:
    """`context`, `item_1`, a number of each item, and `n`: how many rows, or their weights.

    Args:
        source: one row an item.
        context: the column of the context; None: one context for all.
        item: the column of the item.
        number: the column of the number, under a name that is free in a compressed table.
        weight: the column of the weight; rows of weight 0 are left out.
    """
    roles = Roles(
        context=context,
        items=[item],
        rewards={},
        segments=(number,),
        count=weight,
        likely=weight is not None,
    )
    return compress(source, roles, "refuse").stored


def refuse(table: Table, wrong: str, say: Callable[[dict[str, Any]], str], remedy: str) -> None:
    """Raise if a SELECT gives wrong rows: how many, one example, the remedy."""
    found = table.engine.ask(f"SELECT count(*) AS n FROM ({wrong}) AS w", _COUNT)["n"][0].as_py()
    if found:
        first = f"SELECT * FROM ({wrong}) AS w ORDER BY {CONTEXT} LIMIT 1"
        example = table.engine.ask(first).to_pylist()[0]
        raise PolicyError(f"{say(example)} ({number_of(found, 'such case')}): {remedy}.")


_COUNT = pa.schema({"n": pa.int64()})
