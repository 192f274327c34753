"""Variance that influence does not show: of small cells, few clusters, and samples.

**Small cells and few clusters.** A click rate follows the records it was fitted to. What is left of
them varies less than records do: of a cell g, the share h_c of its exposure that cluster c has is
also the share of that cluster's variance that does not show,

    E u_gc² ≈ (1 − h_c) v_gc,    u_gc = Σ_{t in c} (c_g(t) − r_g e_g(t)).

A cell that was seen once shows nothing, and nor does one that was seen on a single day, however
often. Weights enter as (W², W, 1), so a candidate that shows what production did still differs from
it by nothing.

The usual variance s² of a record is pooled over the cells of a context; contexts with few degrees
of freedom take that of all contexts, which is known only when all batches are summed. All sums are
linear in it, so each is kept as a constant and a factor of s².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from foreclick.batches import Bools, Candidate, Floats, ratio, sums
from foreclick.estimators.cells import list_atoms
from foreclick.estimators.influence import Counting
from foreclick.estimators.kernel import CellClusters, WeighedCells, context_rows
from foreclick.metrics import Metric

FEW_FREEDOM = 10
"""Degrees of freedom; a context with fewer takes the variance of all contexts."""

ENOUGH_PERIODS = 5
"""In so many periods a cell must have been seen for its click rate to be more than theirs."""

_ROUNDING = 1e-14
"""What is left of squares that cancel: rewards that are all alike vary by nothing."""

PerContext = dict[Any, Floats]
"""Shape (X,) each: what every context adds to a sum, by name."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """How far records are from the rates of their cells.

    Attributes:
        squared: Shape (G,): S_g = Σ (c − r e)² over the records of each cell.
        usual: Shape (G,): s² of the context; 0 where that of all contexts is taken.
        pooled: Shape (G,): 1 where that of all contexts is taken.
        counts: Shape (G,): whether the candidate shows the cell, and the log too.
        pool: Shape (X,): S and degrees of freedom of each context.
    """

    squared: Floats
    usual: Floats
    pooled: Floats
    counts: Bools
    pool: tuple[Floats, Floats]


def residuals(weighed: WeighedCells) -> Residuals:
    """The residuals of the cells of one ask."""
    w, cells = weighed, weighed.cells
    squares, earned = cells.earned(w.counted, 2), cells.earned(w.counted)
    shown = cells.n(w.counted)
    q = cells.by_cell(squares * w.theta**2)
    x = cells.by_cell(earned * w.theta * w.exposure)
    y = cells.by_cell(shown * w.exposure**2)
    counts = (w.wanted > 0) & (w.n > 0)
    squared = q - w.rate * (2 * x - w.rate * y)
    squared = np.where(counts & (squared > _ROUNDING * q), squared, 0.0)
    free = np.where(counts, np.maximum(w.n - 1, 0.0), 0.0)  # of records that count less than 1
    count = cells.batch.context_count
    pool = sums(w.context, squared, count), sums(w.context, free, count)
    own = pool[1] >= FEW_FREEDOM
    usual = np.where(own, ratio(*pool), 0.0)
    pooled = np.asarray(~own[w.context], dtype=np.float64)
    return Residuals(squared, usual[w.context], pooled, counts, pool)


def small_cells(weighed: WeighedCells, found: Residuals) -> PerContext:
    """Independent records: Σ_g (W², W, 1) (S̃_g − S_g), S̃_g = n_g (S_g + 2 s²) / (n_g + 1).

    As if two more records of the context's usual variance s² had been seen in each cell.
    """
    n = weighed.n
    hidden = (2 * n * found.usual - found.squared) / (n + 1)
    return _weighted(weighed, hidden, found.pooled * 2 * n / (n + 1))


def few_clusters(weighed: WeighedCells, found: Residuals, cells: CellClusters) -> PerContext:
    """Clusters: what cells hide that were seen in few of them.

    The variance of a cluster in a cell is taken to be that of its records, n_gc σ_g², and that of
    a shock which moves all click rates of a context by a share of themselves, τ² (r_g e_gc)².
    τ² = over / under is what the residuals u have left over, all cells together.

        Σ_gc (W², W, 1) n_g σ_g² h_c²  +  τ² Σ_xc (A_xc A_xcᵀ − B_xc B_xcᵀ),
        A_xc = Σ_g (W, 1) r_g e_gc,    B_xc = Σ_g (W, 1) r_g e_gc √(1 − h_c)
    """
    w, n = weighed, weighed.n
    counts = 1.0 * found.counts
    ee, spared, apart, left = cells.moments(w.rate)
    known = n * (found.squared + 2 * found.usual) / (n + 1)  # n_g σ_g², but for the pooled s²
    pooled = found.pooled * 2 * n / (n + 1)
    shared = ratio(ee, w.exposed**2)  # Σ h²
    unshared = ratio(apart, w.exposed)  # Σ h (1 − h) = 1 − Σ h²
    count = w.cells.batch.context_count
    values = {
        "over": counts * (left - known * unshared),
        "over s²": -counts * pooled * unshared,
        "under": counts * w.rate**2 * spared,
    }
    sums_ = {name: sums(w.context, each, count) for name, each in values.items()}
    return sums_ | _weighted(w, known * shared, pooled * shared) | _shocks(w, cells)


def _weighted(weighed: WeighedCells, known: Floats, pooled: Floats) -> PerContext:
    """(W², W, 1) times what is hidden, over the cells that count."""
    count, found = weighed.cells.batch.context_count, {}
    for m, weight in enumerate(weighed.weights):
        factors = {"ww": weight * weight, "w": weight, "d": 1.0 * (weight > 0)}
        for name, factor in factors.items():
            found[m, name] = sums(weighed.context, factor * known, count)
            found[m, f"{name} s²"] = sums(weighed.context, factor * pooled, count)
    return found


def _shocks(weighed: WeighedCells, cells: CellClusters) -> PerContext:
    """Shape (X,) each: Σ_c (A Aᵀ − B Bᵀ), what a shock of 1 in a context and cluster hides."""
    w, hidden = weighed, np.sqrt(cells.others)

    def both(factor: Floats) -> tuple[Floats, Floats]:
        """Shape (X, T) each: A and B."""
        values = factor[cells.cell] * cells.exposed
        return cells.by_cluster(values), cells.by_cluster(values * hidden)

    def total(values: Floats) -> Floats:
        return np.asarray(values.sum(axis=1))

    one_all, one_part = both(np.where(w.ratio > 0, w.rate, 0.0))
    found: PerContext = {}
    for m, weight in enumerate(w.weights):
        all_, part = both(weight * w.rate)
        found[m, "shock ww"] = total(all_ * all_ - part * part)
        found[m, "shock w"] = total(all_ * one_all - part * one_part)
        found[m, "shock d"] = total(one_all * one_all - one_part * one_part)
    return found


# --- periods ------------------------------------------------------------------------------------


def repeated(weighed: WeighedCells, periods: Floats) -> PerContext:
    """Shape (X,) each: the covered exposure, and that of cells seen in `ENOUGH_PERIODS` or more.

    Days differ. What a cell earned that was seen on few of them may be a day effect, and no number
    of records on the same days tells.

    Args:
        weighed: the candidate's cells.
        periods: Shape (G,): in how many periods each was exposed.
    """
    w, count = weighed, weighed.cells.batch.context_count
    covered = np.where(w.logged > 0, w.records * w.wanted * w.share, 0.0)
    often = np.where(periods >= ENOUGH_PERIODS, covered, 0.0)
    return {
        "covered": sums(w.context, covered, count),
        "often": sums(w.context, often, count),
    }


# --- candidates that are samples, and logs that are ---------------------------------------------


def sampled_candidate(candidate: Candidate, sizes: Floats, worth: list[Floats]) -> PerContext:
    """A candidate that is itself the frequencies of another log adds the variance of that sample.

    With m_x records s of a context there, and u_g, r_g as in `influence`, the estimate varies by

        Σ_x (n_x / n)² Var_s(Σ_g u_g r_g e_g(s)) / m_x

    besides what the log's own records do.

    Args:
        candidate: the candidate.
        sizes: Shape (X,): m_x.
        worth: Shape (M,) for each clip: Σ_g u_g r_g e_g of each of the candidate's lists.
    """
    lists, batch = candidate.lists, candidate.batch
    count, n = batch.context_count, batch.context_n
    several = sizes > 1
    found: PerContext = {}
    for m, z in enumerate(worth):
        mean = sums(lists.context, lists.mass * z, count)
        varied = np.maximum(sums(lists.context, lists.mass * z * z, count) - mean * mean, 0.0)
        own = np.where(several, ratio(varied, sizes - 1), 0.0)
        # A context with one record shows no variance, and is given the usual one.
        found[m, "sample"] = n * n * own
        found[m, "sample squares"] = np.where(several, sizes * varied, 0.0)
        found[m, "sample freedom"] = np.where(several, sizes - 1, 0.0)
        found[m, "sample alone"] = np.where(several, 0.0, ratio(n * n, sizes))
    return found


def list_worth(weighed: WeighedCells, candidate: Candidate, m: int) -> Floats:
    """Shape (M,): Σ_g u_g r_g e_g of each of the candidate's lists."""
    if weighed.worth is not None:
        return weighed.worth
    cells = weighed.cells
    slope = weighed.unclipped(m) * ratio(ratio(weighed.credit, weighed.records), weighed.logged)
    by_atom = np.append(slope[cells.cell] * weighed.exposure, 0.0)
    return np.asarray(by_atom[list_atoms(cells, candidate, weighed.ask)].sum(axis=1))


def record_moments(counting: Counting, psi: Floats, metric: Metric) -> PerContext:
    """Shape (X,) each: moments of independent records; a row stands for n equal ones."""
    batch, f = counting.batch, counting.rewards(metric)

    def rewards() -> PerContext:
        """What no candidate changes."""
        nf = batch.n * f
        return {
            "n": batch.context_n,
            "f": context_rows(batch, nf),
            "ff": context_rows(batch, nf * f),
        }

    found = dict(batch.keep(("moments", metric), rewards))  # type: ignore[call-overload]
    weighted = batch.n * psi
    found["v"] = context_rows(batch, weighted)
    found["vf"] = context_rows(batch, weighted * f)
    found["vv"] = context_rows(batch, weighted * psi)
    return {name: np.where(counting.counts, each, 0.0) for name, each in found.items()}
