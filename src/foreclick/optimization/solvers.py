"""Policies of one context that maximise an estimate without further constraints, and their lists.

In one context an estimate is Σ_g w_g min(H_g, cap_g): w_g ≥ 0 is the click rate of cell g, H_g how
much the policy exposes it, and cap_g = M · P_g as much as the log vouches for. All positions are
filled whenever there are items enough.

References:
    G. Birkhoff, "Tres observaciones sobre el algebra lineal", Univ. Nac. Tucumán Rev. A 5 (1946):
    from marginals to lists.
    J. Edmonds, "Submodular functions, matroids, and certain polyhedra", Combinatorial Structures
    and Their Applications (1970): the greedy algorithm.
    A. W. Marshall, I. Olkin and B. C. Arnold, "Inequalities: Theory of Majorization and Its
    Applications", 2nd ed. (2011), 2.B: from a majorised vector to a doubly stochastic matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foreclick.batches import EMPTY, Bools, Floats, Ints
from foreclick.optimization.constraints import TINY, maximise

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Differences of exposures below this, relative to all exposure, come from rounding.
_ROUNDING = 1e-13

_ROUNDED = 1e-9  # Sums of marginals are right up to this; solvers of linear programs round

# What a slot of no probability costs: more than all logarithms of a list together.
_IMPOSSIBLE = 1e6


def knapsack(worth: ArrayLike, cap: ArrayLike) -> Floats:
    """The masses of lists that are worth most, where only so much of each list counts.

    By falling worth, each list is given as much as counts, until the masses sum to 1. Where caps
    leave mass over, the best list takes it: it earns nothing there, nor would it elsewhere.

    Args:
        worth: Shape (n,): the mean reward of each list.
        cap: Shape (n,): how much of its mass counts; may be infinite.

    Returns:
        Shape (n,).

    Examples:
        >>> knapsack([0.2, 0.5, 0.1], [0.6, 0.7, 0.9]).round(9).tolist()
        [0.3, 0.7, 0.0]
    """
    order = np.argsort(-np.asarray(worth, dtype=np.float64), kind="stable")
    so_far = np.minimum(np.cumsum(np.minimum(cap, 1.0)[order]), 1.0)
    masses: Floats = np.empty(len(order))
    masses[order] = np.diff(so_far, prepend=0.0)
    masses[order[0]] += 1.0 - so_far[-1]
    return masses


def greedy(worth: ArrayLike, cap: ArrayLike, q: ArrayLike) -> Floats:
    """The exposures of items that are worth most.

    Exposures y are those of a policy if no j items have more than the j most exposed positions:
    y(S) ≤ Q_|S| with Q_j the sum of the j largest q. Q is concave, so this is a polymatroid, caps
    or not, and giving each item in turn, by falling worth, as much as it can take is optimal:

        y_a = min(cap_a, min_j (Q_{j+1} − B_j)),    B_j = the j largest exposures given so far.

    Items that are worth nothing are given theirs too, up to their caps: what must be shown in any
    case is better shown as the log did.

    Args:
        worth: Shape (L,): click rates.
        cap: Shape (L,): how much of an item's exposure counts; may be infinite.
        q: Shape (K,): the exposure of each position.

    Returns:
        Shape (L,): exposures, at most `cap`; `to_marginals` makes marginals of them.

    Examples:
        >>> greedy([0.2, 0.5, 0.1], [1.0, 0.4, 1.0], [1.0, 0.5]).round(9).tolist()
        [1.0, 0.4, 0.1]
    """
    most, exposures = np.asarray(cap, dtype=np.float64), np.zeros(len(np.asarray(worth)))
    reach = np.cumsum(np.sort(np.asarray(q, dtype=np.float64))[::-1])
    # The K largest exposures so far, falling: beyond them Q does not grow, and `left` binds.
    left, largest = float(reach[-1]), np.zeros(len(reach))
    for a in np.argsort(-np.asarray(worth, dtype=np.float64), kind="stable"):
        room = (reach - np.cumsum(np.append(0.0, largest[:-1]))).min()
        exposures[a] = max(min(most[a], left, room), 0.0)
        left -= exposures[a]
        largest = -np.sort(-np.append(largest, exposures[a]))[:-1]
        if not left:
            break
    return exposures


def to_marginals(y: ArrayLike, q: ArrayLike) -> Floats:
    """Marginals of a policy that exposes each item by at least y.

    Sorted by y, item j starts at position j. Going down the list, an item that has too little is
    swapped, a share of the time, with the last one above it that has too much (T-transforms): there
    is one, as the first j items never ask for more than the first j positions have. As y_j ≥ y_k,
    what j has and k has not, x_j − x_k, is at least what j has too much and k too little together;
    so the share is never above 1/2, neither passes its y, and after each swap one of them is right
    for good.

    What y leaves over stays with the items that it asks most for; of equal ones, with the first.
    With fewer items than positions, the least exposed positions stay empty.

    Args:
        y: Shape (L,): exposures that a policy can have, such as those of `greedy`.
        q: Shape (K,): the exposure of each position.

    Returns:
        h, shape (L, K): h q ≥ y. Columns sum to 1, and rows to at most 1, if L ≥ K.

    Examples:
        >>> to_marginals([1.0, 0.4, 0.1], [1.0, 0.5]).round(9).tolist()
        [[1.0, 0.0], [0.0, 0.8], [0.0, 0.2]]
    """
    wanted, exposed = np.asarray(y, dtype=np.float64), np.asarray(q, dtype=np.float64)
    items = np.argsort(-wanted, kind="stable")
    positions = np.argsort(-exposed, kind="stable")[: len(wanted)]
    x, falling = np.zeros(len(wanted)), wanted[items]
    x[: len(positions)] = exposed[positions]
    shares = np.eye(len(x), len(positions))
    now, over, tiny = x.tolist(), (x - falling).tolist(), _ROUNDING * float(x.sum())
    givers: list[int] = []
    for k in np.flatnonzero(np.abs(x - falling) > tiny).tolist():
        if over[k] > 0:
            givers.append(k)
            continue
        while givers and over[k] < -tiny:
            j = givers[-1]
            step = min(over[j], -over[k])
            moved = step / (now[j] - now[k]) * (shares[k] - shares[j])
            shares[j] += moved
            shares[k] -= moved
            now[j], now[k] = now[j] - step, now[k] + step
            over[j], over[k] = over[j] - step, over[k] + step
            if over[j] <= tiny:
                givers.pop()
    h = np.zeros((len(wanted), len(exposed)))
    h[np.ix_(items, positions)] = shares
    return h


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


def transport(worth: ArrayLike, cap: ArrayLike) -> Floats:
    """Marginals that are worth most, where only so much of each item at each position counts.

    max Σ w_ak min(h_ak, cap_ak): a transportation problem, and an assignment if no cap binds.
    Slots that caps leave over earn nothing; the items that are shown most take them, by the
    north-west corner rule: what rows and columns lack is laid out along a line each, and an item
    takes of a position where their stretches overlap.

    Args:
        worth: Shape (L, K): at least 0.
        cap: Shape (L, K): may be infinite.

    Returns:
        h, shape (L, K): columns sum to 1, and rows to at most 1, if L ≥ K; else the other way.

    Examples:
        >>> transport([[0.5, 0.4], [0.3, 0.1]], [[0.2, 1.0], [1.0, 1.0]]).round(9).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    from scipy import sparse  # noqa: PLC0415 - slow to import

    room = np.minimum(cap, 1.0)
    value = np.where(room > 0, worth, 0.0)
    best = marginals(assign(value)[None], np.ones(1), len(value))
    if np.all((best == 0) | (room >= 1) | (value == 0)):
        return best
    item, position = np.nonzero(value)
    # Each slot is in the sum of its row and in that of its column.
    sums = np.stack([item, len(value) + position], axis=1).ravel()
    ends = 2 * np.arange(len(item) + 1)
    matrix = sparse.csc_array((np.ones(len(sums)), sums, ends), shape=(sum(value.shape), len(item)))
    h = np.zeros_like(value)
    rows = [(matrix, -np.inf, 1.0)]
    h[item, position] = maximise(value[item, position], room[item, position], rows)
    order = np.argsort(-h.sum(axis=1), kind="stable")
    items = np.cumsum(np.maximum(1.0 - h[order].sum(axis=1), 0.0))
    positions = np.cumsum(np.maximum(1.0 - h.sum(axis=0), 0.0))
    ends = np.minimum(items[:, None], positions)
    starts = np.maximum(np.append(0.0, items[:-1])[:, None], np.append(0.0, positions[:-1]))
    more = ends - starts
    h[order] += np.where(more > TINY, more, 0.0)
    return h
