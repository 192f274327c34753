"""HTML by templates, in which everything that comes from data is escaped.

A page is one file: no script, no network, and a policy that allows neither.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from foreclick.questions.agreement import sense_of
from foreclick.questions.answers import Evaluation
from foreclick.questions.report import Report
from foreclick.rendering import charts, drawing, wording
from foreclick.rendering.wording import words
from foreclick.results import Result, format_value
from foreclick.results.text import MOST_NOTES, more_notes, side_of
from foreclick.secrets import printable
from foreclick.words import number_of, plural

_LEAST_COVERED = 5
_WORDS = (wording.change_of, wording.metric_words, wording.per_list, wording.span_words, words)


@cache
def _environment() -> Environment:
    def finalize(value: Any) -> Any:  # noqa: ANN401 - whatever a template prints
        """Text without secrets, with its control characters spelt out; markup as it is."""
        markup = hasattr(value, "__html__")
        return printable(value) if isinstance(value, str) and not markup else value

    made = Environment(
        loader=PackageLoader("foreclick.rendering", "templates"),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = made.get_template("page.css").render()
    made.globals |= {
        "digest": base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        "colours": drawing.COLOURS,
        "paths": drawing.PATHS,
        "verdicts": wording.VERDICTS,
        "numbers": numbers,
        **{call.__name__: call for call in (*_WORDS, number_of, plural, sense_of)},
    }
    return made


def render(template: str, **values: Any) -> str:  # noqa: ANN401 - what the template names
    """A template, filled in."""
    return _environment().get_template(template).render(**values)


def fragment(result: Result, *, answer: bool = True) -> str:
    """A result as a part of a page: the answer with its table folded, or the table alone.

    Under an answer stand the notes that its text has; the table has all.
    """
    headline = result.headline if answer else None
    values = _table(result) | {"headline": headline, "plain": True, "more": ""}
    if headline is not None:
        values |= {"notes": result.notes[:MOST_NOTES], "more": more_notes(result)}
    return render("fragment.html", **values)


def page(result: Result, title: str = "") -> str:
    """A result as a page that needs no other file: its chart, if it has one, table and notes."""
    if isinstance(result, Evaluation) and result.rows:
        result = Report(result.rows, result.columns, result.notes, result.title, evaluation=result)
    if isinstance(result, Report):
        return report_page(result, title or result.title or "Candidate ranking")
    kind, has_chart = type(result).__name__, isinstance(result, tuple(charts.CHARTS))
    values = _table(result) | {"caption": "", "plain": False, "kind": kind.lower()}
    values["charts"] = charts.charts_of(result) if has_chart and result.rows else []
    name = title or result.title or kind
    return render("result.html", title=name, headline=result.headline, **values)


def _table(result: Result) -> dict[str, object]:
    cells = [
        [format_value(name, row[name]) for name in result.shown]
        for row in map(result.displayed, result.rows)
    ]
    columns = [(printable(name), side_of(result, name)) for name in result.shown]
    return {"caption": result.title, "columns": columns, "cells": cells, "notes": result.notes}


# --- reports ------------------------------------------------------------------------------------


def report_page(report: Report, title: str) -> str:
    """A report as a page that needs no other file."""
    evaluated, models, contexts = report.evaluation, report.models, report.contexts
    by, chosen = evaluated.by, wording.answers(evaluated)
    split = evaluated if by else report.segments
    row = next(iter(chosen.values()))
    others = []
    if models is not None and set(models["estimator"]) > set(evaluated["estimator"]):
        for metric in chosen:
            rows = [one for one in models.rows if one["metric"] == metric]
            others.append(charts.estimates(metric, rows, evaluated.answering))
    facts = () if report.check is None else report.check.rows
    off = None
    if report.backtest is not None:
        tested = [(one["estimator"], one["metric"], one["clip"]) for one in report.backtest.rows]
        if (row["estimator"], row["metric"], row["clip"]) in tested:
            error = report.backtest.error(row["estimator"], row["metric"], row["clip"])
            off = error / row["production"] if row["production"] else None
    changes = []
    if contexts is not None:
        ends = [one[c] for one in contexts for c in ("change", "change_low", "change_high")]
        scale = drawing.Scale.around(ends, zero=True)
        for one, sides in zip(contexts, contexts.lists, strict=True):
            span = drawing.Span(one["change"] or 0.0, one["change_low"], one["change_high"])
            changes.append((one, sides, scale(0.0), drawing.interval(scale, span)))
    return render(
        "report.html",
        title=title,
        report=report,
        verdict=wording.verdict(report),
        row=row,
        off=off,
        sampling=_sampling_share(evaluated, row["metric"]),
        periods=sum(fact["section"] == "records by period" for fact in facts),
        sizes=[fact for fact in facts if fact["section"] == "size"],
        cards={} if by else chosen,
        charts=[] if by else charts.evaluation(evaluated),
        parts=charts.segments(split) if split else [],
        by=split.by if split else (),
        tests=[] if report.past is None else charts.replay(report.past)[:1],
        changes=changes,
        others=others,
        seen=[] if report.support is None else charts.support(report.support),
        unseen=_least_covered(report),
        activity=list(_activity(report)),
        errors=charts.backtest(report.backtest) if report.backtest else [],
    )


def _sampling_share(evaluated: Evaluation, metric: str) -> float | None:
    """The share of sampling errors of the variance of a lift; None of one that is split."""
    rows = [each for each in evaluated.sources if each["metric"] == metric]
    if evaluated.by or not rows or len({each["clip"] for each in rows}) > 1:
        return None
    return sum(float(each["share"] or 0.0) for each in rows if each["kind"] == "sampling")


def numbers(chart: drawing.RowChart | drawing.LineChart) -> list[list[str]] | None:
    """The numbers of a plot, a row for each place; None of a chart that shows its own."""
    if isinstance(chart, drawing.RowChart):
        return None
    kind = "records" if chart.title == "records" else "value"
    ys = zip(*(line.ys for line in chart.lines), strict=True)
    return [
        [place, *(words(kind, y) for y in row)] for place, row in zip(chart.places, ys, strict=True)
    ]


def _least_covered(report: Report) -> list[list[str]]:
    """The contexts with most of what was never shown, by the estimator that sees most."""
    if report.support is None or not report.support.contexts.rows:
        return []
    contexts = report.support.contexts.rows
    key = contexts[-1]["estimator"], report.support.rows[0]["metric"]
    rows = [row for row in contexts if (row["estimator"], row["metric"]) == key]
    columns = ("context", "records", "covered", "share")
    return [[words(c, row[c]) for c in columns] for row in rows[:_LEAST_COVERED]]


def _activity(report: Report) -> Iterator[drawing.LineChart]:
    """Clicks by position and by period, and records by period."""
    sections: dict[str, list[tuple[str, float]]] = {}
    for row in () if report.check is None else report.check.rows:
        fact = str(row["fact"]).removeprefix("position ")
        if row["section"] != "size" and isinstance(row["found"], int | float):
            sections.setdefault(str(row["section"]), []).append((fact, float(row["found"])))
    at = " by position"
    reward = next((name.removesuffix(at) for name in sections if name.endswith(at)), "")
    for name, title, place, bars in (
        (f"{reward} by position", f"{reward} per shown item, by position", "position", True),
        (f"{reward} per list by period", f"{reward} per list, by period", "period", False),
        ("records by period", "records", "period", True),
    ):
        facts = sections.get(name, [])
        if reward and len(facts) > 1:
            places, ys = [place for place, _ in facts], [y for _, y in facts]
            written = [""] * len(ys)
            if place == "position" and max(ys) <= 1:
                written = [f"{y:.0%}" if y >= 0.005 or y == 0 else "<1%" for y in ys]
            lines, texts = [drawing.Line(title, ys, "one")], written if bars else None
            yield drawing.LineChart(title, (place, reward), places, lines, columns=texts, zero=True)
