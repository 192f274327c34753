"""Every verb asked of one small log: what tests of the way an answer is computed share."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

import foreclick as fc
from foreclick.errors import ForeclickWarning
from tests.answers import same
from tests.cases.plain import Draw, Lists, drawn, half_new
from tests.cases.tables import lists_table

LOG = Draw(records=900, periods=6, unit=True, ragged=True, segments=True, orders=True)

Asked = Callable[[fc.Tally, fc.Lists], Any]

VERBS: dict[str, Asked] = {
    "evaluate": lambda log, new: fc.evaluate(log, new, metrics=["clicks@2", "price@3"], by="land"),
    "evaluate by the paper": lambda log, new: fc.evaluate(
        log, new, metrics="dcg@3", estimators=["list", "prefix", "ip", "item", "pbm", "rctr"]
    ),
    "first clicks": lambda log, new: fc.evaluate(log, new, metrics="success@3", missing="drop"),
    "compare": lambda log, new: fc.compare(log, {"new": new, "now": fc.Observed(log)}),
    "support": fc.support,
    "contexts": lambda log, _: fc.contexts(log),
    "check": lambda log, _: fc.check(log),
    "backtest": lambda log, _: fc.backtest(log, metrics=["clicks@2", "price@3"]),
    "replay": lambda log, _: fc.replay(log, variant="device", control="laptop"),
    "examination": lambda log, _: fc.examination(log),
    "judgments": lambda log, _: fc.judgments(log),
    "optimize": lambda log, _: fc.optimize(log, metrics="dcg@3"),
    "optimize by the paper": lambda log, _: fc.optimize(log, metrics="dcg@3", estimators="ip"),
    "explore": fc.explore,
    "report": fc.report,
}


def table(*, text: bool, copies: int = 0) -> tuple[pa.Table, dict[str, Any], fc.Lists]:
    """A log with days, users, parts and prices; its roles; and a candidate.

    Args:
        text: whether contexts are text; otherwise they are whole numbers, in another order.
        copies: of each of four contexts, instead of 900 records of twelve: the same lists and
            clicks on the same days, at other prices. Only the candidate tells them apart.
    """
    some = replace(LOG, records=60, contexts=4, unit=False) if copies else LOG
    rows: list[dict[str, Any]] = []
    policy: dict[Any, Lists] = {}
    for copy in range(max(copies, 1)):
        case = drawn(5, some)
        price, new = random.Random(copy), half_new(drawn(copy, some) if copies else case)  # noqa: S311

        def named(context: str, copy: int = copy) -> Any:  # noqa: ANN401
            number = int(context.removeprefix("q")) + some.contexts * copy
            return f"q{number}" if text else number

        for row in case.table.to_pylist():
            paid = [p * price.choice([1, 3]) for p in row["price"]] if copies else row["price"]
            rows.append(row | {"context": named(row["context"]), "price": paid})
        policy |= {named(x): lists for x, lists in new.items()}
    return pa.Table.from_pylist(rows), case.roles, fc.Lists(lists_table(policy))


def answer(verb: str, log: fc.Tally, new: fc.Lists) -> list[dict[str, Any]]:
    """The rows of an answer; of `optimize`, with those of its policy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForeclickWarning)
        found = VERBS[verb](log, new)
    rows: list[dict[str, Any]] = found.to_dicts()
    policy = getattr(found, "policy", None)
    return rows if policy is None else rows + policy.table.to_pylist()


def differences(found: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[Any]:
    """Rows that differ by more than rounding."""
    if len(found) != len(right):
        return [f"{len(found)} rows instead of {len(right)}"]
    return [(one, other) for one, other in zip(found, right, strict=True) if not same(one, other)]
