"""Logs in which every role of a column occurs, in all the types and layouts that it may have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cache
from math import inf as INF
from math import nan as NAN
from typing import Any

import numpy as np
import pyarrow as pa

import foreclick as fc
from tests.cases.case import Case
from tests.cases.hostile import NUMBERS, TEXTS

WORDS = ["zoë", "Anna", "anna", "東京🦆", " ", "O'Brien", "a\\b", "NULL", "10", "9"]
LANDS = ["NL", "BE", "nl", None]


def _values(kind: str, count: int, rng: np.random.Generator) -> list[Any]:
    match kind:
        case "text":
            return WORDS[:count]
        case "odd text":
            return [TEXTS[i] for i in rng.permutation(len(TEXTS))[:count]]
        case "odd integers":
            return [NUMBERS[i] for i in rng.permutation(len(NUMBERS))[:count]]
        case "large integers":
            return [2**53 + 1 + i for i in range(count)]
        case "dates":
            return [dt.date(2026, 2, 26) + dt.timedelta(days=i) for i in range(count)]
        case "times":
            return [dt.datetime(2026, 2, 26, 23) + dt.timedelta(hours=7 * i) for i in range(count)]  # noqa: DTZ001
        case _:
            return list(range(-1, count - 1))


def log_of(
    seed: int,
    contexts: str = "text",
    items: str = "integers",
    periods: str = "dates",
    ragged: bool = True,
    graded: bool = False,
    faults: Sequence[int] = (),
) -> dict[str, list[Any]]:
    """The columns of a log of 90 rows, one for every role; few are distinct, so that rows repeat.

    The first rows have these faults, one each.
    """
    rng = np.random.default_rng(seed)
    names, pool = _values(contexts, 4, rng), _values(items, 6, rng)
    days = _values(periods, 4, rng)
    rows: list[dict[str, Any]] = []
    for _ in range(90):
        length = int(rng.integers(1, 4)) if ragged else 3
        chosen = [pool[i] for i in rng.permutation(int(rng.integers(3, 7)))[:length]]
        clicks = rng.integers(0, 2, length)
        price = clicks * rng.choice([0.5, 1.25, 3.0], length)
        rows.append(
            {
                "query": names[int(rng.integers(4))],
                "list": chosen,
                "clicked": (price if graded else clicks).tolist(),
                "orders": (clicks * rng.integers(0, 2, length)).tolist(),
                "price": price.tolist(),
                "day": days[int(rng.integers(4))],
                "land": LANDS[int(rng.integers(4))],
                "device": int(rng.integers(2)),
                "user": WORDS[int(rng.integers(10))],
                "p": float(rng.choice([0.1, 1 / 3, 0.7])),
                "slots": rng.choice([0.1, 1 / 3, 0.7], length).tolist(),
                "times": int(rng.integers(1, 4)),
                "half": float(rng.integers(1, 4)) / 2,  # sums of halves are exact in any order
            }
        )
    for row, number in zip(rows, faults, strict=False):
        row.update(faults_of(row, graded=graded)[number])
    return {name: [row[name] for row in rows] for name in rows[0]}


def faults_of(row: dict[str, Any], *, graded: bool = False) -> list[dict[str, Any]]:
    """What no row should have, one thing each; the first `EASY` can be in any layout."""
    item, more = row["list"][0], len(row["list"]) - 1
    odd_clicks = (NAN, INF, -1.0, None, 1e300, 0.1) if graded else (-1, None, 2**62, 2)
    return [
        {"list": [item, item], "clicked": [0, 0], "orders": [0, 0], "price": [0.0, 0.0]},
        {"query": None},
        {"p": 0.0},
        {"times": -1},
        {"clicked": [0, 0, 0, 0]},
        {"list": [], "clicked": [], "orders": [], "price": [], "slots": []},
        {"list": None},
        {"list": [None, *row["list"][1:]]},
        *({"clicked": [odd, *[0] * more]} for odd in odd_clicks),
        {"clicked": row["clicked"][:-1]},
        *({name: None} for name in ("clicked", "day", "user", "times", "half")),
        *({"p": p} for p in (-0.5, 1.5, NAN, INF, None, 5e-324)),
        *({"slots": [p] * (1 + more)} for p in (0.0, 1.5, NAN, None)),
        *({"half": n} for n in (0.0, -1.0, NAN, INF)),
    ]


EASY = 5
LISTS: dict[str, Any] = {"context": "query", "items": "list", "clicks": "clicked"}
UNITS = LISTS | {"unit": "user"}
ALL = UNITS | {"period": "day", "segments": ["land", "device"]}

LOGS = [
    Case("clicks alone", log_of(1), LISTS),
    Case("one context", log_of(2, ragged=False), LISTS | {"context": None, "period": "day"}),
    Case("graded", log_of(3, items="text", graded=True), LISTS | {"period": "day"}),
    Case("large integers", log_of(4, "large integers", "large integers", "integers"), ALL),
    Case("text", log_of(5, "text", "text", "text"), ALL | {"count": "times"}),
    Case("times", log_of(6, "integers", periods="times"), ALL | {"propensity": "p"}),
    Case("slots", log_of(7, ragged=False), ALL | {"propensity": "slots", "count": "half"}),
    Case(
        "rewards", log_of(8, items="text"), ALL | {"rewards": {"orders": "orders", "eur": "price"}}
    ),
    Case("all roles", log_of(9), ALL),
    Case("weights", log_of(10, "integers"), ALL | {"count": "times"}),
    Case(
        "faults",
        log_of(11, faults=range(EASY)),
        ALL | {"count": "times", "propensity": "p", "invalid": "drop"},
    ),
    Case(
        "everything",
        log_of(12, "text", "text", "dates", graded=True, faults=range(EASY)),
        ALL
        | {"count": "half", "propensity": "slots", "rewards": {"orders": "orders"}}
        | {"invalid": "drop", "where": "device >= 0"},
    ),
]


def _listed(log: Case) -> list[str]:
    """The columns that hold lists."""
    return [c for c, v in log.columns.items() if any(isinstance(one, list) for one in v)]


def in_columns(log: Case) -> Case:
    """The same log with a column a position instead of arrays."""
    listed, names = _listed(log), dict[str, Any]()
    columns: dict[str, Any] = {c: v for c, v in log.columns.items() if c not in listed}
    for column in listed:
        lists = [one or [] for one in log.columns[column]]
        names[column] = [f"{column}{k}" for k in range(max(map(len, lists)))]
        for k, name in enumerate(names[column]):
            values = [some[k] if k < len(some) else None for some in lists]
            columns[name] = pa.array(values, log.table[column].type.value_type)
    usual = {role: role for role in ("items", "clicks") if role not in log.roles}
    return Case(f"{log}, in columns", columns, _renamed(log.roles | usual, names))


def in_rows(log: Case) -> Case:
    """The same log with a row an impression instead of arrays."""
    places = [(row, k) for row, one in enumerate(log.columns["list"]) for k in range(len(one))]
    listed, columns = _listed(log), dict[str, Any]()
    for name, values in log.columns.items():
        kind = log.table[name].type
        if name in listed:
            some = [values[row][k] if k < len(values[row]) else None for row, k in places]
            columns[name] = pa.array(some, kind.value_type)
        else:
            columns[name] = pa.array([values[row] for row, _ in places], kind)
    columns["number"], columns["place"] = [row for row, _ in places], [k + 1 for _, k in places]
    roles = log.roles | {"long": ("number", "place")}
    return Case(f"{log}, in rows", columns, roles)


def _renamed(roles: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """Roles with other columns for what lists hold."""

    def of(column: Any) -> Any:  # noqa: ANN401 - a column, several, or rewards by name
        if isinstance(column, dict):
            return {name: of(value) for name, value in column.items()}
        return names.get(column, column) if isinstance(column, str) else column

    return {role: of(column) for role, column in roles.items()}


WITHOUT_ARRAYS = [*map(in_columns, LOGS), *map(in_rows, LOGS)]


# --- the comparison -------------------------------------------------------------------------------


def rows_of(log: fc.Log | fc.Tally) -> pa.Table:
    """The compact rows of a tally, in order."""
    return pa.Table.from_batches(fc.tally(log).sorted_batches())


@cache
def tally_here(log: Case) -> fc.Tally:
    """The tally that DuckDB gives."""
    return fc.tally(log.log)


def facts_of(log: fc.Log | fc.Tally) -> tuple[Any, ...]:
    """All that is the same of two tallies that are: rows, their types, and what was dropped."""
    tally = fc.tally(log)
    rows = rows_of(tally)
    return tally.shape, tally.dropped, tally.dropped_rows, rows.schema, rows


def assert_same_tally(there: fc.Log, log: Case) -> None:
    """The tally of a log that was read elsewhere is that of DuckDB, to the last bit."""
    assert facts_of(there) == facts_of(tally_here(log))
