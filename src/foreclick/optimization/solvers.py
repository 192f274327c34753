"""The list, or the policy, of one context that is worth most, and the lists of a policy.

What is chosen is the probability h of every item at every position, or of every list of the log.
By the paper (Li et al., KDD 2018, section 4.3) a policy is worth

    Σ_g rate_g c_g,    c_g ≤ H_g,    c_g ≤ M P_g,

where H_g is how much h exposes a cell, and P_g how much the log did. Where neither clips nor limits
bind, the best policy is one list, an assignment of items to positions; or one of the logged lists.
Otherwise lists fill up by falling rate, and slots are a linear program. All positions are filled
whenever there are items enough.

References:
    G. Birkhoff, "Tres observaciones sobre el algebra lineal", Univ. Nac. Tucumán Rev. A 5 (1946):
    from marginals to lists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foreclick.batches import EMPTY, Bools, Floats, Ints, sums
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
class Cells:
    """What shares a click rate in a context, and which choices expose it.

    There are V choices: items at positions (items before positions), or lists of the log; and G
    cells, those of the click model. Where records have propensities of their own, a cell is made
    of cells, one for each propensity.

    Attributes:
        choice, cell, exposure: Shape (J,): a choice, what it exposes, and how much.
        rate: Shape (G,): what a unit of exposure is estimated to earn.
        sure: Shape (G,): the same after pessimism.
        cap: Shape (G,): M P_g; more exposure than that is not counted.
        void: Shape (G,): whether the log has clicks of what the logging policy never shows, of
            which no estimate can be made.
    """

    choice: Ints
    cell: Ints
    exposure: Floats
    rate: Floats
    sure: Floats
    cap: Floats
    void: Bools

    @classmethod
    def of_choices(cls, rate: Floats, sure: Floats) -> Cells:
        """Every choice a cell of its own, without clips."""
        each, ones = np.arange(len(rate)), np.ones(len(rate))
        return cls(each, each, ones, rate, sure, ones * np.inf, ones < 0)

    def credited(self, h: Floats) -> Floats:
        """Shape (G,): c_g, how much exposure by probabilities h, shape (V,), is counted."""
        exposed = sums(self.cell, self.exposure * h[self.choice], len(self.cap))
        return np.minimum(exposed, self.cap)

    def gains(self, count: int, *, capped: bool) -> Floats:
        """Shape (V,): what each of the choices is worth alone, if it is all that is shown.

        Args:
            count: V.
            capped: by what is counted of it; otherwise all is counted, and the gain of a mix of
                choices is at most the mean of their gains.
        """
        counted = self.exposure
        if capped:
            counted = np.minimum(counted, self.cap[self.cell])
        return sums(self.choice, self.sure[self.cell] * counted, count)


@dataclass(frozen=True, eq=False)
class Limits:
    """What the policy of a context with L items and K positions must keep to.

    Attributes:
        forbidden: Shape (L, K): which items must not be where. A banned item is forbidden
            everywhere; of a pinned one, all else in its row and in its column is. Of lists, shape
            (V,), which must not be shown.
        near: Production's marginals, shape (L, K), and the share of slots that may differ from
            them: Σ (h − production)⁺ ≤ share · K.
        whole: One list only, all the time.
        lists: Shape (V, K): the lists that are chosen of; None: items at positions.
    """

    forbidden: Bools
    near: tuple[Floats, float]
    whole: bool = False
    lists: Ints | None = None

    def kept(self, h: Floats) -> bool:
        """Whether probabilities of choices, shape (V,), are near enough to production."""
        production, change = self.near
        if self.lists is not None:
            h = marginals(self.lists, h, len(production))
        new = np.maximum(h.reshape(production.shape) - production, 0.0)
        return bool(new.sum() <= change * production.shape[1] + _ROUNDED)

    def one(self, gains: Floats) -> Floats:
        """Shape (V,): the choices of the one list that gains most, whatever production shows."""
        if self.lists is not None:
            h = np.zeros(len(gains))
            h[np.where(self.forbidden, -np.inf, gains).argmax()] = 1.0
            return h
        allowed = ~self.forbidden if self.forbidden.any() else None
        best = assign(gains.reshape(self.forbidden.shape), allowed)
        return marginals(best[None], np.ones(1), len(self.forbidden)).ravel()


def best_choices(cells: Cells, limits: Limits, enough: float = -math.inf) -> Floats | None:
    """The probabilities of choices that are worth most within limits.

    Args:
        cells: What choices are worth.
        limits: What they must keep to.
        enough: If nothing is worth more than this, what is found may break limits.

    Returns:
        Shape (V,); None if nothing keeps to the limits.

    Examples:
        >>> cells = Cells.of_choices(np.zeros(6), np.array([3, 1.5, 2, 1, 1, 0.5]))
        >>> banned = np.array([[True, True], [False, False], [False, False]])
        >>> best_choices(cells, Limits(banned, near=(0.5 * ~banned, 1.0))).tolist()
        [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    """
    by_list = limits.lists is not None
    if by_list and limits.forbidden.all():
        return None
    gains = cells.gains(limits.forbidden.size, capped=limits.whole)
    h = limits.one(gains)
    worth, most = float(cells.sure @ cells.credited(h)), float(gains @ h)
    if most <= enough or (limits.kept(h) and math.isclose(worth, most, abs_tol=TINY)):
        return h
    sorts = by_list and not limits.whole and len(cells.cap) == len(h)
    if sorts and limits.kept(h := filled_up(cells, ~limits.forbidden)):
        return h
    return program(cells, limits)


def filled_up(cells: Cells, allowed: Bools) -> Floats:
    """The probabilities of lists, each a cell of its own, by falling rate, as far as each counts.

    What is left when all are full goes to the best one.

    Examples:
        >>> each, nothing = np.arange(3), np.zeros(3)
        >>> sure, cap = np.array([0.2, 0.5, 0.1]), np.array([0.6, 0.7, 0.9])
        >>> cells = Cells(each, each, nothing + 1, sure, sure, cap, nothing > 0)
        >>> filled_up(cells, each >= 0).round(9).tolist()
        [0.3, 0.7, 0.0]
    """
    order = np.argsort(np.where(allowed, -cells.sure, np.inf), kind="stable")
    given = np.minimum(np.cumsum(np.where(allowed, cells.cap, 0.0)[order]), 1.0)
    h = np.zeros(len(order))
    h[order] = np.diff(given, prepend=0.0)
    h[order[0]] += 1.0 - given[-1]
    return h


def program(cells: Cells, limits: Limits) -> Floats | None:
    """As `best_choices`, by a linear program, whatever the limits and caps."""
    from scipy import sparse  # noqa: PLC0415 - slow to import
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - slow to import

    filled, most = _filled(limits)
    (production, change), count = limits.near, limits.forbidden.size
    items, positions = production.shape
    whole, unit = (count, 1.0) if limits.whole else (0, _UNIT)
    # Numbers of their own are the slots that stay as in production, min(h, π), and what is counted
    # of cells. A list that is shown all the time exposes a cell once: what it gains is known.
    shown = np.flatnonzero(production * (change < 1))
    capped = np.flatnonzero(np.isfinite(cells.cap) & (not limits.whole))
    at, shape = (cells.cell, cells.choice), (len(cells.cap), count)
    exposed = sparse.csr_array((cells.exposure, at), shape=shape)[capped]
    cap = np.minimum(cells.cap[capped], exposed.sum(axis=1))
    gains = np.zeros(count) if len(capped) else cells.gains(count, capped=limits.whole)
    gain = np.concatenate([gains, np.zeros(len(shown)), cells.sure[capped]])
    allowed = np.where(limits.forbidden.ravel(), 0.0, 1.0)
    top = np.concatenate([allowed, production.ravel()[shown], cap])
    by_item = sparse.kron(sparse.eye_array(items), np.ones((1, positions))) @ filled
    by_position = sparse.kron(np.ones((1, items)), sparse.eye_array(positions)) @ filled
    every, stay = filled.sum(axis=0)[None], -np.ones((1, len(shown)))
    rows: list[tuple[Any, Any, Any, float, float]] = [  # low ≤ matrix · x ≤ high
        (by_item, None, None, -np.inf, 1.0),
        (by_position, None, None, -np.inf, 1.0),
        (np.ones((1, count)), None, None, most, most),
        (filled[shown], -sparse.eye_array(len(shown)), None, 0.0, np.inf),
        (every, stay, None, -np.inf, change * positions),
        (exposed, None, -sparse.eye_array(len(cap)), 0.0, np.inf),
    ]
    low, high = np.repeat([row[3:] for row in rows], [row[0].shape[0] for row in rows], axis=0).T
    matrix = sparse.block_array([row[:3] for row in rows], format="csc")
    solution = milp(
        gain * (-_LARGEST / (float(np.abs(gain).max(initial=0.0)) or 1.0)),
        integrality=(np.arange(len(gain)) < whole).astype(np.int64),
        bounds=Bounds(0.0, top / unit),
        constraints=LinearConstraint(matrix, low / unit, high / unit),
        # Programs are small: solving them at once is faster than making them smaller first.
        options={"mip_rel_gap": 0.0, "presolve": whole > 0},
    )
    if solution.status == _INFEASIBLE:
        return None
    if solution.x is None:
        raise ForeclickError(f"HiGHS found no policy: {solution.message}")
    x = np.clip(solution.x * unit, 0.0, top)[:count]
    x = np.round(x) if limits.whole else x
    return np.where(x > TINY, x, 0.0)


def _filled(limits: Limits) -> tuple[Any, int]:
    """The slots that each choice fills, shape (L · K, V); and how many choices a list is made of.

    As many positions are filled as the forbidden slots allow.
    """
    from scipy import sparse  # noqa: PLC0415 - slow to import

    (items, positions), lists = limits.near[0].shape, limits.lists
    slots = items * positions
    if lists is None:
        fullest = assign(np.zeros((items, positions)), ~limits.forbidden)
        return sparse.eye_array(slots, format="csr"), int(np.sum(fullest != EMPTY))
    which, position = np.nonzero(lists != EMPTY)
    at = lists[which, position] * positions + position, which
    return sparse.csr_array((np.ones(len(which)), at), shape=(slots, len(lists))), 1


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
