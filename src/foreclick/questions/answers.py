"""The answer of an evaluation in words: a headline for readers in a hurry, and notes."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from foreclick.batches import FEW_RECORDS
from foreclick.errors import ForeclickWarning
from foreclick.estimate.estimates import Estimate
from foreclick.metrics import AnyMetric
from foreclick.models import MODELS
from foreclick.policies import Lists, Policy
from foreclick.questions.verdicts import HAS_A_SAY, UNKNOWN, Verdict
from foreclick.results import Headline, Value, format_value, span
from foreclick.words import few, listed, number_of, plural

NEXT_TO_NOTHING = 0.01
"""Of the candidate's exposure; of an estimator that saw less, no number is shown."""

_LINES = 20  # segments that an answer lists; the table has them all
_THIN = 0.8  # of the candidate's exposure; below it, the missing part is worth a note
_WORTH_SAYING = 0.005  # of an answer that rests on something
_NUMBERS = (
    *("value", "se", "low", "high", "borrowed", "margin"),
    *("change", "change_low", "change_high", "lift", "lift_low", "lift_high"),
)
_TRACKED = (
    *("value", "se", "low", "high", "production", "change", "change_low", "change_high"),
    *("lift", "lift_low", "lift_high", "covered", "ess", "records"),
)
_RESTS_ON = {"rankers": "on how the rankers place them", "new": "on items never shown there"}
_CALLED = {
    "ladder": "the ladder (the closest match the log has)",
    "ladder-ip": "the ladder (the closest match the log has)",
    "ip": "the cautious check (same item, same position)",
}
"""Estimators in sentences; others have the names that tables give them."""

Row = Mapping[str, Any]


def answering_of(names: Sequence[str]) -> str:
    """Which of the estimators that a user named gives the answer."""
    return next((name for name in ("ladder", "ladder-ip", "ip") if name in names), names[0])


def is_blind(row: Row) -> bool:
    """Whether the estimator saw next to nothing of the candidate."""
    return row["value"] is None or (row["covered"] or 0.0) < NEXT_TO_NOTHING


def without_numbers(row: Row) -> dict[str, Value]:
    """A row without the numbers that nothing stands behind."""
    return {**row, **dict.fromkeys(name for name in _NUMBERS if name in row)}


# --- the headline ---------------------------------------------------------------------------------


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
    answers = [row for row in rows if row["estimator"] == answering]
    several = len({row["clip"] for row in answers}) > 1
    lines = [
        line_of({**row, **dict.fromkeys(by, ""), by[0]: "all"}, by, several=several)
        for row in whole
        if row["estimator"] == answering
    ]
    lines += [line_of(row, by, several=several) for row in answers[:_LINES]]
    said = [_seen(answers)] if not by else []
    if len(answers) > _LINES:
        said.insert(0, f"The first {_LINES} of {len(answers):,}; the table has them all.")
    others: dict[str, list[Row]] = {}
    for row in rows:
        others.setdefault(row["estimator"], []).append(row)
    others.pop(answering)
    said += _others(answers, others, by, disputed) if confidence else _unjudged(others)
    rests = [number_of((whole or answers)[0]["records"], "record")]
    rests += [] if confidence is None else [f"{100 * confidence:g}% confidence"]
    title = f"Candidate against {against}, by {answering} ({', '.join(rests)})"
    return Headline(title, tuple(lines), tuple(said))


def line_of(row: Row, by: Sequence[str] = (), *, several: bool = False) -> tuple[str, ...]:
    """What, verdict, how much, between what, from where to where."""
    names = [str(row["metric"]), *(format_value(name, row[name]) for name in by)]
    names += [f"M = {format_value('clip', row['clip'])}"] if several else []
    first = (" ".join(names), *([row["verdict"]] if row.get("verdict") else []))
    if is_blind(row):
        seen = format_value("covered", row["covered"])
        why = f"no number: the log saw {seen} of what the candidate would show"
        if row["value"] is None and row["covered"]:
            why = "no number: the denominator is 0 in this log"
        return (*first, why)
    return (*first, *lift_words(row, "production"))


def lift_words(row: Row, against: str) -> tuple[str, ...]:
    """How much, between what, from where to where; in units where nothing can be divided by."""
    column = "change" if row["lift"] is None else "lift"
    words = [format_value(column, row[column])]
    if row.get(f"{column}_low") is not None:
        words.append(f"({span(column, row[f'{column}_low'], row[f'{column}_high'])})")
    start, end = (format_value("value", row[c]) for c in (against, "value"))
    return (*words, f"{start} → {end}")


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
    answers: Sequence[Row],
    others: Mapping[str, Sequence[Row]],
    by: Sequence[str],
    disputed: Set[str],
) -> list[str]:
    """Whether the other estimators come to the same, and which of them have no say."""
    sizes = "agree on the verdict, not on its size"
    groups: dict[str, list[str]] = {"agree": [], sizes: [], "disagree": []}
    silent, steady, keys = [], [], ("metric", *by)  # not the clip: a ladder has none
    own = {tuple(row[key] for key in keys): row for row in answers}
    for name, rows in others.items():
        pairs = [
            (a, b)
            for a, b in ((own[tuple(row[key] for key in keys)], row) for row in rows)
            if not is_blind(a) and not is_blind(b) and b["covered"] >= HAS_A_SAY
        ]
        alike = name not in disputed
        if name in MODELS and not MODELS[name].sees_items:
            steady.append(name)
        elif not pairs:
            most = format_value("covered", max(row["covered"] or 0.0 for row in rows))
            silent.append(f"{_CALLED.get(name, name)} saw {most} of it")
        elif alike and all(_overlap(a, b) for a, b in pairs):
            groups["agree"].append(name)
        elif alike and all(a.get("verdict") == b.get("verdict") for a, b in pairs):
            groups[sizes].append(name)
        else:
            groups["disagree"].append(name)
    said = []
    for saying, names in groups.items():
        if names:
            verb, _, rest = saying.partition(" ")
            who = listed([_CALLED.get(name, name) for name in names])
            lifts = "; ".join(filter(None, (_lifts(others[name]) for name in names)))
            words = f"{who} {plural(len(names), f'{verb}s', verb)} {rest}".rstrip()
            said.append(_sentence(f"{words}: {lifts}." if lifts else f"{words}."))
    if silent:
        said.append(_sentence(f"{listed(silent)}, too little to have a say."))
    if steady:
        said.append(f"No say, because no ranking matters to it: {', '.join(steady)}.")
    return said


def _sentence(text: str) -> str:
    """With a capital, unless it begins with an estimator's short name."""
    return text[0].upper() + text[1:] if text.startswith("the ") else text


def _unjudged(others: Mapping[str, Sequence[Row]]) -> list[str]:
    """What the others say, where no interval says how far apart is far."""
    each = [f"{name} ({_lifts(rows)})" if len(rows) <= 3 else name for name, rows in others.items()]
    return [f"Other click models: {', '.join(each)}."] if each else []


def _lifts(rows: Sequence[Row]) -> str:
    """The lifts of an estimator, if they are few."""
    each = ["–" if is_blind(row) else format_value("lift", row["lift"]) for row in rows]
    return ", ".join(each) if len(rows) <= 3 else ""


def _overlap(a: Row, b: Row) -> bool:
    """Whether two intervals of the same change have a value in common."""
    if any(row.get(name) is None for row in (a, b) for name in ("change_low", "change_high")):
        return True
    return bool(a["change_low"] <= b["change_high"] and b["change_low"] <= a["change_high"])


def flat_metrics(
    rows: Sequence[Mapping[str, Value]], answering: str, by: Sequence[str]
) -> dict[str, float]:
    """Numbers for trackers of experiments, by a key that says what they are; None is left out.

    Args:
        rows: of an evaluation.
        answering: the estimator that need not be named.
        by: the segments that they are split by.
    """
    clips = {row["clip"] for row in rows}
    numbers = {}
    for row in rows:
        parts = [str(row["metric"]).replace("@", "_at_").replace("/", "_per_")]
        parts += [] if row["estimator"] == answering else [str(row["estimator"])]
        parts += [f"clip_{row['clip']:g}"] if len(clips) > 1 else []
        parts += [f"{name}_{row[name]}" for name in by]
        # The characters that every tracker takes: of others MLflow refuses the key.
        key = "/".join(re.sub(r"[^\w .-]", "_", part) for part in parts)
        for column in _TRACKED:
            number = row.get(column)
            if isinstance(number, int | float) and math.isfinite(number):
                numbers[f"{key}/{column}"] = float(number)
    return numbers


# --- notes ----------------------------------------------------------------------------------------


def policy_notes(policy: Policy, depth: int, metrics: Iterable[AnyMetric]) -> list[str]:
    """Notes on a policy that a log chose, and on metrics that are deeper than the log's lists."""
    notes = []
    if isinstance(policy, Lists) and policy.optimized:
        notes.append(
            "`optimize` chose this policy. On the log that it was chosen by, its value is too "
            "high: luck in the log chose it too. What `optimize` printed is its honest value there."
        )
    deep = [str(m) for m in metrics if any(p.depth > depth for p in m.parts)]
    if deep:
        notes.append(
            f"Deeper than the lists of the log, which have up to {number_of(depth, 'position')}: "
            f"{', '.join(deep)}. Nothing is counted below."
        )
    return notes


def repetition_note(weighing: Iterable[str], contexts: int, median: float) -> list[str]:
    """A warning where frequencies are asked for of contexts that hardly repeat.

    Args:
        weighing: the estimators that weigh by frequencies.
        contexts: how many the log has.
        median: the records of the median one.
    """
    names = dict.fromkeys(weighing)
    if not names or median >= FEW_RECORDS:
        return []
    message = (
        f"the contexts hardly repeat: the median of {number_of(contexts, 'context')} has "
        f"{median:g} {plural(median, 'record')}, fewer than {FEW_RECORDS}. The log then says "
        "little about what else could have been shown, and "
        f"{', '.join(names)} weigh by its frequencies. Use a coarser context (a query class, or "
        "context=None), read the log with propensity=, or give the logging policy with logging=."
    )
    warnings.warn(message, ForeclickWarning, stacklevel=5)
    return [message[0].upper() + message[1:]]


def verdict_notes(
    rows: Sequence[Row], verdicts: Sequence[Verdict], by: Sequence[str], answering: str
) -> list[str]:
    """What the answer's verdicts do not say themselves: of segments, guardrails and doubts."""
    if len({row["clip"] for row in rows}) > 1:
        return []  # several clips: the column says it shorter
    notes = []
    for metric in dict.fromkeys(row["metric"] for row in rows):
        each = [
            (row, verdict)
            for row, verdict in zip(rows, verdicts, strict=True)
            if (row["metric"], row["estimator"]) == (metric, answering)
        ]
        row, verdict = each[0]
        if not by:
            if row["value"] is not None and not verdict.plain:
                notes.append(str(verdict))
            continue
        segments: dict[str, list[str]] = {}
        for row, _ in each:
            segments.setdefault(row["verdict"], []).append(" ".join(str(row[b]) for b in by))
        unknown = len(segments.pop(UNKNOWN, ()))
        said = [f"{word} in {few(where)}" for word, where in segments.items()]
        if unknown:
            said.append(f"cannot tell in {f'{unknown:,}' if segments else 'any'} of {len(each):,}")
        notes.append(
            f"{metric} by {answering}: {'; '.join(said)}. The verdicts allow for "
            f"{number_of(len(each), 'segment')} at once; the intervals are each on its own."
        )
    return notes


def coverage_notes(
    rows: Sequence[Row], estimates: Sequence[Estimate], answering: str, ignored: int
) -> list[str]:
    """In plain words: what the answer rests on, and what the log cannot see of the candidate."""
    notes, totals = [], dict[str, float]()
    answers = [row for row in rows if row["estimator"] == answering]
    for one in estimates:
        for rung, share in (one.parts[0].rungs or {}).items() if one.estimator == answering else ():
            words = _RESTS_ON.get(rung, "on clicks on these items")
            totals[words] = totals.get(words, 0.0) + share
    whole = sum(totals.values())
    shares = [(words, share / whole) for words, share in totals.items() if whole]
    if shares := [(words, share) for words, share in shares if share >= _WORTH_SAYING]:
        (words, share), *rest = shares
        more = "".join(f", {part:.0%} {how}" for how, part in rest)
        notes.append(f"{share:.0%} of the answer rests {words}{more}.")
    without = sum(row["value"] is None for row in answers)
    if without:
        where = "" if without == len(answers) else f" in {without} of {len(answers)} rows"
        notes.append(
            f"No answer by {answering}{where}: nothing of what the candidate would show was ever "
            "shown. Check that contexts and items are spelt as in the log."
        )
    seen = min((row["covered"] for row in answers if row["value"] is not None), default=1.0)
    if not totals and seen < _THIN:
        notes.append(f"{answering} counts the {1 - seen:.0%} that it never saw as no clicks.")
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
