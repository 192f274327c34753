"""PostgreSQL: a log in a database server, in which nothing is created."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from foreclick.engines.base import Engine, fetched

_KINDS = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "numeric": pa.decimal128(38, 9),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
"""By the name that PostgreSQL has for a type; others come as text."""

_TYPES = """
SELECT t.oid, t.typname, e.typname
FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE t.oid = ANY(%s)
"""


class Postgres(Engine):
    """A connection of psycopg 3."""

    name = "postgres"
    hashes = True
    tables = True

    def arrow(self, sql: str, schema: pa.Schema | None) -> pa.RecordBatchReader:
        """By a cursor of the server, which sends so many rows at once."""
        if schema is None:
            schema = self._described(sql)
        return pa.RecordBatchReader.from_batches(schema, self._rows(sql, schema))

    def _rows(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        connection = self.connection
        with connection.transaction(), connection.cursor(self.unique("cursor")) as cursor:
            cursor.execute(sql)
            yield from fetched(cursor, schema)

    def _described(self, sql: str) -> pa.Schema:
        """The columns of a SELECT, by the names of their types."""
        connection = self.connection
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({sql}) AS s LIMIT 0")
            columns = cursor.description
            cursor.execute(_TYPES, [[column.type_code for column in columns]])
            names = {oid: (name, element) for oid, name, element in cursor.fetchall()}
        kinds = {}
        for column in columns:
            name, element = names[column.type_code]
            kind = _KINDS.get(element or name, pa.string())
            if name == "numeric" and column.precision:
                kind = pa.decimal128(column.precision, column.scale or 0)
            kinds[column.name] = pa.list_(kind) if element else kind
        return pa.schema(kinds)

    def remedy(self) -> str:
        """What to do when the server is gone."""
        if not self.connection.closed:
            return ""
        return ". The connection is gone, and its temporary tables with it: connect and ask again."
