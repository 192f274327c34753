"""If this fails, an answer depends on where it is computed, and looks as right as the others.

In memory, read again for each pass, in several processes, and in the tasks of a cluster.
"""

import pickle
import threading

import pytest

import foreclick as fc
from foreclick.batches import pool, source
from foreclick.tallies import base
from tests.questions.verbs import VERBS, answer, differences, table
from tests.tries import LONG

SLOTS = 900
"""Of a batch, so that a small log has several."""

FAR = ("optimize",)
"""Asked in other processes, which start slowly (`evaluate`: tests/engines/test_workers.py)."""

SOME = ("evaluate", "backtest", "optimize")
"""Those that are asked with integer contexts."""

TASKS = {True: ("optimize",), False: ("evaluate",)}
"""Those that are asked in the tasks of a cluster, where contexts are text or not."""


def travelled(value):
    """As it arrives in another process."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - made here


class Pickled:
    """Stands for worker processes: work, parts and answers travel as they do to those."""

    def __init__(self, work: bytes, workers: int) -> None:
        self.work, self.own = work, threading.local()

    def answer(self, part):
        """What the work makes of a part, by the copy of this thread."""
        if not hasattr(self.own, "work"):
            self.own.work = pickle.loads(self.work)  # noqa: S301 - made here
        return travelled(self.own.work(travelled(part)))

    def stop(self) -> None:
        """There is nothing to stop."""


@pytest.fixture
def processes():
    fc.settings(workers=2)
    yield
    fc.settings(workers=1)


@pytest.fixture(scope="module", params=[True, False], ids=["text", "integers"])
def log(request):
    return table(text=request.param)


@pytest.fixture(scope="module")
def right(log):
    """In memory, in this process."""
    source_table, roles, new = log
    return {
        verb: answer(verb, fc.tally(fc.read_log(source_table, **roles)), new)
        for verb in some_verbs(log)
    }


def wrong(log, right, verbs=VERBS):
    """By verb, the rows that are not as they are in memory."""
    source_table, roles, new = log
    found = {
        verb: differences(
            answer(verb, fc.tally(fc.read_log(source_table, **roles)), new), right[verb]
        )
        for verb in verbs
    }
    return {verb: rows for verb, rows in found.items() if rows}


def of_text(log):
    """Whether its contexts are text."""
    return isinstance(log[0]["context"][0].as_py(), str)


def some_verbs(log):
    """All, or some where contexts are integers."""
    return VERBS if of_text(log) or LONG else SOME


@pytest.fixture
def read_again(monkeypatch):
    """Logs do not stay in memory, and are read in small batches."""
    monkeypatch.setattr(source, "KEPT_SLOTS", 0)
    monkeypatch.setattr(source.Batches.__init__, "__defaults__", (SLOTS,))


def test_in_memory_by_several_processes(log, right, processes):
    assert wrong(log, right, some_verbs(log)) == {}


def test_read_again_for_each_pass(log, right, read_again):
    assert wrong(log, right, some_verbs(log)) == {}


def test_read_again_and_sent_to_others(log, right, read_again, processes, monkeypatch):
    """`optimize` was judged by other contexts than those it had chosen for."""
    monkeypatch.setattr(pool, "_Pool", Pickled)
    assert wrong(log, right, some_verbs(log)) == {}


def test_read_again_by_several_processes(log, right, read_again, processes: None):
    assert wrong(log, right, VERBS if LONG else FAR if of_text(log) else ()) == {}


@pytest.mark.spark
def test_in_tasks_of_a_cluster(log, right, spark_session, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base, "HOME_ROWS", 0)
    source_table, roles, new = log
    there = spark_session.createDataFrame(source_table), roles, new
    assert wrong(there, right, VERBS if LONG else TASKS[of_text(log)]) == {}
