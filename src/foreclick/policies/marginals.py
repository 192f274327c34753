"""A policy known only by how likely each item is at each position."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow.compute as pc

from foreclick.engines import Engine, open_source, total
from foreclick.errors import PolicyError
from foreclick.logs import CONTEXT, ITEM, Log, N, Roles, compress, numbered
from foreclick.policies.base import LogView, Policy, Rows, SlotRows
from foreclick.policies.lists import TOLERANCE
from foreclick.policies.scores import refuse
from foreclick.words import no_column

MASS, POSITION = "mass", "position"
_PLACE = "place"  # the position, under a name that is free in a compressed table


@dataclass(frozen=True, eq=False)
class Marginals(Policy):
    """Item-position probabilities h(a, k | x): enough for ip, item, pbm, rctr and rcm.

    First clicks (`success@K`, `mrr@K`) depend on whole lists, which this says nothing of.

    Args:
        table: one row per (context, item, position): anything `read_log` accepts.
        context: the column of the context; None: one context for all.
        item: the column of the item.
        position: the column of the position, from 1.
        probability: the column of the probability.

    Examples:
        >>> table = {
        ...     "context": ["q", "q"],
        ...     "item": [1, 2],
        ...     "position": [1, 2],
        ...     "probability": [1.0, 1.0],
        ... }
        >>> Marginals(table)
        Marginals(probability of item at position, by context)
    """

    table: Any
    context: str | None = "context"
    item: str = "item"
    position: str = "position"
    probability: str = "probability"

    def __post_init__(self) -> None:
        self._check()

    def __repr__(self) -> str:
        return f"Marginals({self.probability} of {self.item} at {self.position}, by {self.context})"

    @cached_property
    def _log(self) -> Log:
        engine, table = open_source(self.table)
        for role, column in (("position", self.position), ("probability", self.probability)):
            if column not in table.columns:
                raise PolicyError(no_column(role, column, table.columns))
        if not table[self.position].type().is_integer():
            raise PolicyError(f"{self.position!r} must be an integer, counted from 1.")
        placed = table.mutate(**{_PLACE: table[self.position]})
        roles = Roles(
            context=self.context,
            items=[self.item],
            rewards={},
            segments=(_PLACE,),
            weight=self.probability,
            likely=True,
        )
        return compress(placed, roles, engine, "refuse")

    def to_slots(self) -> ir.Table:
        """`context`, `item`, `position`, `mass`, in the table's own engine."""
        log = self._log
        first = numbered(ITEM, 1)[0]
        return log.table.select(
            CONTEXT,
            **{
                ITEM: log.table[first],
                POSITION: log.table[_PLACE].cast("int64"),
                MASS: log.table[N].cast("float64"),
            },
        )

    def _check(self) -> None:
        slots, engine = self.to_slots(), self._log.engine
        refuse(
            engine,
            slots,
            _below_one,
            lambda row: f"position {row[POSITION]} in context {row[CONTEXT]!r}",
            "positions count from 1",
        )
        for key in (POSITION, ITEM):
            refuse(
                engine,
                slots,
                _above_one,
                partial(_too_likely, key),
                "a position holds one item and an item stands at one position, so neither may "
                "exceed 1",
                key,
            )

    @cached_property
    def _arrow(self) -> Rows:
        return Rows(self._log.engine.fetch(self.to_slots()), "Marginals")

    @property
    def longest(self) -> float:
        """The table's last position."""
        return float(pc.max(self._arrow.table[POSITION]).as_py() or 0)

    def slot_rows(self, view: LogView) -> SlotRows:
        """The table itself, down to the view's depth."""
        table = self._arrow.of(view)
        context = view.context_numbers(table[CONTEXT].combine_chunks())
        position = np.asarray(table[POSITION].combine_chunks()) - 1
        here = np.flatnonzero((context >= 0) & (position < view.depth))
        item = view.item_numbers([table[ITEM].combine_chunks()])[:, 0]
        mass = np.asarray(table[MASS].combine_chunks())
        return SlotRows(context[here], item[here], position[here], mass[here])


def _below_one(_: Engine, slots: ir.Table) -> ir.Table:
    return slots.filter(slots[POSITION] < 1)


def _above_one(_: Engine, slots: ir.Table, key: str) -> ir.Table:
    sums = slots.group_by([CONTEXT, key]).aggregate(sum=total(slots[MASS]))
    return sums.filter(sums["sum"] > 1 + TOLERANCE)


def _too_likely(key: str, row: dict[str, Any]) -> str:
    return (
        f"the probabilities of {key} {row[key]!r} in context {row[CONTEXT]!r} "
        f"sum to {row['sum']:.6g}"
    )
