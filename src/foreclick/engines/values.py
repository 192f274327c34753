"""Values that are the same on every engine: literals, casts, sums, and what is missing."""

from __future__ import annotations

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def md5(text: str) -> str:  # type: ignore[empty-body]
    """The lower-case hexadecimal MD5 of UTF-8 text, where an engine's `md5` gives that."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def substr(text: str, start: int, length: int) -> str:  # type: ignore[empty-body]
    """So many characters of a text from a start, which counts from 1; Ibis's looks at its sign."""


def force(value: ir.Value, kind: str) -> ir.Value:
    """A cast that is always written out.

    Ibis leaves out a cast to the type it believes a value to have; engines disagree with it about
    sums of integers, which are 128 bits wide on DuckDB and decimals on PostgreSQL.
    """
    return ops.Cast(value, dt.dtype(kind)).to_expr()


def total(column: ir.NumericColumn) -> ir.NumericScalar:
    """The sum of a column, 0 for none; integers stay 64-bit integers on every engine."""
    if column.type().is_integer():
        return force(column.sum().fill_null(0), "int64")
    return column.cast("float64").sum().fill_null(real(0))


def count_of(condition: ir.BooleanColumn) -> ir.IntegerScalar:
    """In how many rows a condition holds; PostgreSQL does not make integers of booleans."""
    return total(condition.ifelse(whole(1), whole(0)))


def real(number: float) -> ir.FloatingScalar:
    """A double literal, exact to the last bit.

    Written as a number it would be a DECIMAL on some engines, and off by a unit in the last place.
    """
    return ibis.literal(repr(float(number))).cast("float64")


def whole(number: int) -> ir.IntegerScalar:
    """A 64-bit integer literal: a bare small one may come back as 8 or 32 bits."""
    return force(ibis.literal(number), "int64")


def zero(kind: dt.DataType) -> ir.NumericScalar:
    """0, as an integer or a double."""
    return whole(0) if kind.is_integer() else real(0)


def unordered(text: ir.StringValue) -> ir.StringValue:
    """Something to order texts by, the same on every engine: their own orders of texts differ."""
    return md5(text)


def absent(value: ir.Value) -> ir.BooleanValue:
    """Whether a value is NULL. On Spark, NULL is also what a NaN is asked for."""
    if value.type().is_floating():
        return value.isnull() & ~value.isnan().fill_null(False)
    return value.isnull()
