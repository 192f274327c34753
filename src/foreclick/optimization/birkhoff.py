"""From marginals to lists: which to show, and how often, for each item to be where it is to be.

References:
    G. Birkhoff, "Tres observaciones sobre el algebra lineal", Univ. Nac. Tucumán Rev. A 5 (1946).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from foreclick.batches import EMPTY, Floats, Ints

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_IMPOSSIBLE = 1e6
"""What a slot of no probability costs: more than all logarithms of a list together."""

_ROUNDED = 1e-9
"""Sums are right up to this; solvers of linear programs round."""


def decode(h: ArrayLike, tolerance: float = 1e-12) -> tuple[Ints, Floats]:
    """Lists and their masses, with the given probability of each item at each position.

    Birkhoff and von Neumann: as long as mass is left, there is a list that takes only what is left
    of the marginals, and holds every item that must be in all lists still to come. It gets as much
    mass as they allow, which uses up a slot, so there are at most as many lists as slots and items.
    Of all such lists the one with the largest product of probabilities is taken; its smallest
    factor is then large too, and few lists suffice.

    Args:
        h: Shape (L, K): rows and columns sum to at most 1.
        tolerance: probabilities up to this count as none.

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
    wanted = np.asarray(h, dtype=np.float64)
    _check(wanted)
    slots = np.where(wanted > tolerance, wanted, 0.0)
    certain = slots.max(axis=0)
    if np.all((certain == 0) | (certain >= 1 - _ROUNDED)):
        one = np.where(certain > 0, slots.argmax(axis=0), EMPTY)
        return one[None], np.ones(1)
    items = np.flatnonzero(slots.any(axis=1))
    # A hole is an item of its own, one for each position that has any.
    empty = 1.0 - slots.sum(axis=0)
    holes = np.diag(empty)[empty > _ROUNDED]
    who = np.append(items, np.full(len(holes), EMPTY))
    places, masses = _taken_apart(np.vstack([slots[items], holes]), tolerance)
    order = np.argsort(-masses, kind="stable")
    return who[places[order]], masses[order] / masses.sum()


def _taken_apart(slots: Floats, tolerance: float) -> tuple[Ints, Floats]:
    """The rows of each list, and its mass; columns sum to 1, and are used up on the way."""
    positions = np.arange(slots.shape[1])
    # How much an item may yet be missing from lists.
    slack = np.maximum(1.0 - slots.sum(axis=1), 0.0)
    lists, masses, left = [], [], 1.0
    while left > tolerance:
        slots[slots <= tolerance] = 0.0
        slack[slack <= tolerance] = 0.0
        rows = _likeliest(slots, slack)
        missing = np.ones(len(slots), dtype=np.bool_)
        missing[rows] = False
        step = min(float(slots[rows, positions].min()), float(slack[missing].min(initial=left)))
        if step == 0:  # of what rounding has left over there is no list
            break
        slots[rows, positions] -= step
        slack[missing] -= step
        left -= step
        lists.append(rows)
        masses.append(step)
    return np.array(lists), np.array(masses)


def _likeliest(slots: Floats, slack: Floats) -> Ints:
    """Who is at each position in the list with the largest product of what is left.

    An item that is in the list counts with its slot, one that is not with its slack: one without
    slack must be in.
    """
    gain = np.full(slots.shape, -_IMPOSSIBLE)
    np.log(slots, out=gain, where=slots > 0)
    loss = np.full(slack.shape, -_IMPOSSIBLE)
    np.log(slack, out=loss, where=slack > 0)
    rows, positions = linear_sum_assignment(gain - loss[:, None], maximize=True)
    found = np.empty(slots.shape[1], dtype=np.int64)
    found[positions] = rows
    return found


def _check(h: Floats) -> None:
    most = max(float(h.sum(axis=0).max()), float(h.sum(axis=1).max()))
    if h.min() < -_ROUNDED or most > 1 + _ROUNDED:
        raise ValueError(
            f"probabilities of items at positions are at least 0, and sum to at most 1 by item and "
            f"by position; got {h.min():.6g}, and a sum of {most:.6g}"
        )
