"""If this fails, docs/engines.md promises what an engine does not do."""

import os
from pathlib import Path

import pytest

from foreclick.engines import SPELLINGS
from tests.engines import elsewhere, world
from tests.engines.looking import each_on_one_worker

SNAPSHOTS = Path(__file__).parent / "snapshots"


def test_the_docs_say_what_an_engine_does(engine):
    name = engine.connection.name
    row = world.table_of({name: world.tried(engine.load)}, ()).splitlines()[-1]
    assert row in world.written().splitlines()


@pytest.mark.parametrize("name", each_on_one_worker(elsewhere.NAMES))
def test_the_docs_say_what_needs_no_server(name, opened):
    row = world.table_of({name: world.tried(opened(name))}, ()).splitlines()[-1]
    assert row in world.written().splitlines()


@pytest.mark.parametrize("dialect", world.WRITTEN)
def test_the_docs_say_what_was_not_run(dialect):
    assert f"| {world.NAMES[dialect]} | one SELECT | not run here |" in world.written()


@pytest.mark.parametrize("dialect", SPELLINGS)
def test_the_statement_is_as_it_was(dialect):
    """UPDATE=1 writes it anew, to be read before a commit."""
    found = world.snapshot(dialect)
    path = SNAPSHOTS / f"{dialect}.sql"
    if os.environ.get("UPDATE"):
        path.write_text(found)
    assert found == path.read_text()
