"""If this fails, a report contradicts the verbs it is made of."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.estimators import parse_estimators
from foreclick.metrics import Metric
from foreclick.policies import as_policy
from foreclick.question import Question
from foreclick.questions.report import context_changes
from foreclick.tallies.base import local_tally
from tests.cases.plain import drawn

ROWS = drawn(8, records=180, contexts=3, items=5, depth=3, periods=6).table.to_pylist()
NAMES = ["q0", "q1", "q2"]
LISTS = [[102, 100, 101], [100, 101, 102], [101, 102, 103]]
CANDIDATE: dict[str, Any] = {"context": NAMES, "items": LISTS}


def log_of(records: list[dict[str, Any]], **roles: Any) -> fc.Log:  # noqa: ANN401
    return fc.read_log(pa.Table.from_pylist(records), **({"period": "day"} | roles))


def made(log: fc.Log, candidate: Any = None, **options: Any) -> Any:  # noqa: ANN401 - parts that are there
    """A report whose parts are known to be there."""
    return fc.report(log, CANDIDATE if candidate is None else candidate, **options)


@pytest.fixture(scope="module")
def log() -> fc.Log:
    return log_of(ROWS)


def test_every_part_is_that_of_its_verb(log):
    report = made(log)
    assert report.evaluation == fc.evaluate(log, CANDIDATE)
    assert report.rows == report.evaluation.rows
    assert report.models == fc.evaluate(log, CANDIDATE, estimators="all")
    assert report.support == fc.support(log, CANDIDATE)
    assert report.check == fc.check(log)
    names = list(dict.fromkeys(report.backtest["estimator"]))
    assert report.backtest == fc.backtest(log, estimators=names)
    assert str(report) == str(report.evaluation)


@pytest.mark.parametrize("estimator", ["ladder", "ip", "item"])
def test_all_contexts_add_up_to_the_change(log, estimator):
    counted, _ = local_tally(log)
    question = Question([as_policy(CANDIDATE)], parse_estimators(estimator), [Metric("dcg@2")])
    found = context_changes(counted, question, 3, 0.95)
    change = fc.evaluate(log, CANDIDATE, metrics="dcg@2", estimators=estimator)["change"][0]
    assert found.gain.adds + found.lose.adds == pytest.approx(change, rel=1e-12)
    assert sum(found["adds"]) == pytest.approx(change, rel=1e-12)
    for row in found.to_dicts():
        assert row["adds"] == pytest.approx(row["share"] * row["change"], rel=1e-9)
        assert row["value"] - row["production"] == pytest.approx(row["change"], rel=1e-9)


def test_a_baseline_is_what_contexts_are_compared_with(log):
    same = made(log, CANDIDATE, baseline=CANDIDATE, backtest=False)
    assert same.contexts.same.contexts == 3
    other = {"context": NAMES, "items": [[100, 101, 102]] * 3}
    found = made(log, CANDIDATE, baseline=other, backtest=False)
    total = found.contexts.gain.adds + found.contexts.lose.adds
    assert total == pytest.approx(found.evaluation["change"][0], rel=1e-9)
    assert {sides.before.items for sides in found.contexts.lists} == {(100, 101, 102)}


def test_its_call_names_all_that_is_not_as_usual(log):
    limits = {"dcg@2": 0.1}
    told, usual = (
        dict(report.made)["Call"]
        for report in (
            made(log, CANDIDATE, metrics="clicks@2", min_effect=0.01, guardrails=limits),
            made(log, CANDIDATE),
        )
    )
    assert told.endswith("metrics=['clicks@2'], min_effect=0.01, guardrails=…)")
    assert "min_effect" not in usual
    assert "guardrails" not in usual


def test_a_baseline_may_be_a_frame(log):
    """Which compares with None cell by cell."""
    found = made(log, CANDIDATE, baseline=pd.DataFrame(CANDIDATE), backtest=False)
    assert dict(found.made)["Call"].endswith("baseline=…)")


def test_parts_that_a_log_cannot_give_are_left_out(log):
    undated = made(log_of(ROWS, period=None), CANDIDATE)
    assert undated.backtest is None
    ratio = made(log, CANDIDATE, metrics="ctr@2", backtest=False)
    assert (ratio.contexts, ratio.support) == (None, None)
    first = made(log, CANDIDATE, metrics="success@2", backtest=False)
    assert first.contexts is not None
    slot = {"context": NAMES, "item": [102, 100, 101]}
    marginals = fc.Marginals(slot | {"position": [1] * 3, "probability": [1.0] * 3})
    slots = made(log, marginals, metrics="clicks@1", backtest=False)
    assert slots.support is not None
    after = {sides.after.items for sides in slots.contexts.lists}
    assert set() < after <= {(102,), (100,), (101,)}
