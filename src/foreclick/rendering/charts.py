"""Which chart a result has; a report's page draws the same ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from foreclick.errors import ReportError
from foreclick.estimators import MEANINGS
from foreclick.questions import verdicts
from foreclick.questions.agreement import is_blind
from foreclick.questions.answers import Evaluation
from foreclick.questions.backtest import Backtest
from foreclick.questions.compare import Comparison
from foreclick.questions.examination import Examination
from foreclick.questions.replay import Replay, test_name
from foreclick.questions.support import Support
from foreclick.rendering.drawing import SERIES, Line, LineChart, Row, RowChart, Span
from foreclick.rendering.wording import change_of, metric_words, per_list, with_interval, words
from foreclick.results import Result

Record = Mapping[str, Any]

_MOST_SEGMENTS = 60
_FAR = 2.5  # times the smallest error: larger ones are arrows
_STEADY, _FLOOR = "rctr", "(chance alone)"
_LOOKS = {verdicts.BETTER: "good", verdicts.WORSE: "bad", verdicts.UNKNOWN: "open"}
_NOTHING = "no answer: none of it was ever shown"


def charts_of(result: Result) -> list[RowChart | LineChart]:
    """The charts of a result; `Result.plot` says which there are."""
    for kind, draw in CHARTS.items():
        if isinstance(result, kind):
            if not result.rows:
                raise ReportError("the result has no rows, so there is nothing to draw.")
            return list(draw(result))
    raise ReportError(
        f"{type(result).__name__} has no chart; these have: "
        f"{', '.join(kind.__name__ for kind in CHARTS)}. Save it as .html, .csv, .json or .parquet."
    )


# --- evaluations ----------------------------------------------------------------------------------


def evaluation(result: Evaluation) -> list[RowChart]:
    """Each metric by every estimator beside production, or by segment."""
    if result.by:
        return segments(result)
    return [estimates(m, rows, result.answering) for m, rows in _by_metric(result.rows)]


def estimates(metric: str, rows: Sequence[Record], answer: str) -> RowChart:
    """A metric by every estimator, that which answers first, against production."""
    ordered = sorted(rows, key=lambda row: row["estimator"] != answer)
    shared = {row["production"] for row in ordered}
    level = shared.pop() if len(shared) == 1 else None
    drawn = []
    for row in ordered:
        covered = words("covered", row["covered"])
        strong = row["estimator"] == answer
        name, note = _at(row, rows), MEANINGS.get(str(row["estimator"]), "")
        if is_blind(row):
            cells = [("–", ""), ("saw next to nothing", ""), (covered, "")]
            drawn.append(Row(name, note, cells, strong=strong))
            continue
        value = with_interval("value", row["value"], row.get("low"), row.get("high"))
        cells = [value, change_of(row), (covered, "")]
        span = Span(row["value"], row.get("low"), row.get("high"), "one" if strong else "other")
        row_level = row["production"] if level is None else None
        drawn.append(Row(name, note, cells, [span], row_level, strong=strong))
    return RowChart(
        f"{metric}: {metric_words(metric)}",
        ("Click model", metric + per_list(metric), "Estimate", "Change", "Seen"),
        drawn,
        [] if level is None else [(level, "level")],
    )


def segments(result: Evaluation) -> list[RowChart]:
    """The change in every segment by the estimator that answers, all on one scale."""
    charts = []
    for metric, rows in _by_metric(result.rows):
        parts = [row for row in rows if row["estimator"] == result.answering]
        parts = [row for row in parts if row["clip"] == parts[0]["clip"]]
        largest = sorted(parts, key=lambda row: -float(row["records"] or 0))[:_MOST_SEGMENTS]
        shown = [row for row in parts if row in largest]
        relative = all(row.get("lift") is not None for row in shown if not is_blind(row))
        column, drawn = "lift" if relative else "change", []
        for row in shown:
            name = " · ".join(words(one, row[one]) for one in result.by)
            records = (words("records", row["records"]), "")
            if is_blind(row) or row[column] is None:
                drawn.append(Row(name, "", [("–", ""), records, ("", "")]))
                continue
            low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
            change = with_interval(column, row[column], low, high)
            cells = [change, records, (str(row.get("verdict") or ""), "")]
            drawn.append(Row(name, "", cells, [Span(row[column], low, high)]))
        title = f"{metric} by {' and '.join(result.by)}"
        if len(shown) < len(parts):
            title += f": the {len(shown)} largest of {len(parts):,} segments"
        head = (" · ".join(result.by), "change", "Change", "Records", "Verdict")
        charts.append(RowChart(title, head, drawn, [(0.0, "level")], percent=relative))
    return charts


# --- other results --------------------------------------------------------------------------------


def support(result: Support) -> list[RowChart]:
    """The share of the candidate that was ever shown, by what counts as the same."""
    charts = []
    dated = any(row.get("repeated") is not None for row in result.rows)
    others = result.columns[result.columns.index("metric") + 1 : result.columns.index("covered")]
    for metric, rows in _by_metric(result.rows):
        drawn = []
        for row in rows:
            name = " · ".join([str(row["estimator"]), *(words(c, row[c]) for c in others)])
            cells = [(words("covered", row["covered"]), "")]
            cells += [(words("repeated", row["repeated"]), "")] if dated else []
            spans = [Span(float(row["covered"] or 0.0))]
            drawn.append(Row(name, MEANINGS.get(str(row["estimator"]), ""), cells, spans))
        head = ["What counts as the same", "Share ever shown", "Seen"]
        head += ["Of that, in 5+ periods"] if dated else []
        charts.append(RowChart(f"{metric}: {metric_words(metric)}", head, drawn, bars=True))
    return charts


def backtest(result: Backtest) -> list[RowChart | LineChart]:
    """How far each estimator was off: a row each, or a line each over several M."""
    clips = sorted({float(row["clip"]) for row in result.rows if row["clip"] is not None})
    if len(clips) > 1:
        return [errors_by_clip(m, rows, clips) for m, rows in _by_metric(result.rows)]
    return [errors(m, rows) for m, rows in _by_metric(result.rows)]


def errors(metric: str, rows: Sequence[Record]) -> RowChart:
    """The error of each estimator, beside the noise of clicks and "nothing changes"."""
    ordered = sorted(rows, key=lambda row: (row["estimator"] == _STEADY, row["rmse"]))
    most = _FAR * min(row["rmse"] for row in rows)
    levels = [] if rows[0]["floor"] is None else [(rows[0]["floor"], "level")]
    levels += [
        (r["rmse"], "thin other") for r in rows if r["estimator"] == _STEADY and r["rmse"] < most
    ]
    drawn = []
    for row in ordered:
        steady, skill = row["estimator"] == _STEADY, row.get("skill")
        note = "nothing changes; to be beaten" if steady else MEANINGS.get(row["estimator"], "")
        cells = [
            (words("rmse", row["rmse"]), ""),
            (words("bias", row["bias"]), ""),
            ("–" if skill is None else words("share", skill) if skill > 0 else "none", ""),
        ]
        spans = [Span(row["rmse"], look="other" if steady else "one")]
        drawn.append(Row(str(row["estimator"]), note, cells, spans))
    head = ("Estimator", "error (RMSE) per list", "RMSE", "Bias", "Changes predicted")
    return RowChart(f"Backtest of {metric}", head, drawn, levels)


def errors_by_clip(metric: str, rows: Sequence[Record], clips: Sequence[float]) -> LineChart:
    """The error of each estimator as a function of M, as the paper draws it; flat without an M."""
    by_name: dict[str, dict[float, float]] = {}
    for row in rows:
        by_name.setdefault(str(row["estimator"]), {})[row["clip"]] = row["rmse"]
    if rows[0]["floor"] is not None:
        by_name[_FLOOR] = {math.inf: rows[0]["floor"]}
    looks = {_STEADY: "dashed seven", _FLOOR: "thin other"}
    looks |= dict(zip((name for name in by_name if name not in looks), SERIES * 2, strict=False))
    lines = []
    for name, of in by_name.items():
        ys = [next(iter(of.values())) if len(of) == 1 else of.get(clip) for clip in clips]
        lines.append(Line(name, ys, looks[name]))
    places = [words("clip", clip) for clip in clips]
    steep = all(y is None or y > 0 for line in lines for y in line.ys)
    head = ("clip M", f"error (RMSE{', logarithmic scale' if steep else ''})")
    return LineChart(f"Backtest of {metric}", head, places, lines, zero=not steep, log=steep)


def replay(result: Replay) -> list[RowChart]:
    """Past A/B tests: what the control's clicks predicted, and what was measured."""
    charts = []
    for metric in dict.fromkeys(result["metric"]):
        drawn = []
        for row in result.tests(metric):
            cells, spans = [], []
            sides = ("predicted", "one", "verdict"), ("measured", "other", "outcome")
            for kind, look, word in sides:
                low, high = row[f"{kind}_low"], row[f"{kind}_high"]
                cells += [with_interval("lift", row[kind], low, high), (str(row[word]), "")]
                spans += [] if row[kind] is None else [Span(row[kind], low, high, look)]
            drawn.append(Row(test_name(row["experiment"], row["arm"]), "", cells, spans))
        total = result.total(result.answering, metric)
        score = ""
        if total is not None:
            score = f"{total['right']} right, {total['wrong']} wrong of {total['tests']}"
        names = ("Predicted", "Verdict", "Measured", "The test said")
        head = ("Test", "lift; below it, measured", *names)
        charts.append(RowChart(metric, head, drawn, [(0.0, "level")], percent=True, remark=score))
    return charts


def comparison(result: Comparison) -> list[RowChart]:
    """The lift of every pair, or the change, with the interval that holds for all together."""
    relative = all(row["lift"] is not None for row in result if row["change"] is not None)
    column, ends = "change", ("all_low", "all_high")
    if relative:
        column, ends = "lift", ("lift_low", "lift_high")
    drawn = []
    for row in result:
        name = f"{words('', row['candidate'])} − {words('', row['against'])}"
        if row["change"] is None:
            drawn.append(Row(name, "", [("–", _NOTHING), ("", "")]))
            continue
        low, high = (row[end] for end in ends)
        change = with_interval(column, row[column], low, high)
        span = Span(row[column], low, high, _LOOKS.get(row["verdict"], "even"))
        drawn.append(Row(name, "", [change, (str(row["verdict"]), "")], [span]))
    head = ("Pair", column, column.capitalize(), "Verdict")
    remark = "intervals that hold all together"
    title = result.title or "Every pair"
    return [RowChart(title, head, drawn, [(0.0, "level")], percent=relative, remark=remark)]


def examination(result: Examination) -> list[LineChart]:
    """How much each position is looked at: a line per segment, with intervals."""
    by = result.columns[: result.columns.index("position")]
    places = list(dict.fromkeys(row["position"] for row in result.rows))
    parts: dict[str, dict[Any, Record]] = {}
    for row in result.rows:
        part = " · ".join(words(one, row[one]) for one in by)
        parts.setdefault(part, {})[row["position"]] = row
    lines = []
    if not by:
        lines.append(Line("1/k", [1 / (k + 1) for k in range(len(places))], "other"))
    for i, (part, rows) in enumerate(parts.items()):
        ys, lows, highs = (
            [rows[place][column] if place in rows else None for place in places]
            for column in ("examination", "low", "high")
        )
        lines.append(Line(part or "the log", ys, SERIES[i % len(SERIES)], lows, highs))
    title, head = "How much each position is looked at", ("position", "examination")
    return [LineChart(title, head, [words("position", k) for k in places], lines, zero=True)]


# --- what charts share ----------------------------------------------------------------------------


def _by_metric(rows: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    metrics = dict.fromkeys(str(row["metric"]) for row in rows)
    return [(metric, [row for row in rows if row["metric"] == metric]) for metric in metrics]


def _at(row: Record, rows: Sequence[Record]) -> str:
    """The name of an estimator, with M where it tells rows apart."""
    same = len({one["clip"] for one in rows}) == 1
    name = str(row["estimator"])
    return name if same else f"{name}, M = {words('clip', row['clip'])}"


CHARTS: dict[type[Result], Callable[[Any], Iterable[RowChart | LineChart]]] = {
    Backtest: backtest,
    Comparison: comparison,
    Evaluation: evaluation,
    Examination: examination,
    Replay: replay,
    Support: support,
}
"""The chart of each kind of result."""
