"""What small cells hide: sums from which `estimation.covariance` makes a variance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foreclick.allowances import POOLING_FREEDOM, PSEUDO_RECORDS
from foreclick.batches import Bools, Cluster, Floats, Ints, ratio, sums
from foreclick.batches.arrays import numbered, taken
from foreclick.estimation.cells import CellEntries, cell_entries
from foreclick.estimation.covariance import ENOUGH_PERIODS
from foreclick.estimation.parts import BatchParts, cluster_kinds
from foreclick.estimation.slots import earned_in, group_sums
from foreclick.estimation.sums import HiddenByClusters, HiddenSums, Products
from foreclick.question import Clusters
from foreclick.weighting.weighted import WeighedCells

_NOTHING = 1e-14
"""What is left of squares that cancel: rewards that are all alike vary by nothing."""


def entries_of(
    w: WeighedCells, kinds: Sequence[str], *, dated: bool, rows: bool
) -> dict[Cluster, CellEntries]:
    """What clusters have of the cells, as far as it is needed: see `hidden_sums`.

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


def hidden_sums(
    parts: BatchParts,
    w: WeighedCells,
    kinds: Sequence[Clusters],
    entries: dict[Cluster, CellEntries],
) -> HiddenSums | None:
    """What the cells of a group hide; None where no variance is asked for, or none is hidden.

    Args:
        parts: the parts of the answer.
        w: the cells.
        kinds: whose records vary together.
        entries: what clusters have of the cells.
    """
    if w.known or not kinds or not w.targets[0].model.sees_items:
        return None
    cells, context = w.cells, w.cells.context
    counts = cells.counts
    rewards = [cells.reward_counts(target) for target in w.targets]
    shown = counts.n(rewards[0])[cells.slot]
    earned = np.stack([taken(earned_in(counts, each), cells.slot) for each in rewards])
    squares = np.stack([taken(earned_in(counts, each, 2), cells.slot) for each in rewards])
    q = cells.by_cell(squares * w.theta**2)
    x = cells.by_cell(earned * w.theta * w.exposure)
    y = cells.by_cell(shown * w.exposure**2)
    left = q - w.rate * (2 * x - w.rate * y)
    left = np.where(left > _NOTHING * q, left, 0.0)[:, None]  # (A, 1, G)
    n = w.n[:, None]
    there = (w.wanted > 0) & (n > 0)  # (A, C, G)
    left = np.where(there, left, 0.0)
    free = np.where(there, np.maximum(n - 1, 0.0), 0.0)  # of records that count less than 1
    pool = np.stack([w.by_context(left), w.by_context(free)])  # (2, E, X)
    own = pool[1] >= POOLING_FREEDOM
    shape = w.wanted.shape
    usual = taken(np.where(own, ratio(pool[0], pool[1]), 0.0), context).reshape(shape)
    more = PSEUDO_RECORDS  # of the usual variance, as if they had been seen in each cell
    pooled = np.where(taken(own, context).reshape(shape), 0.0, more * n / (n - 1 + more))
    by_kind = []
    for kind in kinds:
        if kind == "record":
            known = (more * n * usual - (more - 1) * left) / (n - 1 + more)
            shows = np.where(w.weight > 0, 1.0, 0.0)
            constant, extra = (
                _products(parts, context, each, w.weight, shows) for each in (known, pooled)
            )
            by_kind.append(HiddenByClusters(constant, extra))
        else:
            known = n * (left + more * usual) / (n - 1 + more)  # n_g σ_g², but for the pooled s²
            by_kind.append(_few_clusters(parts, kind, w, entries[kind], there, known, pooled))
    return HiddenSums(parts.over_contexts(pool, weight=0), tuple(by_kind))


def _few_clusters(
    parts: BatchParts,
    kind: Cluster,
    w: WeighedCells,
    entries: CellEntries,
    there: Bools,
    known: Floats,
    pooled: Floats,
) -> HiddenByClusters:
    """What cells hide that were seen in few clusters.

    The variance of a cluster in a cell is taken to be that of its records, n_gc σ_g², and that of
    a shock which moves all click rates of a context by a share of themselves, τ² (r_g e_gc)².
    τ² = over / under is what the residuals u have left over, all cells together.

        Σ_gc (W, 1)² n_g σ_g² h_c²  +  τ² Σ_xc (A_xc A_xcᵀ − B_xc B_xcᵀ),
        A_xc = Σ_g (W, 1) r_g e_gc,    B_xc = Σ_g (W, 1) r_g e_gc √(1 − h_c)
    """
    batch, context, cell = w.cells.batch, w.cells.context, entries.cell
    exposed, whole = entries.exposed, entries.by_cell(entries.exposed)
    of_cell = taken(np.where(whole > 0, whole, 1.0), cell)
    # 1 − h; not 1 − e/whole, of which rounding leaves little where one cluster has nearly all.
    others = (of_cell - exposed) / of_cell
    expected = taken(w.rate, cell) * exposed
    apart = exposed * others
    unshared = ratio(entries.by_cell(apart), whole)[:, None]  # Σ h (1 − h)
    shared = (whole > 0)[:, None] - unshared  # Σ h²
    spared = entries.by_cell(np.multiply(apart, exposed, out=apart))
    left = entries.by_cell((entries.earned - expected) ** 2)
    tau = [
        there * (left[:, None] - known * unshared),
        -1.0 * there * pooled * unshared,
        there * (w.rate**2 * spared)[:, None],
    ]
    shocks = parts.over_contexts(np.stack([w.by_context(each) for each in tau]), weight=0)
    weight, f = w.weight, np.where(w.weight > 0, 1.0, 0.0)
    constant, usual = (
        _products(parts, context, each * shared, weight, f) for each in (known, pooled)
    )
    clusters = batch.cluster_count[kind]
    key = taken(context.astype(np.int64) * clusters, cell) + entries.cluster
    at, group = numbered(key, batch.context_count * clusters)
    of, f = at // clusters, np.where(w.ratio > 0, 1.0, 0.0)
    both = [expected, np.multiply(expected, np.sqrt(others), out=others)]
    (all_v, all_f), (part_v, part_f) = (
        [group_sums(group, each[:, None] * taken(own, cell), len(at)) for own in (weight, f)]
        for each in both
    )
    shows = np.where(all_v > 0, 1.0, 0.0)
    shock = _products(parts, of, 1.0, all_v, all_f, shows)
    shock += _products(parts, of, -1.0, part_v, part_f, shows)
    return HiddenByClusters(constant, usual, shock, shocks)


def _products(
    parts: BatchParts,
    context: Ints,
    hidden: Floats | float,
    v: Floats,
    f: Floats,
    there: Floats | None = None,
) -> Products:
    """(W, 1)(W, 1)ᵀ × hidden, summed: of all pairs of candidates, and of each with production.

    Of candidates i and j, with t for what each of them shows, half of what they share by h of i:

        Q_ij = Σ h_i (v_i v_j + (v_i² t_j − v_j²) / 2),    Q_ii + Q_jj − (Q_ij + Q_ji) = D.

    Args:
        parts: the parts of the answer.
        context: Shape (N,).
        hidden: Shape (A, C, N): h.
        v: Shape (A, C, N): W.
        f: Shape (A, C, N): production's, as far as the candidate shows the same.
        there: Shape (A, C, N): t; None: where f is.
    """
    t, left, pairs = f if there is None else there, v * hidden, []
    for a in range(len(v)):
        rows, columns, of = left[a], v[a], context
        if v.shape[1] > 1:
            own = (hidden * t)[a]
            rows = np.concatenate([rows, left[a] * v[a] / 2, -own / 2], axis=1)
            columns = np.concatenate([columns, t[a], v[a] ** 2], axis=1)
            of = np.tile(context, 3)
        pairs.append(parts.products(of, rows, columns))
    flat = (v.shape[0] * v.shape[1], v.shape[2])
    across, production = (
        parts.over_contexts(each.reshape(flat), context, weight=2)
        for each in (left * f, hidden * f * f)
    )
    return Products(np.stack(pairs, axis=1), across, production)


def repeated_exposure(w: WeighedCells, entries: CellEntries) -> Floats:
    """Shape (2, E, X): the covered exposure, and that of cells seen in `ENOUGH_PERIODS` or more.

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
    return np.stack([w.by_context(covered), w.by_context(often)])
