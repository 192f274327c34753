"""Estimators of the paper, from cells: V = 1/n Σ_x n_x Σ_g C_g min(H_g / P_g, M).

A click model puts each slot into a cell g of its context x. With n_x records in the context,
credit C_g and exposure P_g of a cell per record, and the candidate's exposure H_g, the weight of a
cell is W_g = min(H_g / P_g, M). With u_g = 1 where a weight is not clipped, a record t moves V by

    ψ_t = Σ_g W_g (c_g(t) − u_g r_g e_g(t)) − Σ_g (1 − u_g) M C_g + V_x − V.

**First clicks by slots** are a product of hazards along each list of the candidate. Whether the
first click is at position k depends on all that stands above it, so slots have no rate of first
clicks. They have a *hazard*: the chance of a click, given none above. With r_g the first clicks of
a cell by its exposure at risk, and h_k = min(p_k r_g, 1) along a list A,

    f(A) = Σ_k θ_k h_k Q_k,   Q_k = Π_{j<k} (1 − h_j)          V = Σ_x n_x/n Σ_A h(A|x) f(A)

It assumes that a slot's hazard does not depend on *what* was passed over above it. With R_k the
rest of the sum from k on, of those who get there, ∂f/∂h_k = Q_k (θ_k − R_{k+1}) ≥ 0; the derivative
of V by r_g over the cell's exposure at risk is its weight W_g.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from foreclick.batches import EMPTY, Batch, Bools, Candidate, Cluster, Floats, ratio, sums
from foreclick.batches.arrays import taken
from foreclick.errors import ModelError
from foreclick.estimation.cells import CellEntries, Cells, cells_of, list_atoms, other_mass
from foreclick.estimation.columns import ColumnBatch, View
from foreclick.estimation.slots import (
    SlotCounts,
    earned_in,
    group_sums,
    list_records,
    reward_slots,
    side_by_side,
)
from foreclick.estimation.sources import EXAMINATION
from foreclick.estimation.sums import Coverage, LeastCovered, Uncovered
from foreclick.policies import Observed
from foreclick.question import Target

if TYPE_CHECKING:
    from scipy.sparse import csr_array

S = TypeVar("S", bound=np.generic)

LARGEST_WEIGHT = 1e60
"""Larger weights are refused: their squares, summed over the records of a log, may overflow."""

_CERTAIN = 1 + 1e-9  # what ought to be equal may be above by a bit: a weight and M, a hazard and 1


@dataclass(frozen=True, eq=False)
class WeighedCells:
    """The candidates' cells for A targets of a group, with their weights.

    Attributes:
        targets: what is estimated.
        cells: the cells themselves.
        records: Shape (G,): n_x, the records of the cell's context.
        theta, exposure: Shape (A, J): θ and e of each atom.
        wanted: Shape (A, C, G): H_g, the candidate's exposure of the cell.
        logged: Shape (A, G): P_g, the logged exposure per record of the context.
        exposed, credit: Shape (A, G): the logged exposure Σ e, and what was earned, Σ θ w.
        n: Shape (A, G): how many records expose the cell.
        share: Shape (G,): which part of its cell a row stands for; 1 but for propensities.
        ratio: Shape (A, C, G): H_g / P_g, and 0 where P_g is 0.
        weight: Shape (A, C, G): min(H_g / P_g, M).
        values: Shape (A, C, G): what the cell adds to the value; None: C_g W_g.
        worth: Shape (A, M): what each list of the candidates is worth; None: its cells tell it.
        by_log_p: Shape (A, C, J): the derivative of the value by log p of each atom's position, if
            the cell's rate stays; None: what the atom adds to it.
        given: Shape (A, J): P of each atom where the logging policy is given.
        known: whether the logging probabilities are given, so that no rate was fitted.
        by_row: whether every row of the log has a propensity of its own.
    """

    targets: list[Target]
    cells: Cells
    records: Floats
    theta: Floats
    exposure: Floats
    wanted: Floats
    logged: Floats
    exposed: Floats
    credit: Floats
    n: Floats
    share: Floats
    ratio: Floats
    weight: Floats
    values: Floats | None = None
    worth: Floats | None = None
    by_log_p: Floats | None = None
    given: Floats | None = None
    known: bool = False
    by_row: bool = False

    @cached_property
    def rate(self) -> Floats:
        """Shape (A, G): r_g = C_g / P_g, 0 where nothing was exposed."""
        return ratio(self.credit, self.exposed)

    @property
    def clip(self) -> Floats:
        """Shape (A, 1, 1): M."""
        return np.array([target.clip for target in self.targets])[:, None, None]

    @cached_property
    def free(self) -> Bools:
        """Shape (A, C, G): u_g, whether the clip leaves the weight as it is."""
        return np.asarray(self.ratio <= self.clip * _CERTAIN)

    @cached_property
    def value(self) -> Floats:
        """Shape (A, C, G): what each cell adds to the value, times records."""
        return self.credit[:, None] * self.weight if self.values is None else self.values

    def by_context(self, values: Floats) -> Floats:
        """Shape (E, X): sums over the cells of each context, of values (A, C, G)."""
        count = self.cells.batch.context_count
        return group_sums(self.cells.context, values, count).reshape(-1, count)


def weigh(view: View, targets: list[Target], logging: Candidate | str | None) -> WeighedCells:
    """The candidates' cells with their weights, for targets of one group."""
    policies = view.policies
    # The propensity of a list is that of the whole list.
    whole = logging == "propensity" and targets[0].model.cell == "list"
    cells = cells_of(policies, targets, whole=whole, every=isinstance(logging, Candidate))
    exposure = np.stack([cells.exposure(target) for target in targets])
    wanted = cells.by_cell(exposure[:, None] * cells.mass)
    if logging == "propensity":
        return _with_weights(_by_propensity(cells, targets, exposure, wanted))
    weighed = _logged(cells, targets, exposure, wanted)
    if targets[0].hazard:
        return _with_hazards(weighed, policies)
    if isinstance(logging, Candidate):
        given = other_mass(cells, policies, logging, targets[0]) * exposure
        weighed = replace(weighed, logged=cells.by_cell(given), known=True, given=given)
    return _with_weights(weighed)


def _logged(cells: Cells, targets: list[Target], exposure: Floats, wanted: Floats) -> WeighedCells:
    """Cells with what the log has of each, by its frequencies; without weights."""
    theta = np.stack([cells.theta(target) for target in targets])
    counts = [cells.reward_counts(target) for target in targets]
    shown = taken(cells.counts.n(counts[0]), cells.slot)
    earned = np.stack([taken(earned_in(cells.counts, each), cells.slot) for each in counts])
    records = cells.batch.context_n[cells.context]
    exposed = cells.by_cell(shown * exposure)
    return WeighedCells(
        targets=targets,
        cells=cells,
        records=records,
        theta=theta,
        exposure=exposure,
        wanted=wanted,
        logged=ratio(exposed, records),
        exposed=exposed,
        credit=cells.by_cell(earned * theta),
        n=cells.by_cell(np.where(exposure > 0, shown, 0.0)),
        share=np.ones(cells.size),
        ratio=np.zeros(0),
        weight=np.zeros(0),
    )


def _with_weights(weighed: WeighedCells) -> WeighedCells:
    """min(H/P, M). Where P = 0: M if it is finite, else the credit is left out; 0/0 = 0."""
    logged, clip = weighed.logged[:, None], weighed.clip
    with np.errstate(over="ignore"):  # what is too large is clipped, or refused below
        over = ratio(weighed.wanted, logged)
    weight = np.minimum(over, clip)
    if weighed.known:
        impossible = (logged <= 0) & (weighed.wanted > 0) & np.isfinite(clip)
        weight = np.where(impossible, np.broadcast_to(clip, weight.shape), weight)
    if weight.max(initial=0.0) > LARGEST_WEIGHT:
        a, _, g = np.unravel_index(int(weight.argmax()), weight.shape)
        batch = weighed.cells.batch
        name = batch.contexts[int(weighed.cells.context[g])].as_py()
        raise ModelError(
            f"{weighed.targets[a].model.name!r} would weigh a record {weight.max():.3g} times: its "
            f"context is {name!r}, and its logging probability next to nothing. Correct the "
            "logging probabilities, or bound weights by clip=, for instance clip=100."
        )
    return replace(weighed, ratio=over, weight=weight)


def _by_propensity(
    cells: Cells, targets: list[Target], exposure: Floats, wanted: Floats
) -> WeighedCells:
    """Every row of the log weighed by its own propensity; what was never shown follows them.

    A row stands for its part of the cell's records, so that rows of a cell add up to the cell.
    """
    batch, counts = cells.batch, cells.counts
    rows = _row_slots(batch, whole=cells.filled is not None)
    of_slot = np.full(counts.size + 1, -1)
    of_slot[cells.slot] = np.arange(len(cells.slot))
    of_slot[counts.size] = -1
    atom = of_slot[counts.slot[counts.line]]
    row, position = np.nonzero(atom >= 0)
    atom = atom[row, position]
    chance = batch.propensity
    assert chance is not None  # noqa: S101 - whoever asks has checked it
    given = chance[row] if chance.ndim == 1 else chance[row, position]
    n, cell = batch.n[row], cells.cell[atom]
    in_cell = sums(cell, n, cells.size)
    unseen = np.flatnonzero(in_cell == 0)

    def followed(values: NDArray[S], by: float = 0) -> NDArray[S]:
        """Values of rows, and one for each cell that was never shown."""
        others = np.full((*values.shape[:-1], len(unseen)), by, dtype=values.dtype)
        return np.concatenate([values, others], axis=-1)

    key = np.concatenate([cell, unseen])
    alone = Cells(
        counts=rows,
        slot=followed(rows.slot[row, position], rows.size),
        position=followed(cells.position[atom]),
        cell=np.arange(len(key)),
        mass=followed(cells.mass[:, atom]),
        context=cells.context[key],
        key=key,
        filled=None if cells.filled is None else cells.filled[np.concatenate([atom, unseen])],
    )
    own = followed(exposure[:, atom])
    return replace(
        _logged(alone, targets, own, wanted[:, :, key]),
        logged=own * followed(given),
        share=followed(n / in_cell[cell], 1),
        known=True,
        by_row=True,
    )


def _row_slots(batch: Batch, *, whole: bool) -> SlotCounts:
    """Every row on its own: its positions, or the whole of it."""
    rows = np.arange(len(batch.n))
    if whole:
        return SlotCounts(batch, rows, rows[:, None], len(rows), (slice(0, len(rows)),))
    size = len(rows) * batch.depth
    at = rows[:, None] * batch.depth + np.arange(batch.depth)
    empty = (batch.lists == EMPTY)[batch.row_list]
    return SlotCounts(batch, rows, np.where(empty, size, at), size, side_by_side(size, batch.depth))


def _with_hazards(logged: WeighedCells, policies: Candidate) -> WeighedCells:
    """The cells with their weights, and the lists with what each is worth."""
    cells, lists, mass = logged.cells, policies.lists, policies.list_mass  # (C, M)
    records = cells.batch.context_n[lists.context]
    shape = logged.wanted.shape
    weight, values = np.zeros(shape), np.zeros(shape)
    worth, by_log_p = np.zeros((shape[0], mass.shape[1])), np.zeros((*shape[:2], len(cells.slot)))
    for a, target in enumerate(logged.targets):
        atom = list_atoms(cells, policies, target)
        at = np.where(atom >= 0, cells.cell[atom], cells.size)
        rate = np.append(logged.rate[a], 0.0)[at]
        product = product_of(rate, target)
        row, position = np.nonzero(atom >= 0)
        of, own = at[row, position], mass[:, row]
        earned, slope = (
            group_sums(of, own * each[row, position], cells.size)
            for each in (product.worth, product.slope)
        )
        weight[a] = ratio(slope, logged.logged[a])
        values[a] = logged.records * earned
        worth[a] = product.total
        lever = (records[:, None] * product.slope * rate)[row, position] * own
        by_log_p[a] = group_sums(atom[row, position], lever, len(cells.slot))
    return replace(
        logged, ratio=weight, weight=weight, values=values, worth=worth, by_log_p=by_log_p
    )


class Product(NamedTuple):
    """What lists are worth by their hazards.

    Attributes:
        worth: Shape (M, D): θ_k h_k Q_k.
        slope: Shape (M, D): p_k ∂f/∂h_k.
        total: Shape (M,): f(A).
    """

    worth: Floats
    slope: Floats
    total: Floats


def product_of(rate: Floats, target: Target) -> Product:
    """What lists are worth, from the click rates r (M, D) of their slots at risk."""
    depth = min(target.metric.depth, rate.shape[1])
    theta = np.array(target.metric.theta[:depth])
    examined = np.array(target.model.examined(target.metric.depth)[:depth])
    raw = rate[:, :depth] * examined
    hazard = np.minimum(raw, 1.0)
    reached = np.cumprod(np.column_stack([np.ones(len(rate)), 1 - hazard]), axis=1)[:, :depth]
    worth, slope = np.zeros(rate.shape), np.zeros(rate.shape)
    worth[:, :depth] = theta * hazard * reached
    rest = np.zeros(len(rate))  # R_{k+1}, from below
    for k in range(depth - 1, -1, -1):
        # A hazard that is cut to 1 does not move with its rate.
        free = raw[:, k] <= _CERTAIN
        slope[:, k] = (
            np.where(free, np.maximum(theta[k] - rest, 0) * examined[k], 0) * reached[:, k]
        )
        rest = theta[k] * hazard[:, k] + (1 - hazard[:, k]) * rest
    return Product(worth, slope, rest)


# --- columns --------------------------------------------------------------------------------------


def score_weighted(
    view: View,
    w: WeighedCells,
    *,
    rows: bool = False,
    details: bool = False,
    clusters: bool = False,
    entries: CellEntries | None = None,
    kind: Cluster = "period",
) -> ColumnBatch:
    """The columns of a group: a target after the other, the candidates of each side by side.

    Args:
        view: the batch and its candidates.
        w: the cells.
        rows: whether ψ is wanted.
        details: whether cells are counted, for support.
        clusters: whether variances are wanted.
        entries: what clusters have of the cells, where sums of ψ over clusters are all that is
            wanted of it.
        kind: the kind of these clusters.
    """
    batch = view.batch
    scored = ColumnBatch(w.by_context(w.value), _coverage(w, details=details))
    if not w.by_row and clusters and any(target.curve is not None for target in w.targets):
        scored.shared_errors[EXAMINATION] = _examination_errors(w)
    cut = np.where(np.isfinite(w.clip), w.clip, 0.0)
    spared = w.value if w.known else np.where(w.free, 0.0, w.credit[:, None] * cut)
    common = ratio(w.by_context(w.value - spared), batch.context_n)
    cost = None if w.known else w.weight * w.free * w.rate[:, None]
    if entries is not None:
        of = entries.cell
        moved = taken(w.weight, of) * entries.earned[:, None]
        if cost is not None:
            moved -= taken(cost, of) * entries.exposed[:, None]
        count = batch.cluster_count[kind]
        own = group_sums(entries.cluster, moved, count).reshape(-1, count)
        scored.cluster_influence = own + (records_by_cluster(batch, kind) @ common.T).T
    elif rows:
        scored.influence = _by_row(w, common, cost)
    return scored


def _coverage(w: WeighedCells, *, details: bool) -> Coverage[Floats]:
    """How far the log covers the columns, shape (E, X); with counts of cells for support."""
    possible = w.logged[:, None] > 0
    mass = w.wanted * (w.records * w.share)
    # A logging policy that is given says what exposure to expect; otherwise the log has it.
    expected = w.exposed if w.given is None else w.records * w.logged
    weighted = expected[:, None] * w.weight
    found = Coverage(
        mass=w.by_context(mass),
        covered=w.by_context(np.where(possible, mass, 0.0)),
        weighted=w.by_context(weighted),
        squared=w.by_context(weighted * w.weight),
    )
    if np.isfinite(w.clip).any():
        bound = np.where(np.isfinite(w.clip), w.clip, 0.0) * w.logged[:, None]
        cut = (w.wanted - bound) * (w.records * w.share)
        clipped = np.where(possible & np.isfinite(w.clip) & (cut > 0), cut, 0.0)
        lost = w.by_context(clipped * w.rate[:, None])
        found = replace(found, clipped=w.by_context(clipped), lost=lost)
    if w.known:
        impossible = np.where((w.wanted > 0) & ~possible, w.n[:, None], 0.0)
        found = replace(found, unlogged=w.by_context(impossible))
    return _counted(w, found, possible) if details else found


def _counted(w: WeighedCells, found: Coverage[Floats], possible: Bools) -> Coverage[Floats]:
    """With counts of cells and contexts, and the largest weights."""
    cells = np.where(w.wanted > 0, w.share, 0.0)
    out = (found.covered <= 0) & (found.mass > 0)
    largest = np.zeros_like(found.mass)
    for own, over in zip(largest, w.ratio.reshape(len(largest), w.cells.size), strict=True):
        np.maximum.at(own, w.cells.context, over)
    return replace(
        found,
        cells=w.by_context(cells),
        seen=w.by_context(np.where(possible, cells, 0.0)),
        out=np.where(out, 1.0, 0.0),
        out_records=out * w.cells.batch.context_n,
        largest=largest,
    )


def records_by_cluster(batch: Batch, kind: Cluster) -> csr_array[np.float64]:
    """Shape (T, X): the records of each context in each cluster."""
    from scipy import sparse  # noqa: PLC0415 - slow to import

    line, cluster, n = list_records(batch, kind)
    shape = batch.cluster_count[kind], batch.context_count
    return sparse.csr_array((n, (cluster, batch.list_context[line])), shape=shape)


def _by_row(w: WeighedCells, common: Floats, cost: Floats | None) -> Floats:
    """Shape (E, R): ψ_t + V of one record of each row."""
    cells, batch, counts = w.cells, w.cells.batch, w.cells.counts
    psi = taken(common, batch.row_context)
    gain = _at_atoms(w, w.weight, w.theta)
    costs = None if cost is None else _at_atoms(w, cost, w.exposure)
    rewards = [cells.reward_counts(target) for target in w.targets]
    columns = counts.slot.T[: int(cells.position.max(initial=0)) + 1]  # deeper slots are no atoms
    table = np.zeros(counts.size + 1)
    for e, (a, c) in enumerate(np.ndindex(gain.shape[:2])):
        each = rewards[a]
        table[cells.slot] = gain[a, c]
        reward, earned = each.reward, taken(counts.ended(table), reward_slots(counts, each))
        psi[e] += sums(reward.row, earned * reward.value, len(batch.n))
        if costs is None:
            continue
        table[cells.slot] = costs[a, c]
        counts.ended(table)
        if each.at_risk is None:  # rows of a list show the same
            each_line = reduce(np.add, (taken(table, column) for column in columns))
            psi[e] -= taken(each_line, counts.line)
        else:
            for column, risk in zip(columns, each.at_risk.T, strict=False):
                psi[e] -= taken(taken(table, column), counts.line) * risk
    return psi


def _at_atoms(w: WeighedCells, of_cells: Floats, of_atoms: Floats) -> Floats:
    """Shape (A, C, J): values (A, C, G) of the cell of each atom, times those (A, J) of its own."""
    values = of_cells if w.cells.are_atoms else taken(of_cells, w.cells.cell)
    return values * of_atoms[:, None]


def _examination_errors(w: WeighedCells) -> Floats:
    """Shape (D, E, X): how far the value of each context is off by the errors of log p.

    The more a position is examined, the more the candidate's items earn there; and the lower are
    the rates of items that the log showed there.
    """
    cells, (targets, count, _) = w.cells, w.wanted.shape
    contexts, context = cells.batch.context_count, taken(cells.context, cells.cell)
    shown = taken(cells.counts.n(cells.reward_counts(w.targets[0])), cells.slot)
    curves = {a: target.curve for a, target in enumerate(w.targets) if target.curve is not None}
    width = max(len(curve.root[0]) for curve in curves.values())
    errors = np.zeros((width, targets, count, contexts))
    for a, curve in curves.items():
        if w.by_log_p is None:
            each = ratio(w.value[a] * w.free[a], w.wanted[a])
            moved = taken(each, cells.cell) * cells.mass * w.exposure[a]
        else:
            moved = w.by_log_p[a]
        logged = shown * w.exposure[a] if w.given is None else w.given[a]
        excess = ratio(cells.by_cell(moved), cells.by_cell(logged))
        moved = moved - taken(excess, cells.cell) * logged
        root = np.array(curve.root)
        depth = min(w.targets[a].metric.depth, len(root))
        inside = np.flatnonzero(cells.position < depth)
        at = taken(context, inside).astype(np.int64) * depth + taken(cells.position, inside)
        slopes = group_sums(at, taken(moved, inside), contexts * depth)
        slopes = slopes.reshape(count, contexts, depth)
        errors[: root.shape[1], a] = np.einsum("cxk,kd->dcx", slopes, root[:depth])
    return errors.reshape(width, targets * count, contexts)


def weighted_list_values(w: WeighedCells, view: View, c: int) -> Floats:
    """Shape (A, M): Σ_g u_g r_g e_g of each of the candidates' lists, as candidate c is clipped."""
    if w.worth is not None:
        return w.worth
    cells = w.cells
    slope = w.free[:, c] * ratio(ratio(w.credit, w.records), w.logged)
    none = np.zeros((len(w.targets), 1))
    by_atom = np.concatenate([slope[:, cells.cell] * w.exposure, none], axis=1)
    return np.asarray(by_atom[:, list_atoms(cells, view.policies, w.targets[0])].sum(axis=2))


def sampled_errors(view: View, c: int, worth: Floats) -> Floats:
    """Shape (4, A, X): what a candidate that is itself the frequencies of another log adds.

    With m_x records s of a context there, and u_g, r_g as above, the estimate varies by

        Σ_x (n_x / n)² Var_s(Σ_g u_g r_g e_g(s)) / m_x

    besides what the log's own records do. A context with one record shows no variance, and is
    given the usual one: sums of squares, degrees of freedom, and the contexts that need it follow.

    Args:
        view: the batch and its candidates.
        c: which of them.
        worth: Shape (A, M): what each of the candidates' lists is worth.
    """
    member, lists, batch = view.members[c], view.policies.lists, view.batch
    assert isinstance(member.policy, Observed)  # noqa: S101 - see `BatchWork.sampled`
    sizes = member.policy.records(member.coding.view)
    mass, count, nn = view.policies.list_mass[c], batch.context_count, batch.context_n**2
    if batch.context_weight is not None:
        nn = nn * batch.context_weight**2
    mean = group_sums(lists.context, mass * worth, count)
    varied = np.maximum(group_sums(lists.context, mass * worth**2, count) - mean**2, 0.0)
    several = sizes > 1
    each = [
        nn * np.where(several, ratio(varied, sizes - 1), 0.0),
        np.where(several, sizes * varied, 0.0),
        np.broadcast_to(np.where(several, sizes - 1, 0.0), varied.shape),
        np.broadcast_to(np.where(several, 0.0, ratio(nn, sizes)), varied.shape),
    ]
    return np.stack(each)


# --- where the log does not cover a candidate -----------------------------------------------------


def least_covered(w: WeighedCells, view: View, top: int) -> tuple[LeastCovered, ...]:
    """By target, the contexts of a batch with most of the first candidate's uncovered exposure."""
    batch, found = view.batch, []
    for wanted, seen in zip(w.wanted[:, 0], w.logged > 0, strict=True):
        covered, uncovered = (
            sums(w.cells.context, np.where(which, w.records * wanted, 0.0), batch.context_count)
            for which in (seen, ~seen)
        )
        order = np.argsort(-uncovered.astype(np.float32), kind="stable")[:top]
        contexts = [
            Uncovered(
                context=batch.contexts[int(x)].as_py(),
                records=float(batch.context_n[x]),
                covered=float(covered[x] / (covered[x] + uncovered[x])),
                uncovered=float(uncovered[x]),
            )
            for x in order
            if np.float32(uncovered[x]) > 0
        ]
        found.append(LeastCovered(top, tuple(contexts)))
    return tuple(found)
