"""If this fails, an answer depends on where it is computed, or on what was asked before.

In memory, read again for each pass, in several processes, and in the tasks of a cluster.
"""

import pickle
import random
import threading
import warnings
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import foreclick as fc
from foreclick.batches import pool, source
from foreclick.errors import ForeclickWarning
from foreclick.tallies import base
from tests.answers import same
from tests.cases.plain import Draw, drawn, half_new
from tests.cases.tables import lists_table
from tests.tries import LONG

LOG = Draw(records=900, contexts=12, periods=6, unit=True, ragged=True, segments=True, orders=True)
"""A log with days, users, parts and prices."""

VERBS: dict[str, Any] = {
    "evaluate": lambda log, new: fc.evaluate(log, new, metrics=["clicks@2", "price@3"], by="land"),
    "evaluate by the paper": lambda log, new: fc.evaluate(
        log, new, metrics="dcg@3", estimators=["list", "prefix", "ip", "item", "pbm", "rctr"]
    ),
    "first clicks": lambda log, new: fc.evaluate(log, new, metrics="success@3", missing="drop"),
    "compare": lambda log, new: fc.compare(log, {"new": new, "now": fc.Observed(log)}),
    "support": fc.support,
    "contexts": lambda log, _: fc.contexts(log),
    "check": lambda log, _: fc.check(log),
    "backtest": lambda log, _: fc.backtest(log, metrics=["clicks@2", "price@3"]),
    "replay": lambda log, _: fc.replay(log, variant="device", control="laptop"),
    "examination": lambda log, _: fc.examination(log),
    "judgments": lambda log, _: fc.judgments(log),
    "optimize": lambda log, _: fc.optimize(log, metrics="dcg@3"),
    "optimize by the paper": lambda log, _: fc.optimize(log, metrics="dcg@3", estimators="ip"),
    "explore": fc.explore,
    "report": fc.report,
}
"""What is asked of a log and a candidate."""

SLOTS = 900
"""Of a batch, so that a small log has several."""

SOME = ("evaluate", "backtest", "optimize")
"""Those that are asked with integer contexts."""

FAR = ("optimize",)
"""Asked in other processes, which start slowly (`evaluate`: tests/engines/test_workers.py)."""

TASKS = {True: ("optimize",), False: ("evaluate",)}
"""Those that are asked in the tasks of a cluster, where contexts are text or not."""


def scene(*, text=True, copies=1, **like):
    """A log and a candidate.

    Args:
        text: whether contexts are text; otherwise they are whole numbers, in another order.
        copies: how often each context is there, by other names: the same lists and clicks on the
            same days, at other prices. Only the candidate tells them apart.
        like: other options of the log.
    """
    draw = replace(LOG, **like)

    def named(context, copy):
        number = int(context.removeprefix("q")) + draw.contexts * copy
        return f"q{number}" if text else number

    one, rng = drawn(5, draw), random.Random(1)  # noqa: S311 - no secret
    case = one.taking(np.tile(np.arange(one.size), copies))
    context = [named(x, i // one.size) for i, x in enumerate(case.columns["context"])]
    price = [[paid * rng.choice([1, 3]) for paid in row] for row in case.columns["price"]]
    candidates = (half_new(drawn(5 + copy, draw)).items() for copy in range(copies))
    policy = {named(x, copy): own for copy, new in enumerate(candidates) for x, own in new}
    return case.having(context=context, price=price), fc.Lists(lists_table(policy))


def answer(verb, log, new):
    """The rows of an answer; of `optimize`, with those of its policy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForeclickWarning)
        found = VERBS[verb](log, new)
    policy = getattr(found, "policy", None)
    return found.to_dicts() + ([] if policy is None else policy.table.to_pylist())


def fresh(verb, log, table=None):
    """The same of a tally of which nothing was asked before, perhaps of a table elsewhere."""
    case, new = log
    return answer(verb, fc.tally(case.read(table)), new)


# --- where it is computed -------------------------------------------------------------------------


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


@pytest.fixture
def read_again(monkeypatch):
    """Logs do not stay in memory, and are read in small batches."""
    monkeypatch.setattr(source, "KEPT_SLOTS", 0)
    monkeypatch.setattr(source.Batches.__init__, "__defaults__", (SLOTS,))


@pytest.fixture(scope="module", params=[True, False], ids=["text", "integers"])
def log(request):
    return scene(text=request.param)


def of_text(log):
    """Whether its contexts are text."""
    return isinstance(log[0].columns["context"][0], str)


def some(log):
    """All verbs, or some where contexts are integers."""
    return VERBS if LONG or of_text(log) else SOME


@pytest.fixture(scope="module")
def right(log):
    """In memory, in this process."""
    return {verb: fresh(verb, log) for verb in some(log)}


def wrong(log, right, verbs, table=None):
    """By verb, the first row that is not as it is in memory."""
    found: dict[str, Any] = {}
    for verb in verbs:
        rows = fresh(verb, log, table)
        pairs = [(len(rows), len(right[verb]))] * (len(rows) != len(right[verb]))
        pairs += [each for each in zip(rows, right[verb], strict=False) if not same(*each)]
        found |= {verb: pairs[0]} if pairs else {}
    return found


def test_in_memory_by_several_processes(log, right, processes):
    assert wrong(log, right, some(log)) == {}


def test_read_again_for_each_pass(log, right, read_again):
    assert wrong(log, right, some(log)) == {}


def test_read_again_and_sent_to_others(log, right, read_again, processes, monkeypatch):
    """`optimize` was judged by other contexts than those it had chosen for."""
    monkeypatch.setattr(pool, "_Pool", Pickled)
    assert wrong(log, right, some(log)) == {}


def test_read_again_by_several_processes(log, right, read_again, processes: None):
    if not (LONG or of_text(log)):
        pytest.skip("processes start slowly: with integers in `make test-long`")
    assert wrong(log, right, VERBS if LONG else FAR) == {}


@pytest.mark.spark
def test_in_tasks_of_a_cluster(log, right, spark_session, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base, "HOME_ROWS", 0)
    there = spark_session.createDataFrame(log[0].table)
    assert wrong(log, right, VERBS if LONG else TASKS[of_text(log)], there) == {}


# --- what was asked before ------------------------------------------------------------------------


ORDERS = [tuple(VERBS), tuple(VERBS)[::-1], *(permutations(VERBS, 2) if LONG else ())]
"""In the first two, every verb comes after each other one."""

ALIKE: dict[str, Any] = {"copies": 25, "records": 60, "contexts": 4, "unit": False}


@pytest.fixture(scope="module", params=[{}, ALIKE], ids=["users", "contexts that are alike"])
def asked_of(request):
    return scene(**request.param)


@pytest.fixture(scope="module")
def alone(asked_of):
    """The log, and each verb asked of it alone.

    The ladder learns from some contexts, as it does of large logs.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("foreclick.ladder.sample.FIT_SLOTS", 1_500)
        patch.setattr("foreclick.curves.learnt.SAMPLE_RECORDS", 300)
        yield {verb: fresh(verb, asked_of) for verb in VERBS}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: " ".join(order[:2]))
def test_what_was_asked_before_changes_no_bit(asked_of, alone, order):
    """Draws of contexts that an evaluation left were read by a first backtest of prices."""
    case, new = asked_of
    tally = fc.tally(case.read())
    assert [verb for verb in order if answer(verb, tally, new) != alone[verb]] == []
