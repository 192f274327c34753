"""If this fails, logs as others write them are refused, or read wrongly."""

import uuid
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError, SourceError
from tests.engines.looking import on

PLAIN: dict[str, Any] = {
    "context": ["q", "q", "r"],
    "items": [["red shoe", "blue, wide"], ["it's", "x"], ["red shoe"]],
    "clicks": [[0, 1], [1, 0], [0]],
}


def same(log, other=None, **options):
    return (
        fc.tally(log).to_arrow().equals(fc.tally(fc.read_log(other or PLAIN, **options)).to_arrow())
    )


@on("duckdb", "spark")
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


def test_wide_columns_by_a_pattern():
    wide: dict[str, Any] = {"context": ["q"]}
    wide |= {f"item_{k}": [k * 10] for k in (1, 10, 2)} | {f"c{k}": [k % 2] for k in (1, 10, 2)}
    log = fc.read_log(wide, items="item_*", clicks="c*[0-9]")
    other = {"context": ["q"], "items": [[10, 20, 100]], "clicks": [[1, 0, 0]]}
    assert same(log, other)


def periods_of(at):
    """The periods of records at these times."""
    table = {"context": ["q"] * len(at), "items": [[1]] * len(at), "clicks": [[0]] * len(at)}
    tally = fc.tally(fc.read_log(table | {"at": at}, period="at"))
    return sorted(tally.table.to_pyarrow()["period"].to_pylist())


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_times_as_numbers_are_days(unit):
    day = 20_513  # since 1970
    midnight = (day + 1) * 24 * 60 * 60
    assert periods_of([(midnight - 60) * unit, midnight * unit]) == [day, day + 1]


def test_times_as_text_are_days():
    at = ["2026-03-01T23:59:00Z", "2026-03-01 01:00", "2026-03-02", "week 9 of 2026"]
    assert periods_of(at) == ["2026-03-01", "2026-03-02", "week 9 of 2026"]


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
