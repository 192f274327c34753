"""Where the gain of a policy comes from: its contexts by what each of them gains."""

from __future__ import annotations

from typing import Any

import ibis
import ibis.expr.types as ir

from foreclick.engines import Engine, real
from foreclick.optimize.answers import CHANGED
from foreclick.results import Result

_STEPS = 5  # rows for gains that differ by a factor of e
_MOST = 95  # rows of gains, and of losses: from the largest down to a 10⁸th of it
COLUMNS = ("contexts", "changed", "records", "gain")


def gains(home: Engine, contexts: ir.Table, left: float) -> Result:
    """Contexts from the largest gain to the largest loss, those that gain alike in one row.

    A context gains its share of the records, times what its policy earns more than production,
    after pessimism. So gains of all rows add up to that of the policy. Alike are gains that differ
    by a fifth or less: however many contexts there are, they are 200 rows at most.

    Args:
        home: the engine of `contexts`.
        contexts: `Optimized.contexts`.
        left: how often the policy is shown, rather than production.
    """
    n = contexts["records"]
    gain = n * (contexts["sure"] - contexts["production"])
    gain = ibis.ifelse(contexts["why"] == CHANGED, gain, real(0.0))
    each = contexts.select(records=n, gain=gain, changed=contexts["why"] == CHANGED)
    size = each["gain"].abs()
    whole = home.rows(each.aggregate(records=each["records"].sum(), most=size.max()))[0]
    if not whole["records"]:
        return Result((), COLUMNS)
    most = whole["most"] or 1.0
    rank = ((real(most) / ibis.ifelse(size > 0, size, real(most))).ln() * real(_STEPS)).floor()
    alike = each.mutate(side=each["gain"].sign(), rank=ibis.least(rank, real(_MOST - 1)))
    rows = home.rows(
        alike.group_by(["side", "rank", "changed"]).aggregate(
            contexts=alike.count(), records=alike["records"].sum(), gain=alike["gain"].sum()
        )
    )
    unit = left / whole["records"]
    return Result(tuple(_row(row, unit) for row in sorted(rows, key=_order)), COLUMNS)


def _order(row: dict[str, Any]) -> tuple[float, bool]:
    """The largest gain first, and of those that gain nothing, the changed ones."""
    return -row["gain"] / row["contexts"], not row["changed"]


def _row(row: dict[str, Any], unit: float) -> dict[str, Any]:
    n = int(row["contexts"])
    changed = n if row["changed"] else 0
    return {
        "contexts": n,
        "changed": changed,
        "records": row["records"],
        "gain": row["gain"] * unit,
    }
