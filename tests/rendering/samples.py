"""Results to draw, made by hand: charts are about numbers, wherever they come from. And pages."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from html.parser import HTMLParser
from typing import Any, TypeVar

import foreclick as fc
from foreclick.questions.backtest import Backtest
from foreclick.questions.compare import Comparison
from foreclick.questions.examination import Examination
from foreclick.questions.support import Support
from foreclick.results import Result

ERRORS = {"list": 0.30, "ip": 0.10, "rctr": 0.20}
DAYS = [dt.date(2026, 3, day) for day in range(1, 5)]
R = TypeVar("R", bound=Result)


def of_rows(kind: type[R], rows: Iterable[Mapping[str, Any]], **fields: Any) -> R:  # noqa: ANN401
    """A result with these rows, whose columns are those of the first."""
    listed = tuple(rows)
    return kind(listed, tuple(listed[0]), **fields)


def backtest(
    metrics: Sequence[str] = ("clicks@3", "dcg@10"),
    errors: dict[str, float] = ERRORS,
    clips: Sequence[float] = (math.inf,),
) -> Backtest:
    """Errors that are smallest at M = 100, so the winner is the smallest of `errors` there."""
    counts = {"folds": len(DAYS), "contexts": 3, "pairs": 12, "records": 1200.0}
    rows: list[dict[str, Any]] = []
    for name, metric, clip in itertools.product(errors, metrics, clips):
        rmse = errors[name] * (1 + abs(math.log10(min(clip, 1e4)) - 2))
        row = {"estimator": name, "metric": metric, "clip": clip, "rmse": rmse, "bias": 0.0}
        rows.append({**row, "floor": 0.05, "skill": 0.5, **counts})
    by_period = [
        {**row, "period": day, "rmse": row["rmse"] * (1 + i / 10)}
        for row in rows
        for i, day in enumerate(DAYS)
    ]
    periods = of_rows(Result, by_period)
    return of_rows(Backtest, rows, notes=("ip predicted best.",), periods=periods)


def evaluation(**segments: str) -> fc.Evaluation:
    """Three estimators in two metrics, of one value of each of `segments`."""
    rows = [
        {"estimator": name, "metric": metric, "clip": math.inf, **segments, "value": value}
        | {"production": 0.4, "lift": 0.1, "covered": 0.5, "records": 90}
        for metric in ("clicks@3", "dcg@10")
        for name, value in {"list": 0.3, "ip": 0.5, "rctr": 0.4}.items()
    ]
    return of_rows(fc.Evaluation, rows, answering="ip", by=tuple(segments))


def support() -> Support:
    """Half of the lists, all of the items."""
    covered = {"list": 0.5, "item": 1.0}.items()
    return of_rows(
        Support, ({"estimator": e, "metric": "clicks@3", "covered": share} for e, share in covered)
    )


def examination(segments: Sequence[str] = ()) -> Examination:
    """Three positions that are told, and one that is not; the same in every segment."""
    known = [(1.0, 1.0, 1.0), (0.5, 0.45, 0.55), (0.4, 0.3, 0.5), (None,) * 3]
    rows = [
        ({"device": segment} if segments else {})
        | {"position": k, "examination": p, "low": low, "high": high}
        for segment in segments or ("",)
        for k, (p, low, high) in enumerate(known, start=1)
    ]
    return of_rows(Examination, rows)


def comparison() -> Comparison:
    """One pair of each verdict, and a candidate that was never shown."""
    changes = {"better": 0.3, "worse": -0.2, "no difference": 0.01, "cannot tell": 0.1}
    around = {"low": -0.05, "high": 0.05, "all_low": -0.08, "all_high": 0.08}
    rows: list[dict[str, Any]] = []
    for i, (verdict, change) in enumerate(changes.items()):
        numbers = {"change": change, **{name: change + by for name, by in around.items()}}
        lifts = {"lift": 2 * change, "lift_low": 2 * change - 0.2, "lift_high": 2 * change + 0.2}
        pair = {"candidate": f"c{i}", "against": "production"}
        rows.append(pair | numbers | lifts | {"verdict": verdict})
    rows.append({**rows[3], "candidate": "strange", **dict.fromkeys([*numbers, *lifts])})
    return of_rows(Comparison, rows)


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
