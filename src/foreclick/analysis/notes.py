"""Notes of an evaluation: what a reader of its numbers should know, in words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from foreclick import inference
from foreclick.analysis.headline import FEW_RECORDS
from foreclick.batches import contexts_repeat
from foreclick.errors import ForeclickWarning
from foreclick.estimators import Estimate, Ladder, Question
from foreclick.policies import Lists, Policy
from foreclick.tallies import Tally
from foreclick.words import few, number_of, plural

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


def repetition_note(counted: Tally, parts: list[Question]) -> list[str]:
    """A warning where frequencies are asked for of contexts that hardly repeat."""
    weighing = dict.fromkeys(
        e.name
        for q in parts
        if q.logging is None
        for e in q.estimators
        if e.model.sees_items and not isinstance(e, Ladder)  # which knows what to do with few
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
    warnings.warn(message, ForeclickWarning, stacklevel=4)
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


def coverage_notes(rows: list[dict[str, Any]], answer: Estimate) -> list[str]:
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
    told = {
        s.estimator for s in answer.sums if s.rungs is not None
    }  # `rung_notes` say where it looked
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
    lost = {s.estimator: s.unlogged for s in answer.sums if s.unlogged}
    if lost:
        named = ", ".join(f"{name} {count:,.0f}" for name, count in lost.items())
        notes.append(
            f"Logged records in cells with probability 0 under the given logging policy: {named}. "
            "They weigh M where it is finite and are left out where it is not. Check logging=."
        )
    if answer.ignored_contexts:
        notes.append(
            f"Ignored: {number_of(answer.ignored_contexts, 'context')} that only the candidate has."
        )
    return notes


_RUNGS = {
    "list": "seen in the same list",
    "prefix": "seen below the same items",
    "position": "seen at this position",
    "item": "inferred from other positions",
    "context": "from the context's mean",
    "log": "from the mean of all contexts",
}


def rung_notes(answer: Estimate) -> list[str]:
    """Of each ladder, in plain words, what its answer rests on."""
    notes = []
    for name in dict.fromkeys(s.estimator for s in answer.sums if s.rungs):
        mine = [s for s in answer.sums if s.estimator == name and s.rungs]
        names = sorted({rung for s in mine for rung in s.rungs or {}}, key=list(_RUNGS).index)
        totals = {rung: sum((s.rungs or {}).get(rung, 0.0) for s in mine) for rung in names}
        whole = sum(totals.values())
        shares = [
            f"{total / whole:.1%} {_RUNGS[rung]}"
            for rung, total in totals.items()
            if whole and total / whole >= _WORTH_SAYING
        ]
        if shares:
            notes.append(f"Where {name} looked: {', '.join(shares)}.")
    return notes


def _silent(name: str, rows: list[dict[str, Any]]) -> str:
    """An estimator without an answer, and in how much of the table."""
    without = sum(row["value"] is None for row in rows)
    if without in (0, len(rows)):
        return name if without else ""
    return f"{name} (in {without} of {len(rows)} rows)"
