"""Words of charts and reports: numbers, metrics, click models, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foreclick.questions import verdicts
from foreclick.questions.agreement import is_blind
from foreclick.questions.answers import Evaluation
from foreclick.questions.report import Report
from foreclick.results import Value, format_value

Row = Mapping[str, Any]

VERDICTS = {
    verdicts.BETTER: ("▲", "better"),
    verdicts.WORSE: ("▼", "worse"),
    verdicts.SAME: ("●", "same"),
    verdicts.UNKNOWN: ("◆", "unknown"),
    verdicts.HELD: ("▲", "better"),
    verdicts.BROKEN: ("▼", "worse"),
}
"""The sign of a verdict, and its class on the page."""


def words(column: str, value: Value) -> str:
    """A value as a person reads it, with a true minus sign before a number."""
    text = format_value(column, value)
    return text.replace("-", "−") if isinstance(value, int | float) else text


def span_words(column: str, low: Value, high: Value) -> str:
    """An interval in words; empty without one."""
    return "" if low is None or high is None else f"{words(column, low)} to {words(column, high)}"


def with_interval(column: str, value: Value, low: Value, high: Value) -> tuple[str, str]:
    """A value and its interval in words."""
    return words(column, value), span_words(column, low, high)


def answers(evaluation: Evaluation) -> dict[str, Row]:
    """By metric, the first row of the estimator that answers."""
    rows: dict[str, Row] = {}
    for row in evaluation.rows:
        if row["estimator"] == evaluation.answering:
            rows.setdefault(str(row["metric"]), row)
    return rows


def change_of(row: Row) -> tuple[str, str]:
    """The change against production with its interval: relative if it can be, else absolute."""
    if is_blind(row):
        return "–", ""
    column = "lift" if row.get("lift") is not None else "change"
    return with_interval(column, *(row.get(f"{column}{end}") for end in ("", "_low", "_high")))


def metric_words(metric: str) -> str:
    """A metric in words.

    Examples:
        >>> metric_words("clicks@3"), metric_words("orders@5")
        ('clicks on the first 3 results', 'orders in the first 5 results')
    """
    kind, _, depth = metric.partition("@")
    if not depth.isdigit() or "/" in metric or ":" in kind:
        return metric
    first = "the first result" if depth == "1" else f"the first {depth} results"
    special = {
        "clicks": f"clicks on {first}",
        "dcg": f"clicks on {first}, discounted by position",
        "success": f"lists with a click on {first}",
        "mrr": f"how far up the first click is, within {first}",
        "ctr": f"clicks per shown result, within {first}",
    }
    return special.get(kind, f"{kind} in {first}")


def per_list(metric: str) -> str:
    """What a metric is counted by; a ratio has its own denominator.

    Examples:
        >>> "clicks@3" + per_list("clicks@3"), "ctr@3" + per_list("ctr@3")
        ('clicks@3 per list', 'ctr@3')
    """
    # By its name: the name of a user's own weights cannot be parsed.
    return "" if "/" in metric or metric.startswith("ctr@") else " per list"


# --- the verdict ----------------------------------------------------------------------------------


def verdict(report: Report) -> tuple[str, str]:
    """The verdict on the first metric, and a sentence that says it; empty if there is none."""
    if report.evaluation.by:
        return "", ""
    metric, row = next(iter(answers(report.evaluation).items()))
    word = str(row.get("verdict") or "")
    if is_blind(row):
        return word, (
            "The log cannot tell: almost nothing of what the candidate would show was ever shown."
        )
    change, between = change_of(row)
    ends = between.replace(" to ", " and ")
    sure = f", between {ends} with {report.confidence:.0%} confidence" if between else ""
    size = f"{change}{sure}"
    against = report.evaluation.against
    sentences = {
        verdicts.BETTER: f"The candidate would get more {metric} than {against}: {size}.",
        verdicts.WORSE: f"The candidate would get less {metric} than {against}: {size}.",
        verdicts.SAME: f"The candidate makes no difference worth having in {metric}: {size}.",
        verdicts.UNKNOWN: f"The log cannot tell whether {metric} would rise or fall: {size}.",
    }
    return word, sentences.get(word, f"The estimate of the change in {metric}: {size}.")
