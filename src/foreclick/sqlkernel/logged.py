"""The log's side of every estimator: its lists, and what derives from them, each made once.

Coarser things come from finer aggregates, never from the raw log:

    tally ─► lists ─► slots            lists ─► sums per context ─► positions
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

import ibis
import ibis.expr.types as ir

from foreclick._tally import Tally
from foreclick.engines import total, whole, zero
from foreclick.logs import CONTEXT, ITEM, PROPENSITY, N, numbered, numbered_all
from foreclick.metrics import Metric
from foreclick.models import POSITION, ClickModel, slots_of, stacked
from foreclick.sqlkernel.cells import SQUARE, credit, prefixes_of, square_of

Keep = Callable[[ir.Table, str], ir.Table]
"""Materialises a step of a calculation, under its name."""

RECORDS, SHOWN = "records", "shown"


class Logged:
    """The lists of a tally with their counts, by context and whatever else is kept apart.

    Args:
        tally: the log.
        rewards: which rewards are summed.
        depth: down to which position; the lists have so many item columns.
        keep: see `Keep`.
        apart: further keys, expressions over `table`, by the names they get.
        table: the tally's rows, or those of them that count.
        propensity: what the propensities that are kept belong to, "list" or "slot".
        squares: of which rewards Σ w² is summed at each position, and of which metrics Σ f².

    Attributes:
        keys: the context and what else keeps records apart.
        reached: the last position that a logged list of this depth can have.
        lists: (keys, list [, propensity]) → n and, at each position, the sum of each reward.
            Click patterns are summed over: a table several times smaller than the tally.
    """

    def __init__(  # noqa: PLR0913 - half of them are for one caller alone
        self,
        tally: Tally,
        rewards: Sequence[str],
        depth: int,
        keep: Keep,
        apart: Mapping[str, ir.Value],
        *,
        table: ir.Table | None = None,
        propensity: str | None = None,
        squares: tuple[Sequence[str], Sequence[Metric]] = ((), ()),
    ) -> None:
        self.rewards, self.depth = tuple(rewards), depth
        self.squares, self.scores = squares
        self.reached = min(depth, tally.shape.depth)
        self.keys = [CONTEXT, *apart]
        self.propensity = propensity
        self._tally, self._keep = tally, keep
        self.lists = self._lists(tally.table if table is None else table, apart)
        self.made: dict[str, ir.Table] = {}
        self._finer: Logged | None = None

    def without(self, key: str) -> Logged:
        """The same log, with records together that only `key` keeps apart.

        Its lists may stand in several rows: whoever sums cells cuts them down first.
        """
        found = copy(self)
        found.keys = [k for k in self.keys if k != key]
        found.made, found._finer = {}, self  # noqa: SLF001 - its own kind
        return found

    def _lists(self, table: ir.Table, apart: Mapping[str, ir.Value]) -> ir.Table:
        n = table[N]
        sums: dict[str, ir.Value] = {}
        for reward in self.rewards:
            for k in range(1, self.reached + 1):
                value = table[f"{reward}_{k}"].fill_null(0)
                sums[f"{reward}_{k}"] = n * value
                if reward in self.squares:
                    sums[f"{reward}{SQUARE}_{k}"] = n.cast("float64") * value * value
        for metric in self.scores:
            sums[square_of(metric)] = n.cast("float64") * credit(table, metric) ** 2
        summed = [N, *sums]
        rows = table.select(
            CONTEXT,
            *numbered(ITEM, self.reached),
            N,
            **self._propensities(table),
            **apart,
            **sums,
        )
        keys = [c for c in rows.columns if c not in summed]
        lists = rows.group_by(keys).aggregate(**{c: total(rows[c]) for c in summed})
        lists = self._keep(lists, "lists")
        return lists.mutate(**self._beyond(lists))

    def _propensities(self, table: ir.Table) -> dict[str, ir.Value]:
        if self.propensity == "slot":
            return {c: table[c] for c in numbered(PROPENSITY, self.reached)}
        return {PROPENSITY: table[self._tally.shape.propensities[0]]} if self.propensity else {}

    def _beyond(self, lists: ir.Table) -> dict[str, ir.Value]:
        """A metric may look further down than any logged list, and a candidate may reach there."""
        found: dict[str, ir.Value] = {}
        for k in range(self.reached + 1, self.depth + 1):
            found[f"{ITEM}_{k}"] = ibis.null(lists[f"{ITEM}_1"].type())
            found |= {f"{r}_{k}": zero(lists[f"{r}_1"].type()) for r in self.rewards}
            if self.propensity == "slot":
                found[f"{PROPENSITY}_{k}"] = ibis.null("float64")
        return found

    @property
    def _sums(self) -> list[str]:
        """The stems of what is summed at each position."""
        return [*self.rewards, *(f"{reward}{SQUARE}" for reward in self.squares)]

    def summed(self) -> ir.Table:
        """Keys → records and, by position, how often it was filled and the sum of each reward."""
        lists = self.lists
        sums = {c: total(lists[c]) for c in numbered_all(self.rewards, self.depth)}
        for k, column in enumerate(numbered(SHOWN, self.depth), start=1):
            there = lists[f"{ITEM}_{k}"].notnull()
            sums[column] = total(there.ifelse(lists[N], zero(lists[N].type())))
        return lists.group_by(self.keys).aggregate(**{RECORDS: total(lists[N])}, **sums)

    def slots(self) -> ir.Table:
        """(keys, item, position [, propensity]) → n and the sum of each reward."""
        if "slots" not in self.made:
            keys = [*self.keys, *([PROPENSITY] if self.propensity else [])]
            if self._finer is None:
                sums: dict[str, str | None] = {N: None} | {r: r for r in self._sums}
                slots = slots_of(self.lists, self.reached, keys, sums)
            else:
                finer = self._finer.slots()
                slots = finer.group_by([*keys, ITEM, POSITION]).aggregate(
                    **{c: total(finer[c]) for c in (N, *self._sums)}
                )
            self.made["slots"] = self._keep(slots, "slots")
        return self.made["slots"]

    def rows(self, model: ClickModel, summed: ir.Table) -> ir.Table:
        """What a model's cells are made of: lists, prefixes, slots, or slots without items.

        `summed` is what the method of that name gave, materialised.
        """
        if model.cell == "list":
            return self.lists
        if model.cell == "prefix":
            own = [*self.keys, *([PROPENSITY] if self.propensity else [])]
            return prefixes_of(self.lists, self.reached, self.depth, own, [N, *self._sums])
        return self.slots() if model.sees_items else self._positions(summed)

    def _positions(self, summed: ir.Table) -> ir.Table:
        return stacked(
            [
                summed.select(
                    *self.keys,
                    **{N: summed[f"{SHOWN}_{k}"], POSITION: whole(k)},
                    **{reward: summed[f"{reward}_{k}"] for reward in self.rewards},
                )
                for k in range(1, self.reached + 1)
            ]
        )
