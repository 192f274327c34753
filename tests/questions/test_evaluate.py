"""If this fails, `evaluate` drops contexts, rows or warnings without a word."""

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import ForeclickWarning
from tests.answers import IBIS, answer, clipped, log_of, repeated, settled
from tests.cases import tables
from tests.questions.scenes import counted, two_lists

COLUMNS = (
    *("value", "se", "low", "high", "borrowed", "margin", "production"),
    *("change", "change_low", "change_high", "lift", "lift_low", "lift_high"),
    *("covered", "clipped", "ess", "contexts", "records", "missing_contexts", "dropped"),
    "verdict",
)
TWO = [
    *repeated(((1, 2), (1, 0)), ((2, 1), (1, 1))),
    *repeated(((3, 1), (0, 1)), ((1, 3), (0, 0)), context="r"),
]
BOTH = {"context": ["q", "r"], "items": [[2, 1], [1, 3]]}
STRANGER = {"context": ["q", "r"], "items": [[3, 9], [2, 8]]}
"""Items that other contexts have shown, or none."""


@pytest.fixture(scope="module")
def log():
    return log_of(TWO)


def ask(log, candidate=None, **options):
    asked = {"estimators": "ip", "metrics": "clicks@2"} | options
    return fc.evaluate(log, candidate or BOTH, **asked)


def read(records, roles, **columns):
    return fc.read_log(tables.log_table(records, **columns), **roles)


class TestRows:
    def test_one_an_estimator_metric_and_clip_in_the_order_asked(self, log):
        by, metrics = clipped(["ip", "dctr"], [5, 1]), [fc.Metric([1, 0.5]), "clicks@1"]
        found = ask(log, estimators=by, metrics=metrics)
        assert found.columns == ("estimator", "metric", "clip", *COLUMNS)
        assert [(row["estimator"], row["metric"], row["clip"]) for row in found] == [
            (e, m, c) for e in ("ip", "item") for m in ("theta[1,0.5]", "clicks@1") for c in (5, 1)
        ]
        assert {type(v) for row in found.to_dicts() for v in row.values()} <= {str, int, float}

    def test_by_default_two_estimators_and_two_metrics_without_a_clip(self, log):
        found = fc.evaluate(log, BOTH)
        asked = list(zip(found["estimator"], found["metric"], found["clip"], strict=True))
        assert asked == [(e, m, math.inf) for e in ("ladder", "ip") for m in ("clicks@3", "dcg@10")]

    def test_what_goes_for_a_log_and_for_a_candidate(self, log, tmp_path):
        table, expected = tables.log_table(TWO), answer(log, fc.Ranking(BOTH))
        fc.tally(log).write_parquet(tmp_path / "tally.parquet")
        for source in (table, table.to_pandas(), fc.read_tally(tmp_path / "tally.parquet")):
            assert answer(source, BOTH) == answer(source, pa.table(BOTH)) == expected
        assert answer(log, log) == answer(log, fc.Observed(log))


class TestContexts:
    def test_those_that_only_the_candidate_has_are_ignored_and_counted(self, log):
        more = {"context": ["q", "r", "s", "t"], "items": [[2, 1], [1, 3], [7], [8]]}
        found, plain = ask(log, more, confidence=None), ask(log, confidence=None)
        assert settled(found) == settled(plain)
        assert found.notes == ("Ignored: 2 contexts that only the candidate has.",)
        assert plain.notes == ()

    RARE = log_of([r for i in range(4) for r in repeated(((1, 2), (1, 0)), context=f"c{i}")])
    SAME_LISTS: ClassVar[Any] = {"context": [f"c{i}" for i in range(4)], "items": [[1, 2]] * 4}

    @pytest.mark.filterwarnings(IBIS)
    def test_those_that_hardly_repeat_are_warned_of_with_what_to_do(self):
        with pytest.warns(ForeclickWarning, match="hardly repeat") as caught:
            found = fc.evaluate(self.RARE, self.SAME_LISTS, metrics="clicks@2", estimators="ip")
        (warning,) = [w for w in caught if w.category is ForeclickWarning]
        assert warning.filename == __file__
        message = str(warning.message)
        assert "the median of 4 contexts has 3 records, fewer than 5" in message
        for advice in ("coarser context", "context=None", "propensity=", "logging="):
            assert advice in message
        assert any("hardly repeat" in note for note in found.notes), "also where it is printed"

    def test_nothing_is_warned_of_where_the_ladder_answers(self):
        found = fc.evaluate(self.RARE, self.SAME_LISTS, metrics="clicks@2")
        assert "hardly repeat" not in str(found)

    def test_propensities_stay_with_their_records_where_others_are_dropped(self):
        chances = [0.5] * 6 + [0.25] * 6
        log = read(TWO, {"propensity": "p"}, p=chances)
        new = {"context": ["r"], "items": [[3, 1]]}
        asked = {"estimators": "list", "logging": "propensity", "missing": "drop"}
        # Three of the six records of r show its list, with a click each.
        assert ask(log, new, **asked)["value"] == pytest.approx([3 * 1 / 0.25 / 6])


class TestNothingInCommon:
    def test_no_item_in_common_is_no_answer_by_any_estimator(self, log):
        found = fc.evaluate(log, STRANGER, estimators=clipped("all", [10, math.inf]))
        assert len(found) == 2 * (2 + 2 * 5)  # a ladder has no clip, nor has `rctr`
        for row in found:
            assert (row["value"], row["change"], row["lift"]) == (None, None, None), row
            assert (row["covered"], row["ess"]) == (0, 0)
            assert row["production"] > 0

    def test_no_answer_in_one_segment_is_not_said_of_all(self):
        log = read(TWO, {"segments": "s"}, s=["a"] * 6 + ["b"] * 6)
        found = ask(log, {"context": ["q", "r"], "items": [[2, 1], [8, 9]]}, by="s")
        assert found["value"] == [pytest.approx(2.0), None]
        assert not any(note.startswith("No answer by ip: nothing") for note in found.notes)


def test_two_segments_are_crossed():
    roles = {"segments": "s", "period": "day"}
    log = read(TWO, roles, s=["a", "b"] * 6, day=[1, 1, 2, 2] * 3)
    found = ask(log, estimators="rctr", by=("s", "period"), missing="production")
    assert found.columns == ("estimator", "metric", "clip", "s", "period", *COLUMNS)
    crossed = list(zip(found["s"], found["period"], found["records"], strict=True))
    assert crossed == [("a", 1, 3), ("a", 2, 3), ("b", 1, 3), ("b", 2, 3)]


def test_a_baseline_that_the_log_does_not_know_gives_no_change(log):
    row = answer(log, BOTH, baseline=STRANGER)
    assert (row["production"], row["change"], row["lift"]) == (None, None, None)
    assert row["value"] is not None


@pytest.mark.parametrize(
    ("days", "items", "clusters", "word"),
    [
        (12, (2, 1), "auto", "cannot tell"),
        (12, (1, 2), "auto", "worse"),
        (4, (2, 1), "auto", "better"),
        (12, (2, 1), "record", "better"),
    ],
)
def test_what_only_few_of_many_days_saw_is_not_judged(days, items, clusters, word):
    """[1, 2] is shown every day and earns little, [2, 1] on the first three and earns much."""
    day = np.repeat([*range(days), 0, 1, 2], 30)
    turned = np.arange(len(day)) >= 30 * days
    clicks = np.random.default_rng(2).random(len(day)) < np.where(turned, 0.9, 0.2)
    log = fc.read_log(two_lists(turned, clicks, day=day), period="day")
    sure = fc.Confidence(clusters=clusters)
    new = {"context": ["q"], "items": [items]}
    found = ask(log, new, metrics="clicks@1", confidence=sure)
    assert found["verdict"] == [word]
    said = "only 0% of what was seen of the candidate was seen in 5 periods"
    assert (said in found.verdicts[0].because) == (word == "cannot tell")


def test_items_seen_only_below_a_metric_are_nobodys_impossible_cells():
    """No logging policy was given, so none can have called a cell impossible."""
    log, new = counted(([1, 2, 3], [1, 0, 0], 6)), {"context": ["q"], "items": [[3, 1, 2]]}
    found = fc.evaluate(log, new, metrics=["clicks@1", "clicks@3"])
    assert not any("would never show" in note for note in found.notes)


@pytest.mark.parametrize(
    ("wrong", "error", "word"),
    [
        ({}, 0, "better"),
        ({"mean_error": 0.6}, 0.6, "cannot tell"),
        # What single contexts were off does not count.
        ({"rmse": 0.6, "floor": 0.1, "bias": 0.1}, 0, "better"),
    ],
)
def test_a_verdict_allows_for_what_the_estimator_got_wrong_on_days_of_the_log(wrong, error, word):
    table = two_lists([0, 1] * 60, [1, 0] * 60, day=[n // 2 % 6 for n in range(120)])
    log = fc.read_log(table, period="day")
    asked: Any = {"metrics": "clicks@1", "estimators": "ip"}
    tested = fc.backtest(log, **asked)
    assert (tested["rmse"], tested["floor"], tested["mean_error"]) == ([0.0], [0.0], [0.0])
    off = replace(tested, rows=tuple(dict(row) | wrong for row in tested.rows), by_newness={})
    assert off.error("ip", "clicks@1", math.inf) == error
    new = {"context": ["q"], "items": [[1, 2]]}
    sure = fc.Confidence(past=off)
    assert fc.evaluate(log, new, **asked, confidence=sure)["verdict"] == [word]
