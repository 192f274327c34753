"""The largest weights, for what they say about those that are larger still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir
import numpy as np

from foreclick.engines import real
from foreclick.logs import N
from foreclick.sqlkernel.cells import Ask
from foreclick.sqlkernel.prepared import Code, Prepared, per
from foreclick.sqlkernel.weighed import Weighed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST = 10_000
"""Cells that are fetched; 3 √n of n records, the tail to look at, is below it up to 10 million."""


@dataclass(frozen=True)
class Tail:
    """The largest weights, before they are clipped.

    Attributes:
        weights: by cell, falling.
        counts: how many logged slots (lists, for `list`) have each.
        shown: how many there are of all weights above 0.
    """

    weights: Floats
    counts: Floats
    shown: float


def tails(log: Prepared, weighed: Weighed) -> dict[tuple[Ask, Code], Tail]:
    """The tail of every ask and stratum that shows anything of the candidate."""
    found: dict[tuple[Ask, Code], Tail] = {}
    for i, ask in enumerate(weighed.asks):
        table = weighed.table
        there = table.filter((table[N] > 0) & (table[f"ratio_{i}"] > 0))
        rows = there.select(*log.by, weight=there[f"ratio_{i}"], n=there[N].cast("float64"))
        found |= {(ask, code): tail for code, tail in _fetched(log, rows).items()}
    return found


def _fetched(log: Prepared, rows: ir.Table) -> dict[Code, Tail]:
    falling = ibis.window(group_by=log.by, order_by=rows["weight"].desc())
    ranked = rows.mutate(rank=ibis.row_number().over(falling))
    top = log.engine.fetch(ranked.filter(ranked["rank"] < MOST).drop("rank"))
    sums = per(rows, log.by).aggregate(shown=rows["n"].sum().fill_null(real(0)))
    shown = {tuple(row[b] for b in log.by): row["shown"] for row in log.engine.rows(sums)}
    weights, counts = (top[c].to_numpy().astype(np.float64) for c in ("weight", "n"))
    codes = list(zip(*(top[b].to_pylist() for b in log.by), strict=True))
    found = {}
    for code, all_of_them in shown.items():
        mine = np.array([c == code for c in codes], dtype=bool) if log.by else slice(None)
        order = np.argsort(-weights[mine], kind="stable")
        found[code] = Tail(weights[mine][order], counts[mine][order], float(all_of_them))
    return found
