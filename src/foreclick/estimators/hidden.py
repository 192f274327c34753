"""The spread that rates hide which were fitted to few records, or to few days.

A click rate follows the records it was fitted to. What is left of them varies less than records do:
of a cell g, the share h_c of its exposure that cluster c has is also the share of that cluster's
variance that does not show,

    E u_gc² ≈ (1 − h_c) v_gc,    u_gc = Σ_{t in c} (c_g(t) − r_g e_g(t)).

A cell that was seen once shows nothing, and nor does one that was seen on a single day, however
often. Here is what is missing, to be added to the covariance of V̂ and F̂. Weights enter as
(W², W, 1), so a candidate that shows what production did still differs from it by nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir
import numpy as np

from foreclick.engines import real
from foreclick.estimators.cells import Ask
from foreclick.estimators.prepared import CLUSTER, LOGGING, Code, Prepared, per
from foreclick.estimators.question import Stratum
from foreclick.estimators.weighed import Weighed, names, rate_of, ratio
from foreclick.logs import N
from foreclick.models import MASS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FEW = 10
"""Degrees of freedom; a context with fewer takes the variance of all contexts."""

Hidden = dict[tuple[Ask, float, Code], "Floats"]


def small_cells(log: Prepared, strata: list[Stratum], weighed: Weighed) -> Hidden:
    """Independent records: Σ_g (W², W, 1) (S̃_g − S_g), S̃_g = n_g (S_g + 2 s²) / (n_g + 1).

    As if two more records of the context's usual spread s² had been seen in each cell.
    """
    if _nothing_fitted(log, weighed):
        return {}
    rows = _usual(log, weighed)
    extra = {}
    for i in range(len(weighed.asks)):
        n = rows[f"{N}_{i}"].cast("float64")
        extra[f"d_{i}"] = (real(2) * n * rows[f"usual_{i}"] - rows[f"s_{i}"]) / (n + real(1))
    rows = rows.mutate(**extra)
    sums: dict[str, ir.Value] = {}
    for i, m in names(weighed.asks):
        sums |= _weighed(f"{i}_{m}", rows[f"w_{i}_{m}"], rows[f"d_{i}"])
    answers = log.engine.rows(per(rows, log.by).aggregate(**sums))
    return _matrices(log, strata, weighed, answers)


def few_clusters(log: Prepared, strata: list[Stratum], weighed: Weighed, slots: ir.Table) -> Hidden:
    """Clusters: what cells hide that were seen in few of them.

    The variance of a cluster in a cell is taken to be that of its records, n_gc σ_g², and that of
    a shock which moves all click rates of a context by a share of themselves, τ² (r_g e_gc)².
    τ² is what the residuals u have left over, all cells together.

        Σ_gc (W², W, 1) n_g σ_g² h_c²  +  τ² Σ_xc (A_xc A_xcᵀ − B_xc B_xcᵀ),
        A_xc = Σ_g (W, 1) r_g e_gc,    B_xc = Σ_g (W, 1) r_g e_gc √(1 − h_c)

    Args:
        log: the prepared log.
        strata: its parts.
        weighed: the candidate's cells.
        slots: (by, context, cluster, cell) → t_i and e_i, credit and exposure.
    """
    if _nothing_fitted(log, weighed):
        return {}
    asks = weighed.asks
    rows = _usual(log, weighed)
    n = [rows[f"{N}_{i}"].cast("float64") for i in range(len(asks))]
    rows = rows.mutate(
        **{f"r_{i}": rate_of(rows, i) for i in range(len(asks))},
        **{
            # n_g σ_g²: the cell's own spread, and two records of the usual one
            f"v_{i}": n[i] * (rows[f"s_{i}"] + real(2) * rows[f"usual_{i}"]) / (n[i] + real(1))
            for i in range(len(asks))
        },
    )
    own = [f"{stem}_{i}" for i in range(len(asks)) for stem in ("r", "v", "p")]
    weights = [f"w_{i}_{m}" for i, m in names(asks)]
    key = [*log.keys, *weighed.cell]
    joined = slots.join(rows.select(*key, *own, *weights), key)
    shares = {
        f"h_{i}": ibis.least(ratio(joined[f"e_{i}"], joined[f"p_{i}"]), real(1))
        for i in range(len(asks))
    }
    joined = joined.mutate(**shares)
    sums: dict[str, ir.Value] = {}
    for i, ask in enumerate(asks):
        r, e, h, v = (joined[f"{c}_{i}"] for c in ("r", "e", "h", "v"))
        left = joined[f"t_{i}"] - r * e
        sums[f"over_{i}"] = (left * left - v * h * (real(1) - h)).sum()
        sums[f"under_{i}"] = (r * r * e * e * (real(1) - h)).sum()
        for m in range(len(ask.clips)):
            w = joined[f"w_{i}_{m}"]
            sums |= _weighed(f"{i}_{m}", w, v * h * h)
            shown = r * e * (real(1) - h).sqrt()
            sums |= {f"a_{i}_{m}": (w * r * e).sum(), f"b_{i}_{m}": (w * shown).sum()}
            sums |= {
                f"a1_{i}_{m}": (w > 0).ifelse(r * e, real(0)).sum(),
                f"b1_{i}_{m}": (w > 0).ifelse(shown, real(0)).sum(),
            }
    parts = joined.group_by([*log.keys, CLUSTER]).aggregate(**sums)
    answers = log.engine.rows(per(parts, log.by).aggregate(**_over_contexts(parts, asks)))
    return _matrices(log, strata, weighed, answers)


def _over_contexts(parts: ir.Table, asks: list[Ask]) -> dict[str, ir.Value]:
    """Sums over contexts and clusters; of shocks, squares before they are summed."""
    stems = ("ww", "w", "d")
    sums = {f"{c}_{i}_{m}": parts[f"{c}_{i}_{m}"].sum() for i, m in names(asks) for c in stems}
    for i, _ in enumerate(asks):
        sums |= {f"{c}_{i}": parts[f"{c}_{i}"].sum() for c in ("over", "under")}
    for i, m in names(asks):
        a, b, a1, b1 = (parts[f"{c}_{i}_{m}"] for c in ("a", "b", "a1", "b1"))
        sums[f"shock_ww_{i}_{m}"] = (a * a - b * b).sum()
        sums[f"shock_w_{i}_{m}"] = (a * a1 - b * b1).sum()
        sums[f"shock_d_{i}_{m}"] = (a1 * a1 - b1 * b1).sum()
    return sums


def _matrices(
    log: Prepared, strata: list[Stratum], weighed: Weighed, answers: list[dict[str, Any]]
) -> Hidden:
    """The covariance to add, by ask, clip and stratum."""
    by_code = {tuple(row[b] for b in log.by): row for row in answers}
    found: Hidden = {}
    for stratum in strata:
        row = by_code.get(stratum.code)
        if row is None:
            continue
        for i, m in names(weighed.asks):
            under = row.get(f"under_{i}") or 0.0
            shock = max(row[f"over_{i}"], 0.0) / under if under > 0 else 0.0
            ww, w, d = (
                (row[f"{c}_{i}_{m}"] or 0.0) + shock * (row.get(f"shock_{c}_{i}_{m}") or 0.0)
                for c in ("ww", "w", "d")
            )
            ask = weighed.asks[i]
            matrix = np.array([[ww, w], [w, d]]) / stratum.records**2
            found[ask, ask.clips[m], stratum.code] = matrix
    return found


def _weighed(name: str, weight: ir.Value, hidden: ir.Value) -> dict[str, ir.Value]:
    """Σ (W², W, 1) times what is hidden, over the cells that count."""
    return {
        f"ww_{name}": (weight * weight * hidden).sum(),
        f"w_{name}": (weight * hidden).sum(),
        f"d_{name}": (weight > 0).ifelse(hidden, real(0)).sum(),
    }


def _nothing_fitted(log: Prepared, weighed: Weighed) -> bool:
    """Where π is known no rate is fitted; models blind to items have few cells, all of them big."""
    known = LOGGING in log.policies or log.propensity is not None
    return known or not weighed.asks[0].model.sees_items


def _usual(log: Prepared, weighed: Weighed) -> ir.Table:
    """The cells with S_g = Σ (c − r e)² over records, and the usual spread s² of their context.

    A context with few degrees of freedom takes that of all contexts of its stratum. Strata are
    evaluated each on its own, so none of them lends another its spread.
    """
    table, numbers = weighed.table, range(len(weighed.asks))
    columns: dict[str, ir.Value] = {}
    for i in numbers:
        rate = rate_of(table, i)
        left = table[f"q_{i}"] - rate * (real(2) * table[f"x_{i}"] - rate * table[f"y_{i}"])
        shown = (table[f"{MASS}_{i}"] > 0) & (table[f"{N}_{i}"] > 0)
        columns[f"s_{i}"] = shown.ifelse(ibis.greatest(left, real(0)), real(0))
        columns[f"free_{i}"] = shown.ifelse(table[f"{N}_{i}"].cast("float64") - 1, real(0))
    rows = table.mutate(**columns)
    sums = {f"{c}_pool": ibis.greatest(rows[c].sum(), real(0)) for c in columns}
    pools = rows.group_by(log.keys).aggregate(**sums)
    within = ibis.window(group_by=log.by)
    pools = pools.mutate(**{f"{c}_all": pools[f"{c}_pool"].sum().over(within) for c in columns})
    rows = rows.join(pools, log.keys)
    usual = {}
    for i in numbers:
        pool, free = rows[f"s_{i}_pool"], rows[f"free_{i}_pool"]
        everywhere = ratio(rows[f"s_{i}_all"], rows[f"free_{i}_all"])
        usual[f"usual_{i}"] = (free >= real(FEW)).ifelse(ratio(pool, free), everywhere)
    return rows.mutate(**usual)
