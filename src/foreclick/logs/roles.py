"""Which column of a source plays which part, and what the columns of a compressed log are.

A reward that is 0 or 1 everywhere is one integer a list. Bit k − 1 of the mask is the reward at
position k. A list of ten then has one reward column instead of ten, so grouping a raw log hashes
and compares half as many columns. Only rewards that are 0 or 1 where an item is shown, and NULL
where none is, can be packed: nothing else is lost by it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa

from foreclick.engines import Spelling, Table, Value
from foreclick.engines.duckdb import READER
from foreclick.engines.kinds import is_numeric, kind_of
from foreclick.errors import EngineError, ForeclickError, InvalidLogError, SourceError
from foreclick.metrics import CLICKS, METRICS
from foreclick.words import listed, nearest, number_of, plural

CONTEXT, PERIOD, BUCKET, N = "context", "period", "bucket", "n"
ITEM, PROPENSITY = "item", "propensity"
SAMPLING_WEIGHT, INCLUSION = "sampling_weight", "inclusion"
OWN = ("weight", "length", "rows", "repeated", "bad_weight")
"""Columns of groups, beside those of a tally.

What only the raw rows tell of an error is in columns that are 0 or 1, where they apply.
"""


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
        drawn: whether contexts were drawn from a larger log; then each row has its sampling weight
            and the inclusion probability of its context.
    """

    depth: int
    rewards: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    period: bool = False
    unit: bool = False
    propensity: str | None = None
    masks: tuple[str, ...] = ()
    drawn: bool = False

    @property
    def words(self) -> str:
        """What is counted by what: "clicks and orders by period and device"."""
        by = ["period"] * self.period + ["unit"] * self.unit + [*self.segments]
        words = listed(self.rewards or ["lists"]) + (f" by {listed(by)}" if by else "")
        return words + (f", with propensities of each {self.propensity}" if self.propensity else "")

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
            *([SAMPLING_WEIGHT, INCLUSION] if self.drawn else []),
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
        by_list = self.period + len(self.segments) + self.unit  # those of the list as a whole
        return [CONTEXT, *rest[:by_list], *self.items, *rest[by_list:]]

    @property
    def columns(self) -> list[str]:
        """The keys and the count."""
        return [*self.keys, N]

    @property
    def maskable(self) -> tuple[str, ...]:
        """Names of the rewards that can be packed if their values allow it.

        A mask is called as its reward, so one that shares its name with a segment is never packed.
        """
        taken = {name.lower() for name in self.segments}
        fits = self.depth <= DEEPEST_MASK
        return tuple(name for name in self.rewards if fits and name.lower() not in taken)

    def with_masks(self, names: Collection[str]) -> Shape:
        """This shape with masks for those of some rewards that can have one."""
        return replace(self, masks=tuple(name for name in self.maskable if name in names))


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


# --- roles ----------------------------------------------------------------------------------------

Columns = str | Sequence[str]

BY_IDS = "fc.from_events(log, log, list_id='…', items=('items', 'clicks'), action=None)"
"""How a log is read whose clicks are the ids of items."""


@dataclass(frozen=True)
class Roles:
    """Which column of the source plays which part. See `read_log` for their meaning."""

    context: str | None
    items: Columns | None
    rewards: Mapping[str, Columns]
    period: str | None = None
    unit: str | None = None
    propensity: Columns | None = None
    segments: Mapping[str, str] = field(default_factory=dict)  # by their names
    count: str | None = None
    long: tuple[str, ...] = ()  # of one row a result: the columns of its list, then its position

    @property
    def layout(self) -> str:
        """How the source is written down: "long", "wide" or "array"."""
        if self.long:
            return "long"
        return "array" if isinstance(self.items, str) else "wide"

    def named(self) -> list[tuple[str, str]]:
        """Every (role, column) pair, in the order in which a reader would say them."""
        single = ("context", "long", "period", "unit", "count")
        pairs: list[tuple[str, Columns | None]] = [(role, getattr(self, role)) for role in single]
        pairs += [("items", self.items), *self.rewards.items(), ("propensity", self.propensity)]
        pairs += [("segments", tuple(self.segments.values()))]
        return [
            (role, column)
            for role, columns in pairs
            if columns is not None
            for column in ([columns] if isinstance(columns, str) else columns)
        ]

    def single(self) -> dict[str, str | None]:
        """The roles that have one column, with its name; the context's is None if it has none.

        The items of a long log are in one column for each item, as those of a table of scores.
        """
        named = [("item" if self.long and r == "items" else r, name) for r, name in self.named()]
        often = Counter(role for role, _ in named)
        return {CONTEXT: None} | {role: name for role, name in named if often[role] == 1}

    def expanded(self, names: Sequence[str]) -> Roles:
        """Roles in which ``item_*`` stands for the columns that it matches, in order."""
        rewards = {name: _matching(columns, names) for name, columns in self.rewards.items()}
        items, propensity = (_matching(c, names) for c in (self.items, self.propensity))
        return replace(self, items=items, rewards=rewards, propensity=propensity)

    def shape(self, source: pa.Schema, depth: int) -> Shape:
        """The shape of records of so many positions, without masks."""
        one = self.propensity
        alone = isinstance(one, str) and kind_of(source.field(one).type) != "list"
        each = "list" if alone and self.layout != "long" else "slot"
        return Shape(
            depth=depth,
            rewards=tuple(self.rewards),
            segments=tuple(self.segments),
            period=self.period is not None,
            unit=self.unit is not None,
            propensity=None if one is None else each,
        )


def top_of(column: str, source: pa.Schema) -> str:
    """The column that holds what is named: ``results.id`` is the field `id` within `results`."""
    top, _, field = column.partition(".")
    if column in source.names or not field or top not in source.names:
        return column
    kind = source.field(top).type
    inner = kind.value_type if kind_of(kind) == "list" else kind
    return top if kind_of(inner) == "struct" and inner.get_field_index(field) >= 0 else column


def _matching(columns: Any, names: Sequence[str]) -> Any:  # noqa: ANN401
    if not isinstance(columns, str) or "*" not in columns or columns in names:
        return columns
    matching = [name for name in names if fnmatchcase(name, columns)]
    numbers = {name: [int(n) for n in re.findall(r"\d+", name)] for name in matching}
    return sorted(matching, key=lambda name: (numbers[name], name)) or columns


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


_RESULTS = """n rows position slot records items estimator metric clip value se low high
    borrowed margin production change change_low change_high lift lift_low lift_high covered clipped
    ess contexts missing_contexts dropped verdict share exposure examination"""
_TAKEN = {
    CONTEXT,
    PERIOD,
    BUCKET,
    ITEM,
    PROPENSITY,
    SAMPLING_WEIGHT,
    INCLUSION,
    *OWN,
    *_RESULTS.split(),
}
"""Names that tallies and results have beside the segments and rewards."""

_LOOK = 1_000  # rows, for an example of what is wrong
_NUMBERS = re.compile(r"[\[ ]*[\d.]+(,[\d.]+)*[\] ]*")
CALLED = {
    CONTEXT: ("query", "query_id", "qid", "q", "search", "keyword", "term", "page"),
    "items": ("ranking", "list", "results", "documents", "docs", "products", "item_ids"),
    CLICKS: ("click", "clicked", "labels"),
    ITEM: ("item", "doc", "document", "doc_id", "product", "item_id", "sku", "article"),
    "position": ("position", "rank", "pos", "slot"),
    "list_id": ("list_id", "request", "request_id", "req", "impression_id", "session"),
    "period": ("day", "date", "week", "timestamp", "time", "ts"),
    "unit": ("user", "user_id", "visitor", "visitor_id", "session_id"),
    "variant": ("arm", "group", "bucket", "treatment", "experiment"),
}
"""What the columns of these roles are often called."""


def checked_columns(table: Table, roles: Roles) -> Table:
    """The table, unless columns are not there or have names that a tally needs itself.

    Lists of one item each, which a CSV file has as numbers, are text, as longer ones are.
    """
    missing = [
        (role, c) for role, c in roles.named() if top_of(c, table.kinds) not in table.columns
    ]
    if missing:
        raise MissingColumnsError(table, roles, missing)
    numbers = (ITEM, PROPENSITY, *roles.rewards)
    for name in (*roles.segments, *roles.rewards):
        lower = name.lower()  # engines do not tell upper from lower case
        stem, _, last = lower.rpartition("_")
        if lower in _TAKEN or lower.startswith("__") or (stem in numbers and last.isdigit()):
            option = "segments" if name in roles.segments else "rewards"
            raise SourceError(
                f"a segment or reward cannot be called {name!r}, a name that tallies and results "
                f"use themselves. Give it another: {option}={{'my_{name}': {name!r}}}."
            )
    if (table.kinds.metadata or {}).get(READER) == b"read_csv" and not _is_long(table):
        say = table.engine.say
        for each in (roles.items, *roles.rewards.values()) if roles.layout == "array" else ():
            if each in table.columns and is_numeric(table.kinds.field(each).type):
                text = say.cast(say.column(str(each)), "text")
                table = table.with_column(str(each), text, pa.string())
    return table


class MissingColumnsError(SourceError):
    """A table lacks columns that have a role."""

    def __init__(self, table: Table, roles: Roles, missing: list[tuple[str, str]]) -> None:
        super().__init__(_missing(table, roles, missing))
        self._found = table, roles, missing

    def by_option(self, **options: str | None) -> MissingColumnsError:
        """The same in the words of a verb whose options name segments, such as `variant`."""
        table, roles, missing = self._found
        option_of = {column: option for option, column in options.items()}
        named = [
            (option_of.get(column, role) if role == "segments" else role, column)
            for role, column in missing
        ]
        return MissingColumnsError(table, roles, named)


def _missing(table: Table, roles: Roles, missing: list[tuple[str, str]]) -> str:
    """Which columns are not there, and what was probably meant."""
    wanted = ", ".join(f"{role}={column!r}" for role, column in missing)
    message = (
        f"{number_of(len(missing), 'named column')} {plural(len(missing), 'is', 'are')} not in the "
        f"source: {wanted}. It has the columns {', '.join(table.columns)}."
    )
    lists = [field.name for field in table.kinds if kind_of(field.type) == "list"]
    by_row = roles.layout != "long" and _is_long(table) and not lists
    if roles.rewards and "items" in dict(missing) and by_row:
        row = [_usual(role, table.columns) for role in ("list_id", "position", ITEM, CLICKS)]
        list_id, position, item, click = (name or "…" for name in row)
        return (
            f"{message} It looks like one row per result: name the columns of its list and its "
            f"position, long=({list_id!r}, {position!r}), and of its item and click, "
            f"items={item!r} and clicks={click!r}."
        )
    used = {column for role, column in roles.named() if (role, column) not in missing}
    free = [name for name in table.columns if name not in used]
    present, unknown, meant = [], [], list(roles.long)
    for role, column in missing:  # by a name like it, or one that is usual for its role
        called = ITEM if role == "items" and roles.long else role
        if role == "long":
            called = "position" if column == roles.long[-1] else "list_id"
        arrays = lists if called in ("items", *roles.rewards) and not roles.long else []
        among = [name for name in free if name in arrays or not arrays]
        name = nearest(column, among) or _usual(called, among, *CALLED.get(column, ()))
        if name and role == "long":
            meant[meant.index(column)] = name
        elif name:
            present.append(f"{role}={name!r}")
            free.remove(name)
        elif role != "long":
            unknown.append(f"{role}='…'")
    if meant != list(roles.long):
        present.insert(0, f"long={tuple(meant)!r}")
    if present:
        more = f" Name {listed(unknown)} too." if unknown else ""
        return f"{message} Did you mean {', '.join(present)}?{more}"
    return f"{message} Say which one is meant, {missing[0][0]}='…'."


def _usual(role: str, names: Sequence[str], *others: str) -> str | None:
    """The column that is called as those of a role often are, or has such a word in its name."""
    often = (role, *CALLED.get(role, ()), *others)
    words = {name: {w.rstrip("s") for w in re.split(r"[^a-z]+", name.lower())} for name in names}
    whole = (name for word in often for name in names if name.lower() == word)
    part = (name for word in often for name in names if word.rstrip("s") in words[name])
    return next(whole, None) or next(part, None)


def _is_long(table: Table) -> bool:
    """Whether a table seems to have a row per impression: it has positions."""
    return any(name.lower() in CALLED["position"] for name in table.columns)


def segments_of(segments: str | Sequence[str] | Mapping[str, str]) -> Mapping[str, str]:
    """The columns of segments by their names."""
    if isinstance(segments, Mapping):
        return segments
    return {name: name for name in ([segments] if isinstance(segments, str) else segments)}


NO_ROWS = (
    "the log has no rows. Check the path, the filter in where=, and that the day you asked for was "
    "logged."
)


def explained(error: ForeclickError, raw: Table, roles: Roles) -> ForeclickError:
    """The error, or a plainer one: no rows at all, or text where numbers should be."""
    if any(column not in raw.columns for _, column in roles.named()):
        return error
    first = raw.query(f"{raw.sql} LIMIT {_LOOK}").to_pylist()
    if not first:
        return InvalidLogError(NO_ROWS)
    for name, columns in roles.rewards.items() if isinstance(error, EngineError) else ():
        for value in (row[columns] for row in first) if isinstance(columns, str) else ():
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, str) and not _NUMBERS.fullmatch(each):
                    ids = f" If it has the ids of clicked items, use {BY_IDS}."
                    return SourceError(
                        f"{name} must be numbers (0/1 or graded), and column {columns!r} has "
                        f"{each!r}.{ids if name == CLICKS else ''}"
                    )
    return error
