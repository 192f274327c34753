"""First clicks by slots: a product of hazards along each list of the candidate.

Whether the first click is at position k depends on all that stands above it, so slots have no rate
of first clicks. They have a *hazard*: the chance of a click, given none above. With r_g the first
clicks of a cell g by its exposure at risk, and h_k = min(p_k r_g, 1) along a list A,

    f(A) = Σ_k θ_k h_k Q_k,   Q_k = Π_{j<k} (1 − h_j)          V = Σ_x n_x/n Σ_A h(A|x) f(A)

It assumes that a slot's hazard does not depend on *what* was passed over above it. So it is where
slots are clicked independently (position-based users), and where users read downwards until they
click (cascade, DCM). Users who also leave without a click (DBN) bend it a little.

What V would move by comes from the same machinery as for sums over cells. With R_k the rest of the
sum from k on, of those who get there, ∂f/∂h_k = Q_k (θ_k − R_{k+1}) ≥ 0; the derivative of V by r_g
over the cell's exposure at risk is its weight W_g.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul

import ibis
import ibis.expr.types as ir

from foreclick.engines import real, whole
from foreclick.logs import ITEM
from foreclick.models import MASS, POSITION, stacked
from foreclick.sqlkernel.cells import Ask, cell_columns
from foreclick.sqlkernel.logged import RECORDS
from foreclick.sqlkernel.prepared import Prepared
from foreclick.sqlkernel.weighed import Weighed, rate_of, ratio

LIST = "list_id"
_PARTS = ("worth", "slope")
_CERTAIN = 1 + 1e-9  # an examination times its own inverse may be above 1 by a bit


def weigh(log: Prepared, asks: list[Ask]) -> Weighed:
    """The candidate's cells with their weights, and its lists with what each is worth."""
    cell, cells = log.cells(asks)
    cells = log.keep(cells, "hazards")
    key, numbers = [*log.keys, *cell], range(len(asks))
    lists = log.keep(log.engine.identified(log.policy_lists(MASS), LIST), "candidates")
    rates = cells.select(*key, **{f"rate_{i}": rate_of(cells, i) for i in numbers})
    scored = log.keep(scores(lists, rates, asks, log.keys), "products")

    def parts(rows: ir.Table, k: int) -> dict[str, ir.Value]:
        return {
            f"{part}_{i}": rows[MASS] * rows[f"{part}_{i}_{k}"]
            if k <= ask.metric.depth
            else real(0)
            for i, ask in enumerate(asks)
            for part in _PARTS
        }

    slots = _slots(scored, asks, log.keys, parts)
    sums = {f"{part}_{i}": slots[f"{part}_{i}"].sum() for i in numbers for part in _PARTS}
    joined = cells.left_join(slots.group_by(key).aggregate(**sums), key)
    n_x = joined[RECORDS].cast("float64")
    columns: dict[str, ir.Value] = {}
    for i in numbers:
        logged = joined[f"p_{i}"] / n_x
        weight = ratio(joined[f"slope_{i}"].fill_null(real(0)), logged)
        columns |= {f"log_{i}": logged, f"ratio_{i}": weight, f"w_{i}_0": weight}
        columns[f"v_{i}_0"] = n_x * joined[f"worth_{i}"].fill_null(real(0))
    told = scored.select(*log.keys, RECORDS, LIST, MASS, *(f"z_{i}_0" for i in numbers))
    return Weighed(asks, cell, joined.select(*cells.columns, **columns), lambda: told)


def scores(lists: ir.Table, rates: ir.Table, asks: Sequence[Ask], keys: Sequence[str]) -> ir.Table:
    """What every list is worth.

    Args:
        lists: the keys, `list_id`, `item_1` … down to where a metric counts, and further columns.
        rates: the keys, the columns of the cell, and r_g of every ask, rate_i.
        asks: they share their cells.
        keys: the context and what else keeps records apart.

    Returns:
        The lists with z_i_0 = f(A) and, of every position, worth_i_k = θ_k h_k Q_k and
        slope_i_k = p_k ∂f/∂h_k.
    """
    slots = _slots(lists, asks, [*keys, LIST, POSITION], lambda _rows, _k: {})
    own = [c for c in rates.columns if c in slots.columns]
    joined = slots.join(rates, own)
    found = joined.group_by(LIST).aggregate(
        **{
            f"rate_{i}_{k}": joined[f"rate_{i}"].max(where=joined[POSITION] == whole(k))
            for i, ask in enumerate(asks)
            for k in range(1, ask.metric.depth + 1)
        }
    )
    wide = lists.left_join(found, LIST)
    columns: dict[str, ir.Value] = {}
    for i, ask in enumerate(asks):
        columns |= _product(wide, i, ask)
    return wide.select(*lists.columns, **columns)


def _product(wide: ir.Table, i: int, ask: Ask) -> dict[str, ir.Value]:
    """f(A) and its parts for ask i, from the rates at each position of a list."""
    theta, depth, one = ask.metric.theta, ask.metric.depth, real(1)
    examined = ask.model.examined(depth)
    raw = [
        wide[f"rate_{i}_{k}"].fill_null(real(0)) * real(p) for k, p in enumerate(examined, start=1)
    ]
    hazard = [ibis.least(x, one) for x in raw]
    reached = list(accumulate((one - h for h in hazard), mul, initial=one))  # Q_1 … Q_{K+1}
    rest: ir.Value = real(0)  # R_{k+1}, from below
    found: dict[str, ir.Value] = {}
    for k in range(depth - 1, -1, -1):
        t, h = real(theta[k]), hazard[k]
        # A hazard that is cut to 1 does not move with its rate.
        slope = (raw[k] <= real(_CERTAIN)).ifelse(
            ibis.greatest(t - rest, real(0)) * real(examined[k]), real(0)
        )
        found[f"worth_{i}_{k + 1}"] = t * h * reached[k]
        found[f"slope_{i}_{k + 1}"] = slope * reached[k]
        rest = t * h + (one - h) * rest
    return found | {f"z_{i}_0": rest}


def _slots(
    lists: ir.Table,
    asks: Sequence[Ask],
    keys: Sequence[str],
    more: Callable[[ir.Table, int], dict[str, ir.Value]],
) -> ir.Table:
    """Every slot of every list with its cell: the keys, what `more` adds, and the cell."""
    tables = []
    for k in range(1, max(ask.metric.depth for ask in asks) + 1):
        rows = lists.filter(lists[f"{ITEM}_{k}"].notnull())
        here = {ITEM: rows[f"{ITEM}_{k}"], POSITION: whole(k)}
        own = {key: rows[key] for key in keys if key != POSITION}
        tables.append(rows.select(**own, **here, **more(rows, k)))
    slots = stacked(tables)
    cell = cell_columns(slots, asks[0].model)
    kept = [c for c in slots.columns if c in keys or c not in (ITEM, POSITION)]
    return slots.select(*kept, **cell)
