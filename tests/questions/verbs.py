"""Every verb asked of one small log: what tests of the way an answer is computed share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

import foreclick as fc
from foreclick.errors import ForeclickWarning
from tests.answers import same
from tests.drawn import Draw, drawn, half_new, lists_table

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


def table(*, text: bool, contexts: int = 12) -> tuple[pa.Table, dict[str, Any], fc.Lists]:
    """A log with days, users, parts and prices; its roles; and a candidate.

    Args:
        text: whether contexts are text; otherwise they are whole numbers, in another order.
        contexts: of 900 records; many of 300 contexts are alike in all that is counted in them.
    """
    case = drawn(5, replace(LOG, contexts=contexts, even=contexts > 12))
    policy = half_new(case)

    def named(context: str) -> Any:  # noqa: ANN401
        return context if text else int(context.removeprefix("q"))

    rows = [row | {"context": named(row["context"])} for row in case.rows]
    new = fc.Lists(lists_table({named(x): lists for x, lists in policy.items()}))
    return pa.Table.from_pylist(rows), case.roles, new


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
