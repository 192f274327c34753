"""Click masks: a reward that is 0 or 1 everywhere, as one integer a list.

Bit k − 1 of the mask is the reward at position k. A list of ten then has one reward column instead
of ten, so grouping a raw log hashes and compares half as many columns. Only rewards that are 0 or
1 where an item is shown, and NULL where none is, can be packed: nothing else is lost by it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa

from foreclick.engines import Spelling, Table, Value
from foreclick.logs.shape import Shape

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
            columns[column] = Value(say.cast(value, "whole"), pa.int64())
    return table.made(columns)


def packed(table: Table, shape: Shape, names: Collection[str]) -> Table:
    """Replace the columns of these rewards by masks; other columns that `shape` has stay."""
    say, kept = table.engine.say, replace(shape, masks=(*shape.masks, *names))
    masks = {name: Value(mask_of(shape, name, say), pa.int64()) for name in names}
    others = table.own([name for name in kept.stored if name not in names])
    return table.made({name: (masks | others)[name] for name in kept.stored})


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
