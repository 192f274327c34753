"""The default answer in a search shop, beside the truth.

Logs are those of `foreclick.simulate.shop`: a long tail of queries, a ranker that is replaced
weekly and retrained nightly, and candidates that are other models. Each log of a regime has a seed,
and so a shop, of its own. Asked are clicks@3 and dcg@10; in a shop with prices,
clicks, orders and revenue in three positions.

    python -m benchmarks shop                                       # the ordinary shop, 10 logs
    python -m benchmarks shop --regimes prices bids --records 50000 --estimators ladder

Values are lifts; *right* is how many true lifts of 2 % or more, up or down, are called better or
worse as they are; *wrong* is how many of all are called the contrary. CPU seconds are those of a
candidate, without reading the log. The last column says for how many logs a warning or a note spoke
of leakage. The regime "leaky" is asked with `trained_until`, and without ("untold").

`drawing`: answers of drawn contexts against those of the whole log. Contexts are drawn by the hash
of their text, so other names are another draw. *offset* is in half-widths of the whole's interval.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

import foreclick as fc
from benchmarks.study import Column, Row, Rows, beside, evaluated, inside, right, study
from foreclick.simulate.shop import REGIMES, TRAINED_UNTIL, ShopLog, draw

METRICS = ("clicks@3", "dcg@10")
PRICED = ("clicks@3", "orders@3", "revenue@3")


def leaks(rows: Rows) -> str:
    """Of how many logs a note or a warning spoke of leakage."""
    warned = {row["seed"] for row in rows if row["warned"]}
    return f"{len(warned)} of {len({row['seed'] for row in rows})}"


ANSWERS = (
    "answers, bias, rmse, held, width",
    Column("right", right(0.02), ".0%"),
    "wrong, CPU s=cpu:.1f",
    Column("leakage noticed", leaks),
)


def read(drawn: ShopLog, **roles: Any) -> fc.Log:
    """The log of a shop."""
    return fc.read_log(drawn.log, context="query", period="day", unit="user", **roles)


@study("shop", ["regime", "estimator"], *ANSWERS, regimes=["shop"], logs=10, seed=1)
def answers(regime: str, seed: int, records: int = 0, estimators: list[str] = []) -> list[Row]:
    """The default answer in a search shop with a long tail; 0 `records`: its own number."""
    options = {"estimators": estimators or None}
    shop = replace(REGIMES[regime], records=records or REGIMES[regime].records)
    drawn = draw(shop, seed)
    rewards = {name: name for name in ("orders", "revenue") if shop.prices}
    tally = fc.tally(read(drawn, rewards=rewards))
    ways: dict[str, dict[str, Any]] = {regime: options}
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
    """The lifts of one candidate, what they took, and whether a warning spoke of leakage."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        candidate = fc.Ranking(table, context="query")
        answer = fc.evaluate(tally, candidate, metrics=list(truths), **options)
    cpu = time.process_time() - start
    text = " ".join([*answer.notes, *(str(warning.message) for warning in caught)])
    warned = "have been trained on these clicks" in text
    return [
        beside(row, truths[str(row["metric"])], "lift") | {"cpu": cpu, "warned": warned}
        for row in answer
    ]


# --- of drawn contexts ----------------------------------------------------------------------------

DRAWN = ("better", "similar")


@study(
    "drawing",
    ["regime"],
    "answers, offset:+.2f",
    Column("sd of it", lambda rows: float(rows.of("offset").std()), ".2f"),
    "wider:.2f, held, whole held=whole:.1%, rmse",
    regimes=["shop", "dbn"],
    logs=4,
    seed=52_000,
)
def against_whole(
    regime: str,
    seed: int,
    lists: int = 3_000_000,
    sample: int = 1_000_000,
    draws: int = 30,
) -> list[Row]:
    """Answers of drawn contexts beside those of the whole log."""
    some = replace(REGIMES[regime], records=lists, queries=lists // 42, candidates=DRAWN)
    drawn = draw(some, seed=seed)
    whole, found = renamed(drawn, None, 0), []
    for number in range(1, draws + 1):
        for all_, row in zip(whole, renamed(drawn, sample, number), strict=True):
            half = (all_["high"] - all_["low"]) / 2
            offset, wider = (row["value"] - all_["value"]) / half, (row["high"] - row["low"]) / 2
            own = {"offset": offset, "wider": wider / half, "whole": bool(inside(Rows([all_]))[0])}
            found.append({"regime": regime} | row | own)
    return found


def renamed(drawn: ShopLog, sample: int | None, draw: int) -> list[Row]:
    """The lifts of both candidates, with contexts named by the draw."""
    log = read(drawn._replace(log=named(drawn.log, draw)), sample=sample)
    found = []
    for name in DRAWN:
        candidate = fc.Ranking(named(drawn.candidates[name], draw), context="query")
        truths = {metric: drawn.lift(name, metric) for metric in METRICS}
        found += evaluated(log, candidate, truths, "lift", estimators="ladder")
    return found


def named(table: pa.Table, draw: int) -> pa.Table:
    """The same table with contexts of other names."""
    source = table
    query = duckdb.sql(f"SELECT concat(query, ' ', {draw}) AS query FROM source").to_arrow_table()
    return source.set_column(source.column_names.index("query"), "query", query["query"])
