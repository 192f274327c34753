"""The best policy of each context, from its counts: Arrow in, Arrow out, in any process.

`solve` finds it where nothing is asked but clicks, `program` where something else is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.optimize.answers import (
    ALL,
    CHANGED,
    FOLD,
    IMPOSSIBLE,
    NOBODY,
    PROBABILITY,
    UNSURE,
    schema,
)
from foreclick.optimize.batch import Batch, View
from foreclick.optimize.decode import decode
from foreclick.optimize.program import Limits, program
from foreclick.optimize.rates import Counts
from foreclick.optimize.solve import assign, greedy, knapsack, spread, transport
from foreclick.sqlkernel.strengths import ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foreclick.optimize.cells import Cells, Model
    from foreclick.optimize.wish import Wish

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Bools = NDArray[np.bool_]
    Found = tuple[Integers, Floats]
    """Lists, items by number, and their masses."""

_TINY = 1e-9


class Choice(NamedTuple):
    """What is best in a context.

    Attributes:
        lists: Shape (m, K): items by number; none if production stays.
        masses: Shape (m,).
        production: what production earns.
        naive: what the estimate says of the policy; `sure`: the same after pessimism.
        why: `CHANGED`, or why production stays.
        se: the standard error of `naive`; `se_next`: after as many records again, of this policy.
            Of the ladder alone.
    """

    lists: Integers
    masses: Floats
    production: float
    naive: float
    sure: float
    why: str = CHANGED
    se: float | None = None
    se_next: float | None = None


@dataclass(frozen=True)
class Best:
    """The work that is done on a table of counts: the best policy of each of its contexts.

    Args:
        model: by which policies are judged.
        wish: what else is asked.
        folds: how many parts the records are in; the best policy without each is found too.
        by_list: whether rows are lists, rather than slots.
    """

    model: Model
    wish: Wish
    folds: int
    by_list: bool

    def __call__(self, rows: pa.Table) -> pa.Table:
        """From counts to the lists of every context and fold; see `schema`."""
        read = Batch.of_lists if self.by_list else Batch.of_slots
        batch = read(rows, self.folds, self.model.depth)
        kept = schema(rows.schema, self.model.depth)
        columns: dict[str, list[Any]] = {name: [] for name in kept.names}
        for fold in (ALL, *range(self.folds if self.folds > 1 else 0)):
            for view in batch.views(fold, self.model.climbing):
                choice = self.best(view)
                choice = self.with_errors(view, choice) if fold == ALL else choice
                self._write(columns, view, choice, fold)
        return pa.table(columns, schema=kept)

    def _write(self, columns: dict[str, list[Any]], view: View, choice: Choice, fold: int) -> None:
        """A row for each list; one without a list if production stays."""
        lists = choice.lists.tolist() or [[NOBODY] * self.model.depth]
        masses = choice.masses.tolist() or [None]
        said = {
            CONTEXT: view.context,
            FOLD: fold,
            "why": choice.why,
            "records": view.records,
            "production": choice.production,
            "naive": choice.naive,
            "sure": choice.sure,
            "se": choice.se,
            "se_next": choice.se_next,
        }
        for name, value in said.items():
            columns[name] += [value] * len(lists)
        columns[PROBABILITY] += masses
        items = [*view.items, None]  # NOBODY is the last
        for k, name in enumerate(numbered(ITEM, self.model.depth)):
            columns[name] += [items[one[k]] for one in lists]

    # --- one context ------------------------------------------------------------------------------

    def best(self, view: View) -> Choice:
        """The best policy of a context, or that production stays."""
        production = self.model.production(view)
        cells, wished = self.model.cells(view), self.wish.forbidden(view, self.model.depth)
        forbidden = wished | self.wish.unseen(view, self.model) if self.wish.seen else wished
        found = (self._of_slots if view.lists is None else self._of_lists)(view, cells, forbidden)
        nothing = np.empty((0, self.model.depth), dtype=np.int64), np.empty(0)
        if found is None or self._too_short(view, found[0]):
            return Choice(*nothing, production, production, production, IMPOSSIBLE)
        v = _probabilities(view, *found)
        naive, sure = cells.earned(v, cells.rate), cells.earned(v, cells.worth)
        may_stay = self.wish.fallback and self.wish.kept_by_production(view, wished)
        if may_stay and sure <= production + _TINY:
            return Choice(*nothing, production, production, production, UNSURE)
        return Choice(*found, production, naive, sure)

    def with_errors(self, view: View, choice: Choice) -> Choice:
        """How far the estimate may be off, now, and after as many records of the new policy."""
        climbing, k = self.model.climbing, self.model.depth
        if climbing is None or not len(choice.lists):
            return choice
        h = _marginals(choice.lists, choice.masses, len(view.items))
        shown = view.n.copy()  # what lies below the metric's depth is as before
        shown[:, :k] *= self.wish.explore
        shown[:, :k] += (1 - self.wish.explore) * view.records * h
        more = Counts(
            np.zeros(len(view.items), dtype=np.int64),
            view.n + shown,
            view.c + shown * view.rate,
            np.array([2 * view.records]),
        )
        weight = (h * np.array(self.model.theta)) ** 2
        both = view.off, climbing.rates(more)[1]
        now, then = (math.sqrt(float(np.sum(weight * off[:, :k]))) for off in both)
        return choice._replace(se=now, se_next=then)

    def _too_short(self, view: View, lists: Integers) -> bool:
        """Whether lists have holes that production has not, for want of what was seen."""
        if np.all(lists != NOBODY):
            return False
        most = min(self.model.depth, len(view.items))
        full = view.n[:, :most].sum(axis=0) >= view.records - _TINY
        return bool(full.all() and np.any(np.sum(lists != NOBODY, axis=1) < most))

    def _of_slots(self, view: View, cells: Cells, forbidden: Bools) -> Found | None:
        """Of every order of the items."""
        model, wish, shape = self.model, self.wish, forbidden.shape
        if wish.by_share or (forbidden.any() and model.capped and not wish.single):
            limits = _limits(wish, view, forbidden)
            h = program(cells.worth, cells.cap, cells.matrix(), limits, shape)
            if h is None:
                return None
            lists, masses = decode(h)
            if wish.lists is None or len(lists) <= wish.lists:
                return lists, masses
            few = lists[: wish.lists]
            each = cells.of(few, len(view.items)).exposure
            found = program(cells.worth, cells.cap, each, limits, shape, few)
            return None if found is None else (few[found > 0], found[found > 0])
        if wish.single or not model.capped:
            allowed = ~forbidden if forbidden.any() else None
            return assign(cells.alone().reshape(shape), allowed)[None], np.ones(1)
        if model.cell == "ip":
            q = cells.exposure
            h = transport((cells.worth * q).reshape(shape), ratio(cells.cap, q).reshape(shape))
        else:
            h = spread(greedy(cells.worth[None], cells.cap[None], model.q)[0], model.q)
        return _likeliest(*decode(h), wish.lists)

    def _of_lists(self, view: View, cells: Cells, forbidden: Bools) -> Found | None:
        """Of the given lists."""
        assert view.lists is not None  # noqa: S101 - see `best`
        model, wish, (lists, n, _, offered) = self.model, self.wish, view.lists
        filled = lists != NOBODY
        bad = filled & forbidden[lists, np.arange(lists.shape[1])]
        free = offered & ~bad.any(axis=1)
        for position in wish.pinned.get(view.context, {}):  # all else is forbidden there
            free &= filled[:, position - 1]
        if model.cell in ("list", "prefix"):
            free &= n >= wish.seen
        if not free.any():
            return None
        some, cells = lists[free], cells.only(free)
        masses: Floats | None
        if wish.by_share:
            limits = _limits(wish, view, forbidden)
            masses = program(cells.worth, cells.cap, cells.matrix(), limits, forbidden.shape, some)
        elif wish.single or not model.capped:
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
        return _likeliest(some[order], masses[order], wish.lists)


def _likeliest(lists: Integers, masses: Floats, most: int | None) -> Found:
    """No more lists than wanted, those with the largest masses, which come first."""
    return lists[:most], masses[:most] / masses[:most].sum()


def _probabilities(view: View, lists: Integers, masses: Floats) -> Floats:
    """Of the context's lists, if it has some to choose from; else of its slots."""
    if view.lists is not None:
        which = {tuple(one): i for i, one in enumerate(view.lists.items.tolist())}
        found = np.zeros(len(which))
        found[[which[tuple(one)] for one in lists.tolist()]] = masses
        return found
    return _marginals(lists, masses, len(view.items)).ravel()


def _marginals(lists: Integers, masses: Floats, items: int) -> Floats:
    """Shape (L, K): how likely each item is at each position."""
    h = np.zeros((items, lists.shape[1]))
    which, position = np.nonzero(lists != NOBODY)
    np.add.at(h, (lists[which, position], position), masses[which])
    return h


def _limits(wish: Wish, view: View, forbidden: Bools) -> Limits:
    """What is wished, for the program."""
    groups = [(wish.members(view, items), least) for items, least in wish.groups]
    near = None
    if wish.change is not None:
        near = view.n[:, : forbidden.shape[1]] / view.records, wish.change
    some = tuple(group for group in groups if group[0].any())
    return Limits(forbidden, some, None, near, wish.single)
