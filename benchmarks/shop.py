"""The default answer in a search shop, beside the truth.

Logs are those of `foreclick.simulate.shop`: a long tail of queries, a ranker that is replaced
weekly and retrained nightly, and candidates that are other models. Each log of a regime has a seed,
and so a shop, of its own. Asked are clicks@3 and dcg@10; in a shop with prices,
clicks, orders and revenue in three positions.

    python -m benchmarks shop                                       # the ordinary shop, 10 logs
    python -m benchmarks shop --regimes all --logs 2 --records 50000 --quiet
    python -m benchmarks shop --regimes shop dbn --estimators ladder ip pbm --jobs 2
    python -m benchmarks shop --regimes prices bids --records 50000 --estimators ladder

Values are lifts; *right* is how many true lifts of 2 % or more, up or down, are called better or
worse as they are; *wrong* is how many of all are called the contrary. CPU seconds are those of a
candidate, without reading the log. The last column says for how many logs a warning or a note spoke
of leakage. The regime "leaky" is asked with `trained_until`, and without ("untold").

`parts`: answers by segment in shops where some users have another taste (apart 0: the same).
`drawing`: answers of drawn contexts against those of the whole log. Contexts are drawn by the hash
of their text, so other names are another draw. *offset* is in half-widths of the whole's interval.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import foreclick as fc
from benchmarks.study import (
    BIAS,
    COUNT,
    HELD,
    RMSE,
    WIDTH,
    WRONG,
    Column,
    Row,
    Rows,
    Task,
    grid,
    inside,
    mean,
    right,
    study,
)
from foreclick.simulate.shop import REGIMES, TRAINED_UNTIL, Shop, ShopLog, draw

METRICS = ("clicks@3", "dcg@10")
PRICED = ("clicks@3", "orders@3", "revenue@3")
RIGHT = Column("right", right(0.02), ".0%")


def leaks(rows: Rows) -> str:
    """Of how many logs a note or a warning spoke of leakage."""
    warned = {row["seed"] for row in rows if row["warned"]}
    return f"{len(warned)} of {len({row['seed'] for row in rows})}"


CPU, LEAKS = mean("cpu", "CPU s", ".1f"), Column("leakage noticed", leaks)
ANSWERS = (COUNT, BIAS, RMSE, HELD, WIDTH, RIGHT, WRONG)


@study("shop", ["regime", "estimator"], *ANSWERS, CPU, LEAKS)
def regimes(
    regimes: list[str] = ["shop"],
    logs: int = 10,
    seed: int = 1,
    records: int | None = None,
    estimators: list[str] | None = None,
) -> Iterator[Task]:
    """The default answer in a search shop with a long tail."""
    options = {"estimators": estimators} if estimators else {}
    names = list(REGIMES) if regimes == ["all"] else regimes
    return grid(answers, names, range(seed, seed + logs), [records], [options])


def read(drawn: ShopLog, **roles: Any) -> fc.Log:
    """The log of a shop."""
    return fc.read_log(drawn.log, context="query", period="day", unit="user", **roles)


def answers(regime: str, seed: int, records: int | None, options: dict[str, Any]) -> list[Row]:
    """What `evaluate` says of every candidate of one log."""
    shop = replace(REGIMES[regime], records=records or REGIMES[regime].records)
    drawn = draw(shop, seed)
    rewards = {name: name for name in ("orders", "revenue") if shop.prices}
    tally = fc.tally(read(drawn, rewards=rewards))
    ways = {regime: options}
    if "leaky" in drawn.candidates:
        told = {regime: options | {"trained_until": TRAINED_UNTIL}}
        ways = told | {f"{regime}, untold": options}
    found = []
    for way, keywords in ways.items():
        # Told until when it was trained, the answer is of the days after.
        days = " later" if "trained_until" in keywords else ""
        for name, table in drawn.candidates.items():
            metrics = PRICED if shop.prices else METRICS
            truths = {m: drawn.lift(name + days, m, "production" + days) for m in metrics}
            key = {"regime": way, "seed": seed, "candidate": name}
            found += [key | row for row in asked(tally, table, truths, keywords)]
    if shop.prices:
        found = [row | {"regime": f"{row['regime']}: {row['metric']}"} for row in found]
        found += [
            row | {"regime": f"{row['regime']}, {row['candidate']}"}
            for row in found
            if row["candidate"] in ("dear", "better")
        ]
    return found


def asked(
    tally: fc.Tally, table: pa.Table, truths: dict[str, float], options: dict[str, Any]
) -> list[Row]:
    """The answers for one candidate, beside its true lifts by metric."""
    candidate = fc.Ranking(table, context="query")
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = fc.evaluate(tally, candidate, metrics=list(truths), **options)
    cpu = time.process_time() - start
    text = " ".join([*answer.notes, *(str(warning.message) for warning in caught)])
    warned = "have been trained on these clicks" in text
    return [
        {
            "metric": row["metric"],
            "estimator": row["estimator"],
            **beside(row, truths[str(row["metric"])]),
            "cpu": cpu,
            "warned": warned,
        }
        for row in answer
    ]


def beside(row: Any, truth: float) -> Row:
    """The lift of a row of an evaluation beside the true one."""
    value, low, high = (
        np.nan if row[column] is None else float(row[column])
        for column in ("lift", "lift_low", "lift_high")
    )
    return {"truth": truth, "value": value, "low": low, "high": high, "verdict": row["verdict"]}


# --- by segment -----------------------------------------------------------------------------------

TOLD = Column("told", lambda rows: float((rows.signs != 0).mean()), ".0%")


@study("parts", ["share", "apart"], *ANSWERS, TOLD)
def parts(
    shares: list[float] = [0.05, 0.2, 0.5],
    apart: list[float] = [0.0, 0.3, 0.6, 1.0],
    logs: int = 5,
    seed: int = 1,
    records: int = 100_000,
) -> Iterator[Task]:
    """Answers by segment in shops where one segment has a taste of its own."""
    return grid(of_others, shares, apart, range(seed, seed + logs), [records])


def of_others(share: float, apart: float, seed: int, records: int) -> list[Row]:
    """The answers of the other users, for each candidate and metric."""
    drawn = draw(Shop(records=records, others=(share, apart)), seed)
    tally, found = fc.tally(read(drawn, segments="taste")), []
    for name, table in drawn.candidates.items():
        candidate = fc.Ranking(table, context="query")
        for row in fc.evaluate(tally, candidate, metrics=METRICS, estimators="ladder", by="taste"):
            if row["taste"] == "other":
                truth = drawn.lift(f"{name} of others", row["metric"], "production of others")
                found.append({"share": share, "apart": apart, **beside(row, truth)})
    return found


# --- of drawn contexts ----------------------------------------------------------------------------

DRAWN = ("better", "similar")


@study(
    "drawing",
    ["regime"],
    COUNT,
    mean("offset", form="+.2f"),
    Column("sd of it", lambda rows: float(rows.of("offset").std()), ".2f"),
    mean("wider", form=".2f"),
    HELD,
    mean("whole", "whole held", ".1%"),
    RMSE,
)
def drawing(
    regimes: list[str] = ["shop", "dbn"],
    logs: int = 4,
    draws: int = 30,
    lists: int = 3_000_000,
    sample: int = 1_000_000,
    seed: int = 52_000,
) -> Iterator[Task]:
    """Answers of drawn contexts beside those of the whole log."""
    return grid(against_whole, regimes, range(seed, seed + logs), [lists], [sample], [draws])


def against_whole(regime: str, seed: int, lists: int, sample: int, draws: int) -> list[Row]:
    """The answers of several draws of a log, each against that of all records."""
    some = replace(REGIMES[regime], records=lists, queries=lists // 42, candidates=DRAWN)
    drawn = draw(some, seed=seed)
    whole, found = renamed(drawn, None, 0), []
    for number in range(1, draws + 1):
        for all_, row in zip(whole, renamed(drawn, sample, number), strict=True):
            half = (all_["high"] - all_["low"]) / 2
            offset, wider = (row["value"] - all_["value"]) / half, (row["high"] - row["low"]) / 2
            held = bool(inside(Rows([all_]))[0])
            found.append(
                {"regime": regime, **row, "offset": offset, "wider": wider / half, "whole": held}
            )
    return found


def renamed(drawn: ShopLog, sample: int | None, draw: int) -> list[Row]:
    """The answers for both candidates, with contexts named by the draw."""
    log = read(drawn._replace(log=named(drawn.log, draw)), sample=sample)
    return [
        beside(row, drawn.lift(name, str(row["metric"])))
        for name in DRAWN
        for row in fc.evaluate(
            log,
            fc.Ranking(named(drawn.candidates[name], draw), context="query"),
            metrics=METRICS,
            estimators="ladder",
        )
    ]


def named(table: pa.Table, draw: int) -> pa.Table:
    """The same table with contexts of other names."""
    source = table
    query = duckdb.sql(f"SELECT concat(query, ' ', {draw}) AS query FROM source").to_arrow_table()
    return source.set_column(source.column_names.index("query"), "query", query["query"])
