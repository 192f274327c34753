"""If this fails, an engine that is added as the docs say gives another tally.

It runs where FORECLICK_MARIADB names a server, as host:port, that takes root without a password.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from foreclick.engines import default_engine
from tests.cases.case import Case
from tests.cases.layouts import WITHOUT_ARRAYS, rows_of, tally_here

SERVER = os.environ.get("FORECLICK_MARIADB")
pytestmark = pytest.mark.skipif(not SERVER, reason="FORECLICK_MARIADB names no server")

_names = (f"t{number}" for number in count())
_TYPES = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.int16(): "SMALLINT",
    pa.int8(): "TINYINT",
    pa.float64(): "DOUBLE",
    pa.float32(): "FLOAT",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us"): "DATETIME(6)",
    pa.string(): "VARCHAR(500) COLLATE utf8mb4_general_ci",
}


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    pymysql = pytest.importorskip("pymysql")
    host, port = str(SERVER).split(":")
    opened = pymysql.connect(host=host, port=int(port), user="root", autocommit=True)
    with opened.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS foreclick")
        cursor.execute("CREATE DATABASE foreclick CHARACTER SET utf8mb4")
        cursor.execute("USE foreclick")
    yield opened
    opened.close()


def loaded(connection: Any, table: pa.Table) -> str:  # noqa: ANN401 - of PyMySQL
    """A table of the server with these rows."""
    name = next(_names)
    columns = ", ".join(f"`{field.name}` {_TYPES[field.type]}" for field in table.schema)
    places = ", ".join(["%s"] * table.num_columns)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        rows = [tuple(row.values()) for row in table.to_pylist()]
        cursor.executemany(f"INSERT INTO {name} VALUES ({places})", rows)
    return name


@pytest.mark.parametrize("log", WITHOUT_ARRAYS, ids=str)
def test_the_tally_is_the_same_to_the_last_bit(connection: Any, log: Case) -> None:  # noqa: ANN401
    there, here = log.read(loaded(connection, log.table), engine=connection), tally_here(log)
    assert there.engine is default_engine()
    assert (there.shape, there.dropped) == (here.shape, here.dropped)
    found, expected = rows_of(there), rows_of(here)
    assert found.cast(expected.schema).equals(expected)
