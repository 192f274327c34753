"""What is on a chart: rows, lines, names, numbers; not how it looks, which takes eyes."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import Any

import pytest

import foreclick as fc
from foreclick.errors import ReportError
from foreclick.questions.compare import Comparison
from foreclick.questions.support import Support
from foreclick.rendering.drawing import COLOURS, SERIES, LineChart, RowChart, Scale, Span, interval
from foreclick.results import Result
from tests.rendering.samples import (
    ERRORS,
    backtest,
    comparison,
    evaluation,
    examination,
    optimized,
    support,
)

EVERY = [backtest, comparison, evaluation, examination, optimized, support]


def rows_of(result: Result, number: int = 0) -> RowChart:
    part = result.plot().parts[number]
    assert isinstance(part, RowChart)
    return part


def plot_of(result: Result, number: int = 0) -> LineChart:
    part = result.plot().parts[number]
    assert isinstance(part, LineChart)
    return part


def values(chart: RowChart) -> list[list[float]]:
    return [[span.value for span in row.spans] for row in chart.rows]


def said(chart: RowChart) -> list[str]:
    return [text for row in chart.rows for cell in row.cells for text in cell if text]


class TestBacktest:
    def test_one_part_per_metric_and_one_line_per_estimator_over_m(self):
        result = backtest()
        assert [part.title for part in result.plot().parts] == ["clicks@3", "dcg@10"]
        chart = plot_of(result)
        assert [line.name for line in chart.lines] == list(ERRORS)
        assert list(chart.places) == ["1", "10", "100", "1,000", "∞"]
        rows = [r for r in result if (r["estimator"], r["metric"]) == ("ip", "clicks@3")]
        assert list(chart.lines[1].ys) == [row["rmse"] for row in rows]
        assert chart.remark == "best: ip, M = 100, RMSE 0.1000"
        assert chart.levels == [(0.05, "click noise")]
        assert backtest(floor=None).plot().parts[0].levels == []

    @pytest.mark.parametrize(("worst", "log"), [(0.19, False), (0.21, True)])
    def test_errors_are_in_powers_where_they_differ_tenfold(self, worst, log):
        assert plot_of(backtest(errors={"ip": 0.02, "list": worst / 3})).log == log

    def test_one_clip_is_dots_sorted_by_error(self):
        chart = rows_of(backtest(clips=(math.inf,)))
        assert [row.name for row in chart.rows] == ["ip", "list", "rctr"]  # to be beaten: last
        assert chart.levels[0] == (0.05, "level")
        assert [span for (span,) in values(chart)] == pytest.approx([0.3, 0.9, 0.6])


class TestEvaluation:
    def test_dots_against_production_the_answer_first(self):
        chart = rows_of(evaluation())
        assert [row.name for row in chart.rows] == ["ip", "list", "rctr"]
        assert chart.rows[0].strong
        assert values(chart) == [[0.5], [0.3], [0.4]]
        assert chart.levels == [(0.4, "level")]
        assert {"0.5000", "+10.0%", "50.0%"} <= set(said(chart))

    def test_no_answer_is_said(self):
        rows = [
            row | ({"value": None, "lift": None} if row["estimator"] == "list" else {})
            for row in evaluation()
        ]
        chart = rows_of(fc.Evaluation(tuple(rows), tuple(rows[0])))
        assert values(chart) == [[0.5], [], [0.4]]
        assert "saw next to nothing" in said(chart)

    def test_several_clips_are_lines(self):
        chart = plot_of(evaluation(clips=(1.0, 5.0, math.inf)))
        assert [line.name for line in chart.lines] == ["list", "ip", "rctr"]
        assert chart.places[-1] == "∞"
        none = [{**row, "value": None} for row in evaluation(clips=(1.0, math.inf))]
        assert "<svg" in fc.Evaluation(tuple(none), tuple(none[0])).plot().svg()

    def test_segments_are_rows_of_one_chart(self):
        one, other = evaluation(country="DE"), evaluation(country="NL")
        result = fc.Evaluation(one.rows + other.rows, one.columns)
        assert [row.name for row in rows_of(result).rows] == ["DE", "NL"]
        assert [part.title for part in result.plot().parts] == [
            "clicks@3 by country",
            "dcg@10 by country",
        ]


def test_a_comparison_has_the_lift_and_the_verdict_of_every_pair():
    chart = rows_of(comparison())
    assert chart.rows[0].name == "c0 − production"
    assert chart.levels == [(0.0, "level")]
    assert chart.rows[0].spans[0][:3] == pytest.approx((0.6, 0.4, 0.8))
    assert {"+60.0%", "better"} <= set(said(chart))
    assert len({row.spans[0].look for row in chart.rows if row.spans}) == 4
    assert chart.rows[4].spans == ()
    rows = [row | {"lift": None} for row in comparison()]
    absolute = rows_of(Comparison(tuple(rows), tuple(rows[0])))
    assert absolute.rows[0].spans[0][:3] == pytest.approx((0.3, 0.22, 0.38))


def test_support_is_bars_of_shares():
    chart = rows_of(support())
    assert chart.bars
    assert values(chart) == [[0.5], [1.0]]
    assert said(chart) == ["50.0%", "100%"]
    widths = [mark.x2 for row in chart.rows for mark in chart.strip(row)]
    assert widths == [100, 50, 100, 100]


def test_examination_is_a_line_with_intervals_and_1_over_k():
    usual, line = plot_of(examination()).lines
    assert list(line.ys) == [1, 0.5, 0.4, None]
    assert list(line.lows) == [1, 0.45, 0.3, None]
    assert list(usual.ys) == [1, 1 / 2, 1 / 3, 1 / 4]
    chart = plot_of(examination(segments=("phone", "desktop"), name="slot"))
    assert [line.name for line in chart.lines] == ["phone", "desktop"]
    assert chart.head == ("slot", "examination")


class TestOptimized:
    def test_dots_of_production_the_naive_and_the_honest_value(self):
        chart = rows_of(optimized())
        assert [row.name for row in chart.rows] == ["production", "naive", "honest"]
        assert values(chart) == [[0.5], [0.6], [0.55]]
        assert chart.rows[2].spans[0][:3] == (0.55, 0.52, 0.58)
        expected = {"0.5000", "0.6000   +20.0%", "0.5500   +10.0%", "+6.00% to +14.0%", "better"}
        assert expected == set(said(chart))
        assert chart.remark == "half of the sure gain: 1 of 8 contexts"

    def test_what_cannot_be_said_is_not_drawn(self):
        same: dict[str, Any] = {"value": 0.5, "naive": 0.5}
        unchanged = rows_of(optimized([(3, 0, 10.0, 0.0)], judged=False, **same))
        assert unchanged.remark == "nothing is changed: production stays everywhere"
        assert values(unchanged) == [[0.5], [0.5], [0.5]]
        unjudged = rows_of(optimized(judged=False))
        assert values(unjudged) == [[0.5], [0.6], []]
        assert "not judged by records of its own" in said(unjudged)
        none: dict[str, Any] = dict.fromkeys(
            ("value", "low", "high", "lift_low", "lift_high", "verdict")
        )
        assert any(text.startswith("no answer") for text in said(rows_of(optimized(**none))))


@pytest.mark.parametrize("make", EVERY)
def test_a_notebook_shows_svg_within_its_frame(make):
    chart = make().plot(title="Candidate <B>")
    drawn = ET.fromstring(chart._repr_svg_())  # noqa: S314 - our own
    texts = ["".join(text.itertext()) for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "Candidate <B>"
    marks, height = chart.layout()
    assert float(drawn.attrib["height"]) == pytest.approx(height, abs=1)
    for mark in marks:
        assert -1 <= mark.x <= 101
        assert 0 <= mark.y <= height
    assert "Candidate" not in make().plot().svg()
    assert repr(chart).startswith("<a chart of ")


def test_a_result_without_a_chart_says_so():
    with pytest.raises(ReportError, match="Result has no chart; these have: Backtest, Comparison"):
        Result(({"value": 1.0},), ("value",)).plot()
    with pytest.raises(ReportError, match="no rows"):
        Support((), support().columns).plot()


def test_what_is_beyond_the_scale_is_an_arrow():
    scale = Scale(0.0, 1.0)
    shapes = [mark.shape for mark in interval(scale, Span(0.5, -1.0, 2.0)) if mark.kind == "dot"]
    assert shapes == ["left", "right", "circle"]
    assert [m.shape for m in interval(scale, Span(3.0)) if m.kind == "dot"] == ["right"]


def test_colours_differ_and_are_dark_enough_on_white():
    assert len({COLOURS[name] for name in SERIES}) == len(SERIES)
    for name in (*SERIES, "good", "bad", "even", "ink", "soft"):
        parts = [int(COLOURS[name][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        brightness = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2]
        assert 1.05 / (brightness + 0.05) >= 4.5, name
