"""Variance that influence does not show: of small cells and few clusters.

A click rate follows the records it was fitted to. What is left of them varies less than records do:
of a cell g, the share h_c of its exposure that cluster c has is also the share of that cluster's
variance that does not show,

    E u_gc² ≈ (1 − h_c) v_gc,    u_gc = Σ_{t in c} (c_g(t) − r_g e_g(t)).

A cell that was seen once shows nothing, and nor does one that was seen on a single day, however
often. The errors of a cell are (W, 1) times one number: W for a candidate, 1 for production as far
as the candidate shows the same, so that a candidate that shows what production did differs from it
by nothing. Two candidates share the error of a cell, each with its own weight. Each of them has its
own estimate h of how much that error varies, for its own cells tell the usual variance. Of their
difference, a cell that both show hides the mean of the two,

    D = Σ_g (h_g + h'_g) / 2 (W_g − W'_g)²,

so that nothing is hidden where they show the same. A cell that one of them shows hides its h W².

The usual variance s² of a record is pooled over the cells of a context; contexts with few degrees
of freedom take that of all contexts, which is known only when all batches are summed. All sums are
linear in it and in the shock τ², so each is kept in three *ranks*: a constant, a factor of s², a
factor of τ².
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from foreclick.batches import Cluster, Floats, Ints, ratio, sums
from foreclick.batches.arrays import numbered
from foreclick.estimate.cells import CellEntries, cell_entries, group_sums
from foreclick.estimate.columns import Totals
from foreclick.estimate.estimates import ENOUGH_PERIODS
from foreclick.estimate.weighted import WeighedCells

FEW_FREEDOM = 10
"""Degrees of freedom; a context with fewer takes the variance of all contexts."""

_ROUNDING = 1e-14
"""What is left of squares that cancel: rewards that are all alike vary by nothing."""


def entries_of(
    w: WeighedCells, kinds: Sequence[str], *, dated: bool, rows: bool
) -> dict[Cluster, CellEntries]:
    """What clusters have of the cells, as far as it is needed: see `add_hidden`.

    Args:
        w: the cells.
        kinds: whose records vary together.
        dated: whether it matters in how many periods cells were seen.
        rows: whether ψ is wanted of rows; else sums of it over clusters come from these entries.
    """
    hides = bool(kinds) and not w.known and w.targets[0].model.sees_items
    needed = cluster_kinds(kinds) if hides or not rows else []
    if dated and "period" not in needed:
        needed = ["period", *needed]
    shown = w.wanted.max(axis=(0, 1), initial=0.0) > 0
    return {kind: cell_entries(w.cells, kind, w.targets, shown) for kind in needed}


def add_hidden(
    totals: Totals,
    name: int,
    w: WeighedCells,
    kinds: Sequence[str],
    entries: dict[Cluster, CellEntries],
    *,
    dated: bool,
) -> None:
    """Add what the cells of a group hide, under its number.

    Args:
        totals: the sums.
        name: the number of the group.
        w: its cells.
        kinds: whose records vary together.
        entries: what clusters have of the cells.
        dated: whether it matters in how many periods cells were seen.
    """
    cells, context = w.cells, w.cells.context
    if dated:
        _add_repeated(totals, name, w, entries["period"])
    if w.known or not kinds or not w.targets[0].model.sees_items:
        return
    counts = cells.counts
    rewards = [cells.reward_counts(target) for target in w.targets]
    shown = counts.n(rewards[0])[cells.slot]
    earned, squares = (
        np.stack([counts.earned(each, power)[cells.slot] for each in rewards]) for power in (1, 2)
    )
    q = cells.by_cell(squares * w.theta**2)
    x = cells.by_cell(earned * w.theta * w.exposure)
    y = cells.by_cell(shown * w.exposure**2)
    left = q - w.rate * (2 * x - w.rate * y)
    left = np.where(left > _ROUNDING * q, left, 0.0)[:, None]  # (A, 1, G)
    n = w.n[:, None]
    there = (w.wanted > 0) & (n > 0)  # (A, C, G)
    left = np.where(there, left, 0.0)
    free = np.where(there, np.maximum(n - 1, 0.0), 0.0)  # of records that count less than 1
    pool = np.stack([w.by_context(left), w.by_context(free)])  # (2, E, X)
    totals.add((name, "pool"), pool)
    own = pool[1] >= FEW_FREEDOM
    shape = w.wanted.shape
    usual = np.where(own, ratio(pool[0], pool[1]), 0.0)[:, context].reshape(shape)
    pooled = np.where(own[:, context].reshape(shape), 0.0, 2 * n / (n + 1))
    weight, there_too = w.weight, np.where(w.weight > 0, 1.0, 0.0)
    if "record" in kinds:
        # As if two more records of the context's usual variance had been seen in each cell.
        known = (2 * n * usual - left) / (n + 1)
        _products(totals, (name, "record", 0), context, known, weight, there_too)
        _products(totals, (name, "record", 1), context, pooled, weight, there_too)
    known = n * (left + 2 * usual) / (n + 1)  # n_g σ_g², but for the pooled s²
    for kind in cluster_kinds(kinds):
        _few_clusters(totals, (name, kind), w, entries[kind], there, known, pooled)


def _few_clusters(
    totals: Totals,
    name: tuple[int, Cluster],
    w: WeighedCells,
    entries: CellEntries,
    there: Any,  # noqa: ANN401 - booleans
    known: Floats,
    pooled: Floats,
) -> None:
    """What cells hide that were seen in few clusters.

    The variance of a cluster in a cell is taken to be that of its records, n_gc σ_g², and that of
    a shock which moves all click rates of a context by a share of themselves, τ² (r_g e_gc)².
    τ² = over / under is what the residuals u have left over, all cells together.

        Σ_gc (W, 1)² n_g σ_g² h_c²  +  τ² Σ_xc (A_xc A_xcᵀ − B_xc B_xcᵀ),
        A_xc = Σ_g (W, 1) r_g e_gc,    B_xc = Σ_g (W, 1) r_g e_gc √(1 − h_c)
    """
    batch, context, cell = w.cells.batch, w.cells.context, entries.cell
    exposed = entries.exposed
    whole = entries.by_cell(exposed)[:, cell]
    # Not 1 − e/whole, of which rounding leaves little where one cluster has nearly all.
    others = ratio(np.maximum(whole - exposed, 0.0), whole)
    square = exposed * exposed
    expected = w.rate[:, cell] * exposed
    ee, spared, apart, left = (
        entries.by_cell(each)
        for each in (square, square * others, exposed * others, (entries.earned - expected) ** 2)
    )
    shared = ratio(ee, w.exposed**2)[:, None]  # Σ h²
    unshared = ratio(apart, w.exposed)[:, None]  # Σ h (1 − h) = 1 − Σ h²
    tau = [
        there * (left[:, None] - known * unshared),
        -1.0 * there * pooled * unshared,
        there * (w.rate**2 * spared)[:, None],
    ]
    totals.add((*name, "tau"), np.stack([w.by_context(each) for each in tau]))
    weight, f = w.weight, np.where(w.weight > 0, 1.0, 0.0)
    _products(totals, (*name, 0), context, known * shared, weight, f)
    _products(totals, (*name, 1), context, pooled * shared, weight, f)
    clusters = batch.cluster_count[name[1]]
    key = context[cell].astype(np.int64) * clusters + entries.cluster
    at, group = numbered(key, batch.context_count * clusters)
    of, f = (at // clusters).astype(np.int64), np.where(w.ratio > 0, 1.0, 0.0)
    all_ = [expected[:, None] * factor[:, :, cell] for factor in (weight, f)]
    root = np.sqrt(others)[:, None]
    part = [each * root for each in all_]
    there = None
    for sign, moved in ((1.0, all_), (-1.0, part)):
        v, f = (group_sums(group, each, len(at)) for each in moved)
        there = np.where(v > 0, 1.0, 0.0) if there is None else there
        _products(totals, (*name, 2), of, sign, v, f, there)


def _products(
    totals: Totals,
    name: tuple[Any, ...],
    context: Ints,
    hidden: Floats | float,
    v: Floats,
    f: Floats,
    there: Floats | None = None,
) -> None:
    """Add (W, 1)(W, 1)ᵀ × hidden: of all pairs of candidates, and of each with production.

    Of candidates i and j, with t for what each of them shows, half of what they share by h of i:

        Q_ij = Σ h_i (v_i v_j + (v_i² t_j − v_j²) / 2),    Q_ii + Q_jj − (Q_ij + Q_ji) = D.

    Args:
        totals: the sums.
        name: what they are called.
        context: Shape (N,).
        hidden: Shape (A, C, N): h.
        v: Shape (A, C, N): W.
        f: Shape (A, C, N): production's, as far as the candidate shows the same.
        there: Shape (A, C, N): t; None: where f is.
    """
    t, left = f if there is None else there, v * hidden
    for a in range(len(v)):
        rows, columns, of = left[a], v[a], context
        if v.shape[1] > 1:
            own = (hidden * t)[a]
            rows = np.concatenate([rows, left[a] * v[a] / 2, -own / 2], axis=1)
            columns = np.concatenate([columns, t[a], v[a] ** 2], axis=1)
            of = np.tile(context, 3)
        totals.gram((*name, "vv", a), of, rows, columns)
    flat = (v.shape[0] * v.shape[1], v.shape[2])
    totals.add((*name, "vf"), (left * f).reshape(flat), context)
    totals.add((*name, "ff"), (hidden * f * f).reshape(flat), context)


def _add_repeated(totals: Totals, name: int, w: WeighedCells, entries: CellEntries) -> None:
    """Add the covered exposure, and that of cells seen in `ENOUGH_PERIODS` or more.

    Days differ. What a cell earned that was seen on few of them may be a day effect, and no number
    of records on the same days tells.
    """
    seen = entries.exposed > 0
    periods = entries.by_cell(np.where(seen, 1.0, 0.0))
    if w.by_row:  # rows of one cell may be of one period
        own, shown = w.cells.key, np.flatnonzero(seen[0])
        pairs = np.stack([own[entries.cell[shown]], entries.cluster[shown]])
        pairs = np.unique(pairs, axis=1)
        size = int(own.max(initial=-1)) + 1
        periods = sums(pairs[0], np.ones(pairs.shape[1]), size)[own][None]
    covered = np.where(w.logged[:, None] > 0, w.wanted * (w.records * w.share), 0.0)
    often = np.where((periods >= ENOUGH_PERIODS)[:, None], covered, 0.0)
    totals.add((name, "repeated"), np.stack([w.by_context(covered), w.by_context(often)]))


def cluster_kinds(kinds: Sequence[str]) -> list[Cluster]:
    """Those of the kinds that are clusters of records."""
    return [kind for kind in ("period", "unit") if kind in kinds]
