"""The best policy of one context, from its counts, within constraints.

What a policy is worth is linear in the probability of each item at each position, or of each list:
the click rate of the cell, times how much the cell is exposed, lowered by its errors.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Bools, Floats, Ints, ratio, sums
from foreclick.optimization import CHANGED, IMPOSSIBLE, UNSURE
from foreclick.optimization.rates import ItemRates, LadderRates
from foreclick.optimization.solvers import Limits, assign, decode, marginals, program

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
    rates: ItemRates | None = None
    lists: ListCounts | None = None
    value: Hashable = None
    items: Sequence[Hashable] = ()

    def among(self, items: Collection[Hashable]) -> Bools:
        """Shape (L,): which of its items are among these."""
        return np.fromiter((item in items for item in self.items), np.bool_, len(self.items))


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
        deterministic: whether a context has one list.
        min_shown: how often a cell must have been shown to be used.
        fallback: whether production stays where no policy is better after pessimism.
    """

    pinned: Mapping[Hashable, Mapping[int, Hashable]] = field(default_factory=dict)
    banned: frozenset[Hashable] = frozenset()
    banned_in: Mapping[Hashable, frozenset[Hashable]] = field(default_factory=dict)
    groups: tuple[tuple[frozenset[Hashable], float], ...] = ()
    max_change: float | None = None
    deterministic: bool = False
    min_shown: float = 0.0
    fallback: bool = True

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


class BestPolicy(NamedTuple):
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


@dataclass(frozen=True, eq=False)
class Solver:
    """Finds the best policy of a context.

    Attributes:
        cell: of the estimator that policies are chosen by: "list", "item" or "ip".
        theta: Shape (D,): θ_1, θ_2, …, as deep as lists are made.
        q: Shape (D,): how much each position exposes an item, θ_k p_k.
        ladder: the ladder's rates; None for an estimator of the paper.
        pessimism: by how many standard errors rates are lowered; a ladder's by as many clicks too,
            as those of a few lucky records are known to no standard error.
        constraints: what policies must keep to.
    """

    cell: str
    theta: Floats
    q: Floats
    ladder: LadderRates | None
    pessimism: float
    constraints: Constraints

    def values(self, context: Context) -> tuple[Floats, Floats]:
        """What each slot (items before positions), or each list, is worth and is estimated to earn.

        Returns:
            Shape (V,): after pessimism; and before it.
        """
        depth, lists = len(self.theta), context.lists
        theta = np.tile(self.theta, len(context.n))
        if context.rates is not None:
            rate, variance, step = (of[:, :depth].ravel() for of in context.rates[:3])
            worth = theta * (rate - self.pessimism * (np.sqrt(variance) + step))
            rate = rate * theta
        elif lists is not None and self.cell == "list":
            rate, se = ratio(lists.c @ self.theta, lists.n), np.sqrt(lists.c @ self.theta**2)
            return np.maximum(rate - self.pessimism * ratio(se, lists.n), 0.0), rate
        else:
            n, c = context.n[:, :depth].ravel(), context.c[:, :depth].ravel()
            cell = np.arange(len(n)) if self.cell == "ip" else np.arange(len(n)) // depth
            count, amount = int(cell.max(initial=-1)) + 1, np.tile(self.q, len(context.n))
            exposed = sums(cell, amount * n, count)
            rate = ratio(sums(cell, c * theta, count), exposed)
            se = ratio(np.sqrt(sums(cell, c * theta**2, count)), exposed)
            # What is worth less than nothing is worth nothing: it need not be shown to be counted.
            worth = np.maximum(rate - self.pessimism * se, 0.0)[cell] * amount
            rate = rate[cell] * amount
        if lists is None:
            return worth, rate
        which, position = np.nonzero(lists.items != EMPTY)
        slot = lists.items[which, position] * depth + position
        size = len(lists.items)
        return sums(which, worth[slot], size), sums(which, rate[slot], size)

    def best(self, context: Context) -> BestPolicy:
        """The best policy of a context, or that production stays."""
        rules, depth = self.constraints, len(self.theta)
        shown = context.n[:, :depth]
        production = float(np.sum(context.c[:, :depth] @ self.theta)) / context.records
        stays = BestPolicy(
            np.empty((0, depth), np.int64), np.empty(0), *(production,) * 3, IMPOSSIBLE
        )
        (worth, rate), forbidden = self.values(context), rules.forbidden(context, depth)
        groups, near = rules.groups_in(context), None
        # Production may stay if it keeps to the constraints itself.
        may_stay = rules.fallback and not shown[forbidden].any()
        for members, least in groups:
            may_stay &= bool(shown[members].sum() >= least * shown.sum() - _TINY)
        if rules.min_shown and self.cell != "list":  # of lists, the lists are counted
            often = shown if self.cell == "ip" else shown.sum(axis=1, keepdims=True)
            forbidden = forbidden | (often < rules.min_shown)
        if rules.max_change is not None:
            near = shown / context.records, rules.max_change
        limits = Limits(forbidden, groups, near, whole=rules.deterministic)
        if context.lists is not None:
            policy = self._of_lists(context.value, context.lists, worth, limits)
        elif rules.by_share:
            bound = self._bound(worth, limits)
            if bound is not None and may_stay and bound <= production + _TINY:
                return stays._replace(why=UNSURE)
            h = None if bound is None else program(worth, limits)
            policy = None if h is None else decode(h)
        else:
            allowed = ~forbidden if forbidden.any() else None
            policy = assign(worth.reshape(forbidden.shape), allowed)[None], np.ones(1)
        if policy is None or self._too_short(context, policy[0]):
            return stays
        lists, masses = policy
        h = marginals(lists, masses, len(forbidden))
        v = h.ravel()
        if context.lists is not None:  # which of them were chosen
            same = (context.lists.items[:, None] == lists).all(axis=2)
            v = same @ masses
        naive, sure = float(rate @ v), float(worth @ v)
        if self.ladder and context.rates and not (may_stay and sure <= production + _TINY):
            weight = np.zeros(context.n.shape)
            weight[:, :depth] = h * self.theta
            error = SHARED * self.ladder.se(context.rates.by_shared.of_items(weight))
            sure = min(sure, naive - self.pessimism * error)
        if may_stay and sure <= production + _TINY:
            return stays._replace(why=UNSURE)
        return BestPolicy(lists, masses, production, naive, sure)

    def _too_short(self, context: Context, lists: Ints) -> bool:
        """Whether lists have holes that production has not, for want of what was seen."""
        most = min(lists.shape[1], len(context.n))
        full = context.n[:, :most].sum(axis=0) >= context.records - _TINY
        return bool(full.all() and np.any(np.sum(lists != EMPTY, axis=1) < most))

    def _bound(self, worth: Floats, limits: Limits) -> float | None:
        """What no order of the items within limits is worth more than; None if none is within them.

        It is found a hundred times faster than a program is solved, and mostly says enough.
        """
        shape, allowed = limits.forbidden.shape, ~limits.forbidden
        if limits.whole and limits.near is not None:
            shown, change = limits.near
            nearest = marginals(assign(shown, allowed)[None], np.ones(1), shape[0])
            if np.sum(nearest * (1 - shown)) > change * shape[1] + _TINY:
                return None
        gain = worth.reshape(shape)
        best = marginals(assign(gain, allowed)[None], np.ones(1), shape[0])
        return float(np.sum(best * gain))

    def _of_lists(
        self, value: Hashable, given: ListCounts, worth: Floats, limits: Limits
    ) -> tuple[Ints, Floats] | None:
        """Of the given lists, those chosen and their masses."""
        rules, lists = self.constraints, given.items
        filled = lists != EMPTY
        bad = filled & limits.forbidden[lists, np.arange(lists.shape[1])]
        free = given.offered & ~bad.any(axis=1)
        for position in rules.pinned.get(value, {}):  # all else is forbidden there
            free &= filled[:, position - 1]
        if self.cell == "list":
            free &= given.n >= rules.min_shown
        some = np.flatnonzero(free)
        if not len(some):
            return None
        if not rules.by_share:
            return lists[some[[np.argmax(worth[some])]]], np.ones(1)
        masses = program(worth[some], limits, lists[some])
        if masses is None:
            return None
        order = np.argsort(-masses, kind="stable")
        order = order[masses[order] > 0]
        return lists[some[order]], masses[order] / masses[order].sum()
