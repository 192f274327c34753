"""Tables of scores, and how tables that are no policy are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import ibis.expr.types as ir

from foreclick.engines import Engine, Statement, real, total
from foreclick.errors import PolicyError
from foreclick.logs import CONTEXT, ITEM, Log, N, Roles, compress, numbered
from foreclick.words import no_column, number_of


def scored(
    source: ir.Table, engine: Engine, context: str | None, item: str, score: str
) -> tuple[Log, ir.Table]:
    """`context`, `item`, `score` of a table of scores, and the log that holds these rows."""
    if score not in source.columns:
        raise PolicyError(no_column("score", score, source.columns))
    named = source.mutate(worth=source[score].cast("float64"))  # a name that is free there
    roles = Roles(context=context, items=[item], rewards={}, segments=("worth",))
    log = compress(named, roles, engine, "refuse")
    first = numbered(ITEM, 1)[0]
    rows = log.stored.select(
        CONTEXT,
        **{ITEM: log.stored[first], "score": log.stored["worth"], N: log.stored[N]},
    )
    refuse(
        log.engine,
        rows,
        _no_score,
        lambda row: f"item {row[ITEM]!r} of context {row[CONTEXT]!r} has the score {row['score']}",
        "give every item a finite score",
    )
    refuse(
        engine,
        rows,
        _scored_twice,
        lambda row: f"item {row[ITEM]!r} stands {row[N]} times in context {row[CONTEXT]!r}",
        "score each item once",
    )
    return log, rows


def _no_score(_: Engine, rows: ir.Table) -> ir.Table:
    score = rows["score"]
    return rows.filter(score.isnull() | ~(score.abs() <= real(sys.float_info.max)))


def _scored_twice(_: Engine, rows: ir.Table) -> ir.Table:
    counts = rows.group_by([CONTEXT, ITEM]).aggregate(**{N: total(rows[N])})
    return counts.filter(counts[N] > 1)


def refuse(
    engine: Engine,
    table: ir.Table,
    wrong: Statement,
    say: Callable[[dict[str, Any]], str],
    remedy: str,
    *options: str,
) -> None:
    """Raise if a statement about the table gives wrong rows: how many, one example, the remedy."""
    count = engine.ask(_count_wrong, table, wrong, *options)["n"][0].as_py()
    if count:
        found = wrong(engine, table, *options)
        example = engine.rows(found.order_by(CONTEXT).limit(1))[0]
        raise PolicyError(f"{say(example)} ({number_of(count, 'such case')}): {remedy}.")


def _count_wrong(engine: Engine, table: ir.Table, wrong: Statement, *options: str) -> ir.Table:
    found = wrong(engine, table, *options)
    return found.aggregate(n=found.count())
