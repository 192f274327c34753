"""The sections of a report on what lies behind the answer: contexts, the log, the backtest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foreclick.questions.contexts import Group, Sides
from foreclick.questions.replay import named
from foreclick.questions.report import Report
from foreclick.rendering.figures import (
    Line,
    Scale,
    columns,
    figure,
    interval,
    lines,
    strip,
    upright,
)
from foreclick.rendering.markup import Child, Markup, element, joined, words
from foreclick.rendering.tables import (
    Row,
    Section,
    axis_row,
    badge,
    heights,
    numbers_below,
    paragraph,
    table,
    tick_words,
    two_lines,
)
from foreclick.rendering.wording import MODELS, assumptions, span
from foreclick.words import number_of, plural

_FAR = 2.5  # times the smallest error: larger ones are arrows
_STEADY = "rctr"

# --- contexts -------------------------------------------------------------------------------------


def contexts(report: Report) -> Section | None:
    """The contexts that gain and lose most, with their lists."""
    found = report.contexts
    if found is None or not found.rows:
        return None
    pairs: list[tuple[Row, Sides]] = list(zip(found.rows, found.lists, strict=True))
    ends = [row[c] for row, _ in pairs for c in ("change", "change_low", "change_high")]
    scale = Scale.of(ends, zero=True)
    parts: list[Child] = []
    for title, up in (("Gain most", True), ("Lose most", False)):
        mine = [_context(row, sides, scale) for row, sides in pairs if (row["adds"] > 0) == up]
        if mine:
            parts += [element("h3", title), element("div", *mine, class_="contexts")]
    counts = _grouped(found.gain, "gain"), _grouped(found.lose, "lose"), _grouped(found.same, "")
    about = paragraph(
        f"By {found.estimator}, {found.metric} per list: ",
        ", ".join(text for text in counts if text),
        ". All contexts together make up the change of the whole log.",
    )
    doubt = paragraph(
        "Those below were picked because they are extreme, so chance has helped: expect less of "
        "each. Intervals are for each context by itself, and all bars share one scale.",
        class_="remark",
    )
    return Section("contexts", "Which contexts gain and lose", [about, doubt, *parts])


def _grouped(group: Group, verb: str) -> str:
    if not group.contexts:
        return ""
    count = number_of(group.contexts, "context")
    if not verb:
        return f"{count} {plural(group.contexts, 'stays as it is', 'stay as they are')}"
    verb = plural(group.contexts, f"{verb}s", verb)
    return f"{count} {verb} ({words('change', group.adds)} together)"


def _context(row: Row, sides: Sides, scale: Scale) -> Markup:
    low, high = row["change_low"], row["change_high"]
    drawn = interval(scale, low, high, row["change"] or 0.0, "one")
    facts = [
        ("change", two_lines(words("change", row["change"]), span(row, "change"))),
        ("adds to the total", words("adds", row["adds"])),
        ("traffic", f"{words('share', row['share'])} ({words('records', row['records'])} records)"),
        (
            "before → after",
            f"{words('value', row['production'])} → {words('value', row['value'])}",
        ),
    ]
    listed = [joined(element("dt", name), element("dd", text)) for name, text in facts]
    before = {item: k for k, item in enumerate(sides.before.items)}
    return element(
        "article",
        element(
            "div",
            element("h4", words("", row["context"])),
            strip(upright(scale(0.0)), drawn),
            element("dl", *listed),
            class_="facts",
        ),
        _list("Today, most often", sides.before.share, [(i, "") for i in sides.before.items]),
        _list(
            "Candidate",
            sides.after.share,
            [(item, _moved(before.get(item), k)) for k, item in enumerate(sides.after.items)],
        ),
        class_="context",
    )


def _moved(before: int | None, now: int) -> str:
    """How a result moved, in a sign and a word."""
    if before is None:
        return "new"
    if before == now:
        return ""
    return f"▲ up {before - now}" if before > now else f"▼ down {now - before}"


def _list(title: str, share: float, items: Sequence[tuple[Any, str]]) -> Markup:
    entries = [
        element(
            "li",
            element("span", words("", item), class_="item"),
            joined(" ", element("small", moved, class_="moved")) if moved else None,
        )
        for item, moved in items
    ]
    said = "" if share >= 1 - 1e-9 or not items else f" ({words('share', share)})"
    empty = paragraph("no list") if not items else None
    return element(
        "div",
        paragraph(title, element("small", said) if said else None, class_="label"),
        element("ol", *entries) if entries else empty,
        class_="list",
    )


# --- the log --------------------------------------------------------------------------------------


def activity(report: Report) -> Section | None:
    """Clicks by position and by period."""
    if report.check is None:
        return None
    rows = report.check.rows
    reward = next(
        (
            str(r["section"]).removesuffix(" by position")
            for r in rows
            if str(r["section"]).endswith(" by position")
        ),
        None,
    )
    figures = [
        _positions(reward, _facts(rows, f"{reward} by position")),
        _daily(f"{reward} per list", _facts(rows, f"{reward} per list by period"), line=True),
        _daily("records", _facts(rows, "records by period"), line=False),
    ]
    shown = [drawn for drawn in figures if drawn is not None]
    if not shown:
        return None
    about = paragraph("What the log holds, under production. Odd days and positions show here.")
    drawn = element("div", *shown, class_="figures")
    return Section("activity", "Clicks by position and by day", [about, drawn])


def _facts(rows: Sequence[Row], name: str) -> list[tuple[str, float]]:
    return [(str(row["fact"]), float(row["found"])) for row in rows if row["section"] == name]


def _positions(reward: str | None, facts: list[tuple[str, float]]) -> Markup | None:
    if not facts:
        return None
    places = [name.removeprefix("position ") for name, _ in facts]
    rates = [rate for _, rate in facts]
    kind = "share" if max(rates) <= 1 else "value"
    short = [_short(rate) if kind == "share" else words("value", rate) for rate in rates]
    body = [[place, words(kind, rate)] for place, rate in zip(places, rates, strict=True)]
    return figure(
        columns(places, rates, short),
        f"{reward} per shown result by position, from {short[0]} at position {places[0]} to "
        f"{short[-1]} at position {places[-1]}; numbers below",
        joined(element("strong", f"{reward}"), " per shown result, by position"),
        numbers_below([("Position", ""), (f"{reward} per shown result", "number")], body),
        height=200,
    )


def _short(share: float) -> str:
    """A share in few characters."""
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{share:.1%}"


def _daily(what: str, facts: list[tuple[str, float]], *, line: bool) -> Markup | None:
    if len(facts) < 2:
        return None
    names, values = [name for name, _ in facts], [value for _, value in facts]
    column = "value" if line else "records"
    if line:
        drawn = lines(
            names, [Line(what, values, "one")], [], heights(values, zero=True), height=200
        )
    else:
        drawn = columns(names, values, [""] * len(names))
    body = [[name, words(column, value)] for name, value in facts]
    low, high = words(column, min(values)), words(column, max(values))
    return figure(
        drawn,
        f"{what} by period, {names[0]} to {names[-1]}, between {low} and {high}; numbers below",
        joined(element("strong", what), f", by period: {low} to {high}"),
        numbers_below([("Period", ""), (what, "number")], body),
        height=200,
    )


# --- past A/B tests and backtest ------------------------------------------------------------------


def past(report: Report) -> Section | None:
    """Past A/B tests, predicted and measured."""
    found = report.past
    if found is None:
        return None
    metric, answering = found.rows[0]["metric"], found.answering
    body = [
        [
            named(row),
            joined(
                words("lift", row["predicted"]),
                " ",
                element("small", f"({span(row, 'predicted')})"),
            ),
            badge(str(row["verdict"])),
            joined(
                words("lift", row["measured"]), " ", element("small", f"({span(row, 'measured')})")
            ),
            badge(str(row["outcome"])),
        ]
        for row in found.rows
        if row["forward"] and (row["metric"], row["estimator"]) == (metric, answering)
    ]
    head = [
        ("Test", ""),
        ("Predicted", "number"),
        ("Verdict", ""),
        ("Measured", "number"),
        ("The test said", ""),
    ]
    said = [element("li", each) for each in found.headline.said]
    about = paragraph(
        f"{found.headline.title}. Each test is predicted from the clicks of its control alone; the "
        "verdict on this candidate allows for the errors of these predictions."
    )
    listed = table(head, body, label="Past A/B tests, predicted and measured")
    return Section("past", "Past A/B tests", [about, listed, element("ul", *said)])


def backtest(report: Report) -> Section | None:
    """How far each estimator was off, as dots."""
    found = report.backtest
    if found is None or not found.rows:
        return None
    metrics = dict.fromkeys(str(row["metric"]) for row in found.rows)
    parts = [_errors(m, [row for row in found.rows if row["metric"] == m]) for m in metrics]
    about = paragraph(
        "One period at a time is held out, and what it earned is predicted from the others. "
        "Further left is better. The dashed line is the noise of clicks, which no prediction can "
        "beat; the thin line is the error of predicting that nothing changes (rctr), which an "
        "estimator should beat."
    )
    listed = element("ul", *(element("li", note) for note in found.notes)) if found.notes else None
    return Section("backtest", "Which estimator would have been right", [about, *parts, listed])


def _errors(metric: str, rows: Sequence[Row]) -> Markup:
    ordered = sorted(rows, key=lambda row: (row["estimator"] == _STEADY, row["rmse"]))
    most = _FAR * min(row["rmse"] for row in rows)
    floor = rows[0]["floor"]
    scale = Scale.of([floor, *(min(row["rmse"], most) for row in rows)])
    steady = [upright(scale(row["rmse"]), "thin") for row in rows if row["estimator"] == _STEADY]
    levels = joined(None if floor is None else upright(scale(floor)), *steady)
    body = [
        [
            joined(str(row["estimator"]), element("small", _role(str(row["estimator"])))),
            strip(levels, _error(row, scale)),
            words("rmse", row["rmse"]),
            words("bias", row["bias"]),
            _skill(row.get("skill")),
        ]
        for row in ordered
    ]
    head = [
        ("Estimator", ""),
        ("Error (RMSE) per list", "picture"),
        ("RMSE", "number"),
        ("Bias", "number"),
        ("Changes predicted", "number"),
    ]
    foot = axis_row(scale, tick_words(scale), len(head))
    return table(head, body, foot, caption=f"Backtest of {metric}", class_="chart")


def _error(row: Row, scale: Scale) -> Markup:
    look = "other" if row["estimator"] == _STEADY else "one"
    return interval(scale, None, None, row["rmse"], look)


def _role(estimator: str) -> str:
    return "nothing changes: the one to beat" if estimator == _STEADY else MODELS.get(estimator, "")


def _skill(share: float | None) -> str:
    """How much of the changes was predicted; below 0, they were not."""
    if share is None:
        return "–"
    return words("share", share) if share > 0 else "none"


# --- assumptions and provenance -------------------------------------------------------------------


def caveats(report: Report) -> Section | None:
    """What was assumed, and what could be wrong."""
    told = assumptions(report)
    entries = [joined(element("dt", name), element("dd", text)) for name, text in told]
    listed = element("dl", *entries, class_="prose")
    return Section("assumptions", "What was assumed, and what could be wrong", [listed])


def provenance(report: Report) -> Section | None:
    """How the report was made: counts, columns, the call, versions."""
    facts = list(report.made)
    if report.check is not None:
        sizes = [row for row in report.check.rows if row["section"] == "size"]
        facts[1:1] = [("Size", "; ".join(_size(row) for row in sizes))]
    if report.date is not None:
        facts.append(("Made", f"{report.date:%Y-%m-%d %H:%M} UTC"))
    if not facts:
        return None
    code = ("Call", "Command")
    entries = [
        joined(
            element("dt", name),
            element("dd", element("code", text) if name in code else text),
        )
        for name, text in facts
    ]
    return Section("made", "How it was made", [element("dl", *entries, class_="prose")])


def _size(row: Row) -> str:
    return f"{row['fact']}: {words('found', row['found'])}"
