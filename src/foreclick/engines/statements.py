"""Statements that are compiled once: their SQL is kept for the next table of the same columns.

Ibis takes a hundred times longer to build and compile a statement than DuckDB takes to answer it
for a small table. A *statement* is a pure function ``(engine, table, *options) -> expression``; for
another table with the same columns and the same options its SQL differs by the table's name only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ibis.expr.operations as ops
import ibis.expr.types as ir

Statement = Callable[..., ir.Table]
"""``(engine, table, *options) -> expression``; the options' `repr` must say all about them."""

_KEPT = 1_000
_NAME = "foreclick_table_that_a_statement_is_about"


@dataclass(frozen=True)
class Source:
    """A table of an engine, or some of its columns, that a statement is about.

    Attributes:
        table: the engine's own table.
        columns: which of them the statement may use, in this order.
    """

    table: ops.DatabaseTable
    columns: tuple[str, ...]

    @classmethod
    def of(cls, expr: ir.Table) -> Source | None:
        """The table behind an expression that only selects columns; None for any other."""
        op, columns = expr.op(), tuple(expr.columns)
        while isinstance(op, ops.Project) and _selects(op):
            op = op.parent
        if isinstance(op, ops.DatabaseTable) and op.name.isidentifier():
            return cls(op, columns)
        return None

    @property
    def kind(self) -> tuple[Any, ...]:
        """What two sources have in common whose statements differ by the name only."""
        return self.table.schema, self.table.namespace, self.columns

    def unnamed(self) -> ir.Table:
        """A table like this, with a name to be replaced."""
        table = named(_NAME, self.table.schema, self.table.namespace, self.table.source)
        return table if tuple(table.columns) == self.columns else table.select(*self.columns)


def _selects(op: ops.Project) -> bool:
    """Whether a projection has columns of its parent and nothing else."""
    return all(
        isinstance(value, ops.Field) and value.name == name and value.rel is op.parent
        for name, value in op.values.items()
    )


def named(name: str, schema: Any, namespace: Any, backend: Any) -> ir.Table:  # noqa: ANN401 - Ibis
    """A table of an engine as Ibis sees it, whose columns need not be asked for."""
    return ops.DatabaseTable(name, schema=schema, source=backend, namespace=namespace).to_expr()


class Kept:
    """What was made of statements, by statement, columns and options; the last thousand."""

    def __init__(self) -> None:
        self._found: OrderedDict[Any, Any] = OrderedDict()

    def get(
        self,
        statement: Statement,
        source: Source,
        options: tuple[Any, ...],
        make: Callable[[], Any],
    ) -> Any:  # noqa: ANN401 - whatever `make` gives
        """What `make` gave for such a statement, which is called at the first time only."""
        key = statement, source.kind, repr(options)
        if key in self._found:
            self._found.move_to_end(key)
            return self._found[key]
        found = self._found[key] = make()
        if len(self._found) > _KEPT:
            self._found.popitem(last=False)
        return found


def about(sql: str, source: Source) -> str:
    """The SQL of a statement about an unnamed table, with this table's name."""
    return sql.replace(_NAME, source.table.name)
