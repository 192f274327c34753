"""Which column of a source plays which part."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa

from foreclick.engines.kinds import LIST, STRUCT, kind_of
from foreclick.errors import SourceError
from foreclick.logs.shape import CONTEXT, Shape
from foreclick.metrics import CLICKS, METRICS

Columns = str | Sequence[str]

BY_IDS = "fc.from_events(log, log, list_id='…', items=('items', 'clicks'), action=None)"
"""How a log is read whose clicks are the ids of items."""


@dataclass(frozen=True)
class Roles:
    """Which column of the source plays which part. See `read_log` for their meaning."""

    context: str | None
    items: Columns | None
    rewards: Mapping[str, Columns]
    period: str | None = None
    unit: str | None = None
    propensity: Columns | None = None
    segments: tuple[str, ...] = ()
    count: str | None = None
    likely: bool = False  # whether rows that count 0 are left out
    long: tuple[str, ...] = ()  # of one row a result: the columns of its list, then its position

    @property
    def layout(self) -> str:
        """How the source is written down: "long", "wide" or "array"."""
        if self.long:
            return "long"
        return "array" if isinstance(self.items, str) else "wide"

    def named(self) -> list[tuple[str, str]]:
        """Every (role, column) pair, in the order in which a reader would say them."""
        single = ("context", "long", "period", "unit", "count")
        pairs: list[tuple[str, Columns | None]] = [(role, getattr(self, role)) for role in single]
        pairs += [("items", self.items), *self.rewards.items(), ("propensity", self.propensity)]
        pairs += [("segments", self.segments)]
        return [
            (role, column)
            for role, columns in pairs
            if columns is not None
            for column in ([columns] if isinstance(columns, str) else columns)
        ]

    def single(self) -> dict[str, str | None]:
        """The roles that have one column, with its name; the context's is None if it has none.

        The items of a long log are in one column for each item, as those of a table of scores.
        """
        found = [("item" if self.long and r == "items" else r, name) for r, name in self.named()]
        often = Counter(role for role, _ in found)
        return {CONTEXT: None} | {role: name for role, name in found if often[role] == 1}

    def shape(self, source: pa.Schema, depth: int) -> Shape:
        """The shape of records of so many positions, without masks."""
        one = self.propensity
        alone = isinstance(one, str) and kind_of(source.field(one).type) != LIST
        each = "list" if alone and self.layout != "long" else "slot"
        return Shape(
            depth=depth,
            rewards=tuple(self.rewards),
            segments=self.segments,
            period=self.period is not None,
            unit=self.unit is not None,
            propensity=None if one is None else each,
        )


def top_of(column: str, source: pa.Schema) -> str:
    """The column that holds what is named: ``results.id`` is the field `id` within `results`."""
    top, _, field = column.partition(".")
    if column in source.names or not field or top not in source.names:
        return column
    kind = source.field(top).type
    inner = kind.value_type if kind_of(kind) == LIST else kind
    return top if kind_of(inner) == STRUCT and inner.get_field_index(field) >= 0 else column


def expanded(roles: Roles, names: Sequence[str]) -> Roles:
    """Roles in which ``item_*`` stands for the columns that it matches, in order."""
    return replace(
        roles,
        items=_matching(roles.items, names),
        rewards={name: _matching(c, names) for name, c in roles.rewards.items()},
        propensity=_matching(roles.propensity, names),
    )


def _matching(columns: Any, names: Sequence[str]) -> Any:  # noqa: ANN401
    if not isinstance(columns, str) or "*" not in columns or columns in names:
        return columns
    found = [name for name in names if fnmatchcase(name, columns)]
    numbers = {name: [int(n) for n in re.findall(r"\d+", name)] for name in found}
    return sorted(found, key=lambda name: (numbers[name], name)) or columns


def rewards_of(clicks: Columns | None, rewards: Mapping[str, Columns] | None) -> dict[str, Columns]:
    """The rewards by name, clicks first."""
    if clicks is not None and not clicks:
        raise SourceError("clicks names no column; clicks=None is for a log without clicks.")
    named: dict[str, Columns] = {} if clicks is None else {CLICKS: clicks}
    others: dict[str, Any] = dict(rewards or {})
    if CLICKS in others and clicks is not None:
        raise SourceError("clicks stands twice: in clicks= and in rewards=. Leave one out.")
    if not all(name.isidentifier() for name in others):
        raise SourceError(f"rewards must have plain names such as 'orders', not {list(others)}.")
    clash = [name for name in others if name.lower() in METRICS]
    if clash:
        raise SourceError(
            f"a reward cannot be called {clash[0]!r}: '{clash[0]}@3' is a metric already. "
            f"Rename it, for instance rewards={{'my_{clash[0]}': …}}."
        )
    return named | others
