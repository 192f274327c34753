"""Which chart a result has: the paper's figures for a backtest, dots and bars for the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from foreclick.errors import ReportError
from foreclick.optimization.result import Optimized
from foreclick.planning.explore import Explored
from foreclick.questions.backtest import Backtest
from foreclick.questions.compare import Comparison
from foreclick.questions.evaluate import Evaluation
from foreclick.questions.examination import Examination
from foreclick.questions.replay import Replay
from foreclick.questions.support import Support
from foreclick.rendering.curves import (
    Clips,
    Curve,
    Level,
    Rows,
    name_lines,
    over_clips,
    over_level,
    over_periods,
    over_places,
    ring,
    scale_y,
)
from foreclick.rendering.dots import Dot, bars, dots, upright
from foreclick.rendering.optimized import optimized
from foreclick.rendering.replayed import replayed
from foreclick.rendering.style import (
    MOST_NAMES,
    VERDICTS,
    Chart,
    Look,
    head,
    legend_below,
    looks,
    panels,
    room,
    styled,
)
from foreclick.results import Result, format_value

Row = Mapping[str, Any]
Key = tuple[str, ...]

_COLUMNS = 3  # panels side by side
_ROUNDING = 1e-9  # numbers that differ by less are the same
_HEAD, _SIDES = 0.75, 1.3  # inches of a panel that titles, axes and names take


def draw(result: Result, **options: Any) -> Chart:  # noqa: ANN401 - those of the result's chart
    """The chart of a result; `Result.chart` says which there are."""
    for kind, chart in CHARTS.items():
        if isinstance(result, kind):
            if not result.rows:
                raise ReportError("the result has no rows, so there is nothing to draw.")
            with styled():
                return chart(result, **options)
    named = ", ".join(f"{kind.__name__}" for kind in CHARTS)
    raise ReportError(
        f"{type(result).__name__} has no chart; these have: {named}. Save it as .html, .csv, .json "
        "or .parquet."
    )


# --- backtest -----------------------------------------------------------------------------------


def backtest(result: Backtest, *, by: str = "clip", title: str = "") -> Chart:
    """RMSE by M, or by period.

    Args:
        result: a backtest.
        by: "clip" for one line per estimator over M (dots where each has one M only), "period" for
            each estimator at its best M over the held-out periods.
        title: a line above the panels.
    """
    parts = _parts(result, ("metric",))
    if by == "period":
        return _by_period(result, parts, title)
    if by != "clip":
        raise ReportError(f"by={by!r}: a backtest is drawn by 'clip' or by 'period'.")
    if _several_clips(result.rows):
        return _curves(parts, ("rmse", "RMSE"), ("floor", "click noise"), title, best=min)
    return _ranked(parts, title)


def _ranked(parts: dict[Key, Rows], title: str) -> Chart:
    """Estimators sorted by RMSE."""
    tallest = max(len(rows) for rows in parts.values())
    chart, axes = _grid(parts, width=3.6, height=1.05 + 0.27 * tallest, title=title)
    for panel, (key, rows) in zip(axes, parts.items(), strict=True):
        look, name = looks(row["estimator"] for row in rows), _namer(rows)
        ranked = sorted(rows, key=lambda row: float(row["rmse"]))
        entries = [
            Dot(
                name(row),
                row["rmse"],
                look[row["estimator"]],
                (format_value("rmse", row["rmse"]), ""),
            )
            for row in ranked
        ]
        dots(panel, entries, winner=0 if len(entries) > 1 else None)
        floor = ranked[0]["floor"]
        if floor is not None:
            panel.plot(floor, 0, alpha=0)  # so that the axis reaches it
            upright(panel, floor, "click noise")
        head(panel, _title(key))
        panel.set_xlabel("RMSE")
    return chart


def _by_period(result: Backtest, parts: dict[Key, Rows], title: str) -> Chart:
    if result.periods is None:
        raise ReportError("this backtest holds no periods. Run it again with fc.backtest.")
    width, height = 7.4, 2.4
    chart, axes = panels(len(parts), columns=1, width=width, height=height, title=title)
    size = (width - _SIDES, height - _HEAD)
    for panel, (key, rows) in zip(axes, parts.items(), strict=True):
        best = _best(rows)
        look, name = looks(best), _namer(list(best.values()))
        mine = [row for row in result.periods.rows if row["metric"] == key[0]]
        periods = list(dict.fromkeys(row["period"] for row in mine))
        curves, floors = [], []
        for estimator, row in best.items():
            series = [r for r in mine if (r["estimator"], r["clip"]) == (estimator, row["clip"])]
            errors = tuple(_number(r["rmse"]) for r in series)
            places = tuple(float(periods.index(r["period"])) for r in series)
            curves.append(Curve(name(row), places, errors, look[estimator]))
            floors = [_number(r["floor"]) for r in series]
        known = not any(math.isnan(floor) for floor in floors)
        levels = [Level("click noise", tuple(floors))] if known else []
        over_periods(panel, curves, periods, levels)
        scale_y(panel, curves, levels)
        name_lines(panel, curves, levels, size, len(periods) - 1.0)
        said = panel is axes[0] and _several_clips(rows)
        head(panel, _title(key), "each estimator at its best M" if said else "")
        panel.set_ylabel("RMSE")
    axes[-1].set_xlabel("held-out period")
    _many(chart, parts)
    return chart


# --- evaluation and support ---------------------------------------------------------------------


def evaluation(result: Evaluation, *, title: str = "") -> Chart:
    """The value by each estimator beside production's; over M where there are several.

    Args:
        result: an evaluation.
        title: a line above the panels.
    """
    parts = _parts(result, ("metric", *_segments(result, "clip", "value")))
    if _several_clips(result.rows):
        return _curves(parts, ("value", "value"), ("production", "production"), title)
    tallest = max(len(rows) for rows in parts.values())
    chart, axes = _grid(parts, width=4.3, height=1.05 + 0.31 * tallest, title=title)
    for panel, (key, rows) in zip(axes, parts.items(), strict=True):
        look, name = looks(row["estimator"] for row in rows), _namer(rows)
        shared = _shared(rows, "production")
        entries = [
            Dot(
                name(row),
                row["value"],
                look[row["estimator"]],
                _verdict(row),
                row.get("low"),
                row.get("high"),
                None if shared is not None else row["production"],
            )
            for row in rows
        ]
        dots(panel, entries)
        if shared is not None:
            panel.plot(shared, 0, alpha=0)
            upright(panel, shared, "production")
        head(panel, _title(key), "" if shared is not None else "grey strokes: production")
        panel.set_xlabel(f"{key[0]} per list")
    return chart


def _verdict(row: Row) -> tuple[str, str]:
    if row["value"] is None:
        return "no answer: nothing of it was ever shown", ""
    number = format_value("value", row["value"])
    if row["lift"] is not None:
        number += f"   {format_value('lift', row['lift'])}"
    covered = format_value("covered", row["covered"])
    return number, "" if covered == "100%" else f"{covered} covered"


def support(result: Support, *, title: str = "") -> Chart:
    """The covered share of the candidate's exposure, by click model.

    Args:
        result: a support.
        title: a line above the panels.
    """
    parts = _parts(result, ("metric", *_segments(result, "metric", "covered")))
    tallest = max(len(rows) for rows in parts.values())
    chart, axes = _grid(parts, width=3.5, height=0.9 + 0.27 * tallest, title=title)
    for panel, (key, rows) in zip(axes, parts.items(), strict=True):
        shares = [_number(row["covered"]) for row in rows]
        words = [format_value("covered", share) for share in shares]
        bars(panel, [row["estimator"] for row in rows], shares, words)
        head(panel, _title(key))
        panel.set_xlabel("of the candidate's exposure, ever logged")
    return chart


def explored(result: Explored, *, title: str = "") -> Chart:
    """How much of its traffic each context should show the candidate.

    Args:
        result: what to show next.
        title: a line above the panel.
    """
    names = [format_value("context", context) for context in result["context"]]
    shares = [_number(share) for share in result["share"]]
    width, height = 3.5 + room(names), 1.15 + 0.27 * len(names)
    chart, (axes,) = panels(1, columns=1, width=width, height=height, title=title)
    bars(axes, names, shares, [format_value("share", share) for share in shares])
    head(axes, "", f"{format_value('share', result.share)} of all traffic")
    axes.set_xlabel("of its traffic, shown the candidate")
    return chart


def comparison(result: Comparison, *, title: str = "") -> Chart:
    """The change of every pair, with its interval and the wider one that holds for all together.

    Args:
        result: a comparison.
        title: a line above the panel.
    """
    names = [
        " − ".join(format_value(name, row[name]) for name in ("candidate", "against"))
        for row in result.rows
    ]
    width, height = 5.4 + room(names), 1.15 + 0.27 * len(names)
    chart, (axes,) = panels(1, columns=1, width=width, height=height, title=title)
    entries = [_pair(name, row) for name, row in zip(names, result.rows, strict=True)]
    axes.plot(0, 0, alpha=0)  # so that the axis reaches it
    dots(axes, entries)
    upright(axes, 0, "no change")
    head(axes, "", "thick: each interval by itself; thin: all of them together")
    axes.set_xlabel("change per list")
    return chart


def _pair(name: str, row: Row) -> Dot:
    look = VERDICTS[row["verdict"]]
    if row["change"] is None:
        return Dot(name, None, look, ("no answer: nothing of it was ever shown", ""))
    words = f"{format_value('change', row['change'])}   {row['verdict']}"
    joint = row["all_low"], row["all_high"]
    return Dot(name, row["change"], look, (words, ""), row["low"], row["high"], wider=joint)


def examination(result: Examination, *, title: str = "") -> Chart:
    """How much each position is looked at: a line per segment, with intervals.

    Args:
        result: an examination.
        title: a line above the panel.
    """
    at = result.columns.index("examination") - 1
    name, by = result.columns[at], result.columns[:at]
    lines = _by_segment(result.rows, by)
    labels = list(dict.fromkeys(row[name] for row in result.rows))
    look = looks(lines if by else ["ip"])
    curves, second, ends = [], [], []
    for line, rows in lines.items():
        places = tuple(float(labels.index(row[name])) for row in rows)
        mine = look[line] if by else look["ip"]
        curves.append(Curve(line, places, _column(rows, "examination"), mine))
        second.append(_column(rows, "allpairs"))
        ends.append((_column(rows, "low"), _column(rows, "high")))
    width, height = max(4.6, 1.8 + 0.36 * len(labels)) + room(lines), 2.9
    chart, (axes,) = panels(1, columns=1, width=width, height=height, title=title)
    usual = name == "position" and not by
    levels = [Level("1/k", tuple(1 / (k + 1) for k in range(len(labels))))] if usual else []
    over_places(axes, curves, ends, second, labels)
    over_level(axes, levels)
    name_lines(
        axes, curves if by else [], levels, (width - _SIDES, height - _HEAD), len(labels) - 1
    )
    head(axes, "", "lines: maximum likelihood; rings: AllPairs")
    axes.set_ylabel("examination")
    axes.set_xlabel(name)
    if len(curves) > MOST_NAMES:
        legend_below(chart, len(curves))
    return chart


def _by_segment(rows: Rows, by: Sequence[str]) -> dict[str, Rows]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(" · ".join(format_value(b, row[b]) for b in by), []).append(row)
    return dict(found)


def _column(rows: Rows, column: str) -> tuple[float, ...]:
    return tuple(_number(row[column]) for row in rows)


# --- by period, whatever it is ------------------------------------------------------------------


# --- what charts share --------------------------------------------------------------------------


def _curves(
    parts: dict[Key, Rows],
    column: tuple[str, str],
    against: tuple[str, str],
    title: str,
    best: Callable[..., Row] | None = None,
) -> Chart:
    """One panel per part, one line per estimator over M.

    Args:
        parts: the rows of each panel.
        column: what is drawn, and its name.
        against: the column it is read against, and its name.
        title: a line above the panels.
        best: min or max, where the best of all is to be marked.
    """
    width, height = 3.7, 2.9
    chart, axes = _grid(parts, width=width, height=height, title=title)
    size = (width - _SIDES, height - _HEAD)
    for panel, (key, all_rows) in zip(axes, parts.items(), strict=True):
        rows = [row for row in all_rows if row[column[0]] is not None]
        if not rows:
            head(panel, _title(key), "no answer")
            continue
        place = Clips([row["clip"] for row in rows])
        curves = _curves_of(rows, column[0], looks(row["estimator"] for row in all_rows))
        level = _shared(rows, against[0])
        levels = [] if level is None else [Level(against[1], (level,))]
        over_clips(panel, curves, place, levels)
        # Errors are compared by their ratio, values by their difference.
        scale_y(panel, curves, levels, powers=best is not None)
        remark = ""
        if best is not None:
            won = best(rows, key=lambda row: row[column[0]])
            remark = f"best: {_at(won)}, {column[1]} {format_value(column[0], won[column[0]])}"
            ring(panel, place(won["clip"]), won[column[0]])
        head(panel, _title(key), remark)
        panel.set_ylabel(column[1])
        end = max(place(row["clip"]) for row in rows)
        name_lines(panel, curves, levels, size, end)
    _many(chart, parts)
    return chart


def _curves_of(rows: Rows, column: str, look: dict[str, Look]) -> list[Curve]:
    curves = []
    for name in dict.fromkeys(row["estimator"] for row in rows):
        mine = sorted((r for r in rows if r["estimator"] == name), key=lambda row: row["clip"])
        xs, ys = (tuple(_number(row[c]) for row in mine) for c in ("clip", column))
        curves.append(Curve(name, xs, ys, look[name]))
    return curves


def _many(chart: Chart, parts: dict[Key, Rows]) -> None:
    """A legend, where there are too many lines to name each at its end."""
    most = max(len({row["estimator"] for row in rows}) for rows in parts.values())
    if most > MOST_NAMES:
        legend_below(chart, most)


def _grid(
    parts: dict[Key, Rows], *, width: float, height: float, title: str
) -> tuple[Chart, list[Axes]]:
    metrics = len(dict.fromkeys(key[0] for key in parts))
    columns = min(_COLUMNS, metrics if metrics > 1 else len(parts))
    wide = width + room(str(row["estimator"]) for rows in parts.values() for row in rows)
    return panels(len(parts), columns=columns, width=wide, height=height, title=title)


def _parts(result: Result, columns: tuple[str, ...]) -> dict[Key, Rows]:
    """The rows of each panel; panels of one segment stand side by side."""
    found: dict[Key, list[Row]] = {}
    for row in result.rows:
        key = tuple(format_value(name, row[name]) for name in columns)
        found.setdefault(key, []).append(row)
    segments = list(dict.fromkeys(key[1:] for key in found))
    return {key: found[key] for key in sorted(found, key=lambda key: segments.index(key[1:]))}


def _segments(result: Result, after: str, before: str) -> tuple[str, ...]:
    """The user's own columns, which stand between two of ours."""
    return result.columns[result.columns.index(after) + 1 : result.columns.index(before)]


def _several_clips(rows: Rows) -> bool:
    """Whether some estimator was asked for several M."""
    seen: dict[Any, set[float]] = {}
    for row in rows:
        seen.setdefault(row["estimator"], set()).add(row["clip"])
    return any(len(clips) > 1 for clips in seen.values())


def _best(rows: Rows) -> dict[str, Row]:
    """Each estimator's row with the smallest RMSE; of equal ones, that which clips least."""
    found: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: -row["clip"]):
        known = found.get(row["estimator"])
        if known is None or row["rmse"] < known["rmse"] * (1 - _ROUNDING):
            found[row["estimator"]] = row
    return {name: found[name] for name in dict.fromkeys(row["estimator"] for row in rows)}


def _namer(rows: Rows) -> Callable[[Row], str]:
    """Names of estimators: with M only where it tells them apart."""
    same = len({row["clip"] for row in rows}) == 1
    return lambda row: str(row["estimator"]) if same else _at(row)


def _at(row: Row) -> str:
    return f"{row['estimator']}, M = {format_value('clip', row['clip'])}"


def _shared(rows: Rows, column: str) -> float | None:
    """The value of a column that is the same in all rows, but for rounding; else None."""
    values = [_number(row[column]) for row in rows]
    same = all(math.isclose(value, values[0], rel_tol=_ROUNDING) for value in values)
    return values[0] if same else None


def _title(key: Key) -> str:
    return " · ".join(key)


def _number(value: Any) -> float:  # noqa: ANN401 - a cell
    return math.nan if value is None else float(value)


CHARTS: dict[type[Result], Callable[..., Chart]] = {
    Backtest: backtest,
    Comparison: comparison,
    Evaluation: evaluation,
    Examination: examination,
    Explored: explored,
    Optimized: optimized,
    Replay: replayed,
    Support: support,
}
"""The chart of each kind of result."""


def has_chart(result: Result) -> bool:
    """Whether there is something to draw."""
    return isinstance(result, tuple(CHARTS)) and bool(result.rows)
