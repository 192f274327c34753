"""The best policy of one context, from its counts.

`solve` finds it without further constraints, `program` within them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foreclick.batches import EMPTY, Bools, Floats, Ints, ratio, sums
from foreclick.optimization import CHANGED, IMPOSSIBLE, UNSURE
from foreclick.optimization.birkhoff import decode
from foreclick.optimization.cells import Cells, Context, Model, Rates
from foreclick.optimization.constraints import Constraints, Limits
from foreclick.optimization.examination import SHARED
from foreclick.optimization.ladder import SlotCounts
from foreclick.optimization.program import program
from foreclick.optimization.solve import assign, greedy, knapsack, spread, transport

Found = tuple[Ints, Floats]
"""Lists, items by number, and their probabilities."""

_TINY = 1e-9


class Choice(NamedTuple):
    """The policy of a context.

    Attributes:
        lists: Shape (m, D): items by number; none if production stays.
        masses: Shape (m,): their probabilities.
        production: what production earns.
        naive: what the estimate says of the policy.
        sure: the same after pessimism.
        why: `CHANGED`, or why production stays.
        se: the standard error of `naive`, by the ladder; else None.
        se_next: the same after as many records again, of this policy.
    """

    lists: Ints
    masses: Floats
    production: float
    naive: float
    sure: float
    why: str = CHANGED
    se: float | None = None
    se_next: float | None = None


@dataclass(frozen=True)
class Solver:
    """Finds the best policy of a context.

    Args:
        model: the estimator that policies are chosen by.
        constraints: what they must keep to.
    """

    model: Model
    constraints: Constraints

    def best(self, context: Context) -> Choice:
        """The best policy of a context, or that production stays."""
        model, rules = self.model, self.constraints
        production = model.production(context)
        cells, named = model.cells(context), rules.forbidden(context, model.depth)
        forbidden = named | rules.shown_too_rarely(context, model) if rules.min_shown else named
        solve = self._of_slots if context.lists is None else self._of_lists
        found = solve(context, cells, forbidden)
        if found is None or self._too_short(context, found[0]):
            return self._unchanged(production, IMPOSSIBLE)
        v = _probabilities(context, *found)
        naive, sure = cells.earned(v, cells.rate), cells.earned(v, cells.worth)
        may_stay = rules.fallback and rules.kept_by_production(context, named)
        if not (may_stay and sure <= production + _TINY):  # else it need not be less sure still
            sure = min(sure, naive - model.pessimism * self._shared_error(context, found))
        if may_stay and sure <= production + _TINY:
            return self._unchanged(production, UNSURE)
        return Choice(*found, production, naive, sure)

    def _shared_error(self, context: Context, found: Found) -> float:
        """How far the errors of the examination move a policy, `SHARED` standard errors of them."""
        error = self.model.examination
        if error is None or context.by_p is None:
            return 0.0
        h = np.zeros_like(context.by_p.own)
        h[:, : self.model.depth] = _marginals(*found, len(h)) * np.array(self.model.theta)
        return SHARED * error.se(context.by_p.of_items(h).sum(axis=0))

    def _unchanged(self, production: float, why: str) -> Choice:
        none = np.empty((0, self.model.depth), dtype=np.int64)
        return Choice(none, np.empty(0), production, production, production, why)

    def errors(self, counts: SlotCounts, rates: Rates, h: Floats) -> tuple[Floats, Floats]:
        """How far estimates may be off, now, and after as many records of the new policies.

        Args:
            counts: of some contexts.
            rates: by the ladder, from these counts.
            h: Shape (P, D): how likely the new policy shows each item at each position.

        Returns:
            Shape (X,) each: the standard errors by context.
        """
        k, explore, size = self.model.depth, self.constraints.explore, len(counts.records)
        shown = counts.n.copy()  # what lies below the metric's depth is as before
        shown[:, :k] *= explore
        shown[:, :k] += (1 - explore) * counts.records[counts.owner][:, None] * h
        more = SlotCounts(
            counts.owner, counts.n + shown, counts.c + shown * rates.rate, 2 * counts.records
        )
        weight = (h * np.array(self.model.theta)) ** 2
        now, then = (
            np.sqrt(sums(counts.owner, (weight * off[:, :k]).sum(axis=1), size))
            for off in (rates.variance, self.model.rates(more).variance)
        )
        return now, then

    def _too_short(self, context: Context, lists: Ints) -> bool:
        """Whether lists have holes that production has not, for want of what was seen."""
        if np.all(lists != EMPTY):
            return False
        most = min(self.model.depth, len(context.n))
        full = context.n[:, :most].sum(axis=0) >= context.records - _TINY
        return bool(full.all() and np.any(np.sum(lists != EMPTY, axis=1) < most))

    def _of_slots(self, context: Context, cells: Cells, forbidden: Bools) -> Found | None:
        """Of every order of the items."""
        model, rules, shape = self.model, self.constraints, forbidden.shape
        if rules.by_share or (forbidden.any() and model.capped and not rules.single):
            limits = rules.limits(context, forbidden)
            h = program(cells.worth, cells.cap, cells.matrix(), limits, shape)
            if h is None:
                return None
            lists, masses = decode(h)
            if rules.max_lists is None or len(lists) <= rules.max_lists:
                return lists, masses
            few = lists[: rules.max_lists]
            each = cells.of(few, len(context.n)).exposure
            found = program(cells.worth, cells.cap, each, limits, shape, few)
            return None if found is None else (few[found > 0], found[found > 0])
        if rules.single or not model.capped:
            allowed = ~forbidden if forbidden.any() else None
            return assign(cells.alone().reshape(shape), allowed)[None], np.ones(1)
        if model.cell == "ip":
            q = cells.exposure
            h = transport((cells.worth * q).reshape(shape), ratio(cells.cap, q).reshape(shape))
        else:
            h = spread(greedy(cells.worth[None], cells.cap[None], model.q)[0], model.q)
        return _likeliest(*decode(h), rules.max_lists)

    def _of_lists(self, context: Context, cells: Cells, forbidden: Bools) -> Found | None:
        """Of the given lists."""
        assert context.lists is not None  # noqa: S101 - see `best`
        model, rules, (lists, n, _, offered) = self.model, self.constraints, context.lists
        filled = lists != EMPTY
        bad = filled & forbidden[lists, np.arange(lists.shape[1])]
        free = offered & ~bad.any(axis=1)
        for position in rules.pinned.get(context.value, {}):  # all else is forbidden there
            free &= filled[:, position - 1]
        if model.cell in ("list", "prefix"):
            free &= n >= rules.min_shown
        if not free.any():
            return None
        some, cells = lists[free], cells.only(free)
        masses: Floats | None
        if rules.by_share:
            limits = rules.limits(context, forbidden)
            masses = program(cells.worth, cells.cap, cells.matrix(), limits, forbidden.shape, some)
        elif rules.single or not model.capped:
            masses = np.zeros(len(some))
            masses[np.argmax(cells.alone())] = 1.0
        elif model.cell == "list":
            masses = knapsack(cells.worth, cells.cap)
        else:
            shape = forbidden.shape
            masses = program(cells.worth, cells.cap, cells.matrix(), Limits(), shape, some)
        if masses is None:
            return None
        order = np.argsort(-masses, kind="stable")
        order = order[masses[order] > 0]
        return _likeliest(some[order], masses[order], rules.max_lists)


def _likeliest(lists: Ints, masses: Floats, most: int | None) -> Found:
    """No more lists than wanted, those with the largest masses, which come first."""
    return lists[:most], masses[:most] / masses[:most].sum()


def _probabilities(context: Context, lists: Ints, masses: Floats) -> Floats:
    """Of the context's lists, if it has some to choose from; else of its slots."""
    if context.lists is not None:
        which = {tuple(one): i for i, one in enumerate(context.lists.items.tolist())}
        found = np.zeros(len(which))
        found[[which[tuple(one)] for one in lists.tolist()]] = masses
        return found
    return _marginals(lists, masses, len(context.n)).ravel()


def _marginals(lists: Ints, masses: Floats, items: int) -> Floats:
    """Shape (L, K): how likely each item is at each position."""
    h = np.zeros((items, lists.shape[1]))
    which, position = np.nonzero(lists != EMPTY)
    np.add.at(h, (lists[which, position], position), masses[which])
    return h
