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
from foreclick.batches.arrays import expanded, numbered, parted, run_sums
from foreclick.errors import ModelError
from foreclick.estimators.cells import Ask, Cells, cells_of, other_mass
from foreclick.estimators.slots import Counted, row_slots

Logging = Candidate | str | None
"""A logging policy that is known, "propensity" for the log's own, or None for its frequencies."""


LARGEST_WEIGHT = 1e60
"""Larger weights are refused: their squares, summed over the records of a log, may overflow."""


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
        slots: Shape (J,): P of each atom, times records, where the log does not have it.
        levers: Shape (J,): how much the value moves with log p of each atom's position, if the
            cell's rate stays; None: as much as the atom adds to it.
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
    slots: Floats | None = None
    levers: Floats | None = None

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
        given = other_mass(cells, candidate, logging, ask) * exposure
        found = replace(found, logged=cells.by_cell(given), known=True, slots=given)
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
    with np.errstate(over="ignore"):  # what is too large is clipped, or refused below
        over = ratio(found.wanted, found.logged)
    weights: list[Floats] = []
    for clip in found.ask.clips:
        if math.isinf(clip):
            weights.append(over)
        else:
            impossible = np.where(found.wanted > 0, clip, 0.0)
            weights.append(np.where(found.logged > 0, np.minimum(over, clip), impossible))
    for weight in weights:
        _refuse_overflow(found, weight)
    return replace(found, ratio=over, weights=weights)


def _refuse_overflow(found: WeighedCells, weight: Floats) -> None:
    """Refuse weights whose squares no sum can hold: of a log that its logging policy never made."""
    if weight.max(initial=0.0) > LARGEST_WEIGHT:
        worst, batch = int(weight.argmax()), found.cells.batch
        name = batch.contexts[int(batch.context_value[found.context[worst]])].as_py()
        raise ModelError(
            f"{found.ask.model.name!r} would weigh a record {weight[worst]:.3g} times: its context "
            f"is {name!r}, and its logging "
            "probability next to nothing. Correct the logging probabilities, or bound weights by "
            "clip=, for instance clip=100."
        )


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


def examination_slopes(weighed: WeighedCells, m: int) -> Floats:
    """Shape (X, K): how far the value of each context, times records, moves with log p.

    The more a position is examined, the more the candidate's items earn there; and the lower are
    the rates of items that the log showed there.
    """
    w, cells = weighed, weighed.cells
    moved = w.levers
    if moved is None:
        own = ratio(cells.mass * w.exposure, w.wanted[cells.cell])
        moved = (w.value(m) * w.unclipped(m))[cells.cell] * own
    logged = cells.n(w.counted) * w.exposure if w.slots is None else w.slots
    share = ratio(logged, cells.by_cell(logged)[cells.cell])
    moved = moved - cells.by_cell(moved)[cells.cell] * share
    count, depth = cells.batch.context_count, w.ask.metric.depth
    inside = cells.position < depth
    at = w.context[cells.cell].astype(np.int64) * depth + cells.position
    return sums(at[inside], moved[inside], count * depth).reshape(count, depth)


def largest_weight(weighed: WeighedCells) -> Floats:
    """Shape (X,): the largest weight of each context, before it is clipped."""
    found = np.zeros(weighed.cells.batch.context_count)
    np.maximum.at(found, weighed.context, weighed.ratio)
    return found


# --- by row and by cluster ----------------------------------------------------------------------


def row_scores(weighed: WeighedCells, m: int) -> Floats:
    """Shape (R,): Σ_g (a_g c_g(t) − b_g e_g(t)) of each record t."""
    a, b = weighed.factors(m)
    cells, reward, counts = weighed.cells, weighed.counted.reward, weighed.cells.counts
    by_slot = np.zeros(counts.size + 1)
    by_slot[cells.slot] = a[cells.cell] * weighed.theta
    by_slot[counts.size] = 0.0
    earned = by_slot[counts.at(weighed.counted)] * reward.value
    found = sums(reward.row, earned, len(cells.batch.n))
    if weighed.known:
        return found
    by_slot[cells.slot] = b[cells.cell] * weighed.exposure
    by_slot[counts.size] = 0.0
    at_risk, columns = weighed.counted.at_risk, counts.slot.T[: weighed.ask.metric.depth]
    if at_risk is None:
        return np.asarray(found - sum(by_slot[slot] for slot in columns)[counts.line])
    for k, slot in enumerate(columns):
        found -= by_slot[slot][counts.line] * at_risk[:, k]
    return found


class Moments(NamedTuple):
    """Shape (G,) each: sums over the clusters of each cell.

    Attributes:
        ee: of the squares of its exposure.
        spared, apart: of these, and of its exposure, times 1 − h, with h the cluster's share of the
            exposure of the cell; 0 to the last bit for a cell that was seen in one cluster.
        left: of the squares of its credit less what its rate expects.
    """

    ee: Floats
    spared: Floats
    apart: Floats
    left: Floats


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

    def by_cell(self, values: Floats) -> Floats:
        """Shape (G,): the sums over the clusters of each cell, of values of shape (E,)."""
        return sums(self.cell, values, self.shape[2])

    def by_cluster(self, values: Floats) -> Floats:
        """Shape (X, T): the sums over the cells of each context, of values of shape (E,)."""
        contexts, clusters, _ = self.shape
        return sums(self.at, values, contexts * clusters).reshape(contexts, clusters)

    @cached_property
    def others(self) -> Floats:
        """Shape (E,): 1 − h, the share of the cell's exposure that the other clusters have."""
        whole = self.by_cell(self.exposed)[self.cell]
        # Not 1 − e/whole, of which rounding leaves little where one cluster has nearly all.
        return ratio(np.maximum(whole - self.exposed, 0.0), whole)

    def moments(self, rate: Floats) -> Moments:
        """Sums over the clusters of each cell, whose click rates, shape (G,), are given."""
        e = self.exposed
        ee, left = e * e, self.earned - rate[self.cell] * e
        values = (ee, ee * self.others, e * self.others, left * left)
        return Moments(*map(self.by_cell, values))

    @property
    def clusters(self) -> Floats:
        """Shape (G,): in how many clusters each cell was exposed."""
        return self.by_cell((self.exposed > 0).astype(np.float64))


def cell_clusters(weighed: WeighedCells, kind: Cluster) -> CellClusters:
    """What the clusters of a kind have of the cells that the candidate shows."""
    cells, counted, ask = weighed.cells, weighed.counted, weighed.ask
    where = _entries_of(cells, kind, counted, ask.metric.depth)
    counts = cells.counts

    def by_entry(of_log: Floats, of_atom: Floats) -> Floats:
        values = of_log[where.entry]
        values *= np.repeat(of_atom[where.atoms], where.size)
        return values if where.group is None else sums(where.group, values, len(where.cell))

    # Models that share their cells, as `item` and `pbm` do, share what was earned in them.
    earned = cells.keep(
        ("entry earned", kind, counted.name, ask.theta),
        lambda: by_entry(counts.entry_earned(kind, counted), weighed.theta),
    )
    exposed = by_entry(counts.entries(kind, counted).n, weighed.exposure)
    shape = cells.batch.context_count, cells.batch.cluster_count[kind], cells.size
    return CellClusters(shape, where.cell, where.cluster, where.at, earned, exposed)


class _Where(NamedTuple):
    """Which entries of the log's slots belong to which cell and cluster.

    Attributes:
        atoms: the atoms that have entries.
        size: how many each has.
        entry: Shape (N,): the log's entries, atom after atom.
        group: Shape (N,): which cell and cluster each belongs to; None: each its own.
        cell, cluster, at: Shape (E,): as in `CellClusters`.
    """

    atoms: Ints
    size: Ints
    entry: Ints
    group: Ints | None
    cell: Ints
    cluster: Ints
    at: Ints


def _entries_of(cells: Cells, kind: Cluster, counted: Counted, depth: int) -> _Where:
    """The entries of cells that the candidate shows above a depth, and of their slots there."""

    def make() -> _Where:
        entries, clusters = cells.counts.entries(kind, counted), cells.batch.cluster_count[kind]
        above = cells.position < depth
        shown = np.zeros(cells.size, dtype=np.bool_)
        shown[cells.cell[above & (cells.mass > 0)]] = True
        atoms = np.flatnonzero(above & shown[cells.cell])
        slot = cells.slot[atoms]
        count = entries.count[slot]
        entry = expanded(entries.start[slot].astype(np.int64), count)
        cell, cluster = np.repeat(cells.cell[atoms], count), entries.cluster[entry]
        group = None
        if not cells.alone:
            key, group = numbered(cell * clusters + cluster, cells.size * clusters)
            cell, cluster = parted(key, clusters)
        at = (cells.context * np.int64(clusters))[cell] + cluster
        return _Where(atoms, count, entry, group, cell, cluster, at)

    key = "entries", kind, counted.at_risk is None or counted.name, depth
    return cells.keep(key, make)


def context_rows(batch: Batch, values: Floats) -> Floats:
    """Shape (X,): the sum over the rows of each context."""
    return run_sums(batch.context_rows, values)
