"""What is on a chart: panels, lines, names, ticks; not how it looks, which takes eyes."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

import foreclick as fc
from foreclick.errors import ReportError
from foreclick.rendering.style import Chart
from foreclick.results import Result
from tests.answers import clipped
from tests.rendering.samples import (
    CLIPS,
    DAYS,
    ERRORS,
    VALUES,
    backtest,
    comparison,
    evaluation,
    examination,
    optimized,
    support,
)


def lines(axes: Axes, label: str) -> list[Any]:
    return [line for line in axes.lines if line.get_label() == label]


def curves(axes: Axes) -> dict[str, Any]:
    return {str(li.get_label()): li for li in axes.lines if not str(li.get_label()).startswith("_")}


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def ticks(axis: Axis) -> dict[float, str]:
    return dict(
        zip(axis.get_ticklocs(), [t.get_text() for t in axis.get_ticklabels()], strict=True)
    )


def shown(chart: Figure) -> tuple[bytes, dict[str, int]]:
    """What a notebook asks for."""
    assert isinstance(chart, Chart)
    return chart._repr_png_()


class TestBacktest:
    def test_one_panel_per_metric_and_one_line_per_estimator(self):
        chart = backtest().chart()
        assert isinstance(chart, Figure)
        assert [axes.get_title(loc="left") for axes in chart.axes] == ["clicks@3", "dcg@10"]
        for axes in chart.axes:
            assert list(curves(axes)) == list(ERRORS)
            assert {*ERRORS, "click noise"} <= set(texts(axes))

    def test_lines_go_through_the_numbers(self):
        result = backtest()
        (line,) = (li for name, li in curves(result.chart().axes[0]).items() if name == "ip")
        rows = [r for r in result if (r["estimator"], r["metric"]) == ("ip", "clicks@3")]
        finite = [r for r in rows if math.isfinite(r["clip"])]
        assert list(line.get_xdata()) == [r["clip"] for r in finite]
        assert list(line.get_ydata()) == [r["rmse"] for r in finite]

    def test_infinity_is_the_last_tick_of_a_log_axis(self):
        axes = backtest().chart().axes[0]
        assert axes.get_xscale() == "log"
        places = ticks(axes.xaxis)
        assert list(places.values()) == ["1", "10", "100", "1,000", "∞"]
        assert list(places) == sorted(places)
        assert places[max(places)] == "∞"
        assert max(places) < axes.get_xlim()[1]
        every: list[Any] = list(axes.lines)
        at_the_end = [line for line in every if list(line.get_xdata()) == [max(places)]]
        assert [line.get_marker() for line in at_the_end] == ["o", "D", "P"]

    def test_without_infinity_there_is_no_such_tick(self):
        axes = backtest(clips=(1.0, 10.0)).chart().axes[0]
        assert list(ticks(axes.xaxis).values()) == ["1", "10"]

    def test_the_floor_is_dotted_at_its_height(self):
        (level,) = lines(backtest(floor=0.05).chart().axes[0], "_level")
        assert set(level.get_ydata()) == {0.05}
        assert level.get_linestyle() == ":"

    def test_without_a_floor_there_is_none(self):
        for clips in (CLIPS, (math.inf,)):
            axes = backtest(floor=None, clips=clips).chart().axes[0]
            assert not lines(axes, "_level")
            assert "click noise" not in texts(axes)

    def test_the_winner_is_ringed_and_named(self):
        axes = backtest().chart().axes[0]
        (ring,) = lines(axes, "_winner")
        assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (100, ERRORS["ip"])
        assert "best: ip, M = 100, RMSE 0.1000" in texts(axes)

    @pytest.mark.parametrize(("worst", "scale"), [(0.19, "linear"), (0.21, "log")])
    def test_errors_are_in_powers_where_they_differ_tenfold(self, worst, scale):
        result = backtest(errors={"ip": 0.02, "list": worst / 3}, floor=0.02)
        assert result.chart().axes[0].get_yscale() == scale

    def test_names_keep_apart_where_lines_end_together(self):
        same = dict.fromkeys(("list", "ip", "item", "pbm", "rctr"), 0.1)
        axes = backtest(errors=same).chart().axes[0]
        heights = sorted(t.get_position()[1] for t in axes.texts if t.get_label() == "_name")
        assert len(heights) == 6
        assert min(b - a for a, b in pairwise(heights)) > 0.03

    def test_names_do_not_overlap_on_paper(self):
        chart = backtest(errors=dict.fromkeys(("list", "ip", "item", "pbm", "rctr"), 0.1)).chart()
        chart.canvas.draw()
        for axes in chart.axes:
            boxes = [t.get_window_extent() for t in axes.texts if t.get_label() == "_name"]
            assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
            for box in boxes:
                assert 0 <= box.x0 <= box.x1 <= chart.bbox.width

    def test_a_line_that_hides_another_is_dashed(self):
        found = curves(backtest(errors={"rctr": 0.1, "rcm": 0.1, "ip": 0.2}).chart().axes[0])
        styles = {name: line.get_linestyle() for name, line in found.items()}
        assert (styles["rctr"], styles["ip"]) == ("-", "-")
        assert styles["rcm"] == "--"

    def test_many_lines_have_a_legend(self):
        many = {f"model {i}": 0.1 + i / 100 for i in range(20)}
        chart = backtest(errors=many).chart()
        (legend,) = chart.legends
        assert [text.get_text() for text in legend.get_texts()] == list(many)
        assert "model 3" not in texts(chart.axes[0])

    def test_one_clip_is_dots_sorted_by_error(self):
        chart = backtest(clips=(math.inf,)).chart()
        for axes in chart.axes:
            assert [t.get_text() for t in axes.get_yticklabels()] == ["ip", "rctr", "list"]
            found = [(dot.get_ydata()[0], dot.get_xdata()[0]) for dot in lines(axes, "_dot")]
            assert [error for _, error in sorted(found)] == sorted(e for _, e in found)
            assert len(found) == len(ERRORS)
            top, bottom = axes.get_ylim()[::-1]
            assert top < 0 < bottom  # the first line is on top
            (level,) = lines(axes, "_level")
            assert axes.get_xlim()[0] < level.get_xdata()[0] < axes.get_xlim()[1]

    def test_estimators_with_a_clip_of_their_own_are_told_apart(self):
        one, other = backtest(clips=(5.0,)), backtest(clips=(50.0,), errors={"item": 0.1})
        mixed = fc.Backtest(one.rows + other.rows, one.columns)
        names = [t.get_text() for t in mixed.chart().axes[0].get_yticklabels()]
        assert set(names) == {"list, M = 5", "ip, M = 5", "rctr, M = 5", "item, M = 50"}

    def test_an_estimator_with_one_clip_among_others_is_a_level(self):
        own = backtest(clips=(5.0,), errors={"item": 0.2})
        axes = fc.Backtest(backtest().rows + own.rows, own.columns).chart().axes[0]
        (row, _) = own.rows
        assert list(curves(axes)["item"].get_xdata()) == [5]
        every: list[Any] = list(axes.lines)
        across = [line for line in every if set(line.get_ydata()) == {row["rmse"]}]
        assert any(list(line.get_xdata()) == [0, 1] for line in across)
        assert "item" in texts(axes)

    def test_by_period_draws_each_estimator_at_its_best_clip(self):
        chart = backtest().chart(by="period")
        assert len(chart.axes) == 2
        found = curves(chart.axes[0])
        assert list(found) == list(ERRORS)
        assert list(found["ip"].get_ydata()) == [0.1 * (1 + i / 10) for i in range(len(DAYS))]
        assert list(ticks(chart.axes[0].xaxis).values()) == [str(day) for day in DAYS]

    def test_by_period_prefers_not_to_clip(self):
        flat = backtest()
        rows = [{**row, "rmse": 0.1 * (1 + 1e-14 * i)} for i, row in enumerate(flat)]
        other = fc.Backtest(tuple(rows), flat.columns, periods=flat.periods)
        at_infinity = curves(other.chart(by="period").axes[0])["ip"].get_ydata()
        assert at_infinity[0] == pytest.approx(0.3)

    def test_other_options_are_refused(self):
        with pytest.raises(ReportError, match="'clip' or by 'period'"):
            backtest().chart(by="day")
        with pytest.raises(TypeError, match="colour"):
            backtest().chart(colour="red")
        without = fc.Backtest(backtest().rows, backtest().columns)
        with pytest.raises(ReportError, match="no periods"):
            without.chart(by="period")

    def test_of_a_real_one(self):
        rows = {
            "context": ["q"] * 12,
            "items": [[1, 2], [2, 1], [1, 3]] * 4,
            "clicks": [[1, 0], [1, 0], [0, 1]] * 4,
            "day": [1, 1, 2, 2, 3, 3] * 2,
        }
        result = fc.backtest(
            fc.read_log(rows, period="day"),
            estimators=clipped(["ladder", "list", "ip", "item", "pbm", "rctr"], [1, 2, math.inf]),
        )
        for chart in (result.chart(), result.chart(by="period")):
            chart.canvas.draw()
            assert len(chart.axes) == 2


class TestEvaluation:
    def test_dots_beside_production(self):
        chart = evaluation().chart()
        assert len(chart.axes) == 2
        for axes in chart.axes:
            assert [t.get_text() for t in axes.get_yticklabels()] == ["list", "ip", "rctr"]
            assert [dot.get_xdata()[0] for dot in lines(axes, "_dot")] == [0.3, 0.5, 0.4]
            (level,) = lines(axes, "_level")
            assert set(level.get_xdata()) == {0.4}
            assert "production" in texts(axes)
            assert "0.5000   +10.0%" in texts(axes)
            assert "50.0% covered" in texts(axes)

    def test_intervals_are_drawn_if_there_are_any(self):
        assert not lines(evaluation().chart().axes[0], "_interval")
        rows = [
            {**row, "low": row["value"] - 0.1, "high": row["value"] + 0.2} for row in evaluation()
        ]
        found = lines(fc.Evaluation(tuple(rows), tuple(rows[0])).chart().axes[0], "_interval")
        assert [list(line.get_xdata()) for line in found][1] == pytest.approx([0.4, 0.7])

    def test_no_answer_is_said(self):
        rows = [
            row | ({"value": None, "lift": None} if row["estimator"] == "list" else {})
            for row in evaluation()
        ]
        axes = fc.Evaluation(tuple(rows), tuple(rows[0])).chart().axes[0]
        assert len(lines(axes, "_dot")) == 2
        assert any(text.startswith("no answer") for text in texts(axes))

    def test_a_baseline_by_estimator_is_a_stroke_on_each_line(self):
        rows = [{**row, "production": 0.1 * (1 + i)} for i, row in enumerate(evaluation())]
        axes = fc.Evaluation(tuple(rows), tuple(rows[0])).chart().axes[0]
        assert not lines(axes, "_level")
        strokes = [line.get_xdata()[0] for line in lines(axes, "_against")]
        assert strokes == pytest.approx([0.1, 0.2, 0.3])

    def test_several_clips_are_lines(self):
        axes = evaluation(clips=(1.0, 5.0, math.inf)).chart().axes[0]
        assert list(curves(axes)) == ["list", "ip", "rctr"]
        assert axes.get_yscale() == "linear"
        assert "∞" in ticks(axes.xaxis).values()

    def test_several_clips_and_no_answer(self):
        rows = [{**row, "value": None} for row in evaluation(clips=(1.0, math.inf))]
        chart = fc.Evaluation(tuple(rows), tuple(rows[0])).chart()
        assert all("no answer" in texts(axes) for axes in chart.axes)

    def test_segments_have_panels_of_their_own(self):
        one, other = evaluation(country="DE"), evaluation(country="NL")
        chart = fc.Evaluation(one.rows + other.rows, one.columns).chart()
        titles = [axes.get_title(loc="left") for axes in chart.axes]
        assert titles == ["clicks@3 · DE", "dcg@10 · DE", "clicks@3 · NL", "dcg@10 · NL"]

    def test_too_many_panels_are_refused(self):
        rows = [row for i in range(13) for row in evaluation(country=f"c{i}")]
        with pytest.raises(ReportError, match="26 panels"):
            fc.Evaluation(tuple(rows), tuple(rows[0])).chart()

    def test_a_name_with_dollars_is_no_formula(self):
        chart = evaluation(price="$_{5 to $10").chart()
        chart.canvas.draw()
        assert chart.axes[0].get_title(loc="left") == "clicks@3 · $_{5 to $10"

    def test_a_long_name_makes_room_for_itself(self):
        rows = [{**row, "estimator": row["estimator"] * 12} for row in evaluation()]
        chart = fc.Evaluation(tuple(rows), tuple(rows[0])).chart()
        chart.canvas.draw()
        narrow = evaluation().chart()
        narrow.canvas.draw()
        assert chart.axes[0].bbox.width > 0.6 * narrow.axes[0].bbox.width


class TestComparison:
    @pytest.fixture
    def axes(self):
        (axes,) = comparison().chart().axes
        return axes

    def test_a_dot_per_pair_around_no_change(self, axes):
        names = [t.get_text() for t in axes.get_yticklabels()]
        assert names[0] == "c0 − production"
        assert len(names) == 5
        assert [dot.get_xdata()[0] for dot in lines(axes, "_dot")] == [0.3, -0.2, 0.01, 0.1]
        (level,) = lines(axes, "_level")
        assert set(level.get_xdata()) == {0}
        low, high = axes.get_xlim()
        assert low < -0.28
        assert high > 0.38

    def test_both_intervals(self, axes):
        own, joint = lines(axes, "_interval"), lines(axes, "_wider")
        assert list(own[0].get_xdata()) == pytest.approx([0.25, 0.35])
        assert list(joint[0].get_xdata()) == pytest.approx([0.22, 0.38])
        assert own[0].get_linewidth() > joint[0].get_linewidth()

    def test_verdicts_are_said_and_told_apart(self, axes):
        assert "+0.300   better" in texts(axes)
        drawn = lines(axes, "_dot")
        assert len({dot.get_color() for dot in drawn}) == len({d.get_marker() for d in drawn}) == 4
        assert any(text.startswith("no answer") for text in texts(axes))


def test_support_is_bars_of_shares():
    (axes,) = support().chart().axes
    whole, share = axes.containers
    assert [bar.get_width() for bar in whole] == [1, 1]
    assert [bar.get_width() for bar in share] == [0.5, 1]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["list", "item"]
    assert {"50.0%", "100%"} <= set(texts(axes))


class TestExamination:
    def test_a_line_with_its_intervals_the_second_opinion_and_one_over_k(self):
        (axes,) = examination().chart().axes
        (line,) = lines(axes, "_curve")
        assert [round(y, 2) for y in line.get_ydata()[:3]] == [1, 0.5, 0.4]
        assert math.isnan(line.get_ydata()[3])  # a gap, where the log cannot tell
        (rings,) = lines(axes, "_second")
        assert list(rings.get_ydata()[:3]) == [1, 0.55, 0.45]
        (usual,) = lines(axes, "_level")
        assert list(usual.get_ydata()) == [1, 1 / 2, 1 / 3, 1 / 4]
        assert "1/k" in texts(axes)
        assert list(ticks(axes.xaxis).values()) == ["1", "2", "3", "4"]
        assert axes.get_ylim()[0] == 0

    def test_segments_have_a_line_each_and_slots_their_names(self):
        (axes,) = examination(segments=("phone", "desktop"), name="slot").chart(title="All").axes
        assert set(curves(axes)) == {"phone", "desktop"}
        assert {"phone", "desktop"} <= set(texts(axes))
        assert not lines(axes, "_level")
        assert axes.get_xlabel() == "slot"

    def test_many_segments_have_a_legend(self):
        chart = examination(segments=[f"s{i}" for i in range(20)]).chart()
        assert len(chart.legends) == 1


class TestOptimized:
    def test_dots_of_production_the_naive_and_the_honest_value(self):
        axes, _ = optimized().chart().axes
        names = [t.get_text() for t in axes.get_yticklabels()]
        assert names == ["production", "naive", "honest"]
        assert [dot.get_xdata()[0] for dot in lines(axes, "_dot")] == [0.5, 0.6, 0.55]
        (interval,) = lines(axes, "_interval")
        assert list(interval.get_xdata()) == [0.52, 0.58]
        (level,) = lines(axes, "_level")
        assert set(level.get_xdata()) == {0.5}
        said = {"0.5000", "0.6000   +20.0%", "0.5500   +10.0%   better"}
        assert said | {"+6.00% to +14.0%, 90.0% covered"} <= set(texts(axes))
        assert axes.get_xlabel() == "clicks@3 per list"

    def test_the_gain_grows_over_contexts_to_all_of_it(self):
        _, axes = optimized().chart().axes
        (line,) = lines(axes, "_growing")
        assert list(line.get_xdata()) == [0, 1, 4]
        assert list(line.get_ydata()) == pytest.approx([0, 0.6, 1])
        (rest,) = lines(axes, "_rest")
        assert list(rest.get_xdata()) == [4, 8]
        assert set(rest.get_ydata()) == {1}
        (mark,) = lines(axes, "_mark")
        assert (mark.get_xdata()[0], mark.get_ydata()[0]) == pytest.approx((1, 0.6))
        assert "half of it: 1 of 8 contexts, 40.0% of the records" in texts(axes)
        assert axes.get_xlabel() == "contexts by gain: 4 changed, 4 kept"
        assert axes.get_xscale() == "linear"

    def test_many_contexts_are_in_powers_and_rows_are_even_inside(self):
        rows = [(10, 10, 10.0, 0.5), (30, 30, 30.0, 0.5), (9960, 0, 100.0, 0.0)]
        _, axes = optimized(rows).chart().axes
        assert axes.get_xscale() == "log"
        (line,) = lines(axes, "_growing")
        drawn = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
        assert [drawn[x] for x in (1, 5, 10, 40)] == pytest.approx([0.05, 0.25, 0.5, 1])
        assert axes.get_xlim() == (1, 10_000)

    def test_what_may_lose_adds_nothing_and_is_said(self):
        _, axes = optimized([(1, 1, 10.0, 0.03), (2, 2, 10.0, -0.5)]).chart().axes
        (line,) = lines(axes, "_growing")
        assert list(line.get_xdata()) == [0, 1]
        assert axes.get_xlabel() == "contexts by gain: 1 gain, 2 may lose"
        assert axes.get_ylim()[0] == 0

    def test_one_context_has_no_second_panel(self):
        (axes,) = optimized([(1, 1, 10.0, 0.03)]).chart().axes
        assert len(lines(axes, "_dot")) == 3

    def test_nothing_changed_is_said(self):
        same: dict[str, Any] = {"value": 0.5, "naive": 0.5}
        (axes,) = optimized([(3, 0, 10.0, 0.0)], judged=False, **same).chart().axes
        assert "nothing is changed: production stays everywhere" in texts(axes)
        assert [dot.get_xdata()[0] for dot in lines(axes, "_dot")] == [0.5, 0.5, 0.5]

    def test_without_an_honest_value_the_naive_one_is_not_taken_for_it(self):
        axes, _ = optimized(judged=False).chart().axes
        assert [dot.get_xdata()[0] for dot in lines(axes, "_dot")] == [0.5, 0.6]
        assert "not judged by records of its own" in texts(axes)
        assert not lines(axes, "_interval")

    def test_production_that_earns_nothing_has_no_lift(self):
        axes, _ = optimized(production=0.0, lift_low=None, lift_high=None).chart().axes
        assert {"0", "0.6000", "0.5500   better"} <= set(texts(axes))

    def test_an_answer_of_no_value_is_said(self):
        none: dict[str, Any] = dict.fromkeys(
            ("value", "low", "high", "lift_low", "lift_high", "verdict")
        )
        axes, _ = optimized(**none).chart().axes
        assert len(lines(axes, "_dot")) == 2
        assert any(text.startswith("no answer") for text in texts(axes))

    def test_letters_stay_on_the_paper(self):
        counts = [(400_000, 400_000, 4e6, 0.5), (900_000, 900_000, 9e6, 0.4), (10**6, 0, 1e6, 0)]
        chart = optimized(counts, verdict="no difference", covered=0.9995).chart()
        chart.canvas.draw()
        for axes in chart.axes:
            for text in (*axes.texts, axes.xaxis.label):
                box = text.get_window_extent()
                assert 0 <= box.x0 <= box.x1 <= chart.bbox.width, text.get_text()


@pytest.mark.parametrize(
    "make", [backtest, comparison, evaluation, examination, optimized, support]
)
def test_a_title_stands_above(make):
    assert make().chart(title="Candidate B").get_suptitle() == "Candidate B"
    assert make().chart().get_suptitle() == ""


def test_a_result_without_a_chart_says_so():
    with pytest.raises(ReportError, match="Result has no chart; these have: Backtest, Comparison"):
        Result(({"value": 1.0},), ("value",)).chart()
    with pytest.raises(ReportError, match="no rows"):
        fc.Support((), support().columns).chart()


def test_nothing_of_matplotlib_is_changed():
    import matplotlib.pyplot as plt  # noqa: PLC0415

    with mpl.rc_context({"font.size": 33, "axes.facecolor": "black", "backend": "svg"}):
        before = dict(mpl.rcParams)
        chart = backtest().chart()
        shown(chart)
        assert dict(mpl.rcParams) == before
        assert chart.axes[0].get_facecolor() == (1, 1, 1, 1)
        assert plt.get_fignums() == []


def test_a_notebook_shows_twice_the_pixels():
    chart = backtest().chart()
    data, size = shown(chart)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(data[i : i + 4]) for i in (16, 20))
    assert (width, height) == (2 * size["width"], 2 * size["height"])


def test_samples_have_the_columns_that_charts_read():
    assert set(VALUES) <= set(evaluation().columns)
