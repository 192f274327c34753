"""The paper's experiments: on a small simulated log, and on a log with the paper's queries."""

from __future__ import annotations

import math
from functools import partial

import pyarrow as pa
import pytest

import foreclick as fc
from experiments.reproduce import (
    ALL_POSITIONS,
    CLIPS,
    DRIFTING,
    FREQUENT,
    ILLUSTRATIVE,
    LESS_FREQUENT,
    ONE,
    STRUCTURED,
    Reproduction,
    _drift,
    _illustrative,
    main,
    reproduce,
)
from foreclick import simulate
from foreclick.errors import BacktestError

# One worker: what the module simulates takes long.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reproduce")]

DAYS = 4
ROUNDING = 1e-12
"""Sums of doubles in an engine's own order."""

RECORDS = 20_000
small = partial(simulate.yandex_like, queries=120)


def log_of(records: dict[object, int], first: dict[object, list[int]] | None = None) -> fc.Tally:
    """Lists of ten over four days; `first`: how many are clicked at position 1, by day.

    Where position 1 is not clicked, position 2 is.
    """
    rows: dict[str, list[object]] = {"query": [], "day": [], "items": [], "clicks": []}
    for query, count in records.items():
        for i in range(count):
            day, number = i % DAYS, i // DAYS
            clicked = number < (first or {}).get(query, [1] * DAYS)[day]
            rows["query"].append(query)
            rows["day"].append(day + 1)
            rows["items"].append([(i + k) % 12 for k in range(10)])
            rows["clicks"].append([int(clicked), int(not clicked)] + [0] * 8)
    return fc.tally(fc.read_log(pa.table(rows), context="query", period="day"))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory) -> Reproduction:
    out = tmp_path_factory.mktemp("paper") / "figures"
    told: list[str] = []
    found = reproduce(records=RECORDS, seed=3, world=small, out=out, progress=told.append)
    assert told[0] == f"Simulating {RECORDS:,} records"
    assert told[-1] == "Drawing the figures"
    return found


@pytest.mark.long
def test_every_experiment_has_its_rows_and_figures(simulated):
    rows = {(r["experiment"], r["metric"], r["against"]): r for r in simulated}
    assert len(rows) == len(simulated) == (3 * 3 + 1) * 2
    contexts = {r["experiment"]: r["contexts"] for r in simulated}
    assert contexts == {ONE: 1, FREQUENT: 100, LESS_FREQUENT: 20, ALL_POSITIONS: 100}
    assert rows[FREQUENT, "clicks@3", "list"]["paper"] == 0.4624
    assert rows[LESS_FREQUENT, "clicks@3", "list"]["paper"] is None
    assert "no number here was measured on the log of the paper" in simulated.notes[0]
    assert [file.name for file in simulated.figures] == [
        "illustrative-query.png",
        "100-most-frequent-queries.png",
        "900-less-frequent-queries.png",
        "100-most-frequent-queries-all-positions.png",
        "drift.png",
    ]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in simulated.figures)


@pytest.mark.long
@pytest.mark.parametrize(
    ("experiment", "metric", "names", "least"),
    [(FREQUENT, "dcg@10", ["ip"], 100), (ONE, "clicks@3", STRUCTURED, 30)],
)
def test_a_cut_is_the_smallest_over_large_clips(simulated, experiment, metric, names, least):
    """Of the illustrative query, the worst of three estimators counts."""
    backtest = simulated.backtests[experiment]
    errors = {(r["estimator"], r["clip"]): r["rmse"] for r in backtest if r["metric"] == metric}
    (row,) = (
        r
        for r in simulated
        if (r["experiment"], r["metric"], r["against"]) == (experiment, metric, "rctr")
    )
    large = [clip for clip in CLIPS if clip >= least]
    assert row["cut"] == min(1 - errors[n, m] / errors["rctr", m] for n in names for m in large)
    assert len(names) > 1 or row["rmse"] == errors["ip", math.inf]


@pytest.mark.long
def test_a_log_gives_the_numbers_of_its_simulation(simulated):
    sample = small(records=RECORDS, seed=3).sample(seed=3)
    given = reproduce(fc.read_log(sample, context="query", period="day"))
    mine, theirs = (
        [(r["rmse"], r["floor"], r["cut"]) for r in found if r["experiment"] != ONE]
        for found in (given, simulated)
    )
    assert mine == [pytest.approx(row, rel=ROUNDING, abs=ROUNDING) for row in theirs]
    assert "no query 11655238" in given.notes[0]
    assert given.figures == ()


def test_an_experiment_that_the_log_cannot_give_is_left_out(tmp_path):
    found = reproduce(log_of({7: 400, ILLUSTRATIVE: 40}), out=tmp_path)
    assert {r["experiment"] for r in found} == {ONE, FREQUENT, ALL_POSITIONS}
    assert any(note.startswith(f"{LESS_FREQUENT}: left out, because") for note in found.notes)
    assert found.backtests[ONE]["records"][0] == 40
    assert len(found.figures) == 4


@pytest.mark.parametrize("kind", [int, str])
def test_the_papers_queries_are_found_or_others_stand_in_their_place(kind):
    name = kind(ILLUSTRATIVE)
    assert _illustrative(log_of({kind(7): 3553, name: 40})) == (name, [])
    query, notes = _illustrative(log_of({1: 5000, 2: 3600, 3: 3000}))
    assert query == 2
    assert "in its place stands 2, with 3,600 records" in notes[0]
    name = kind(DRIFTING)
    frequent = {kind(i): 8 for i in range(110)}
    log = log_of({**frequent, name: 4}, {kind(0): [2, 0, 2, 0]})
    assert _drift(log) == (name, [1, 2, 3, 4], [1.0] * 4, [1.0] * 4)
    query, days, first, every = _drift(log_of({1: 40, 2: 40}, {1: [5, 5, 6, 5], 2: [9, 1, 5, 9]}))
    assert (query, days) == (2, [1, 2, 3, 4])
    assert first == pytest.approx([0.9, 0.1, 0.5, 0.9])
    assert every == pytest.approx([1.0] * 4)


def test_what_cannot_be_reproduced_is_refused_before_the_work(tmp_path):
    (tmp_path / "taken").write_text("")
    told: list[str] = []
    with pytest.raises(OSError, match="taken"):
        reproduce(out=tmp_path / "taken", progress=told.append)
    assert told == []
    rows = {"query": [1, 1], "day": [1, 2], "items": [[1, 2]] * 2, "clicks": [[1, 0]] * 2}
    with pytest.raises(BacktestError, match="10 positions, and the log's lists have 2"):
        reproduce(fc.read_log(pa.table(rows), context="query", period="day"))
    ten = {**rows, "items": [list(range(10))] * 2, "clicks": [[1] + [0] * 9] * 2}
    with pytest.raises(BacktestError, match="period='…'"):
        reproduce(fc.read_log(pa.table(ten), context="query"))


def test_the_command_takes_a_log_or_a_tally(tmp_path, monkeypatch, capsys):
    simulate.yandex_like(records=4_000, queries=5, seed=3).write_parquet(tmp_path / "log.parquet")
    log = fc.read_log(tmp_path / "log.parquet", context="query", period="day")
    fc.tally(log).write_parquet(tmp_path / "tally.parquet")
    printed = []
    for name in ("log.parquet", "tally.parquet"):
        monkeypatch.setattr("sys.argv", ["reproduce", str(tmp_path / name)])
        main()
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "100 most frequent queries" in printed[0]
