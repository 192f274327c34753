"""The best policy of one context, from its counts.

The estimate of a policy is Σ_g w_g min(H_g, cap_g): w_g is the click rate of cell g, H_g how much
the policy exposes it, and cap_g = M · P_g as much as the log vouches for; the ladder has no caps.
`solvers` finds the best policy without further constraints, `program` within them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Bools, Floats, Ints, ratio, sums
from foreclick.optimization import CHANGED, IMPOSSIBLE, UNSURE, solvers
from foreclick.optimization.constraints import Constraints, Limits, program
from foreclick.optimization.rates import LadderRates, Rates
from foreclick.optimization.solvers import assign, decode, marginals

# How much more an error of what contexts share weighs than one of clicks: it harms many of them at
# once, where errors of clicks average out.
SHARED = 2.0

_TINY = 1e-9


class ListCounts(NamedTuple):
    """The lists of a context, and what the log has of them.

    Attributes:
        items: Shape (M, D): items by number, `EMPTY` where nothing is shown.
        n: Shape (M,): how often each was shown.
        c: Shape (M, D): its clicks.
        offered: Shape (M,): which of them may be chosen; the others only tell of clicks.
    """

    items: Ints
    n: Floats
    c: Floats
    offered: Bools


class Context(NamedTuple):
    """One context: L items at K positions.

    Attributes:
        n: Shape (L, K): how often each item was shown at each position.
        c: Shape (L, K): its clicks there.
        records: how many there are.
        rates: click rates of its items by the ladder; None without one.
        lists: those to choose from; None for every order of the items.
        value: the context itself, where constraints name contexts or items.
        items: L values, likewise.
    """

    n: Floats
    c: Floats
    records: float
    rates: Rates | None = None
    lists: ListCounts | None = None
    value: Hashable = None
    items: Sequence[Hashable] = ()

    def among(self, items: Collection[Hashable]) -> Bools:
        """Shape (L,): which of its items are among these."""
        return np.fromiter((item in items for item in self.items), np.bool_, len(self.items))


class Choice(NamedTuple):
    """The policy of a context.

    Attributes:
        lists: Shape (m, D): items by number; none if production stays.
        masses: Shape (m,): their probabilities.
        production: what production earns.
        naive: what the estimate says of the policy.
        sure: the same after pessimism.
        why: `CHANGED`, or why production stays.
    """

    lists: Ints
    masses: Floats
    production: float
    naive: float
    sure: float
    why: str = CHANGED


class Cells(NamedTuple):
    """The cells of one context, and how slots (items before positions) or lists expose them.

    Attributes:
        worth: Shape (G,): what a unit of exposure earns, after pessimism.
        rate: Shape (G,): the same before it.
        cap: Shape (G,): how much exposure counts.
        cell: Shape (E,): a cell that is exposed.
        choice: Shape (E,): by which slot or list. Each slot exposes one cell; slots are in order.
        amount: Shape (E,): by how much.
        size: V, how many slots or lists there are.
    """

    worth: Floats
    rate: Floats
    cap: Floats
    cell: Ints
    choice: Ints
    amount: Floats
    size: int

    def earned(self, v: Floats, what: Floats) -> float:
        """Σ what min(H, cap), for probabilities v of slots or of lists."""
        exposed = sums(self.cell, self.amount * v[self.choice], len(self.worth))
        return float(what @ np.minimum(exposed, self.cap))

    def alone(self) -> Floats:
        """Shape (V,): what each slot, or each list, earns in a policy that is one list."""
        counted = self.worth[self.cell] * np.minimum(self.amount, self.cap[self.cell])
        return sums(self.choice, counted, self.size)

    def matrix(self) -> Any:  # noqa: ANN401 - sparse
        """Shape (G, V): the exposure."""
        from scipy import sparse  # noqa: PLC0415 - slow to import

        shape = len(self.worth), self.size
        return sparse.csr_array((self.amount, (self.cell, self.choice)), shape=shape)

    def of_lists(self, lists: Ints) -> Cells:
        """The same cells, exposed by lists (m, D) instead of slots."""
        which, position = np.nonzero(lists != EMPTY)
        slot = lists[which, position] * lists.shape[1] + position
        return Cells(*self[:3], self.cell[slot], which, self.amount[slot], len(lists))


@dataclass(frozen=True, eq=False)
class Solver:
    """Finds the best policy of a context.

    Attributes:
        cell: of the estimator that policies are chosen by: "list", "prefix", "item" or "ip".
        theta: Shape (D,): θ_1, θ_2, …, as deep as lists are made.
        q: Shape (D,): how much each position exposes an item, θ_k p_k.
        clip: M.
        ladder: the ladder's rates; None for an estimator of the paper.
        pessimism: by how many standard errors rates are lowered; a ladder's by as many clicks too,
            as those of a few lucky records are known to no standard error.
        constraints: what policies must keep to.
    """

    cell: str
    theta: Floats
    q: Floats
    clip: float
    ladder: LadderRates | None
    pessimism: float
    constraints: Constraints

    def cells(self, context: Context) -> Cells:
        """The cells of a context, exposed by its lists if it has some to choose from."""
        depth, lists = len(self.theta), context.lists
        n, c = context.n[:, :depth].ravel(), context.c[:, :depth].ravel()
        slot, theta = np.arange(len(n)), np.tile(self.theta, len(context.n))
        if context.rates is not None:
            rate, variance, step = (of[:, :depth].ravel() for of in context.rates[:3])
            worth = theta * (rate - self.pessimism * (np.sqrt(variance) + step))
            free, one = np.full(len(n), math.inf), np.ones(len(n))
            cells = Cells(worth, rate * theta, free, slot, slot, one, len(n))
            return cells if lists is None else cells.of_lists(lists.items)
        if self.cell in ("ip", "item"):
            cell = of_click = slot if self.cell == "ip" else slot // depth
            choice, amount = slot, np.tile(self.q, len(context.n))
        elif lists is not None and self.cell == "list":
            cell = choice = np.arange(len(lists.n))
            n, c, amount = lists.n, lists.c.ravel(), np.ones(len(cell))
            of_click, theta = np.repeat(cell, depth), np.tile(self.theta, len(cell))
        else:  # prefixes: an item below the same items; lists that share them are neighbours
            assert lists is not None  # noqa: S101 - prefixes are those of lists
            new = np.ones(lists.items.shape, dtype=np.bool_)
            new[1:] = lists.items[1:] != lists.items[:-1]
            number = np.cumsum(np.logical_or.accumulate(new, axis=1), axis=0)
            choice, k = np.nonzero(lists.items != EMPTY)
            cell = np.unique(k * (len(new) + 1) + number[choice, k], return_inverse=True)[1]
            n, c, of_click = lists.n, lists.c[choice, k], cell
            theta = amount = self.theta[k]
        count = int(cell.max(initial=-1)) + 1
        exposed = sums(cell, amount * n[choice], count)
        rate = ratio(sums(of_click, c * theta, count), exposed)
        se = ratio(np.sqrt(sums(of_click, c * theta**2, count)), exposed)
        # What is worth less than nothing is worth nothing: it need not be shown to be counted.
        worth, seen = np.maximum(rate - self.pessimism * se, 0.0), exposed > 0
        cap = np.where(seen, self.clip * np.where(seen, exposed, 1.0) / context.records, 0.0)
        cells = Cells(worth, rate, cap, cell, choice, amount, len(n))
        return cells.of_lists(lists.items) if lists and self.cell in ("ip", "item") else cells

    def best(self, context: Context) -> Choice:
        """The best policy of a context, or that production stays."""
        rules, depth = self.constraints, len(self.theta)
        shown = context.n[:, :depth]
        production = float(np.sum(context.c[:, :depth] @ self.theta)) / context.records
        stays = Choice(np.empty((0, depth), np.int64), np.empty(0), *(production,) * 3, IMPOSSIBLE)
        cells, forbidden = self.cells(context), rules.forbidden(context, depth)
        groups, near = rules.groups_in(context), None
        # Production may stay if it keeps to the constraints itself.
        may_stay = rules.fallback and not shown[forbidden].any()
        for members, least in groups:
            may_stay &= bool(shown[members].sum() >= least * shown.sum() - _TINY)
        if rules.min_shown and self.cell in ("ip", "item"):  # of lists, the lists are counted
            often = shown if self.cell == "ip" else shown.sum(axis=1, keepdims=True)
            forbidden = forbidden | (often < rules.min_shown)
        if rules.max_change is not None:
            near = shown / context.records, rules.max_change
        limits = Limits(forbidden, groups, near, whole=rules.max_lists == 1)
        if context.lists is not None:
            policy = self._of_lists(context.value, context.lists, cells, limits)
        else:
            bound = self._bound(cells, limits) if rules.by_share else math.inf
            if bound is not None and may_stay and bound <= production + _TINY:
                return stays._replace(why=UNSURE)
            policy = None if bound is None else self._of_slots(cells, limits)
        if policy is None or self._too_short(context, policy[0]):
            return stays
        lists, masses, v = policy
        naive, sure = cells.earned(v, cells.rate), cells.earned(v, cells.worth)
        if self.ladder and context.rates and not (may_stay and sure <= production + _TINY):
            h = np.zeros(context.n.shape)
            h[:, :depth] = marginals(lists, masses, len(h)) * self.theta
            error = SHARED * self.ladder.se(context.rates.by_shared.of_items(h))
            sure = min(sure, naive - self.pessimism * error)
        if may_stay and sure <= production + _TINY:
            return stays._replace(why=UNSURE)
        return Choice(lists, masses, production, naive, sure)

    def _too_short(self, context: Context, lists: Ints) -> bool:
        """Whether lists have holes that production has not, for want of what was seen."""
        most = min(lists.shape[1], len(context.n))
        full = context.n[:, :most].sum(axis=0) >= context.records - _TINY
        return bool(full.all() and np.any(np.sum(lists != EMPTY, axis=1) < most))

    def _bound(self, cells: Cells, limits: Limits) -> float | None:
        """What no order of the items within limits is worth more than; None if none is within them.

        It is found a hundred times faster than a program is solved, and mostly says enough.
        """
        shape, allowed = limits.forbidden.shape, ~limits.forbidden
        if limits.whole and limits.near is not None:
            shown, change = limits.near
            nearest = marginals(assign(shown, allowed)[None], np.ones(1), shape[0])
            if np.sum(nearest * (1 - shown)) > change * shape[1] + _TINY:
                return None
        gain = (cells.worth[cells.cell] * cells.amount).reshape(shape)
        best = marginals(assign(gain, allowed)[None], np.ones(1), shape[0])
        return float(np.sum(best * gain))

    def _of_slots(self, cells: Cells, limits: Limits) -> tuple[Ints, Floats, Floats] | None:
        """Of every order of the items: lists, their masses, and the probabilities of slots."""
        rules, forbidden = self.constraints, limits.forbidden
        shape, capped = forbidden.shape, math.isfinite(self.clip)
        if rules.by_share or (forbidden.any() and capped and not limits.whole):
            h = program(cells.worth, cells.cap, cells.matrix(), limits)
        elif limits.whole or not capped:
            allowed = ~forbidden if forbidden.any() else None
            lists, masses = assign(cells.alone().reshape(shape), allowed)[None], np.ones(1)
            return lists, masses, marginals(lists, masses, len(forbidden)).ravel()
        elif self.cell == "ip":
            q = cells.amount
            h = solvers.transport(
                (cells.worth * q).reshape(shape), ratio(cells.cap, q).reshape(shape)
            )
        else:
            h = solvers.to_marginals(solvers.greedy(cells.worth, cells.cap, self.q), self.q)
        if h is None:
            return None
        lists, masses = decode(h)
        if rules.max_lists is not None and len(lists) > rules.max_lists:
            lists, masses = lists[: rules.max_lists], masses[: rules.max_lists]
            if rules.by_share or forbidden.any():
                each = cells.of_lists(lists).matrix()
                again = program(cells.worth, cells.cap, each, limits, lists)
                if again is None:
                    return None
                lists, masses = lists[again > 0], again[again > 0]
            masses = masses / masses.sum()
        return lists, masses, marginals(lists, masses, len(forbidden)).ravel()

    def _of_lists(
        self, value: Hashable, given: ListCounts, cells: Cells, limits: Limits
    ) -> tuple[Ints, Floats, Floats] | None:
        """Of the given lists: those chosen, their masses, and the probabilities of all of them."""
        rules, (lists, n, _, offered) = self.constraints, given
        filled = lists != EMPTY
        bad = filled & limits.forbidden[lists, np.arange(lists.shape[1])]
        free = offered & ~bad.any(axis=1)
        for position in rules.pinned.get(value, {}):  # all else is forbidden there
            free &= filled[:, position - 1]
        if self.cell in ("list", "prefix"):
            free &= n >= rules.min_shown
        some = np.flatnonzero(free)
        if not len(some):
            return None
        masses: Floats | None
        if not rules.by_share and (limits.whole or math.isinf(self.clip)):
            masses = np.zeros(len(some))
            masses[np.argmax(cells.alone()[some])] = 1.0
        elif not rules.by_share and self.cell == "list":
            masses = solvers.knapsack(cells.worth[some], cells.cap[some])
        else:
            each = cells.matrix()[:, some]
            masses = program(cells.worth, cells.cap, each, limits, lists[some])
        if masses is None:
            return None
        order = np.argsort(-masses, kind="stable")
        order = order[masses[order] > 0][: rules.max_lists]
        v = np.zeros(len(lists))
        v[some[order]] = masses[order] / masses[order].sum()
        return lists[some[order]], v[some[order]], v
