"""The experiments of the paper's section 6, from a Yandex log or from a world made to resemble it.

Every experiment is one backtest. The table says by how much `ip` errs less than `list` and `rctr`,
at least, for any M ≥ 100, as the paper words its results, beside the paper's own number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from foreclick import simulate
from foreclick._backtest import Backtest, backtest
from foreclick._tally import Tally, tally
from foreclick.engines import total
from foreclick.errors import BacktestError
from foreclick.logs import CONTEXT, PERIOD, N, read_log
from foreclick.results import Result

ESTIMATORS = ("list", "ip", "item", "pbm", "rctr")
METRICS = ("clicks@2", "clicks@3", "dcg@10")
CLIPS = (1, 2, 3, 5, 7, 10, 14, 20, 30, 40, 50, 70, 100, 140, 200, 300, 500, 700, 1000, math.inf)
LARGE = 100
"""The paper states its results for any M from here on."""

ILLUSTRATIVE = 11655238
DRIFTING = 20100007
"""The queries that the paper shows."""

PAPER = {
    ("illustrative query", "clicks@2", "list"): 0.1355,
    ("illustrative query", "clicks@2", "rctr"): 0.1607,
    ("illustrative query", "clicks@3", "list"): 0.1051,
    ("illustrative query", "clicks@3", "rctr"): 0.1356,
    ("illustrative query", "dcg@10", "list"): 0.6834,
    ("illustrative query", "dcg@10", "rctr"): 0.0682,
    ("100 most frequent queries", "clicks@2", "list"): 0.1790,
    ("100 most frequent queries", "clicks@2", "rctr"): 0.1318,
    ("100 most frequent queries", "clicks@3", "list"): 0.4624,
    ("100 most frequent queries", "clicks@3", "rctr"): 0.1250,
    ("100 most frequent queries", "dcg@10", "list"): 0.8196,
    ("100 most frequent queries", "dcg@10", "rctr"): 0.1065,
}
"""By how much `ip` errs less, at least, in print.

For the illustrative query the paper's numbers are those of the worst of ip, item and pbm, from
M = 40, 30 and 100 on.
"""


@dataclass(frozen=True, repr=False)
class Reproduction(Result):
    """By how much `ip` errs less than `list` and `rctr`, beside the paper's number.

    | column | meaning |
    |---|---|
    | experiment, metric, against | which of the paper's comparisons |
    | rmse | the error of `ip` at M = ∞ |
    | cut | 1 − RMSE of ip / RMSE of the other, the smallest over M ≥ 100 |
    | paper | the same in print; None where the paper gives no number |

    Attributes:
        backtests: the experiments in full, by name.
        figures: the files that were drawn.
    """

    backtests: dict[str, Backtest] = field(default_factory=dict)
    figures: tuple[Path, ...] = ()


def reproduce(
    log: Any = None,  # noqa: ANN401 - a Log, a Tally, or nothing
    *,
    out: str | Path | None = None,
    records: int = 9_000_000,
    seed: int = 500,
    world: Callable[..., simulate.Simulation] = simulate.yandex_like,
    progress: Callable[[str], None] = lambda _: None,
) -> Reproduction:
    """Every figure and headline number of the paper's section 6.

    Args:
        log: the Yandex log, as `datasets.yandex` reads it. Without it, a simulated one.
        out: a directory for the figures; none are drawn without it.
        records: how many records are simulated.
        seed: of the simulation.
        world: the simulation, a function of `records` and `seed`.
        progress: told what is being done.
    """
    progress("reading the log" if log is not None else f"simulating {records:,} records")
    counted = tally(_simulated(world(records=records, seed=seed), seed) if log is None else log)
    if counted.shape.depth < 10:  # noqa: PLR2004 - the paper's K
        raise BacktestError(
            f"the paper's experiments look at 10 positions, and the log's lists have "
            f"{counted.shape.depth}."
        )
    found: dict[str, Backtest] = {}

    def run(name: str, source: Tally, metrics: Sequence[str], **which: Any) -> None:  # noqa: ANN401
        progress(name)
        found[name] = backtest(source, metrics=metrics, estimators=ESTIMATORS, clip=CLIPS, **which)

    if log is None:
        alone = tally(_simulated(simulate.illustrative_query(seed=seed), seed))
        run("illustrative query", alone, METRICS)
    else:
        run("illustrative query", counted, METRICS, contexts=[_like(counted, ILLUSTRATIVE, 3553)])
    run("100 most frequent queries", counted, METRICS, ranks=100)
    run("900 less frequent queries", counted, METRICS, ranks=(101, 1000))
    run("100 most frequent queries, all positions", counted, ["clicks@10"], ranks=100)
    rows = [row for name, result in found.items() for row in _rows(name, result)]
    figures = _figures(counted, found, Path(out)) if out is not None else ()
    notes = [f"{name}: {note}" for name, result in found.items() for note in result.notes]
    if log is None:
        notes.insert(
            0,
            f"From {world.__name__}(records={records:,}, seed={seed}), a simulated log: no number "
            "here was measured on the log of the paper.",
        )
    return Reproduction(
        tuple(rows),
        tuple(rows[0]),
        tuple(notes),
        title="By how much ip errs less, at least, for M ≥ 100",
        backtests=found,
        figures=figures,
    )


def _simulated(simulation: simulate.Simulation, seed: int) -> Any:  # noqa: ANN401 - a Log
    return read_log(simulation.sample(seed=seed), context="query", period="day")


def _rows(name: str, result: Backtest) -> list[dict[str, Any]]:
    errors = {(r["estimator"], r["metric"], r["clip"]): r["rmse"] for r in result}
    metrics = dict.fromkeys(result["metric"])
    return [
        {
            "experiment": name,
            "metric": metric,
            "against": other,
            "rmse": errors["ip", metric, math.inf],
            "cut": min(
                1 - errors["ip", metric, clip] / errors[other, metric, clip]
                for clip in CLIPS
                if clip >= LARGE
            ),
            "paper": PAPER.get((name, metric, other)),
        }
        for metric in metrics
        for other in ("list", "rctr")
    ]


def _like(counted: Tally, query: int, records: int) -> Any:  # noqa: ANN401 - a context
    """The paper's query if the log has it, or else the one with most nearly as many records."""
    table = counted.table
    counts = table.group_by(CONTEXT).aggregate(**{N: total(table[N])})
    near = counts.mutate(away=(counts[N] - records).abs())
    nearest = counted.engine.rows(near.order_by(["away", CONTEXT]).limit(1))[0][CONTEXT]
    named = counts.filter(counts[CONTEXT].cast("string") == str(query))
    exact = counted.engine.rows(named.limit(1))
    return exact[0][CONTEXT] if exact else nearest


def _figures(counted: Tally, found: dict[str, Backtest], out: Path) -> tuple[Path, ...]:
    from foreclick.report.charts import lines_by_period  # noqa: PLC0415 - matplotlib is an extra

    out.mkdir(parents=True, exist_ok=True)
    files = []
    for name, result in found.items():
        file = out / f"{name.replace(' ', '-').replace(',', '')}.png"
        result.save(file)
        files.append(file)
    query, days, first, every = _drift(counted)
    figure = lines_by_period(
        days,
        {"position 1": first, "all positions": every},
        title=f"Clicks of query {query} by day",
        label="clicks a record",
    )
    files.append(out / "drift.png")
    figure.savefig(files[-1])
    return tuple(files)


def _drift(counted: Tally) -> tuple[Any, list[Any], list[float], list[float]]:
    """The query among the 100 most frequent whose first position moves most, and its days.

    The paper's point: clicks at position 1 change with what stands there; those of all positions
    together do not.
    """
    table = counted.table
    counts = table.group_by(CONTEXT).aggregate(**{N: total(table[N])})
    frequent = counts.order_by([counts[N].desc(), CONTEXT]).limit(100).select(CONTEXT)
    clicks = [table[N] * table[c].fill_null(0) for c in counted.shape.reward("clicks")]
    by_day = (
        table.mutate(first=clicks[0], every=reduce(add, clicks))
        .semi_join(frequent, CONTEXT)
        .group_by([CONTEXT, PERIOD])
    )
    sums = by_day.aggregate(
        **{
            N: lambda t: t[N].sum(),
            "first": lambda t: t.first.sum(),
            "every": lambda t: t.every.sum(),
        }
    )
    rows: dict[Any, list[dict[str, Any]]] = {}
    for row in sorted(counted.engine.rows(sums), key=lambda r: r[PERIOD]):
        rows.setdefault(row[CONTEXT], []).append(row)

    def moves(days: list[dict[str, Any]]) -> float:
        first = [float(d["first"]) / float(d[N]) for d in days]
        every = [float(d["every"]) / float(d[N]) for d in days]
        return float(np.ptp(first) - np.ptp(every))

    query = DRIFTING if DRIFTING in rows else max(rows, key=lambda q: moves(rows[q]))
    days = rows[query]
    return (
        query,
        [d[PERIOD] for d in days],
        [float(d["first"]) / float(d[N]) for d in days],
        [float(d["every"]) / float(d[N]) for d in days],
    )
