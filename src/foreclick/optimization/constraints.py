"""Constraints on a policy, and the best policy within them: the linear program of the paper.

    max Σ_g w_g c_g    with    0 ≤ c_g ≤ cap_g,  c_g ≤ H_g(v)

where v is what is chosen: the probability of each item at each position, or of each of some lists.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from foreclick.batches import EMPTY, Bools, Floats, Ints
from foreclick.errors import ForeclickError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from foreclick.optimization.context import Context

TINY = 1e-12  # Probabilities up to this come from rounding

_INFEASIBLE = 2  # a status of `milp`
_LARGEST = 1e4
# HiGHS errs by up to 1e-7, in what whole lists gain by 1e-6, whatever the scale: so it is given
# gains of up to `_LARGEST`, and probabilities in units of `_UNIT`.
_UNIT = 1e-4

# Rows of a program, low ≤ matrix · x ≤ high: a sparse matrix, and the same bounds for all rows.
_Rows = tuple[Any, float, float]


@dataclass(frozen=True)
class Constraints:
    """What a policy must keep to.

    Attributes:
        pinned: by context, the item at a position.
        banned: items that are shown nowhere.
        banned_in: by context, items that are not shown there.
        groups: items, and the least share of the slots that they get in every context which has
            any of them.
        max_change: the share of the slots that may differ from production's.
        max_lists: how many lists a context may have; None for any number.
        min_shown: how often a cell must have been shown to be used.
        fallback: whether production stays where no policy is better after pessimism.
        explore: how often production's own lists are shown instead.
    """

    pinned: Mapping[Hashable, Mapping[int, Hashable]] = field(default_factory=dict)
    banned: frozenset[Hashable] = frozenset()
    banned_in: Mapping[Hashable, frozenset[Hashable]] = field(default_factory=dict)
    groups: tuple[tuple[frozenset[Hashable], float], ...] = ()
    max_change: float | None = None
    max_lists: int | None = None
    min_shown: float = 0.0
    fallback: bool = True
    explore: float = 0.0

    @property
    def by_share(self) -> bool:
        """Whether probabilities are constrained, which only the linear program can do."""
        return bool(self.groups) or self.max_change is not None

    @property
    def by_item(self) -> bool:
        """Whether some constraint names contexts or items."""
        return bool(self.pinned or self.banned or self.banned_in or self.groups)

    def forbidden(self, context: Context, depth: int) -> Bools:
        """Shape (L, D): which items must not be where, because of what is pinned and banned."""
        forbidden = np.zeros((len(context.n), depth), dtype=np.bool_)
        banned = self.banned | self.banned_in.get(context.value, frozenset())
        if banned:
            forbidden[context.among(banned)] = True
        for position, item in self.pinned.get(context.value, {}).items():
            row = context.among({item})
            others = np.ones(len(row), dtype=np.bool_)
            others[row] = forbidden[row, position - 1]
            forbidden[row] = True
            forbidden[:, position - 1] = others
        return forbidden

    def groups_in(self, context: Context) -> tuple[tuple[Bools, float], ...]:
        """Members of each group in a context that has any, shape (L,), and their least share."""
        groups = ((context.among(items), least) for items, least in self.groups)
        return tuple((members, least) for members, least in groups if members.any())


@dataclass(frozen=True, eq=False)
class Limits:
    """What a policy must keep to in a context with L items and K positions.

    Attributes:
        forbidden: Shape (L, K): which items must not be where. A banned item is forbidden
            everywhere; of a pinned one, all else in its row and in its column is.
        groups: Each has members, shape (L,), and the least share of all slots that they get.
        near: Production's marginals, shape (L, K), and the share of slots that may differ from
            them: Σ (h − production)⁺ ≤ share · K.
        whole: One list only, all the time.
    """

    forbidden: Bools
    groups: tuple[tuple[Bools, float], ...] = ()
    near: tuple[Floats, float] | None = None
    whole: bool = False


def program(
    worth: ArrayLike,
    cap: ArrayLike,
    exposure: Any,  # noqa: ANN401 - a matrix, dense or sparse
    limits: Limits,
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
        lists: Shape (m, K): items by index, `EMPTY` (-1) for a hole.

    Returns:
        The marginals, shape (L, K), or the masses of the lists, shape (m,); None if no policy
        keeps to the limits.

    Examples:
        >>> banned = Limits(forbidden=np.array([[True, True], [False, False], [False, False]]))
        >>> slots = np.kron(np.eye(3), [1.0, 0.5])
        >>> program([3, 2, 1], np.full(3, np.inf), slots, banned).tolist()
        [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    from scipy import sparse  # noqa: PLC0415 - slow to import
    from scipy.sparse.csgraph import maximum_bipartite_matching  # noqa: PLC0415 - slow to import

    gain, most = np.asarray(worth, dtype=np.float64), np.asarray(cap, dtype=np.float64)
    capped, (items, positions) = np.isfinite(most), limits.forbidden.shape
    # The matrix that makes marginals, items before positions, of v; and rows that v keeps to.
    if lists is None:
        slots = sparse.eye_array(items * positions, format="csr")
        filled = int(np.sum(maximum_bipartite_matching(sparse.csr_array(~limits.forbidden)) >= 0))
        rows: list[_Rows] = [
            (sparse.kron(sparse.eye_array(items), np.ones((1, positions))), -np.inf, 1.0),
            (sparse.kron(np.ones((1, items)), sparse.eye_array(positions)), -np.inf, 1.0),
            (sparse.csr_array(np.ones((1, items * positions))), filled, filled),
        ]
    else:
        which, position = np.nonzero(lists != EMPTY)
        slot, size = lists[which, position] * positions + position, (items * positions, len(lists))
        slots = sparse.csr_array((np.ones(len(slot)), (slot, which)), shape=size)
        rows = [(sparse.csr_array(np.ones((1, len(lists)))), 1.0, 1.0)]
    for members, least in limits.groups:
        theirs = sparse.csr_array(np.repeat(members, positions)[None].astype(np.float64))
        rows.append((theirs @ slots, least * positions, np.inf))
    exposed, chosen = sparse.csr_array(exposure), slots.shape[1]
    worthy = np.flatnonzero(capped & (gain > 0) & (most > 0))
    counted, earned, caps = exposed[worthy], gain[worthy], most[worthy]
    if limits.near is not None:
        # Slots that stay as in production, min(h, π), are cells with a cap too, and earn nothing.
        shown = np.flatnonzero(limits.near[0])
        counted = sparse.vstack([counted, slots[shown]])
        earned = np.append(earned, np.zeros(len(shown)))
        caps = np.append(caps, limits.near[0].ravel()[shown])
    for number, (matrix, low, high) in enumerate(rows):
        none = sparse.csr_array((matrix.shape[0], len(caps)))
        rows[number] = sparse.hstack([matrix, none]), low, high
    rows.insert(0, (sparse.hstack([counted, -sparse.eye_array(len(caps))]), 0.0, np.inf))
    if limits.near is not None:
        stay = np.arange(len(caps)) >= len(worthy)
        differ = np.append(slots.sum(axis=0), np.where(stay, -1.0, 0.0))
        rows.append((sparse.csr_array(differ[None]), -np.inf, limits.near[1] * positions))
    x = maximise(
        np.append(gain[~capped] @ exposed[np.flatnonzero(~capped)], earned),
        np.append(np.where(slots.T @ limits.forbidden.ravel() > 0, 0.0, 1.0), caps),
        rows,
        whole=chosen if limits.whole else 0,
    )
    if x is None:
        return None
    return x[:chosen].reshape(items, positions) if lists is None else x[:chosen]


def maximise(gain: Floats, top: Floats, rows: list[_Rows], whole: int = 0) -> Floats | None:
    """The x from 0 to `top` for which gain · x is largest, or None if none keeps to the rows.

    The first `whole` numbers of x are whole.
    """
    from scipy import sparse  # noqa: PLC0415 - slow to import
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - slow to import

    unit = 1.0 if whole else _UNIT
    heights = [matrix.shape[0] for matrix, _, _ in rows]
    low, high = np.repeat([(low, high) for _, low, high in rows], heights, axis=0).T / unit
    found = milp(
        gain * (-_LARGEST / (float(np.abs(gain).max(initial=0.0)) or 1.0)),
        integrality=(np.arange(len(gain)) < whole).astype(np.int64),
        bounds=Bounds(0.0, top / unit),
        constraints=LinearConstraint(
            sparse.vstack([matrix for matrix, _, _ in rows], format="csc"), low, high
        ),
        # Programs are small: solving them at once is faster than making them smaller first.
        options={"mip_rel_gap": 0.0, "presolve": whole > 0},
    )
    if found.status == _INFEASIBLE:
        return None
    if found.x is None:
        raise ForeclickError(f"HiGHS found no policy: {found.message}")
    x = np.clip(found.x * unit, 0.0, top)
    x[:whole] = np.round(x[:whole])
    return np.where(x > TINY, x, 0.0)
