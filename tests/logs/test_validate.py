"""If this fails, a broken log is answered, or a sound one is refused."""

import math
import re
from collections import Counter

import pyarrow as pa
import pytest

import foreclick as fc
from foreclick.errors import InvalidLogError
from tests.engines.looking import without_spark
from tests.logs.samples import Row, counted, impressions, reference

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


RULES = {TWICE, NEGATIVE, PROPENSITY}
"""Of lists, clicks and propensities, whatever else is read."""

MANY_FAULTS: Row = {"clicks": [-1, 0], "p": 2, "ps": [2, 2], "w": 0, "times": 0, "items": [7, 7]}
MANY_RULES = {NEGATIVE, PROPENSITY, WEIGHT, "times null", TWICE}
"""One row that breaks several rules, and those that it breaks."""


def by_cause(log, causes):
    """How many rows were dropped for each of these causes, and for others."""
    found = {next((c for c in causes if re.match(c, name)), name): name for name in log.dropped}
    return {cause: log.dropped[name] for cause, name in found.items()}


@pytest.mark.parametrize(
    ("roles", "causes"),
    [
        ({"propensity": "p", "count": "w"}, RULES | {LISTS, DIFFERENT, CONTEXT, WEIGHT}),
        ({"propensity": "ps", "count": "times"}, RULES | {"times null"}),
    ],
    ids=["lists", "slots"],
)
def test_all_rules_at_once_are_counted_by_cause_on_every_engine(engine, roles, causes):
    broken = [(c, each) for r, each, c, _ in BROKEN if r.items() <= roles.items() and c in causes]
    changes = [change for _, some in broken for change in some]
    counts = Counter(cause for cause, some in broken for _ in some)
    log = fc.read_log(engine.load(source(*changes, MANY_FAULTS)), invalid="drop", **roles)
    assert by_cause(log, causes) == {
        cause: counts[cause] + (cause in MANY_RULES) for cause in causes
    }
    assert (log.rows, log.dropped_rows) == (3, len(changes) + 1)
    assert len(counted(log)) == 1
    assert f"{len(changes) + 1} invalid rows dropped" in repr(log)


@without_spark
def test_no_rows(engine):
    table = engine.load(source())
    for invalid in ("error", "drop"):
        with pytest.raises(InvalidLogError, match=r"no rows.*path.*where="):
            fc.read_log(table, where="context = 'none'", invalid=invalid)


# --- impressions ----------------------------------------------------------------------------------

ONE_FAULT: list[tuple[str, Row, Row]] = [
    (POSITION, {}, {"position": 1}),
    *((POSITION, {"position": position}, {}) for position in (0, -1, None)),
    (POSITION, {"position": 0}, {"position": 0}),
    (POSITION, {"list_id": None}, {"list_id": None}),
    (TWICE, {}, {"item": 11}),
    (DIFFERENT, {}, {"click": None}),
    (DIFFERENT, {}, {"item": None}),
    (NEGATIVE, {}, {"click": -1}),
    (CONTEXT, {"context": None}, {"context": None}),
]
"""Causes, with what is changed in the two rows of a list."""


def faulty(number: int, *changes: Row) -> list[Row]:
    """Another list of two, changed."""
    row = {"context": "q", "list_id": number, "click": 0}
    return [row | {"position": k, "item": k + 10} | c for k, c in enumerate(changes, start=1)]


def test_all_rules_of_impressions_at_once_are_counted_on_every_engine(engine):
    rows, long = impressions(), ("list_id", "position")
    for number, (_, *changes) in enumerate(ONE_FAULT, start=90):
        rows += faulty(number, *changes)
    loaded = engine.load(pa.Table.from_pylist(rows))
    counts = Counter([LISTS, *(cause for cause, *_ in ONE_FAULT)])  # one breaks two
    told = fault(loaded, long=long)
    for cause, n in counts.items():
        assert re.search(rf"- {cause}[^\n]*: {n} rows?, for example context=", told), told
    log = fc.read_log(loaded, long=long, invalid="drop")
    assert by_cause(log, counts) == counts
    assert (log.rows, log.dropped_rows) == (7, len(ONE_FAULT))
    assert counted(log) == reference()


@without_spark
def test_positions_from_zero(engine):
    rows = [{**row, "position": row["position"] - 1} for row in impressions()]
    told = fault(engine.load(pa.Table.from_pylist(rows)), long=("list_id", "position"))
    assert re.search(rf"{POSITION}: 7 rows.*\n  remedy: positions count from 1", told)
