"""The columns of a compressed log: how wide it is, what it was read with, and click masks.

A reward that is 0 or 1 everywhere is one integer a list. Bit k − 1 of the mask is the reward at
position k. A list of ten then has one reward column instead of ten, so grouping a raw log hashes
and compares half as many columns. Only rewards that are 0 or 1 where an item is shown, and NULL
where none is, can be packed: nothing else is lost by it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from foreclick.engines import Spelling, Table, Value

CONTEXT, PERIOD, BUCKET, N = "context", "period", "bucket", "n"
ITEM, PROPENSITY = "item", "propensity"
WEIGHT, LENGTH, ROWS = "weight", "length", "rows"
REPEATED, BAD_WEIGHT = "repeated", "bad_weight"
"""What only the raw rows tell of an error: columns that are 0 or 1, where they apply."""

OWN = (WEIGHT, LENGTH, ROWS, REPEATED, BAD_WEIGHT)
"""Columns of groups, beside those of a tally."""


def numbered(name: str, depth: int) -> list[str]:
    """name_1 … name_depth."""
    return [f"{name}_{k}" for k in range(1, depth + 1)]


@dataclass(frozen=True)
class Shape:
    """What the columns of a compressed log are.

    A list is spread over scalar columns, `item_1` … `item_K`: grouping by scalars is about twice
    as fast as grouping by arrays, and an empty position is simply NULL. A reward that is 0 or 1
    everywhere is stored as one integer, its *mask*, named as the reward: bit k − 1 is the reward
    at position k. Other rewards have one column a position (`price_1` … `price_K`).

    Attributes:
        depth: K, the longest list.
        rewards: the names of the rewards, `clicks` first; none for a log without clicks.
        segments: the names of the segment columns, which keep their own names.
        period, unit: whether the log was read with them.
        propensity: whether propensities were given, and for what: "list", "slot" or None.
        masks: the names of the rewards that are stored as masks.
    """

    depth: int
    rewards: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    period: bool = False
    unit: bool = False
    propensity: str | None = None
    masks: tuple[str, ...] = ()

    @property
    def items(self) -> list[str]:
        """item_1 … item_K."""
        return numbered(ITEM, self.depth)

    @property
    def propensities(self) -> list[str]:
        """The propensity columns."""
        if self.propensity == "slot":
            return numbered(PROPENSITY, self.depth)
        return [PROPENSITY] if self.propensity == "list" else []

    def reward(self, name: str) -> list[str]:
        """name_1 … name_K for one reward."""
        return numbered(name, self.depth)

    @property
    def order(self) -> list[str]:
        """The keys of the compact rows, in the order in which they are sorted.

        Ascending, NULLs first, text by its bytes. Contexts, lists and the tops of lists are then
        runs of neighbouring rows.
        """
        return [
            CONTEXT,
            *self.items,
            *([PERIOD] if self.period else []),
            *self.segments,
            *([BUCKET] if self.unit else []),
            *(c for name in self.rewards for c in self.stored_reward(name)),
            *self.propensities,
        ]

    @property
    def stored(self) -> list[str]:
        """The columns of the compact rows: the keys and the count."""
        return [*self.order, N]

    def stored_reward(self, name: str) -> list[str]:
        """The columns that hold one reward in the compact rows: its mask, or one a position."""
        return [name] if name in self.masks else self.reward(name)

    @property
    def keys(self) -> list[str]:
        """Everything that a row of the compressed log is counted by, one column a position."""
        rest = replace(self, masks=()).order[1 + self.depth :]
        own = self.period + len(self.segments) + self.unit  # those of the list as a whole
        return [CONTEXT, *rest[:own], *self.items, *rest[own:]]

    @property
    def columns(self) -> list[str]:
        """The keys and the count."""
        return [*self.keys, N]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Shape:
        """The inverse of `asdict`, by way of JSON."""
        plain: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        return cls(**plain)


DEEPEST_MASK = 62
"""Positions that fit in a mask, a signed 64-bit integer with a bit to spare."""


def spread(table: Table, shape: Shape, keep: Collection[str] = ()) -> Table:
    """Replace masks by one column a position, NULL where no item is shown.

    Args:
        table: the compact rows of a tally of this shape.
        shape: what its columns are.
        keep: masks that stay masks.
    """
    names = [name for name in shape.masks if name not in keep]
    if not names:
        return table
    say = table.engine.say
    columns = table.own([name for name in table.columns if name not in names])
    for name in names:
        for k, (column, item) in enumerate(zip(shape.reward(name), shape.items, strict=True)):
            clicked = f"({say.column(name)} & {say.cast(str(1 << k), 'whole')}) <> 0"
            value = f"CASE WHEN s.{item} IS NULL THEN NULL WHEN {clicked} THEN 1 ELSE 0 END"
            columns[column] = Value(say.cast(value, "whole"))
    return table.made(columns)


def maskable(shape: Shape) -> tuple[str, ...]:
    """Names of the rewards that can be packed if their values allow it.

    A mask is called as its reward, so one that shares its name with a segment is never packed.
    """
    taken = {name.lower() for name in shape.segments}
    if shape.depth > DEEPEST_MASK:
        return ()
    return tuple(name for name in shape.rewards if name.lower() not in taken)


def mask_of(shape: Shape, name: str, say: Spelling) -> str:
    """The mask of the rewards of this name in a row of `s`, NULL where they do not fit in one.

    One condition a position tells both: most rewards are 0, and only what is left is asked further.
    """
    slots = enumerate(zip(shape.items, shape.reward(name), strict=True))
    bits = (
        bit(say.column(item), say.column(value), say.cast(str(1 << k), "whole"))
        for k, (item, value) in slots
    )
    return " + ".join(bits)


def bit(item: str, value: str, power: str) -> str:
    """What a position adds to a mask; NULL where its reward does not fit in one."""
    return (
        f"CASE WHEN {item} IS NULL THEN CASE WHEN {value} IS NULL THEN 0 END "
        f"WHEN {value} = 0 THEN 0 WHEN {value} = 1 THEN {power} END"
    )
