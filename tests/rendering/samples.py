"""Results to draw, made by hand: charts are about numbers, wherever they come from. And pages."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import foreclick as fc
from foreclick.questions.backtest import Backtest
from foreclick.questions.compare import Comparison
from foreclick.questions.examination import Examination
from foreclick.questions.support import Support
from foreclick.results import Result

ERRORS = {"list": 0.30, "ip": 0.10, "rctr": 0.20}
DAYS = [dt.date(2026, 3, day) for day in range(1, 5)]


def backtest(
    metrics: Sequence[str] = ("clicks@3", "dcg@10"),
    errors: dict[str, float] = ERRORS,
    clips: Sequence[float] = (math.inf,),
    floor: float | None = 0.05,
) -> Backtest:
    """Errors that are smallest at M = 100, so the winner is the smallest of `errors` there."""
    rows: list[dict[str, Any]] = [
        {
            "estimator": name,
            "metric": metric,
            "clip": clip,
            "rmse": error * (1 + abs(math.log10(min(clip, 1e4)) - 2)),
            "bias": 0.0,
            "floor": floor,
            "skill": 0.5,
            "folds": len(DAYS),
            "contexts": 3,
            "pairs": 12,
            "records": 1200.0,
        }
        for name, error in errors.items()
        for metric in metrics
        for clip in clips
    ]
    by_period = [
        {**row, "period": day, "rmse": row["rmse"] * (1 + i / 10)}
        for row in rows
        for i, day in enumerate(DAYS)
    ]
    periods = Result(tuple(by_period), tuple(by_period[0]))
    return Backtest(tuple(rows), tuple(rows[0]), ("ip predicted best.",), periods=periods)


def evaluation(clips: Sequence[float] = (math.inf,), **changes: Any) -> fc.Evaluation:  # noqa: ANN401
    """Three estimators in two metrics; `changes` replace columns, or add them as segments."""
    rows: list[dict[str, Any]] = [
        {
            "estimator": name,
            "metric": metric,
            "clip": clip,
            **{column: value for column, value in changes.items() if column not in VALUES},
            "value": value * min(clip, 10) / 10,
            **VALUES,
            **{column: value for column, value in changes.items() if column in VALUES},
        }
        for metric in ("clicks@3", "dcg@10")
        for name, value in {"list": 0.3, "ip": 0.5, "rctr": 0.4}.items()
        for clip in clips
    ]
    by = tuple(column for column in changes if column not in VALUES)
    return fc.Evaluation(tuple(rows), tuple(rows[0]), answering="ip", by=by)


VALUES: dict[str, Any] = {"production": 0.4, "lift": 0.1, "covered": 0.5, "records": 90}


def support() -> Support:
    """Half of the lists, all of the items."""
    rows: list[dict[str, Any]] = [
        {"estimator": name, "metric": "clicks@3", "covered": covered}
        for name, covered in {"list": 0.5, "item": 1.0}.items()
    ]
    return Support(tuple(rows), tuple(rows[0]))


def examination(segments: Sequence[str] = ()) -> Examination:
    """Three positions that are told, and one that is not; the same in every segment."""
    known = [(1.0, 1.0, 1.0), (0.5, 0.45, 0.55), (0.4, 0.3, 0.5), (None,) * 3]
    rows: list[dict[str, Any]] = [
        ({"device": segment} if segments else {})
        | {"position": k, "examination": p, "low": low, "high": high}
        for segment in segments or ("",)
        for k, (p, low, high) in enumerate(known, start=1)
    ]
    return Examination(tuple(rows), tuple(rows[0]))


def comparison() -> Comparison:
    """One pair of each verdict, and a candidate that was never shown."""
    changes = {"better": 0.3, "worse": -0.2, "no difference": 0.01, "cannot tell": 0.1}
    rows: list[dict[str, Any]] = [
        {
            "candidate": f"c{i}",
            "against": "production",
            "change": change,
            "low": change - 0.05,
            "high": change + 0.05,
            "all_low": change - 0.08,
            "all_high": change + 0.08,
            "lift": 2 * change,
            "lift_low": 2 * change - 0.2,
            "lift_high": 2 * change + 0.2,
            "verdict": verdict,
        }
        for i, (verdict, change) in enumerate(changes.items())
    ]
    numbers = ("change", "low", "high", "all_low", "all_high", "lift", "lift_low", "lift_high")
    nothing = dict.fromkeys(numbers)
    rows.append({**rows[3], "candidate": "strange", **nothing})
    return Comparison(tuple(rows), tuple(rows[0]))


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def links(self) -> list[str]:
        """What a page would fetch."""
        named = [v for name in ("src", "href", "xlink:href", "action") for v in self.values(name)]
        return [link for link in named if link and not link.startswith(("#", "data:"))]

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]
