"""The experiments of the paper's section 6, from a Yandex log or from a world made to resemble it.

Every experiment is one backtest. The table says by how much less estimators err than `list` and
`rctr`, at least, as the paper words its results, beside the paper's own number where the log is the
paper's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from foreclick import simulate
from foreclick.datasets import DAYS, yandex, yandex_counts
from foreclick.engines import DUCKDB, Table, Value, laptop
from foreclick.engines.files import whole_file
from foreclick.errors import BacktestError, optional
from foreclick.estimators import Weighted
from foreclick.logs import CONTEXT, PERIOD, N, read_log
from foreclick.progress import report_step, working
from foreclick.questions.backtest import Backtest, backtest
from foreclick.rendering.drawing import SERIES, Line, LineChart
from foreclick.rendering.files import MATPLOTLIB, Chart
from foreclick.results import Result, format_value
from foreclick.simulate.simulation import attractions, preset, preset_dbn
from foreclick.tallies import Tally, is_tally, local_tally, read_tally, tally

METRICS = ("clicks@2", "clicks@3", "dcg@10")
POSITIONS = 10
"""The length of the paper's lists."""

CLIPS = (1, 2, 3, 5, 7, 9, 14, 20, 30, 40, 50, 70, 100, 140, 200, 300, 500, 700, 1000, math.inf)
ESTIMATORS: list[str | Weighted] = [
    *(Weighted(name, CLIPS) for name in ("list", "ip", "item")),
    Weighted("pbm", CLIPS, examination="1/k"),
    "rctr",
]
ILLUSTRATIVE, ITS_RECORDS = 11655238, 3553
DRIFTING = 20100007
"""The queries that the paper shows."""

RANKS = 1000
"""How many of the most frequent queries it uses."""

_NEARLY = 0.01  # a share of records that a reader of the same log may count otherwise
_MEMORY = "1GB"  # of DuckDB, while it reads the lines of a log

ONE = "illustrative query"
FREQUENT = "100 most frequent queries"
LESS_FREQUENT = "900 less frequent queries"
ALL_POSITIONS = "100 most frequent queries, all positions"


class Statement(NamedTuple):
    """By how much less some estimators err, at least, at some M.

    Attributes:
        experiment, metric: where.
        ours: the estimators; all of them err less.
        clips: the smallest M, and the largest.
        paper: what it says, by whom they are compared with; None where it gives no number. An
            estimator is compared with itself at M = ∞.
    """

    experiment: str
    metric: str
    ours: tuple[str, ...]
    clips: tuple[float, float]
    paper: Mapping[str, float | None]


_IP, _STRUCTURED, _LARGE = ("ip",), ("ip", "item", "pbm"), (100, math.inf)
_NOTHING = {"list": None, "rctr": None}
STATEMENTS = (
    Statement(ONE, "clicks@2", _STRUCTURED, (40, math.inf), {"list": 0.1355, "rctr": 0.1607}),
    Statement(ONE, "clicks@2", ("list",), (5, 5), {"list": 0.0450}),
    Statement(ONE, "clicks@2", _IP, (5, 5), {"ip": 0.0174}),
    Statement(ONE, "clicks@3", _STRUCTURED, (30, math.inf), {"list": 0.1051, "rctr": 0.1356}),
    Statement(ONE, "clicks@3", _STRUCTURED, (5, 5), {"list": 0.5173, "rctr": 0.1959}),
    Statement(ONE, "dcg@10", _STRUCTURED, _LARGE, {"list": 0.6834, "rctr": 0.0682}),
    Statement(ONE, "dcg@10", _STRUCTURED, (9, 9), {"list": 0.7286, "rctr": 0.1032}),
    Statement(FREQUENT, "clicks@2", _IP, _LARGE, {"list": 0.1790, "rctr": 0.1318}),
    Statement(FREQUENT, "clicks@3", _IP, _LARGE, {"list": 0.4624, "rctr": 0.1250}),
    Statement(FREQUENT, "dcg@10", _IP, _LARGE, {"list": 0.8196, "rctr": 0.1065}),
    *(Statement(LESS_FREQUENT, metric, _IP, _LARGE, _NOTHING) for metric in METRICS),
    Statement(ALL_POSITIONS, "clicks@10", _IP, _LARGE, _NOTHING),
)
"""What section 6 of the paper says in per cent, and the same of what it gives no numbers for."""


@dataclass(frozen=True, repr=False)
class Reproduction(Result):
    """By how much less estimators err than `list` and `rctr`, and by how much in the paper.

    | column | meaning |
    |---|---|
    | experiment, metric | of what the paper says it |
    | estimator, clips, against | what errs less, at which M, than what |
    | contexts | how many queries it rests on |
    | rmse, floor | its error at M = ∞, and what the click noise alone would leave of it |
    | cut | 1 − its RMSE / RMSE of the other, the smallest over these M and estimators |
    | paper | the same in print, if the log is the paper's; None where it gives no number |

    Where ``estimator`` is "structured", all of ip, item and pbm err less, and ``rmse`` is of ip.

    Attributes:
        backtests: the experiments in full, by name.
        figures: the files that were drawn.
    """

    backtests: dict[str, Backtest] = field(default_factory=dict)
    figures: tuple[Path, ...] = ()


def reproduce(
    log: Any = None,  # noqa: ANN401 - a path, a Log, a Tally, or nothing
    *,
    out: str | Path | None = None,
    records: int = 9_000_000,
    seed: int = 500,
    world: Callable[..., simulate.Simulation] = simulate.yandex_like,
) -> Reproduction:
    """Figures 1 to 5 of the paper, and the percentages that it states for large M.

    An experiment for which the log has too few queries is left out, and a note says so.

    Args:
        log: the path of the Yandex log as Kaggle has it, which `datasets.yandex` reads, or of a
            tally; or such a log. Without it, a simulated one.
        out: a directory for the figures; none are drawn without it.
        records: how many records are simulated.
        seed: of the simulation.
        world: the simulation, a function of `records` and `seed`.

    Raises:
        BacktestError: the log has no periods, or lists of fewer than ten items.
        SourceError: there is no such file, or it is in another format.
    """
    folder = None if out is None else Path(out)
    if folder is not None:  # before the work, not after
        optional(*MATPLOTLIB)
        folder.mkdir(parents=True, exist_ok=True)
    with working():
        one: dict[str, Any]
        if log is None:
            report_step(f"Simulating {records:,} records")
            counted = _ten_positions(_simulated(world(records=records, seed=seed), seed))
            one = {"source": _simulated(illustrative_query(seed=seed), seed)}
            notes, known = [_made_up(world, records, seed)], False
        else:
            report_step("Reading the log")
            counted, notes = _opened(log)
            counted = _ten_positions(counted)
            query, known, others = _illustrative(_counts(counted))
            notes += others
            rank = _order(_counts(counted)).index(query) + 1
            one = {"source": counted, "ranks": (rank, rank)}
        found, failures = _experiments(counted, one)
        rows = [row for name, result in found.items() for row in _rows(name, result, known=known)]
        notes += failures
        figures: tuple[Path, ...] = ()
        if folder is not None:
            report_step("Drawing the figures")
            figures = _figures(counted, found, folder)
            notes.append(f"Drawn in {folder}: {', '.join(file.name for file in figures)}.")
    return Reproduction(
        tuple(rows),
        tuple(rows[0]),
        tuple(notes),
        title="By how much estimators reduce the error of others (RMSE), at least",
        backtests=found,
        figures=figures,
    )


def _opened(log: Any) -> tuple[Tally, list[str]]:  # noqa: ANN401 - as above
    """The tally of a log; of Kaggle's lines, that of the queries that the experiments use."""
    if not isinstance(log, str | Path):
        return local_tally(log)
    if is_tally(str(log)):
        return read_tally(log), []
    home = laptop(_MEMORY)
    counts = yandex_counts(log, home).made(
        {CONTEXT: Value("s.query"), N: Value("CAST(s.n AS DOUBLE)", pa.float64())}
    )
    query, _, _ = _illustrative(counts)
    used = {query, DRIFTING, *_order(counts, RANKS)}
    total = counts.aggregate({"queries": Value("count(*)"), N: Value("CAST(sum(s.n) AS BIGINT)")})
    counted, _ = local_tally(yandex(log, queries=used, engine=home, unit=None))
    note = (
        f"Of {total['queries']:,} queries with {total[N]:,} records on {DAYS} days, the "
        f"experiments use {len(_order(_counts(counted))):,}."
    )
    return counted, [note]


def _ten_positions(counted: Tally) -> Tally:
    if counted.shape.depth < POSITIONS:
        raise BacktestError(
            f"the paper's experiments look at {POSITIONS} positions, and the log's lists have "
            f"{counted.shape.depth}. Use fc.backtest with the metrics that suit it."
        )
    return counted


def _experiments(counted: Tally, one: dict[str, Any]) -> tuple[dict[str, Backtest], list[str]]:
    """The experiments that the log can give, and what is to be said of the others."""
    plan: dict[str, dict[str, Any]] = {
        ONE: {"metrics": METRICS, **one},
        FREQUENT: {"metrics": METRICS, "source": counted, "ranks": 100},
        LESS_FREQUENT: {"metrics": METRICS, "source": counted, "ranks": (101, RANKS)},
        ALL_POSITIONS: {"metrics": "clicks@10", "source": counted, "ranks": 100},
    }
    found: dict[str, Backtest] = {}
    failures: dict[str, BacktestError] = {}
    for name, options in plan.items():
        report_step(f"Predicting: {name}")
        log = options.pop("source")
        try:
            found[name] = backtest(log, estimators=ESTIMATORS, **options)
        except BacktestError as error:
            failures[name] = error
    if FREQUENT not in found:  # then it is not a matter of too few queries
        raise failures[FREQUENT]
    return found, [
        f"{name}: left out, because {str(error).partition('. ')[0]}."
        for name, error in failures.items()
    ]


def _simulated(simulation: simulate.Simulation, seed: int) -> Tally:
    drawn = simulation.sample(seed=seed)
    return tally(read_log(drawn, context="query", period="day", sample=None))


def _made_up(world: Callable[..., simulate.Simulation], records: int, seed: int) -> str:
    name = getattr(world, "__name__", "a world of your own")
    return (
        f"From simulated logs, {name} (records={records:,}, seed={seed}) and for the illustrative "
        f"query illustrative_query (seed={seed}): no number here was measured on the log of the "
        "paper."
    )


def _rows(name: str, result: Backtest, *, known: bool) -> list[dict[str, Any]]:
    found = {(r["estimator"], r["metric"], r["clip"]): r for r in result}
    for row in [row for row in result if row["estimator"] == "rctr"]:  # it has no M
        found |= {("rctr", row["metric"], clip): row for clip in CLIPS}
    rows = []
    for said in (said for said in STATEMENTS if said.experiment == name):
        least, most = said.clips
        first = found[said.ours[0], said.metric, math.inf]
        for other, paper in said.paper.items():
            itself = (other,) == said.ours
            cuts = [
                _cut(
                    found[mine, said.metric, clip]["rmse"],
                    found[other, said.metric, math.inf if itself else clip]["rmse"],
                )
                for mine in said.ours
                for clip in CLIPS
                if least <= clip <= most
            ]
            rows.append(
                {
                    "experiment": name,
                    "metric": said.metric,
                    "estimator": said.ours[0] if len(said.ours) == 1 else "structured",
                    "clips": f"{least}" if least == most else f"≥ {least}",
                    "against": f"{other}, M = ∞" if itself else other,
                    **{column: first[column] for column in ("contexts", "rmse", "floor")},
                    "cut": min(cuts),
                    **({"paper": paper} if known else {}),
                }
            )
    return rows


def _cut(mine: float, theirs: float) -> float:
    """By how much less it errs; of an error of 0 nothing can be cut."""
    if theirs == 0:
        return 0.0 if mine == 0 else -math.inf
    return 1 - mine / theirs


def _counts(counted: Tally) -> Table:
    """How many records each query has."""
    real = {N: Value(f"CAST(s.{N} AS DOUBLE)", pa.float64())}
    return counted.stored.made(counted.stored.own([CONTEXT]) | real).added([CONTEXT], N)


def _order(counts: Table, most: int | None = None) -> list[Any]:
    """Queries from the most frequent on, as `backtest` ranks them."""
    limit = "" if most is None else f"LIMIT {most}"
    order = f"{counts.sql} ORDER BY {N} DESC, {CONTEXT} {limit}"
    return list(counts.engine.ask(order)[CONTEXT].to_pylist())


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


def _illustrative(counts: Table) -> tuple[Any, bool, list[str]]:
    """The paper's query if the log has it, or else the one with most nearly as many records.

    Also whether the log is the paper's, which has it as often; and a note.
    """
    exact = counts.where(f"{_named(ILLUSTRATIVE)} LIMIT 1").to_pylist()
    if exact:
        return exact[0][CONTEXT], abs(exact[0][N] - ITS_RECORDS) < _NEARLY * ITS_RECORDS, []
    order = f"{counts.sql} ORDER BY abs({N} - {ITS_RECORDS}), {CONTEXT} LIMIT 1"
    (nearest,) = counts.query(order).to_pylist()
    note = (
        f"{ONE}: the log has no query {ILLUSTRATIVE}; in its place stands {nearest[CONTEXT]}, with "
        f"{nearest[N]:,.0f} records ({ITS_RECORDS:,} in the paper)."
    )
    return nearest[CONTEXT], False, [note]


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
    often = ", ".join(DUCKDB.literal(str(query)) for query in _order(_counts(counted), 100))
    chosen = f"CAST({CONTEXT} AS VARCHAR) IN ({often})"
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
