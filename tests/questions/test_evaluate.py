"""`evaluate`: its columns, its rules for what is missing, its notes, warnings and refusals."""

import datetime as dt
import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import (
    ForeclickWarning,
    PolicyError,
)
from tests.answers import IBIS, SAME, answer, clipped, log_of, repeated, settled
from tests.truth import oracle, random_logs

COLUMNS = [
    "value",
    "se",
    "low",
    "high",
    "borrowed",
    "margin",
    "production",
    "change",
    "change_low",
    "change_high",
    "lift",
    "lift_low",
    "lift_high",
    "covered",
    "clipped",
    "ess",
    "contexts",
    "records",
    "missing_contexts",
    "dropped",
    "verdict",
]

TWO = [
    *repeated(((1, 2), (1, 0)), ((2, 1), (1, 1))),
    *repeated(((3, 1), (0, 1)), ((1, 3), (0, 0)), context="r"),
]
BOTH = {"context": ["q", "r"], "items": [[2, 1], [1, 3]]}
ONE = {"context": ["q"], "items": [[2, 1]]}


@pytest.fixture(scope="module")
def log():
    return log_of(TWO)


class TestColumns:
    def test_are_those_of_the_design(self, log):
        found = fc.evaluate(log, BOTH, estimators="ip", metrics="clicks@2")
        assert found.columns == ("estimator", "metric", "clip", *COLUMNS)

    def test_hold_plain_values_in_spellings_that_can_be_used_again(self, log):
        found = fc.evaluate(log, BOTH, estimators=clipped("dctr", 3), metrics=fc.Metric([1, 0.5]))
        (row,) = found.to_dicts()
        assert (row["estimator"], row["metric"], row["clip"]) == ("item", "theta[1,0.5]", 3.0)
        assert {type(v) for v in row.values()} <= {str, int, float}

    def test_one_row_an_estimator_metric_and_clip_in_the_order_asked(self, log):
        found = fc.evaluate(
            log, BOTH, estimators=clipped(["rcm", "list"], [5, 1]), metrics=["clicks@2", "clicks@1"]
        )
        asked = [(row["estimator"], row["metric"], row["clip"]) for row in settled(found)]
        assert asked == [
            (e, m, c) for e in ("rcm", "list") for m in ("clicks@2", "clicks@1") for c in (5, 1)
        ]

    def test_by_default_two_estimators_and_two_metrics_without_a_clip(self, log):
        found = fc.evaluate(log, BOTH)
        assert list(dict.fromkeys(found["estimator"])) == ["ladder", "ip"]
        assert list(dict.fromkeys(found["metric"])) == ["clicks@3", "dcg@10"]
        assert set(found["clip"]) == {math.inf}

    def test_invalid_rows_that_were_dropped_are_counted(self):
        table = {
            "context": ["q"] * 7,
            "items": [[1, 2]] * 5 + [[1, 1], [2]],
            "clicks": [[0, 1]] * 7,
        }
        row = answer(fc.read_log(table, invalid="drop"), {"context": ["q"], "items": [[1, 2]]})
        assert (row["records"], row["dropped"]) == (5, 2)


class TestMissingContexts:
    @pytest.mark.parametrize("missing", ["error", "production", "drop"])
    def test_all_of_them_missing_is_an_error_whatever_the_rule(self, log, missing):
        elsewhere = {"context": ["Q", "R"], "items": [[1, 2], [1, 3]]}
        with pytest.raises(PolicyError, match=r"no list for any context.*the log has 'q', 'r'"):
            answer(log, elsewhere, missing=missing)

    def test_contexts_only_the_candidate_has_are_ignored_and_counted(self, log):
        more = {"context": ["q", "r", "s", "t"], "items": [[2, 1], [1, 3], [7], [8]]}
        asked: dict[Any, Any] = {"estimators": "ip", "metrics": "clicks@2", "confidence": None}
        found, plain = fc.evaluate(log, more, **asked), fc.evaluate(log, BOTH, **asked)
        assert settled(found) == settled(plain)
        assert found.notes == ("Ignored: 2 contexts that only the candidate has.",)
        assert plain.notes == ()


class TestSegments:
    def drawn(self):
        """Records of two contexts at random, in three segments, and the rows of each."""
        rng = np.random.default_rng(4)
        records = [
            record._replace(clicks=tuple(rng.integers(0, 2, 2).tolist()))
            for record in TWO * 3
            if rng.random() < 0.8
        ]
        names = ("app", "web", None)
        segments = [names[i] for i in rng.integers(0, 3, len(records))]
        table = random_logs.log_table(records, s=segments)
        return records, segments, fc.read_log(table, segments="s")

    def test_each_has_what_its_own_records_say_by_the_rates_of_all(self):
        """V_x + Σ_g W_g (c_g − r_g), of each record t, by hand; null is a segment too."""
        records, segments, log = self.drawn()
        found = fc.evaluate(log, BOTH, estimators="ip", metrics="clicks@2", by="s")
        assert found["s"] == ["app", "web", None]
        shown = {"q": (2, 1), "r": (1, 3)}
        each = []
        for record in records:
            here = [r for r in records if r.context == record.context]
            value = 0.0
            for k, item in enumerate(shown[record.context]):
                own = [r.clicks[k] for r in here if r.items[k] == item]
                value += float(np.mean(own))
                if record.items[k] == item:
                    value += (record.clicks[k] - float(np.mean(own))) * len(here) / len(own)
            each.append(value)
        for row in found:
            part = [i for i, s in enumerate(segments) if s == row["s"]]
            assert row["value"] == pytest.approx(np.mean([each[i] for i in part]), rel=SAME)
            clicks = [sum(records[i].clicks) for i in part]
            assert row["production"] == pytest.approx(np.mean(clicks), rel=SAME)
            assert row["records"] == len(part)
            assert row["contexts"] == len({records[i].context for i in part})

    def test_by_period_the_records_say_how_much_a_period_varies(self):
        """Of one period, other periods do not: intervals are by units, or by records."""
        records, _, _ = self.drawn()
        days = [i % 5 for i in range(len(records))]
        table = random_logs.log_table(records, day=days)
        log = fc.read_log(table, period="day")
        asked: dict[str, Any] = {"estimators": "ip", "metrics": "clicks@2", "by": "period"}
        auto, by_record = (
            fc.evaluate(log, BOTH, confidence=fc.Confidence(clusters=c), **asked)
            for c in ("auto", "record")
        )
        assert settled(auto) == settled(by_record)
        assert all(se > 0 for se in auto["se"])

    def test_two_of_them_are_crossed(self):
        table = random_logs.log_table(TWO, s=["a", "b"] * 6, day=[1, 1, 2, 2] * 3)
        found = fc.evaluate(
            fc.read_log(table, segments="s", period="day"),
            BOTH,
            estimators="rctr",
            metrics="clicks@2",
            by=("s", "period"),
            missing="production",
        )
        assert found.columns == ("estimator", "metric", "clip", "s", "period", *COLUMNS)
        crossed = list(zip(found["s"], found["period"], strict=True))
        assert crossed == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
        assert found["records"] == [3, 3, 3, 3]

    def test_days_stay_days_and_can_be_shown(self):
        days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
        log = fc.read_log(random_logs.log_table(TWO, day=days * 6), period="day")
        found = fc.evaluate(log, BOTH, estimators="item", metrics="clicks@2", by="period")
        assert found.to_arrow()["period"].to_pylist() == days
        assert found["records"] == [6, 6]
        halves = [oracle.production(TWO[i::2], (1, 1)) for i in (0, 1)]
        assert found["production"] == pytest.approx(halves)
        for form in ("__str__", "_repr_html_", "to_json"):
            assert "2024-01-02" in getattr(found, form)()

    def test_no_answer_in_one_segment_is_not_said_of_all(self):
        table = random_logs.log_table(TWO, s=["a"] * 6 + ["b"] * 6)
        candidate = {"context": ["q", "r"], "items": [[2, 1], [8, 9]]}
        found = fc.evaluate(
            fc.read_log(table, segments="s"),
            candidate,
            estimators="ip",
            metrics="clicks@2",
            by="s",
        )
        assert found["value"] == [pytest.approx(2.0), None]
        assert not any(note.startswith("No answer by ip: nothing") for note in found.notes)


class TestBaseline:
    def test_stands_where_production_stood(self, log):
        other = {"context": ["q", "r"], "items": [[1, 2], [3, 1]]}
        asked: dict[Any, Any] = {"estimators": ["list", "ip"], "metrics": "clicks@2"}
        found = fc.evaluate(log, BOTH, baseline=other, **asked)
        alone = fc.evaluate(log, other, **asked)
        assert found["production"] == pytest.approx(alone["value"], rel=SAME)
        for row in settled(found):
            assert row["change"] == pytest.approx(row["value"] - row["production"])
            assert row["lift"] == pytest.approx(row["change"] / row["production"])

    def test_may_be_a_log(self, log):
        row = answer(log, BOTH, baseline=fc.Observed(log))
        assert row == answer(log, BOTH)

    def test_the_log_does_not_know_gives_no_change(self, log):
        row = answer(log, BOTH, baseline=TestNothingInCommon.STRANGER)
        assert (row["production"], row["change"], row["lift"]) == (None, None, None)
        assert row["value"] is not None

    def test_is_compared_on_the_records_that_the_value_uses(self, log):
        row = answer(log, ONE, baseline=fc.Ranking(BOTH), missing="drop")
        q_alone = log_of([record for record in TWO if record.context == "q"])
        expected = answer(q_alone, ONE, baseline=fc.Ranking(ONE))
        assert row["production"] == pytest.approx(expected["production"])


@pytest.mark.filterwarnings(IBIS)
class TestContextsThatHardlyRepeat:
    RARE: ClassVar[Any] = [
        record for i in range(4) for record in repeated(((1, 2), (1, 0)), context=f"c{i}")
    ]
    CANDIDATE: ClassVar[Any] = {"context": [f"c{i}" for i in range(4)], "items": [[1, 2]] * 4}

    def test_are_warned_of_with_what_to_do(self):
        with pytest.warns(ForeclickWarning, match="hardly repeat") as caught:
            found = fc.evaluate(
                log_of(self.RARE), self.CANDIDATE, estimators="ip", metrics="clicks@2"
            )
        (warning,) = [w for w in caught if w.category is ForeclickWarning]
        assert warning.filename == __file__
        message = str(warning.message)
        assert "the median of 4 contexts has 3 records, fewer than 5" in message
        for advice in ("coarser context", "context=None", "propensity=", "logging="):
            assert advice in message
        assert any("hardly repeat" in note for note in found.notes), "also where it is printed"

    def test_five_records_are_enough(self):
        enough = repeated(((1, 2), (1, 0)), times=5)
        candidate = {"context": ["q"], "items": [[1, 2]]}
        assert answer(log_of(enough), candidate)["value"] == 1  # a warning would be an error

    def test_a_known_logging_policy_needs_no_repetition(self):
        known = fc.Ranking(self.CANDIDATE)
        assert answer(log_of(self.RARE), self.CANDIDATE, logging=known)["value"] == 1


class TestNothingInCommon:
    STRANGER: ClassVar[Any] = {"context": ["q", "r"], "items": [[3, 9], [2, 8]]}
    """Items that other contexts have shown, or none."""

    @pytest.mark.parametrize("missing", ["error", "drop", "production"])
    def test_items_that_no_context_has_shown_are_an_error_with_examples(self, log, missing):
        for items, cause in (([[8], [9]], ""), ([["sku-1"], ["sku-2"]], "text")):
            with pytest.raises(PolicyError, match=rf"the log has 1.*\(integer\).*{cause}"):
                answer(log, {"context": ["q", "r"], "items": items}, missing=missing)
        words = log_of([r._replace(items=tuple(f"sku-{i}" for i in r.items)) for r in TWO])
        with pytest.raises(
            PolicyError,
            match=r"shows no item of the log: the log has 'sku-1', 'sku-2', 'sku-3' \(text\), the "
            r"candidate 1, 2 \(integer\)\. Text against integers is the likely cause\.",
        ):
            answer(words, BOTH)

    def test_one_batch_in_which_they_are_known_is_enough(self, log, monkeypatch):
        monkeypatch.setattr("foreclick.batches.source.BATCH_SLOTS", 1)
        half = {"context": ["q", "r"], "items": [[2, 1], [8, 9]]}
        assert answer(log_of(TWO), half)["value"] is not None

    def test_no_item_in_common_is_no_answer_by_any_estimator(self, log):
        found = fc.evaluate(log, self.STRANGER, estimators=clipped("all", [10, math.inf]))
        assert len(found) == 2 * (1 + 2 * 6)  # a ladder has no clip
        for row in settled(found):
            assert row["value"] is None, row
            assert (row["change"], row["lift"]) == (None, None)
            assert (row["covered"], row["ess"]) == (0, 0)
            assert row["production"] > 0


class TestInputs:
    def test_bare_tables_are_a_log_and_a_ranking(self):
        table = random_logs.log_table(TWO)
        assert answer(table, BOTH) == answer(log_of(TWO), fc.Ranking(BOTH))
        assert answer(table.to_pandas(), pa.table(BOTH)) == answer(table, BOTH)

    def test_a_log_that_was_read_is_observed(self, log):
        assert answer(log, log) == answer(log, fc.Observed(log))

    def test_a_tally_goes_where_a_log_goes(self, log, tmp_path):
        fc.tally(log).write_parquet(tmp_path / "tally.parquet")
        tally = fc.read_tally(tmp_path / "tally.parquet")
        assert answer(tally, BOTH) == answer(log, BOTH)


class TestForms:
    def test_no_answer_is_missing_in_every_form(self, log):
        found = fc.evaluate(log, TestNothingInCommon.STRANGER, estimators="ip", metrics="clicks@2")
        assert found.to_pandas()["value"].isna().all()
        assert found.to_polars()["value"].null_count() == 1
        assert found.to_arrow()["value"].to_pylist() == [None]

    @pytest.mark.filterwarnings(IBIS)
    def test_records_of_weighted_rows_need_not_be_whole(self):
        table = random_logs.log_table(TWO[:6], w=[0.25] * 6)
        log = fc.read_log(table, count="w")
        with pytest.warns(ForeclickWarning):
            found = fc.evaluate(log, ONE, estimators="ip", metrics="clicks@2")
        assert found["records"] == [1.5]
        assert found.to_arrow()["records"].to_pylist() == [1.5]


class TestDays:
    """[1, 2] is shown every day and earns little, [2, 1] on the first three and earns much."""

    def verdict(self, days, items, **options):
        rng = np.random.default_rng(2)
        shown = [(day, (1, 2), rng.random() < 0.2) for day in range(days) for _ in range(30)]
        shown += [(day, (2, 1), rng.random() < 0.9) for day in range(3) for _ in range(30)]
        table = {
            "context": ["q"] * len(shown),
            "items": [list(items) for _, items, _ in shown],
            "clicks": [[int(click), 0] for _, _, click in shown],
            "day": [day for day, _, _ in shown],
        }
        found = fc.evaluate(
            fc.read_log(table, period="day"),
            {"context": ["q"], "items": [items]},
            metrics="clicks@1",
            estimators="ip",
            **options,
        )
        return found["verdict"][0], found.verdicts[0].because

    def test_what_only_few_of_many_days_saw_is_not_judged(self):
        word, note = self.verdict(12, [2, 1])
        assert word == "cannot tell"
        assert "only 0% of what was seen of the candidate was seen in 5 periods" in note

    def test_what_many_days_saw_is(self):
        assert self.verdict(12, [1, 2])[0] == "worse"

    @pytest.mark.parametrize(
        ("days", "options"), [(4, {}), (12, {"confidence": fc.Confidence(clusters="record")})]
    )
    def test_nor_is_it_said_where_days_are_not_told_apart(self, days, options):
        assert self.verdict(days, [2, 1], **options)[0] == "better"


def test_items_seen_only_below_a_metric_are_nobodys_impossible_cells():
    """No logging policy was given, so none can have called a cell impossible."""
    log = {"context": ["q"] * 6, "items": [[1, 2, 3]] * 6, "clicks": [[1, 0, 0]] * 6}
    found = fc.evaluate(
        log, {"context": ["q"], "items": [[3, 1, 2]]}, metrics=["clicks@1", "clicks@3"]
    )
    assert not any("probability 0" in note for note in found.notes)


class TestBacktest:
    """The verdict allows for what the estimator got wrong on days of the log."""

    LOG: ClassVar[dict[str, Any]] = {
        "context": ["q"] * 120,
        "items": [[1, 2], [2, 1]] * 60,
        "clicks": [[1, 0], [0, 0]] * 60,
        "day": [n // 2 % 6 for n in range(120)],
    }
    ASKED: ClassVar[dict[str, Any]] = {"metrics": "clicks@1", "estimators": "ip"}

    def verdict(self, backtest):
        log = fc.read_log(self.LOG, period="day")
        new = {"context": ["q"], "items": [[1, 2]]}
        return fc.evaluate(log, new, **self.ASKED, confidence=fc.Confidence(past=backtest))[
            "verdict"
        ]

    def test_by_as_much_as_it_was_off(self):
        tested = fc.backtest(fc.read_log(self.LOG, period="day"), **self.ASKED)
        assert (tested["rmse"], tested["floor"], tested["mean_error"]) == ([0.0], [0.0], [0.0])
        assert self.verdict(tested) == self.verdict(None) == ["better"]
        wrong = {"mean_error": 0.6}
        off = replace(tested, rows=tuple(dict(row) | wrong for row in tested.rows))
        assert off.error("ip", "clicks@1", math.inf) == 0.6
        assert self.verdict(off) == ["cannot tell"]

    def test_but_not_by_what_single_contexts_were_off(self):
        tested = fc.backtest(fc.read_log(self.LOG, period="day"), **self.ASKED)
        noisy = {"rmse": 0.6, "floor": 0.1, "bias": 0.1}
        off = replace(tested, rows=tuple(dict(row) | noisy for row in tested.rows))
        assert off.error("ip", "clicks@1", math.inf) == 0
        assert self.verdict(off) == ["better"]

    def test_of_something_else_is_refused(self):
        log = fc.read_log(self.LOG, period="day")
        other = fc.backtest(log, metrics="clicks@2", estimators="ip")
        with pytest.raises(fc.errors.BacktestError, match="no row for 'ip', 'clicks@1'"):
            self.verdict(other)
