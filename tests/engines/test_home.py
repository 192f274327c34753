"""A log far away is tallied there; a small tally is worked on at home, a large one is not."""

from typing import Any

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.tallies import base as _tally

LOG = pa.table(
    {
        "context": ["q"] * 60,
        "items": [[1, 2], [2, 1], [3, 1]] * 20,
        "clicks": [[0, 1], [1, 0], [1, 1], [0, 0], [1, 0], [0, 1]] * 10,
        "day": [d for d in range(6) for _ in range(10)],
    }
)
CANDIDATE = {"context": ["q"], "items": [[2, 1]]}
ASKED: dict[str, Any] = {"clusters": None, "estimators": "ip", "metrics": "clicks@2"}


@pytest.fixture
def far(engine, monkeypatch):
    """A log in each engine, by the rule that users have."""
    monkeypatch.setattr(_tally, "HOME_ROWS", 2_000_000)
    return engine, fc.read_log(engine.load(LOG), period="day")


def notes_of(result):
    return [note for note in result.notes if "tally has" in note or "brought home" in note]


def test_small_tallies_come_home_and_large_ones_stay(far, monkeypatch):
    _, log = far
    expected = fc.evaluate(fc.tally(LOG), CANDIDATE, **ASKED)["value"]
    brought = fc.evaluate(log, CANDIDATE, **ASKED)
    assert brought["value"] == pytest.approx(expected, rel=1e-12)
    name = log.engine.name
    if name == "duckdb":
        assert notes_of(brought) == []
        return
    rows = fc.tally(log).to_arrow().num_rows
    assert notes_of(brought) == [
        f"The log was tallied in {name}; its {rows} rows were brought home to DuckDB."
    ]
    assert notes_of(fc.evaluate(fc.tally(log), CANDIDATE, **ASKED)) == []
    monkeypatch.setattr(_tally, "HOME_ROWS", rows - 1)
    stayed = fc.evaluate(log, CANDIDATE, **ASKED)
    assert notes_of(stayed) == [f"The tally has {rows} rows, so the work was done in {name}."]
    assert stayed["value"] == pytest.approx(expected, rel=1e-12)


def test_every_question_says_where_it_was_answered(far):
    _, log = far
    home = log.engine.name == "duckdb"
    answers = [
        fc.backtest(log, estimators="ip"),
        fc.support(log, CANDIDATE, estimators="ip", metrics="clicks@2"),
        fc.compare(log, {"a": CANDIDATE}, estimator="ip", metric="clicks@2"),
    ]
    assert [len(notes_of(answer)) for answer in answers] == [0 if home else 1] * 3


def test_what_a_log_observed_still_moves_with_it_at_home(far):
    """No variance of a sample is added: its frequencies are the log's own."""
    _, log = far
    there, here = (
        fc.evaluate(source, fc.Observed(source), estimators="ip", metrics="clicks@2")
        for source in (log, fc.read_log(LOG, period="day"))
    )
    assert there["se"] == pytest.approx(here["se"], rel=1e-9)
