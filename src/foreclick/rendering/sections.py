"""The sections of a report on the answer: estimates, segments, support and clips."""

from __future__ import annotations

from collections.abc import Sequence

from foreclick.questions.report import Report
from foreclick.rendering.figures import (
    Line,
    Scale,
    bar,
    figure,
    interval,
    legend,
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
from foreclick.rendering.wording import (
    MODELS,
    VERDICTS,
    answers,
    change_of,
    metric_words,
    per_list,
    seen,
    segments_of,
    span,
    verdict,
)

_LOOKS = ("one", "two", "three", "four")
_FAR = 3.0  # how far beyond the answer and its interval, in their range, others are drawn
_MOST_SEGMENTS = 60
_DARKEST = 5

# --- the answer -----------------------------------------------------------------------------------


def answer(report: Report) -> Markup:
    """Title, verdict in a sentence, and the numbers of each metric."""
    word, sentence = verdict(report)
    look = VERDICTS.get(word, ("", "unknown"))[1]
    date = "" if report.date is None else f"{report.date:%-d %B %Y}"
    said = paragraph(badge(word) if word else None, " ", sentence) if sentence else None
    cards = [] if segments_of(report.evaluation) else answers(report.evaluation).items()
    return element(
        "header",
        paragraph("foreclick report", f" · {date}" if date else "", class_="eyebrow"),
        element("h1", report.title),
        element("div", said, class_=f"verdict {look}") if said else None,
        element("div", *(_card(metric, row) for metric, row in cards), class_="cards")
        if cards
        else None,
    )


def _card(metric: str, row: Row) -> Markup:
    change, between = change_of(row) if seen(row) else ("–", "")
    facts = [
        ("interval", between),
        (
            "from → to",
            f"{words('value', row['production'])} → {words('value', row['value'])}",
        ),
        ("seen by the log", words("covered", row["covered"])),
        ("by", str(row["estimator"])),
    ]
    listed = [joined(element("dt", name), element("dd", text)) for name, text in facts if text]
    word = row.get("verdict")
    return element(
        "div",
        element("h2", metric, element("small", metric_words(metric) + per_list(metric, ","))),
        paragraph(change, class_="big"),
        element("dl", *listed),
        badge(str(word)) if word else None,
        class_="card",
    )


def notes(report: Report) -> Section | None:
    """What the library says of the answer."""
    if not report.evaluation.notes:
        return None
    entries = [element("li", note) for note in report.evaluation.notes]
    return Section("notes", "Read this with the numbers", [element("ul", *entries)])


# --- estimates ------------------------------------------------------------------------------------


def estimates(report: Report) -> Section | None:
    """Each metric by every click model, against production."""
    found = report.evaluation if report.models is None else report.models
    if segments_of(found):
        return None
    chosen = answers(report.evaluation)
    parts: list[Child] = []
    for metric in dict.fromkeys(str(row["metric"]) for row in found.rows):
        rows = [row for row in found.rows if row["metric"] == metric]
        own = [row for row in rows if row["estimator"] == chosen[metric]["estimator"]][:1]
        parts.append(_estimates(metric, rows, own[0] if own else rows[0]))
    about = paragraph(
        f"The dot is the estimate for the candidate, the bar its {report.confidence:.0%} interval, "
        f"the dashed line what {report.evaluation.against} got. Each row predicts clicks from "
        "something else; the first one is the answer."
    )
    said = element("ul", *(element("li", sentence) for sentence in found.headline.said))
    against = report.evaluation.against
    return Section("estimates", f"The estimates against {against}", [about, *parts, said])


def _estimates(metric: str, rows: Sequence[Row], chosen: Row) -> Markup:
    several = len({row["clip"] for row in rows}) > 1
    ordered = [chosen, *(row for row in rows if row is not chosen)]
    scale = _range(ordered, "value", "low", "high", chosen["production"])
    body = [_estimate(row, scale, is_answer=row is chosen, several=several) for row in ordered]
    foot = axis_row(scale, tick_words(scale), 5)
    head = [
        ("Click model", ""),
        (metric + per_list(metric), "picture"),
        ("Estimate", "number"),
        ("Change", "number"),
        ("Seen", "number"),
    ]
    return table(head, body, foot, caption=f"{metric}: {metric_words(metric)}", class_="chart")


def _estimate(row: Row, scale: Scale, *, is_answer: bool, several: bool) -> list[Child]:
    name = str(row["estimator"]) + (f", M = {words('clip', row['clip'])}" if several else "")
    label = joined(
        element("span", name, class_="answer" if is_answer else None),
        element("small", MODELS.get(str(row["estimator"]), "")),
    )
    covered = words("covered", row["covered"])
    if not seen(row):
        return [label, strip(_production(row, scale)), "–", "saw next to nothing", covered]
    drawn = interval(
        scale, row.get("low"), row.get("high"), row["value"], "one" if is_answer else "other"
    )
    low, high = row.get("low"), row.get("high")
    between = "" if low is None else f"{words('value', low)} to {words('value', high)}"
    return [
        label,
        strip(_production(row, scale), drawn),
        two_lines(words("value", row["value"]), between),
        two_lines(*change_of(row)),
        covered,
    ]


def _production(row: Row, scale: Scale) -> Markup | None:
    if row["production"] is None or not scale.holds(row["production"]):
        return None
    return upright(scale(row["production"]))


def _range(rows: Sequence[Row], value: str, low: str, high: str, level: float | None) -> Scale:
    """A scale around what the first row says; what is far beyond it is cut."""
    shown = [row for row in rows if seen(row) and row[value] is not None]
    ends = [[row[c] for c in (value, low, high) if row.get(c) is not None] for row in shown]
    level_ = [] if level is None else [float(level)]
    core = [*level_, *(ends[0] if ends else [])]
    if not core:
        return Scale.of([])
    room = _FAR * max(max(core) - min(core), 0.1 * abs(level or 0.0))
    least, most = min(core) - room, max(core) + room
    return Scale.of([*core, *(min(max(x, least), most) for row in ends for x in row)])


def by_segment(report: Report) -> Section | None:
    """The change in every segment, all on one scale."""
    found = report.segments
    if found is None and segments_of(report.evaluation):
        found = report.evaluation
    if found is None:
        return None
    names = segments_of(found)
    parts = []
    for metric, first in answers(found).items():
        rows = [
            row
            for row in found.rows
            if (row["metric"], row["estimator"], row["clip"])
            == (metric, first["estimator"], first["clip"])
        ]
        parts.append(_segments(metric, rows, names))
    about = paragraph(
        f"The change in each part of the log with its {report.confidence:.0%} interval. All rows "
        "of a chart share one scale."
    )
    return Section("segments", f"By {' and '.join(names)}", [about, *parts])


def _segments(metric: str, rows: Sequence[Row], names: Sequence[str]) -> Markup:
    most = sorted(rows, key=lambda row: -float(row["records"] or 0))[:_MOST_SEGMENTS]
    shown = [row for row in rows if row in most]
    column = "lift" if all(row.get("lift") is not None for row in shown if seen(row)) else "change"
    scale = _range(shown, column, f"{column}_low", f"{column}_high", 0.0)
    body: list[list[Child]] = []
    for row in shown:
        name = " · ".join(words(by, row[by]) for by in names)
        zero = upright(scale(0.0))
        records = words("records", row["records"])
        word = row.get("verdict")
        if not seen(row) or row[column] is None:
            body.append([name, strip(zero), "–", records, ""])
            continue
        ends = row.get(f"{column}_low"), row.get(f"{column}_high")
        picture = strip(zero, interval(scale, *ends, row[column], "one"))
        change = two_lines(words(column, row[column]), span(row, column))
        body.append([name, picture, change, records, badge(str(word)) if word else ""])
    foot = axis_row(scale, tick_words(scale, percent=column == "lift"), 5)
    head = [
        (" · ".join(names), ""),
        ("Change", "picture"),
        ("Change, interval", "number"),
        ("Records", "number"),
        ("Verdict", ""),
    ]
    caption = f"{metric} by {rows[0]['estimator']}"
    if len(shown) < len(rows):
        caption += f": the {len(shown)} largest of {len(rows):,} segments"
    return table(head, body, foot, caption=caption, class_="chart")


# --- what the log saw -----------------------------------------------------------------------------


def support(report: Report) -> Section | None:
    """The share of the candidate that was ever shown, as bars."""
    found = report.support
    if found is None or not found.rows:
        return None
    parts: list[Child] = []
    for metric in dict.fromkeys(str(row["metric"]) for row in found.rows):
        rows: list[Row] = [row for row in found.rows if row["metric"] == metric]
        dated = any(row.get("repeated") is not None for row in rows)
        body = [
            [
                joined(str(row["estimator"]), element("small", MODELS.get(row["estimator"], ""))),
                strip(bar(float(row["covered"] or 0.0))),
                words("covered", row["covered"]),
                *([words("repeated", row["repeated"])] if dated else []),
            ]
            for row in rows
        ]
        head = [
            ("What counts as the same", ""),
            ("Share ever shown", "picture"),
            ("Seen", "number"),
            *([("Of that, in 5+ periods", "number")] if dated else []),
        ]
        caption = f"{metric}: {metric_words(metric)}"
        label = f"What the log has seen, {metric}"
        parts.append(table(head, body, caption=caption, label=label, class_="chart"))
    listed = element("ul", *(element("li", note) for note in found.notes)) if found.notes else None
    about = paragraph(
        "Of all that the candidate would show, weighed by how much a position counts, the share "
        "that production has shown in a position that counts. Clicks say nothing about the rest."
    )
    content = [about, *parts, listed, _darkest(report)]
    return Section("support", "What the log has seen of the candidate", content)


def _darkest(report: Report) -> Markup | None:
    """The contexts with most of what was never shown, by the estimator that sees most."""
    found = report.support
    if found is None or not found.contexts.rows:
        return None
    last = found.contexts.rows[-1]
    rows = [
        row
        for row in found.contexts.rows
        if (row["estimator"], row["metric"]) == (last["estimator"], found.rows[0]["metric"])
    ][:_DARKEST]
    if not rows:
        return None
    body = [
        [
            words("", row["context"]),
            words("records", row["records"]),
            words("covered", row["covered"]),
            words("share", row["share"]),
        ]
        for row in rows
    ]
    head = [
        ("Context", ""),
        ("Records", "number"),
        ("Seen there", "number"),
        ("Of all that was never shown", "number"),
    ]
    return table(head, body, caption=f"Where most is unseen, by {last['estimator']}")


# --- clips ----------------------------------------------------------------------------------------


def clips(report: Report) -> Section | None:
    """Estimates over the clip M."""
    found = report.clips
    if found is None or not found.rows:
        return None
    chosen = answers(report.evaluation)
    figures = []
    for metric in dict.fromkeys(str(row["metric"]) for row in found.rows):
        rows = [row for row in found.rows if row["metric"] == metric and seen(row)]
        if rows:
            figures.append(_over_clips(metric, rows, chosen[metric], report.evaluation.against))
    if not figures:
        return None
    about = paragraph(
        "Weighted estimators count a click up to M times, to make up for what production showed "
        "too seldom. A small M leaves something out; a large M trusts single clicks. Where the "
        "lines are flat, M does not matter. The ladder has no M."
    )
    drawn = element("div", *figures, class_="figures")
    return Section("clips", "How the answer moves with the clip M", [about, drawn])


def _over_clips(metric: str, rows: Sequence[Row], chosen: Row, against: str) -> Markup:
    places = list(dict.fromkeys(row["clip"] for row in rows))
    names = list(dict.fromkeys(str(row["estimator"]) for row in rows))
    value = {(row["estimator"], row["clip"]): row["value"] for row in rows}
    drawn = [
        Line(name, [value.get((name, clip)) for clip in places], look)
        for name, look in zip(names, _LOOKS, strict=False)
    ]
    levels = [(float(chosen["production"]), "production")]
    marks = [(name, look) for name, look in zip(names, _LOOKS, strict=False)]
    marks.append((against, "level production"))
    if chosen["estimator"] not in names and chosen["value"] is not None:
        levels.append((float(chosen["value"]), "chosen"))
        marks.append((str(chosen["estimator"]), "level chosen"))
    ticks = heights([y for line in drawn for y in line.ys] + [level for level, _ in levels])
    written = [words("clip", clip) for clip in places]
    body = [
        [written[i], *(words("value", line.ys[i]) for line in drawn)] for i in range(len(places))
    ]
    head = [("M", ""), *((name, "number") for name in names)]
    return figure(
        lines(written, drawn, levels, ticks),
        f"{metric} by estimator for M from {written[0]} to {written[-1]}; numbers below",
        joined(element("strong", metric), " per list, over M", legend(marks)),
        numbers_below(head, body),
    )
