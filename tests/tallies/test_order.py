"""If this fails, rows of a tally come in an order that its readers do not expect."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import foreclick as fc
from foreclick.tallies import base as _tally
from tests.logs.samples import Row, table
from tests.tallies.test_base import ROLES, rows

WORDS = ["b", "B", "é", "z", "", "ab", "東京", "a b"]
"""Texts that a language sorts otherwise than their bytes."""


def words(count: int = 60) -> list[Row]:
    """Contexts, items and segments of such texts, with NULLs, and every other role."""
    return [
        row
        | {
            "context": WORDS[i % 8],
            "items": [f"{WORDS[i * 5 % 7]}{k}" for k in range(len(row["items"]))],
            "land": [None, *WORDS][i % 9],
            "day": [None, date(2024, 5, 1), date(2023, 1, 2)][i % 3],
        }
        for i, row in enumerate(rows(count, 3))
    ]


def arrow(tally: fc.Tally, size: int = 250_000) -> pa.Table:
    return pa.Table.from_batches(tally.sorted_batches(size))


def in_python(rows: pa.Table, keys: list[str]) -> list[Row]:
    """The rows sorted by hand: NULLs first, text by bytes."""

    def key(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of any column
        if value is None:
            return (0,)
        return (1, value.encode() if isinstance(value, str) else value)

    found: list[Row] = sorted(rows.to_pylist(), key=lambda row: [key(row[c]) for c in keys])
    return found


def test_rows_ascend_with_nulls_first_and_text_by_bytes():
    graded = fc.tally([{**row, "clicks": [c / 2 for c in row["clicks"]]} for row in rows(40, 3)])
    assert graded.shape.masks == ()
    assert arrow(graded).to_pylist() == in_python(arrow(graded), graded.shape.order)
    tally = fc.tally(fc.read_log(words(), **ROLES))
    found = arrow(tally)
    assert found.column_names == [*tally.shape.order, "n"]
    assert tally.shape.order == [
        *("context", "item_1", "item_2", "item_3", "period", "land", "bucket"),
        *("clicks", "orders", "propensity"),
    ]
    assert found.to_pylist() == in_python(found, tally.shape.order)


def test_a_file_is_sorted_and_read_without_a_query(tmp_path, monkeypatch):
    tally = fc.tally(fc.read_log(words(), **ROLES))
    tally.write_parquet(tmp_path / "t.parquet")
    expected, file = arrow(tally), pq.ParquetFile(tmp_path / "t.parquet")
    assert file.schema_arrow.names == tally.shape.stored
    assert file.read().to_pylist() == expected.to_pylist()
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    back = fc.read_tally(tmp_path / "t.parquet")
    monkeypatch.setattr(type(back.engine), "ask", None)
    monkeypatch.setattr(type(back.engine), "batches", None)
    assert arrow(back).equals(expected)
    kinds = {arrow(back).schema.field(name).type for name in ("clicks", "orders", "n")}
    assert kinds == {pa.int64()}  # whatever the file has


# --- adding ---------------------------------------------------------------------------------------


def test_files_of_different_periods_are_read_where_they_lie(tmp_path, monkeypatch):
    """Of another depth, with large numbers, with graded clicks: no row is copied."""
    days = [
        [{"context": 1, "items": [1, 2], "clicks": [0, 1], "day": 1}] * 2,
        [{"context": 1, "items": [2**40], "clicks": [1], "day": 2}],
        [{"context": 7, "items": [1, 2, 3], "clicks": [0, 4, 1], "day": 3}],
    ]
    for day in days:
        log = fc.read_log(day, period="day")
        fc.tally(log).write_parquet(tmp_path / f"{day[0]['day']}.parquet")
    whole = fc.tally(fc.read_log([row for day in days for row in day], period="day"))
    first, *others = (fc.read_tally(file) for file in sorted(tmp_path.iterdir()))
    assert sum(others, first).to_arrow().equals(whole.to_arrow())
    monkeypatch.setattr(type(whole.engine), "keep", None)
    back = fc.read_tally(tmp_path)
    assert back.shape == whole.shape
    assert back.row_count() == 3
    assert arrow(back).equals(arrow(whole))
    two = fc.read_tally([tmp_path / "1.parquet", tmp_path / "2.parquet"])
    assert two.shape.masks == ("clicks",)


# --- a log and its tally --------------------------------------------------------------------------


def test_pandas_is_not_imported(tmp_path):
    pq.write_table(table(), tmp_path / "log.parquet")
    code = (
        "import sys, foreclick as fc\n"
        "tally = fc.tally(fc.read_log(sys.argv[1]))\n"
        "assert tally.to_arrow().num_rows == 5\n"
        "assert [b.num_rows for b in tally.sorted_batches()] == [5]\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "log.parquet")], check=True)


@pytest.mark.parametrize("most", [0, 2_000_000])
def test_other_queries_may_be_made_between_two_batches(most, monkeypatch):
    monkeypatch.setattr(_tally, "SORT_ROWS", most)
    tally = fc.tally(fc.read_log(words(), **ROLES))
    sizes = []
    for batch in tally.sorted_batches(7):
        assert tally.row_count() > batch.num_rows
        sizes.append(batch.num_rows)
    assert set(sizes[:-1]) == {7}
    assert sum(sizes) == tally.row_count()
