"""If this fails, a Spark cluster or several processes give another answer."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foreclick as fc
from foreclick.batches import source
from foreclick.engines import engine_of
from foreclick.tallies import base
from tests.answers import clipped, same
from tests.batches.sizes import in_batches
from tests.cases.layouts import LOGS, assert_same_tally
from tests.cases.plain import drawn, half_new
from tests.cases.tables import lists_table
from tests.tries import LONG

ASKED: dict[str, Any] = {
    "metrics": ["clicks@2", "dcg@3"],
    "estimators": clipped(["list", "prefix", "pbm", "ladder"], [2.0, float("inf")]),
    "missing": "production",
}
CASE = drawn(5, records=600, contexts=12, periods=6, unit=True, ragged=True, segments=True)
TABLE, CANDIDATE = CASE.table, fc.Lists(lists_table(half_new(CASE)))


def test_two_processes_answer_as_one_does(monkeypatch):
    asked = ASKED | {"by": "land"}
    alone = fc.evaluate(CASE.log, CANDIDATE, **asked).to_dicts()
    monkeypatch.setattr(source, "KEPT_SLOTS", 0)
    tally = fc.tally(CASE.log)
    source.batches_of.put(tally, source.Batches(tally, slots=100))
    fc.settings(workers=2)
    try:
        found = fc.evaluate(tally, CANDIDATE, **asked).to_dicts()
    finally:
        fc.settings(workers=1)
    assert_same(found, alone)
    one = in_batches(fc.tally(CASE.log), 100)
    assert fc.evaluate(one, CANDIDATE, **asked).to_dicts() == found  # to the last bit


def assert_same(found: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    """Batches of another size add up in another order."""
    assert len(found) == len(right) > 0
    for one, other in zip(found, right, strict=True):
        assert same(one, other), (one, other)


@pytest.mark.spark
def test_tasks_of_a_cluster_answer_as_home_does(spark_session, monkeypatch):
    home = fc.evaluate(CASE.log, CANDIDATE, **ASKED)
    monkeypatch.setattr(base, "HOME_ROWS", 0)
    frame = spark_session.createDataFrame(TABLE)
    there = fc.evaluate(fc.tally(fc.read_log(frame, **CASE.roles)), CANDIDATE, **ASKED)
    assert_same(there.to_dicts(), home.to_dicts())
    assert any("stayed in pyspark" in note for note in there.notes)


# --- a client of Spark Connect, and a cluster of a master and two workers -------------------------


@pytest.mark.spark
@pytest.mark.parametrize("log", [log for log in LOGS if LONG or str(log) == "all roles"], ids=str)
def test_the_tally_of_a_client_is_the_same_and_nothing_is_left(spark_client, log):
    there = fc.read_log(spark_client.createDataFrame(log.table), **log.roles)
    assert_same_tally(there, log)
    session = there.engine.connection
    del there
    gc.collect()
    engine_of(session).drop_unused()
    assert spark_client.catalog.listTables() == []


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.skipif(shutil.which("java") is None, reason="no java")
def test_answers_are_the_same_on_a_cluster_whose_worker_dies():
    """In a process of its own: this one's JVM, if there is one, belongs to another session."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "spark", "same", "killed", "--records", "2000"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert re.search(r"same: [\d,]+ rows of the tally and \d+ answers", done.stdout)
    assert "killed 1:" in done.stdout
