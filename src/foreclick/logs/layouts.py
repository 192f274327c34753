"""Three ways to write a log down, one way to read it: wide records.

Arrays (one row a list), wide columns (one row a list, a column a position) and long (one row an
impression) all become *records*: one row a list, with the scalar columns of `Shape`, a `weight`,
the list's `length`, and what only the raw rows can tell of an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import reduce
from operator import add, or_
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from foreclick.engines import Engine, whole
from foreclick.errors import SourceError
from foreclick.logs.masks import mask_of_slots
from foreclick.logs.shape import BUCKET, CONTEXT, ITEM, PERIOD, PROPENSITY, Shape, numbered
from foreclick.logs.times import period_of
from foreclick.metrics import CLICKS, METRICS

WEIGHT, LENGTH, REPEATED, STRAY = "weight", "length", "repeated", "stray"

FLAGS = (REPEATED, STRAY)
"""What only the raw rows can tell of an error: columns of records, where they apply."""

Columns = str | Sequence[str]


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
    weight: str | None = None
    drawn: bool = False  # whether a weight is of rows kept, not a count of equal ones
    list_id: Columns | None = None
    position: str | None = None
    item: str | None = None
    clicked: bool = False  # whether clicks are ids of items, not a number for each
    likely: bool = False  # whether rows of weight 0 are left out

    @property
    def layout(self) -> str:
        """How the source is written down: "long", "wide" or "array"."""
        if self.list_id is not None:
            return "long"
        return "array" if isinstance(self.items, str) else "wide"

    @property
    def list_ids(self) -> list[str]:
        """The columns that tell the lists of a long log apart."""
        return [self.list_id] if isinstance(self.list_id, str) else list(self.list_id or ())

    def named(self) -> list[tuple[str, str]]:
        """Every (role, column) pair, in the order in which a reader would say them."""
        single = ("context", "list_id", "position", "item", "period", "unit", "weight")
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
        """The roles that have one column, with its name; the context's is None if it has none."""
        found = [*self.named()]
        often = Counter(role for role, _ in found)
        return {CONTEXT: None} | {role: name for role, name in found if often[role] == 1}


@dataclass(frozen=True)
class Layout:
    """Records of a source, by how many positions to spread them over.

    Rewards that are wanted as masks may come as such, if that is easier than to spread them.
    """

    records: Callable[[int, Sequence[str]], ir.Table]
    lengths: ir.Table = field(repr=False)  # one column, `length`: its maximum is K


def lay_out(table: ir.Table, roles: Roles, engine: Engine) -> Layout:
    """Read `table` by its roles, whichever way it is written down."""
    if roles.likely:
        table = table.filter((table[roles.weight] != 0).fill_null(True))
    if roles.layout == "long":
        return _Long(table, roles, engine).layout()
    return _Listed(table, roles, engine).layout()


def shape_of(table: ir.Table, roles: Roles, depth: int) -> Shape:
    """The shape of records of so many positions, without masks."""
    propensity = roles.propensity
    each = isinstance(propensity, str) and not table[propensity].type().is_array()
    kind = "list" if each and roles.layout != "long" else "slot"
    return Shape(
        depth=depth,
        rewards=tuple(roles.rewards),
        segments=roles.segments,
        period=roles.period is not None,
        unit=roles.unit is not None,
        propensity=None if propensity is None else kind,
    )


def some_rows(table: ir.Table, roles: Roles) -> ir.Table:
    """Rows for a first guess of how long lists are and whether rewards are 0 or 1."""
    return table.limit(100_000 if roles.layout == "long" else 10_000)


def top_of(column: str, table: ir.Table) -> str:
    """The column that holds what is named: ``results.id`` is the field `id` within `results`."""
    top, _, field = column.partition(".")
    if column in table.columns or not field or top not in table.columns:
        return column
    kind = table[top].type()
    inner = kind.value_type if kind.is_array() else kind
    return top if inner.is_struct() and field in inner.names else column


def expanded(roles: Roles, table: ir.Table) -> Roles:
    """Roles in which ``item_*`` stands for the columns that it matches, in order."""
    return replace(
        roles,
        items=_matching(roles.items, table),
        rewards={name: _matching(c, table) for name, c in roles.rewards.items()},
        propensity=_matching(roles.propensity, table),
    )


def _matching(columns: Any, table: ir.Table) -> Any:  # noqa: ANN401 - the columns of a role
    if not isinstance(columns, str) or "*" not in columns or columns in table.columns:
        return columns
    found = [name for name in table.columns if fnmatchcase(name, columns)]
    numbers = {name: [int(n) for n in re.findall(r"\d+", name)] for name in found}
    return sorted(found, key=lambda name: (numbers[name], name)) or columns


def key_of(column: ir.Column, role: str) -> ir.Column:
    """A context or an item: 64-bit integers or text, so that two sources can be compared."""
    kind = column.type()
    if kind.is_integer() or (kind.is_decimal() and kind.scale == 0):
        return column.cast("int64")
    if kind.is_string():
        return column
    if kind.is_json():  # an element of a semi-structured array
        return ibis.coalesce(column.str, column.int.cast("string"))
    if kind.is_uuid():
        return column.cast("string")
    if role == ITEM or kind.is_floating():
        raise SourceError(
            f"the {role}s are of type {kind}; they must be integers or strings. Convert them "
            "first, for instance in pandas with astype('Int64'), which allows gaps."
        )
    return column.cast("string")


def _grouped_key(column: ir.Column, role: str) -> ir.Column:
    """The same while raw rows are grouped: integers of fewer bits are grouped in less memory."""
    kind = column.type()
    narrow = kind.is_integer() and kind.nbytes < dt.int64.nbytes
    return column if narrow else key_of(column, role)


def _reward(column: ir.Column, name: str) -> ir.Column:
    kind = column.type()
    if kind.is_boolean():
        return column.cast("int32").cast("int8")  # PostgreSQL has no direct way
    if kind.is_integer():
        return column
    if kind.is_json():
        return column.float
    if kind.is_numeric() or kind.is_string():  # text comes from lists written into a CSV cell
        return column.cast("float64")
    raise SourceError(f"{name} must be numbers (0/1 or graded), not {kind}.")


def _slot_value(value: ir.Value, name: str) -> ir.Value:
    """What stands at a position: an item, a propensity, or the reward of this name."""
    if name == ITEM:
        return _grouped_key(value, ITEM)
    return value.cast("float64") if name == PROPENSITY else _reward(value, name)


class _Reader:
    """What the layouts share: the columns that belong to the list and not to a slot."""

    def __init__(self, table: ir.Table, roles: Roles, engine: Engine) -> None:
        self.table, self.roles, self.engine = table, roles, engine

    def list_columns(self) -> dict[str, ir.Value]:
        table, roles = self.table, self.roles
        columns: dict[str, ir.Value] = {
            CONTEXT: whole(0)
            if roles.context is None
            else _grouped_key(table[roles.context], CONTEXT)
        }
        if roles.period is not None:
            columns[PERIOD] = period_of(table[roles.period])
        columns |= {name: table[name] for name in roles.segments}
        if roles.unit is not None:
            columns[BUCKET] = self.engine.bucket(key_of(table[roles.unit], "unit"))
        if roles.weight is not None:
            columns[WEIGHT] = _weight(table[roles.weight])
        return columns


def _weight(column: ir.Column) -> ir.Column:
    if not column.type().is_numeric():
        raise SourceError(f"the weight must be a number, not {column.type()}.")
    return column.cast("int64" if column.type().is_integer() else "float64")


class _Listed(_Reader):
    """One row a list: arrays, or a column a position."""

    def layout(self) -> Layout:
        items = self.roles.items
        if not items:
            raise SourceError("name the column that holds the items, for instance items='items'.")
        self.items = self._slots(items)
        self.rewards = {name: self._slots(columns) for name, columns in self.roles.rewards.items()}
        if self.roles.clicked:
            self.rewards[CLICKS] = self._marks(str(self.roles.rewards[CLICKS]))
        propensity = self.roles.propensity
        per_slot = shape_of(self.table, self.roles, 1).propensity == "slot"
        self.propensities = self._slots(propensity) if propensity is not None and per_slot else None
        length = self._length(items)
        return Layout(
            records=lambda depth, _: self._records(depth, length),
            lengths=self.table.select(**{LENGTH: length}),
        )

    def _length(self, items: Columns) -> ir.Value:
        """The longest of what a row holds: of an array its length, of wide columns their number."""
        lengths = [
            self._array(c).length().fill_null(0) if isinstance(c, str) else whole(len(c))
            for c in (items, *self._listed_rewards())
        ]
        longest = ibis.greatest(*lengths) if len(lengths) > 1 else lengths[0]
        return longest.cast("int64")

    def _listed_rewards(self) -> list[Columns]:
        """The columns of rewards that have a value for each item."""
        rewards = self.roles.rewards.items()
        return [c for name, c in rewards if name != CLICKS or not self.roles.clicked]

    def _marks(self, column: str) -> Callable[[int], ir.Value | None]:
        """A function from the position to whether its item is among those that were clicked."""
        ids = self._array(column)
        if ids.type().value_type.is_integer():
            ids = ids.cast("array<int64>")

        def mark(k: int) -> ir.Value | None:
            item = self.items(k)
            if item is None:
                return None
            item = key_of(item, ITEM)
            if item.type() != ids.type().value_type:
                raise SourceError(
                    f"clicked_ids={column!r} are of type {ids.type().value_type}, and the items of "
                    f"type {item.type()}. Make them the same."
                )
            there = ids.contains(item).fill_null(False).ifelse(whole(1), whole(0))
            return item.isnull().ifelse(ibis.null("int64"), there)

        return mark

    def _array(self, column: str) -> ir.ArrayColumn:
        value = self.table[top_of(column, self.table)]
        if value.type().is_string():
            return self.engine.listed(value)
        if not value.type().is_array():
            raise SourceError(
                f"column {column!r} is of type {value.type()}, not a list. For one row per "
                "impression use layout='long'; for one column per position name them all, for "
                "instance items=['item_1', 'item_2']."
            )
        return value

    def _slots(self, columns: Columns) -> Callable[[int], ir.Value | None]:
        """A function from the position to its value in each row."""
        if isinstance(columns, str):
            array = self._array(columns)
            field = columns.removeprefix(f"{top_of(columns, self.table)}").removeprefix(".")
            if not field:
                return lambda k: self.engine.element(array, k)
            return lambda k: self.engine.element(array, k)[field]
        names = list(columns)
        return lambda k: self.table[names[k - 1]] if k <= len(names) else None

    def _records(self, depth: int, length: ir.Value) -> ir.Table:
        columns = self.list_columns() | {LENGTH: length}
        sources = {ITEM: self.items, **self.rewards}
        if self.propensities is not None:
            sources[PROPENSITY] = self.propensities
        elif self.roles.propensity is not None:
            columns[PROPENSITY] = self.table[self.roles.propensity].cast("float64")
        for name, slots in sources.items():
            values = [slots(k) for k in range(1, depth + 1)]
            there = [_slot_value(v, name) for v in values if v is not None]
            # A column of nothing but NULL has any type; text and doubles are the widest.
            kinds = [v.type() for v in there]
            widest = next((t for t in kinds if t.is_string() or t.is_floating()), kinds[0])
            kind = widest.copy(nullable=True)
            for column, value in zip(numbered(name, depth), values, strict=True):
                there_is = value is not None
                columns[column] = (
                    _slot_value(value, name).cast(kind) if there_is else ibis.null(kind)
                )
        if self.roles.clicked:
            marks = (columns[c].fill_null(0) for c in numbered(CLICKS, depth))
            ids = self._array(str(self.roles.rewards[CLICKS]))
            more = self.engine.distinct_count(ids).fill_null(0) > reduce(add, marks)
            columns[STRAY] = more & (length <= depth)
        return self.table.select(**columns)


class _Long(_Reader):
    """One row an impression; a list is what shares `list_id` and every list-level column."""

    def layout(self) -> Layout:
        for role in ("position", "item"):
            if getattr(self.roles, role) is None:
                raise SourceError(f"layout='long' needs {role}=, the column that holds it.")
        position = self.table[self.roles.position]
        if not position.type().is_integer():
            raise SourceError(f"the position must be an integer, not {position.type()}.")
        lengths = self.table.select(**{LENGTH: position.cast("int64")})
        return Layout(records=self._records, lengths=lengths)

    def _records(self, depth: int, masks: Sequence[str]) -> ir.Table:
        listed, lists, rows = self._rows()
        rewards = [name for name in self.roles.rewards if name not in masks]
        propensity = [] if self.roles.propensity is None else [PROPENSITY]
        spread = {
            column: self.engine.only(rows[f"__slot_{name}"], rows["__position"] == k)
            for name in (ITEM, *rewards, *propensity)
            for k, column in enumerate(numbered(name, depth), start=1)
        }
        item, position = rows[f"__slot_{ITEM}"], rows["__position"]
        packed = {
            name: mask_of_slots(item, rows[f"__slot_{name}"], position, depth) for name in masks
        }
        found = rows.group_by([*listed, *lists]).aggregate(
            **spread,
            **packed,
            **{LENGTH: position.max().cast("int64").fill_null(0)},
            __shown=item.count(where=~(position > depth).fill_null(False)),
        )
        # An item without a place of its own: to count distinct positions would take as long as
        # all the rest.
        places = reduce(
            add, (found[c].notnull().ifelse(whole(1), whole(0)) for c in numbered(ITEM, depth))
        )
        nowhere = reduce(or_, (found[name].isnull() for name in lists))
        repeated = (found["__shown"] != places) | nowhere
        return found.mutate(**{REPEATED: repeated}).drop("__shown", *lists)

    def _rows(self) -> tuple[list[str], list[str], ir.Table]:
        """The impressions in names of our own; which belong to a list, and which tell it."""
        roles, table = self.roles, self.table
        named: dict[str, Any] = {ITEM: roles.item, **roles.rewards}
        if roles.propensity is not None:
            named[PROPENSITY] = roles.propensity
        slots = {f"__slot_{n}": _slot_value(table[column], n) for n, column in named.items()}
        lists = {f"__list_{i}": table[name] for i, name in enumerate(roles.list_ids)}
        listed = self.list_columns()
        rows = table.select(**listed, **lists, **slots, __position=table[roles.position])
        return [*listed], [*lists], rows


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
