"""What the tests see of an engine from outside."""

import hashlib
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from foreclick.engines import engine_of

MARKS: dict[str, Any] = {"spark": pytest.mark.spark, "postgres": pytest.mark.postgres}


def on(*names: str) -> pytest.MarkDecorator:
    """Give `engine` these values alone: "duckdb", "spark", "postgres"."""
    values = [pytest.param(name, marks=MARKS.get(name, ())) for name in names]
    return pytest.mark.parametrize("engine", values, indirect=True)


without_spark = on("duckdb", "postgres")
"""For what another test already shows on Spark, where a query takes a second."""

only_postgres, only_spark = on("postgres"), on("spark")
on_servers = on("spark", "postgres")


def each_on_one_worker(names: Iterable[str]) -> list[Any]:
    """Engines of `elsewhere`, as parameters: an instance of one takes long to start."""
    return [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]


ODD = [
    *("a b", "select", 'a"b', "a`b", "it's", "a\\b"),
    *("zoë 東京🦆", "a\nb", "{0}", "%s", "$1", "a;b--"),
]
"""Names and texts that a statement must hold as they are."""


def assert_held_as_they_are(table, odd=ODD):
    """An engine holds these texts, also as names: of a column, and of its alias."""
    say = table.engine.say
    inner = ", ".join(f"{say.literal(one)} AS {say.name(one)}" for one in odd)
    outer = ", ".join(f"s.{say.name(one)} AS c{k}" for k, one in enumerate(odd))
    kinds = pa.schema({f"c{k}": pa.string() for k in range(len(odd))})
    sql = f"SELECT {outer} FROM (SELECT {inner} FROM {table.rows} AS s) AS s"
    assert [*table.engine.ask(sql, kinds).to_pylist()[0].values()] == odd


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
