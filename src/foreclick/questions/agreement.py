"""What `replay` returns: past A/B tests, predicted beside measured, and how well the two agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from foreclick import inference
from foreclick.errors import SourceError
from foreclick.questions.verdicts import BETTER, WORSE
from foreclick.results import Headline, Result, format_value, span
from foreclick.words import number_of

NUMBERS = ("predicted", "measured", "difference")
_FEW = 5  # tests; of fewer, nobody can say how wide intervals should be


@dataclass(frozen=True, repr=False)
class Replay(Result):
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

    def tests(self, metric: str) -> list[Mapping[str, Any]]:
        """The rows of the estimator that answers, of tests predicted from the control."""
        key = metric, self.answering
        return [
            row for row in self.rows if row["forward"] and (row["metric"], row["estimator"]) == key
        ]

    @cached_property
    def summary(self) -> Result:
        """A row per estimator × metric, over the tests that were predicted from the control.

        How often 0 was held, bias and slope of measured on predicted, verdicts that came out right
        and wrong, and how much larger errors were than intervals say (`widening`).
        """
        groups: dict[object, list[Mapping[str, Any]]] = {}
        for row in self.rows:
            if row["forward"] and row["difference_se"] is not None:
                groups.setdefault((row["estimator"], row["metric"]), []).append(row)
        totals = [_total(rows, self.confidence) for rows in groups.values()]
        return Result(tuple(totals), tuple(totals[0]) if totals else ())

    def total(self, estimator: str, metric: str) -> Mapping[str, Any] | None:
        """The row of the summary; None if there is none."""
        rows = self.summary.rows
        return next((r for r in rows if (r["estimator"], r["metric"]) == (estimator, metric)), None)

    @property
    def headline(self) -> Headline:
        """How many tests would have been called, and each of them."""
        metric, answering = self["metric"][0], self.answering
        rows = self.tests(metric)
        plain = len({row["experiment"] for row in rows}) == len(rows) > 1
        lines = []
        for row in rows:
            predicted, measured = (
                (f"{c} {format_value('lift', row[c])}", f"({span('lift', *_ends(row, c))})")
                for c in ("predicted", "measured")
            )
            name = str(row["experiment"]) if plain else test_name(row["experiment"], row["arm"])
            lines.append((name, *predicted, str(row["verdict"]), *measured))
        total = self.total(answering, metric)
        if total is None:
            return Headline(f"No A/B test could be predicted ({metric})", tuple(lines))
        tests, called, right, wrong = (total[c] for c in ("tests", "called", "right", "wrong"))
        title = (
            f"Of {number_of(tests, 'A/B test')}, {answering} would have called {called}: {right} "
            f"right, {wrong} wrong, {called - right - wrong} left open by the test ({metric})"
        )
        bias = f"{format_value('lift', total['bias'])} ({span('lift', *_ends(total, 'bias'))})"
        sentences = [
            f"Predicted and measured agree within chance in {total['holds']} of {tests}.",
            f"On average, predictions were off by {bias}.",
        ]
        if total["slope_low"] is not None:
            low, high = _ends(total, "slope")
            times = f"{total['slope']:.2f} ({low:.2f} to {high:.2f}) times"
            sentences.append(f"Measured lifts were {times} the predicted ones.")
        if total["widening"] is not None and tests >= _FEW:
            low, high = _ends(total, "widening")
            fit = (
                "too wide" if high < 1 else "too short" if low > 1 else "as wide as they should be"
            )
            sentences.append(
                f"Intervals were {fit}: errors were {low:.2f} to {high:.2f} times what they allow."
            )
        return Headline(title, tuple(lines), tuple(sentences))

    @property
    def shown(self) -> tuple[str, ...]:
        """Without what is the same everywhere."""
        dull = {c for c in ("experiment", "shared") if len(set(self[c])) == 1}
        dull |= {"forward", "records", *(c for c in self.columns if c.endswith("_se"))}
        return tuple(c for c in self.columns if c not in dull)

    def error(self, estimator: str, metric: str, clip: float, reach: float) -> float:  # noqa: ARG002
        """By how much more than its reach an interval ought to reach: (f − 1) reach, from 0 on."""
        total = self.total(estimator, metric)
        if total is None:
            raise SourceError(
                f"the replay has no test of {metric!r} by {estimator!r}. Ask it for the same "
                "metrics, and evaluate by the default estimators."
            )
        return max(float(total["widening"] or 1.0) - 1.0, 0.0) * reach


def test_name(experiment: object, arm: object) -> str:
    """A test and its arm, in a word or two."""
    return f"{experiment}, {arm}" if experiment else str(arm)


def _ends(row: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    return row[f"{name}_low"], row[f"{name}_high"]


def _total(rows: Sequence[Mapping[str, Any]], confidence: float) -> dict[str, Any]:
    """What tests say together, of one estimator and metric."""
    values = {c: np.array([row[c] for row in rows]) for c in rows[0] if c.startswith(NUMBERS)}
    predicted, measured = values["predicted"], values["measured"]
    of_predicted, of_measured, of_both = (values[f"{name}_se"] ** 2 for name in NUMBERS)
    difference, rest = predicted - measured, np.maximum(of_both - of_predicted, 0)
    covariance = np.stack([of_predicted, of_measured, (of_predicted + of_measured - of_both) / 2])
    printed = (values["predicted_high"] - values["predicted_low"]) / 2
    printed = (printed / inference.quantile(confidence, math.inf)) ** 2
    calls = [(row["verdict"], row["outcome"]) for row in rows if row["verdict"] in (BETTER, WORSE)]
    total = {
        "estimator": rows[0]["estimator"],
        "metric": rows[0]["metric"],
        "tests": len(rows),
        "holds": sum(bool(row["holds"]) for row in rows),
        "called": len(calls),
        "right": sum(verdict == outcome for verdict, outcome in calls),
        "wrong": sum(set(call) == {BETTER, WORSE} for call in calls),
    }
    for name, number in (
        ("bias", inference.mean_difference(difference, of_both, confidence)),
        ("slope", inference.slope(predicted, measured, covariance, confidence)),
        ("widening", inference.widening(difference, printed, rest, confidence)),
    ):
        total[name], total[f"{name}_low"], total[f"{name}_high"] = number or (None, None, None)
    return total
