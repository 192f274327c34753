"""The estimators on real logs: `python -m benchmarks real --data …`, which holds public samples.

Two experiments that need no click model to be right. PyClick's sample of a Yandex log: hold out one
list at a time, where it was shown at least 100 times, and predict its clicks from the other lists
of the query. Naver's log: hold out one day at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

import foreclick as fc
from benchmarks.study import Row, Task, grid, mean, study
from foreclick import datasets
from foreclick.questions.backtest import Backtest, backtest_by
from foreclick.run.holdout import Protocol
from tests.answers import clipped

LADDERS = ["ladder", "ladder-ip"]
ESTIMATORS = ["list", "prefix", "ip", "item", "pbm", "rctr", *LADDERS]
BY = [fc.Weighted(name, examination="1/k") if name == "pbm" else name for name in ESTIMATORS]
METRICS = ["clicks@2", "clicks@3", "dcg@10", "clicks@10"]
CLIPS = [1, 10, 100, math.inf]
DAY = 86_400_000
SHOWN_AT_LEAST = 100


def pyclick(data: Path) -> pa.Table:
    """PyClick's sample, both halves, counted: a column for each position."""
    halves = (data / "pyclick_wscd" / half for half in ("trainSample", "testSample"))
    return pa.concat_tables(fc.tally(datasets.pyclick(half)).to_arrow() for half in halves)


def of_columns(table: pa.Table, period: str | None = None) -> fc.Log:
    """The log of such a table."""
    roles = {"items": "item_*", "clicks": "clicks_*", "count": "n", "period": period}
    return fc.read_log(table, **roles)


def naver(data: Path) -> fc.Log:
    """Naver's log, with the day of each list."""
    log = data / "naver_clara2" / "CLARA2SearchLog_beta"
    return datasets.relevance_prediction(log, day_length=DAY)


def one_list_at_a_time(data: Path) -> Backtest:
    """PyClick's sample; a list plays the part of a period."""
    table = pyclick(data)
    items = [table[name].to_pylist() for name in table.column_names if name.startswith("item_")]
    shown = [" ".join(map(str, places)) for places in zip(*items, strict=True)]
    log = of_columns(table.append_column("shown", pa.array(shown)), "shown")
    protocol = Protocol({}, min_held=SHOWN_AT_LEAST)
    return backtest_by(protocol, log, METRICS, clipped(BY, CLIPS))


def one_day_at_a_time(data: Path) -> Backtest:
    """Naver's log from day 21 to its last, 82; a query on a day counts by its records."""
    _, days = fc.tally(naver(data)).split(20)
    return backtest_by(Protocol({}, weight="records"), days, METRICS, clipped(BY, CLIPS))


LOGS: dict[str, Callable[[Path], Backtest]] = {
    "Yandex": one_list_at_a_time,
    "Naver": one_day_at_a_time,
}


@study(
    "real",
    ["log", "metric", "estimator"],
    mean("rmse", form=".3f"),
    mean("best", "at the best M", ".3f"),
    mean("floor", form=".3f"),
)
def real(data: str = "data", logs: list[str] = list(LOGS)) -> Iterator[Task]:
    """The estimators on real logs: RMSE without a clip, and at the best M."""
    return grid(held_out, logs, [Path(data)])


def held_out(log: str, data: Path) -> list[Row]:
    """A row for each metric and estimator."""
    rows = {(r["estimator"], r["metric"], r["clip"]): r for r in LOGS[log](data)}
    found = []
    for estimator in ESTIMATORS:
        for metric in METRICS:
            rmse = [
                rows[estimator, metric, m]["rmse"] for m in CLIPS if (estimator, metric, m) in rows
            ]
            key = {"log": log, "metric": metric, "estimator": estimator}
            floor = rows["ip", metric, math.inf]["floor"]
            found.append(key | {"rmse": rmse[-1], "best": min(rmse), "floor": floor})
    return found
