"""A policy known only by how likely each item is at each position."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.engines import Table, open_source
from foreclick.errors import PolicyError
from foreclick.logs import CONTEXT, ITEM, Log, N, Roles, compress, numbered
from foreclick.policies.base import LogView, Names, Policy, Rows, SlotRows, lacking, named_as
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
        if not self._lacks:
            self._check()

    @cached_property
    def _source(self) -> Table:
        return open_source(self.table)

    @property
    def _lacks(self) -> list[str]:
        if "_arrow" in self.__dict__:  # read already, perhaps in another process
            return []
        return lacking(self._source.columns, {CONTEXT: self.context, ITEM: self.item})

    def named(self, names: Names) -> Marginals:
        """The policy with its columns called as in a log, where its table lacks the usual names."""
        if not self._lacks:
            return self
        made = replace(self, **named_as(self._source.columns, self._lacks, names))
        made._check()  # noqa: SLF001 - of the same class
        return made

    def __repr__(self) -> str:
        return f"Marginals({self.probability} of {self.item} at {self.position}, by {self.context})"

    @cached_property
    def _log(self) -> Log:
        table = self._source
        for role, column in (("position", self.position), ("probability", self.probability)):
            if column not in table.columns:
                raise PolicyError(no_column(role, column, table.columns))
        kind = table.kinds.field(self.position).type
        if not pa.types.is_integer(kind):
            raise PolicyError(f"{self.position!r} must be an integer, counted from 1.")
        placed = table.with_column(_PLACE, f"s.{table.engine.say.name(self.position)}", kind)
        roles = Roles(
            context=self.context,
            items=[self.item],
            rewards={},
            segments=(_PLACE,),
            weight=self.probability,
            likely=True,
        )
        return compress(placed, roles, "refuse")

    def to_slots(self) -> Table:
        """`context`, `item`, `position`, `mass`, in the table's own engine."""
        stored, say = self._log.stored, self._log.engine.say
        first = numbered(ITEM, 1)[0]
        columns = {CONTEXT: CONTEXT, ITEM: first}
        kinds = [stored.kinds.field(c).with_name(name) for name, c in columns.items()]
        kinds += [pa.field(POSITION, pa.int64()), pa.field(MASS, pa.float64())]
        columns |= {POSITION: say.cast(_PLACE, "whole"), MASS: say.cast(N, "real")}
        return stored.query(
            f"SELECT {say.names(columns)} FROM {stored.rows} AS s", pa.schema(kinds)
        )

    def _check(self) -> None:
        slots = self.to_slots()
        refuse(
            slots,
            f"SELECT * FROM {slots.rows} AS s WHERE {POSITION} < 1",
            lambda row: f"position {row[POSITION]} in context {row[CONTEXT]!r}",
            "positions count from 1",
        )
        for key in (POSITION, ITEM):
            total = slots.total(MASS)
            refuse(
                slots,
                f"SELECT {CONTEXT}, {key}, {total} AS sum FROM {slots.rows} AS s "
                f"GROUP BY {CONTEXT}, {key} HAVING {total} > {1 + TOLERANCE!r}",
                partial(_too_likely, key),
                "a position holds one item and an item stands at one position, so neither may "
                "exceed 1",
            )

    @cached_property
    def _arrow(self) -> Rows:
        return Rows(self.to_slots().to_pyarrow(), "Marginals")

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


def _too_likely(key: str, row: dict[str, Any]) -> str:
    return (
        f"the probabilities of {key} {row[key]!r} in context {row[CONTEXT]!r} "
        f"sum to {row['sum']:.6g}"
    )
