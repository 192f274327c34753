"""A log far away is tallied there, and the rows of its tally are brought home, once."""

import duckdb
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.engines import default_engine
from foreclick.engines.duckdb import DuckDB
from foreclick.tallies import local_tally

LOG = pa.table(
    {
        "context": ["q"] * 60,
        "items": [[1, 2], [2, 1], [3, 1]] * 20,
        "clicks": [[0, 1], [1, 0], [1, 1], [0, 0], [1, 0], [0, 1]] * 10,
        "day": [d for d in range(6) for _ in range(10)],
    }
)
CANDIDATE = {"context": ["q"], "items": [[2, 1]]}


class Far(DuckDB):
    """A server, as far as anybody can tell; it counts what is fetched from it."""

    far = True
    fetched = 0

    def ask(self, sql, schema=None, step=None):
        self.fetched += sql.startswith("SELECT * FROM")
        return super().ask(sql, schema, step)


@pytest.fixture
def log():
    return fc.read_log(LOG, period="day", engine=Far(duckdb.connect()))


def test_rows_come_home_once_and_every_question_says_so(log):
    tally, notes = local_tally(log)
    assert tally.engine is default_engine()
    assert notes == [
        f"The log was tallied in duckdb; the {tally.row_count()} rows of its tally were copied."
    ]
    here = fc.tally(fc.read_log(LOG, period="day"))
    assert tally.to_arrow().equals(here.to_arrow())
    assert local_tally(here) == (here, [])
    before = log.engine.fetched
    assert local_tally(log)[0] is local_tally(fc.tally(log))[0] is tally
    for answer in (
        fc.evaluate(log, CANDIDATE, estimators="ip", metrics="clicks@2"),
        fc.backtest(log, estimators="ip"),
        fc.support(log, CANDIDATE, estimators="ip", metrics="clicks@2"),
        fc.compare(log, {"a": CANDIDATE}, estimators="ip", metrics="clicks@2"),
    ):
        assert sum("were copied" in note for note in answer.notes) == 1
    assert log.engine.fetched == before
