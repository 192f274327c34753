"""The one kernel: every estimator of the paper, from cells.

A click model puts each slot into a cell g of its context x. With n_x records in the context,
credit C_g and exposure P_g of a cell per record, and the candidate's exposure H_g,

    V = 1/n Σ_x n_x Σ_g C_g min(H_g / P_g, M)

The steps, for one batch of contexts:

    batch      ──► slots ──┐
                           ├──► cells of the candidate ──► weights ──► sums by context
    candidate ──► slots ──┘      H_g, P_g, C_g             min(H/P, M)

Only cells that the candidate shows can count. What needs no cells (production, contexts that the
candidate does not know) comes from sums per context.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Candidate, Cluster, Floats, Ints, ratio, sums
from foreclick.batches.arrays import expanded, numbered, starts_of
from foreclick.estimators.cells import Ask, Cells, cells_of, other_mass
from foreclick.estimators.slots import Counted, row_slots

Logging = Candidate | str | None
"""A logging policy that is known, "propensity" for the log's own, or None for its frequencies."""


@dataclass(frozen=True, eq=False)
class WeighedCells:
    """The candidate's cells for one ask, with their weights.

    Attributes:
        ask: what is asked.
        cells: the cells themselves.
        counted: what the ask counts.
        records: Shape (G,): n_x, the records of the cell's context.
        wanted: Shape (G,): H_g, the candidate's exposure of the cell.
        logged: Shape (G,): P_g, the logged exposure per record of the context.
        exposed: Shape (G,): the logged exposure of all records, Σ e.
        credit: Shape (G,): what all records earned, Σ θ w.
        n: Shape (G,): how many records expose the cell.
        share: Shape (G,): which part of its cell a row stands for; 1 but for propensities.
        ratio: Shape (G,): H_g / P_g, and 0 where P_g is 0.
        weights: Shape (G,) for each clip: min(H_g / P_g, M).
        values: Shape (G,): what the cell adds to the value, times records; None: C_g W_g.
        known: whether the logging probabilities are given, so that no rate was fitted.
        by_row: whether every row of the log has a propensity of its own.
        worth: Shape (M,): what each list of the candidate is worth; None: its cells tell it.
    """

    ask: Ask
    cells: Cells
    counted: Counted
    records: Floats
    wanted: Floats
    logged: Floats
    exposed: Floats
    credit: Floats
    n: Floats
    share: Floats
    ratio: Floats
    weights: list[Floats]
    values: Floats | None = None
    known: bool = False
    by_row: bool = False
    worth: Floats | None = None

    @property
    def context(self) -> Ints:
        """Shape (G,): of each cell."""
        return self.cells.context

    @cached_property
    def rate(self) -> Floats:
        """Shape (G,): r_g = C_g / P_g, 0 where nothing was exposed."""
        return ratio(self.credit, self.exposed)

    @cached_property
    def theta(self) -> Floats:
        """Shape (J,): θ of each atom."""
        return self.cells.theta(self.ask)

    @cached_property
    def exposure(self) -> Floats:
        """Shape (J,): e of each atom."""
        return self.cells.along(self.ask.exposure)

    def value(self, m: int) -> Floats:
        """Shape (G,): what each cell adds to the value, times records."""
        return self.credit * self.weights[m] if self.values is None else self.values

    def unclipped(self, m: int) -> Floats:
        """Shape (G,): u_g, 1 where clip m leaves the weight as it is."""
        clip = self.ask.clips[m]
        return np.asarray(self.ratio <= clip, dtype=np.float64)

    def factors(self, m: int) -> tuple[Floats, Floats]:
        """Shape (G,) each: a = W and b = W u r, by which ψ_t = Σ_g a c_g(t) − b e_g(t) + …."""
        weight = self.weights[m]
        if self.known:
            return weight, np.zeros_like(weight)
        return weight, weight * self.unclipped(m) * self.rate


def weigh(candidate: Candidate, asks: list[Ask], logging: Logging) -> list[WeighedCells]:
    """The candidate's cells with their weights, for asks that share their cells."""
    by_list = logging == "propensity"
    cells = cells_of(candidate, asks[0], candidate.depth if by_list else None)
    return [_weigh(candidate, cells, ask, logging) for ask in asks]


def _weigh(candidate: Candidate, cells: Cells, ask: Ask, logging: Logging) -> WeighedCells:
    exposure = cells.along(ask.exposure)
    wanted = cells.by_cell(cells.mass * exposure)
    if logging == "propensity":
        return _by_propensity(cells, ask, wanted)
    found = logged_cells(cells, ask, wanted)
    if isinstance(logging, Candidate):
        given = cells.by_cell(other_mass(cells, candidate, logging, ask) * exposure)
        found = replace(found, logged=given, known=True)
    return _with_weights(found)


def logged_cells(cells: Cells, ask: Ask, wanted: Floats) -> WeighedCells:
    """Cells with what the log has of each, by its frequencies; without weights."""
    counted, exposure = cells.counted(ask), cells.along(ask.exposure)
    shown, earned = cells.n(counted), cells.earned(counted)
    records = cells.batch.context_n[cells.context]
    exposed = cells.by_cell(shown * exposure)
    return WeighedCells(
        ask=ask,
        cells=cells,
        counted=counted,
        records=records,
        wanted=wanted,
        logged=ratio(exposed, records),
        exposed=exposed,
        credit=cells.by_cell(earned * cells.theta(ask)),
        n=cells.by_cell(np.where(exposure > 0, shown, 0.0)),
        share=np.ones(cells.size),
        ratio=np.zeros(0),
        weights=[],
    )


def _with_weights(found: WeighedCells) -> WeighedCells:
    """min(H/P, M). Where P = 0: M if it is finite, else the credit is left out; 0/0 = 0."""
    over = ratio(found.wanted, found.logged)
    weights = []
    for clip in found.ask.clips:
        if math.isinf(clip):
            weights.append(over)
        else:
            impossible = np.where(found.wanted > 0, clip, 0.0)
            weights.append(np.where(found.logged > 0, np.minimum(over, clip), impossible))
    return replace(found, ratio=over, weights=weights)


def _by_propensity(cells: Cells, ask: Ask, wanted: Floats) -> WeighedCells:
    """Every row of the log weighed by its own propensity; what was never shown follows them.

    A row stands for its part of the cell's records, so that rows of a cell add up to the cell.
    """
    batch, whole = cells.batch, cells.filled is not None
    rows = row_slots(batch, whole=whole)
    of_slot = np.full(cells.counts.size + 1, -1)
    of_slot[cells.slot] = np.arange(len(cells.slot))
    of_slot[cells.counts.size] = -1
    atom = of_slot[cells.counts.row_slot]
    row, position = np.nonzero(atom >= 0)
    atom = atom[row, position]
    chance = batch.propensity
    assert chance is not None  # noqa: S101 - whoever asks has checked it
    given = chance[row] if chance.ndim == 1 else chance[row, position]
    n = batch.n[row]
    cell = cells.cell[atom]
    in_cell = sums(cell, n, cells.size)
    unseen = np.flatnonzero(in_cell == 0)
    exposure = cells.along(ask.exposure)[atom]
    none = np.zeros(len(unseen))
    alone = Cells(
        counts=rows,
        slot=np.concatenate([rows.slot[row, position], np.full(len(unseen), rows.size)]),
        position=np.concatenate([cells.position[atom], np.zeros(len(unseen), dtype=np.int64)]),
        cell=np.arange(len(row) + len(unseen)),
        mass=np.concatenate([cells.mass[atom], none]),
        context=np.concatenate([cells.context[cell], cells.context[unseen]]),
        key=np.concatenate([cell, unseen]),
        filled=None if cells.filled is None else cells.filled[np.concatenate([atom, unseen])],
    )
    counted = alone.counted(ask)
    earned = rows.earned(counted)[alone.slot] * alone.theta(ask)
    return _with_weights(
        WeighedCells(
            ask=ask,
            cells=alone,
            counted=counted,
            records=batch.context_n[alone.context],
            wanted=wanted[alone.key],
            logged=np.concatenate([exposure * given, none]),
            exposed=np.concatenate([exposure * n, none]),
            credit=earned,
            n=np.concatenate([np.where(exposure > 0, n, 0.0), none]),
            share=np.concatenate([n / in_cell[cell], np.ones(len(unseen))]),
            ratio=none,
            weights=[],
            known=True,
            by_row=True,
        )
    )


# --- sums by context ----------------------------------------------------------------------------


def context_sums(weighed: WeighedCells) -> dict[tuple[int | None, str], Floats]:
    """Shape (X,) each: sums over the cells of every context, by clip (None for all) and name."""
    w, count = weighed, weighed.cells.batch.context_count
    possible, shown = w.logged > 0, w.wanted > 0
    mass = w.records * w.wanted * w.share
    # A logging policy that is given says what exposure to expect; otherwise the log has it.
    expected = w.records * w.logged if w.known and not w.by_row else w.exposed
    values: dict[tuple[int | None, str], Floats] = {
        (None, "mass"): mass,
        (None, "covered"): np.where(possible, mass, 0.0),
        (None, "cells"): np.where(shown, w.share, 0.0),
        (None, "seen"): np.where(shown & possible, w.share, 0.0),
        (None, "unlogged"): np.where(w.known & shown & ~possible, w.n, 0.0),
    }
    for m, clip in enumerate(w.ask.clips):
        weight = w.weights[m]
        values[m, "credit"] = w.value(m)
        values[m, "weighted"] = expected * weight
        values[m, "squared"] = expected * weight * weight
        if math.isfinite(clip):
            cut = w.records * (w.wanted - clip * w.logged) * w.share
            clipped = np.where(possible & (cut > 0), cut, 0.0)
            values[m, "clipped"] = clipped
            values[m, "lost"] = clipped * w.rate
    return {name: sums(w.context, each, count) for name, each in values.items()}


def largest_weight(weighed: WeighedCells) -> Floats:
    """Shape (X,): the largest weight of each context, before it is clipped."""
    found = np.zeros(weighed.cells.batch.context_count)
    np.maximum.at(found, weighed.context, weighed.ratio)
    return found


# --- by row and by cluster ----------------------------------------------------------------------


def row_scores(weighed: WeighedCells, m: int) -> Floats:
    """Shape (R,): Σ_g (a_g c_g(t) − b_g e_g(t)) of each record t."""
    a, b = weighed.factors(m)
    cells, batch = weighed.cells, weighed.cells.batch
    by_slot = np.zeros(cells.counts.size + 1)
    by_slot[cells.slot] = a[cells.cell] * weighed.theta
    by_slot[cells.counts.size] = 0.0
    reward = weighed.counted.reward
    entry = by_slot[cells.counts.at(reward)] * reward.value
    found = sums(reward.row, entry, len(batch.n))
    if weighed.known:
        return found
    by_slot[cells.slot] = b[cells.cell] * weighed.exposure
    by_slot[cells.counts.size] = 0.0
    at_risk = weighed.counted.at_risk
    if at_risk is None:
        expected = by_slot[cells.counts.slot].sum(axis=1)[cells.counts.line]
    else:
        expected = (by_slot[cells.counts.row_slot] * at_risk).sum(axis=1)
    return np.asarray(found - expected)


class Moments(NamedTuple):
    """Shape (G,) each: sums over the clusters of each cell.

    Attributes:
        ee: of the squares of its exposure.
        spared: of these times 1 − h, with h the cluster's share of the exposure of the cell; 0
            to the last bit for a cell that was seen in one cluster.
        te, tt: of its credit times its exposure, and of the squares of its credit.
    """

    ee: Floats
    spared: Floats
    te: Floats
    tt: Floats


@dataclass(frozen=True, eq=False)
class CellClusters:
    """What the clusters of a log have of each cell: an entry for every cell in every cluster.

    Attributes:
        shape: X, T and G: how many contexts, clusters and cells there are.
        cell: Shape (E,).
        cluster: Shape (E,).
        at: Shape (E,): context * T + cluster.
        earned: Shape (E,): the credit of the cell in the cluster.
        exposed: Shape (E,): its exposure there.
    """

    shape: tuple[int, int, int]
    cell: Ints
    cluster: Ints
    at: Ints
    earned: Floats
    exposed: Floats

    def first(self, end: int) -> CellClusters:
        """The first entries, which are all those of their cells."""
        if end == len(self.cell):
            return self
        return replace(
            self,
            cell=self.cell[:end],
            cluster=self.cluster[:end],
            at=self.at[:end],
            earned=self.earned[:end],
            exposed=self.exposed[:end],
        )

    def by_cell(self, values: Floats) -> Floats:
        """Shape (G,): the sums over the clusters of each cell, of values of shape (E,)."""
        return sums(self.cell, values, self.shape[2])

    def by_cluster(self, values: Floats) -> Floats:
        """Shape (X, T): the sums over the cells of each context, of values of shape (E,)."""
        contexts, clusters, _ = self.shape
        return sums(self.at, values, contexts * clusters).reshape(contexts, clusters)

    @cached_property
    def moments(self) -> Moments:
        """Sums over the clusters of each cell."""
        e, t = self.exposed, self.earned
        ee = e * e
        values = (ee, ee * self.others, t * e, t * t)
        return Moments(*map(self.by_cell, values))

    @cached_property
    def others(self) -> Floats:
        """Shape (E,): 1 − h, the share of the cell's exposure that the other clusters have."""
        whole = self.by_cell(self.exposed)[self.cell]
        return np.asarray(1 - np.minimum(ratio(self.exposed, whole), 1.0))

    @cached_property
    def unhidden(self) -> Floats:
        """Shape (E,): e √(1 − h)."""
        return np.asarray(self.exposed * np.sqrt(self.others))

    @cached_property
    def clusters(self) -> Floats:
        """Shape (G,): in how many clusters each cell was exposed."""
        return self.by_cell((self.exposed > 0).astype(np.float64))


class Clustered(NamedTuple):
    """The cells of one ask by cluster.

    Cells of a single slot have the same entries for all asks, but for a factor.

    Attributes:
        entries: for every cell in every cluster.
        theta: Shape (G,): by which the credit of a cell is to be multiplied.
        exposure: Shape (G,): by which its exposure is to be multiplied.
    """

    entries: CellClusters
    theta: Floats
    exposure: Floats

    @property
    def moments(self) -> Moments:
        """Sums over the clusters of each cell."""
        t, e, found = self.theta, self.exposure, self.entries.moments
        return Moments(e**2 * found.ee, e**2 * found.spared, t * e * found.te, t**2 * found.tt)

    @property
    def clusters(self) -> Floats:
        """Shape (G,): in how many clusters each cell was exposed."""
        return np.where(self.exposure > 0, self.entries.clusters, 0.0)


class ClusteredSlots:
    """Entries of slots by cluster, found once for all asks of the same cells.

    A metric that ends at position d needs only cells that the candidate shows above d, and of these
    only the atoms above d. Atoms and cells are in the order of the first d that needs them, so
    every metric takes a beginning of the arrays. Asks of the same cells come one after the other,
    so only the last cells are kept.
    """

    def __init__(self, kind: Cluster) -> None:
        self.kind = kind
        self._cells: Cells | None = None
        self._alone: dict[object, CellClusters] = {}

    def of(self, weighed: WeighedCells) -> Clustered:
        """The candidate's cells by cluster, for one ask."""
        cells, counted = weighed.cells, weighed.counted
        if cells is not self._cells:
            self._find(cells)
        depth = min(weighed.ask.metric.depth, len(self._atom_ends) - 1)
        if cells.alone:
            if counted.name not in self._alone:
                found = self._entries(*self._counts(counted, len(self._entry)))
                self._alone[counted.name] = found
            entries = self._alone[counted.name].first(self._atom_ends[depth])
            return Clustered(entries, weighed.theta, weighed.exposure)
        end, size = self._atom_ends[depth], self._cell_ends[depth]
        earned, n = self._counts(counted, end)
        atom, group = self._atom[:end], self._group[:end]
        entries = self._entries(
            sums(group, weighed.theta[atom] * earned, size),
            sums(group, weighed.exposure[atom] * n, size),
        )
        one = np.ones(cells.size)
        return Clustered(entries, one, one)

    def _counts(self, counted: Counted, end: int) -> tuple[Floats, Floats]:
        """What the first entries of atoms earned, and their records."""
        assert self._cells is not None  # noqa: S101 - they were found before
        counts, entry = self._cells.counts, self._entry[:end]
        earned = counts.entry_earned(self.kind, counted)[entry]
        return earned, counts.entry_n(self.kind, counted)[entry]

    def _entries(self, earned: Floats, exposed: Floats) -> CellClusters:
        assert self._cells is not None  # noqa: S101 - they were found before
        batch, end = self._cells.batch, len(earned)
        shape = batch.context_count, batch.cluster_count[self.kind], self._cells.size
        where = self._cell[:end], self._cluster[:end], self._at[:end]
        return CellClusters(shape, *where, earned, exposed)

    def _find(self, cells: Cells) -> None:
        """The entries of the atoms, and the (cell, cluster) that each belongs to."""
        self._cells, self._alone = cells, {}
        entries, count = cells.counts.entries(self.kind), cells.batch.cluster_count[self.kind]
        depth = int(cells.position.max(initial=0)) + 1
        first = np.full(cells.size, depth)
        shown = np.flatnonzero(cells.mass > 0)
        np.minimum.at(first, cells.cell[shown], cells.position[shown])
        level = np.maximum(cells.position, first[cells.cell])
        atoms = np.argsort(level, kind="stable")
        start = entries.start[cells.slot[atoms]]
        size = entries.start[cells.slot[atoms] + 1] - start
        self._entry, self._atom = expanded(start, size), np.repeat(atoms, size)
        self._atom_ends = starts_of(level[self._atom], depth)
        cell, cluster = cells.cell[self._atom], entries.cluster[self._entry]
        if not cells.alone:
            order = np.argsort(first, kind="stable")
            rank = np.empty(cells.size, dtype=np.int64)
            rank[order] = np.arange(cells.size)
            found, self._group = numbered(rank[cell] * count + cluster, cells.size * count)
            self._cell_ends = np.searchsorted(found, starts_of(first[order], depth) * count)
            number, cluster = np.divmod(found, count)
            cell = order[number]
        self._cell, self._cluster = cell, cluster
        self._at = cells.context[cell].astype(np.int64) * count + cluster


def context_rows(batch: Batch, values: Floats) -> Floats:
    """Shape (X,): the sum over the rows of each context."""
    return sums(batch.row_context, values, batch.context_count)
