"""From counts to tables: the policies of a part of the log, and those of all parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from foreclick.batches import EMPTY, Bools, Floats, Ints, sums
from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.optimization.context import BestPolicy, Context, ListCounts, Solver
from foreclick.optimization.counts import ALL, Counts, fold_number
from foreclick.optimization.rates import ItemCounts, ItemRates
from foreclick.optimization.solvers import marginals

ITEMS, PROBABILITY = "items", "probability"


class PartResult(NamedTuple):
    """The policies of some contexts.

    Attributes:
        contexts: a row for each: why it has its policy, its records, and what it earns and would
            earn; see `Optimized.contexts`.
        policy: `context`, `item_1` …, `probability`, `changed`: the lists of all contexts, with
            production's where it stays.
        held_out: the same of policies chosen without a fold, if they are new; a context is called
            as in `fold_number`.
        rows: how many rows of the log they come from.
    """

    contexts: pa.Table
    policy: pa.Table
    held_out: pa.Table
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

    def __call__(self, counts: Counts) -> PartResult:
        """The policies of some contexts."""
        solver, slots = self.solver, counts.slots()
        rates = solver.ladder.rates(slots) if solver.ladder else None
        choices, new = self._chosen(counts, ALL, slots, rates)
        policy, changed = self._with_production(counts, new)
        table = _table(counts, policy, counts.contexts.take(pa.array(policy.context)))
        held_out = []
        for fold in range(self.folds if self.folds > 1 else 0):
            others = counts.slots(fold)
            by = solver.ladder.rates(others) if solver.ladder else None
            _, lists = self._chosen(counts, fold, others, by)
            number = fold_number(counts.first + lists.context, fold, self.folds)
            held_out.append(_table(counts, lists, pa.array(number)))
        return PartResult(
            self._described(counts, choices, new, slots, rates),
            table.append_column("changed", pa.array(changed)),
            pa.concat_tables(held_out or [table.slice(0, 0)]),
            counts.rows,
        )

    def _chosen(
        self, counts: Counts, fold: int, slots: ItemCounts, rates: ItemRates | None
    ) -> tuple[dict[int, BestPolicy], _Lists]:
        """The choice in each context, by its number, and the lists of those that are changed.

        Contexts without records are left out, and so are those without records in the fold, by
        which nothing would be judged.

        Args:
            counts: of some contexts.
            fold: what is left out, or `ALL`.
            slots: the counts without it.
            rates: of these, by a ladder.
        """
        numbers, used = np.arange(len(slots.records) + 1), np.arange(len(counts.records)) != fold
        pairs, starts = (
            np.searchsorted(of, numbers) for of in (counts.pair_context, counts.list_context)
        )
        some = (slots.records > 0) & (np.diff(pairs) > 0)
        if fold != ALL:
            some &= counts.records[fold] > 0
        named = self.solver.constraints.by_item
        values, items = (
            (of.to_pylist() if named else []) for of in (counts.contexts, counts.items)
        )
        choices, lists = {}, None
        new = [(np.zeros(0, np.int64), counts.lists[:0].astype(np.int64), np.zeros(0))]
        for x in np.flatnonzero(some).tolist():
            first, its = pairs[x], slice(pairs[x], pairs[x + 1])
            if self.by_list:
                its_lists = slice(starts[x], starts[x + 1])
                own = counts.lists[its_lists]
                lists = ListCounts(
                    np.where(own == EMPTY, EMPTY, own - first),
                    counts.list_n[used, its_lists].sum(axis=0),
                    counts.list_c[used, its_lists].sum(axis=0),
                    counts.offered[its_lists],
                )
            context = Context(
                slots.n[its],
                slots.c[its],
                float(slots.records[x]),
                rates and rates.at(its),
                lists,
                values[x] if named else None,
                items[its],
            )
            choices[x] = choice = self.solver.best(context)
            chosen = np.where(choice.lists == EMPTY, EMPTY, choice.lists + first)
            new.append((np.full(len(chosen), x), chosen, choice.masses))
        return choices, _Lists(*(np.concatenate(of) for of in zip(*new, strict=True)))

    def _with_production(self, counts: Counts, new: _Lists) -> tuple[_Lists, Bools]:
        """New lists, and production's where it stays; and which contexts changed.

        Lists come by context, the likeliest first.
        """
        changed = np.zeros(len(counts.contexts), dtype=np.bool_)
        changed[new.context] = True
        n = counts.list_n.sum(axis=0)
        records = sums(counts.list_context, n, len(changed))
        stays = (n > 0) & ~changed[counts.list_context]
        context = counts.list_context[stays]
        mass = np.concatenate([n[stays] / records[context], new.mass])
        context = np.concatenate([context, new.context])
        pairs = np.concatenate([counts.lists[stays], new.pairs])
        order = np.lexsort((*pairs.T[::-1], -mass, context))
        return _Lists(context[order], pairs[order], mass[order]), changed[context[order]]

    def _described(
        self,
        counts: Counts,
        choices: dict[int, BestPolicy],
        new: _Lists,
        slots: ItemCounts,
        rates: ItemRates | None,
    ) -> pa.Table:
        """A row for each context; see `Optimized.contexts`."""
        x = np.array(list(choices), dtype=np.int64)
        columns = {
            CONTEXT: counts.contexts.take(pa.array(x)),
            "why": pa.array([choice.why for choice in choices.values()], pa.string()),
            "records": pa.array(slots.records[x]),
        }
        for name in ("production", "naive", "sure"):
            values = [getattr(choice, name) for choice in choices.values()]
            columns[name] = pa.array(values, pa.float64())
        lists = np.bincount(new.context, minlength=len(slots.records))[x]
        solver, se = self.solver, np.zeros(len(slots.records))
        if rates is not None:  # errors of the ladder's estimates
            depth, h = len(solver.theta), marginals(new.pairs, new.mass, len(slots.n))
            of_item = ((h * solver.theta) ** 2 * rates.variance[:, :depth]).sum(axis=1)
            se = np.sqrt(sums(slots.owner, of_item, len(slots.records)))
        columns["se"] = pa.array(se[x], mask=(lists == 0) | (rates is None))
        return pa.table(columns | {"lists": pa.array(lists, pa.int64())})


def _table(counts: Counts, lists: _Lists, contexts: pa.Array) -> pa.Table:
    """Lists with their items, and their contexts as they are called."""
    columns = {CONTEXT: contexts}
    for name, pairs in zip(numbered(ITEM, lists.pairs.shape[1]), lists.pairs.T, strict=True):
        columns[name] = counts.items.take(pa.array(pairs, mask=pairs == EMPTY))
    return pa.table(columns | {PROBABILITY: pa.array(lists.mass)})


def joined(parts: Iterable[PartResult]) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The contexts, the policy and the held-out policies of all parts; see `PartResult`."""
    tables = [(part.contexts, part.policy, part.held_out) for part in parts]
    contexts, policy, held_out = map(pa.concat_tables, zip(*tables, strict=True))
    return contexts, policy, held_out


def as_lists(policy: pa.Table, names: Mapping[str, str | None]) -> pa.Table:
    """A policy as a file has it: columns called as in the log, and each list in one column.

    Args:
        policy: `context`, `item_1` …, `probability`, and perhaps `changed`.
        names: what the log's columns are called, by their roles. Where one is called as another
            column of the policy, both keep the names of their roles.
    """
    context, items = names.get(CONTEXT) or CONTEXT, names.get(ITEMS) or ITEMS
    others = {PROBABILITY, "changed"}
    if {context, items} & others or context in {ITEMS, items} or items == CONTEXT:
        context, items = CONTEXT, ITEMS
    spread = [name for name in policy.column_names if name.startswith(f"{ITEM}_")]
    rest = [name for name in policy.column_names if name in others]
    schema = pa.schema(
        [
            (context, policy.schema.field(CONTEXT).type),
            (items, pa.list_(policy.schema.field(spread[0]).type)),
            *(policy.schema.field(name) for name in rest),
        ]
    )
    batches = []
    for batch in policy.to_batches():
        columns = [batch[name] for name in spread]
        shown = np.stack([np.asarray(column.is_valid()) for column in columns], axis=1)
        position = np.arange(1, len(spread) + 1)
        length = (shown * position).max(axis=1, initial=0)
        row, at = np.nonzero(position <= length[:, None])
        values = pa.concat_arrays(columns).take(pa.array(at * len(batch) + row))
        ends = pa.array(np.concatenate([[0], np.cumsum(length)]), pa.int32())
        lists = pa.ListArray.from_arrays(ends, values)
        arrays = [batch[CONTEXT], lists, *(batch[name] for name in rest)]
        batches.append(pa.record_batch(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema)
