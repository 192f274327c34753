"""PostgreSQL: a log in a database server."""

from __future__ import annotations

import ibis
import ibis.expr.types as ir

from foreclick.engines.base import Engine


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

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        """As bits: six times faster than digit by digit."""
        return int4(bit_in(textout(ibis.literal("x") + digits), 0, 28))
