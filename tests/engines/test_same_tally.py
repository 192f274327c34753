"""Spark and PostgreSQL give the tally that DuckDB gives, to the last bit, and so every answer.

Statistics are computed at home from the tally, so the engines are compared on the tally: on a dozen
logs with every role. One answer of each kind then shows that nothing else comes from an engine.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import foreclick as fc
from tests.engines.random_roles import ALL, LOGS, Drawn, log_of

ELSEWHERE = pytest.mark.parametrize(
    "engine",
    [
        pytest.param("spark", marks=pytest.mark.spark),
        pytest.param("postgres", marks=pytest.mark.postgres),
    ],
    indirect=True,
)


HERE = {log.name: log for log in LOGS}


@cache
def here_of(name: str) -> fc.Tally:
    """The tally that DuckDB gives."""
    return fc.tally(fc.read_log(HERE[name].table, **HERE[name].roles))


def rows_of(tally: fc.Tally) -> pa.Table:
    return pa.Table.from_batches(tally.sorted_batches())


@ELSEWHERE
@pytest.mark.parametrize("log", LOGS, ids=str)
def test_the_tally_is_the_same_to_the_last_bit(engine, log: Drawn):
    there = fc.tally(fc.read_log(engine.load(log.table), **log.roles))
    here = here_of(log.name)
    assert there.engine == engine.workplace
    assert (there.shape, there.dropped) == (here.shape, here.dropped)
    assert there.dropped_rows == here.dropped_rows
    found, expected = rows_of(there), rows_of(here)
    assert found.column_names == here.shape.stored
    assert found.schema.equals(expected.schema)
    assert found.equals(expected)


def test_the_logs_have_what_a_log_may_have():
    """Else the comparison says less than its name."""
    tallies = [here_of(log.name) for log in LOGS]
    shapes = [tally.shape for tally in tallies]
    assert {shape.propensity for shape in shapes} == {None, "list", "slot"}
    assert {shape.period for shape in shapes} == {shape.unit for shape in shapes} == {False, True}
    assert {"clicks" in shape.masks for shape in shapes} == {False, True}
    assert {len(shape.rewards) for shape in shapes} == {1, 2, 3}
    assert {tally.dropped_rows > 0 for tally in tallies} == {False, True}
    rows = [rows_of(tally) for tally in tallies]
    assert {str(table.schema.field("n").type) for table in rows} == {"int64", "double"}
    assert {str(t.schema.field("period").type) for t in rows if "period" in t.column_names} == {
        *("date32[day]", "int64", "string"),
    }
    assert all(tally.row_count() > 8 for tally in tallies)


CANDIDATE = {
    "query": ["zoë", "Anna", "anna", "東京🦆"],
    "list": [[1, 0, 2], [0, 1], [3, -1, 0], [2, 4]],
}


def answers(log: fc.Log) -> dict[str, Any]:
    """One answer of each kind, as plain values."""
    candidate = fc.Ranking(CANDIDATE, context="query", items="list")
    asked: dict[str, Any] = {"metrics": "clicks@2", "estimators": ["ip", "item", "ladder"]}
    best = fc.optimize(log, metrics="clicks@2")
    found = {
        "evaluate": fc.evaluate(log, candidate, **asked),
        "backtest": fc.backtest(log, metrics="clicks@2", estimators=["list", "ip"]),
        "examination": fc.examination(log),
        "optimize": best,
        "support": fc.support(log, candidate, estimators=["list", "ip"], metrics="clicks@2"),
    }
    return {name: repr(answer.to_dicts()) for name, answer in found.items()}  # repr: NaN is NaN


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return answers(fc.read_log(log_of(20), **ALL))


@ELSEWHERE
def test_every_question_has_the_same_answer_to_the_last_bit(engine, expected):
    found = answers(fc.read_log(engine.load(log_of(20)), **ALL))
    assert found.keys() == expected.keys()
    for name, answer in found.items():
        assert answer == expected[name], name
