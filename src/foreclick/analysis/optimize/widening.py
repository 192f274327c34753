"""Intervals of an evaluation made wider by errors that its records do not show."""

from __future__ import annotations

import math
from dataclasses import replace

from foreclick import inference
from foreclick.questions.evaluate import Evaluation

_ENDS = ("value", "low", "high"), ("change", "change_low", "change_high")


def widened(judged: Evaluation, se: float, because: str) -> Evaluation:
    """An evaluation whose candidate has further errors, and a verdict that still holds with them.

    Production is known without these errors, so a change has the same ones as a value, and a lift
    has them divided by production.

    Args:
        judged: an evaluation of one candidate by one estimator.
        se: the standard error of what is added, independent of the rest.
        because: a note that says why.
    """
    row = judged.to_dicts()[0]
    if row["low"] is None or not se:
        return judged
    # What was never shown is in the ends already, and does not add up like errors.
    less, margin = row.get("borrowed") or 0.0, row.get("margin") or 0.0
    reach = (row["high"] - row["value"] - margin) / row["se"] if row["se"] else 0.0
    (evidence,) = judged.evidence
    reach = reach or inference.quantile(evidence.confidence, math.inf)
    wide = row | {"se": math.hypot(row["se"], se)}
    scales = [(*ends, 1.0) for ends in _ENDS]
    if row["lift"] is not None and row["lift_low"] is not None:
        scales.append(("lift", "lift_low", "lift_high", row["production"]))
    for center, low, high, scale in scales:
        if row[low] is not None:
            more = reach * se / scale
            below = max(row[center] - row[low] - less / scale, 0.0)
            above = max(row[high] - row[center] - margin / scale, 0.0)
            wide[low] = row[low] - (math.hypot(below, more) - below)
            wide[high] = row[high] + (math.hypot(above, more) - above)
    wide["low"] = max(wide["low"], 0.0)
    notes, evidence = (
        list(judged.notes),
        replace(evidence, low=wide["change_low"], high=wide["change_high"]),
    )
    word = row["verdict"]
    if word in (inference.BETTER, inference.WORSE):
        verdict = inference.judge(evidence)
        wide["verdict"] = verdict.word
        old = str(inference.Verdict(word, ""))
        notes = [str(verdict) if note.startswith(old) else note for note in notes]
    return Evaluation((wide,), judged.columns, (*notes, because), evidence=(evidence,))
