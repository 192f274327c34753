"""The paper's experiments: on a small simulated log, and on a log with the paper's queries."""

from __future__ import annotations

import pyarrow as pa
import pytest

import foreclick as fc
from experiments.reproduce import (
    ALL_POSITIONS,
    DRIFTING,
    FREQUENT,
    ILLUSTRATIVE,
    LESS_FREQUENT,
    ONE,
    _drift,
    _illustrative,
    main,
    reproduce,
)
from foreclick import simulate

# One worker: what the module simulates takes long.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reproduce")]

DAYS = 4


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


@pytest.mark.long
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
