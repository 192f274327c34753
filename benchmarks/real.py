"""The estimators on real logs: `python -m benchmarks real --data …`, which holds public samples.

Two experiments that need no click model to be right. PyClick's sample of a Yandex log: hold out one
list at a time, where it was shown at least 100 times, and predict its clicks from the other lists
of the query. Naver's log: hold out one day at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import foreclick as fc
from benchmarks.study import Row, study
from foreclick import datasets
from foreclick.questions.backtest import Backtest, backtest_by
from foreclick.run.holdout import Protocol
from tests.answers import clipped

ESTIMATORS = ["list", "prefix", "ip", "item", "pbm", "rctr", "ladder", "ladder-ip"]
BY = [fc.Weighted(name, examination="1/k") if name == "pbm" else name for name in ESTIMATORS]
METRICS = ["clicks@2", "clicks@3", "dcg@10", "clicks@10"]
CLIPS = [1, 10, 100, math.inf]
DAY = 86_400_000
SHOWN_AT_LEAST = 100


def one_list_at_a_time(data: Path) -> Backtest:
    """PyClick's sample, both halves; a list plays the part of a period."""
    halves = (data / "pyclick_wscd" / half for half in ("trainSample", "testSample"))
    table = pa.concat_tables(fc.tally(datasets.pyclick(half)).to_arrow() for half in halves)
    items = [table[name].to_pylist() for name in table.column_names if name.startswith("item_")]
    shown = pa.array([" ".join(map(str, places)) for places in zip(*items, strict=True)])
    roles: dict[str, Any] = {
        "items": "item_*",
        "clicks": "clicks_*",
        "count": "n",
        "period": "shown",
    }
    log = fc.read_log(table.append_column("shown", shown), **roles)
    protocol = Protocol({}, min_held=SHOWN_AT_LEAST)
    return backtest_by(protocol, log, METRICS, clipped(BY, CLIPS))


def one_day_at_a_time(data: Path) -> Backtest:
    """Naver's log from day 21 to its last, 82; a query on a day counts by its records."""
    log = data / "naver_clara2" / "CLARA2SearchLog_beta"
    _, days = fc.tally(datasets.relevance_prediction(log, day_length=DAY)).split(20)
    return backtest_by(Protocol({}, weight="records"), days, METRICS, clipped(BY, CLIPS))


LOGS: dict[str, Callable[[Path], Backtest]] = {
    "Yandex": one_list_at_a_time,
    "Naver": one_day_at_a_time,
}


@study(
    "real",
    ["log", "metric", "estimator"],
    "rmse:.3f, at the best M=best:.3f, floor:.3f",
    logs=list(LOGS),
)
def held_out(log: str, data: str = "data") -> list[Row]:
    """The estimators on real logs: RMSE without a clip, and at the best M."""
    rows = {(r["estimator"], r["metric"], r["clip"]): r for r in LOGS[log](Path(data))}
    found = []
    for estimator, metric in itertools.product(ESTIMATORS, METRICS):
        keys = ((estimator, metric, m) for m in CLIPS)
        rmse = [rows[key]["rmse"] for key in keys if key in rows]
        floor = rows["ip", metric, math.inf]["floor"]
        key = {"log": log, "metric": metric, "estimator": estimator}
        found.append(key | {"rmse": rmse[-1], "best": min(rmse), "floor": floor})
    return found
