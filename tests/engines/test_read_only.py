"""If this fails, an account that may only SELECT cannot ask."""

from __future__ import annotations

from typing import Any

import ibis
import psycopg
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.engines import default_engine, open_source
from foreclick.errors import InvalidLogError
from tests import servers
from tests.cases.layouts import LOGS, WITHOUT_ARRAYS, assert_same_tally, log_of

pytestmark = pytest.mark.postgres

CHOSEN = ("large integers", "times", "everything")


@pytest.fixture(scope="module")
def reader(postgres):
    """A connection of a role that may read tables and nothing else, and a way to load some."""
    owner = servers.postgres_engine(postgres)
    with postgres.begin() as cursor:
        cursor.execute("CREATE ROLE reader LOGIN")
        cursor.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
        cursor.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        cursor.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO reader")
    address = postgres.con.info
    connection = ibis.postgres.connect(
        host=address.host, port=address.port, user="reader", password="", database="postgres"
    )
    yield lambda table: connection.table(owner.load(table).get_name())
    connection.disconnect()
    owner.clean()
    with postgres.begin() as cursor:
        cursor.execute("DROP OWNED BY reader")
        cursor.execute("DROP ROLE reader")


def test_the_role_may_create_nothing(reader):
    """Else the other tests say less than they seem to."""
    connection = open_source(reader(pa.table(log_of(20)))).engine.connection
    with pytest.raises(psycopg.Error, match="permission denied to create temporary tables"):
        connection.execute("CREATE TEMPORARY TABLE t (n int)")
    connection.rollback()


@pytest.mark.parametrize(
    "log", [log for log in (*LOGS, *WITHOUT_ARRAYS) if str(log).split(",")[0] in CHOSEN], ids=str
)
def test_the_tally_is_the_same_to_the_last_bit(reader, log, monkeypatch):
    monkeypatch.setattr("foreclick.engines.base.BATCH", 7)
    there = fc.read_log(reader(log.table), **log.roles)
    assert (there.source.name, there.engine) == ("postgres", default_engine())
    assert_same_tally(there, log)


def test_a_candidate_of_the_same_connection_is_read_alike(reader):
    table = pa.table({"context": ["q"], "items": [[2, 1]]})
    log = pa.table(
        {"context": ["q"] * 20, "items": [[1, 2], [2, 1]] * 10, "clicks": [[0, 1], [1, 0]] * 10}
    )
    asked: dict[str, Any] = {"estimators": "ip", "metrics": "clicks@2"}
    here = fc.evaluate(log, fc.Ranking(table), **asked)
    there = fc.evaluate(fc.read_log(reader(log)), fc.Ranking(reader(table)), **asked)
    assert repr(here.to_dicts()) == repr(there.to_dicts())
    faulty = pa.table({"context": ["q", None], "items": [[1]] * 2, "clicks": [[1]] * 2})
    with pytest.raises(InvalidLogError, match="context is null: 1 row"):
        fc.read_log(reader(faulty))
