"""If this fails, a warehouse gives another tally, or something is created in it.

Each gives the tally that DuckDB gives, to the last bit, buckets included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick import engines
from foreclick.engines import DUCKDB, default_engine
from foreclick.engines.duckdb import DuckDB
from foreclick.errors import EngineError
from tests.cases.layouts import LOGS, WITHOUT_ARRAYS, assert_same_tally
from tests.engines.elsewhere import NAMES
from tests.engines.looking import ODD, assert_held_as_they_are, each_on_one_worker
from tests.tries import LONG

SOME = ("everything", *(["times", "weights, in rows"] if LONG else []))
"""GoogleSQL's reference engine takes a second for a statement; these are enough for it."""


def _pairs() -> Iterator[Any]:
    """Engines with logs; those of one engine on one worker, for an instance takes long to start.

    In a long run every log is there as arrays, in columns and in rows; else in one of these ways,
    another one in each engine, and every other log, but always the one with every role.
    """
    half = len(WITHOUT_ARRAYS) // 2
    for turn, name in enumerate(NAMES):
        ways = [*([] if name == "sqlite" else [LOGS]), WITHOUT_ARRAYS[:half], WITHOUT_ARRAYS[half:]]
        for number in range(len(LOGS)):
            picked = [way[number] for way in ways]
            if name == "bigquery":
                picked = [log for log in picked if str(log) in SOME]
            elif not LONG:
                one = picked[(turn + number) % len(ways)]
                taken = (turn + number) % 2 == 0 or str(one).startswith("everything")
                picked = [one] if taken else []
            for log in picked:
                group = pytest.mark.xdist_group(name)
                yield pytest.param(name, log, marks=group, id=f"{name}: {log}")


@pytest.fixture(scope="module")
def loaders(opened):
    """One instance of each engine."""
    return cache(opened)


@pytest.mark.parametrize(("name", "log"), [*_pairs()])
def test_the_tally_is_the_same_to_the_last_bit(loaders, name, log):
    there = fc.read_log(loaders(name)(log.table), **log.roles)
    assert fc.tally(there).engine is default_engine()
    assert_same_tally(there, log)


@pytest.mark.parametrize("name", each_on_one_worker(("bigquery", "clickhouse", "datafusion")))
def test_names_and_text_are_what_they_are(loaders, name):
    # In BigQuery no column may be called so, and sqlglot cannot read it.
    odd = [one for one in ODD if name != "bigquery" or one not in ("a`b", "$1")]
    assert_held_as_they_are(engines.open_source(loaders(name)(pa.table({"one": [1]}))), odd)


# --- hashes that would be wrong, engines nobody has tried -----------------------------------------


class Unproven(DuckDB):
    """An engine of which no test has shown how it hashes."""

    hashes = False
    spelling = DUCKDB
    asked = 0

    @property
    def say(self):
        return self.spelling

    def ask(self, sql, schema=None, step=None):
        self.asked += "md5" in sql
        return super().ask(sql, schema, step)


@pytest.mark.parametrize(
    ("md5", "told"),
    [
        ("md5({text} || '!')", r"hashes 'foreclick: zoë 東京' to \d+, not \d+"),
        ("md5_that_is_not_there({text})", "has no MD5"),
    ],
)
def test_an_engine_that_hashes_otherwise_is_refused(md5, told):
    table = pa.table({"context": ["q"], "items": [[1]], "clicks": [[0]], "user": ["u"]})
    engine = Unproven(duckdb.connect())
    engine.spelling = replace(DUCKDB, md5=md5)
    with pytest.raises(EngineError, match=rf"{told}(.|\n)*without unit="):
        fc.read_log(table, engine=engine, unit="user")
    assert fc.read_log(table, engine=engine).rows == 1


def test_an_unknown_engine_is_read_row_by_row_and_nothing_is_created_there():
    """Its texts may be equal where ours are not, as in MySQL."""
    connection = ibis.sqlite.connect()
    frame = engines.open_source({"a": [1]}, connection)
    assert (frame.engine, connection.list_tables()) == (default_engine(), [])
    table = connection.create_table("log", pa.table({"context": ["q"], "item": [1]}))
    rows = engines.open_source(table)
    assert rows.engine is default_engine()
    assert rows.to_pyarrow().to_pylist() == [{"context": "q", "item": 1}]
