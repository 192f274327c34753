"""Click masks: a reward that is 0 or 1 everywhere, as one integer a list.

Bit k − 1 of the mask is the reward at position k. A list of ten then has one reward column instead
of ten, so grouping a raw log hashes and compares half as many columns. Only rewards that are 0 or
1 where an item is shown, and NULL where none is, can be packed: nothing else is lost by it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import add

import ibis
import ibis.expr.types as ir

from foreclick.engines import absent, force, whole
from foreclick.logs.shape import Shape

DEEPEST_MASK = 62
"""Positions that fit in a mask, a signed 64-bit integer with a bit to spare."""


def packed(table: ir.Table, shape: Shape) -> ir.Table:
    """Replace the reward columns of `shape.masks` by masks, and keep all other columns.

    Those that are masks already stay as they are.

    A mask is NULL where the rewards of a row do not fit in it.
    """
    unpacked = [name for name in shape.masks if name not in table.columns]
    masks = {name: mask_of(table, shape, name) for name in unpacked}
    spread = {column for name in shape.masks for column in shape.reward(name)}
    others = [column for column in table.columns if column not in spread]
    return table.select(*others, **masks) if masks else table


def spread(table: ir.Table, shape: Shape, keep: Collection[str] = ()) -> ir.Table:
    """Replace masks by one column a position, NULL where no item is shown.

    Args:
        table: the compact rows of a tally of this shape.
        shape: what its columns are.
        keep: masks that stay masks.
    """
    names = [name for name in shape.masks if name not in keep]
    if not names:
        return table
    columns: dict[str, ir.Value] = {}
    for name in names:
        for k, (column, item) in enumerate(zip(shape.reward(name), shape.items, strict=True)):
            clicked = (table[name] & whole(1 << k)) != whole(0)
            columns[column] = ibis.cases(
                (table[item].isnull(), ibis.null("int64")), (clicked, whole(1)), else_=whole(0)
            )
    others = [column for column in table.columns if column not in names]
    return table.select(*others, **columns)


def maskable(shape: Shape) -> tuple[str, ...]:
    """Names of the rewards that can be packed if their values allow it.

    A mask is called as its reward, so one that shares its name with a segment is never packed.
    """
    taken = {name.lower() for name in shape.segments}
    if shape.depth > DEEPEST_MASK:
        return ()
    return tuple(name for name in shape.rewards if name.lower() not in taken)


def mask_of(table: ir.Table, shape: Shape, name: str) -> ir.IntegerValue:
    """The mask of a row's rewards of this name, NULL where they do not fit in one.

    One condition a position tells both: most rewards are 0, and only what is left is asked further.
    """
    items, values = ([table[c] for c in columns] for columns in (shape.items, shape.reward(name)))
    bits = [
        _bit(item, value, whole(1 << k))
        for k, (item, value) in enumerate(zip(items, values, strict=True))
    ]
    return reduce(add, bits)


def mask_of_slots(
    item: ir.Column, value: ir.NumericColumn, position: ir.IntegerColumn, depth: int
) -> ir.IntegerScalar:
    """The mask of a group of rows, one a position; NULL where they do not fit in one."""
    places = [(position == k, whole(1 << (k - 1))) for k in range(1, depth + 1)]
    bits = _bit(item, value, ibis.cases(*places, else_=whole(0)))
    fits = bits.count() == position.count()
    return fits.ifelse(force(bits.sum(), "int64"), ibis.null("int64"))


def _bit(item: ir.Value, value: ir.NumericValue, bit: ir.IntegerValue) -> ir.IntegerValue:
    """What a slot adds to the mask; NULL where its reward does not fit in one."""
    no_mask = ibis.null("int64")
    return ibis.cases(
        (item.isnull(), absent(value).ifelse(whole(0), no_mask)),
        (value == 0, whole(0)),
        (value == 1, bit),
        else_=no_mask,
    )
