"""The tally of several logs together: the same columns, as wide as all need them, added up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from foreclick.engines import Table, Value, bring
from foreclick.engines.kinds import called
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
    tables = [spread(bring(part.stored, home), part.shape, keep=shape.masks) for part in parts]
    schema = pa.schema([(name, _widest(name, tables)) for name in shape.stored])
    union = " UNION ALL ".join(_widened(table, schema) for table in tables)
    table = Table(home, f"({union})", schema, tables)
    if not apart:
        keys = ", ".join(map(home.say.name, shape.order))
        summed = f"SELECT {keys}, {table.total(N)} AS {N} FROM {table.rows} AS s GROUP BY {keys}"
        table = home.keep("tally", table.query(summed))
    return replace(
        parts[0],
        shape=shape,
        stored=table,
        dropped=all_causes(part.dropped for part in parts),
        dropped_rows=sum(part.dropped_rows for part in parts),
        decayed=any(part.decayed for part in parts),
        inflation=_common_inflation(parts),
        notes=all_notes(part.notes for part in parts),
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
    n = [sum_records(part.stored) for part in parts]
    return sum(k * part.inflation for k, part in zip(n, parts, strict=True)) / sum(n)


def sum_records(stored: Table) -> float:
    """How many records some compact rows stand for."""
    total = Value(f"sum({stored.engine.say.cast(f's.{N}', 'real')})", pa.float64())
    return float(stored.asked({N: total})[N] or 0.0)


def all_notes(parts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """What any part says, once."""
    return tuple(dict.fromkeys(note for part in parts for note in part))


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


def _widened(table: Table, schema: pa.Schema) -> str:
    """All columns, as wide as every tally needs them, NULL at positions not reached."""
    say = table.engine.say
    there = {c: say.name(c) if c in table.columns else "NULL" for c in schema.names}
    return f"SELECT {say.names(there)} FROM {table.rows} AS s"


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
