"""The tally of several logs together: the same columns, as wide as all need them, added up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
from ibis.common.exceptions import IbisError

from foreclick.engines import Engine, bring, total
from foreclick.errors import TallyError
from foreclick.logs import N, Shape, spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from foreclick.tallies.base import Tally


def sum_of(parts: Sequence[Tally], *, apart: bool = False) -> Tally:
    """The tally of several logs together, in the engine of the first: one union, one group-by.

    Args:
        parts: their tallies.
        apart: whether no two of them have a row in common; then they are read where they lie.
    """
    home = parts[0].engine
    shape = reduce(_common_shape, (part.shape for part in parts))
    tables = [
        spread(bring(part.stored, part.engine, home), part.shape, keep=shape.masks)
        for part in parts
    ]
    kinds = {
        name: _widest(name, [t[name].type() for t in tables if name in t.columns])
        for name in shape.stored
    }
    table = ibis.union(*[_widened(table, kinds) for table in tables])
    if not apart:
        summed = table.group_by(shape.order).aggregate(**{N: total(table[N])})
        table = home.materialise(summed, "tally").select(shape.stored)
    return replace(
        parts[0],
        shape=shape,
        stored=table,
        dropped=all_causes(part.dropped for part in parts),
        dropped_rows=sum(part.dropped_rows for part in parts),
        decayed=any(part.decayed for part in parts),
        inflation=_common_inflation(parts),
        names=common_names(part.names for part in parts),
        source=None,
        brought=None,
        learnt={},
        files=(),
        in_order=False,
        states=(),
    )


def common_names(parts: Iterable[dict[str, str | None]]) -> dict[str, str | None]:
    """The names of columns that all parts have alike."""
    first, *others = list(parts)
    return {
        role: name
        for role, name in first.items()
        if all(role in other and other[role] == name for other in others)
    }


def _common_inflation(parts: Sequence[Tally]) -> float:
    """Σ w² / Σ w of all parts together."""
    if len({part.inflation for part in parts}) == 1:
        return parts[0].inflation
    n = [float(part.engine.ask(_records, part.stored)["n"][0].as_py()) for part in parts]
    return sum(k * part.inflation for k, part in zip(n, parts, strict=True)) / sum(n)


def _records(_: Engine, stored: ir.Table) -> ir.Table:
    return stored.aggregate(n=stored[N].cast("float64").sum())


def all_causes(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """How many rows of all parts were left out, by cause."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part)
    return dict(found)


def _common_shape(a: Shape, b: Shape) -> Shape:
    if replace(a, depth=1, masks=()) != replace(b, depth=1, masks=()):
        raise TallyError(
            "the two tallies do not count the same things and cannot be added: "
            f"{a} and {b}. Read both logs with the same roles."
        )
    masks = tuple(name for name in a.masks if name in b.masks)
    return replace(a, depth=max(a.depth, b.depth), masks=masks)


def _widened(table: ir.Table, kinds: dict[str, dt.DataType]) -> ir.Table:
    """All columns, as wide as every tally needs them, NULL at positions not reached."""
    return table.select(
        **{
            name: table[name].cast(kind) if name in table.columns else ibis.null(kind)
            for name, kind in kinds.items()
        }
    )


def _widest(name: str, kinds: list[dt.DataType]) -> dt.DataType:
    try:
        return dt.highest_precedence(kinds).copy(nullable=True)
    except IbisError as error:
        some = list(dict.fromkeys(str(kind) for kind in kinds))
        raise TallyError(
            f"{name!r} is {some[0]} in one tally and {some[-1]} in the other, so they cannot be "
            "added. Read both logs with the same type."
        ) from error
