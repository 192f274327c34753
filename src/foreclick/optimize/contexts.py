"""The best policy of each context, from its counts: Arrow in, Arrow out, in any process.

The estimate of a policy is Σ_g w_g min(H_g, cap_g) over the cells of a click model. What a cell is
decides how the best policy is found: `solve` where nothing is asked but that, `program` otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from foreclick.logs import CONTEXT, ITEM, N, numbered
from foreclick.models import POSITION
from foreclick.optimize.decode import decode
from foreclick.optimize.program import Limits, program
from foreclick.optimize.rates import Climbing, Counts, ratio
from foreclick.optimize.solve import NOBODY, assign, greedy, knapsack, one_hot, spread, transport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Bools = NDArray[np.bool_]

FOLD, CREDIT, PROBABILITY = "fold", "c", "probability"
ALL = -1
"""The fold of what was learnt from all records."""

CHANGED, UNSURE, IMPOSSIBLE = "changed", "no gain that is sure", "limits cannot be kept"
_TINY = 1e-9


@dataclass(frozen=True)
class Wish:
    """What people ask of a policy besides clicks.

    Attributes:
        pinned: by context, the item at a position.
        banned: items that are shown nowhere.
        banned_in: the same by context.
        groups: items, and the least share of the slots that they get in every context which has
            any of them.
        change: the share of the slots that may differ from production's.
        lists: how many lists a context has at most; None for as many as it takes.
        seen: how often a cell must have been shown to be used.
        fallback: whether production stays where nothing is sure to be better.
    """

    pinned: Mapping[Hashable, Mapping[int, Hashable]] = field(default_factory=dict)
    banned: frozenset[Hashable] = frozenset()
    banned_in: Mapping[Hashable, frozenset[Hashable]] = field(default_factory=dict)
    groups: tuple[tuple[frozenset[Hashable], float], ...] = ()
    change: float | None = None
    lists: int | None = None
    seen: float = 0.0
    fallback: bool = True

    @property
    def by_share(self) -> bool:
        """Whether something is asked of probabilities, for which there is only the program."""
        return bool(self.groups) or self.change is not None


@dataclass(frozen=True)
class Model:
    """A click model as far as a policy is chosen by it.

    Attributes:
        cell: "list", "prefix", "item" or "ip".
        examined: p_1, p_2, ….
        clip: M.
        climbing: the ladder; None for an estimator of the paper.
    """

    cell: str
    examined: tuple[float, ...]
    clip: float = math.inf
    climbing: Climbing | None = None


class Cells(NamedTuple):
    """The cells of one context.

    Attributes:
        worth: Shape (G,): what a unit of exposure earns, after pessimism.
        rate: Shape (G,): the same before it.
        cap: Shape (G,): how much exposure counts.
        exposure: Shape (G, V): what each slot (items before positions), or each list, exposes.
            Where every slot is a cell of its own, its diagonal alone, shape (G,).
    """

    worth: Floats
    rate: Floats
    cap: Floats
    exposure: Floats

    def earned(self, chosen: Floats, what: Floats) -> float:
        """Σ what min(H, cap)."""
        v = chosen.ravel()
        exposed = self.exposure * v if self.exposure.ndim == 1 else self.exposure @ v
        return float(what @ np.minimum(exposed, self.cap))

    def alone(self) -> Floats:
        """What each slot, or each list, earns in a policy that is one list."""
        if self.exposure.ndim == 1:
            return np.asarray(self.worth * np.minimum(self.exposure, self.cap))
        return np.asarray(self.worth @ np.minimum(self.exposure, self.cap[:, None]))

    def matrix(self) -> Any:  # noqa: ANN401 - dense or sparse
        """The exposure as a matrix."""
        return sparse.diags_array(self.exposure) if self.exposure.ndim == 1 else self.exposure

    def of(self, lists: Integers, items: int) -> Cells:
        """The same cells, exposed by lists."""
        which, position = np.nonzero(lists != NOBODY)
        filled = np.zeros((items * lists.shape[1], len(lists)))
        filled[lists[which, position] * lists.shape[1] + position, which] = 1.0
        if self.exposure.ndim == 1:
            return self._replace(exposure=self.exposure[:, None] * filled)
        return self._replace(exposure=self.exposure @ filled)


class View(NamedTuple):
    """One context: its items, their counts, and lists if these matter.

    Attributes:
        items: Shape (L,): values.
        n, c: Shape (L, D).
        rate, off: Shape (L, D): rates by the ladder, and their variance; empty without one.
        lists: Shape (m, K): items by number; `list_n`, (m,), and `list_c`, (m, K): their counts.
    """

    context: Hashable
    items: list[Hashable]
    n: Floats
    c: Floats
    records: float
    rate: Floats
    off: Floats
    lists: Integers | None = None
    list_n: Floats | None = None
    list_c: Floats | None = None


class Choice(NamedTuple):
    """What is best in a context.

    Attributes:
        lists: Shape (m, K): items by number; none if production stays.
        masses: Shape (m,).
        naive: what the estimate says of it; `sure`: the same after pessimism.
        why: `CHANGED`, or why production stays.
    """

    lists: Integers
    masses: Floats
    naive: float
    sure: float
    why: str


@dataclass(frozen=True)
class Best:
    """The work that is done on a table of counts: the best policy of each of its contexts.

    Args:
        theta: θ_1, θ_2, …, as deep as lists are made.
        model: by which policies are judged.
        pessimism: by how many standard errors the rate of a cell is lowered.
        wish: what else is asked.
        folds: how many parts the records are in; the best policy without each is found too.
        by_list: whether rows are lists, rather than slots.
    """

    theta: tuple[float, ...]
    model: Model
    pessimism: float
    wish: Wish
    folds: int
    by_list: bool

    def __call__(self, rows: pa.Table) -> pa.Table:
        """From counts to the lists of every context and fold; see `schema`."""
        batch = Batch.of(rows, self.by_list, self.folds, len(self.theta))
        answers: list[dict[str, Any]] = []
        for fold in (ALL, *range(self.folds if self.folds > 1 else 0)):
            for view in batch.views(fold, self.model.climbing):
                choice = self.best(view)
                answers += self._rows(view, choice, fold)
        return pa.Table.from_pylist(answers, schema=schema(rows.schema, len(self.theta)))

    def _rows(self, view: View, choice: Choice, fold: int) -> Iterator[dict[str, Any]]:
        """A row for each list; one without a list if production stays."""
        production = float(np.sum(view.c[:, : len(self.theta)] @ np.array(self.theta)))
        said = {
            CONTEXT: view.context,
            FOLD: fold,
            "why": choice.why,
            "records": view.records,
            "production": production / view.records,
            "naive": choice.naive,
            "sure": choice.sure,
        }
        if not len(choice.lists):
            yield said
        for shown, mass in zip(choice.lists, choice.masses, strict=True):
            at = zip(numbered(ITEM, len(shown)), shown, strict=True)
            yield said | {
                PROBABILITY: float(mass),
                **{c: view.items[i] for c, i in at if i != NOBODY},
            }

    # --- one context ------------------------------------------------------------------------------

    def best(self, view: View) -> Choice:
        """The best policy of a context, or that production stays."""
        theta = np.array(self.theta)
        production = float(np.sum(view.c[:, : len(theta)] @ theta)) / view.records
        forbidden = self._forbidden(view)
        cells = self._cells(view)
        found = None if forbidden is None else self._solved(view, cells, forbidden)
        if found is None:
            return Choice(
                np.empty((0, len(theta)), int), np.empty(0), production, production, IMPOSSIBLE
            )
        lists, masses = found
        chosen = self._chosen(view, lists, masses)
        naive, sure = cells.earned(chosen, cells.rate), cells.earned(chosen, cells.worth)
        if self.wish.fallback and sure <= production + _TINY:
            return Choice(lists[:0], masses[:0], production, production, UNSURE)
        return Choice(lists, masses, naive, sure, CHANGED)

    def _chosen(self, view: View, lists: Integers, masses: Floats) -> Floats:
        """The lists as what exposes cells: masses of the given lists, or marginals."""
        if view.lists is not None:
            which = {tuple(one): i for i, one in enumerate(view.lists.tolist())}
            found = np.zeros(len(view.lists))
            found[[which[tuple(one)] for one in lists.tolist()]] = masses
            return found
        h = np.zeros((len(view.items), lists.shape[1]))
        for one, mass in zip(lists, masses, strict=True):
            h += mass * one_hot(one, len(h))
        return h

    def _cells(self, view: View) -> Cells:
        """What can be earned, by the model."""
        theta, k = np.array(self.theta), len(self.theta)
        q = theta * np.array(self.model.examined[:k])
        n, c = view.n[:, :k], view.c[:, :k]
        if self.model.climbing is not None:
            rate, off = view.rate[:, :k] * theta, view.off[:, :k] * theta**2
            worth = rate - self.pessimism * np.sqrt(off)
            free = np.full(rate.size, math.inf)
            cells = Cells(worth.ravel(), rate.ravel(), free, np.ones(rate.size))
            return cells if view.lists is None else cells.of(view.lists, len(n))
        if self.model.cell == "list":
            return self._weighed(
                view.list_c @ theta,  # type: ignore[operator]
                view.list_c @ theta**2,  # type: ignore[operator]
                view.list_n,  # type: ignore[arg-type]
                np.eye(len(view.lists)),  # type: ignore[arg-type]
                view.records,
            )
        if self.model.cell == "prefix":
            return self._prefixes(view)
        if self.model.cell == "ip":
            each = np.tile(q, len(n))
            exposed, earned, squared = n * q, c * theta, c * theta**2
        else:
            each = np.kron(np.eye(len(n)), q)
            exposed, earned, squared = n @ q, c @ theta, c @ theta**2
        counted = (earned.ravel(), squared.ravel(), exposed.ravel(), each)
        cells = self._weighed(*counted, view.records)
        return cells if view.lists is None else cells.of(view.lists, len(n))

    def _prefixes(self, view: View) -> Cells:
        """Cells of lists that share what stands above, and the item itself."""
        lists, k = view.lists, len(self.theta)
        n, c = view.list_n, view.list_c
        assert lists is not None and n is not None and c is not None  # noqa: S101, PT018
        rows, of = [], []
        for j in range(1, k + 1):
            shown = lists[:, j - 1] != NOBODY
            _, cell = np.unique(lists[:, :j], axis=0, return_inverse=True)
            for g in np.unique(cell[shown]):
                rows.append(np.where((cell == g) & shown, self.theta[j - 1], 0.0))
                of.append(j - 1)
        each, at, theta = np.array(rows), np.array(of), np.array(self.theta)
        inside = each > 0
        earned = np.sum(inside * c.T[at], axis=1) * theta[at]
        return self._weighed(earned, earned * theta[at], each @ n, each, view.records)

    def _weighed(
        self, earned: Floats, squared: Floats, exposed: Floats, each: Floats, records: float
    ) -> Cells:
        """Cells of an estimator of the paper: rates where there were records, and caps."""
        rate = ratio(earned, exposed)
        se = ratio(np.sqrt(squared), exposed)
        worth = np.maximum(rate - self.pessimism * se, 0.0)
        with np.errstate(invalid="ignore"):
            cap = np.where(exposed > 0, self.model.clip * exposed / records, 0.0)
        return Cells(worth, rate, cap, each)

    def _forbidden(self, view: View) -> Bools | None:
        """Which items must not be where; None if what is pinned contradicts itself."""
        k, wish = len(self.theta), self.wish
        banned = wish.banned | wish.banned_in.get(view.context, frozenset())
        found = np.zeros((len(view.items), k), dtype=np.bool_)
        if banned:
            found[[item in banned for item in view.items]] = True
        if wish.seen > 0 and self.model.cell != "list":
            n = view.n[:, :k]
            found |= (n if self.model.cell == "ip" else n.sum(axis=1, keepdims=True)) < wish.seen
        for position, item in wish.pinned.get(view.context, {}).items():
            if position > k:
                continue
            if item not in view.items or item in banned:
                return None
            row = view.items.index(item)
            found[row], found[:, position - 1] = True, True
            found[row, position - 1] = False
        return found

    def _solved(self, view: View, cells: Cells, forbidden: Bools) -> tuple[Integers, Floats] | None:
        """Lists and their masses, or None where limits cannot be kept."""
        if view.lists is not None:
            return self._of_lists(view, cells, forbidden)
        wish, single = self.wish, self.wish.lists == 1
        shape = forbidden.shape
        if wish.by_share:
            limits = self._limits(view, forbidden, whole=single)
            h = program(cells.worth, cells.cap, cells.matrix(), limits, shape)
            if h is None:
                return None
            lists, masses = decode(h)
            if wish.lists is not None and len(lists) > wish.lists:
                return self._fewer(view, cells, limits, lists)
            return self._full(lists, masses, view)
        capped = np.isfinite(self.model.clip)
        if single or not capped:
            allowed = ~forbidden if forbidden.any() else None
            one = assign(cells.alone().reshape(shape), allowed)
            return self._full(one[None], np.ones(1), view)
        if forbidden.any():
            h = program(cells.worth, cells.cap, cells.matrix(), Limits(forbidden), shape)
        elif self.model.cell == "ip":
            q = cells.exposure
            h = transport((cells.worth * q).reshape(shape), ratio(cells.cap, q).reshape(shape))
        else:
            q = np.array(self.theta) * np.array(self.model.examined[: shape[1]])
            h = spread(greedy(cells.worth[None], cells.cap[None], q)[0], q)
        if h is None:
            return None
        lists, masses = decode(h)
        if wish.lists is not None and len(lists) > wish.lists:
            lists, masses = lists[: wish.lists], masses[: wish.lists] / masses[: wish.lists].sum()
        return self._full(lists, masses, view)

    def _full(self, lists: Integers, masses: Floats, view: View) -> tuple[Integers, Floats] | None:
        """The lists, unless they are shorter than they could be: what was seen does not suffice."""
        wanted = min(lists.shape[1], len(view.items))
        if np.any(np.sum(lists != NOBODY, axis=1) < wanted) and self._must_fill(view):
            return None
        return lists, masses

    def _must_fill(self, view: View) -> bool:
        """Whether production fills all positions, so that a shorter list would be a loss."""
        k = min(len(self.theta), len(view.items))
        return bool(np.all(view.n[:, :k].sum(axis=0) >= view.records - _TINY))

    def _limits(self, view: View, forbidden: Bools, *, whole: bool) -> Limits:
        wish, k = self.wish, len(self.theta)
        groups = []
        for members, least in wish.groups:
            mine = np.array([item in members for item in view.items])
            if mine.any():
                groups.append((mine, least))
        near = None
        if wish.change is not None:
            near = view.n[:, :k] / view.records, wish.change
        return Limits(forbidden, tuple(groups), None, near, whole)

    def _fewer(
        self, view: View, cells: Cells, limits: Limits, lists: Integers
    ) -> tuple[Integers, Floats] | None:
        """The best of the likeliest lists, within limits."""
        few = lists[: self.wish.lists]
        each = cells.of(few, len(view.items)).exposure
        shape = len(view.items), few.shape[1]
        masses = program(cells.worth, cells.cap, each, limits, shape, few)
        return None if masses is None else (few[masses > 0], masses[masses > 0])

    def _of_lists(
        self, view: View, cells: Cells, forbidden: Bools
    ) -> tuple[Integers, Floats] | None:
        """The best of the given lists."""
        lists, list_n = view.lists, view.list_n
        assert lists is not None and list_n is not None  # noqa: S101, PT018
        free = ~np.any((lists != NOBODY) & forbidden[lists, np.arange(lists.shape[1])], axis=1)
        if self.wish.seen > 0 and self.model.cell == "list":
            free &= list_n >= self.wish.seen
        for position, item in self.wish.pinned.get(view.context, {}).items():
            if position <= lists.shape[1]:
                free &= lists[:, position - 1] == view.items.index(item)
        if not free.any():
            return None
        some, each = lists[free], cells.exposure[:, free]
        single = self.wish.lists == 1
        if self.wish.by_share:
            limits = self._limits(view, forbidden, whole=single)
            masses = program(cells.worth, cells.cap, each, limits, forbidden.shape, some)
        elif single or not np.isfinite(self.model.clip):
            worth = cells._replace(exposure=each).alone()
            masses = (np.arange(len(some)) == np.argmax(worth)).astype(np.float64)
        elif self.model.cell == "list":
            masses = knapsack(cells.worth[free], cells.cap[free])
        else:
            masses = program(cells.worth, cells.cap, each, Limits(), forbidden.shape, some)
        if masses is None:
            return None
        order = np.argsort(-masses, kind="stable")[: self.wish.lists]
        order = order[masses[order] > 0]
        return some[order], masses[order] / masses[order].sum()


def schema(counted: pa.Schema, depth: int) -> pa.Schema:
    """The columns of an answer, from those of the counts."""
    item = ITEM if ITEM in counted.names else f"{ITEM}_1"
    number = pa.float64()
    return pa.schema(
        [
            (CONTEXT, counted.field(CONTEXT).type),
            (FOLD, pa.int64()),
            *((name, counted.field(item).type) for name in numbered(ITEM, depth)),
            (PROBABILITY, number),
            ("why", pa.string()),
            *((name, number) for name in ("records", "production", "naive", "sure")),
        ]
    )


@dataclass(frozen=True)
class Batch:
    """The counts of some contexts, fold by fold.

    Attributes:
        counts: of each fold.
        whole: of all of them.
    """

    contexts: list[Hashable]
    items: list[Hashable]
    folds: list[Counts]
    whole: Counts
    lists: Integers | None = None
    list_owner: Integers | None = None
    list_n: Floats | None = None  # (F, m)
    list_c: Floats | None = None  # (F, m, K)

    @classmethod
    def of(cls, rows: pa.Table, by_list: bool, folds: int, depth: int) -> Batch:  # noqa: FBT001
        """From rows of slots, (context, fold, item, position, n, c), or of lists."""
        contexts, context = _coded(rows[CONTEXT])
        fold = rows[FOLD].to_numpy().astype(np.int64)
        n = rows[N].to_numpy().astype(np.float64)
        parts = max(folds, 1)
        if not by_list:
            return cls._of_slots(rows, contexts, context, fold, n, parts)
        return cls._of_lists(rows, contexts, context, fold, n, parts, depth)

    @classmethod
    def _of_slots(
        cls,
        rows: pa.Table,
        contexts: list[Hashable],
        context: Integers,
        fold: Integers,
        n: Floats,
        parts: int,
    ) -> Batch:
        position = rows[POSITION].to_numpy().astype(np.int64)
        whole = position == 0  # these rows hold the records of a context
        records = np.zeros((parts, len(contexts)))
        np.add.at(records, (fold[whole], context[whole]), n[whole])
        slot = ~whole
        values, code = _coded(rows[ITEM].filter(pa.array(slot)))
        pair, row = np.unique(context[slot] * len(values) + code, return_inverse=True)
        owner, items = pair // max(len(values), 1), [values[i] for i in pair % max(len(values), 1)]
        depth = int(position.max(initial=1))
        shape = parts, len(pair), depth
        at = np.ravel_multi_index((fold[slot], row, position[slot] - 1), shape)
        size = math.prod(shape)
        shown = np.bincount(at, n[slot], size).reshape(shape)
        c = np.bincount(at, rows[CREDIT].to_numpy().astype(np.float64)[slot], size).reshape(shape)
        return cls._folded(contexts, items, owner, shown, c, records)

    @classmethod
    def _of_lists(
        cls,
        rows: pa.Table,
        contexts: list[Hashable],
        context: Integers,
        fold: Integers,
        n: Floats,
        parts: int,
        depth: int,
    ) -> Batch:
        columns = [c for c in rows.column_names if c.startswith(f"{ITEM}_")]
        width = len(columns)
        every = pa.chunked_array([chunk for c in columns for chunk in rows[c].chunks])
        values, code = _coded(every)
        code = code.reshape(width, len(n)).T
        shown = code >= 0
        pairs = np.where(shown, context[:, None] * max(len(values), 1) + code, NOBODY)
        pair, row = np.unique(pairs[shown], return_inverse=True)
        owner, items = pair // max(len(values), 1), [values[i] for i in pair % max(len(values), 1)]
        slots = np.full(pairs.shape, NOBODY)
        slots[shown] = row
        c = np.stack([rows[f"{CREDIT}_{k}"].to_numpy() for k in range(1, width + 1)], axis=1)
        c = c.astype(np.float64)
        records = np.zeros((parts, len(contexts)))
        np.add.at(records, (fold, context), n)
        counted = np.zeros((parts, len(pair), width))
        clicked = np.zeros_like(counted)
        which, k = np.nonzero(shown)
        np.add.at(counted, (fold[which], slots[which, k], k), n[which])
        np.add.at(clicked, (fold[which], slots[which, k], k), c[which, k])
        cut = np.full((len(slots), depth), NOBODY)
        cut[:, : min(depth, width)] = slots[:, :depth]
        # An empty list has no item to tell its context by.
        lists, number = np.unique(
            np.concatenate([context[:, None], cut], axis=1), axis=0, return_inverse=True
        )
        list_n = np.zeros((parts, len(lists)))
        list_c = np.zeros((parts, len(lists), depth))
        np.add.at(list_n, (fold, number), n)
        most = min(depth, width)
        np.add.at(list_c, (fold[:, None], number[:, None], np.arange(most)), c[:, :most])
        batch = cls._folded(contexts, items, owner, counted, clicked, records)
        return cls(
            batch.contexts,
            batch.items,
            batch.folds,
            batch.whole,
            lists[:, 1:],
            lists[:, 0],
            list_n,
            list_c,
        )

    @classmethod
    def _folded(
        cls,
        contexts: list[Hashable],
        items: list[Hashable],
        owner: Integers,
        n: Floats,
        c: Floats,
        records: Floats,
    ) -> Batch:
        folds = [Counts(owner, *of) for of in zip(n, c, records, strict=True)]
        whole = Counts(owner, n.sum(axis=0), c.sum(axis=0), records.sum(axis=0))
        return cls(contexts, items, folds, whole)

    def views(self, fold: int, climbing: Climbing | None) -> Iterator[View]:
        """Every context, with all records (`ALL`) or those outside of a fold.

        Without a fold that has no record of a context, it is as it was; without all records, there
        is nothing to be known of it.
        """
        counts = self.whole if fold == ALL else self.whole.without(self.folds[fold])
        rate, off = climbing.rates(counts) if climbing else (np.empty((0, 0)), np.empty((0, 0)))
        starts = np.searchsorted(counts.owner, np.arange(len(self.contexts) + 1))
        of_lists = self.list_owner
        cuts = None if of_lists is None else np.searchsorted(of_lists, np.arange(len(starts)))
        for x, context in enumerate(self.contexts):
            mine = slice(starts[x], starts[x + 1])
            if counts.records[x] <= 0 or (fold != ALL and self.folds[fold].records[x] <= 0):
                continue
            view = View(
                context,
                self.items[mine],
                counts.n[mine],
                counts.c[mine],
                float(counts.records[x]),
                rate[mine],
                off[mine],
            )
            if cuts is not None:
                view = self._listed(view, slice(cuts[x], cuts[x + 1]), fold, starts[x])
            if len(view.items):
                yield view

    def _listed(self, view: View, mine: slice, fold: int, first: int) -> View:
        """The view with its lists, items counted within the context."""
        assert self.lists is not None and self.list_n is not None  # noqa: S101, PT018
        assert self.list_c is not None  # noqa: S101
        lists = self.lists[mine]
        kept = np.ones(len(self.list_n), dtype=np.bool_)
        if fold != ALL:
            kept[fold] = False
        return view._replace(
            lists=np.where(lists == NOBODY, NOBODY, lists - first),
            list_n=self.list_n[kept][:, mine].sum(axis=0),
            list_c=self.list_c[kept][:, mine].sum(axis=0),
        )


def _coded(column: pa.ChunkedArray) -> tuple[list[Hashable], Integers]:
    """The values in order, and the number of each row's; -1 for none."""
    encoded = column.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    index = np.asarray(encoded.indices.fill_null(-1), dtype=np.int64)
    code = np.where(index < 0, -1, rank[index] if len(rank) else -1)
    return encoded.dictionary.take(pa.array(order)).to_pylist(), code
