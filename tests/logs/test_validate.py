"""If this fails, a broken log is answered, or a sound one is refused."""

import math
import re

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError
from tests.engines.looking import without_spark
from tests.logs.samples import Row, counted, impressions

GOOD: Row = {
    "context": "fine",
    "items": [1, 2],
    "clicks": [1.0, 0.0],
    "orders": [0, 1],
    "p": 0.5,
    "ps": [0.5, 1.0],
    "w": 2.0,
    "times": 3,
}
SCHEMA = pa.schema(
    {
        "context": pa.string(),
        "items": pa.list_(pa.int64()),
        "clicks": pa.list_(pa.float64()),
        "orders": pa.list_(pa.int64()),
        "p": pa.float64(),
        "ps": pa.list_(pa.float64()),
        "w": pa.float64(),
        "times": pa.int64(),
    }
)
LISTS, DIFFERENT = "null or empty list", "items and clicks of different length"
TWICE, NEGATIVE = "an item twice in a list", "negative, NaN or too large clicks"
PROPENSITY, CONTEXT = r"propensity outside \(0, 1\]", "context is null"
WEIGHT = "w null, NaN, too large, or not above 0"
POSITION = "a position twice in a list or below 1, or no list"
INF, NAN = math.inf, math.nan


def source(*changes: Row) -> pa.Table:
    """Three good rows, and one for each of the changes."""
    return pa.Table.from_pylist([GOOD] * 3 + [GOOD | change for change in changes], SCHEMA)


def fault(table, **roles):
    with pytest.raises(InvalidLogError) as error:
        fc.read_log(table, **roles)
    return str(error.value)


ORDERS: Row = {"rewards": {"orders": "orders"}}
BROKEN: list[tuple[Row, list[Row], str, str]] = [
    ({}, [{"items": [1, 2, 3]}], DIFFERENT, r"items=\[1, 2, 3\] clicks=\[1"),
    ({}, [{"clicks": [1, 0, 1]}], DIFFERENT, r"items=\[1, 2\] clicks=\[1"),
    ({}, [{"clicks": [1, None]}], DIFFERENT, r"clicks=\[1\.0\]"),
    ({}, [{"clicks": None}, {"clicks": []}], DIFFERENT, r"clicks=\[\]"),
    ({}, [{"items": [1, None]}], DIFFERENT, r"items=\[1\]"),
    ({}, [{"items": [7, 7]}] * 2, TWICE, r"items=\[7, 7\]"),
    ({}, [{"context": None}], CONTEXT, "context=None"),
    (ORDERS, [{"orders": [0]}], "items and orders of different length", r"orders=\[0\]"),
    (ORDERS, [{"orders": [0, -2]}], "negative, NaN or too large orders", r"orders=\[0, -2\]"),
    (
        {},
        [
            {"items": None},
            {"items": None, "clicks": None},
            {"items": [], "clicks": []},
            {"items": [None], "clicks": [None]},
        ],
        LISTS,
        r"items=\[\] clicks=\[",
    ),
    (
        {},
        [{"clicks": clicks} for clicks in ([0, -1], [NAN, 0], [INF, 0], [0, -INF])],
        NEGATIVE,
        r"clicks=\[(0\.0, -1\.0|nan, 0\.0|inf, 0\.0|0\.0, -inf)\]",
    ),
    (
        {"propensity": "p"},
        [{"p": p} for p in (0, -0.5, 1.0000001, NAN, INF, None)],
        PROPENSITY,
        r"propensity=(0\.0|-0\.5|1\.0000001|nan|inf|None)",
    ),
    (
        {"propensity": "ps"},
        [{"ps": ps} for ps in ([0.5, 0], [0.5, None], [0.5], None, [NAN, 1], [1.5, 1])],
        PROPENSITY,
        "propensity_1=",
    ),
    ({"count": "w"}, [{"w": w} for w in (0, -1, NAN, INF, None)], WEIGHT, "fine"),
    ({"count": "times"}, [{"times": n} for n in (0, -1, None)], "times null", "fine"),
]
"""Ways to break one rule: all of them must be counted."""


@pytest.mark.parametrize(("roles", "changes", "cause", "example"), BROKEN)
def test_a_broken_rule(roles: Row, changes: list[Row], cause: str, example: str) -> None:
    table, count = source(*changes), len(changes)
    told = fault(table, **roles)
    assert re.match(rf"{count} rows? breaks? the rules of a log:", told)
    assert re.search(rf"- {cause}[^\n]*: {count} rows?, for example [^\n]*{example}", told), told
    assert len(re.findall(r"remedy: \w[^\n]+\.", told)) == 1
    assert 'invalid="drop"' in told

    log = fc.read_log(table, invalid="drop", **roles)
    [(name, n)] = log.dropped.items()
    assert re.match(cause, name)
    assert (n, log.dropped_rows, log.rows) == (count, count, 3)
    assert sum(counted(log).values()) == {"w": 6.0, "times": 9}.get(str(roles.get("count")), 3)


EVERYTHING: list[Row] = [
    {"items": None, "clicks": None},
    {"items": [], "clicks": []},
    {"items": [1, 2, 3]},
    {"clicks": [1, 0, 1, 1, 1]},
    {"clicks": [None, 0]},
    {"items": [7, 7]},
    {"items": [7, 7], "clicks": [-1, 0], "p": 2, "w": 0},
    {"context": None},
    {"p": 0},
    {"p": NAN},
    {"p": None},
    {"w": -1},
    {"w": NAN},
    {"w": None},
]
ROLES: Row = {"propensity": "p", "count": "w"}
COUNTS = {LISTS: 2, DIFFERENT: 3, TWICE: 2, NEGATIVE: 1, CONTEXT: 1, PROPENSITY: 4, WEIGHT: 4}


def test_all_rules_at_once_are_counted_by_cause_on_every_engine(engine):
    log = fc.read_log(engine.load(source(*EVERYTHING)), invalid="drop", **ROLES)
    for cause, n in COUNTS.items():
        assert [log.dropped[name] for name in log.dropped if re.match(cause, name)] == [n], cause
    assert len(log.dropped) == len(COUNTS)
    # the row that breaks four rules is one row
    assert (log.rows, log.dropped_rows) == (3, len(EVERYTHING))
    assert counted(log) == {("fine", 0.5, (1, 2), (1.0, 0.0)): 6.0}
    assert "14 invalid rows dropped" in repr(log)


def test_what_is_no_number_on_every_engine(engine):
    slots = [[0.5, NAN], [0.5], None, [0, 1], [2, 1]]
    wrong: list[Row] = [{"clicks": [NAN, 0]}, {"clicks": [0, INF]}, {"w": INF}, {"w": NAN}]
    table = source(*wrong, *({"ps": ps} for ps in slots))
    log = fc.read_log(engine.load(table), count="w", propensity="ps", invalid="drop")
    for cause, n in {NEGATIVE: 2, WEIGHT: 2, PROPENSITY: 5}.items():
        assert [log.dropped[name] for name in log.dropped if re.match(cause, name)] == [n], cause
    assert len(log.dropped) == 3
    assert (log.rows, log.dropped_rows) == (3, 9)


@without_spark
def test_no_rows(engine):
    table = engine.load(source())
    for invalid in ("error", "drop"):
        with pytest.raises(InvalidLogError, match=r"no rows.*path.*where="):
            fc.read_log(table, where="context = 'none'", invalid=invalid)


# --- impressions ----------------------------------------------------------------------------------


def seen(*changes: Row) -> list[Row]:
    """The sample's impressions, and another list of two, changed."""
    rows = [
        {"context": "q", "list_id": 99, "position": k, "item": k + 10, "click": 0} for k in (1, 2)
    ]
    changed = [row | change for row, change in zip(rows, changes, strict=True)]
    return impressions() + changed


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ([{}, {"position": 1}], POSITION),
        ([{"position": 0}, {}], POSITION),
        ([{"position": -1}, {}], POSITION),
        ([{"position": None}, {}], POSITION),
        ([{"position": 0}, {"position": 0}], POSITION),
        ([{"list_id": None}, {"list_id": None}], POSITION),
        ([{}, {"item": 11}], TWICE),
        ([{}, {"click": None}], DIFFERENT),
        ([{}, {"item": None}], DIFFERENT),
        ([{}, {"click": -1}], NEGATIVE),
        ([{"context": None}, {"context": None}], CONTEXT),
    ],
)
def test_a_broken_rule_of_impressions(changes, cause):
    rows = seen(*changes)
    told = fault(rows, long=("list_id", "position"))
    assert re.search(rf"- {cause}[^\n]*: 1 row, for example context=", told), told
    log = fc.read_log(rows, long=("list_id", "position"), invalid="drop")
    assert any(re.match(cause, name) and n == 1 for name, n in log.dropped.items())
    assert (log.rows, log.dropped_rows) == (7, 1)


@without_spark
def test_positions_from_zero(engine):
    rows = [{**row, "position": row["position"] - 1} for row in impressions()]
    told = fault(engine.load(pa.Table.from_pylist(rows)), long=("list_id", "position"))
    assert re.search(rf"{POSITION}: 7 rows.*\n  remedy: positions count from 1", told)
