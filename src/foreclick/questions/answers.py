"""The answer of an evaluation in words: a headline for readers in a hurry, and notes."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from foreclick import inference
from foreclick.batches import FEW_RECORDS, batches_of, contexts_repeat
from foreclick.errors import ForeclickWarning
from foreclick.estimate.estimates import Estimate, Estimates
from foreclick.estimators import Ladder
from foreclick.learn.above import ALARM
from foreclick.learn.trend import drift_of
from foreclick.metrics import AnyMetric
from foreclick.models import MODELS
from foreclick.policies import Lists, Policy
from foreclick.question import Question
from foreclick.questions.verdicts import HAS_A_SAY
from foreclick.results import Headline, Value, format_value, span
from foreclick.tallies import Tally
from foreclick.words import few, listed, number_of, plural

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
    whole: Sequence[Row] = (),
) -> Headline:
    """The answer by one estimator, and what the others say of it.

    Args:
        rows: those of the evaluation.
        by: the segments that it was split by.
        answering: the estimator that gives the answer.
        against: what the candidate is compared with, in a word.
        confidence: of the intervals; None without.
        disputed: estimators that were found to contradict each other.
        whole: rows of the whole log, where the others are its parts.
    """
    mine = [row for row in rows if row["estimator"] == answering]
    several = len({row["clip"] for row in mine}) > 1
    lines = [
        line_of({**row, **dict.fromkeys(by, ""), by[0]: "all"}, by, several=several)
        for row in whole
        if row["estimator"] == answering
    ]
    lines += [line_of(row, by, several=several) for row in mine[:_LINES]]
    said = [_seen(mine)] if not by else []
    if len(mine) > _LINES:
        said.insert(0, f"The first {_LINES} of {len(mine):,}; the table has them all.")
    others: dict[str, list[Row]] = {}
    for row in rows:
        others.setdefault(row["estimator"], []).append(row)
    others.pop(answering)
    said += _others(mine, others, by, disputed) if confidence else _unjudged(others)
    records = (whole or mine)[0]["records"]
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
    if len(rows) > 3:
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


# --- for trackers of experiments ---------------------------------------------------------------

_TRACKED = (
    *("value", "se", "low", "high", "production", "change", "change_low", "change_high"),
    *("lift", "lift_low", "lift_high", "covered", "ess", "records"),
)
"""What is worth tracking."""


def flat_metrics(
    rows: Sequence[Mapping[str, Value]], answering: str, by: Sequence[str]
) -> dict[str, float]:
    """Numbers by a key that says what they are; those that do not exist are left out.

    Args:
        rows: of an evaluation.
        answering: the estimator that need not be named.
        by: the segments that they are split by.
    """
    clips = {row["clip"] for row in rows}
    found = {}
    for row in rows:
        parts = [str(row["metric"]).replace("@", "_at_").replace("/", "_per_")]
        parts += [] if row["estimator"] == answering else [str(row["estimator"])]
        parts += [f"clip_{row['clip']:g}"] if len(clips) > 1 else []
        parts += [f"{name}_{row[name]}" for name in by]
        key = "/".join(_legal(part) for part in parts)
        for column in _TRACKED:
            number = row.get(column)
            if isinstance(number, int | float) and math.isfinite(number):
                found[f"{key}/{column}"] = float(number)
    return found


def _legal(text: str) -> str:
    """Text with the characters that every tracker takes: of others MLflow refuses the key."""
    return re.sub(r"[^\w .-]", "_", text)


# --- notes -----------------------------------------------------------------------------------

_THIN = 0.8  # of the candidate's exposure; below it, the missing part is worth a note
_WORTH_SAYING = 0.0005  # of an answer that came from some rung


def chosen_note(policy: Policy) -> list[str]:
    """A note on a policy that was itself chosen by a log."""
    if not isinstance(policy, Lists) or not policy.optimized:
        return []
    said = (
        "`optimize` chose this policy. On the log that it was chosen by, its value is too high: "
        "luck in the log chose it too. What `optimize` printed is its honest value there."
    )
    return [said]


def depth_note(counted: Tally, metrics: Iterable[AnyMetric]) -> list[str]:
    """A note on metrics that count positions which no list of the log has."""
    deep = [str(m) for m in metrics if any(p.depth > counted.shape.depth for p in m.parts)]
    if not deep:
        return []
    positions = number_of(counted.shape.depth, "position")
    said = f"Deeper than the lists of the log, which have up to {positions}: {', '.join(deep)}."
    return [f"{said} Nothing is counted below."]


def repetition_note(counted: Tally, question: Question) -> list[str]:
    """A warning where frequencies are asked for of contexts that hardly repeat."""
    weighing = dict.fromkeys(
        e.name
        for number, e in enumerate(question.estimators)
        if question.logging_of(number) is None
        and e.model.sees_items
        and not isinstance(e, Ladder)  # which knows what to do with few
    )
    if not weighing:
        return []
    contexts, median = contexts_repeat(counted)
    if median >= FEW_RECORDS:
        return []
    message = (
        f"the contexts hardly repeat: the median of {number_of(contexts, 'context')} has "
        f"{median:g} {plural(median, 'record')}, fewer than {FEW_RECORDS}. The log then says "
        "little about what else could have been shown, and "
        f"{', '.join(weighing)} weigh by its frequencies. Use a coarser context (a query class, or "
        "context=None), read the log with propensity=, or give the logging policy with logging=."
    )
    warnings.warn(message, ForeclickWarning, stacklevel=5)
    return [message[0].upper() + message[1:]]


def verdict_notes(
    rows: list[dict[str, Any]],
    verdicts: list[inference.Verdict],
    by: Sequence[str],
    answering: str,
) -> list[str]:
    """What the answer's verdicts do not say themselves: of segments, guardrails and doubts."""
    if len({row["clip"] for row in rows}) > 1:
        return []  # several clips: the column says it shorter
    notes = []
    for metric in dict.fromkeys(row["metric"] for row in rows):
        mine = [
            i for i, r in enumerate(rows) if (r["metric"], r["estimator"]) == (metric, answering)
        ]
        if by:
            notes.append(_by_segment([rows[i] for i in mine], by))
        elif rows[mine[0]]["value"] is not None and not verdicts[mine[0]].plain:
            notes.append(str(verdicts[mine[0]]))
    return notes


def _by_segment(rows: list[dict[str, Any]], by: Sequence[str]) -> str:
    """Which segments got which verdict, for one metric and estimator."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["verdict"], []).append(" ".join(str(row[name]) for name in by))
    words = [word for word in found if word != inference.UNKNOWN]
    said = [f"{word} in {few(found[word])}" for word in words]
    if inference.UNKNOWN in found:
        open_ = len(found[inference.UNKNOWN])
        said.append(f"cannot tell in {f'{open_:,}' if words else 'any'} of {len(rows):,}")
    whose = f"{rows[0]['metric']} by {rows[0]['estimator']}"
    return (
        f"{whose}: {'; '.join(said)}. The verdicts allow for {number_of(len(rows), 'segment')} at "
        "once; the intervals are each on its own."
    )


def coverage_notes(
    rows: list[dict[str, Any]], estimates: Sequence[Estimate], ignored: int
) -> list[str]:
    """In plain words: what the log cannot see of the candidate."""
    notes = []
    names = dict.fromkeys(str(row["estimator"]) for row in rows)
    by_name = {name: [row for row in rows if row["estimator"] == name] for name in names}
    silent = [_silent(name, mine) for name, mine in by_name.items()]
    if any(silent):
        notes.append(
            f"No answer by {', '.join(filter(None, silent))}: nothing of what the candidate would "
            "show was ever shown, so the log cannot tell its value. Check that contexts and items "
            "are spelt as in the log, or show the candidate to a few users first."
        )
    lowest = {
        name: min((row["covered"] for row in mine if row["value"] is not None), default=1.0)
        for name, mine in by_name.items()
    }
    told = {one.estimator for one in estimates if one.ladder}  # `rung_notes` say where it looked
    thin = [
        f"{name} {covered:.0%}"
        for name, covered in lowest.items()
        if covered < _THIN and name not in told
    ]
    if thin:
        notes.append(
            "Too low by what was never shown: only part of the candidate's exposure is covered "
            f"({', '.join(thin)}), and the rest counts as no clicks, at the upper ends as much as "
            "the log's best position. Trust an estimator with more coverage, or see fc.support."
        )
    lost = {one.estimator: one.unlogged for one in estimates if one.unlogged}
    if lost:
        named = ", ".join(f"{name} {count:,.0f}" for name, count in lost.items())
        notes.append(
            f"Logged records in cells with probability 0 under the given logging policy: {named}. "
            "They weigh M where it is finite and are left out where it is not. Check logging=."
        )
    if ignored:
        notes.append(f"Ignored: {number_of(ignored, 'context')} that only the candidate has.")
    return notes


_RESTS_ON = {"rankers": "on how the rankers place them", "new": "on items never shown there"}


def rung_notes(estimates: Sequence[Estimate]) -> list[str]:
    """Of each ladder, in plain words, what its answer rests on."""
    totals: dict[str, dict[str, float]] = {}
    for one in estimates:
        for rung, share in (one.parts[0].rungs or {}).items():
            words = _RESTS_ON.get(rung, "on clicks on these items")
            mine = totals.setdefault(one.estimator, {})
            mine[words] = mine.get(words, 0.0) + share
    notes = []
    for name, mine in totals.items():
        whole = sum(mine.values())
        shares = [
            f"{share / whole:.1%} {words}"
            for words, share in mine.items()
            if whole and share / whole >= _WORTH_SAYING
        ]
        if shares:
            notes.append(f"What {name} says rests {', '.join(shares)}.")
    return notes


def prior_notes(counted: Tally, found: Estimates) -> list[str]:
    """That production learns from its clicks, and that the rates of items change with time."""
    notes = []
    for prior in found.priors[:1] if found.question.clusters else ():
        if prior.reacting > ALARM:
            z = f"z = {prior.reacting:.0f}"
            notes.append(f"Production reacts to the log's clicks ({z}); the answer allows for it.")
        if outside := max((one.outside for one in prior.alike), default=0.0):
            notes.append(
                f"Production seems unable to show about {outside:.0%} of what the candidate shows: "
                "another retrieval, or new stock. These items are taken to be as good as others "
                "that the candidate places so high, within a factor of two or three. If production "
                "could have shown them, say estimators=Ladder(same_retrieval=True)."
            )
        if counted.shape.period:
            notes += drift_of(batches_of(counted), prior.reward, prior.theta.p).of_items()
    return notes


def _silent(name: str, rows: list[dict[str, Any]]) -> str:
    """An estimator without an answer, and in how much of the table."""
    without = sum(row["value"] is None for row in rows)
    if without in (0, len(rows)):
        return name if without else ""
    return f"{name} (in {without} of {len(rows)} rows)"
