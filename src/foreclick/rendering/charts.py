"""Which chart a result has; a report's page draws the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from foreclick.errors import ReportError
from foreclick.optimization.explore import Explored
from foreclick.optimization.result import Optimized
from foreclick.questions import verdicts
from foreclick.questions.answers import Evaluation, answering_of, is_blind
from foreclick.questions.backtest import Backtest
from foreclick.questions.compare import Comparison
from foreclick.questions.examination import Examination
from foreclick.questions.replay import Replay, test_name
from foreclick.questions.support import Support
from foreclick.rendering.drawing import SERIES, Line, LineChart, Row, RowChart, Span
from foreclick.rendering.wording import (
    MODELS,
    change_of,
    metric_words,
    per_list,
    segments_of,
    span_words,
    with_interval,
    words,
)
from foreclick.results import Result

Record = Mapping[str, Any]

_MOST_SEGMENTS = 60
_FAR = 2.5  # times the smallest error: larger ones are arrows
_WIDE = 10  # from so many times the smallest on, a scale is in powers
_STEADY = "rctr"
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


def evaluation(result: Evaluation) -> Iterable[RowChart | LineChart]:
    """Each metric by every estimator beside production; by segment; or over M."""
    if segments_of(result):
        return segments(result)
    if _several_clips(result.rows):
        level = ("production", result.against)
        return [_over_clips(m, rows, "value", level) for m, rows in _by_metric(result.rows)]
    answer = result.answering or answering_of(result["estimator"])
    return [estimates(m, rows, answer) for m, rows in _by_metric(result.rows)]


def estimates(metric: str, rows: Sequence[Record], answer: str) -> RowChart:
    """A metric by every estimator, that which answers first, against production."""
    ordered = sorted(rows, key=lambda row: row["estimator"] != answer)
    shared = {row["production"] for row in ordered}
    level = shared.pop() if len(shared) == 1 else None
    drawn = []
    for row in ordered:
        covered = words("covered", row["covered"])
        strong = row["estimator"] == answer
        name, note = _at(row, rows), MODELS.get(str(row["estimator"]), "")
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
    by, charts = segments_of(result), []
    answer = result.answering or answering_of(result["estimator"])
    for metric, rows in _by_metric(result.rows):
        parts = [row for row in rows if row["estimator"] == answer]
        parts = [row for row in parts if row["clip"] == parts[0]["clip"]]
        largest = sorted(parts, key=lambda row: -float(row["records"] or 0))[:_MOST_SEGMENTS]
        shown = [row for row in parts if row in largest]
        relative = all(row.get("lift") is not None for row in shown if not is_blind(row))
        column, drawn = "lift" if relative else "change", []
        for row in shown:
            name = " · ".join(words(one, row[one]) for one in by)
            records = (words("records", row["records"]), "")
            if is_blind(row) or row[column] is None:
                drawn.append(Row(name, "", [("–", ""), records, ("", "")]))
                continue
            low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
            change = with_interval(column, row[column], low, high)
            cells = [change, records, (str(row.get("verdict") or ""), "")]
            drawn.append(Row(name, "", cells, [Span(row[column], low, high)]))
        title = f"{metric} by {' and '.join(by)}"
        if len(shown) < len(parts):
            title += f": the {len(shown)} largest of {len(parts):,} segments"
        head = (" · ".join(by), "change", "Change", "Records", "Verdict")
        charts.append(RowChart(title, head, drawn, [(0.0, "level")], percent=relative))
    return charts


def _over_clips(
    metric: str, rows: Sequence[Record], column: str, level: tuple[str, str]
) -> LineChart:
    """A line per estimator over M; an estimator of one M is a level.

    Args:
        metric: whose rows they are.
        rows: of several estimators and clips.
        column: what is drawn.
        level: a column that is the same in all rows, and its name.
    """
    clips = sorted({row["clip"] for row in rows})
    value = {(row["estimator"], row["clip"]): row[column] for row in rows}
    names = list(dict.fromkeys(str(row["estimator"]) for row in rows))
    lines = []
    for i, name in enumerate(names):
        ys = [value.get((name, clip)) for clip in clips]
        known = [y for y in ys if y is not None]
        ys = known * len(ys) if len(known) == 1 else ys
        lines.append(Line(name, ys, SERIES[i % len(SERIES)]))
    height = rows[0][level[0]]
    flat = [] if height is None else [(float(height), level[1])]
    known = [y for line in lines for y in line.ys if y is not None]
    best = min(
        (row for row in rows if row[column] is not None), key=lambda row: row[column], default=None
    )
    error = column == "rmse"
    remark = ""
    if error and best is not None:
        remark = f"best: {best['estimator']}, M = {words('clip', best['clip'])}, "
        remark += f"RMSE {words('rmse', best['rmse'])}"
    return LineChart(
        metric,
        ("clip M", "error (RMSE)" if error else metric + per_list(metric)),
        [words("clip", clip) for clip in clips],
        lines,
        flat,
        log=error and bool(known) and max(known) > _WIDE * min(known) > 0,
        remark=remark,
    )


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
            drawn.append(Row(name, MODELS.get(str(row["estimator"]), ""), cells, spans))
        head = ["What counts as the same", "Share ever shown", "Seen"]
        head += ["Of that, in 5+ periods"] if dated else []
        charts.append(RowChart(f"{metric}: {metric_words(metric)}", head, drawn, bars=True))
    return charts


def backtest(result: Backtest) -> list[RowChart | LineChart]:
    """How far each estimator was off; over M where there are several."""
    charts: list[RowChart | LineChart] = []
    for metric, rows in _by_metric(result.rows):
        if _several_clips(rows):
            charts.append(_over_clips(metric, rows, "rmse", ("floor", "click noise")))
            continue
        ordered = sorted(rows, key=lambda row: (row["estimator"] == _STEADY, row["rmse"]))
        most = _FAR * min(row["rmse"] for row in rows)
        levels = [] if rows[0]["floor"] is None else [(rows[0]["floor"], "level")]
        levels += [
            (r["rmse"], "thin other")
            for r in rows
            if r["estimator"] == _STEADY and r["rmse"] < most
        ]
        drawn = []
        for row in ordered:
            steady, skill = row["estimator"] == _STEADY, row.get("skill")
            note = "nothing changes; to be beaten" if steady else MODELS.get(row["estimator"], "")
            cells = [
                (words("rmse", row["rmse"]), ""),
                (words("bias", row["bias"]), ""),
                ("–" if skill is None else words("share", skill) if skill > 0 else "none", ""),
            ]
            spans = [Span(row["rmse"], look="other" if steady else "one")]
            drawn.append(Row(_at(row, rows), note, cells, spans))
        head = ("Estimator", "error (RMSE) per list", "RMSE", "Bias", "Changes predicted")
        charts.append(RowChart(f"Backtest of {metric}", head, drawn, levels))
    return charts


def replay(result: Replay) -> list[RowChart]:
    """Past A/B tests: what the control's clicks predicted, and what was measured."""
    charts = []
    for metric, rows in _by_metric(result.rows):
        drawn = []
        for row in rows:
            if not row["forward"] or row["estimator"] != result.answering:
                continue
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


def explored(result: Explored) -> list[RowChart]:
    """How much of its traffic each context should show the candidate."""
    drawn = [
        Row(
            words("", row["context"]),
            "",
            [(words("share", row["share"]), "")],
            [Span(row["share"])],
        )
        for row in result
    ]
    title = f"Shown the candidate: {words('share', result.share)} of all traffic"
    return [RowChart(title, ("Context", "share", "Of its traffic"), drawn, bars=True)]


def examination(result: Examination) -> list[LineChart]:
    """How much each position is looked at: a line per segment, with intervals."""
    at = result.columns.index("examination") - 1
    name, by = result.columns[at], result.columns[:at]
    places = list(dict.fromkeys(row[name] for row in result.rows))
    parts: dict[str, dict[Any, Record]] = {}
    for row in result.rows:
        part = " · ".join(words(one, row[one]) for one in by)
        parts.setdefault(part, {})[row[name]] = row
    lines = []
    if name == "position" and not by:
        lines.append(Line("1/k", [1 / (k + 1) for k in range(len(places))], "other"))
    for i, (part, rows) in enumerate(parts.items()):
        ys, lows, highs = (
            [rows[place][column] if place in rows else None for place in places]
            for column in ("examination", "low", "high")
        )
        lines.append(Line(part or "the log", ys, SERIES[i % len(SERIES)], lows, highs))
    written = [words("position", place) for place in places]
    return [
        LineChart(
            "How much each place is looked at", (name, "examination"), written, lines, zero=True
        )
    ]


def optimized(result: Optimized) -> list[RowChart]:
    """What production earns, what the policy should earn, and what it earns by other records."""
    row: Record = result.rows[0]
    start, judged = row["production"], result.evaluation is not None

    def beside(value: float) -> str:
        lift = f"   {words('lift', value / start - 1)}" if start else ""
        return words("value", value) + lift

    empty = ("", "")
    drawn = [
        Row("production", "", [(words("value", start), ""), empty], [Span(start, look="other")]),
        Row(
            "naive",
            "by the records that it was chosen by",
            [(beside(row["naive"]), ""), empty],
            [Span(row["naive"], look="two")],
        ),
    ]
    note = "by records that did not choose it"
    if row["changed"] and not judged:
        drawn.append(Row("honest", "", [("–", "not judged by records of its own"), empty]))
    elif row["value"] is None:
        drawn.append(Row("honest", note, [("–", _NOTHING), empty]))
    else:
        between = span_words("lift", row["lift_low"], row["lift_high"])
        cells = [(beside(row["value"]), between), (str(row["verdict"] or ""), "")]
        look = _LOOKS.get(row["verdict"], "even")
        span = Span(row["value"], row["low"], row["high"], look)
        drawn.append(Row("honest", note, cells, [span]))
    head = ("Value", f"{row['metric']} per list", "Estimate", "Verdict")
    title = f"{row['metric']}: what the policy earns"
    return [RowChart(title, head, drawn, [(start, "level")], remark=_half_of_gain(result, row))]


def _half_of_gain(result: Optimized, row: Record) -> str:
    """How many contexts make half of the gain."""
    if not row["changed"]:
        return "nothing is changed: production stays everywhere"
    contexts = result.contexts.to_pydict()
    each = zip(contexts["records"], contexts["sure"], contexts["production"], strict=True)
    gains = sorted((max(0.0, n * (sure - now)) for n, sure, now in each), reverse=True)
    if row["contexts"] <= 1 or not any(gains):
        return ""
    half = (1 - 1e-9) * sum(gains) / 2
    few = 1 + sum(gained < half for gained in accumulate(gains))
    return f"half of the sure gain: {few:,} of {row['contexts']:,} contexts"


# --- what charts share ----------------------------------------------------------------------------


def _by_metric(rows: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    metrics = dict.fromkeys(str(row["metric"]) for row in rows)
    return [(metric, [row for row in rows if row["metric"] == metric]) for metric in metrics]


def _several_clips(rows: Sequence[Record]) -> bool:
    """Whether some estimator has several M."""
    clips = {(row["estimator"], row["clip"]) for row in rows}
    return len(clips) > len({row["estimator"] for row in rows})


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
    Explored: explored,
    Optimized: optimized,
    Replay: replay,
    Support: support,
}
"""The chart of each kind of result."""
