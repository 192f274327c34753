"""The estimators on real logs: `make real DATA=…`, where DATA holds the public samples.

Two experiments that need no click model to be right. PyClick's sample of a Yandex log: hold out one
list at a time, where it was shown at least 100 times, and predict its clicks from the other lists
of the query. Naver's log: hold out one day at a time. And of both, how much each position is looked
at.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import pyarrow as pa

import foreclick as fc
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


def show(title: str, result: Backtest) -> None:
    """RMSE at M = ∞ and at the best M, for every estimator."""
    print(f"\n## {title}\n\n| estimator | " + " | ".join(METRICS) + " |")
    print("|---|" + "---|" * len(METRICS))
    rows = {(r["estimator"], r["metric"], r["clip"]): r for r in result}
    for estimator in ESTIMATORS:
        cells = []
        for metric in METRICS:
            known = [m for m in CLIPS if (estimator, metric, m) in rows]
            errors = {m: rows[estimator, metric, m]["rmse"] for m in known}
            best = min(errors, key=lambda m, e=errors: e[m])
            better = errors[best] < 0.995 * errors[math.inf]
            clipped = f" ({errors[best]:.3f} at M = {best})" if better else ""
            cells.append(f"{errors[math.inf]:.3f}{clipped}")
        print(f"| {estimator} | " + " | ".join(cells) + " |")
    floors = " | ".join(f"{rows['ip', metric, math.inf]['floor']:.3f}" for metric in METRICS)
    print(f"| *floor* | {floors} |\n")
    print("\n".join(f"- {note}" for note in result.notes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--charts", type=Path, help="a directory to draw the curves into")
    args = parser.parse_args()
    data = args.data
    show("PyClick's sample, one list at a time", one_list_at_a_time(data))
    show("Naver, one day at a time", one_day_at_a_time(data))
    logs = {"pyclick": of_columns(pyclick(data)), "naver": naver(data)}
    for name, log in logs.items():
        curve = fc.examination(log)
        print(f"\n## How much positions are looked at, {name}\n\n{curve}")
        if args.charts:
            curve.save(args.charts / f"examination-{name}.png")


if __name__ == "__main__":
    main()
