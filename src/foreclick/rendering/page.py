"""A report as a page of one file: no script, no network, and a policy that allows neither."""

from __future__ import annotations

from typing import Any

from foreclick.questions.answers import answering_of, is_blind
from foreclick.questions.contexts import ContextChanges, MostShown
from foreclick.questions.report import Report
from foreclick.rendering.charts import backtest, estimates, evaluation, replay, segments, support
from foreclick.rendering.drawing import Line, Plot, Rows, Scale, Span, interval
from foreclick.rendering.markup import render
from foreclick.rendering.wording import (
    VERDICTS,
    answers,
    assumptions,
    change_of,
    metric_words,
    per_list,
    segments_of,
    span_words,
    verdict,
    words,
)
from foreclick.words import number_of, plural

_LEAST_COVERED = 5


def report_page(report: Report) -> str:
    """A report as a page that needs no other file."""
    word, sentence = verdict(report)
    found, by = report.evaluation, segments_of(report.evaluation)
    chosen = answers(found)
    answer = str(found.answering or answering_of(found["estimator"]))
    cards = []
    for metric, row in () if by else chosen.items():
        change, between = ("–", "") if is_blind(row) else change_of(row)
        facts = [
            ("interval", between),
            (
                f"from → to{per_list(metric)}",
                f"{words('value', row['production'])} → {words('value', row['value'])}",
            ),
            ("seen by the log", words("covered", row["covered"])),
        ]
        cards.append(
            (metric, metric_words(metric), change, [f for f in facts if f[1]], row.get("verdict"))
        )
    models = report.models
    others = []
    if models is not None and set(models["estimator"]) > set(found["estimator"]):
        others = [
            estimates(m, [row for row in models.rows if row["metric"] == m], answer) for m in chosen
        ]
    split = found if by else report.segments
    made = [*report.made]
    if report.check is not None:
        sizes = [row for row in report.check.rows if row["section"] == "size"]
        size = "; ".join(f"{row['fact']}: {words('found', row['found'])}" for row in sizes)
        made[1:1] = [("Size", size)]
    if report.date is not None:
        made.append(("Made", f"{report.date:%Y-%m-%d %H:%M} UTC"))
    return render(
        "report.html",
        title=report.title or "foreclick report",
        report=report,
        date="" if report.date is None else f"{report.date:%-d %B %Y}",
        word=word,
        look=VERDICTS.get(word, ("", "unknown"))[1],
        sentence=sentence,
        cards=cards,
        against=found.against,
        said=[*found.headline.said, *found.notes],
        charts=[] if by else [(c, numbers(c)) for c in evaluation(found)],
        by=" and ".join(segments_of(split) if split else ()),
        parts=segments(split) if split else [],
        past=report.past,
        tests=[] if report.past is None else replay(report.past)[:1],
        contexts=report.contexts,
        changes=[] if report.contexts is None else _changes(report.contexts),
        groups="" if report.contexts is None else _groups(report.contexts),
        assumptions=assumptions(report),
        made=made,
        others=others,
        models=models,
        support=report.support,
        seen=[] if report.support is None else support(report.support),
        unseen=_least_covered(report),
        activity=_activity(report),
        backtest=report.backtest,
        errors=[]
        if report.backtest is None
        else [(c, numbers(c)) for c in backtest(report.backtest)],
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


# --- contexts -------------------------------------------------------------------------------------


def _changes(found: ContextChanges) -> list[tuple[str, list[dict[str, Any]]]]:
    """The contexts that gain and that lose most: their changes, drawn on one scale, and lists."""
    ends = [row[c] for row in found.rows for c in ("change", "change_low", "change_high")]
    scale = Scale.around(ends, zero=True)  # type: ignore[arg-type]
    gain: list[dict[str, Any]] = []
    lose: list[dict[str, Any]] = []
    for row, sides in zip(found.rows, found.lists, strict=True):
        low, high = row["change_low"], row["change_high"]
        span = Span(row["change"] or 0.0, low, high)  # type: ignore[arg-type]
        before = {item: k for k, item in enumerate(sides.before.items)}
        moves = [_moved(before.get(item), k) for k, item in enumerate(sides.after.items)]
        facts = {
            "row": row,
            "between": span_words("change", low, high),
            "zero": scale(0.0),
            "marks": interval(scale, span),
            "lists": [
                ("Today, most often", _share(sides.before), [(i, "") for i in sides.before.items]),
                (
                    "Candidate",
                    _share(sides.after),
                    list(zip(sides.after.items, moves, strict=True)),
                ),
            ],
        }
        (gain if row["adds"] > 0 else lose).append(facts)  # type: ignore[operator]
    return [part for part in (("Gain most", gain), ("Lose most", lose)) if part[1]]


def _moved(before: int | None, now: int) -> str:
    """How an item moved, in a sign and a word."""
    if before is None:
        return "new"
    if before == now:
        return ""
    return f"▲ {before - now}" if before > now else f"▼ {now - before}"


def _share(side: MostShown) -> str:
    return "" if side.share >= 1 - 1e-9 or not side.items else f" ({words('share', side.share)})"


def _groups(found: ContextChanges) -> str:
    """How many contexts gain, lose and stay as they are, and what they add."""
    said = []
    for group, verb in ((found.gain, "gain"), (found.lose, "lose")):
        if group.contexts:
            told = plural(group.contexts, f"{verb}s", verb)
            adds = words("change", group.adds)
            said.append(f"{number_of(group.contexts, 'context')} {told} ({adds} together)")
    if count := found.same.contexts:
        stay = plural(count, "stays as it is", "stay as they are")
        said.append(f"{number_of(count, 'context')} {stay}")
    return ", ".join(said)


# --- the log --------------------------------------------------------------------------------------


def _least_covered(report: Report) -> list[list[str]]:
    """The contexts with most of what was never shown, by the estimator that sees most."""
    found = report.support
    if found is None or not found.contexts.rows:
        return []
    last, metric = found.contexts.rows[-1], found.rows[0]["metric"]
    mine = [
        row
        for row in found.contexts.rows
        if (row["estimator"], row["metric"]) == (last["estimator"], metric)
    ]
    columns = ("context", "records", "covered", "share")
    return [[words(c, row[c]) for c in columns] for row in mine[:_LEAST_COVERED]]


def _activity(report: Report) -> list[tuple[Plot, list[list[str]] | None]]:
    """Clicks by position and by period, and records by period."""
    sections: dict[str, list[tuple[str, float]]] = {}
    for row in () if report.check is None else report.check.rows:
        fact = str(row["fact"]).removeprefix("position ")
        if row["section"] != "size" and isinstance(row["found"], int | float):
            sections.setdefault(str(row["section"]), []).append((fact, float(row["found"])))
    by_position = next((name for name in sections if name.endswith(" by position")), None)
    if by_position is None:
        return []
    reward = by_position.removesuffix(" by position")
    plots = []
    for name, title, place, bars in (
        (by_position, f"{reward} per shown item, by position", "position", True),
        (f"{reward} per list by period", f"{reward} per list, by period", "period", False),
        ("records by period", "records", "period", True),
    ):
        facts = sections.get(name, [])
        if len(facts) < 2:
            continue
        places, ys = [place for place, _ in facts], [y for _, y in facts]
        rates = place == "position" and max(ys) <= 1
        short = [f"{y:.0%}" if y >= 0.005 or y == 0 else "<1%" for y in ys] if rates else None
        written = (short or [""] * len(ys)) if bars else None
        plots.append(
            Plot(
                title, (place, reward), places, [Line(title, ys, "one")], columns=written, zero=True
            )
        )
    return [(plot, numbers(plot)) for plot in plots]
