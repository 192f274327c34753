"""Whether what an estimate rests on was seen again and again, or on a few days only.

Days differ. What a cell earned that was seen on few of them may be those days' doing, and no number
of records on the same days tells.
"""

from __future__ import annotations

import ibis.expr.types as ir

from foreclick.engines import real, total
from foreclick.models import MASS
from foreclick.sqlkernel.cells import CLUSTER, Ask
from foreclick.sqlkernel.logged import RECORDS
from foreclick.sqlkernel.prepared import Code, Prepared, per
from foreclick.sqlkernel.weighed import Weighed

ENOUGH_PERIODS = 5
"""In so many periods a cell must have been seen for its click rate to be more than theirs."""


def in_periods(log: Prepared, asks: list[Ask], slots: ir.Table) -> dict[str, ir.Value]:
    """Of a cell, in how many clusters it was exposed: sums over its slots.

    Args:
        log: the prepared log.
        asks: they share their cells.
        slots: (by, context, cluster, cell) → e_i, exposure; clusters are periods.
    """
    exposed = {f"periods_{i}": slots[f"e_{i}"] > real(0) for i in range(len(asks))}
    if log.propensity:  # several rows may be of one period
        return {name: slots[CLUSTER].nunique(where=there) for name, there in exposed.items()}
    return {name: total(there.ifelse(1, 0)) for name, there in exposed.items()}


def repeated(log: Prepared, weighed: Weighed, seen: ir.Table) -> dict[tuple[Ask, Code], float]:
    """The share of the covered exposure whose cells were seen in `ENOUGH_PERIODS` or more.

    Args:
        log: the prepared log.
        weighed: the candidate's cells.
        seen: the same cells with what `in_periods` says of them.
    """
    key, asks = [*log.keys, *weighed.cell], weighed.asks
    periods = seen.select(*key, *(f"periods_{i}" for i in range(len(asks))))
    joined = weighed.table.left_join(periods, key)
    n_x = joined[RECORDS].cast("float64")
    sums: dict[str, ir.Value] = {}
    for i in range(len(asks)):
        mass = n_x * joined[f"{MASS}_{i}"]
        if log.propensity:  # rows are parts of cells
            mass = mass * joined["share"]
        covered = (joined[f"log_{i}"] > 0).ifelse(mass, real(0))
        often = joined[f"periods_{i}"].fill_null(0) >= ENOUGH_PERIODS
        sums |= {f"covered_{i}": covered.sum(), f"often_{i}": often.ifelse(covered, real(0)).sum()}
    return {
        (ask, tuple(row[b] for b in log.by)): row[f"often_{i}"] / row[f"covered_{i}"]
        for row in log.engine.rows(per(joined, log.by).aggregate(**sums))
        for i, ask in enumerate(asks)
        if row[f"covered_{i}"]
    }
