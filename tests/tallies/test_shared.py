"""Tallies that leave the house: what few records share is left out, whatever was clicked."""

from __future__ import annotations

import pytest

import foreclick as fc
from foreclick.errors import OptionError, TallyError

# Query, list, day, user, clicks: [1, 2] on day 1 is shared by six records of six users; [2, 1] by
# two; on day 2, [1, 2] is shared by six records of one user.
RECORDS = [
    *(("q", [1, 2], 1, f"user {n}", [n % 2, 0]) for n in range(6)),
    *(("q", [2, 1], 1, f"user {n}", [1, 0]) for n in range(2)),
    *(("q", [1, 2], 2, "user 0", [0, 1]) for _ in range(6)),
]
COLUMNS = ("query", "items", "day", "user", "clicks")
TABLE = {name: [record[at] for record in RECORDS] for at, name in enumerate(COLUMNS)}


def shared(tmp_path, least, **roles):
    path = tmp_path / "t.parquet"
    fc.tally(fc.read_log(TABLE, context="query", **roles)).write_parquet(path, min_count=least)
    return fc.read_tally(path)


def test_rows_that_enough_records_share_stay_with_all_their_clicks(tmp_path):
    found = shared(tmp_path, 3, period="day")
    rows = found.to_arrow().to_pylist()
    assert [(r["period"], r["item_1"], r["clicks_1"], r["n"]) for r in rows] == [
        (1, 1, 0, 3),  # three records a row: it is the six of the list that count
        (1, 1, 1, 3),
        (2, 1, 0, 6),
    ]
    assert found.dropped_rows == 2
    assert found.dropped == {"fewer than 3 records with the same context, list, period": 2}


def test_of_a_log_with_units_several_users_must_share_and_buckets_are_gone(tmp_path):
    found = shared(tmp_path, 5, period="day", unit="user")
    assert "bucket" not in found.to_arrow().column_names
    assert not found.shape.unit
    assert set(found.to_arrow()["period"].to_pylist()) == {1}
    assert found.dropped_rows == 8


def test_of_a_log_of_which_one_row_in_ten_was_kept_rows_count_and_not_what_they_stand_for(tmp_path):
    path = tmp_path / "t.parquet"
    log = fc.read_log(TABLE | {"w": [10] * len(RECORDS)}, context="query", period="day", weight="w")
    fc.tally(log).write_parquet(path, min_count=3)
    assert fc.read_tally(path).dropped_rows == 20  # the two of [2, 1], and nothing else


def test_what_is_coarser_keeps_more_and_nothing_at_all_is_an_error(tmp_path):
    assert shared(tmp_path, 12).dropped_rows == 2
    with pytest.raises(TallyError, match=r"min_count=13: nothing would be left; .*coarser"):
        shared(tmp_path, 13)
    for wrong in (1, 0, 2.5, True):
        with pytest.raises(OptionError, match="how many records must share a row"):
            shared(tmp_path, wrong)
