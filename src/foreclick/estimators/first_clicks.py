"""First clicks by slots: a product of hazards along each list of the candidate.

Whether the first click is at position k depends on all that stands above it, so slots have no rate
of first clicks. They have a *hazard*: the chance of a click, given none above. With r_g the first
clicks of a cell g by its exposure at risk, and h_k = min(p_k r_g, 1) along a list A,

    f(A) = Σ_k θ_k h_k Q_k,   Q_k = Π_{j<k} (1 − h_j)          V = Σ_x n_x/n Σ_A h(A|x) f(A)

It assumes that a slot's hazard does not depend on *what* was passed over above it. So it is where
slots are clicked independently (position-based users), and where users read downwards until they
click (cascade, DCM). Users who also leave without a click (DBN) bend it a little.

The influence of V is that of a sum over cells. With R_k the rest of the sum from k on, of those who
get there, ∂f/∂h_k = Q_k (θ_k − R_{k+1}) ≥ 0; the derivative of V by r_g over the cell's exposure at
risk is its weight W_g.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foreclick.batches import Candidate, Floats, ratio, sums
from foreclick.estimators.cells import Ask, cells_of, list_atoms
from foreclick.estimators.kernel import WeighedCells, logged_cells

_CERTAIN = 1 + 1e-9  # an examination times its own inverse may be above 1 by a bit


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


def weigh_hazards(candidate: Candidate, asks: list[Ask]) -> list[WeighedCells]:
    """The candidate's cells with their weights, and its lists with what each is worth."""
    cells = cells_of(candidate, asks[0])
    found = []
    for ask in asks:
        wanted = cells.by_cell(cells.mass * cells.along(ask.exposure))
        logged = logged_cells(cells, ask, wanted)
        atom = list_atoms(cells, candidate, ask)
        rate = np.append(logged.rate, 0.0)[np.where(atom >= 0, cells.cell[atom], cells.size)]
        product = product_of(rate, ask)
        row, position = np.nonzero(atom >= 0)
        of = cells.cell[atom[row, position]]
        mass = candidate.lists.mass[row]
        worth = sums(of, mass * product.worth[row, position], cells.size)
        slope = sums(of, mass * product.slope[row, position], cells.size)
        weight = ratio(slope, logged.logged)
        records = cells.batch.context_n[candidate.lists.context]
        lever = (records * candidate.lists.mass)[:, None] * product.slope * rate
        found.append(
            replace(
                logged,
                ratio=weight,
                weights=[weight],
                values=logged.records * worth,
                worth=product.total,
                levers=sums(atom[row, position], lever[row, position], len(cells.slot)),
            )
        )
    return found


def product_of(rate: Floats, ask: Ask) -> Product:
    """What lists are worth, from the click rates r (M, D) of their slots at risk."""
    depth = min(ask.metric.depth, rate.shape[1])
    theta = np.array(ask.metric.theta[:depth])
    examined = np.array(ask.model.examined(ask.metric.depth)[:depth])
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
