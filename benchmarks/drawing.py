"""Answers of drawn logs against those of the whole: `python -m benchmarks.drawing`.

Contexts are drawn by the hash of their text, so other names of the contexts are another draw. Of
each log of a shop there is the answer of all records, and those of several draws: how far off they
are in half-widths of the whole's interval, how much wider, and how often they hold the truth.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import foreclick as fc
from foreclick.simulate import shop

CANDIDATES = ("better", "similar")
METRICS = ("clicks@3", "dcg@10")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regimes", nargs="+", default=["shop", "dbn"])
    parser.add_argument("--logs", type=int, default=4)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--lists", type=int, default=3_000_000)
    parser.add_argument("--sample", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=52_000)
    args = parser.parse_args()
    every = []
    for regime in args.regimes:
        found = []
        for number in range(args.logs):
            found += one_log(regime, args.seed + number, args.lists, args.sample, args.draws)
            show(f"{regime}, log {number + 1}", found)
        every += found
    show("all", every)


def one_log(regime: str, seed: int, lists: int, sample: int, draws: int) -> list[dict[str, float]]:
    """The answers of several draws of a log, each against that of the whole."""
    some = replace(shop.REGIMES[regime], records=lists, queries=lists // 42, candidates=CANDIDATES)
    drawn = shop.draw(some, seed=seed)
    whole, found = answers(drawn, None, 0), []
    for draw in range(1, draws + 1):
        for key, row in answers(drawn, sample, draw).items():
            all_, truth = whole[key], drawn.lift(*key)
            half = (all_["lift_high"] - all_["lift_low"]) / 2
            found.append(
                {
                    "offset": (row["lift"] - all_["lift"]) / half,
                    "width": (row["lift_high"] - row["lift_low"]) / (2 * half),
                    "held": float(row["lift_low"] <= truth <= row["lift_high"]),
                    "whole": float(all_["lift_low"] <= truth <= all_["lift_high"]),
                    "error": row["lift"] - truth,
                }
            )
    return found


def answers(drawn: Any, sample: int | None, draw: int) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of both candidates, by candidate and metric, with contexts named by the draw."""
    found = {}
    log = fc.read_log(
        named(drawn.log, draw), context="query", period="day", unit="user", sample=sample
    )
    for name in CANDIDATES:
        candidate = fc.Ranking(named(drawn.candidates[name], draw), context="query")
        rows = fc.evaluate(log, candidate, metrics=METRICS, estimators="ladder").rows
        found |= {(name, str(row["metric"])): dict(row) for row in rows}
    return found


def named(table: pa.Table, draw: int) -> pa.Table:
    """The same table with contexts of other names."""
    source = table
    query = duckdb.sql(f"SELECT concat(query, ' ', {draw}) AS query FROM source").to_arrow_table()
    return source.set_column(source.column_names.index("query"), "query", query["query"])


def show(name: str, found: list[dict[str, float]]) -> None:
    """A line of means."""
    of = {key: np.array([each[key] for each in found]) for key in found[0]}
    print(
        f"{name:16s} {len(found):4d} answers: mean offset {of['offset'].mean():+.2f} half-widths "
        f"(sd {of['offset'].std():.2f}), width × {of['width'].mean():.2f}, held "
        f"{of['held'].mean():.1%} (whole {of['whole'].mean():.1%}), RMSE "
        f"{100 * np.sqrt((of['error'] ** 2).mean()):.2f} points",
        flush=True,
    )


if __name__ == "__main__":
    main()
