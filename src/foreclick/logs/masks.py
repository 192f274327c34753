"""Click masks: a reward that is 0 or 1 everywhere, as one integer a list.

Bit k − 1 of the mask is the reward at position k. A list of ten then has one reward column instead
of ten, so grouping a raw log hashes and compares half as many columns. Only rewards that are 0 or
1 where an item is shown, and NULL where none is, can be packed: nothing else is lost by it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from operator import add, or_
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir

from foreclick.engines import absent, whole
from foreclick.logs.shape import Shape

if TYPE_CHECKING:
    from foreclick.engines import Engine

DEEPEST_MASK = 62
"""Positions that fit in a mask, a signed 64-bit integer with a bit to spare."""


def packed(table: ir.Table, shape: Shape) -> ir.Table:
    """Replace the reward columns of `shape.masks` by masks, and keep all other columns."""
    masks = {name: _mask([table[c] for c in shape.reward(name)]) for name in shape.masks}
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


def unpackable(table: ir.Table, shape: Shape, name: str, engine: Engine) -> ir.BooleanValue:
    """Whether a row's rewards of this name do not fit in a mask."""
    values = [table[column] for column in shape.reward(name)]
    items = [table[column] for column in shape.items]
    misplaced = [i.isnull() != absent(v) for i, v in zip(items, values, strict=True)]
    return _neither_0_nor_1(values, engine) | reduce(or_, misplaced)


def _neither_0_nor_1(values: Sequence[ir.NumericValue], engine: Engine) -> ir.BooleanValue:
    if all(value.type().is_integer() for value in values):
        # Two comparisons a list rather than two a position.
        least, greatest = engine.extremes(values)
        return ((least < 0) | (greatest > 1)).fill_null(False)
    return reduce(or_, [((v != 0) & (v != 1)).fill_null(False) for v in values])


def _mask(values: Sequence[ir.NumericValue]) -> ir.IntegerValue:
    bits = [(v == 1).ifelse(whole(1 << k), whole(0)) for k, v in enumerate(values)]
    return reduce(add, bits)
