"""If this fails, a lost connection ends in a wrong answer, or in a stack of calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import ibis
import pyarrow as pa
import pytest
from ibis.backends import BaseBackend

import foreclick as fc
from foreclick.errors import EngineError
from tests.servers import postgres_engine
from tests.torture.asked import ASKED, CANDIDATE, LOG

pytestmark = pytest.mark.postgres
WAITS = 30  # seconds that a statement takes, unless it is ended


def connected(postgres: BaseBackend) -> BaseBackend:
    """Another connection to the same server."""
    info = postgres.con.info
    return ibis.postgres.connect(
        host=info.host, port=info.port, user=info.user, database=info.dbname
    )


@pytest.fixture
def name(postgres) -> Iterator[str]:
    """A table of the log, of which a view `slow_…` takes its time."""
    engine = postgres_engine(postgres)
    name = engine.load(pa.table(LOG)).get_name()
    postgres.raw_sql(
        f'CREATE VIEW "slow_{name}" AS SELECT t.* FROM "{name}" t, pg_sleep({WAITS})'
    ).close()
    postgres.con.commit()
    yield name
    postgres.raw_sql(f'DROP VIEW "slow_{name}"').close()
    engine.clean()


def test_a_connection_that_ends_in_the_middle_of_a_statement(postgres, name):
    asking = connected(postgres)
    process = asking.con.info.backend_pid
    slow, plain = asking.table(f"slow_{name}"), asking.table(name)

    def end() -> None:
        working = f"SELECT 1 FROM pg_stat_activity WHERE pid = {process} AND wait_event = 'PgSleep'"
        with connected(postgres).con as other:
            while not other.execute(working).fetchall():
                other.commit()  # or it sees the same moment again
                time.sleep(0.01)
            other.execute(f"SELECT pg_terminate_backend({process})")

    start = time.monotonic()
    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(EngineError, match=r"postgres failed .* connect and ask again"):
        fc.read_log(slow, period="day")
    thread.join()
    assert time.monotonic() - start < WAITS

    with pytest.raises(EngineError, match="connect and ask again"):
        fc.read_log(plain, period="day")
    again = connected(postgres)
    log = fc.read_log(again.table(name), period="day")
    found = fc.evaluate(log, CANDIDATE, **ASKED)
    assert (
        found.to_dicts()
        == fc.evaluate(fc.read_log(LOG, period="day"), CANDIDATE, **ASKED).to_dicts()
    )
    again.disconnect()
