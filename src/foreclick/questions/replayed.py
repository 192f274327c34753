"""What replayed A/B tests say, one by one and together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from foreclick import inference
from foreclick.errors import SourceError
from foreclick.inference import BETTER, WORSE
from foreclick.questions.backtest import Hindsight
from foreclick.results import Headline, Result, format_value, span
from foreclick.words import number_of

_FEW = 5  # tests; of fewer, nobody can say how wide intervals should be
_LINES = 20  # tests that an answer lists; the table has them all


@dataclass(frozen=True, repr=False)
class Replay(Hindsight):
    """Past A/B tests: one row per test × direction × estimator × metric.

    | column | meaning |
    |---|---|
    | experiment, log, arm | the test, the arm whose clicks were known, and the one predicted |
    | predicted | the lift of the arm by the clicks of the log, with its interval and verdict |
    | measured | the lift of the arm by its own clicks, with its interval, and what the test said |
    | difference | predicted − measured, with its interval; `holds` is whether 0 is in it |
    | forward | whether the control was the log |
    | shared | the share of the log's records in contexts that both arms have |
    | records, arm_records | of the log, and of the arm |

    Each number has its standard error (`_se`) and the ends of its interval (`_low`, `_high`).
    Replays add up: those of two logs are one of all their tests.

    Attributes:
        confidence: of the intervals.
    """

    confidence: float = 0.95
    past = "past A/B tests"

    def __add__(self, other: Replay) -> Replay:
        """The tests of both."""
        notes = dict.fromkeys((*self.notes, *other.notes))
        return replace(self, rows=(*self.rows, *other.rows), notes=tuple(notes))

    @property
    def answering(self) -> str:
        """The estimator whose verdicts count."""
        return str(self["estimator"][0])

    @cached_property
    def summary(self) -> Result:
        """A row per estimator × metric, over the tests that were predicted from the control.

        How often 0 was held, bias and slope of measured on predicted, verdicts that came out right
        and wrong, and how much larger errors were than intervals say (`widening`).
        """
        rows = [row for row in self.rows if row["forward"] and row["difference_se"] is not None]
        of = dict.fromkeys((row["estimator"], row["metric"]) for row in rows)
        each = [[r for r in rows if (r["estimator"], r["metric"]) == key] for key in of]
        totals = [_total(some, self.confidence) for some in each]
        return Result(tuple(totals), tuple(totals[0]) if totals else ())

    @property
    def headline(self) -> Headline:
        """How many tests would have been called, and each of them."""
        metric = self["metric"][0]
        mine = [
            row
            for row in self.rows
            if row["forward"] and (row["metric"], row["estimator"]) == (metric, self.answering)
        ]
        plain = len({row["experiment"] for row in mine}) == len(mine) > 1
        lines = [
            (
                str(row["experiment"]) if plain else named(row),
                f"predicted {format_value('lift', row['predicted'])}",
                f"({span('lift', row['predicted_low'], row['predicted_high'])})",
                str(row["verdict"]),
                f"measured {format_value('lift', row['measured'])}",
                f"({span('lift', row['measured_low'], row['measured_high'])})",
            )
            for row in mine[:_LINES]
        ]
        total = self.total(self.answering, metric)
        if total is None:
            return Headline(f"No A/B test could be predicted ({metric})", tuple(lines))
        title = (
            f"Of {number_of(total['tests'], 'A/B test')}, {self.answering} would have called "
            f"{total['called']}: {total['right']} right, {total['wrong']} wrong, "
            f"{total['called'] - total['right'] - total['wrong']} left open by the test ({metric})"
        )
        said = [
            f"Predicted and measured agree within chance in {total['holds']} of {total['tests']}.",
        ]
        ends = span("lift", total["bias_low"], total["bias_high"])
        said.append(
            f"On average, predictions were off by {format_value('lift', total['bias'])} ({ends})."
        )
        if total["slope_low"] is not None:
            ends = f"{total['slope_low']:.2f} to {total['slope_high']:.2f}"
            said.append(f"Where 1 was predicted, {total['slope']:.2f} came ({ends}).")
        if total["widening"] is not None and total["tests"] >= _FEW:
            low, high = total["widening_low"], total["widening_high"]
            word = (
                "too short" if low > 1 else "too wide" if high < 1 else "as wide as they should be"
            )
            said.append(
                f"Intervals were {word}: errors were {low:.2f} to {high:.2f} times as large."
            )
        if len(mine) > _LINES:
            said.insert(0, f"The first {_LINES} of {len(mine):,}; the table has them all.")
        return Headline(title, tuple(lines), tuple(said))

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what is the same everywhere."""
        dull = {c for c in ("experiment", "shared") if len(set(self[c])) == 1}
        dull |= {"forward", "records", *(c for c in self.columns if c.endswith("_se"))}
        return tuple(c for c in self.columns if c not in dull)

    def total(self, estimator: str, metric: str) -> Mapping[str, Any] | None:
        """The row of the summary; None if there is none."""
        of = (estimator, metric)
        return next((r for r in self.summary.rows if (r["estimator"], r["metric"]) == of), None)

    def error(self, estimator: str, metric: str, clip: float, reach: float) -> float:  # noqa: ARG002
        """By how much more than its reach an interval ought to reach: (f − 1) reach, from 0 on."""
        found = self.total(estimator, metric)
        if found is None:
            raise SourceError(
                f"the replay has no test of {metric!r} by {estimator!r}. Ask it for the same "
                "metrics, and evaluate by the default estimators."
            )
        return max(float(found["widening"] or 1.0) - 1.0, 0.0) * reach


def named(row: Mapping[str, Any]) -> str:
    """A test and its arm, in a word or two."""
    return f"{row['experiment']}, {row['arm']}" if row["experiment"] else str(row["arm"])


def _total(rows: Sequence[Mapping[str, Any]], confidence: float) -> dict[str, Any]:
    """What tests say together, of one estimator and metric."""
    predicted, measured, low, high = (
        np.array([row[c] for row in rows])
        for c in ("predicted", "measured", "predicted_low", "predicted_high")
    )
    own, other, joint = (
        np.array([row[f"{c}_se"] for row in rows]) ** 2
        for c in ("predicted", "measured", "difference")
    )
    difference, common = predicted - measured, (own + other - joint) / 2
    printed = ((high - low) / 2 / inference.quantile(confidence, math.inf)) ** 2
    told = {
        "bias": inference.mean_difference(difference, joint, confidence),
        "slope": inference.slope(predicted, measured, np.stack([own, other, common]), confidence),
        "widening": inference.widening(difference, printed, np.maximum(joint - own, 0), confidence),
    }
    calls = [(row["verdict"], row["outcome"]) for row in rows if row["verdict"] in (BETTER, WORSE)]
    found = {
        "estimator": rows[0]["estimator"],
        "metric": rows[0]["metric"],
        "tests": len(rows),
        "holds": sum(bool(row["holds"]) for row in rows),
        "called": len(calls),
        "right": sum(said == came for said, came in calls),
        "wrong": sum({said, came} == {BETTER, WORSE} for said, came in calls),
    }
    for name, number in told.items():
        keys = (name, f"{name}_low", f"{name}_high")
        found |= dict(zip(keys, number or (None, None, None), strict=True))
    return found
