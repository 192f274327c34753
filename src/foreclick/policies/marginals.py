"""A policy known only by how likely each item is at each position."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.engines import Table
from foreclick.errors import PolicyError
from foreclick.logs import CONTEXT, ITEM, N, numbered
from foreclick.policies.base import LogView, Policy, PolicyTable, SlotRows, policy_rows, refuse
from foreclick.policies.lists import TOLERANCE
from foreclick.words import no_column

_PLACE = "place"  # the position, under a name that is free in a compressed table
_ITEM = numbered(ITEM, 1)[0]


@dataclass(frozen=True, eq=False)
class Marginals(Policy):
    """A policy as item-position probabilities h(a, k | x), for ip, item, pbm, rctr and rcm.

    Estimators of whole lists (`list`, `prefix`) and metrics of first clicks (`success@K`, `mrr@K`)
    are refused: they depend on which items stand together in a list.

    Args:
        table: one row per (context, item, position): anything `read_log` accepts.
        context: the column of the context; None: one context for all.
        item: the column of the item.
        position: the column of the position, from 1.
        probability: the column of the probability.

    Raises:
        PolicyError: a column is missing, or probabilities contradict each other.

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

    @property
    def _roles(self) -> dict[str, Any]:
        return {CONTEXT: self.context, ITEM: self.item}

    def __repr__(self) -> str:
        return f"Marginals({self.probability} of {self.item} at {self.position}, by {self.context})"

    @cached_property
    def _slots(self) -> Table:
        """`context`, `item_1`, `place`, `n`: how likely the item is at the place."""
        table = self._source
        for role, column in (("position", self.position), ("probability", self.probability)):
            if column not in table.columns:
                raise PolicyError(no_column(role, column, table.columns))
        if not pa.types.is_integer(table.kinds.field(self.position).type):
            raise PolicyError(f"{self.position!r} must be an integer, counted from 1.")
        place = {_PLACE: self.position}
        return policy_rows(table, self.context, [self.item], self.probability, place).stored

    def _check(self) -> None:
        slots, total = self._slots, self._slots.total(N).text
        refuse(
            slots,
            f"SELECT * FROM {slots.rows} AS s WHERE {_PLACE} < 1",
            lambda row: f"position {row[_PLACE]} in context {row[CONTEXT]!r}",
            "positions count from 1",
        )
        for name, key in (("position", _PLACE), (ITEM, _ITEM)):
            groups = f"GROUP BY {CONTEXT}, {key} HAVING {total} > {1 + TOLERANCE!r}"
            refuse(
                slots,
                f"SELECT {CONTEXT}, {key} AS one, '{name}' AS name, {total} AS sum "
                f"FROM {slots.rows} AS s {groups}",
                lambda row: (
                    f"the probabilities of {row['name']} {row['one']!r} in context "
                    f"{row[CONTEXT]!r} sum to {row['sum']:.6g}"
                ),
                "a position holds one item and an item stands at one position, so neither may "
                "exceed 1",
            )

    @cached_property
    def _arrow(self) -> PolicyTable:
        return PolicyTable(self._slots.to_pyarrow(), "Marginals")

    @property
    def longest(self) -> float:
        """The last position of the table."""
        return float(pc.max(self._arrow.table[_PLACE]).as_py() or 0)

    def longest_in(self, view: LogView) -> float:
        """The last position in these contexts."""
        here, _ = self._arrow.within(view)
        return float(pc.max(here[_PLACE]).as_py() or self.longest)

    def slot_rows(self, view: LogView) -> SlotRows:
        """The table's rows, down to the view's depth."""
        table, context = self._arrow.within(view)
        position = np.asarray(table[_PLACE]).astype(np.int64) - 1
        here = np.flatnonzero(position < view.depth)
        item = view.item_numbers([table[_ITEM].combine_chunks()])[:, 0]
        mass = np.asarray(table[N]).astype(np.float64)
        return SlotRows(context[here], item[here], position[here], mass[here])
