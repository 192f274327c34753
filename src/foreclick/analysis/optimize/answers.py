"""From counts to policies: the contexts of a part of the log solved one by one, as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from foreclick.analysis.optimize.counts import ALL, Counts
from foreclick.analysis.optimize.folds import fold_number
from foreclick.batches import EMPTY, Bools, Floats, Ints, Totals, sums
from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.optimization.context import Choice, Solver
from foreclick.optimization.examination import by_context
from foreclick.optimization.ladder import SlotCounts
from foreclick.policies.filed import FiledLists, TableFile

PROBABILITY = "probability"
_NUMBERS = ("records", "production", "naive", "sure", "se", "se_next")


class Answers(NamedTuple):
    """What was found for some contexts.

    Attributes:
        contexts: a row for each: why it has its policy, its records, and what it earns and would
            earn; see `Optimized.contexts`.
        policy: `context`, `item_1` …, `probability`, `changed`: the lists of all contexts, with
            production's where it stays.
        held_out: the same of policies chosen without a fold, if they are new; a context is called
            as in `fold_number`.
        lever: Shape (contexts, K): how far the sum of rewards that policies of folds would earn in
            them moves with log p_k; (contexts, 0) if examination is not estimated.
        rows: how many rows of the log they were found from.
    """

    contexts: pa.Table
    policy: pa.Table
    held_out: pa.Table
    lever: Floats
    rows: int


class _Lists(NamedTuple):
    """Lists with probabilities: context, shape (m,); pairs, (m, D); probability, (m,)."""

    context: Ints
    pairs: Ints
    mass: Floats


@dataclass(frozen=True)
class Solving:
    """The work on a part of the log: the best policy of each of its contexts.

    Attributes:
        solver: finds the policy of one context.
        folds: how many there are; policies are chosen without each of them too.
        by_list: whether lists are to choose from, rather than every order of the items.
    """

    solver: Solver
    folds: int
    by_list: bool

    def __call__(self, counts: Counts) -> Answers:
        """The policies of some contexts."""
        every = self._with_errors(counts, self._chosen(counts, ALL))
        folds = range(self.folds if self.folds > 1 else 0)
        held_out = [(fold, _new(self._chosen(counts, fold), self.depth)) for fold in folds]
        tables = [
            _table(
                counts,
                lists,
                pa.array(fold_number(counts.first + lists.context, fold, self.folds)),
            )
            for fold, lists in held_out
        ]
        policy, changed = self._policy(counts, _new(every, self.depth))
        table = _table(counts, policy, _contexts(counts, policy))
        return Answers(
            _described(counts, every),
            table.append_column("changed", pa.array(changed)),
            pa.concat_tables(tables) if tables else table.slice(0, 0),
            self._lever(counts, held_out),
            counts.rows,
        )

    def _lever(self, counts: Counts, held_out: list[tuple[int, _Lists]]) -> Floats:
        """`Answers.lever`; what a policy earns is judged by the records of its fold."""
        model, size = self.solver.model, len(counts.contexts)
        if model.ladder is None:
            return np.zeros((size, 0))
        lever = np.zeros((size, counts.n.shape[2]))
        for fold, (context, pairs, mass) in held_out:
            h = np.zeros(counts.n.shape[1:])
            which, k = np.nonzero(pairs != EMPTY)
            worth = mass[which] * counts.records[fold][context[which]] * np.array(model.theta)[k]
            np.add.at(h, (pairs[which, k], k), worth)
            own = SlotCounts(
                counts.pair_context, counts.n[fold], counts.c[fold], counts.records[fold]
            )
            by_p = model.rates(own).by_p
            if by_p is not None:
                lever += by_context(by_p.of_items(h), own)
        return lever

    @property
    def depth(self) -> int:
        """How long lists are."""
        return self.solver.model.depth

    def _chosen(self, counts: Counts, fold: int) -> dict[int, Choice]:
        """The choice in each context, by its number, with lists as pairs."""
        solver, found = self.solver, {}
        named, model = solver.constraints.by_item, solver.model
        for x, first, context in counts.each(fold, model, by_list=self.by_list, named=named):
            choice = solver.best(context)
            lists = np.where(choice.lists == EMPTY, EMPTY, choice.lists + first)
            found[x] = choice._replace(lists=lists)
        return found

    def _with_errors(self, counts: Counts, choices: dict[int, Choice]) -> dict[int, Choice]:
        """Choices with the standard errors of what the ladder says of them."""
        new, model = _new(choices, self.depth), self.solver.model
        if model.ladder is None or not len(new.mass):
            return choices
        h = np.zeros((len(counts.pair_context), self.depth))
        which, k = np.nonzero(new.pairs != EMPTY)
        np.add.at(h, (new.pairs[which, k], k), new.mass[which])
        now, then = self.solver.errors(counts.slots(ALL), counts.rates(ALL, model), h)
        return {
            x: one._replace(se=float(now[x]), se_next=float(then[x])) if len(one.lists) else one
            for x, one in choices.items()
        }

    def _policy(self, counts: Counts, new: _Lists) -> tuple[_Lists, Bools]:
        """New lists, and production's where it stays or is explored; and which contexts changed.

        Lists come by context, the likeliest first.
        """
        explore = self.solver.constraints.explore
        changed = np.zeros(len(counts.contexts), dtype=np.bool_)
        changed[new.context] = True
        n = counts.list_n.sum(axis=0)
        records = sums(counts.list_context, n, len(changed))
        kept = (n > 0) & (~changed[counts.list_context] if not explore else True)
        context = counts.list_context[kept]
        share = np.where(changed[context], explore, 1.0) * n[kept] / records[context]
        both = _Lists(
            np.concatenate([context, new.context]),
            np.concatenate([counts.lists[kept], new.pairs]),
            np.concatenate([share, (1 - explore) * new.mass]),
        )
        both = _merged(both) if explore else both
        order = np.lexsort((*both.pairs.T[::-1], -both.mass, both.context))
        chosen = _Lists(both.context[order], both.pairs[order], both.mass[order])
        return chosen, changed[chosen.context]


def _new(choices: dict[int, Choice], depth: int) -> _Lists:
    """The lists of changed contexts."""
    some = [(x, choice) for x, choice in choices.items() if len(choice.lists)]
    if not some:
        return _Lists(np.zeros(0, np.int64), np.zeros((0, depth), np.int64), np.zeros(0))
    context = np.repeat([x for x, _ in some], [len(choice.lists) for _, choice in some])
    pairs = np.concatenate([choice.lists for _, choice in some])
    return _Lists(context, pairs, np.concatenate([choice.masses for _, choice in some]))


def _merged(lists: _Lists) -> _Lists:
    """Equal lists as one."""
    keys, number = np.unique(
        np.column_stack([lists.context, lists.pairs]), axis=0, return_inverse=True
    )
    return _Lists(keys[:, 0], keys[:, 1:], sums(number, lists.mass, len(keys)))


def _contexts(counts: Counts, lists: _Lists) -> pa.Array:
    return counts.contexts.take(pa.array(lists.context))


def _table(counts: Counts, lists: _Lists, contexts: pa.Array) -> pa.Table:
    """Lists with their items, and their contexts as they are called."""
    columns = {CONTEXT: contexts}
    for name, pairs in zip(numbered(ITEM, lists.pairs.shape[1]), lists.pairs.T, strict=True):
        columns[name] = counts.items.take(pa.array(pairs, mask=pairs == EMPTY))
    return pa.table(columns | {PROBABILITY: pa.array(lists.mass)})


def _described(counts: Counts, choices: dict[int, Choice]) -> pa.Table:
    """A row for each context; see `Answers.contexts`."""
    records = counts.records.sum(axis=0)
    said = choices.values()
    columns = {
        CONTEXT: counts.contexts.take(pa.array(list(choices), pa.int64())),
        "why": pa.array([choice.why for choice in said], pa.string()),
        "records": pa.array(records[list(choices)]),
    }
    for name in _NUMBERS[1:]:
        columns[name] = pa.array([getattr(choice, name) for choice in said], pa.float64())
    return pa.table(columns | {"lists": pa.array([len(c.lists) for c in said], pa.int64())})


@dataclass(frozen=True, eq=False)
class Found:
    """What was found for all contexts; see `Answers`. Policies lie in files.

    Attributes:
        contexts: a row for each.
        policy: the lists of all contexts.
        held_out: those chosen without a fold.
        lever: Shape (K,): summed over contexts.
    """

    contexts: pa.Table
    policy: pa.Table
    held_out: FiledLists
    lever: Floats

    @cached_property
    def records(self) -> float:
        """How many the log has."""
        return float(np.asarray(self.contexts["records"]).sum())


def joined(parts: Iterable[Answers]) -> Found:
    """What was found for all contexts, of which one part is in memory at a time."""
    totals, contexts = Totals(), []
    policy, held_out = TableFile("policy"), FiledLists(PROBABILITY)
    for part in parts:
        totals.add("lever", part.lever, np.zeros(len(part.lever), dtype=np.int64))
        contexts.append(part.contexts)
        policy.add(part.policy)
        held_out.add(part.held_out)
    policy.close()
    held_out.close()
    return Found(
        pa.concat_tables(contexts),
        policy.whole(),
        held_out,
        totals.sum("lever")[0],
    )
