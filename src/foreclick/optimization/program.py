"""Policies that maximise an estimate within limits: the linear program of the paper.

    max Σ_g w_g c_g    with    0 ≤ c_g ≤ cap_g,  c_g ≤ H_g(v)

where v is what is chosen: the probability of each item at each position, or of each of some lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import maximum_bipartite_matching

from foreclick.batches import EMPTY, Bools, Floats, Ints
from foreclick.optimization.constraints import Limits
from foreclick.optimization.highs import Rows, maximise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike


def program(
    worth: ArrayLike,
    cap: ArrayLike,
    exposure: Any,  # noqa: ANN401 - a matrix, dense or sparse
    limits: Limits,
    shape: tuple[int, int],
    lists: Ints | None = None,
) -> Floats | None:
    """The policy that is worth most within limits.

    What is chosen, v, is the probability of every item at every position (as many positions are
    filled as the forbidden slots allow), or of every list if some are given.

    Args:
        worth: Shape (G,): what a unit of a cell's exposure earns; negative only without a cap.
        cap: Shape (G,): how much of a cell's exposure counts; may be infinite.
        exposure: Shape (G, V): how much v exposes each cell. V is L · K, items before positions,
            or the number of lists.
        limits: What the policy must keep to.
        shape: L and K.
        lists: Shape (m, K): items by index, `EMPTY` (-1) for a hole.

    Returns:
        The marginals, shape (L, K), or the masses of the lists, shape (m,); None if no policy
        keeps to the limits.

    Raises:
        ValueError: A cell with a cap has negative worth: the less of it, the better, but only up
            to a point, which is no linear program.

    Examples:
        >>> banned = Limits(forbidden=np.array([[True, True], [False, False], [False, False]]))
        >>> slots = np.kron(np.eye(3), [1.0, 0.5])
        >>> program([3, 2, 1], np.full(3, np.inf), slots, banned, (3, 2)).tolist()
        [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    gain, most = np.asarray(worth, dtype=np.float64), np.asarray(cap, dtype=np.float64)
    capped = np.isfinite(most)
    if np.any(gain[capped] < 0):
        raise ValueError(
            f"{np.sum(gain[capped] < 0)} cells with a cap have negative worth, for example "
            f"{gain[capped].min():.6g}; cells may be worth less than nothing only without a cap"
        )
    exposed, slots = sparse.csr_array(exposure), _slots(shape, lists)
    free = exposed[np.flatnonzero(~capped)]
    worthy = np.flatnonzero(capped & (gain > 0) & (most > 0))
    counted, earned, caps = exposed[worthy], gain[worthy], most[worthy]
    if limits.near is not None:
        # Slots that stay as in production, min(h, π), are cells with a cap too, and earn nothing.
        shown = np.flatnonzero(limits.near[0])
        counted = sparse.vstack([counted, slots[shown]])
        earned = np.append(earned, np.zeros(len(shown)))
        caps = np.append(caps, limits.near[0].ravel()[shown])
    chosen, cells = slots.shape[1], len(caps)
    rows = [Rows(sparse.hstack([counted, -sparse.eye_array(cells)]), low=0.0)]
    for part in (*_policies(shape, lists, limits.forbidden), *_shares(shape, slots, limits)):
        wide = sparse.hstack([part.matrix, sparse.csr_array((part.matrix.shape[0], cells))])
        rows.append(part._replace(matrix=wide))
    if limits.near is not None:
        stay = np.arange(cells) >= cells - len(shown)
        differ = np.append(slots.sum(axis=0), np.where(stay, -1.0, 0.0))
        rows.append(Rows(sparse.csr_array(differ[None]), high=limits.near[1] * shape[1]))
    found = maximise(
        np.append(gain[~capped] @ free, earned),
        np.append(_most(slots, limits.forbidden), caps),
        rows,
        whole=chosen if limits.whole else 0,
    )
    if found is None:
        return None
    return found[:chosen].reshape(shape) if lists is None else found[:chosen]


def _slots(shape: tuple[int, int], lists: Ints | None) -> Any:  # noqa: ANN401 - sparse
    """The matrix that makes marginals, items before positions, of what is chosen."""
    if lists is None:
        return sparse.eye_array(shape[0] * shape[1], format="csr")
    which, position = np.nonzero(lists != EMPTY)
    slot = lists[which, position] * shape[1] + position
    size = (shape[0] * shape[1], len(lists))
    return sparse.csr_array((np.ones(len(slot)), (slot, which)), shape=size)


def _most(slots: Any, forbidden: Bools | None) -> Floats:  # noqa: ANN401 - sparse
    """How much may be chosen of each: nothing of what has a forbidden slot."""
    if forbidden is None:
        return np.ones(slots.shape[1])
    return np.where(slots.T @ forbidden.ravel() > 0, 0.0, 1.0)


def _policies(
    shape: tuple[int, int], lists: Ints | None, forbidden: Bools | None
) -> Iterator[Rows]:
    """What makes a policy of probabilities."""
    if lists is not None:
        yield Rows(sparse.csr_array(np.ones((1, len(lists)))), 1.0, 1.0)
        return
    items, positions = shape
    yield Rows(sparse.kron(sparse.eye_array(items), np.ones((1, positions))), high=1.0)
    yield Rows(sparse.kron(np.ones((1, items)), sparse.eye_array(positions)), high=1.0)
    filled = min(shape)
    if forbidden is not None:
        matched = maximum_bipartite_matching(sparse.csr_array(~forbidden))
        filled = int(np.sum(matched >= 0))
    yield Rows(sparse.csr_array(np.ones((1, items * positions))), filled, filled)


def _shares(shape: tuple[int, int], slots: Any, limits: Limits) -> Iterator[Rows]:  # noqa: ANN401
    """What groups of items get of all exposure."""
    exposure = np.ones(shape[1]) if limits.exposure is None else limits.exposure
    for members, least in limits.groups:
        seen = sparse.csr_array(np.outer(members, exposure).reshape(1, -1))
        yield Rows(seen @ slots, low=least * float(exposure.sum()))
