"""Rewards of 0 and 1 are kept as one integer a list, and nothing is lost by it."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError
from tests.logs.samples import LISTS, Row, counted, reference, table

PROBED = 10_000
"""Rows that the first guess is made from."""


def stored(log: fc.Log) -> list[Row]:
    """The compact rows, sorted."""
    found: list[Row] = pa.Table.from_batches(fc.tally(log).sorted_batches()).to_pylist()
    return found


def beyond_the_guess(*rows: Row) -> list[Row]:
    """A log whose first rows are like `LISTS[0]`, and these at its end."""
    return [LISTS[0]] * PROBED + list(rows)


def clicks(values: list[Any]) -> Row:
    return {"context": "q", "items": list(range(len(values))), "clicks": values}


def test_bit_k_minus_1_is_the_click_at_position_k():
    log = fc.read_log([clicks([0, 1, 1]), clicks([1]), clicks([0, 0])])
    assert log.shape.masks == ("clicks",)
    assert log.stored.columns == ("context", "item_1", "item_2", "item_3", "clicks", "n")
    assert [(row["item_2"], row["item_3"], row["clicks"]) for row in stored(log)] == [
        (None, None, 0b1),
        (1, None, 0b00),
        (1, 2, 0b110),
    ]
    wide = fc.tally(log).to_arrow().to_pylist()  # null where nothing is shown
    assert [wide[0][f"clicks_{k}"] for k in (1, 2, 3)] == [1, None, None]


@pytest.mark.parametrize("values", [[2, 0], [0.5, 0.0]])
@pytest.mark.parametrize("beyond", [False, True])
def test_graded_rewards_have_a_column_a_position(values, beyond):
    rows = beyond_the_guess(clicks(values)) if beyond else [*LISTS, clicks(values)]
    floats = [{**row, "clicks": [type(values[0])(c) for c in row["clicks"]]} for row in rows]
    log = fc.read_log(floats)
    assert log.shape.masks == ()
    assert counted(log) == reference(rows)


@pytest.mark.parametrize(("depth", "masks"), [(62, ("clicks",)), (63, ())])
def test_masks_hold_62_positions(depth, masks):
    rows = [clicks([int(k in (0, depth - 1)) for k in range(depth)]), clicks([0] * depth)]
    log = fc.read_log(rows)
    assert log.shape.masks == masks
    assert counted(log) == reference(rows)


BROKEN = {
    "clicks too short": [clicks([1]) | {"items": [7, 8]}],
    "clicks too long": [clicks([1, 0, 0]) | {"items": [7, 8]}],
    "null between": [clicks([1, None, 0])],
    "item null": [clicks([1, 0, 0]) | {"items": [7, None, 9]}],
    "negative": [clicks([1, -1])],
    "no list": [clicks([])],
    "item twice": [clicks([1, 1]) | {"items": [7, 7]}],
}


@pytest.mark.parametrize("rows", BROKEN.values(), ids=BROKEN)
def test_broken_rows_are_told_as_without_masks(rows):
    """A graded reward in the log keeps masks away."""
    graded = clicks([3, 0, 0])
    said = []
    for log in (beyond_the_guess(*rows), [*beyond_the_guess(*rows), graded], [*LISTS, *rows]):
        with pytest.raises(InvalidLogError) as error:
            fc.read_log(pa.Table.from_pylist(log))
        said.append(str(error.value))
    assert said[0] == said[1] == said[2]
    example = r"for example context='q' items=\[.*\] clicks=\["
    assert re.search(rf"1 row breaks the rules of a log:\n- .*: 1 row, {example}", said[0])


@pytest.mark.parametrize("rows", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("first", [True, False])
def test_what_is_left_when_broken_rows_are_dropped_is_packed(rows, first):
    """Whether a reward has a mask does not depend on where the broken rows stand."""
    log = [*rows, *LISTS] if first else beyond_the_guess(*rows)
    found = fc.read_log(pa.Table.from_pylist(log), invalid="drop")
    assert found.shape.masks == ("clicks",)
    assert found.dropped_rows == 1
    assert counted(found) == reference([row for row in log if row not in rows])


def test_an_engine_packs_as_duckdb_does(engine):
    odd = [clicks([1]) | {"items": [7, 8]}, clicks([0, 1]) | {"items": [7, 7]}]
    rows = table([*LISTS, *odd])
    here, there = (fc.read_log(source, invalid="drop") for source in (rows, engine.load(rows)))
    assert there.shape == here.shape
    assert there.shape.masks == ("clicks",)
    assert stored(there) == stored(here)
