"""If this fails, a chart shows other numbers than its result, or under another name."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

import foreclick as fc
from foreclick.questions.backtest import Backtest
from foreclick.questions.compare import Comparison
from foreclick.rendering.drawing import (
    COLOURS,
    SERIES,
    Line,
    LineChart,
    RowChart,
    Scale,
    Span,
    interval,
)
from foreclick.rendering.files import plot
from foreclick.results import Result
from tests.rendering.samples import backtest, comparison, evaluation, examination, of_rows, support

EVERY = [backtest, comparison, evaluation, examination, support]


def rows_of(result: Result) -> RowChart:
    part = plot(result).parts[0]
    assert isinstance(part, RowChart)
    return part


def plot_of(result: Result, number: int = 0) -> LineChart:
    part = plot(result).parts[number]
    assert isinstance(part, LineChart)
    return part


def values(chart: RowChart) -> list[list[float]]:
    return [[span.value for span in row.spans] for row in chart.rows]


def said(chart: RowChart) -> list[str]:
    return [text for row in chart.rows for cell in row.cells for text in cell if text]


class TestBacktest:
    def test_one_clip_is_dots_sorted_by_error(self):
        chart = rows_of(backtest())
        assert [row.name for row in chart.rows] == ["ip", "list", "rctr"]  # to be beaten: last
        assert chart.levels[0] == (0.05, "level")
        assert [span for (span,) in values(chart)] == pytest.approx([0.3, 0.9, 0.6])

    def test_several_clips_are_lines_and_rctr_is_dashed(self):
        rows = backtest(clips=(100.0, 1.0, math.inf)).rows
        result = of_rows(
            Backtest, (r for r in rows if r["estimator"] != "rctr" or r["clip"] == math.inf)
        )
        titles = [part.title for part in plot(result).parts]
        assert titles == ["Backtest of clicks@3", "Backtest of dcg@10"]
        dcg = plot_of(result, 1)
        assert list(dcg.places) == ["1", "100", "∞"]
        assert dcg.head == ("clip M", "error (RMSE, logarithmic scale)")
        lines = {line.name: line for line in dcg.lines}
        assert list(lines) == ["list", "ip", "rctr", "(chance alone)"]
        assert list(lines["ip"].ys) == pytest.approx([0.3, 0.1, 0.3])
        assert list(lines["rctr"].ys) == pytest.approx([0.6] * 3)  # it has no M: flat
        assert list(lines["(chance alone)"].ys) == [0.05] * 3
        assert lines["rctr"].look.split()[0] == "dashed"
        assert "dashed" not in lines["ip"].look
        svg = result.plot().svg()
        assert svg.count("stroke-dasharray") == 2 * (2 + 1)  # steps of the line, and its legend

    def test_errors_of_nothing_have_no_logarithm(self):
        exact = plot_of(backtest(clips=(1.0, 10.0), errors={"ip": 0.0, "list": 0.3}))
        assert exact.zero
        assert not exact.log
        marks = {mark.y for mark in exact.plot() if mark.kind == "dot"}
        assert max(marks) == pytest.approx(200 - 24)


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
        chart = rows_of(of_rows(fc.Evaluation, rows, answering="ip"))
        assert values(chart) == [[0.5], [], [0.4]]
        assert "saw next to nothing" in said(chart)

    def test_segments_are_rows_of_one_chart(self):
        one, other = evaluation(country="DE"), evaluation(country="NL")
        result = replace(one, rows=one.rows + other.rows)
        assert [row.name for row in rows_of(result).rows] == ["DE", "NL"]
        titles = [part.title for part in plot(result).parts]
        assert titles == ["clicks@3 by country", "dcg@10 by country"]


def test_a_comparison_has_the_lift_and_the_verdict_of_every_pair():
    chart = rows_of(comparison())
    assert chart.rows[0].name == "c0 − production"
    assert chart.levels == [(0.0, "level")]
    assert chart.rows[0].spans[0][:3] == pytest.approx((0.6, 0.4, 0.8))
    assert {"+60.0%", "better"} <= set(said(chart))
    assert len({row.spans[0].look for row in chart.rows if row.spans}) == 4
    assert chart.rows[4].spans == ()
    absolute = rows_of(of_rows(Comparison, [row | {"lift": None} for row in comparison()]))
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
    chart = plot_of(examination(segments=("phone", "desktop")))
    assert [line.name for line in chart.lines] == ["phone", "desktop"]


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


@pytest.mark.parametrize("count", [1, 2, 12, 13, 20, 27, 100])
def test_at_most_twelve_places_have_their_name_below(count):
    places = [str(place) for place in range(count)]
    line = Line("ip", [float(place + 1) for place in range(count)], "one")
    marks = LineChart("", ("M", "error"), places, [line]).plot()
    named = [mark for mark in marks if mark.kind == "text" and mark.y == 194]
    assert [named[0].text, named[-1].text] == [places[0], places[-1]]
    assert len(named) == count if count <= 12 else 6 < len(named) <= 12
    gaps = [after.x - before.x for before, after in itertools.pairwise(named)]
    assert min(gaps, default=1) > max(gaps, default=1) / 2.1


@pytest.mark.parametrize(
    ("ys", "named"),
    [
        ((0.01, 0.1, 1.0), ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]),
        ((0.52, 0.76), ["0.6", "0.7"]),
        ((0.3, 0.31), ["0.3", "0.305", "0.31"]),
    ],
)
def test_a_logarithmic_scale_shows_ratios_and_has_numbers_where_it_is_short(ys, named):
    places = [str(place) for place in range(len(ys))]
    marks = LineChart("", ("M", "error"), places, [Line("ip", ys, "one")], log=True).plot()
    assert [mark.text for mark in marks if mark.look == "start soft"] == named
    heights = [mark.y for mark in marks if mark.kind == "dot"]
    steps = [before - after for before, after in itertools.pairwise(heights)]
    assert steps == pytest.approx([steps[0]] * len(steps))
    assert steps[0] > 0


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
