"""The list, or the policy, of one context that is worth most, and the lists of a policy.

Without constraints on probabilities the best policy is one list, an assignment of items to
positions; within them it is a linear program over the probability of each item at each position.
All positions are filled whenever there are items enough.

References:
    G. Birkhoff, "Tres observaciones sobre el algebra lineal", Univ. Nac. Tucumán Rev. A 5 (1946):
    from marginals to lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foreclick.batches import EMPTY, Bools, Floats, Ints
from foreclick.errors import ForeclickError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

TINY = 1e-12  # Probabilities up to this come from rounding

_ROUNDED = 1e-9  # Sums of marginals are right up to this; solvers of linear programs round
_IMPOSSIBLE = 1e6  # What a slot of no probability costs: more than all logarithms of a list
_INFEASIBLE = 2  # a status of `milp`
_LARGEST = 1e4
# HiGHS errs by up to 1e-7, in what whole lists gain by 1e-6, whatever the scale: so it is given
# gains of up to `_LARGEST`, and probabilities in units of `_UNIT`.
_UNIT = 1e-4


@dataclass(frozen=True, eq=False)
class Limits:
    """What a policy must keep to in a context with L items and K positions.

    Attributes:
        forbidden: Shape (L, K): which items must not be where. A banned item is forbidden
            everywhere; of a pinned one, all else in its row and in its column is.
        near: Production's marginals, shape (L, K), and the share of slots that may differ from
            them: Σ (h − production)⁺ ≤ share · K.
        whole: One list only, all the time.
    """

    forbidden: Bools
    near: tuple[Floats, float]
    whole: bool = False


def program(worth: ArrayLike, limits: Limits) -> Floats | None:
    """The policy that is worth most within limits.

    What is chosen is the probability of every item at every position. As many positions are filled
    as the forbidden slots allow.

    Args:
        worth: Shape (L · K,): what each slot is worth, items before positions.
        limits: What the policy must keep to.

    Returns:
        The marginals, shape (L, K); None if no policy keeps to the limits.

    Examples:
        >>> banned = np.array([[True, True], [False, False], [False, False]])
        >>> program([3, 1.5, 2, 1, 1, 0.5], Limits(banned, near=(0.5 * ~banned, 1.0))).tolist()
        [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    from scipy import sparse  # noqa: PLC0415 - slow to import
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - slow to import
    from scipy.sparse.csgraph import maximum_bipartite_matching  # noqa: PLC0415 - slow to import

    forbidden, (production, change) = limits.forbidden, limits.near
    (items, positions), count = forbidden.shape, forbidden.size
    whole, unit = (count, 1.0) if limits.whole else (0, _UNIT)
    filled = int(np.sum(maximum_bipartite_matching(sparse.csr_array(~forbidden)) >= 0))
    # Slots that stay as in production, min(h, π), are numbers of their own, and earn nothing.
    shown = np.flatnonzero(production)
    gain = np.append(np.asarray(worth, dtype=np.float64), np.zeros(len(shown)))
    top = np.append(np.where(forbidden.ravel(), 0.0, 1.0), production.ravel()[shown])

    def of_slots(matrix: Any) -> Any:  # noqa: ANN401 - sparse matrices
        return sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], len(shown)))])

    stays = [sparse.eye_array(count, format="csr")[shown], -sparse.eye_array(len(shown))]
    differ = np.append(np.ones(count), np.full(len(shown), -1.0))
    rows: list[tuple[Any, float, float]] = [  # low ≤ matrix · x ≤ high
        (sparse.hstack(stays), 0.0, np.inf),
        (of_slots(sparse.kron(sparse.eye_array(items), np.ones((1, positions)))), -np.inf, 1.0),
        (of_slots(sparse.kron(np.ones((1, items)), sparse.eye_array(positions))), -np.inf, 1.0),
        (of_slots(sparse.csr_array(np.ones((1, count)))), filled, filled),
        (sparse.csr_array(differ[None]), -np.inf, change * positions),
    ]
    matrices, *bounds = zip(*rows, strict=True)
    low, high = np.repeat(np.array(bounds), [m.shape[0] for m in matrices], axis=1) / unit
    solution = milp(
        gain * (-_LARGEST / (float(np.abs(gain).max(initial=0.0)) or 1.0)),
        integrality=(np.arange(len(gain)) < whole).astype(np.int64),
        bounds=Bounds(0.0, top / unit),
        constraints=LinearConstraint(sparse.vstack(matrices, format="csc"), low, high),
        # Programs are small: solving them at once is faster than making them smaller first.
        options={"mip_rel_gap": 0.0, "presolve": whole > 0},
    )
    if solution.status == _INFEASIBLE:
        return None
    if solution.x is None:
        raise ForeclickError(f"HiGHS found no policy: {solution.message}")
    x = np.clip(solution.x * unit, 0.0, top)[:count]
    x = np.round(x) if limits.whole else x
    return np.where(x > TINY, x, 0.0).reshape(items, positions)


def assign(worth: ArrayLike, allowed: Bools | None = None) -> Ints:
    """The list that is worth most, where each item at each position has its own worth.

    As many positions as possible are filled; among the fullest lists, it is the best.

    Args:
        worth: Shape (L, K): finite; may be negative.
        allowed: Shape (L, K): which items may stand where.

    Returns:
        Shape (K,): the item at each position, `EMPTY` (-1) where none can be.

    Examples:
        >>> assign([[0.5, 0.4], [0.3, 0.1], [0.2, 0.0]]).tolist()
        [1, 0]
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - slow to import

    value = np.asarray(worth, dtype=np.float64)
    if allowed is not None:
        # A slot more is worth more than all differences between lists.
        gain = value - value.min(initial=np.inf, where=allowed)
        bonus = (1 + min(value.shape)) * (gain.max(initial=0.0, where=allowed) or 1.0)
        value = np.where(allowed, gain + bonus, 0.0)
    items, positions = linear_sum_assignment(value, maximize=True)
    chosen = np.full(value.shape[1], EMPTY, dtype=np.int64)
    chosen[positions] = items
    if allowed is not None:
        chosen[positions[~allowed[items, positions]]] = EMPTY
    return chosen


def marginals(lists: Ints, masses: Floats, items: int) -> Floats:
    """Shape (L, K): how likely each item is at each position, by lists (m, K) and masses (m,)."""
    h = np.zeros((items, lists.shape[1]))
    which, position = np.nonzero(lists != EMPTY)
    np.add.at(h, (lists[which, position], position), masses[which])
    return h


def decode(h: ArrayLike) -> tuple[Ints, Floats]:
    """Lists and their masses, with the given probability of each item at each position.

    Birkhoff and von Neumann: as long as mass is left, there is a list that takes only what is left
    of the marginals, and holds every item that must be in all lists still to come. It gets as much
    mass as they allow, which uses up a slot, so there are at most as many lists as slots and items.
    Of all such lists the one with the largest product of probabilities is taken; its smallest
    factor is then large too, and few lists suffice.

    Args:
        h: Shape (L, K): rows and columns sum to at most 1.

    Returns:
        Lists, shape (m, K): items by index, `EMPTY` (-1) for a hole, which there is only where a
        column does not sum to 1. Masses, shape (m,): they sum to 1, the largest first.

    Raises:
        ValueError: A probability is negative, or a row or column sums to more than 1.

    Examples:
        >>> lists, masses = decode([[0.7, 0.3], [0.3, 0.7]])
        >>> lists.tolist(), masses.round(9).tolist()
        ([[0, 1], [1, 0]], [0.7, 0.3])
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - slow to import

    wanted = np.asarray(h, dtype=np.float64)
    most = max(float(wanted.sum(axis=0).max()), float(wanted.sum(axis=1).max()))
    if wanted.min() < -_ROUNDED or most > 1 + _ROUNDED:
        raise ValueError(
            f"probabilities of items at positions are at least 0, and sum to at most 1 by item and "
            f"by position; got {wanted.min():.6g}, and a sum of {most:.6g}"
        )
    slots = np.where(wanted > TINY, wanted, 0.0)
    certain = slots.max(axis=0)
    if np.all((certain == 0) | (certain >= 1 - _ROUNDED)):
        return np.where(certain > 0, slots.argmax(axis=0), EMPTY)[None], np.ones(1)
    items, empty = np.flatnonzero(slots.any(axis=1)), 1.0 - slots.sum(axis=0)
    # A hole is an item of its own, one for each position that has any.
    holes = np.diag(empty)[empty > _ROUNDED]
    who = np.append(items, np.full(len(holes), EMPTY))
    slots = np.vstack([slots[items], holes])
    # How much an item may yet be missing from lists.
    slack = np.maximum(1.0 - slots.sum(axis=1), 0.0)
    every, lists, masses, left = np.arange(slots.shape[1]), [], [], 1.0
    while left > TINY:
        slots[slots <= TINY] = 0.0
        slack[slack <= TINY] = 0.0
        # An item in the list counts with its slot, one that is not with its slack, and must be in
        # the list if it has none.
        gain, loss = np.full(slots.shape, -_IMPOSSIBLE), np.full(slack.shape, -_IMPOSSIBLE)
        np.log(slots, out=gain, where=slots > 0)
        np.log(slack, out=loss, where=slack > 0)
        chosen, positions = linear_sum_assignment(gain - loss[:, None], maximize=True)
        rows = np.empty(len(every), dtype=np.int64)
        rows[positions] = chosen
        missing = np.ones(len(slots), dtype=np.bool_)
        missing[rows] = False
        step = min(float(slots[rows, every].min()), float(slack[missing].min(initial=left)))
        if step == 0:  # of what rounding has left over there is no list
            break
        slots[rows, every] -= step
        slack[missing] -= step
        left -= step
        lists.append(rows)
        masses.append(step)
    mass = np.array(masses)
    order = np.argsort(-mass, kind="stable")
    return who[np.array(lists)[order]], mass[order] / mass.sum()
