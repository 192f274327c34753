"""If this fails, the paper's experiments are not repeated as the paper describes them."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.cli import main
from foreclick.reproduce import (
    ALL_POSITIONS,
    CLIPS,
    DRIFTING,
    FREQUENT,
    ILLUSTRATIVE,
    LESS_FREQUENT,
    ONE,
    _counts,
    _drift,
    _illustrative,
    reproduce,
)
from tests.real import DATA

# One worker: what the module simulates takes long.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reproduce")]

DAYS = 4
SAMPLE = DATA / "yandex_kaggle_head100" / "train_head100.tsv"


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
    assert _illustrative(_counts(log_of({kind(7): 3553, name: 40}))) == (name, False, [])
    assert _illustrative(_counts(log_of({kind(7): 40, name: 3553}))) == (name, True, [])
    query, known, notes = _illustrative(_counts(log_of({1: 5000, 2: 3600, 3: 3000})))
    assert (query, known) == (2, False)
    assert "in its place stands 2, with 3,600 records" in notes[0]
    name = kind(DRIFTING)
    frequent = {kind(i): 8 for i in range(110)}
    log = log_of({**frequent, name: 4}, {kind(0): [2, 0, 2, 0]})
    assert _drift(log) == (name, [1, 2, 3, 4], [1.0] * 4, [1.0] * 4)
    query, days, first, every = _drift(log_of({1: 40, 2: 40}, {1: [5, 5, 6, 5], 2: [9, 1, 5, 9]}))
    assert (query, days) == (2, [1, 2, 3, 4])
    assert first == pytest.approx([0.9, 0.1, 0.5, 0.9])
    assert every == pytest.approx([1.0] * 4)


def as_kaggle(path: Path, records: dict[int, int]) -> Path:
    """The lists of `log_of` in Kaggle's format, a session each; and two days without clicks."""
    lines: list[str] = []
    shown = [(query, i, count) for query, count in records.items() for i in range(count + 2)]
    for session, (query, i, count) in enumerate(shown, 1):
        late = i >= count
        day, items = 28 + i - count if late else i % DAYS + 1, [(i + k) % 12 for k in range(10)]
        pairs = "\t".join(f"{item},7" for item in items)
        lines.append(f"{session}\tM\t{day}\t9")
        lines.append(f"{session}\t0\t{'QT'[late]}\t0\t{query}\t1\t{pairs}")
        if not late:
            lines.append(f"{session}\t5\tC\t0\t{items[0 if i // DAYS < 1 else 1]}")
    path.write_text("\n".join(lines))
    return path


def test_a_raw_file_gives_what_the_log_of_all_its_queries_gives(tmp_path):
    """Of 1,012 queries the ten rarest are not read, but for the paper's own."""
    records = {query: max((1032 - query // 2 * 2) // 100, 2) for query in range(1010)}
    records |= {ILLUSTRATIVE: 2, DRIFTING: 2}
    raw = as_kaggle(tmp_path / "train", records)
    found, whole = reproduce(raw), reproduce(fc.tally(fc.datasets.yandex(raw)))
    assert found.rows == whole.rows
    assert found.notes[0].startswith("Of 1,012 queries with ")
    assert found.notes[0].endswith("the experiments use 1,002.")
    assert found.backtests[FREQUENT].rows == whole.backtests[FREQUENT].rows
    days = found.backtests[FREQUENT].periods
    assert days is not None
    assert max(days["period"]) == DAYS


@pytest.mark.skipif(not SAMPLE.exists(), reason=f"no {SAMPLE}")
def test_the_command_on_the_first_sessions_of_the_papers_log(tmp_path, capsys):
    assert main(["reproduce", str(SAMPLE), "-o", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "100 most frequent queries" in printed
    assert "block=7" not in printed  # advice that the command cannot take
    assert "Of 148 queries with 193 records on 27 days" in " ".join(printed.split())
    assert (tmp_path / "drift.png").stat().st_size > 10_000


def test_the_papers_numbers_stand_beside_the_papers_log_alone():
    log = log_of({7: 200, 8: 120, ILLUSTRATIVE: 3552})
    found = reproduce(log)
    keys = ("experiment", "metric", "estimator", "clips", "against")
    printed = {tuple(row[key] for key in keys): row["paper"] for row in found}
    assert sum(paper is not None for paper in printed.values()) == 18
    assert printed[ONE, "clicks@2", "structured", "≥ 40", "rctr"] == 0.1607
    assert printed[ONE, "clicks@2", "list", "5", "list, M = ∞"] == 0.045
    assert printed[ONE, "dcg@10", "structured", "9", "list"] == 0.7286
    assert printed[FREQUENT, "dcg@10", "ip", "≥ 100", "list"] == 0.8196
    assert printed[ALL_POSITIONS, "clicks@10", "ip", "≥ 100", "rctr"] is None
    assert "paper" not in reproduce(log_of({7: 200, ILLUSTRATIVE: 355})).columns


def test_a_statement_is_the_smallest_cut_of_the_estimators_and_clips_that_it_is_of():
    found = reproduce(log_of({7: 200, 8: 120, ILLUSTRATIVE: 90}, {ILLUSTRATIVE: [9, 2, 7, 5]}))
    one = found.backtests[ONE]
    rows = [row for row in found if row["experiment"] == ONE]
    cut = {(row["metric"], row["clips"], row["against"]): row["cut"] for row in rows}

    def by_hand(metric, clips, against):
        return min(
            1 - one.error(mine, metric, clip) / one.error(against, metric, clip)
            for mine in ("ip", "item", "pbm")
            for clip in clips
        )

    assert cut["clicks@3", "5", "list"] == pytest.approx(by_hand("clicks@3", [5], "list"))
    large = by_hand("dcg@10", [m for m in CLIPS if m >= 100], "list")
    assert cut["dcg@10", "≥ 100", "list"] == pytest.approx(large)
    own = 1 - one.error("list", "clicks@2", 5) / one.error("list", "clicks@2", math.inf)
    assert cut["clicks@2", "5", "list, M = ∞"] == pytest.approx(own)
