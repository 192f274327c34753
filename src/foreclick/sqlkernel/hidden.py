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
from foreclick.logs import N
from foreclick.models import MASS
from foreclick.sqlkernel.cells import Ask
from foreclick.sqlkernel.prepared import LOGGING, Code, Prepared, per
from foreclick.sqlkernel.question import Stratum
from foreclick.sqlkernel.weighed import Weighed, earned, names, rate_of, ratio

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
    if not fits_rates(log, weighed):
        return {}
    rows = _usual(log, weighed)
    extra = {}
    for i in range(len(weighed.asks)):
        n = rows[f"{N}_{i}"].cast("float64")
        extra[f"d_{i}"] = (real(2) * n * rows[f"usual_{i}"] - rows[f"s_{i}"]) / (n + real(1))
    rows = rows.mutate(**extra)
    parts: dict[str, ir.Value] = {}
    for i, m in names(weighed.asks):
        parts |= _weighed(f"{i}_{m}", rows[f"w_{i}_{m}"], rows[f"d_{i}"])
    sums = {name: part.sum() for name, part in parts.items()}
    answers = log.engine.rows(per(rows, log.by).aggregate(**sums))
    return _matrices(log, strata, weighed, answers)


def few_clusters(
    log: Prepared,
    strata: list[Stratum],
    weighed: Weighed,
    seen: ir.Table,
    rows: list[dict[str, Any]],
) -> Hidden:
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
        seen: the same cells with their `moments`.
        rows: (by, cluster) → the sums of `shocks`.
    """
    sums: dict[Code, dict[str, Any]] = {}
    for row in rows:
        mine = sums.setdefault(tuple(row[b] for b in log.by), {})
        for name in _shocked(weighed.asks):
            mine[name] = mine.get(name, 0.0) + (row[name] or 0.0)
    cells = _over_cells(log, weighed, seen)
    answers = log.engine.rows(
        per(cells, log.by).aggregate(
            **{c: cells[c].sum() for c in cells.columns if c not in log.by}
        )
    )
    return _matrices(
        log,
        strata,
        weighed,
        [row | sums.get(tuple(row[b] for b in log.by), {}) for row in answers],
    )


def moments(slots: ir.Table, asks: list[Ask]) -> dict[str, ir.Value]:
    """Of a cell, sums over its clusters: Σ t² and, of every ask, Σ t e, Σ e² and Σ e³."""
    sums: dict[str, ir.Value] = {}
    for i in range(len(asks)):
        t, e = slots[f"t_{earned(asks, i)}"], slots[f"e_{i}"]
        if earned(asks, i) == i:
            sums[f"tt_{i}"] = (t * t).sum()
        sums |= {f"te_{i}": (t * e).sum(), f"ee_{i}": (e * e).sum(), f"eee_{i}": (e * e * e).sum()}
    return sums


def _over_cells(log: Prepared, weighed: Weighed, seen: ir.Table) -> ir.Table:
    """What each cell adds: to τ² (`over` / `under`), and by the variance of its records."""
    usual = _usual(log, weighed)
    asks, key = weighed.asks, [*log.keys, *weighed.cell]
    rows = usual.join(seen, key)
    columns: dict[str, ir.Value] = {}
    for i, ask in enumerate(asks):
        n, p, rate = rows[f"{N}_{i}"].cast("float64"), rows[f"p_{i}"], rate_of(rows, i)
        tt, cross = rows[f"tt_{earned(asks, i)}"], rows[f"te_{i}"]
        ee, eee = rows[f"ee_{i}"], rows[f"eee_{i}"]
        # n_g σ_g²: the cell's own spread, and two records of the usual one
        v = n * (rows[f"s_{i}"] + real(2) * rows[f"usual_{i}"]) / (n + real(1))
        shared = ratio(ee, p * p)  # Σ h²
        left = tt - rate * (real(2) * cross - rate * ee)
        columns[f"over_{i}"] = left - v * (real(1) - shared)
        columns[f"under_{i}"] = rate * rate * (ee - ratio(eee, p))
        for m in range(len(ask.clips)):
            columns |= _weighed(f"{i}_{m}", rows[f"w_{i}_{m}"], v * shared)
    return rows.select(*log.by, **columns)


def shock_columns(table: ir.Table, asks: list[Ask]) -> dict[str, ir.Value]:
    """What a shock of 1 moves in a cell, by unit of exposure: of every clip W r, of every ask r."""
    found: dict[str, ir.Value] = {}
    for i, ask in enumerate(asks):
        rate = rate_of(table, i)
        found[f"r_{i}"] = (table[f"ratio_{i}"] > 0).ifelse(rate, real(0))
        found |= {f"g_{i}_{m}": table[f"w_{i}_{m}"] * rate for m in range(len(ask.clips))}
    return found


def shocked(joined: ir.Table, asks: list[Ask]) -> dict[str, ir.Value]:
    """Sums over the cells of a context and cluster: A and B, and the same without weights."""
    sums: dict[str, ir.Value] = {}
    for i, ask in enumerate(asks):
        e = joined[f"e_{i}"]
        shown = joined[f"left_{i}"]
        sums |= {
            f"all_{i}": (joined[f"r_{i}"] * e).sum(),
            f"part_{i}": (joined[f"r_{i}"] * shown).sum(),
        }
        for m in range(len(ask.clips)):
            g = joined[f"g_{i}_{m}"]
            sums |= {f"all_{i}_{m}": (g * e).sum(), f"part_{i}_{m}": (g * shown).sum()}
    return sums


def still_shown(joined: ir.Table, asks: list[Ask]) -> dict[str, ir.Value]:
    """What of the exposure still shows, e √(1 − h), for every ask."""
    found: dict[str, ir.Value] = {}
    for i in range(len(asks)):
        share = ibis.least(ratio(joined[f"e_{i}"], joined[f"p_{i}"]), real(1))
        found[f"left_{i}"] = joined[f"e_{i}"] * (real(1) - share).sqrt()
    return found


def shocks(parts: ir.Table, asks: list[Ask]) -> dict[str, ir.Value]:
    """Sums over contexts, of squares."""
    sums: dict[str, ir.Value] = {}
    for i, m in names(asks):
        a, b, a1, b1 = (
            parts[c] for c in (f"all_{i}_{m}", f"part_{i}_{m}", f"all_{i}", f"part_{i}")
        )
        sums[f"shock_ww_{i}_{m}"] = (a * a - b * b).sum()
        sums[f"shock_w_{i}_{m}"] = (a * a1 - b * b1).sum()
        sums[f"shock_d_{i}_{m}"] = (a1 * a1 - b1 * b1).sum()
    return sums


def _shocked(asks: list[Ask]) -> list[str]:
    return [f"shock_{c}_{i}_{m}" for i, m in names(asks) for c in ("ww", "w", "d")]


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
    """(W², W, 1) times what is hidden, of the cells that count."""
    return {
        f"ww_{name}": weight * weight * hidden,
        f"w_{name}": weight * hidden,
        f"d_{name}": (weight > 0).ifelse(hidden, real(0)),
    }


def fits_rates(log: Prepared, weighed: Weighed) -> bool:
    """Where π is known no rate is fitted; models blind to items have few cells, all of them big.

    A ladder's rates do not follow the few records of a small cell, so nothing of them is hidden.
    """
    known = LOGGING in log.policies or log.propensity is not None or weighed.rated is not None
    return weighed.asks[0].model.sees_items and not known


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
    # Ibis's time grows with the columns that are carried along, so only what is needed is.
    own = [f"{stem}_{i}" for i in numbers for stem in (N, "c", "p", "ratio")]
    weights = [f"w_{i}_{m}" for i, m in names(weighed.asks)]
    key = [*log.keys, *weighed.cell]
    rows = table.select(*key, *own, *weights, **columns)
    sums = {f"{c}_pool": ibis.greatest(rows[c].sum(), real(0)) for c in columns}
    pools = rows.group_by(log.keys).aggregate(**sums)
    within = ibis.window(group_by=log.by)
    everywhere = {c: pools[f"{c}_pool"].sum().over(within) for c in columns}
    usual = {}
    for i in numbers:
        pool, free = pools[f"s_{i}_pool"], pools[f"free_{i}_pool"]
        all_of_them = ratio(everywhere[f"s_{i}"], everywhere[f"free_{i}"])
        usual[f"usual_{i}"] = (free >= real(FEW)).ifelse(ratio(pool, free), all_of_them)
    return rows.drop(*(f"free_{i}" for i in numbers)).join(
        pools.select(*log.keys, **usual), log.keys
    )
