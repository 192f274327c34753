"""The tally of several logs together: the same columns, as wide as all need them, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from foreclick.engines import Table, Value, bring
from foreclick.engines.kinds import called
from foreclick.errors import TallyError
from foreclick.logs import N, Shape, spread

if TYPE_CHECKING:
    from foreclick.tallies.base import Tally


def sum_of(parts: Sequence[Tally], *, apart: bool = False) -> Tally:
    """The tally of several logs together, in the engine of the first: one union, one group-by.

    Args:
        parts: their tallies.
        apart: whether no two of them have a row in common; then they are read where they lie.
    """
    home = parts[0].engine
    shape = reduce(_common_shape, (part.shape for part in parts))
    tables = [spread(bring(part.stored, home), part.shape, keep=shape.masks) for part in parts]
    schema = pa.schema([(name, _widest(name, tables)) for name in shape.stored])
    selects = []
    for table in tables:  # NULL at positions that a tally does not reach
        there = {c: home.say.name(c) if c in table.columns else "NULL" for c in schema.names}
        selects.append(f"SELECT {home.say.names(there)} FROM {table.rows} AS s")
    table = Table(home, f"({' UNION ALL '.join(selects)})", schema, tables)
    if not apart:
        keys = ", ".join(map(home.say.name, shape.order))
        summed = f"SELECT {keys}, {table.total(N)} AS {N} FROM {table.rows} AS s GROUP BY {keys}"
        table = home.keep("tally", table.query(summed))
    return replace(
        parts[0].with_rows(table),
        shape=shape,
        source=None,
        brought=None,
        learnt={},
        **together([vars(part) for part in parts]),
    )


def together(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is known of several tallies, or of their files, for all of them."""
    causes: Counter[str] = Counter()
    for part in parts:
        causes.update(part["dropped"])
    first, *others = [part["names"] for part in parts]
    return {
        "dropped": dict(causes),
        "dropped_rows": sum(part["dropped_rows"] for part in parts),
        "decayed": any(part["decayed"] for part in parts),
        "notes": tuple(dict.fromkeys(note for part in parts for note in part["notes"])),
        "names": {
            role: name
            for role, name in first.items()
            if all(role in other and other[role] == name for other in others)
        },
    }


def sum_records(stored: Table) -> float:
    """How many records some compact rows stand for."""
    total = Value(f"sum({stored.engine.say.cast(f's.{N}', 'real')})", pa.float64())
    return float(stored.asked({N: total})[N] or 0.0)


def _common_shape(a: Shape, b: Shape) -> Shape:
    if replace(a, depth=1, masks=()) != replace(b, depth=1, masks=()):
        raise TallyError(
            "the two tallies do not count the same things and cannot be added: "
            f"{a} and {b}. Read both logs with the same roles."
        )
    masks = tuple(name for name in a.masks if name in b.masks)
    return replace(a, depth=max(a.depth, b.depth), masks=masks)


def _widest(name: str, tables: Sequence[Table]) -> pa.DataType:
    """The type that holds the values of a column in all tallies."""
    kinds = [table.kinds.field(name).type for table in tables if name in table.columns]
    schemas = [pa.schema({name: kind}) for kind in kinds]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(name).type
    except pa.ArrowException as error:
        some = list(dict.fromkeys(map(called, kinds)))
        raise TallyError(
            f"{name!r} is {some[0]} in one tally and {some[-1]} in the other, so they cannot be "
            "added. Read both logs with the same type."
        ) from error
