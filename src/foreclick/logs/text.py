"""The one SELECT that compresses a log, as text.

Three ways to write a log down become *records*: one row a list, with the scalar columns of `Shape`,
a `weight`, the list's `length`, and what only the raw rows tell of an error. Arrays and wide
columns (one row a list) are read by position; the long layout (one row an impression) is grouped by
list. The records are then counted by everything that matters. All of it is a pure function of the
roles, the types of the source's columns, and a spelling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from foreclick.engines import Spelling
from foreclick.engines.base import BUCKETS
from foreclick.engines.kinds import called, is_numeric, kind_of
from foreclick.errors import SourceError
from foreclick.logs.roles import (
    BUCKET,
    CONTEXT,
    ITEM,
    PERIOD,
    PROPENSITY,
    Columns,
    N,
    Roles,
    Shape,
    bit,
    mask_of,
    numbered,
    top_of,
)

LARGEST = 1e100
"""The largest reward and weight: sums of their squares are still doubles."""

_PLACE, _SLOT, _BIT = "__place", "__slot_", "__bit_"
_LIST, _SHOWN = "__list_", "__shown"
_TOLD_APART = 3  # positions by which records without a unit are told apart


@dataclass(frozen=True)
class Select:
    """The statements of one log.

    Attributes:
        roles: which column plays which part.
        source: the types of the source's columns.
        say: how the engine spells.
        rows: what stands after FROM.
    """

    roles: Roles
    source: pa.Schema
    say: Spelling
    rows: str

    # --- statements ------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """How many rows tell how long lists are, and whether rewards are 0 or 1."""
        return 100_000 if self.roles.layout == "long" else 10_000

    def first_rows(self) -> str:
        """So many rows, for a first guess."""
        columns = ", ".join(map(self.say.column, self.used()))
        return f"SELECT {columns} FROM {self.rows} AS s LIMIT {self.first}"

    def used(self) -> list[str]:
        """The columns of the source that are used."""
        named = self.roles.named()
        return list(dict.fromkeys(top_of(column, self.source) for _, column in named))

    def longest(self) -> str:
        """The length of the longest list."""
        if self.roles.layout == "long":
            length = self.say.column(self.roles.long[-1])
        else:
            length = self._length()
        return f"SELECT max({length}) AS length FROM {self.rows} AS s"

    def context_key(self, table: str) -> str:
        """The context of a row of the source, by the alias of the table."""
        if self.roles.context is None:
            return self.say.cast("0", "whole")
        column = self.say.column(self.roles.context, table)
        return self._key(column, self.roles.context, CONTEXT)

    def identity(self) -> list[str]:
        """What tells records apart: ids of lists, or units and periods; nothing if there are none.

        Of records without a unit, what they show does.
        """
        roles, say = self.roles, self.say
        if roles.layout == "long":
            return [self.context_key("s"), *map(say.column, roles.long[:-1])]
        if roles.unit is None:
            return []
        unit = self._key(say.column(roles.unit), roles.unit, "unit")
        dated = [] if roles.period is None else [self._listed()[PERIOD]]
        shown = say.joined([self._slot(self._items, k, ITEM) for k in range(1, _TOLD_APART + 1)])
        others = f"CASE WHEN {unit} IS NULL THEN {shown} END"
        return [self.context_key("s"), unit, *dated, others]

    def context_type(self) -> pa.DataType:
        """The type of contexts."""
        if self.roles.context is None:
            return pa.int64()
        return key_type(self._element(self.roles.context), CONTEXT)

    def context_counts(self) -> str:
        """How many records each context has, `n`."""
        say, named = self.say, {CONTEXT: self.context_key("s")}
        if self.roles.count is not None:
            named["weight"] = say.cast(say.column(self.roles.count), "real")
        distinct = ""
        if self.roles.layout == "long":  # a row is one result
            distinct = "DISTINCT "
            named |= {f"{_LIST}{i}": say.column(c) for i, c in enumerate(self.roles.long[:-1])}
        rows = f"SELECT {distinct}{say.names(named)} FROM {self.rows} AS s"
        n = f"sum({say.column('weight')})" if "weight" in named else "count(*)"
        counted = say.names({CONTEXT: say.column(CONTEXT), N: say.cast(n, "real")})
        return f"SELECT {counted} FROM ({rows}) AS s GROUP BY {say.column(CONTEXT)}"

    def tally(self, shape: Shape, *, cut: bool) -> tuple[str, pa.Schema]:
        """The groups, `Shape.order`, flags and counts, and their types.

        Unless lists are `cut` at the shape's depth, longer ones are told: their masks are NULL, or,
        if there are none, the longest has a column.
        """
        say, weight = self.say, self.roles.count
        made = {name: say.column(name) for name in shape.order}
        if self.roles.layout != "long":
            made |= {name: mask_of(shape, name, say) for name in shape.masks}
        flags, counts = dict[str, str](), {N: "count(*)"}
        if self.roles.layout == "long":
            # An item without a place of its own: to count distinct positions would take as long as
            # all the rest.
            items = map(say.column, shape.items)
            places = " + ".join(f"CASE WHEN {item} IS NULL THEN 0 ELSE 1 END" for item in items)
            wrong = f"{say.column(_SHOWN)} <> {places} OR {say.column(_LIST)} = 1"
            flags["repeated"] = f"CASE WHEN {wrong} THEN 1 ELSE 0 END"
        types = self.types(shape)
        length = say.column("length")
        if not cut and shape.masks:
            whole = f"CASE WHEN {length} <= {shape.depth} THEN"
            made |= {name: f"{whole} {made[name]} END" for name in shape.masks}
        elif not cut:
            counts = {"length": f"max({say.column('length', 'r')})"} | counts
        if weight is not None:
            kind = self._number_kind(weight)
            own_weight, usable = say.column("weight"), say.column("weight", "r")
            good = (
                f"{own_weight} > 0 AND {say.finite(own_weight, LARGEST)}"
                if kind == "real"
                else f"{own_weight} > 0"
            )
            flags["bad_weight"] = f"CASE WHEN {good} THEN 0 ELSE 1 END"
            made["weight"] = f"CASE WHEN {good} THEN {own_weight} END"
            counts[N] = f"coalesce({say.cast(f'sum({usable})', kind)}, {say.cast('0', kind)})"
            counts["rows"] = "count(*)"
            types[N] = pa.float64() if kind == "real" else pa.int64()
        groups = (*shape.order, *flags)
        keys = ", ".join(say.column(name, "r") for name in groups)
        made |= flags | ({"length": length} if "length" in counts else {})
        sql = (
            f"WITH records AS (\n{self.records(shape)}\n), judged AS (\n"
            f"SELECT {say.names(made)} FROM records AS s\n)\n"
            f"SELECT {keys}, {say.names(counts)} FROM judged AS r GROUP BY {keys}"
        )
        kinds = [(name, types.get(name, pa.int64())) for name in (*groups, *counts)]
        return sql, pa.schema(kinds)

    def types(self, shape: Shape) -> dict[str, pa.DataType]:
        """The types of columns that are no 64-bit integers."""
        types = {name: _plain(self._type(c)) for name, c in self.roles.segments.items()}
        types |= {BUCKET: pa.int16(), PROPENSITY: pa.float64()}
        types[CONTEXT] = self.context_type()
        if self.roles.period is not None:
            period = self._type(self.roles.period)
            days = {"moment": pa.date32(), "date": pa.date32(), "whole": pa.int64()}
            types[PERIOD] = days.get(kind_of(period)) or _plain(period)
        for name, columns in self._slots(shape).items():
            if name not in shape.masks:
                types |= dict.fromkeys(shape.reward(name), self._slot_type(name, columns))
        return types

    # --- records ---------------------------------------------------------------------------------

    def records(self, shape: Shape) -> str:
        """One row a list, in the columns of `Shape`; of the long layout, with its masks."""
        return self._impressions(shape) if self.roles.layout == "long" else self._lists(shape)

    def _lists(self, shape: Shape) -> str:
        """Records of a source with one row a list: arrays, or one column a position."""
        roles, say, columns = self.roles, self.say, self._listed()
        columns["length"] = self._length()
        if shape.propensity == "list":
            columns[PROPENSITY] = say.cast(say.column(str(roles.propensity)), "real")
        for name, named in self._slots(shape).items():
            for k, column in enumerate(numbered(name, shape.depth), start=1):
                columns[column] = self._slot(named, k, name)
        return f"SELECT {say.names(columns)} FROM {self.rows} AS s"

    def _impressions(self, shape: Shape) -> str:
        """Records of a source with one row an impression; a list shares all but its slots."""
        roles, say, listed = self.roles, self.say, self._listed()
        *list_ids, position = roles.long
        place = say.column(position)
        if kind_of(self._type(position)) != "whole":
            kind = called(self._type(position))
            raise SourceError(f"the position must be an integer, not {kind}.")
        slots = self._slots(shape)
        rows = {
            f"{_SLOT}{name}": self._value(say.column(str(c)), str(c), name)
            for name, c in slots.items()
        }
        lists = {f"{_LIST}{i}": say.column(name) for i, name in enumerate(list_ids)}
        made = {name: say.column(name) for name in listed}
        at = say.column(_PLACE)
        powers = (f"WHEN {place} = {k + 1} THEN {1 << k}" for k in range(shape.depth))
        power = f"CASE {' '.join(powers)} ELSE 0 END"
        for name in slots:
            if name in shape.masks:
                rows[f"{_BIT}{name}"] = bit(rows[f"{_SLOT}{ITEM}"], rows[f"{_SLOT}{name}"], power)
                bits = say.column(f"{_BIT}{name}")
                mask = say.cast(f"sum({bits})", "whole")
                made[name] = f"CASE WHEN count({bits}) = count({at}) THEN {mask} END"
                continue
            value = say.column(f"{_SLOT}{name}")
            for k, column in enumerate(numbered(name, shape.depth), start=1):
                made[column] = f"max(CASE WHEN {at} = {k} THEN {value} END)"
        made["length"] = f"coalesce(max({at}), 0)"
        item = say.column(f"{_SLOT}{ITEM}")
        near = f"({at} <= {shape.depth} OR {at} IS NULL)"
        made[_SHOWN] = f"count(CASE WHEN {item} IS NOT NULL AND {near} THEN 1 END)"
        nowhere = " OR ".join(f"{say.column(name)} IS NULL" for name in lists)
        made[_LIST] = f"max(CASE WHEN {nowhere} THEN 1 ELSE 0 END)"
        groups = ", ".join(map(say.column, (*listed, *lists)))
        inner = f"SELECT {say.names(listed | lists | rows | {_PLACE: place})} FROM {self.rows} AS s"
        return f"SELECT {say.names(made)} FROM ({inner}) AS s GROUP BY {groups}"

    def _listed(self) -> dict[str, str]:
        """What belongs to a list and not to a position."""
        roles, say = self.roles, self.say
        columns = {CONTEXT: self.context_key("s")}
        if roles.period is not None:
            columns[PERIOD] = day_of(say.column(roles.period), self._type(roles.period), say)
        for name, column in roles.segments.items():
            text, value = kind_of(self._type(column)) == "text", say.column(column)
            columns[name] = say.cast(value, "text") if text else value
        if roles.unit is not None:
            number = say.hashed(self._key(say.column(roles.unit), roles.unit, "unit"))
            columns[BUCKET] = say.remainder.format(a=f"({number})", b=BUCKETS)
        if roles.count is not None:
            columns["weight"] = say.cast(say.column(roles.count), self._number_kind(roles.count))
        return columns

    # --- columns ---------------------------------------------------------------------------------

    @cached_property
    def _items(self) -> Columns:
        if not self.roles.items:
            raise SourceError("name the column that holds the items, for instance items='items'.")
        return self.roles.items

    def _slots(self, shape: Shape) -> dict[str, Columns]:
        """What has a value at each position, and the columns that hold it."""
        slots: dict[str, Columns] = {ITEM: self._items, **self.roles.rewards}
        if shape.propensity == "slot" and self.roles.propensity is not None:
            slots[PROPENSITY] = self.roles.propensity
        return slots

    def _type(self, name: str) -> pa.DataType:
        return self.source.field(name).type

    def _element(self, column: str) -> pa.DataType:
        """The type of what stands at a position, of a column of lists or of one position."""
        top = top_of(column, self.source)
        kind = self._type(top)
        if self.roles.layout == "long" or kind_of(kind) != "list":
            return kind
        kind = kind.value_type
        return kind if column == top else kind.field(column.removeprefix(f"{top}.")).type

    def _array(self, column: str) -> str:
        """A column of lists, which may be written as text."""
        top = top_of(column, self.source)
        kind = self._type(top)
        if kind_of(kind) == "text":
            return self.say.listed(self.say.column(top))
        if kind_of(kind) != "list":
            raise SourceError(
                f"column {column!r} is of type {called(kind)}, not a list. For one row per result "
                "name the columns of its list and its position, long=('list_id', 'position'); for "
                "one column per position name them all, for instance items=['item_1', 'item_2']."
            )
        return self.say.column(top)

    def _length(self) -> str:
        """The longest of what a row holds: of an array its length, of wide columns their number.

        `greatest` treats NULL otherwise on each engine.
        """
        lengths = dict.fromkeys(
            f"coalesce({self.say.length.format(array=self._array(c))}, 0)"
            if isinstance(c, str)
            else str(len(c))
            for c in (self._items, *self.roles.rewards.values())
        )
        longest, *others = lengths
        for other in others:
            longest = f"CASE WHEN {longest} >= {other} THEN {longest} ELSE {other} END"
        return self.say.cast(longest, "whole")

    def _slot(self, columns: Columns, k: int, name: str) -> str:
        """What stands at position k of a row."""
        if isinstance(columns, str):
            field = columns.removeprefix(top_of(columns, self.source)).removeprefix(".")
            return self._value(self.say.at(self._array(columns), k, field), columns, name)
        casts = {pa.string(): "text", pa.float64(): "real"}
        kind = casts.get(self._slot_type(name, columns), "whole")
        if k > len(columns):
            return self.say.cast("NULL", kind)
        value = self._value(self.say.column(columns[k - 1]), columns[k - 1], name)
        same_kind = len({kind_of(self._type(column)) for column in columns}) == 1
        return value if same_kind else self.say.cast(value, kind)

    def _value(self, value: str, column: str, name: str) -> str:
        """An item, a propensity, or the reward of this name."""
        if name == ITEM:
            return self._key(value, column, ITEM)
        kind = kind_of(self._element(column))
        # Text: lists written into a CSV cell.
        if kind not in ("flag", "whole", "real", "decimal", "text"):
            raise SourceError(
                f"{name} must be numbers (0/1 or graded), not {called(self._element(column))}."
            )
        if kind == "flag":
            return f"CASE WHEN {value} THEN 1 WHEN NOT {value} THEN 0 END"
        return value if kind == "whole" and name != PROPENSITY else self.say.cast(value, "real")

    def _key(self, value: str, column: str, role: str) -> str:
        """A context, an item or a unit, by which rows are grouped.

        Integers of fewer bits are grouped in less memory, so they are made 64 bits wide afterwards.
        """
        kind = self._element(column)
        if key_type(kind, role) == pa.string():
            return self.say.cast(value, "text")
        narrow = kind_of(kind) == "whole" and kind != pa.uint64()
        return value if narrow else self.say.cast(value, "whole")

    # --- types -----------------------------------------------------------------------------------

    def _slot_type(self, name: str, columns: Columns) -> pa.DataType:
        """The type of items, of propensities, or of the reward of this name."""
        if name == PROPENSITY:
            return pa.float64()
        types = set()
        for element in map(self._element, [columns] if isinstance(columns, str) else columns):
            numbers = {"flag": pa.int8(), "whole": element}
            kind = numbers.get(kind_of(element), pa.float64())
            types.add(key_type(element, ITEM) if name == ITEM else kind)
        if len(types) == 1:
            return types.pop()
        return next((kind for kind in (pa.string(), pa.float64()) if kind in types), pa.int64())

    def _number_kind(self, count: str) -> str:
        kind = self._type(count)
        if not is_numeric(kind):
            raise SourceError(f"{count!r} must hold numbers, not {called(kind)}.")
        return "whole" if kind_of(kind) == "whole" else "real"


def key_type(element: pa.DataType, role: str) -> pa.DataType:
    """Contexts, items and units are 64-bit integers or text, so that two sources compare."""
    kind = kind_of(element)
    if kind == "whole" or (kind == "decimal" and element.scale == 0):
        return pa.int64()
    if kind != "text" and (role == ITEM or kind == "real"):
        raise SourceError(
            f"the {role}s are of type {called(element)}; they must be integers or strings. Convert "
            "them first, for instance in pandas with astype('Int64'), which allows gaps."
        )
    return pa.string()


def _plain(column: pa.DataType) -> pa.DataType:
    """Text as one type, whichever of Arrow's it came as."""
    return pa.string() if kind_of(column) == "text" else column


_SMALLEST = 10**9  # seconds of 2001; smaller numbers are no times, but numbers of days or weeks

_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6))
"""Numbers since 1970 below the first have the second in a second: seconds, milli-, micro-."""

_FINEST = 10**9  # nanoseconds


def in_a_second(latest: float) -> int:
    """How many of its units a second has, of a column of times whose largest number is this."""
    return next((units for below, units in _UNITS if latest < below), _FINEST)


def day_of(column: str, kind: pa.DataType, say: Spelling) -> str:
    """The day of a time, also of one that is a number or text; anything else as it is.

    Numbers from 10⁹ on are seconds, milli-, micro- or nanoseconds since 1970; their days are
    numbered from then on. Days of times with a zone are those of UTC, whatever the zone of the
    session.
    """
    if has_zone(kind):
        micros = say.micros.format(moment=column)
        return say.day.format(days=days_of(f"({micros})", 10**6, say))
    kind = kind_of(kind)
    if kind == "moment":
        return say.cast(column, "date")
    if kind == "whole":
        days = "".join(f" WHEN {column} < {b} THEN {days_of(column, u, say)}" for b, u in _UNITS)
        last = days_of(column, _FINEST, say)
        return f"CASE WHEN {column} < {_SMALLEST} THEN {column}{days} ELSE {last} END"
    if kind == "text":
        column = say.cast(column, "text")
        dashes = f"substr({column}, 5, 1) = '-' AND substr({column}, 8, 1) = '-'"
        timed = f"{dashes} AND substr({column}, 11, 1) IN ('T', ' ')"
        return f"CASE WHEN {timed} THEN substr({column}, 1, 10) ELSE {column} END"
    return column


def has_zone(kind: pa.DataType) -> bool:
    """Whether times know their zone."""
    return kind_of(kind) == "moment" and kind.tz is not None


def days_of(column: str, units: int, say: Spelling) -> str:
    """Whole days; `/` is of doubles on some engines, which hold a multiple of a day exactly."""
    day = 86_400 * units
    rest = say.remainder.format(a=column, b=day)
    return say.cast(f"({column} - {rest}) / {day}", "whole")
