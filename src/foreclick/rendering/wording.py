"""What a report says in sentences: the verdict, the assumptions, and what could be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foreclick.questions import verdicts
from foreclick.questions.answers import answering_of, is_blind
from foreclick.questions.evaluate import Evaluation
from foreclick.questions.report import Report
from foreclick.results import Value, format_value

Row = Mapping[str, Any]

_MOST = 0.9  # of the candidate's exposure
_FEW_DAYS = 7

MODELS = {
    "ladder": "the closest match in the log",
    "list": "the whole list as shown",
    "prefix": "an item below the same items",
    "ip": "same item, same position",
    "item": "the item at any position",
    "pbm": "the item, times its position",
    "rctr": "the position alone",
    "rcm": "every slot alike",
}
"""What clicks depend on, by estimator."""

_LADDER = (
    "The ladder takes the click rate of each result from the closest match that the log has seen "
    "often enough: below the same results, at the same position, or anywhere in the same context."
)
_ASSUMES = {
    "ladder": _LADDER,
    "list": "The answer assumes nothing about how people click, and uses whole lists only.",
    "prefix": "The answer assumes that a click depends on a result and on the results above it.",
    "ip": "The answer assumes that a click depends on a result and its position, not on others.",
    "item": "The answer assumes that a click depends on the result alone, wherever it stands.",
    "pbm": "The answer assumes that a click is a result's appeal times the look at its position.",
}

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


def segments_of(evaluation: Evaluation) -> tuple[str, ...]:
    """The columns that an evaluation is split by."""
    names = evaluation.columns
    return names[names.index("clip") + 1 : names.index("value")]


def answers(evaluation: Evaluation) -> dict[str, Row]:
    """By metric, the first row of the estimator that answers."""
    chosen = evaluation.answering or answering_of(evaluation["estimator"])
    found: dict[str, Row] = {}
    for row in evaluation.rows:
        if row["estimator"] == chosen:
            found.setdefault(str(row["metric"]), row)
    return found


def change_of(row: Row) -> tuple[str, str]:
    """The change against production with its interval: relative if it can be, else absolute."""
    column = "lift" if row.get("lift") is not None else "change"
    ends = row.get(f"{column}_low"), row.get(f"{column}_high")
    return words(column, row.get(column)), span_words(column, *ends)


def metric_words(metric: str) -> str:
    """A metric as a person would say it.

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
    # By its name: weights of a user's own have one that nobody can parse.
    return "" if "/" in metric or metric.startswith("ctr@") else " per list"


# --- the verdict ----------------------------------------------------------------------------------


def verdict(report: Report) -> tuple[str, str]:
    """The verdict on the first metric, and a sentence that says it; empty if there is none."""
    if segments_of(report.evaluation):
        return "", ""
    metric, row = next(iter(answers(report.evaluation).items()))
    word = str(row.get("verdict") or "")
    if is_blind(row):
        return word, (
            "The log cannot tell: next to nothing of what the candidate would show was ever shown."
        )
    change, between = change_of(row)
    ends = between.replace(" to ", " and ")
    sure = f", between {ends} with {report.confidence:.0%} confidence" if between else ""
    said = f"{change}{sure}"
    against = report.evaluation.against
    sentences = {
        verdicts.BETTER: f"The candidate would get more {metric} than {against}: {said}.",
        verdicts.WORSE: f"The candidate would get less {metric} than {against}: {said}.",
        verdicts.SAME: f"The candidate makes no difference worth having in {metric}: {said}.",
        verdicts.UNKNOWN: f"The log cannot tell whether {metric} would rise or fall: {said}.",
    }
    return word, sentences.get(word, f"The estimate of the change in {metric}: {said}.")


# --- what was assumed -----------------------------------------------------------------------------


def assumptions(report: Report) -> list[tuple[str, str]]:
    """What the answer rests on and what could be wrong with it: a heading and a text each."""
    found = answers(report.evaluation)
    row = next(iter(found.values()))
    return [
        ("The click model", _model(report, row)),
        ("What was never shown", _unseen(row)),
        ("Chance", _chance(report, row)),
        (
            "The future is like the log",
            (
                "Users, results and what they like are taken to be as in the log. A season, a "
                "campaign or users who get used to the new ranking can change the answer."
            ),
        ),
        (
            "Not chosen on this log",
            (
                "If the candidate was trained or chosen on these very records, the answer flatters "
                "it. Evaluate it on days it has not seen."
            ),
        ),
        (
            "Clicks are not everything",
            (
                "A click is what was counted, not whether people found what they wanted. Look at "
                "the lists that change most before you decide."
            ),
        ),
    ]


def _model(report: Report, row: Row) -> str:
    name = str(row["estimator"])
    told = _ASSUMES.get(name, f"The answer assumes the click model of {name}.") + " "
    if name != "list":
        told += "If people read the page differently, the answer is off. "
    if report.backtest is None:
        return told + "No backtest was run, which would say how far off it was on this log."
    metric, clip = str(row["metric"]), row["clip"]
    mine = [
        r
        for r in report.backtest.rows
        if (r["estimator"], r["metric"], r["clip"]) == (name, metric, clip)
    ]
    if not mine:
        return told.strip()
    off = report.backtest.error(name, metric, float(clip))
    return told + (
        "In the backtest, beyond the noise of clicks, "
        f"it missed the mean of a period by {words('value', off)} {metric}{per_list(metric)}."
    )


def _unseen(row: Row) -> str:
    covered, margin = row["covered"], row.get("margin")
    if covered is None or covered >= 1 - 1e-9:
        return "Everything the candidate would show was shown before in the same context."
    text = (
        f"{words('covered', 1 - covered)} of what the candidate would show was never shown in its "
        "context. "
    )
    if margin:
        text += (
            f"The upper end allows it to earn up to {words('value', margin)} per list, as if it "
            "were as good as the log's best position; something better still is possible. "
        )
    if covered < _MOST:
        text += "That is a lot: show the candidate to a few users before you rely on the number."
    return text.strip()


def _chance(report: Report, row: Row) -> str:
    if row.get("change_low") is None:
        return "The report has no intervals, so it does not say how much is chance."
    text = (
        f"The intervals hold {report.confidence:.0%} of the time, each by itself, for another log "
        "of the same kind. "
    )
    periods = _periods(report)
    if periods is None:
        return text + "The log has no periods, so differences between days are not in them."
    if periods < _FEW_DAYS:
        return text + (
            f"The log has only {periods} periods, too few to see how much days differ; a week or "
            "more would make them honest about weekdays."
        )
    return text + f"They rest on how much the {periods} periods of the log differ."


def _periods(report: Report) -> int | None:
    """How many periods the log has; None if it has none, or it is not known."""
    if report.check is None:
        return None
    return sum(row["section"] == "records by period" for row in report.check.rows) or None
