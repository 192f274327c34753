"""Warehouses and databases in which nothing is created.

Warehouses tally a log in one SELECT; here is what each one spells differently. Other databases are
read row by row, and the work is done here: some find "Anna" equal to "anna", some have no NaN or no
dates, and in none of them did a test show that the tally is right.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from foreclick.engines.base import BATCH, Engine
from foreclick.engines.spark import conv, unix_micros
from foreclick.engines.values import force

if TYPE_CHECKING:
    from collections.abc import Iterator


@ibis.udf.scalar.builtin(name="md5")  # type: ignore[untyped-decorator]
def md5_bytes(text: str) -> bytes:  # type: ignore[empty-body]
    """The 16 bytes of an MD5."""


@ibis.udf.scalar.builtin(name="MD5")  # type: ignore[untyped-decorator]
def md5_bytes_of_clickhouse(text: str) -> bytes:  # type: ignore[empty-body]
    """The 16 bytes of an MD5, by a name in upper case."""


@ibis.udf.scalar.builtin(name="md5")  # type: ignore[untyped-decorator]
def md5_of_bytes(text: bytes) -> str:  # type: ignore[empty-body]
    """The MD5 of bytes, in hexadecimal."""


@ibis.udf.scalar.builtin(name="md5")  # type: ignore[untyped-decorator]
def md5_bytes_of_bytes(text: bytes) -> bytes:  # type: ignore[empty-body]
    """The 16 bytes of the MD5 of bytes."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def to_number(text: str, form: str) -> int:  # type: ignore[empty-body]
    """The number that a text is, in a form."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def unhex(digits: str) -> bytes:  # type: ignore[empty-body]
    """The bytes that hexadecimal digits are."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def reverse(some: bytes) -> bytes:  # type: ignore[empty-body]
    """Bytes, the last one first."""


@ibis.udf.scalar.builtin(name="reinterpretAsUInt32")  # type: ignore[untyped-decorator]
def as_number(some: bytes) -> int:  # type: ignore[empty-body]
    """The number that four bytes are, the least of them first."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def to_hex(digest: bytes) -> str:  # type: ignore[empty-body]
    """Bytes as hexadecimal digits."""


@ibis.udf.scalar.builtin(name="hex")  # type: ignore[untyped-decorator]
def upper_hex(digest: bytes) -> str:  # type: ignore[empty-body]
    """Bytes as hexadecimal digits in upper case."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def to_utf8(text: str) -> bytes:  # type: ignore[empty-body]
    """Text as bytes."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def from_base(digits: str, base: int) -> int:  # type: ignore[empty-body]
    """The number that digits are in a base."""


class BigQuery(Engine):
    """GoogleSQL, whose MD5 gives bytes."""

    def _md5(self, text: ir.StringValue) -> ir.StringValue:
        return to_hex(md5_bytes(text))

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        return (ibis.literal("0x") + digits).cast("int64")

    def microseconds(self, moment: ir.TimestampValue) -> ir.IntegerValue:
        """Of a TIMESTAMP; a time without a zone is a DATETIME there."""
        return unix_micros(force(moment, "timestamp('UTC')"))


class Trino(Engine):
    """Trino, whose MD5 is of bytes and gives bytes."""

    def _md5(self, text: ir.StringValue) -> ir.StringValue:
        return to_hex(md5_bytes_of_bytes(to_utf8(text))).lower()

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        return from_base(digits, 16)


class Athena(Trino):
    """Athena; sqlglot adds that its MD5 be hexadecimal, in lower case."""

    def _md5(self, text: ir.StringValue) -> ir.StringValue:
        return md5_of_bytes(to_utf8(text))


class Snowflake(Engine):
    """Snowflake."""

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        return force(to_number(digits, "XXXXXXX"), "int64")


class Databricks(Engine):
    """Databricks, which speaks Spark's SQL."""

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        return conv(digits, 16, 10).cast("int64")


class ClickHouse(Engine):
    """ClickHouse, whose MD5 gives bytes."""

    def _md5(self, text: ir.StringValue) -> ir.StringValue:
        return upper_hex(md5_bytes_of_clickhouse(text)).lower()

    def _hex_number(self, digits: ir.StringValue) -> ir.IntegerValue:
        return force(as_number(reverse(unhex(ibis.literal("0") + digits))), "int64")

    def only(self, value: ir.Column, where: ir.BooleanColumn) -> ir.Scalar:
        """Its `maxIf` of a column without NULLs gives 0, or no text, where nothing is found."""
        return where.ifelse(value, ibis.null(value.type())).max()


class Rows(Engine):
    """A database from which raw rows are read."""

    reads_raw = True


class MySQL(Rows):
    """MySQL and MariaDB; Ibis takes rows through pandas, which makes doubles of large integers."""

    def _fetched(self, expr: ir.Table) -> Iterator[pa.RecordBatch]:
        kind = pa.struct([(f.name, self._sent(f.type)) for f in expr.schema().to_pyarrow()])
        with closing(self.backend.raw_sql(self.backend.compile(expr))) as cursor:
            while rows := cursor.fetchmany(BATCH):
                yield pa.RecordBatch.from_struct_array(pa.array(map(tuple, rows), kind))

    @staticmethod
    def _sent(kind: pa.DataType) -> pa.DataType:
        """The type of what the driver gives for a column of this type."""
        return kind


class SQLite(MySQL):
    """SQLite, whose dates are text."""

    @staticmethod
    def _sent(kind: pa.DataType) -> pa.DataType:
        return pa.string() if pa.types.is_temporal(kind) else kind


WAREHOUSES: dict[str, type[Engine]] = {
    "athena": Athena,
    "bigquery": BigQuery,
    "clickhouse": ClickHouse,
    "databricks": Databricks,
    "datafusion": Engine,
    "mysql": MySQL,
    "snowflake": Snowflake,
    "sqlite": SQLite,
    "trino": Trino,
}
"""By the name that Ibis gives the engine."""
