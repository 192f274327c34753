"""The candidate's cells with their weights: what sums and spreads are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir

from foreclick.engines import real
from foreclick.sqlkernel.cells import Ask

if TYPE_CHECKING:
    from foreclick.sqlkernel.rated import Rated


@dataclass(frozen=True)
class Weighed:
    """The candidate's cells with their weights, materialised, for asks that share their cells.

    Attributes:
        cell: the names of the columns that name a cell.
        table: by, context, cell; w_i_m, the weight of ask i at clip m; and c_i, p_i, ratio_i.
            Where the value is no sum of weighted credit, v_i_m is what a cell adds to it.
        scored: gives the candidate's lists, each with its value z_i_m, where cells do not tell it.
        rated: where a ladder stands behind it; then the table has every cell of the log, with the
            factors a_i_0 and b_i_0 of its credit and its exposure.
    """

    asks: list[Ask]
    cell: list[str]
    table: ir.Table
    scored: Callable[[], ir.Table] | None = None
    rated: Rated | None = None

    def worth(self, keys: list[str]) -> ir.Table:
        """By context, v_i_m: its value times its records."""
        if self.rated is not None:
            return self.rated.by_context("v")
        table = self.table
        sums = {f"v_{i}_{m}": worth(table, i, m).sum() for i, m in names(self.asks)}
        return table.group_by(keys).aggregate(**sums)


def names(asks: Sequence[Ask]) -> list[tuple[int, int]]:
    """(i, m) for every ask i and each of its clips m."""
    return [(i, m) for i, ask in enumerate(asks) for m in range(len(ask.clips))]


def earned(asks: Sequence[Ask], i: int) -> int:
    """The first ask of the same metric: whatever their models call exposed, they earn the same."""
    return next(j for j, ask in enumerate(asks) if ask.metric == asks[i].metric)


def worth(table: ir.Table, i: int, m: int) -> ir.Value:
    """What a cell adds to the value, times records: C_g W_g, unless it is told otherwise."""
    own = f"v_{i}_{m}"
    return table[own] if own in table.columns else table[f"c_{i}"] * table[f"w_{i}_{m}"]


def unclipped(table: ir.Table, asks: Sequence[Ask], i: int, m: int) -> ir.BooleanValue:
    """u_g: whether clip m of ask i leaves the weight of a cell as it is."""
    clip = asks[i].clips[m]
    return ibis.literal(True) if math.isinf(clip) else table[f"ratio_{i}"] <= real(clip)


def rate_of(table: ir.Table, i: int) -> ir.Value:
    """r_g = C_g / P_g, 0 where nothing was exposed."""
    return ratio(table[f"c_{i}"], table[f"p_{i}"])


def ratio(part: ir.Value, whole: ir.Value) -> ir.Value:
    """One number divided by another, 0 where that is 0."""
    there = whole > 0
    return there.ifelse(part / there.ifelse(whole, real(1)), real(0))
