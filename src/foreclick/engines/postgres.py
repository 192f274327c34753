"""PostgreSQL: a log in a database server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from foreclick.engines.base import BATCH, Engine

if TYPE_CHECKING:
    from collections.abc import Iterator


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def textout(text: str) -> str:  # type: ignore[empty-body]
    """Text as PostgreSQL's input functions take it."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def bit_in(text: str, oid: int, bits: int) -> str:  # type: ignore[empty-body]
    """A bit string; after a leading x, of hexadecimal digits."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def int4(bits: str) -> int:  # type: ignore[empty-body]
    """The integer that a bit string is."""


class Postgres(Engine):
    """Ibis's PostgreSQL backend."""

    hashes = True
    read_only = False

    def _fetched(self, expr: ir.Table) -> Iterator[pa.RecordBatch]:
        """By a cursor of the server, which sends so many rows at once; Ibis would ask for all."""
        self.backend._run_pre_execute_hooks(expr)  # noqa: SLF001 - registers memtables
        kind = expr.schema().as_struct().to_pyarrow()
        connection = self.backend.con
        with connection.transaction(), connection.cursor(self.unique("cursor")) as cursor:
            cursor.execute(self.backend.compile(expr))
            while rows := cursor.fetchmany(BATCH):
                yield pa.RecordBatch.from_struct_array(pa.array(rows, kind))

    def _remedy(self) -> str:
        if not self.backend.con.closed:
            return ""
        return ". The connection is gone, and its temporary tables with it: connect and ask again."

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        """As bits: six times faster than digit by digit."""
        return int4(bit_in(textout(ibis.literal("x") + digits), 0, 28))
