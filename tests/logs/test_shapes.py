"""If this fails, logs as others write them are refused, or read wrongly."""

import re
import uuid
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError, SourceError

PLAIN: dict[str, Any] = {
    "context": ["q", "q", "r"],
    "items": [["red shoe", "blue, wide"], ["it's", "x"], ["red shoe"]],
    "clicks": [[0, 1], [1, 0], [0]],
}


def same(log, other=None, **options):
    return (
        fc.tally(log).to_arrow().equals(fc.tally(fc.read_log(other or PLAIN, **options)).to_arrow())
    )


@pytest.mark.parametrize(
    "engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)
def test_lists_as_json(engine):
    table = {
        "context": PLAIN["context"],
        "items": ['["red shoe", "blue, wide"]', '["it\'s", "x"]', "[ 'red shoe' ]"],
        "clicks": ["[0, 1]", "1|0", "0"],
    }
    assert same(fc.read_log(engine.load(pa.table(table))))


@pytest.mark.parametrize("text", ["['blue, wide', 'it's']", '["a", "b"'])
def test_text_with_quotes_that_is_no_json_is_not_guessed(text):
    table = {"context": ["q"], "items": [text], "clicks": ["0,1"]}
    with pytest.raises(InvalidLogError, match="null or empty list"):
        fc.read_log(table)


def test_arrays_of_records():
    rows = [
        [{"id": i, "hit": c} for i, c in zip(items, clicks, strict=True)]
        for items, clicks in zip(PLAIN["items"], PLAIN["clicks"], strict=True)
    ]
    table = {"context": PLAIN["context"], "results": rows}
    assert same(fc.read_log(table, items="results.id", clicks="results.hit"))
    with pytest.raises(SourceError, match=r"items='results.sku'"):
        fc.read_log(table, items="results.sku", clicks="results.hit")


@pytest.mark.parametrize(
    ("kind", "ids", "items"),
    [
        ("UUID", [str(uuid.UUID(int=7)), str(uuid.UUID(int=8))], None),
        ("DECIMAL(18, 0)", ["7", "8"], [7, 8]),
    ],
)
def test_ids_of_any_kind(kind, ids, items):
    lists = ", ".join(f"'{i}'::{kind}" for i in ids)
    relation = duckdb.sql(f"SELECT 'q' AS context, [{lists}] AS items, [0, 1] AS clicks")
    row = fc.tally(relation).table.to_pyarrow().to_pylist()[0]
    assert [row["item_1"], row["item_2"]] == (items or ids)


def test_ids_of_clicked_items_are_read_as_the_messages_advise():
    table = {
        "context": ["q", "q", "r"],
        "request": [1, 2, 3],
        "items": [[1, 2], [2, 1], [3]],
        "clicks": [[2], [], None],
    }
    with pytest.raises(InvalidLogError) as error:
        fc.read_log(table)
    (advice,) = re.findall(r"use (fc\.from_events.*?\))\.\n", str(error.value))
    log = eval(advice.replace("…", "request"), {"fc": fc, "log": table})  # noqa: S307 - our own
    assert same(log, {**table, "clicks": [[0, 1], [0, 0], [0]]})


def test_wide_columns_by_a_pattern():
    wide: dict[str, Any] = {"context": ["q"]}
    wide |= {f"item_{k}": [k * 10] for k in (1, 10, 2)} | {f"c{k}": [k % 2] for k in (1, 10, 2)}
    log = fc.read_log(wide, items="item_*", clicks="c*[0-9]")
    other = {"context": ["q"], "items": [[10, 20, 100]], "clicks": [[1, 0, 0]]}
    assert same(log, other)


DAYS = [datetime(2026, 3, 1, 23, 59), datetime(2026, 3, 2)]  # noqa: DTZ001 - as in most logs


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_times_as_numbers_are_days(unit):
    seconds = [int((t - datetime(1970, 1, 1)) / timedelta(seconds=1)) for t in DAYS]  # noqa: DTZ001
    table = {"context": ["q"] * 2, "items": [[1]] * 2, "clicks": [[0]] * 2}
    log = fc.read_log(table | {"at": [s * unit for s in seconds]}, period="at")
    found = fc.tally(log).table.to_pyarrow()["period"].to_pylist()
    since = date(1970, 1, 1)
    assert sorted(found) == [(date(2026, 3, 1) - since).days, (date(2026, 3, 2) - since).days]


def test_times_as_text_are_days():
    table = {"context": ["q"] * 4, "items": [[1]] * 4, "clicks": [[0]] * 4}
    at = ["2026-03-01T23:59:00Z", "2026-03-01 01:00", "2026-03-02", "week 9 of 2026"]
    log = fc.read_log(table | {"at": at}, period="at")
    found = fc.tally(log).table.to_pyarrow()["period"].to_pylist()
    assert sorted(found) == ["2026-03-01", "2026-03-02", "week 9 of 2026"]


def test_odd_periods_are_said():
    days = [*range(1_100), *range(1_100), None]
    table = {"context": ["q"] * 2_201, "items": [[1, 2], [2, 1]] * 1_100 + [[1, 2]]}
    log = fc.read_log(table | {"clicks": [[1, 0]] * 2_201, "day": days}, period="day")
    found = fc.evaluate(log, {"context": ["q"], "items": [[2, 1]]}, estimators="ip")
    assert any("1,100 periods" in note for note in found.notes)
    assert any("1 record without a period" in note for note in found.notes)


def test_records_without_a_unit_are_said():
    table = {"context": ["q"] * 3, "items": [[1]] * 3, "clicks": [[0]] * 3}
    log = fc.read_log(table | {"user": ["a", None, None]}, unit="user")
    assert any("2 records without a unit" in note for note in fc.check(log).notes)
