"""Logs and policies of a case, as a user gives them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import count
from typing import Any

import pyarrow as pa

import foreclick as fc
from tests import drawn
from tests.batches.sizes import in_batches
from tests.engines.looking import bucket_of
from tests.fuzz.draws import Case

Lists = Mapping[Any, Mapping[Any, float]]


def read(case: Case) -> fc.Log:
    """The log."""
    columns: dict[str, Any] = {
        "weight": [row.weight for row in case.rows],
        "day": [row.day for row in case.rows],
        "land": pa.array([row.land for row in case.rows], pa.string()),
        "user": [user_of(row.unit) for row in case.rows],
        "list": [row.chance for row in case.rows],
        "slot": [list(row.chances[: len(row.items)]) for row in case.rows],
    }
    return fc.read_log(
        drawn.log_table(case.records, **columns),
        count="weight",
        period="day",
        segments=("land",),
        unit="user" if case.units else None,
        propensity=case.propensity if case.logging == "propensity" else None,
    )


@cache
def user_of(bucket: int) -> str:
    """A user whose records fall into a bucket."""
    return next(name for name in map(str, count()) if bucket_of(name) == bucket)


def tally_of(case: Case, slots: int | None = None) -> fc.Tally:
    """Its tally, in batches of so many slots; None: as the case has it."""
    return in_batches(fc.tally(read(case)), slots or case.slots)


def policy_of(case: Case) -> Any:  # noqa: ANN401 - a policy
    """The candidate."""
    lists = drawn.lists_table(case.candidate)
    rows = lists["items"].to_pylist()
    depth = max(map(len, (*rows, *(row.items for row in case.rows)))) + 1
    meant = [[*row, *[None] * (depth - len(row))] for row in rows]  # to be short, which nulls say
    match case.kind:
        case "Marginals":
            return fc.Marginals(drawn.marginals_table(case.candidate))
        case "Ranking":
            return fc.Ranking({"context": lists["context"].to_pylist(), "items": meant})
        case "Observed":
            return fc.Observed(fc.read_log(lists, count="probability", clicks=None))
        case _:
            return fc.Lists(lists.to_pydict() | {"items": meant})


def logging_of(case: Case) -> Any:  # noqa: ANN401 - a policy, or how it is known
    """The logging policy, where it is known."""
    return case.logging if case.pi is None else fc.Lists(drawn.lists_table(case.pi))
