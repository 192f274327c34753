"""Engines in which nothing is created: the tally is one SELECT, or rows are read here.

Each gives the tally that DuckDB gives, to the last bit, buckets included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
from tests.engines.elsewhere import NAMES
from tests.engines.looking import ODD
from tests.engines.random_roles import ALL, LOGS, WITHOUT_ARRAYS, Drawn, log_of
from tests.tries import LONG

SOME = ("everything", *(["times", "weights, in rows"] if LONG else []))
"""GoogleSQL's reference engine takes a second for a statement; these are enough for it."""


def rows_of(tally: fc.Tally) -> pa.Table:
    return pa.Table.from_batches(tally.sorted_batches())


def assert_same(there: fc.Log, log: Drawn) -> None:
    here = fc.tally(fc.read_log(log.table, **log.roles))
    found = fc.tally(there)
    assert found.engine is default_engine()
    assert (found.shape, found.dropped) == (here.shape, here.dropped)
    assert rows_of(found).schema.equals(rows_of(here).schema)
    assert rows_of(found).equals(rows_of(here))


def _pairs() -> Iterator[Any]:
    """Engines with logs; those of one engine on one worker, for an instance takes long to start.

    In a long run every log is there as arrays, in columns and in rows; else in one of these ways,
    another one in each engine, and every other log, but always the one with every role.
    """
    for turn, name in enumerate(NAMES):
        ways = [*([] if name == "sqlite" else [LOGS]), *_halves(WITHOUT_ARRAYS)]
        for number in range(len(LOGS)):
            several = [way[number] for way in ways]
            picked = several
            if name == "bigquery":
                picked = [log for log in several if log.name in SOME]
            elif not LONG:
                one = several[(turn + number) % len(ways)]
                taken = (turn + number) % 2 == 0 or one.name.startswith("everything")
                picked = [one] if taken else []
            for log in picked:
                group = pytest.mark.xdist_group(name)
                yield pytest.param(name, log, marks=group, id=f"{name}: {log}")


def _halves(logs: list[Drawn]) -> list[list[Drawn]]:
    return [logs[: len(logs) // 2], logs[len(logs) // 2 :]]


@pytest.fixture(scope="module")
def loaders(opened):
    """One instance of each engine."""
    found = {}

    def of(name):
        if name not in found:
            found[name] = opened(name)
        return found[name]

    return of


@pytest.mark.parametrize(("name", "log"), [*_pairs()])
def test_the_tally_is_the_same_to_the_last_bit(loaders, name, log):
    assert_same(fc.read_log(loaders(name)(log.table), **log.roles), log)


@pytest.mark.xdist_group("clickhouse")
@pytest.mark.parametrize("name", ["clickhouse"])
def test_a_note_says_where_the_log_was_tallied(loaders, name):
    log = fc.read_log(loaders(name)(log_of(20)), **ALL)
    assert f"in {name};" in repr(log)
    notes = fc.backtest(log, estimators="ip").notes
    assert [n for n in notes if n.startswith(f"The log was tallied in {name}; the ")]


def test_units_are_checked_where_the_log_lives(loaders):
    here, there = (
        fc.check(fc.read_log(table, **ALL)).to_dicts()
        for table in (log_of(20), loaders("datafusion")(log_of(20)))
    )
    assert "bot-like" in repr(here)
    assert repr(here) == repr(there)


def test_a_candidate_may_live_there_too(loaders):
    table = pa.table({"context": ["q"], "items": [[2, 1]]})
    log = {"context": ["q"] * 20, "items": [[1, 2], [2, 1]] * 10, "clicks": [[0, 1], [1, 0]] * 10}
    here, there = (
        fc.evaluate(log, fc.Ranking(candidate), estimators="ip", metrics="clicks@2").to_dicts()
        for candidate in (table, loaders("datafusion")(table))
    )
    assert repr(here) == repr(there)


def test_events_come_home_to_become_a_log(loaders):
    shown: dict[str, Any] = {"request": [1, 1, 2, 2], "query": ["q"] * 4, "item": [1, 2, 2, 1]}
    shown["position"] = [1, 2, 1, 2]
    actions = pa.table({"request": [1, 2], "item": [1, 2], "action": ["click", "click"]})
    roles: dict[str, Any] = {"list_id": "request", "context": "query"}
    here, there = (
        fc.from_events(load(pa.table(shown)), load(actions), **roles)
        for load in (lambda table: table, loaders("datafusion"))
    )
    assert there.rows == 2
    assert rows_of(fc.tally(there)).equals(rows_of(fc.tally(here)))


# --- names and text -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xdist_group(name))
        for name in ("bigquery", "clickhouse", "datafusion")
    ],
)
@pytest.mark.parametrize("odd", ODD)
def test_names_and_text_are_what_they_are(loaders, name, odd):
    if name == "bigquery" and odd in ("a`b", "$1"):
        pytest.skip("no column may be called so there, and sqlglot cannot read it")
    table = engines.open_source(loaders(name)(pa.table({"one": [1]})))
    say, kinds = table.engine.say, pa.schema({"found": pa.string()})
    inner = f"SELECT {say.literal(odd)} AS {say.name(odd)} FROM {table.rows} AS s"
    found = table.engine.ask(f"SELECT s.{say.name(odd)} AS found FROM ({inner}) AS s", kinds)
    assert found["found"].to_pylist() == [odd]


# --- hashes that would be wrong -------------------------------------------------------------------


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


class Wrong(Unproven):
    """An engine whose MD5 is another one."""

    spelling = replace(DUCKDB, md5="md5({text} || '!')")


class Without(Unproven):
    """An engine without MD5."""

    spelling = replace(DUCKDB, md5="md5_that_is_not_there({text})")


@pytest.mark.parametrize(
    ("kind", "told"),
    [(Wrong, r"hashes 'foreclick: zoë 東京' to \d+, not \d+"), (Without, "has no MD5")],
)
def test_an_engine_that_hashes_otherwise_is_refused(kind, told):
    table = pa.table({"context": ["q"], "items": [[1]], "clicks": [[0]], "user": ["u"]})
    engine = kind(duckdb.connect())
    with pytest.raises(EngineError, match=rf"{told}(.|\n)*without unit="):
        fc.read_log(table, engine=engine, unit="user")
    assert fc.read_log(table, engine=engine).rows == 1


def test_a_connection_is_asked_once_how_it_hashes():
    connection = duckdb.connect()
    for asked in (1, 0):
        engine = Unproven(connection)
        engine.check_hash()
        assert engine.asked == asked


# --- engines nobody has tried ---------------------------------------------------------------------


def test_an_unknown_engine_is_read_row_by_row():
    """Its texts may be equal where ours are not, as in MySQL."""
    connection = ibis.sqlite.connect()
    table = connection.create_table("log", pa.table({"context": ["q"], "item": [1]}))
    rows = engines.open_source(table)
    assert rows.engine is default_engine()
    assert rows.to_pyarrow().to_pylist() == [{"context": "q", "item": 1}]


def test_frames_that_are_opened_where_nothing_may_be_created_stay_at_home():
    connection = ibis.sqlite.connect()
    table = engines.open_source({"a": [1]}, connection)
    assert table.engine is default_engine()
    assert table.engine.rows(table) == [{"a": 1}]
    assert connection.list_tables() == []
