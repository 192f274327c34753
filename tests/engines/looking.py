"""What the tests see of an engine from outside."""

import hashlib

import pytest

from foreclick.engines import engine_of

without_spark = pytest.mark.parametrize(
    "engine", ["duckdb", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
"""For what another test already shows on Spark, where a query takes a second."""

only_postgres = pytest.mark.parametrize(
    "engine", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
only_spark = pytest.mark.parametrize(
    "engine", [pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)

ODD = [
    "a b",
    "select",
    'a"b',
    "a`b",
    "it's",
    "a\\b",
    "zoë 東京🦆",
    "a\nb",
    "{0}",
    "%s",
    "$1",
    "a;b--",
]
"""Names and texts that a statement must hold as they are."""


def kept(engine, step="foreclick_"):
    """The names of what foreclick keeps in the engine."""
    connection = engine.connection
    engine_of(connection).drop_unused()  # what nobody needs is dropped before the next statement
    if engine.name == "spark":
        # The catalog's own list needs compiled code, which the tests' session does without.
        names = connection._session.sql("SHOW TABLES").toArrow()["tableName"].to_pylist()
    elif engine.name == "duckdb":
        found = connection.con.execute(
            "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views()"
        ).fetchall()
        names = [name for (name,) in found]
    else:
        with connection.con.cursor() as cursor:
            cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'r'")
            names = [name for (name,) in cursor.fetchall()]
        connection.con.commit()
    return sorted(name for name in names if name.startswith(step))


def bucket_of(unit):
    """The reference: a unit's bucket without any engine."""
    text = "" if unit is None else str(unit)
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:7], 16) % 30
