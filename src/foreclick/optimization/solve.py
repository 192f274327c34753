"""Policies that maximise an estimate without further constraints.

In one context an estimate is Σ_g w_g min(H_g, cap_g): w_g ≥ 0 is the click rate of cell g, H_g how
much the policy exposes it, and cap_g = M · P_g as much as the log vouches for. All positions are
filled whenever there are items enough.

References:
    J. Edmonds, "Submodular functions, matroids, and certain polyhedra", Combinatorial Structures
    and Their Applications (1970): the greedy algorithm.
    A. W. Marshall, I. Olkin and B. C. Arnold, "Inequalities: Theory of Majorization and Its
    Applications", 2nd ed. (2011), 2.B: from a majorised vector to a doubly stochastic matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from foreclick.batches import EMPTY, Bools, Floats, Ints
from foreclick.optimization.highs import TINY, Rows, maximise

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_ROUNDING = 1e-13
"""Differences of exposures below this, relative to all exposure, come from rounding."""

_BROKEN = 1e-8
"""Above this they come from exposures that no policy has."""


def knapsack(worth: ArrayLike, cap: ArrayLike) -> Floats:
    """The masses of lists that are worth most, where only so much of each list counts.

    By falling worth, each list is given as much as counts, until the masses sum to 1. Where caps
    leave mass over, the best list takes it: it earns nothing there, nor would it elsewhere.

    Args:
        worth: Shape (…, n): the mean reward of each list.
        cap: Shape (…, n): how much of its mass counts; may be infinite.

    Returns:
        Shape (…, n).

    Examples:
        >>> knapsack([0.2, 0.5, 0.1], [0.6, 0.7, 0.9]).round(9).tolist()
        [0.3, 0.7, 0.0]
    """
    value, room = np.asarray(worth, dtype=np.float64), np.minimum(cap, 1.0)
    order = np.argsort(-value, axis=-1, kind="stable")
    so_far = np.minimum(np.cumsum(np.take_along_axis(room, order, -1), axis=-1), 1.0)
    sorted_masses = np.diff(so_far, axis=-1, prepend=0.0)
    sorted_masses[..., 0] += 1.0 - so_far[..., -1]
    masses: Floats = np.empty_like(sorted_masses)
    np.put_along_axis(masses, order, sorted_masses, -1)
    return masses


def greedy(worth: ArrayLike, cap: ArrayLike, q: ArrayLike) -> Floats:
    """The exposures of items that are worth most, in many contexts at once.

    Exposures y are those of a policy if no j items have more than the j most exposed positions:
    y(S) ≤ Q_|S| with Q_j the sum of the j largest q. Q is concave, so this is a polymatroid, caps
    or not, and giving each item in turn, by falling worth, as much as it can take is optimal:

        y_a = min(cap_a, min_j (Q_{j+1} − B_j)),    B_j = the j largest exposures given so far.

    Items that are worth nothing are given theirs too, up to their caps: what must be shown in any
    case is better shown as the log did.

    Args:
        worth: Shape (B, L): click rates; contexts with fewer items are padded with worth 0, cap 0.
        cap: Shape (B, L): how much of an item's exposure counts; may be infinite.
        q: Shape (K,): the exposure of each position.

    Returns:
        Shape (B, L): exposures, at most `cap`; `spread` makes marginals of a context's.

    Examples:
        >>> greedy([[0.2, 0.5, 0.1]], [[1.0, 0.4, 1.0]], [1.0, 0.5]).round(9).tolist()
        [[1.0, 0.4, 0.1]]
    """
    value, room = np.asarray(worth, dtype=np.float64), np.asarray(cap, dtype=np.float64)
    falling = np.sort(np.asarray(q, dtype=np.float64))[::-1]
    reach = np.cumsum(falling)[:, None]
    order = np.argsort(-value, axis=1, kind="stable")
    # Items by row, so that each step works on rows that lie together.
    caps = np.ascontiguousarray(np.take_along_axis(room, order, 1).T)
    given = np.zeros_like(caps)
    left = np.full(len(value), reach[-1, 0])
    # The K largest exposures so far, falling: beyond them Q does not grow, and `left` binds.
    largest = np.zeros((len(falling), len(value)))
    before = np.zeros_like(largest)
    for step, capped in enumerate(caps):
        np.cumsum(largest[:-1], axis=0, out=before[1:])
        y = np.minimum(np.minimum(capped, left), (reach - before).min(axis=0))
        np.maximum(y, 0.0, out=y)
        given[step] = y
        left -= y
        # y takes its place among the largest: those below it move down by one.
        largest[1:] = np.maximum(largest[1:], np.minimum(largest[:-1], y))
        largest[0] = np.maximum(largest[0], y)
        if not left.any():
            break
    exposures = np.empty_like(value)
    np.put_along_axis(exposures, order, given.T, 1)
    return exposures


def spread(y: ArrayLike, q: ArrayLike) -> Floats:
    """Marginals of a policy that exposes each item by at least y.

    What y leaves over stays with the items that it asks most for; of equal ones, with the first.
    With fewer items than positions, the least exposed positions stay empty.

    Args:
        y: Shape (L,): exposures that a policy can have, such as those of `greedy`.
        q: Shape (K,): the exposure of each position.

    Returns:
        h, shape (L, K): h q ≥ y. Columns sum to 1, and rows to at most 1, if L ≥ K.

    Raises:
        ValueError: No policy exposes items that much.

    Examples:
        >>> spread([1.0, 0.4, 0.1], [1.0, 0.5]).round(9).tolist()
        [[1.0, 0.0], [0.0, 0.8], [0.0, 0.2]]
    """
    wanted, exposed = np.asarray(y, dtype=np.float64), np.asarray(q, dtype=np.float64)
    items = np.argsort(-wanted, kind="stable")
    positions = np.argsort(-exposed, kind="stable")[: len(wanted)]
    x = np.zeros(len(wanted))
    x[: len(positions)] = exposed[positions]
    falling = wanted[items]
    _check_exposures(falling, x)
    h = np.zeros((len(wanted), len(exposed)))
    h[np.ix_(items, positions)] = _transformed(x, falling, len(positions))
    return h


def _check_exposures(y: Floats, x: Floats) -> None:
    room = np.cumsum(x - y)
    if room.min() < -_BROKEN * max(float(x.sum()), _BROKEN):
        j = int(room.argmin()) + 1
        raise ValueError(
            f"no policy exposes items that much: {j} of them are to have {y[:j].sum():.6g} "
            f"together, the {j} most exposed positions have {x[:j].sum():.6g}"
        )


def _transformed(x: Floats, y: Floats, columns: int) -> Floats:
    """The first columns of a doubly stochastic D with D x ≥ y, both falling.

    Item j starts at position j. Going down the list, an item that has too little is swapped, a
    share of the time, with the last one above it that has too much (T-transforms): there is one,
    as the first j items of y never ask for more than x has there. As y_j ≥ y_k, what j has and k
    has not, x_j − x_k, is at least what j has too much and k too little together; so the share is
    never above 1/2, neither passes its y, and after each swap one of them is right for good.
    """
    found = np.eye(len(x), columns)
    now, tiny = x.tolist(), _ROUNDING * float(x.sum())
    over = (x - y).tolist()
    givers: list[int] = []
    for k in np.flatnonzero(np.abs(x - y) > tiny).tolist():
        if over[k] > 0:
            givers.append(k)
            continue
        while givers and over[k] < -tiny:
            j = givers[-1]
            step = min(over[j], -over[k])
            moved = step / (now[j] - now[k]) * (found[k] - found[j])
            found[j] += moved
            found[k] -= moved
            now[j], now[k] = now[j] - step, now[k] + step
            over[j], over[k] = over[j] - step, over[k] + step
            if over[j] <= tiny:
                givers.pop()
    return found


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
    value = np.asarray(worth, dtype=np.float64)
    if allowed is not None:
        # A slot more is worth more than all differences between lists.
        gain = value - value.min(initial=np.inf, where=allowed)
        bonus = (1 + min(value.shape)) * (gain.max(initial=0.0, where=allowed) or 1.0)
        value = np.where(allowed, gain + bonus, 0.0)
    items, positions = linear_sum_assignment(value, maximize=True)
    found = np.full(value.shape[1], EMPTY, dtype=np.int64)
    found[positions] = items
    if allowed is not None:
        found[positions[~allowed[items, positions]]] = EMPTY
    return found


def transport(worth: ArrayLike, cap: ArrayLike) -> Floats:
    """Marginals that are worth most, where only so much of each item at each position counts.

    max Σ w_ak min(h_ak, cap_ak): a transportation problem, and an assignment if no cap binds.
    Slots that caps leave over earn nothing; the items that are shown most take them.

    Args:
        worth: Shape (L, K): at least 0.
        cap: Shape (L, K): may be infinite.

    Returns:
        h, shape (L, K): columns sum to 1, and rows to at most 1, if L ≥ K; else the other way.

    Examples:
        >>> transport([[0.5, 0.4], [0.3, 0.1]], [[0.2, 1.0], [1.0, 1.0]]).round(9).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    room = np.minimum(cap, 1.0)
    value = np.where(room > 0, worth, 0.0)
    best = one_hot(assign(value), len(value))
    if np.all((best == 0) | (room >= 1) | (value == 0)):
        return best
    item, position = np.nonzero(value)
    # Each slot is in the sum of its row and in that of its column.
    sums = np.stack([item, len(value) + position], axis=1).ravel()
    ends = 2 * np.arange(len(item) + 1)
    matrix = sparse.csc_array((np.ones(len(sums)), sums, ends), shape=(sum(value.shape), len(item)))
    found = maximise(value[item, position], room[item, position], [Rows(matrix, high=1.0)])
    h = np.zeros_like(value)
    h[item, position] = found
    return _filled(h)


def one_hot(chosen: Ints, items: int) -> Floats:
    """The marginals of one list."""
    h = np.zeros((items, len(chosen)))
    shown = np.flatnonzero(chosen != EMPTY)
    h[chosen[shown], shown] = 1.0
    return h


def _filled(h: Floats) -> Floats:
    """More of h, until no position is free, or no item: by the north-west corner rule.

    What rows and columns lack is laid out along a line each; an item takes of a position where
    their stretches overlap.
    """
    order = np.argsort(-h.sum(axis=1), kind="stable")
    items = np.cumsum(np.maximum(1.0 - h[order].sum(axis=1), 0.0))
    positions = np.cumsum(np.maximum(1.0 - h.sum(axis=0), 0.0))
    ends = np.minimum(items[:, None], positions)
    starts = np.maximum(np.append(0.0, items[:-1])[:, None], np.append(0.0, positions[:-1]))
    more = ends - starts
    h[order] += np.where(more > TINY, more, 0.0)
    return h
