"""MariaDB: a log in a database server without arrays, in which nothing is created."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from foreclick.engines.base import Engine, fetched

_KINDS = {
    **dict.fromkeys((1, 2, 3, 8, 9), pa.int64()),
    **dict.fromkeys((4, 5), pa.float64()),
    **dict.fromkeys((0, 246), pa.decimal128(38, 9)),
    **dict.fromkeys((7, 12), pa.timestamp("us")),
    10: pa.date32(),
}
"""By the numbers that the protocol has for types; others come as text."""


class MariaDB(Engine):
    """A connection of PyMySQL."""

    name = "mariadb"
    hashes = True
    tables = True

    def arrow(self, sql: str, schema: pa.Schema | None) -> pa.RecordBatchReader:
        """The rows of a SELECT, as the server sends them."""
        from pymysql.cursors import SSCursor  # noqa: PLC0415 - an extra

        if schema is None:
            with closing(self.connection.cursor()) as cursor:
                cursor.execute(f"SELECT * FROM ({sql}) AS s LIMIT 0")
                codes = {column[0]: column[1] for column in cursor.description}
            schema = pa.schema(
                {name: _KINDS.get(code, pa.string()) for name, code in codes.items()}
            )

        def batches() -> Iterator[pa.RecordBatch]:
            with closing(self.connection.cursor(SSCursor)) as cursor:
                cursor.execute(sql)
                yield from fetched(cursor, schema)

        return pa.RecordBatchReader.from_batches(schema, batches())
