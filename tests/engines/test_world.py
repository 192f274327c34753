"""The table of engines in the docs is what was found by trying, and SQL for warehouses stays so."""

import os
from pathlib import Path

import ibis
import pytest

from tests.engines import elsewhere, world

SNAPSHOTS = Path(__file__).parent / "snapshots"


def test_the_docs_say_what_an_engine_does(engine):
    name = engine.connection.name
    row = world.table_of({name: world.tried(engine.load)}, ()).splitlines()[-1]
    assert row in world.written().splitlines()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in elsewhere.NAMES]
)
def test_the_docs_say_what_needs_no_server(name, opened):
    row = world.table_of({name: world.tried(opened(name))}, ()).splitlines()[-1]
    assert row in world.written().splitlines()


@pytest.mark.parametrize("dialect", world.COMPILED)
def test_every_statement_compiles_for_a_warehouse(dialect):
    assert world.compiled(dialect) == "compiles"
    assert f"| {world.NAMES[dialect]} | one SELECT | compiles |" in world.written()


@pytest.mark.parametrize("dialect", ["bigquery", "clickhouse", *world.COMPILED])
def test_the_sql_of_a_warehouse_is_as_it_was(dialect):
    """UPDATE=1 writes it anew, to be read before a commit."""
    found = world.snapshot(dialect)
    path = SNAPSHOTS / f"{dialect}.sql"
    if os.environ.get("UPDATE"):
        path.write_text(found)
    assert found == path.read_text()


def test_a_statement_that_does_not_compile_is_named(monkeypatch):
    log = ibis.table({"n": "int64"}, name="log")
    monkeypatch.setattr(world, "statements", lambda *_: [("log", log.aggregate(m=log.n.median()))])
    assert world.compiled("trino").startswith("lacks log: Compilation rule for 'Median'")
