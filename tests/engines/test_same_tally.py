"""If this fails, Spark or PostgreSQL give other answers than DuckDB.

Statistics are computed at home from the tally, so the engines are compared on the tally: on a dozen
logs with every role. One answer of each kind then shows that nothing else comes from an engine.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import foreclick as fc
from tests.cases.layouts import (
    ALL,
    LOGS,
    WITHOUT_ARRAYS,
    assert_same_tally,
    log_of,
    rows_of,
    tally_here,
)
from tests.engines.looking import on_servers

EVERYTHING = [log for log in WITHOUT_ARRAYS if str(log).startswith("everything")]


@on_servers
@pytest.mark.parametrize("log", [*LOGS, *EVERYTHING], ids=str)
def test_the_tally_is_the_same_to_the_last_bit(engine, log):
    there = fc.read_log(engine.load(log.table), **log.roles)
    assert fc.tally(there).engine == engine.scratch_engine
    assert_same_tally(there, log)


def test_the_logs_have_what_a_log_may_have():
    """Else the comparison says less than its name."""
    tallies = [tally_here(log) for log in LOGS]
    shapes = [tally.shape for tally in tallies]
    assert {shape.propensity for shape in shapes} == {None, "list", "slot"}
    assert {shape.period for shape in shapes} == {shape.unit for shape in shapes} == {False, True}
    assert {"clicks" in shape.masks for shape in shapes} == {False, True}
    assert {len(shape.rewards) for shape in shapes} == {1, 2, 3}
    assert {tally.dropped_rows > 0 for tally in tallies} == {False, True}
    kinds = [{field.name: str(field.type) for field in rows_of(t).schema} for t in tallies]
    assert {kind["n"] for kind in kinds} == {"int64", "double"}
    assert {kind.get("period") for kind in kinds} == {None, "date32[day]", "int64", "string"}
    assert all(tally.row_count() > 8 for tally in tallies)


def answers(log: fc.Log) -> dict[str, str]:
    """One answer of each kind, as plain values."""
    lists = {
        "query": ["zoë", "Anna", "anna", "東京🦆"],
        "list": [[1, 0, 2], [0, 1], [3, -1, 0], [2, 4]],
    }
    candidate = fc.Ranking(lists, context="query", items="list")
    asked: dict[str, Any] = {"metrics": "clicks@2"}
    found = {
        "evaluate": fc.evaluate(log, candidate, estimators=["ip", "item", "ladder"], **asked),
        "backtest": fc.backtest(log, estimators=["list", "ip"], **asked),
        "examination": fc.examination(log),
        "optimize": fc.optimize(log, **asked),
        "support": fc.support(log, candidate, estimators=["list", "ip"], **asked),
    }
    return {name: repr(answer.to_dicts()) for name, answer in found.items()}  # repr: NaN is NaN


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return answers(fc.read_log(pa.table(log_of(20)), **ALL))


@on_servers
def test_every_question_has_the_same_answer_to_the_last_bit(engine, expected):
    assert answers(fc.read_log(engine.load(pa.table(log_of(20))), **ALL)) == expected
