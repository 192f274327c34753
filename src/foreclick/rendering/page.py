"""A report as a page of one file: no script, no network, and a policy that allows neither."""

from __future__ import annotations

from collections.abc import Iterator

from foreclick.questions.answers import answering_of
from foreclick.questions.report import Report
from foreclick.rendering.charts import backtest, estimates, evaluation, replay, segments, support
from foreclick.rendering.drawing import Line, Plot, Rows, Scale, Span, interval
from foreclick.rendering.markup import render
from foreclick.rendering.wording import answers, segments_of, verdict, words

_LEAST_COVERED = 5


def report_page(report: Report) -> str:
    """A report as a page that needs no other file."""
    found, models, contexts = report.evaluation, report.models, report.contexts
    by, chosen = segments_of(found), answers(found)
    answer = str(found.answering or answering_of(found["estimator"]))
    row = next(iter(chosen.values()))
    others = []
    if models is not None and set(models["estimator"]) > set(found["estimator"]):
        for metric in chosen:
            rows = [one for one in models.rows if one["metric"] == metric]
            others.append(estimates(metric, rows, answer))
    facts = () if report.check is None else report.check.rows
    off = None
    if report.backtest is not None and (row["estimator"], row["metric"], row["clip"]) in {
        (one["estimator"], one["metric"], one["clip"]) for one in report.backtest.rows
    }:
        off = report.backtest.error(row["estimator"], row["metric"], row["clip"])
    changes = []
    if contexts is not None:
        ends = [one[c] for one in contexts for c in ("change", "change_low", "change_high")]
        scale = Scale.around(ends, zero=True)
        for one, sides in zip(contexts, contexts.lists, strict=True):
            span = Span(one["change"] or 0.0, one["change_low"], one["change_high"])
            changes.append((one, sides, scale(0.0), interval(scale, span)))
    return render(
        "report.html",
        title=report.title or "foreclick report",
        report=report,
        verdict=verdict(report),
        row=row,
        off=off,
        periods=sum(fact["section"] == "records by period" for fact in facts),
        sizes=[fact for fact in facts if fact["section"] == "size"],
        cards={} if by else chosen,
        charts=[] if by else [(chart, numbers(chart)) for chart in evaluation(found)],
        parts=segments(found) if by else segments(report.segments) if report.segments else [],
        by=segments_of(report.segments) if report.segments else by,
        tests=[] if report.past is None else replay(report.past)[:1],
        changes=changes,
        others=others,
        seen=[] if report.support is None else support(report.support),
        unseen=_least_covered(report),
        activity=[(plot, numbers(plot)) for plot in _activity(report)],
        errors=[(c, numbers(c)) for c in (backtest(report.backtest) if report.backtest else [])],
    )


def numbers(chart: Rows | Plot) -> list[list[str]] | None:
    """The numbers of a plot, a row for each place; None of a chart that shows its own."""
    if isinstance(chart, Rows):
        return None
    kind = "records" if chart.title == "records" else "value"
    ys = zip(*(line.ys for line in chart.lines), strict=True)
    return [
        [place, *(words(kind, y) for y in row)] for place, row in zip(chart.places, ys, strict=True)
    ]


def _least_covered(report: Report) -> list[list[str]]:
    """The contexts with most of what was never shown, by the estimator that sees most."""
    found = report.support
    if found is None or not found.contexts.rows:
        return []
    key = found.contexts.rows[-1]["estimator"], found.rows[0]["metric"]
    rows = [row for row in found.contexts.rows if (row["estimator"], row["metric"]) == key]
    columns = ("context", "records", "covered", "share")
    return [[words(c, row[c]) for c in columns] for row in rows[:_LEAST_COVERED]]


def _activity(report: Report) -> Iterator[Plot]:
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
            lines, texts = [Line(title, ys, "one")], written if bars else None
            yield Plot(title, (place, reward), places, lines, columns=texts, zero=True)
