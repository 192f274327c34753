"""Logs and policies as the kernel has them, without an engine.

A tally is a sorted Arrow table and a policy a table of rows, so a log can be put before the kernel
without a statement of SQL: in the milliseconds that the statistics take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa

import foreclick as fc
from foreclick.batches import Batch, Batches
from foreclick.batches.encode import Codebook, Codes, encode
from foreclick.batches.source import _key
from foreclick.engines import Table, default_engine
from foreclick.logs import Shape
from foreclick.logs.roles import DEEPEST_MASK
from foreclick.policies import Policy
from foreclick.policies.base import PolicyTable
from foreclick.policies.lists import ListPolicy
from foreclick.tallies.files import whole_contexts
from tests.fuzz.draws import Case, Row

P = TypeVar("P", bound=Policy)


class _Sorted:
    """The batches of a sorted table, read from record batches of any size."""

    def __init__(self, table: pa.Table, shape: Shape, limit: int, chunk: int) -> None:
        self.table, self.shape, self.limit, self.chunk = table, shape, limit, chunk
        self.rows = table.num_rows
        names = [*(["period"] if shape.period else []), *shape.segments]
        codes = {name: Codes.from_values(table[name]) for name in names}
        self.codebook = Codebook(codes.pop("period", None), codes)

    def __iter__(self) -> Iterator[Batch]:
        parts = self.table.to_batches(max_chunksize=self.chunk)
        for rows in whole_contexts(parts, self.limit):
            yield encode(rows, self.shape, self.codebook)


def tally_of(
    case: Case, *, slots: int = 4_000_000, chunk: int = 250_000, times: int = 1
) -> fc.Tally:
    """The tally of a case's log, in batches of so many slots.

    Args:
        case: the log.
        slots: rows times positions of a batch.
        chunk: rows of the record batches that it is read from.
        times: in how many files the log is: rows of the same key then stand for a part each.
    """
    shape = shape_of(case)
    table = sorted_table(case, shape, times)
    tally = fc.Tally(default_engine(), shape, _nothing(shape), {}, 0)
    limit = max(slots // shape.depth, 1)
    tally.cache[_key(tally)] = Batches(tally, slots, source=_Sorted(table, shape, limit, chunk))
    return tally


@cache
def _nothing(shape: Shape) -> Table:
    """A table that stands for the rows, which nobody asks for."""
    kinds = pa.schema(dict.fromkeys(shape.stored, pa.int64()))
    return Table(default_engine(), "rows", kinds)


def shape_of(case: Case) -> Shape:
    """What the columns of the tally are."""
    rows = case.rows
    depth = max(len(row.items) for row in rows)
    binary = all(click in (0, 1) for row in rows for click in row.clicks)
    return Shape(
        depth,
        rewards=("clicks",),
        segments=("land",),
        period=True,
        unit=case.units,
        propensity=case.propensity,
        masks=("clicks",) if binary and case.masked and depth <= DEEPEST_MASK else (),
    )


def sorted_table(case: Case, shape: Shape, times: int = 1) -> pa.Table:
    """The rows of the tally in canonical order; those of one key are added up, file by file."""
    files: dict[tuple[int, tuple[Any, ...]], float] = {}
    for number, row in enumerate(case.rows):
        key = tuple(_key_of(row, shape))
        files[number % times, key] = files.get((number % times, key), 0) + row.weight
    rows = sorted((tuple(map(_place, key)), key, n) for (_, key), n in files.items())
    columns = list(zip(*(key for _, key, _ in rows), strict=True))
    kinds = _kinds(case, shape)
    table = {
        name: pa.array(values, kinds.get(name))
        for name, values in zip(shape.order, columns, strict=True)
    }
    counts = [n for *_, n in rows]
    whole = all(float(n).is_integer() for n in counts)
    return pa.table({**table, "n": pa.array(counts, pa.int64() if whole else pa.float64())})


def _kinds(case: Case, shape: Shape) -> dict[str, pa.DataType]:
    text = isinstance(next(item for row in case.rows for item in row.items), str)
    items = dict.fromkeys(shape.items, pa.string() if text else pa.int64())
    days = pa.array([row.day for row in case.rows])
    period = pa.int64() if pa.types.is_null(days.type) else days.type
    return {**items, "land": pa.string(), "period": period}


def _key_of(row: Row, shape: Shape) -> Iterator[Any]:
    yield row.context
    empty = [None] * (shape.depth - len(row.items))
    yield from (*row.items, *empty)
    if shape.period:
        yield row.day
    if shape.segments:
        yield row.land
    if shape.unit:
        yield row.unit
    if shape.masks:
        yield sum(1 << k for k, click in enumerate(row.clicks) if click)
    else:
        yield from (*row.clicks, *empty)
    if shape.propensity == "list":
        yield row.chance
    elif shape.propensity == "slot":
        yield from (*row.chances[: len(row.items)], *empty)


def _place(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a key
    """Where a value stands in canonical order: NULLs first, text by its bytes."""
    if value is None:
        return (0,)
    return (1, value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value)


# --- policies -----------------------------------------------------------------------------------


def policy_of(case: Case, tally: fc.Tally) -> Policy:
    """The candidate of a case, as what the case calls it."""
    if case.kind == "Marginals":
        return marginals_of(case.candidate)
    kind = {"Lists": fc.Lists, "Ranking": fc.Ranking, "Observed": fc.Observed}[case.kind]
    return lists_of(kind, case.candidate, tally)


def lists_of(
    kind: type[ListPolicy], lists: Mapping[Any, Mapping[Any, float]], tally: fc.Tally
) -> Policy:
    """Lists with probabilities."""
    depth = max((len(one) for of in lists.values() for one in of), default=1)
    rows = [
        (x, *one, *[None] * (depth - len(one)), mass)
        for x, of in lists.items()
        for one, mass in of.items()
    ]
    found = _made(kind, rows, ("context", *(f"item_{k + 1}" for k in range(depth)), "n"))
    if isinstance(found, fc.Observed):
        other = fc.Tally(tally.engine, Shape(depth), _nothing(Shape(depth)), {}, 0)
        found.__dict__["log"] = other
    return found


def marginals_of(lists: Mapping[Any, Mapping[Any, float]]) -> Policy:
    """How likely every item is at every position."""
    mass: dict[tuple[Any, Any, int], float] = {}
    for x, of in lists.items():
        for one, chance in of.items():
            for k, item in enumerate(one, start=1):
                mass[x, item, k] = mass.get((x, item, k), 0.0) + chance
    rows = [(*key, value) for key, value in mass.items()]
    return _made(fc.Marginals, rows, ("context", "item_1", "place", "n"))


def _made(kind: type[P], rows: Sequence[tuple[Any, ...]], names: Iterable[str]) -> P:
    """A policy from its rows, as one that comes from another process is made."""
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    found = kind.__new__(kind)
    found.__dict__["_arrow"] = PolicyTable(pa.table(columns), kind.__name__)
    found.__dict__["_source"] = _nothing(Shape(1))
    return found
