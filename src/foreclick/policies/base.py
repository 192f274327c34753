"""What a policy is to the rest of the library: where it would show what, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from foreclick.engines import Engine, bring
from foreclick.errors import PolicyError
from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.models import MASS, slots_of

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class View:
    """A log as a policy needs to see it: where it lives, its types, and which lists it holds.

    Attributes:
        engine: where the policy's rows are needed.
        depth: down to which position.
        lists: the logged lists: `context`, `item_1` … `item_depth`, each at least once.
        keep: materialises a step of the calculation that asks.
    """

    engine: Engine
    depth: int
    lists: ir.Table
    keep: Callable[[ir.Table, str], ir.Table]

    @property
    def items(self) -> list[str]:
        """item_1 … item_depth."""
        return numbered(ITEM, self.depth)

    def settle(self, table: ir.Table, home: Engine, what: str) -> ir.Table:
        """`table` in the log's engine, with contexts and items of the log's types."""
        table = bring(table, home, self.engine)
        wanted = {CONTEXT: self.lists[CONTEXT].type()}
        wanted |= {c: self.lists[self.items[0]].type() for c in table.columns if _is_item(c)}
        return table.mutate(**{c: _as(table[c], kind, what) for c, kind in wanted.items()})


class Policy:
    """A conditional distribution of lists, given the context.

    A child says `contexts` and either `lists` (then `slots` follows) or `slots`, or both.
    """

    @property
    def complete(self) -> bool:
        """Whether `lists` tells all lists apart: its slots then follow from them."""
        return type(self).slots is Policy.slots

    def contexts(self, view: View) -> ir.Table:
        """The contexts that the policy has an answer for: one column, `context`."""
        raise NotImplementedError

    def lists(self, view: View) -> ir.Table:  # noqa: ARG002 - for those who have lists
        """`context`, `item_1` … `item_depth`, `mass`: the probability of each list."""
        raise PolicyError(
            f"{type(self).__name__} does not say how likely whole lists are, which the click "
            "models 'list' and 'prefix' need. Use Lists or Ranking, or the estimators 'ip', "
            "'item', 'pbm'."
        )

    def slots(self, view: View) -> ir.Table:
        """`context`, `item`, `position`, `mass`: how likely each item is at each position."""
        return slots_of(self.lists(view), view.depth, [CONTEXT], {MASS: None})


def _is_item(column: str) -> bool:
    return column == ITEM or column.startswith(f"{ITEM}_")


def _as(column: ir.Column, kind: dt.DataType, what: str) -> ir.Column:
    """`column` as the log's type: the same, or text if the log has text."""
    have: Any = column.type()
    if have.is_integer() and kind.is_integer():
        return column
    if kind.is_string():
        return column.cast("string")
    raise PolicyError(
        f"{column.get_name()!r} is {have} in the {what} and {kind} in the log, so nothing would "
        f"match. Convert one of them, for instance the {what}'s column to {kind}."
    )
