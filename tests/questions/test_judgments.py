"""Judgments: rates and grades against loops, attraction within intervals, files."""

import csv
import json
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.judgments import ITEMS, P, covered, drawn
from scipy import stats

import foreclick as fc
from foreclick import inference
from foreclick.batches import Batches
from foreclick.errors import MetricError, ModelError, OptionError, ReportError
from foreclick.learn import curves
from foreclick.questions import judgments

# The same few sums in another order, and quantiles of two implementations.
SAME = 1e-9
CURVE = (1.0, 0.5, 0.25)


def log(seed=0, records=900, contexts=3, items=5, rate=0.4):
    """Lists of unequal length with clicks by position and item; context "x" is never clicked."""
    rng = np.random.default_rng(seed)
    rows: Any = {"context": [], "items": [], "clicks": []}
    for _ in range(records):
        context = int(rng.integers(0, contexts))
        shown = rng.permutation(items)[: rng.integers(1, 4)].tolist()
        chance = [rate * a / items * CURVE[k] * (context > 0) for k, a in enumerate(shown)]
        rows["context"].append(f"q{context}")
        rows["items"].append(shown)
        rows["clicks"].append([int(rng.random() < c) for c in chance])
    return rows


def by_loops(rows, p=CURVE, max_error=1.0, tail=0.025):
    """The same by loops: clicks over examined records, an exact Poisson interval, grades."""
    counts: Any = defaultdict(lambda: [0.0, 0.0, 0.0])  # records, examined, clicks
    for context, items, clicks in zip(rows["context"], rows["items"], rows["clicks"], strict=True):
        for k, (item, click) in enumerate(zip(items, clicks, strict=True)):
            cell = counts[context, item]
            cell[0] += 1
            cell[1] += p[k]
            cell[2] += click
    found = {}
    for pair, (records, examined, clicks) in counts.items():
        low = stats.chi2.ppf(tail, 2 * clicks) / 2 / examined if clicks else 0.0
        high = stats.chi2.ppf(1 - tail, 2 * clicks + 2) / 2 / examined
        found[pair] = [clicks / examined, low, high, examined, clicks, records, None]
    for context in {c for c, _ in found}:
        mine = {i: found[c, i] for c, i in sorted(found) if c == context}
        best = max(mine.values(), key=lambda row: row[1])
        for row in mine.values():
            if best[1] > 0 and (row[2] - row[1]) / 2 <= max_error * best[0] / 3:
                row[6] = math.floor(min(3 * row[0] / best[0], 3) + 0.5)
    return found


def rows_of(found):
    return {(row.pop("context"), row.pop("item")): list(row.values()) for row in found.to_pylist()}


class TestRates:
    @pytest.mark.parametrize("max_error", [0.3, 1.0, 2.0])
    def test_are_those_of_loops(self, max_error):
        rows = log()
        found = rows_of(fc.judgments(rows, examination=CURVE, max_error=max_error).items)
        expected = by_loops(rows, max_error=max_error)
        assert found.keys() == expected.keys()
        for pair, row in expected.items():
            assert found[pair] == pytest.approx(row, rel=SAME), pair
        assert {row[6] for row in expected.values()} > {None}

    def test_all_grades_are_tried(self):
        grades = {row[6] for row in by_loops(log(records=9000)).values()}
        assert grades == {None, 0, 1, 2, 3}

    def test_with_a_learnt_curve_are_those_with_that_curve(self):
        rows = log(records=3000)
        curve = fc.examination(rows).curve
        learnt, given = (rows_of(fc.judgments(rows, examination=p).items) for p in (None, curve))
        assert [row[0] for row in learnt.values()] == pytest.approx(
            [row[0] for row in given.values()], rel=SAME
        )
        narrow, wide = ([row[2] - row[1] for row in each.values()] for each in (given, learnt))
        assert all(a < b for a, b in zip(narrow, wide, strict=True))

    def test_count_positions_only_down_to_where_a_curve_reaches(self):
        rows = log()
        short = {"context": rows["context"]} | {
            name: [each[:2] for each in rows[name]] for name in ("items", "clicks")
        }
        found = rows_of(fc.judgments(rows, examination=CURVE[:2]).items)
        expected = by_loops(short)
        assert [row[:5] for row in found.values()] == [
            pytest.approx(expected[pair][:5], rel=SAME) for pair in found
        ]

    @pytest.mark.parametrize("slots", [1, 300])
    def test_do_not_depend_on_the_size_of_batches(self, monkeypatch, slots):
        tally = fc.tally(fc.read_log(log(records=2000, contexts=12)))
        whole = fc.judgments(tally).items
        assert 1 < len(list(Batches(tally, slots))) <= 12
        for module in (judgments, curves):
            monkeypatch.setattr(module, "batches_of", lambda t: Batches(t, slots))
        found = fc.judgments(tally).items
        assert found.select(["context", "item", "grade"]).equals(
            whole.select(["context", "item", "grade"])
        )
        for name in ("rate", "low", "high", "examined", "clicks", "records"):
            assert np.allclose(found[name], whole[name], rtol=SAME, equal_nan=True), name

    def test_do_not_depend_on_what_else_is_in_the_log(self):
        rows = log(contexts=4)
        some = [i for i, c in enumerate(rows["context"]) if c != "q3"]
        fewer = {name: [values[i] for i in some] for name, values in rows.items()}
        both = [rows_of(fc.judgments(r, examination=CURVE).items) for r in (rows, fewer)]
        assert {pair: row for pair, row in both[0].items() if pair[0] != "q3"} == both[1]

    def test_rewards_that_are_not_clicks_have_wider_intervals(self):
        rows = log()
        ten = rows | {"clicks": [[10 * c for c in clicks] for clicks in rows["clicks"]]}
        one, many = (rows_of(fc.judgments(r, examination=CURVE).items) for r in (rows, ten))
        for pair, row in one.items():
            if row[4]:  # of no reward at all, the size is not known
                assert many[pair][:3] == pytest.approx([10 * v for v in row[:3]], rel=SAME)

    def test_positions_that_cannot_be_compared_do_not_count(self):
        rows = log(records=2000)
        for items, clicks in zip(rows["items"], rows["clicks"], strict=True):
            while len(items) < 3:
                items.append(100 + len(items))
                clicks.append(0)
            items.append(999)  # always last, and nowhere else
            clicks.append(1)
        found = fc.judgments(rows)
        rate = {i: r for (_, i), (r, *_) in rows_of(found.items).items()}
        assert rate[999] is None
        assert "3 items of contexts stood only at positions" in found.notes[-1]


class TestIntervals:
    def test_are_garwoods_where_the_exposure_is_known(self):
        clicks, exposure = np.array([0.0, 1, 7, 300]), np.array([10.0, 20, 30, 4000])
        low, high = inference.rate_intervals(clicks, exposure, np.zeros(4), 0.9)
        assert low[1:] == pytest.approx(stats.chi2.ppf(0.05, 2 * clicks[1:]) / 2 / exposure[1:])
        assert high == pytest.approx(stats.chi2.ppf(0.95, 2 * clicks + 2) / 2 / exposure)
        assert low[0] == 0

    def test_add_squares_on_the_scale_of_logs(self):
        clicks, exposure = np.array([9.0]), np.array([100.0])
        (low,), (high,) = inference.rate_intervals(clicks, exposure, np.zeros(1), 0.95)
        (lower,), (higher,) = inference.rate_intervals(clicks, exposure, np.array([0.3]), 0.95)
        assert math.log(0.09 / lower) == pytest.approx(math.hypot(math.log(0.09 / low), 0.3))
        assert math.log(higher / 0.09) == pytest.approx(math.hypot(math.log(high / 0.09), 0.3))

    @pytest.mark.parametrize(("swaps", "given"), [(False, False), (True, False), (True, True)])
    def test_hold_the_attraction(self, swaps, given):
        found = covered(12, 1000, 5, swaps=swaps, given=given)
        # About 900 intervals of 95 %, whose errors of p are shared within a log.
        assert found["covered"] > 0.93
        assert found["within"] > 0.95

    def test_of_raw_click_rates_would_not(self):
        """The world is hard enough: without p, most rates are far off."""
        rng = np.random.default_rng(5)
        attraction = rng.beta(1, 6, (10, ITEMS)) + 0.005
        table = drawn(rng, attraction, 1000, swaps=True)
        found = fc.judgments(table, examination=[1.0] * len(P)).items
        truth = attraction[np.asarray(found["context"]), np.asarray(found["item"])]
        inside = (np.asarray(found["low"]) <= truth) & (truth <= np.asarray(found["high"]))
        assert inside.mean() < 0.5


class TestResult:
    def test_counts_grades_and_says_so_first(self):
        found = fc.judgments(log(), examination=CURVE)
        grades = found.items["grade"].to_pylist()
        assert found["grade"] == ["3", "2", "1", "0", "none"]
        assert found["pairs"] == [grades.count(g) for g in (3, 2, 1, 0, None)]
        assert sum(found["records"]) == sum(len(items) for items in log()["items"])
        graded = sum(g is not None for g in grades)
        assert found.notes[0].startswith(
            f"{graded} of 15 items of contexts have a grade, in 2 of 3"
        )
        assert "not shown often enough to be within 1 grade" in found.notes[0]

    def test_records_that_count_less_are_said(self):
        rows = log() | {"day": [i % 3 for i in range(900)]}
        tally = fc.tally(fc.read_log(rows, period="day"))
        light = fc.judgments(tally.weigh(half_life=1), examination=CURVE)
        assert light.notes[-1].startswith("Some periods count less than others.")
        assert sum(light["records"]) < sum(fc.judgments(tally, examination=CURVE)["records"])

    def test_a_context_without_clicks_has_no_grades(self):
        found = rows_of(fc.judgments(log(), examination=CURVE).items)
        assert {row[6] for (context, _), row in found.items() if context == "q0"} == {None}

    def test_the_best_item_is_one_that_is_known_to_be_good(self):
        often, once = [([1], [1])] * 200 + [([1], [0])] * 300, [([2], [1])]
        items, clicks = zip(*often, *once, strict=True)
        rows = {"context": ["q"] * len(items), "items": list(items), "clicks": list(clicks)}
        found = rows_of(fc.judgments(rows, examination=[1.0]).items)
        assert [(row[0], row[6]) for row in found.values()] == [(0.4, 3), (1.0, None)]

    @pytest.mark.parametrize(
        ("options", "error", "said"),
        [
            ({"confidence": 1.0}, OptionError, "confidence=1.0"),
            ({"max_error": 0}, OptionError, "max_error=0"),
            ({"reward": "orders"}, MetricError, "orders"),
            ({"examination": "1/k"}, ModelError, "examination='1/k': give a number for each"),
            ({"examination": [1.0, -0.5, 1]}, ModelError, "must be finite and at least 0"),
        ],
    )
    def test_options_are_checked(self, options, error, said):
        with pytest.raises(error, match=said):
            fc.judgments(log(), **options)

    def test_a_log_whose_items_never_moved_asks_for_a_curve(self):
        rows = {"context": ["q"] * 50, "items": [[1, 2]] * 50, "clicks": [[1, 0], [0, 1]] * 25}
        with pytest.raises(ModelError, match="no two positions can be compared"):
            fc.judgments(rows)
        assert fc.judgments(rows, examination=[1, 0.5])["pairs"] != [0, 0, 0, 0, 2]


class TestFiles:
    @pytest.fixture
    def found(self):
        return fc.judgments(log(records=3000), examination=CURVE)

    def graded(self, found):
        return [
            (row["context"], row["item"], row["grade"])
            for row in found.items.to_pylist()
            if row["grade"] is not None
        ]

    @pytest.mark.parametrize(
        ("name", "form"), [("a.qrels", None), ("a.txt", None), ("a.x", "trec")]
    )
    def test_trec(self, found, tmp_path, name, form):
        found.write(tmp_path / name, format=form)
        lines = [line.split(" ") for line in (tmp_path / name).read_text().splitlines()]
        assert [(q, int(d), int(g)) for q, _, d, g in lines] == self.graded(found)
        assert {zero for _, zero, _, _ in lines} == {"0"}

    def test_opensearch(self, found, tmp_path):
        found.write(tmp_path / "shop.json")
        body = json.loads((tmp_path / "shop.json").read_text())
        assert (body["name"], body["type"]) == ("shop", "IMPORT_JUDGMENT")
        assert [
            (each["query"], int(rating["docId"]), int(rating["rating"]))
            for each in body["judgmentRatings"]
            for rating in each["ratings"]
        ] == self.graded(found)
        assert len(body["judgmentRatings"]) == 2

    def test_quepid(self, tmp_path):
        rows = log(records=3000)
        rows["context"] = [f'say "{c}", é' for c in rows["context"]]
        found = fc.judgments(rows, examination=CURVE)
        found.write(tmp_path / "a.csv")
        with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
            head, *lines = csv.reader(file)
        assert head == ["query", "docid", "rating"]
        assert [(q, int(d), int(g)) for q, d, g in lines] == self.graded(found)

    def test_the_whole_table(self, found, tmp_path):
        found.write(tmp_path / "a.parquet")
        assert pq.read_table(tmp_path / "a.parquet").equals(found.items)

    def test_blanks_are_refused_in_trec(self, tmp_path):
        rows = log(records=3000)
        rows["context"] = [f"red {c}" for c in rows["context"]]
        found = fc.judgments(rows, examination=CURVE)
        count = len(self.graded(found))
        message = rf"{count} judgments have a blank in the context, for example 'red q1'.*\.json"
        with pytest.raises(ReportError, match=message):
            found.write(tmp_path / "a.qrels")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("name", "form"), [("a.xlsx", None), ("a.csv", "excel"), ("no/a.csv", None)]
    )
    def test_other_files_are_refused(self, found, tmp_path, name, form):
        with pytest.raises(ReportError, match=r"cannot be written|no directory"):
            found.write(tmp_path / name, format=form)

    def test_a_log_without_contexts(self, tmp_path):
        table = pa.table(log(records=3000)).drop_columns(["context"])
        read = fc.read_log(table, context=None)
        fc.judgments(read, examination=CURVE).write(tmp_path / "a.csv")
        assert (tmp_path / "a.csv").read_text().startswith("query,docid,rating\n")
