"""The experiments of the paper's section 6, from a Yandex log or from a world made to resemble it.

Every experiment is one backtest. The table says by how much `ip` errs less than `list` and `rctr`,
at least, for any M ≥ 100, as the paper words its results, beside the paper's own number.

    python -m experiments.reproduce -o figures
    python -m experiments.reproduce train.parquet    # as `experiments.datasets` converts it
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from foreclick import simulate
from foreclick.engines import DUCKDB
from foreclick.engines.files import whole_file
from foreclick.errors import BacktestError
from foreclick.estimators import Weighted
from foreclick.logs import CONTEXT, PERIOD, N, read_log
from foreclick.questions.backtest import Backtest, backtest
from foreclick.rendering.drawing import SERIES, Line, LineChart
from foreclick.rendering.files import Chart
from foreclick.results import Result, format_value
from foreclick.simulate.simulation import attractions, preset, preset_dbn
from foreclick.tallies import Tally, is_tally, read_tally, tally
from tests.answers import clipped

ESTIMATORS = ("list", "ip", "item", Weighted("pbm", examination="1/k"), "rctr")
METRICS = ("clicks@2", "clicks@3", "dcg@10")
POSITIONS = 10
"""The length of the paper's lists."""

CLIPS = (1, 2, 3, 5, 7, 10, 14, 20, 30, 40, 50, 70, 100, 140, 200, 300, 500, 700, 1000, math.inf)
LARGE = 100
"""The paper states its results for any M from here on."""

STRUCTURED = ("ip", "item", "pbm")
LARGE_FOR_ONE = {"clicks@2": 40, "clicks@3": 30, "dcg@10": 100}
"""Of the illustrative query it states those of the worst of three estimators, from these M on."""

ILLUSTRATIVE, ITS_RECORDS = 11655238, 3553
DRIFTING = 20100007
"""The queries that the paper shows."""

ONE = "illustrative query"
FREQUENT = "100 most frequent queries"
LESS_FREQUENT = "900 less frequent queries"
ALL_POSITIONS = "100 most frequent queries, all positions"

PAPER = {
    (ONE, "clicks@2", "list"): 0.1355,
    (ONE, "clicks@2", "rctr"): 0.1607,
    (ONE, "clicks@3", "list"): 0.1051,
    (ONE, "clicks@3", "rctr"): 0.1356,
    (ONE, "dcg@10", "list"): 0.6834,
    (ONE, "dcg@10", "rctr"): 0.0682,
    (FREQUENT, "clicks@2", "list"): 0.1790,
    (FREQUENT, "clicks@2", "rctr"): 0.1318,
    (FREQUENT, "clicks@3", "list"): 0.4624,
    (FREQUENT, "clicks@3", "rctr"): 0.1250,
    (FREQUENT, "dcg@10", "list"): 0.8196,
    (FREQUENT, "dcg@10", "rctr"): 0.1065,
}
"""By how much `ip` errs less, at least, in print."""


@dataclass(frozen=True, repr=False)
class Reproduction(Result):
    """By how much `ip` errs less than `list` and `rctr`, beside the paper's number.

    | column | meaning |
    |---|---|
    | experiment, metric, against | which of the paper's comparisons |
    | contexts | how many queries it rests on |
    | rmse, floor | the error of `ip` at M = ∞, and what the click noise alone would leave of it |
    | cut | 1 − RMSE of ip / RMSE of the other, the smallest over M ≥ 100 |
    | paper | the same in print; None where the paper gives no number |

    Of the illustrative query the paper words it otherwise, and so does `cut`: the smallest over ip,
    item and pbm, from M = 40 (clicks@2), 30 (clicks@3) and 100 (dcg@10) on.

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
    engine: Any = None,  # noqa: ANN401 - an Ibis connection
    progress: Callable[[str], None] = lambda _: None,
) -> Reproduction:
    """Every figure and headline number of the paper's section 6.

    An experiment for which the log has too few queries is left out, and a note says so.

    Args:
        log: the Yandex log, as `experiments.datasets.yandex` reads it, or its tally. Without it, a
            simulated one.
        out: a directory for the figures; none are drawn without it.
        records: how many records are simulated.
        seed: of the simulation.
        world: the simulation, a function of `records` and `seed`.
        engine: where the simulated log is counted; by default DuckDB in this process.
        progress: told what is being done.

    Raises:
        BacktestError: the log has no periods, or lists of fewer than ten items.
    """
    folder = None if out is None else Path(out)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)  # before the work, not after
    one: dict[str, Any]
    if log is None:
        progress(f"Simulating {records:,} records")
        counted = _ten_positions(_simulated(world(records=records, seed=seed), seed, engine))
        one = {"source": _simulated(illustrative_query(seed=seed), seed, engine)}
        notes = [_made_up(world, records, seed)]
    else:
        progress("Reading the log")
        counted = _ten_positions(tally(log))
        query, notes = _illustrative(counted)
        rank = _order(counted).index(query) + 1
        one = {"source": counted, "ranks": (rank, rank)}
    found, failures = _experiments(counted, one, progress)
    rows = [row for name, result in found.items() for row in _rows(name, result)]
    notes += failures
    notes += [f"{name}: {note}" for name, result in found.items() for note in result.notes]
    figures: tuple[Path, ...] = ()
    if folder is not None:
        progress("Drawing the figures")
        figures = _figures(counted, found, folder)
        notes.append(f"Drawn in {folder}: {', '.join(file.name for file in figures)}.")
    return Reproduction(
        tuple(rows),
        tuple(rows[0]),
        tuple(notes),
        title="By how much ip errs less, at least, for M ≥ 100",
        backtests=found,
        figures=figures,
    )


def _ten_positions(counted: Tally) -> Tally:
    if counted.shape.depth < POSITIONS:
        raise BacktestError(
            f"the paper's experiments look at {POSITIONS} positions, and the log's lists have "
            f"{counted.shape.depth}. Use fc.backtest with the metrics that suit it."
        )
    return counted


def _experiments(
    counted: Tally, one: dict[str, Any], progress: Callable[[str], None]
) -> tuple[dict[str, Backtest], list[str]]:
    """The experiments that the log can give, and what is to be said of the others."""
    plan: dict[str, dict[str, Any]] = {
        ONE: {"metrics": METRICS, **one},
        FREQUENT: {"metrics": METRICS, "source": counted, "ranks": 100},
        LESS_FREQUENT: {"metrics": METRICS, "source": counted, "ranks": (101, 1000)},
        ALL_POSITIONS: {"metrics": "clicks@10", "source": counted, "ranks": 100},
    }
    found: dict[str, Backtest] = {}
    failures: dict[str, BacktestError] = {}
    for name, options in plan.items():
        progress(f"Predicting: {name}")
        log = options.pop("source")
        try:
            found[name] = backtest(log, estimators=clipped(ESTIMATORS, CLIPS), **options)
        except BacktestError as error:
            failures[name] = error
    if FREQUENT not in found:  # then it is not a matter of too few queries
        raise failures[FREQUENT]
    return found, [f"{name}: left out, because {error}" for name, error in failures.items()]


def _simulated(simulation: simulate.Simulation, seed: int, engine: Any) -> Tally:  # noqa: ANN401
    sample = simulation.sample(seed=seed)
    return tally(read_log(sample, context="query", period="day", engine=engine))


def _made_up(world: Callable[..., simulate.Simulation], records: int, seed: int) -> str:
    name = getattr(world, "__name__", "a world of your own")
    return (
        f"From simulated logs, {name} (records={records:,}, seed={seed}) and for the illustrative "
        f"query illustrative_query (seed={seed}): no number here was measured on the log of the "
        "paper."
    )


def _rows(name: str, result: Backtest) -> list[dict[str, Any]]:
    found = {(r["estimator"], r["metric"], r["clip"]): r for r in result}
    rows = []
    for metric in dict.fromkeys(result["metric"]):
        ours, least = (STRUCTURED, LARGE_FOR_ONE[metric]) if name == ONE else (("ip",), LARGE)
        best = found["ip", metric, math.inf]
        for other in ("list", "rctr"):
            theirs = {
                m: found[other, metric, m]["rmse"] for m in CLIPS if (other, metric, m) in found
            }
            cuts = [
                _cut(found[mine, metric, clip]["rmse"], theirs.get(clip, theirs[math.inf]))
                for mine in ours
                for clip in CLIPS
                if clip >= least
            ]
            rows.append(
                {
                    "experiment": name,
                    "metric": metric,
                    "against": other,
                    **{column: best[column] for column in ("contexts", "rmse", "floor")},
                    "cut": min(cuts),
                    "paper": PAPER.get((name, metric, other)),
                }
            )
    return rows


def _cut(mine: float, theirs: float) -> float:
    """By how much less it errs; of an error of 0 nothing can be cut."""
    if theirs == 0:
        return 0.0 if mine == 0 else -math.inf
    return 1 - mine / theirs


def _records(counted: Tally) -> str:
    """How many records each query has, as a SELECT."""
    return (
        f"SELECT {CONTEXT}, CAST(sum({N}) AS DOUBLE) AS {N} "
        f"FROM {counted.stored.rows} AS s GROUP BY {CONTEXT}"
    )


def _order(counted: Tally) -> list[Any]:
    """All queries, from the most frequent on, as `backtest` ranks them."""
    order = f"SELECT * FROM ({_records(counted)}) ORDER BY {N} DESC, {CONTEXT}"
    return list(counted.engine.ask(order).to_pydict()[CONTEXT])


def _named(query: object) -> str:
    """Whether a row is of this query, whatever type contexts have."""
    return f"CAST({CONTEXT} AS VARCHAR) = {DUCKDB.literal(str(query))}"


def illustrative_query(records: int = 3553, seed: int = 0) -> simulate.Simulation:
    """One query like the paper's example: 3,553 records, about 63 lists and 53 items.

    The click world is that of `yandex_like`, with a larger pool; few variants a day, with
    items from anywhere in it, give about the paper's number of lists and items.

    Args:
        records: how many records a log has.
        seed: another seed is another query.
    """
    pool = 70
    few = simulate.Drifting(
        1, pool, POSITIONS, seed, variants=(2, 4), fresh=0.65, reach=60.0, depth=0.0
    )
    return preset(preset_dbn(*attractions(1, seed, pool)), few, records)


def _illustrative(counted: Tally) -> tuple[Any, list[str]]:
    """The paper's query if the log has it, or else the one with most nearly as many records."""
    counts, ask = _records(counted), counted.engine.ask
    exact = ask(f"SELECT * FROM ({counts}) WHERE {_named(ILLUSTRATIVE)} LIMIT 1").to_pylist()
    if exact:
        return exact[0][CONTEXT], []
    order = f"ORDER BY abs({N} - {ITS_RECORDS}), {CONTEXT}"
    nearest = ask(f"SELECT * FROM ({counts}) {order} LIMIT 1").to_pylist()[0]
    note = (
        f"{ONE}: the log has no query {ILLUSTRATIVE}; in its place stands {nearest[CONTEXT]}, with "
        f"{nearest[N]:,.0f} records ({ITS_RECORDS:,} in the paper)."
    )
    return nearest[CONTEXT], [note]


def _figures(counted: Tally, found: dict[str, Backtest], out: Path) -> tuple[Path, ...]:
    files = []
    for name, result in found.items():
        file = out / f"{name.replace(' ', '-').replace(',', '')}.png"
        result.save(file)
        files.append(file)
    query, days, first, every = _drift(counted)
    lines = {"position 1": first, "all positions": every}
    drawn = [Line(name, ys, look) for (name, ys), look in zip(lines.items(), SERIES, strict=False)]
    title = f"Clicks of query {query} by day"
    places = [format_value("period", day) for day in days]
    figure = Chart("", (LineChart(title, ("day", "clicks a record"), places, drawn, zero=True),))
    files.append(out / "drift.png")
    with whole_file(files[-1]) as file:
        file.write_bytes(figure.picture("png"))
    return tuple(files)


def _drift(counted: Tally) -> tuple[Any, list[Any], list[float], list[float]]:
    """A query whose first position moves, its days, and its clicks there and at all positions.

    It is the paper's if the log has it, or else that of the 100 most frequent ones whose clicks at
    position 1 move most beyond those of all positions. The paper's point: the former change with
    what stands there; the latter do not.
    """
    rows, ask = counted.table.rows, counted.engine.ask
    often = f"SELECT {CONTEXT} FROM ({_records(counted)}) ORDER BY {N} DESC, {CONTEXT} LIMIT 100"
    chosen = f"{CONTEXT} IN ({often})"
    if ask(f"SELECT 1 FROM {rows} AS s WHERE {_named(DRIFTING)} LIMIT 1").num_rows:
        chosen = _named(DRIFTING)
    clicks = [f"coalesce({c}, 0)" for c in counted.shape.reward("clicks")]
    sums = ask(
        f"SELECT {CONTEXT}, {PERIOD}, sum({N}) AS {N}, sum({N} * {clicks[0]}) AS first, "
        f"sum({N} * ({' + '.join(clicks)})) AS every FROM {rows} AS s "
        f"WHERE {chosen} AND {PERIOD} IS NOT NULL GROUP BY {CONTEXT}, {PERIOD}"
    )
    queries: dict[Any, list[dict[str, Any]]] = {}
    for row in sorted(sums.to_pylist(), key=lambda row: row[PERIOD]):
        queries.setdefault(row[CONTEXT], []).append(row)

    def rates(query: Any, clicked: str) -> list[float]:  # noqa: ANN401 - a context
        return [float(day[clicked]) / float(day[N]) for day in queries[query]]

    query = max(queries, key=lambda q: np.ptp(rates(q, "first")) - np.ptp(rates(q, "every")))
    days = [day[PERIOD] for day in queries[query]]
    return query, days, rates(query, "first"), rates(query, "every")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", nargs="?", help="a log with query and day, or a tally")
    parser.add_argument("-o", "--out", help="a directory for the figures")
    parser.add_argument("--world", choices=("yandex-like", "pbm-drift"), default="yandex-like")
    parser.add_argument("--records", type=int, default=9_000_000)
    parser.add_argument("--seed", type=int, default=500)
    args = parser.parse_args()
    log: Any = None
    if args.log is not None:
        path = args.log
        log = read_tally(path) if is_tally(path) else read_log(path, context="query", period="day")
    world = simulate.PRESETS[args.world]
    print(reproduce(log, out=args.out, records=args.records, seed=args.seed, world=world))


if __name__ == "__main__":
    main()
