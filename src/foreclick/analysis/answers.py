"""The answer of an evaluation, in a few lines: what a reader in a hurry wants to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from foreclick.analysis.headline import HAS_A_SAY
from foreclick.models import MODELS
from foreclick.results import Headline, Value, format_value, span
from foreclick.words import listed, number_of, plural

NEXT_TO_NOTHING = 0.01
"""Of the candidate's exposure; of an estimator that saw less, no number is shown."""

_LINES = 20  # segments that an answer lists; the table has them all
_SAYING = ("agree", "agree on the verdict, not on its size", "disagree")
_NUMBERS = ("value", "se", "low", "high", "borrowed", "margin")
_DIFFERENCES = ("change", "change_low", "change_high", "lift", "lift_low", "lift_high")

Row = Mapping[str, Any]


def answering_of(names: Sequence[str]) -> str:
    """Which of the estimators that a user named gives the answer."""
    return next((name for name in ("ladder", "ladder-ip", "ip") if name in names), names[0])


def is_blind(row: Row) -> bool:
    """Whether the estimator saw next to nothing of the candidate."""
    return row["value"] is None or (row["covered"] or 0.0) < NEXT_TO_NOTHING


def without_numbers(row: Row) -> dict[str, Value]:
    """A row without the numbers that nothing stands behind."""
    blank = dict.fromkeys(name for name in (*_NUMBERS, *_DIFFERENCES) if name in row)
    return {**row, **blank}


def headline_of(
    rows: Sequence[Row],
    *,
    by: Sequence[str],
    answering: str,
    against: str,
    confidence: float | None,
    disputed: Set[str],
) -> Headline:
    """The answer by one estimator, and what the others say of it.

    Args:
        rows: those of the evaluation.
        by: the segments that it was split by.
        answering: the estimator that gives the answer.
        against: what the candidate is compared with, in a word.
        confidence: of the intervals; None without.
        disputed: estimators that were found to contradict each other.
    """
    mine = [row for row in rows if row["estimator"] == answering]
    several = len({row["clip"] for row in mine}) > 1
    lines = [line_of(row, by, several=several) for row in mine[:_LINES]]
    said = [_seen(mine)] if not by else []
    if len(mine) > _LINES:
        said.insert(0, f"The first {_LINES} of {len(mine):,}; the table has them all.")
    others: dict[str, list[Row]] = {}
    for row in rows:
        others.setdefault(row["estimator"], []).append(row)
    others.pop(answering)
    said += _others(mine, others, by, disputed) if confidence else _unjudged(others)
    records = max(row["records"] for row in mine)
    rests = [number_of(records, "record")]
    rests += [] if confidence is None else [f"{100 * confidence:g}% confidence"]
    title = f"Candidate against {against}, by {answering} ({', '.join(rests)})"
    return Headline(title, tuple(lines), tuple(filter(None, said)))


def line_of(row: Row, by: Sequence[str], *, several: bool) -> tuple[str, ...]:
    """What, verdict, how much, between what, from where to where."""
    names = [str(row["metric"]), *(format_value(name, row[name]) for name in by)]
    names += [f"M = {format_value('clip', row['clip'])}"] if several else []
    name, verdict = " ".join(names), row.get("verdict")
    if is_blind(row):
        seen = format_value("covered", row["covered"])
        why = f"no number: the log saw {seen} of what the candidate would show"
        if row["value"] is None and row["covered"]:
            why = "no number: the denominator is 0 in this log"
        return (name, *([verdict] if verdict else []), why)
    # Where production earns nothing, a change cannot be told in per cent of it.
    column = "change" if row["lift"] is None else "lift"
    told = [format_value(column, row[column])]
    if row.get(f"{column}_low") is not None:
        told.append(f"({span(column, row[f'{column}_low'], row[f'{column}_high'])})")
    start, end = (format_value("value", row[c]) for c in ("production", "value"))
    return (name, *([verdict] if verdict else []), *told, f"{start} → {end}")


def _seen(rows: Sequence[Row]) -> str:
    """How much of the answer the log saw."""
    shares = {row["metric"]: format_value("covered", row["covered"]) for row in rows}
    different = set(shares.values())
    if different == {"100%"}:
        return "The log saw all that the candidate would show."
    if len(different) == 1:
        return f"The log saw {different.pop()} of what the candidate would show."
    each = listed([f"{share} for {metric}" for metric, share in shares.items()])
    return f"Of what the candidate would show, the log saw {each}."


def _others(
    mine: Sequence[Row],
    others: Mapping[str, Sequence[Row]],
    by: Sequence[str],
    disputed: Set[str],
) -> list[str]:
    """Whether the other estimators come to the same, and which of them have no say."""
    groups: dict[str, list[str]] = {name: [] for name in (*_SAYING, "silent", "steady")}
    keys = ("metric", *by)  # not the clip: a ladder has none
    own = {tuple(row[key] for key in keys): row for row in mine}
    for name, rows in others.items():
        pairs = [
            (a, b)
            for a, b in ((own[tuple(row[key] for key in keys)], row) for row in rows)
            if not is_blind(a) and not is_blind(b) and b["covered"] >= HAS_A_SAY
        ]
        if name in MODELS and not MODELS[name].sees_items:
            groups["steady"].append(name)
        elif not pairs:
            groups["silent"].append(f"{name} ({_most(rows)})")
        elif name not in disputed and all(_overlap(a, b) for a, b in pairs):
            groups["agree"].append(_said(name, rows))
        elif name not in disputed and all(a.get("verdict") == b.get("verdict") for a, b in pairs):
            groups["agree on the verdict, not on its size"].append(_said(name, rows))
        else:
            groups["disagree"].append(_said(name, rows))
    found = []
    for saying in _SAYING:
        verb, _, rest = saying.partition(" ")
        if names := groups[saying]:
            said = f"{listed(names)} {plural(len(names), f'{verb}s', verb)}"
            found.append(f"{said} {rest}".rstrip() + ".")
    if groups["silent"]:
        found.append(f"{listed(groups['silent'])} saw too little of it to have a say.")
    if groups["steady"]:
        found.append(f"No say, because no ranking matters to it: {', '.join(groups['steady'])}.")
    return found


def _unjudged(others: Mapping[str, Sequence[Row]]) -> list[str]:
    """What the others say, where no interval says how far apart is far."""
    told = [_said(name, rows) for name, rows in others.items()]
    return [f"Other click models: {', '.join(told)}."] if told else []


def _said(name: str, rows: Sequence[Row]) -> str:
    """An estimator with its changes, if they are few."""
    if len(rows) > 3:  # noqa: PLR2004 - more numbers than a sentence holds
        return name
    told = ["–" if is_blind(row) else format_value("lift", row["lift"]) for row in rows]
    return f"{name} ({', '.join(told)})"


def _most(rows: Sequence[Row]) -> str:
    return format_value("covered", max(row["covered"] or 0.0 for row in rows))


def _overlap(a: Row, b: Row) -> bool:
    """Whether two intervals of the same change have a value in common."""
    if any(row.get(name) is None for row in (a, b) for name in ("change_low", "change_high")):
        return True
    return bool(a["change_low"] <= b["change_high"] and b["change_low"] <= a["change_high"])
