"""If this fails, a log counts otherwise because it is written down otherwise."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from typing import Any

import duckdb
import ibis
import pandas as pd
import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError
from tests.cases.case import Case
from tests.cases.layouts import EASY, LOGS, in_columns, in_rows, rows_of
from tests.engines.looking import bucket_of
from tests.logs.samples import LISTS, WIDE, Row, counted, impressions, reference, table, wide
from tests.tries import tries

LONG: Row = {"long": ("list_id", "position")}
START = dt.datetime(2024, 2, 28, 22, 30, tzinfo=dt.UTC)


def columns(log):
    return fc.tally(log).to_arrow().schema


def beside(**extra: list[Any]) -> list[Row]:
    """The sample with further columns."""
    rows = zip(*extra.values(), strict=True)
    return [
        row | dict(zip(extra, values, strict=True)) for row, values in zip(LISTS, rows, strict=True)
    ]


# --- logs and what is counted in them -------------------------------------------------------------

NAMES: Row = {"context": "select", "items": "the Items", "clicks": "Klick's"}
LONG_NAMES = ("context", "list_id", "position", "item", "click")
ODD_NAMES = dict(zip(LONG_NAMES, ("n", "length", "weight", "context", "item"), strict=True))
GRADED: list[Row] = [
    {"context": "q", "items": [1, 2], "clicks": clicks}
    for clicks in ([0.1, 2.5], [0.1, 2.5], [0.30000000000000004, 0.0])
]
DEEP = tries(40, 100)  # positions, of which DuckDB compiles every pair
MANY: list[Row] = [
    {"context": "q", "items": [*range(DEEP)], "clicks": [k % 3 for k in range(DEEP)]}
]
NO_CLICKS = Counter((row["context"], tuple(row["items"])) for row in LISTS)
ENDS: Row = {"context": ["q"], "i1": ["a"], "i2": [None], "c1": [1], "c2": [None]}
TWO: Row = {"items": ["i1", "i2"], "clicks": ["c1", "c2"]}
PLATFORM = [True, False, None, True, True, False, None]
COUNTRY = ["NL", None, "NL", "BE", "", None, None]
USERS = [1, None, 2, 2, 1, None, 1]
FREE = ["b0", "c0", "all", "any", "total", "orders"]
DATES = [dt.date(2024, 2, 29)] * 6 + [dt.date(1969, 12, 31)]
HOURS = [START.replace(day=29, hour=hour, tzinfo=None) for hour in (0, 1, 5, 22, 23, 23, 23)]


def narrow(kind: pa.DataType) -> pa.Table:
    schema = pa.schema({"context": kind, "items": pa.list_(kind), "clicks": pa.list_(kind)})
    return pa.table({"context": [1, 2], "items": [[1, 2], [3]], "clicks": [[1, 0], [0]]}, schema)


def cut(depth: int) -> list[Row]:
    return [{**r, "items": r["items"][:depth], "clicks": r["clicks"][:depth]} for r in LISTS]


SAME: dict[str, tuple[Any, Row, Any]] = {
    "names": (table().rename_columns(list(NAMES.values())), NAMES, reference()),
    "names of a long table": (
        pd.DataFrame(impressions()).rename(columns=ODD_NAMES),
        {"context": "n", "long": ("length", "weight"), "items": "context", "clicks": "item"},
        reference(),
    ),
    "a gap in an array": (
        {"context": ["q"], "items": [[1, None, 2]], "clicks": [[0, None, 1]]},
        {},
        {("q", (1, None, 2), (0, None, 1)): 1},
    ),
    "clicks among the rewards": (
        table(),
        {"clicks": None, "rewards": {"clicks": "clicks"}},
        reference(),
    ),
    **{
        str(kind): (narrow(kind), {}, {(1, (1, 2), (1, 0)): 1, (2, (3,), (0,)): 1})
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
    },
    "graded": (GRADED, {}, reference(GRADED)),
    "many items": (table(MANY), {}, reference(MANY)),
    "no clicks": (table().drop_columns("clicks"), {"clicks": None}, NO_CLICKS),
    "no clicks, wide": (wide(), {"items": WIDE["items"], "clicks": None}, NO_CLICKS),
    "no clicks, long": (impressions(), LONG | {"clicks": None}, NO_CLICKS),
    **{
        f"{name} to depth {depth}": (source, roles | {"depth": depth}, reference(cut(depth)))
        for name, source, roles in (
            ("arrays", table(), {}),
            ("wide", wide(), WIDE),
            ("long", impressions(), LONG),
        )
        for depth in (1, 2, 5)
    },
    "what is wrong beyond the depth": (
        [{"context": "q", "items": [1, 2, 1], "clicks": [1, 0, -1], "p": [0.5, 1.0, 7.0]}],
        {"depth": 2, "propensity": "p"},
        {("q", (1, 2), (1, 0), (0.5, 1.0)): 1},
    ),
    "a position that no list reaches": (ENDS, TWO, {("q", ("a",), (1,)): 1}),
    "segments": (
        beside(Land=COUNTRY, mobile=PLATFORM),
        {"segments": ("Land", "mobile")},
        reference(beside(Land=COUNTRY, mobile=PLATFORM), None, "Land", "mobile"),
    ),
    "names of segments": (
        [row | dict.fromkeys(FREE, 7) for row in LISTS],
        {"segments": FREE},
        reference([row | dict.fromkeys(FREE, 7) for row in LISTS], None, *FREE),
    ),
    **{
        f"periods: {days[0]}": (
            beside(day=days),
            {"period": "day"},
            reference(beside(day=kept), None, "day"),
        )
        for days, kept in (
            ([1, 2] * 3 + [1], [1, 2] * 3 + [1]),
            (["mon", None, "tue", *["mon"] * 4],) * 2,
            (DATES, DATES),
            (HOURS, [dt.date(2024, 2, 29)] * 7),
        )
    },
    "integers with gaps": (
        pd.DataFrame(beside(user=USERS)).astype({"user": "Int64"}),
        {"unit": "user"},
        reference(beside(b=[bucket_of(user) for user in USERS]), None, "b"),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_counted(name):
    source, roles, expected = SAME[name]
    log = fc.read_log(source, **roles)
    assert counted(log) == expected
    assert log.shape.depth == roles.get("depth", log.shape.depth)
    kinds = columns(log)
    rewards = [c for name in log.shape.rewards for c in log.shape.reward(name)]
    assert {kinds.field(c).type for c in ("context", "item_1")} <= {pa.int64(), pa.string()}
    assert {kinds.field(c).type for c in rewards} <= {pa.int64(), pa.float64()}


def test_lists_longer_than_any_of_the_first_rows():
    """In a DuckDB that reads a table from its beginning, so that the first rows are the first."""
    short: Row = {"context": "q", "items": [1, 2], "clicks": [0, 1]}
    longer: Row = {"context": "q", "items": [5, 4, 3, 2], "clicks": [0, 0, 0, 1]}
    rows = [short] * 10_050 + [longer]
    log = fc.read_log(table(rows), engine=ibis.duckdb.connect())
    assert (log.shape.depth, counted(log)) == (4, reference(rows))
    deep = {
        "context": ["q"] * 100_002,
        "list_id": [*range(100_001), 7],
        "position": [*[1] * 100_001, 3],
        "item": [*[1] * 100_001, 2],
        "click": [*[0] * 100_001, 1],
    }
    log = fc.read_log(pa.table(deep), engine=ibis.duckdb.connect(), **LONG)
    assert counted(log) == {("q", (1,), (0,)): 100_000, ("q", (1, None, 2), (0, None, 1)): 1}


# --- every role at once ---------------------------------------------------------------------------


def in_python(log: Case, propensity: str | None) -> Counter[Any]:
    """What `counted` must give of a log without faults, row by row."""
    found: Counter[Any] = Counter()
    roles, rewards = log.roles, {"clicks": "clicked", **log.roles.get("rewards", {})}
    for row in log.table.to_pylist():
        key: list[Any] = [row["query"] if roles["context"] else 0]
        if "period" in roles:
            key.append(row["day"].date() if isinstance(row["day"], dt.datetime) else row["day"])
        key += [row[name] for name in roles.get("segments", ())]
        key += [bucket_of(row["user"])] if "unit" in roles else []
        key += [row["p"]] if propensity == "list" else []
        key += [tuple(row[name]) for name in ("list", *rewards.values())]
        slots = row["slots"] if roles.get("propensity") == "slots" else [row["p"]] * len(key[-1])
        key += [tuple(slots)] if propensity == "slot" else []
        found[tuple(key)] += row[roles["count"]] if "count" in roles else 1
    return found


@pytest.mark.parametrize("log", [log.taking(range(EASY, 90)) for log in LOGS], ids=str)
def test_every_role_at_once(log):
    """As arrays, in columns and in rows; tests/engines says that so it is on every engine."""
    for written in (log, in_columns(log), in_rows(log)):
        read = written.log
        assert counted(read) == in_python(log, read.shape.propensity)
        assert read.rows == 90 - EASY
        kind = pa.float64() if log.roles.get("count") == "half" else pa.int64()
        assert columns(read).field("n").type == kind
    told = repr(read)
    words = {"85 records", "up to 3", *log.roles.get("segments", ()), *read.shape.rewards}
    words |= log.roles.keys() & {"period", "unit"}
    assert [word for word in words if word not in told] == []


# --- what is said of how a log is read ------------------------------------------------------------

PLAIN = {"context": ["q"] * 4, "items": [[1, 2], [2, 1]] * 2}


def test_clicks_above_one_are_said(tmp_path):
    log = fc.read_log({**PLAIN, "clicks": [[3, 0], [1, 0], [0, 2], [0.5, 1]]})
    (note,) = log.notes
    assert note.startswith("2 records have clicks above 1, up to 3. They count as they are")
    fc.tally(log).write_parquet(tmp_path / "t.parquet")
    for same in (log, fc.read_tally(tmp_path / "t.parquet"), fc.tally(log) + fc.tally(log)):
        found = fc.evaluate(same, {"context": ["q"], "items": [[1, 2]]}, estimators="ladder")
        assert note in found.notes
    assert fc.read_log({**PLAIN, "clicks": [[0.5, 0]] * 4}).notes == ()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_days_of_times_with_a_zone_are_those_of_utc(zone):
    times = pa.array([START, START + dt.timedelta(hours=2)] * 2, pa.timestamp("us", zone))
    table = pa.table({**PLAIN, "clicks": [[1, 0]] * 4, "at": times})
    for session in ("UTC", "Pacific/Auckland"):
        connection = duckdb.connect()
        connection.execute(f"SET TimeZone = '{session}'")
        log = fc.read_log(table, period="at", engine=connection)
        days = set(fc.tally(log).table.to_pyarrow()["period"].to_pylist())
        assert days == {dt.date(2024, 2, 28), dt.date(2024, 2, 29)}
        assert log.notes[0].startswith("Periods are days of UTC: 'at' has times with a zone")


def test_a_metric_deeper_than_the_lists_is_said():
    log = {**PLAIN, "clicks": [[1, 0]] * 4}
    candidate = {"context": ["q"], "items": [[1, 2]]}
    note = "Deeper than the lists of the log, which have up to 2 positions: clicks@5."
    found = fc.evaluate(log, candidate, metrics=["clicks@2", "clicks@5"], estimators="ladder")
    assert found.notes[0].startswith(note)
    assert not fc.evaluate(log, candidate, estimators="ladder").notes[0].startswith(note)


# --- rewards of 0 and 1 are kept as one integer a list, and nothing is lost by it -----------------


PROBED = 10_000
"""Rows that the first guess is made from."""


def beyond_the_guess(*rows: Row) -> list[Row]:
    """A log whose first rows are like `LISTS[0]`, and these at its end."""
    return [LISTS[0]] * PROBED + list(rows)


def clicks(values: list[Any]) -> Row:
    return {"context": "q", "items": list(range(len(values))), "clicks": values}


def test_bit_k_minus_1_is_the_click_at_position_k():
    log = fc.read_log([clicks([0, 1, 1]), clicks([1]), clicks([0, 0])])
    assert log.shape.masks == ("clicks",)
    assert log.stored.columns == ("context", "item_1", "item_2", "item_3", "clicks", "n")
    assert [(row["item_2"], row["item_3"], row["clicks"]) for row in rows_of(log).to_pylist()] == [
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
    "clicks too short": clicks([1]) | {"items": [7, 8]},
    "clicks too long": clicks([1, 0, 0]) | {"items": [7, 8]},
    "null between": clicks([1, None, 0]),
    "item null": clicks([1, 0, 0]) | {"items": [7, None, 9]},
    "negative": clicks([1, -1]),
    "no list": clicks([]),
    "item twice": clicks([1, 1]) | {"items": [7, 7]},
}


@pytest.mark.parametrize("row", BROKEN.values(), ids=BROKEN)
def test_broken_rows_are_told_as_without_masks(row):
    """A graded reward in the log keeps masks away."""
    far, graded = beyond_the_guess(row), clicks([3, 0, 0])
    said = []
    for log in (far, [*far, graded], [*LISTS, row]):
        with pytest.raises(InvalidLogError) as error:
            fc.read_log(pa.Table.from_pylist(log))
        said.append(str(error.value))
    assert said[0] == said[1] == said[2]
    example = r"for example context='q' items=\[.*\] clicks=\["
    assert re.search(rf"1 row breaks the rules of a log:\n- .*: 1 row, {example}", said[0])
