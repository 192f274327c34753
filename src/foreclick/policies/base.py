"""What a policy is to the rest of the library: where it would show what, and how often."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import methodcaller
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foreclick.engines import Table, open_source
from foreclick.errors import PolicyError
from foreclick.logs import CONTEXT, ITEM, Columns, Log, Roles, compress
from foreclick.words import examples, number_of

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_EXAMPLES = 3  # in a message

Names: TypeAlias = Mapping[str, str | None]
"""What a log's columns are called, by their roles; the context's is None if it has one for all."""

NO_ITEM = -1
"""Marks a position that shows nothing."""


class ListRows(NamedTuple):
    """Lists with probabilities, in the numbers of a `LogView`; a list may stand in several rows.

    Attributes:
        context: Shape (M,).
        items: Shape (M, D): `NO_ITEM` where nothing is shown.
        mass: Shape (M,): how likely the list is in its context.
    """

    context: Ints
    items: Ints
    mass: Floats


class SlotRows(NamedTuple):
    """Items at positions with probabilities, in the numbers of a `LogView`.

    Attributes:
        context: Shape (S,).
        item: Shape (S,).
        position: Shape (S,), from 0.
        mass: Shape (S,): how likely the item is at the position of its context.
    """

    context: Ints
    item: Ints
    position: Ints
    mass: Floats


@dataclass(frozen=True, eq=False)
class LogView:
    """Some contexts of a log as a policy sees them, and the numbers it is to answer in.

    Attributes:
        contexts: (X,) values, rising: integers or text.
        items: (I,) values, rising: what these contexts have shown. Other items get higher numbers.
        depth: D, the last position that counts.
        extra: the values of items that only policies show, in the order of their numbers.
    """

    contexts: pa.Array
    items: pa.Array
    depth: int
    extra: list[pa.Array] = field(default_factory=list)

    def item_numbers(self, columns: Sequence[pa.Array]) -> Ints:
        """Shape (M, columns): the number of each item, `NO_ITEM` where there is none."""
        values = pa.concat_arrays(list(columns))
        filled = np.asarray(values.is_valid())
        number = number_in(values, _plain(self.items))
        unseen = filled & (number < 0)
        if unseen.any():
            others = values.filter(pa.array(unseen))
            extra = pa.concat_arrays([others[:0], *self.extra])
            new = others.filter(pc.index_in(others, value_set=extra).is_null()).unique()
            if len(new):
                self.extra.append(new.take(pc.sort_indices(new)))
                extra = pa.concat_arrays(self.extra)
            number[unseen] = len(self.items) + np.asarray(pc.index_in(others, value_set=extra))
        return np.where(filled, number, NO_ITEM).reshape(len(columns), -1).T

    @property
    def values(self) -> pa.Array:
        """The value behind each number: items of the log, then others that policies show."""
        return pa.concat_arrays([_plain(self.items), *self.extra])


def number_in(column: pa.Array, rising: pa.Array) -> Ints:
    """Shape (M,): where each value is in an array that rises, -1 for none."""
    if not pa.types.is_integer(column.type) or not len(rising):
        return np.array(pc.index_in(column, value_set=rising).fill_null(-1), dtype=np.int64)
    values, keys = np.asarray(column.fill_null(0)), np.asarray(rising)
    at = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    hit = keys[at] == values
    if column.null_count:
        hit &= np.asarray(column.is_valid())
    return np.where(hit, at, -1)


def _plain(values: pa.Array) -> pa.Array:
    """Integers of 64 bits, or text."""
    return values.cast(pa.int64() if pa.types.is_integer(values.type) else pa.string())


@dataclass(eq=False)
class PolicyTable:
    """A policy's table in Arrow, sorted by context, in the types of the log that it is compared to.

    Attributes:
        table: `context`, columns of items, and numbers.
        what: the policy's name, for messages.
    """

    table: pa.Table
    what: str
    _typed: dict[tuple[bool, bool], pa.Table] = field(default_factory=dict)

    @cached_property
    def context_count(self) -> int:
        """How many contexts the table has."""
        return len(self.table[CONTEXT].unique())

    @property
    def items(self) -> list[str]:
        """The columns of items."""
        return [name for name in self.table.column_names if _is_item(name)]

    def within(self, view: LogView) -> tuple[pa.Table, Ints]:
        """The rows whose contexts the view has, and shape (M,), the numbers of their contexts."""
        text = _is_text(view.contexts), _is_text(view.items)
        if text not in self._typed:
            columns = {}
            for name in self.table.column_names:
                columns[name] = self.table[name].combine_chunks()
                if name == CONTEXT:
                    columns[name] = self._matching(columns[name], CONTEXT, view.contexts)
                elif _is_item(name):
                    columns[name] = self._matching(columns[name], ITEM, view.items)
            keys = [(name, "ascending") for name in columns]
            self._typed[text] = pa.table(columns).sort_by(keys).combine_chunks()
        table = self._typed[text]
        if not table.num_rows or not len(view.contexts):
            return table[:0], np.zeros(0, dtype=np.int64)
        contexts, value = table[CONTEXT].chunk(0), methodcaller("as_py")
        first = bisect_left(contexts, view.contexts[0].as_py(), key=value)
        table = table[first : bisect_right(contexts, view.contexts[-1].as_py(), key=value)]
        number = number_in(table[CONTEXT].combine_chunks(), _plain(view.contexts))
        here = np.flatnonzero(number >= 0)
        return table if len(here) == len(number) else table.take(pa.array(here)), number[here]

    def _matching(self, column: pa.Array, kind: str, logged: pa.Array) -> pa.Array:
        """A column of contexts or items in the log's type; text if the log has text."""
        if _is_text(logged):
            return column.cast(pa.string())
        if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
            return column.cast(pa.int64())
        ours, theirs = (examples(_first(values)[:1]) for values in (logged, column))
        raise PolicyError(
            f"the {kind}s cannot match: the log has {ours}, the {self.what} {theirs}. Make both "
            "integers or both text, for instance in pandas with astype('int64') or astype(str)."
        )


def _is_text(values: pa.Array) -> bool:
    return not pa.types.is_integer(values.type)


class Policy:
    """The base of all policies: for each context, a distribution over lists of items.

    Use `Ranking`, `Lists`, `Marginals` or `Observed`. A subclass keeps its rows in `_arrow`, and
    overrides `list_rows` (from which `slot_rows` follows) or `slot_rows`.
    """

    @cached_property
    def _arrow(self) -> PolicyTable:
        """The policy's table in Arrow, read once."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to answer: the rows, and nothing of their engine."""
        return {"_arrow": self._arrow}

    @property
    def complete(self) -> bool:
        """Whether the policy gives whole lists (`list_rows`), not only items at positions."""
        return type(self).slot_rows is Policy.slot_rows

    def context_count(self) -> int:
        """The number of contexts for which the policy has a list."""
        return self._arrow.context_count

    @property
    def longest(self) -> float:
        """The length of the longest list, or an upper bound of it."""
        return math.inf

    def reaches(self, depth: int) -> bool:  # noqa: ARG002 - for those who have lists
        """Whether all lists have an item at a position."""
        return self.longest == math.inf

    def longest_in(self, view: LogView) -> float:  # noqa: ARG002 - for those with a table
        """The length of the longest list in the contexts of the view."""
        return self.longest

    def first_contexts(self) -> list[Any]:
        """A few contexts of the policy, as examples for messages."""
        return _first(self._arrow.table[CONTEXT])

    def first_items(self) -> list[Any]:
        """A few items of the policy, as examples for messages."""
        return _first(self._arrow.table[self._arrow.items[0]])

    def known(self, view: LogView) -> Bools:
        """Shape (X,), boolean: for which contexts of the view the policy has a list."""
        known = np.zeros(len(view.contexts), dtype=np.bool_)
        known[self._arrow.within(view)[1]] = True
        return known

    # --- of a policy that is a user's table ----------------------------------------------------

    table: Any

    @cached_property
    def _source(self) -> Table:
        return open_source(self.table)

    @property
    def _columns(self) -> Sequence[str]:
        return self._source.columns

    @property
    def _roles(self) -> dict[str, Any]:
        """Roles that may be called as in the log, and the columns that have them."""
        return {}

    @property
    def _lacks(self) -> list[str]:
        """Roles with their usual name, which is no column: the log may know what they are."""
        if "_arrow" in self.__dict__:  # read already, perhaps in another process
            return []
        return [role for role, c in self._roles.items() if c == role and role not in self._columns]

    @property
    def _waits(self) -> bool:
        """Whether the columns are known only beside a log, which may have other names for them."""
        return bool(self._lacks) and len(self._columns) > 1

    def __post_init__(self) -> None:
        if not self._waits:
            self._check()  # a policy that is none should fail where it is made

    def _check(self) -> None:
        """Refuse a table that is no policy."""

    def named(self, names: Names) -> Policy:
        """The policy with columns named as in a log, where its table lacks the usual names."""
        if not self._lacks:
            return self
        named: Any = named_as(self._columns, self._lacks, names)
        policy: Policy = replace(self, **named)  # type: ignore[type-var]
        policy._check()
        return policy

    def list_rows(self, view: LogView) -> ListRows:  # noqa: ARG002 - for those who have lists
        """The lists that the policy shows in the contexts of the view, with probabilities.

        Raises:
            PolicyError: the policy gives only items at positions, not whole lists.
        """
        raise PolicyError(
            f"{type(self).__name__} does not say how likely whole lists are, which the click "
            "models 'list' and 'prefix' need. Use Lists or Ranking, or the estimators 'ip', "
            "'item', 'pbm'."
        )

    def slot_rows(self, view: LogView) -> SlotRows:
        """The items at each position in the contexts of the view, with probabilities."""
        context, items, mass = self.list_rows(view)
        row, position = np.nonzero(items != NO_ITEM)
        return SlotRows(context[row], items[row, position], position, mass[row])


def named_as(columns: Sequence[str], roles: Sequence[str], names: Names) -> dict[str, Any]:
    """What roles of a table are called as in the log, if that is a column of it."""
    named: dict[str, Any] = {role: names[role] for role in roles if names.get(role) in columns}
    if CONTEXT not in columns and names.get(CONTEXT, CONTEXT) is None:
        named[CONTEXT] = None  # one context for all
    return named


def _is_item(column: str) -> bool:
    return column == ITEM or column.startswith(f"{ITEM}_")


def _first(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The first values of a column, as examples."""
    values = column.unique().drop_null()
    return list(values.take(pc.sort_indices(values)[:_EXAMPLES]).to_pylist())


def policy_rows(
    source: Table,
    context: str | None,
    items: Columns,
    weight: str | None = None,
    numbers: Mapping[str, str] | None = None,
) -> Log:
    """The rows of a policy, checked: `context`, `item_1` …, numbers, and `n`, how many or how much.

    Args:
        source: one row a list, or an item.
        context: the column of the context; None: one context for all.
        items: the column of the list, or one for each position.
        weight: the column of the weight; rows of weight 0 are left out.
        numbers: further columns, by names that are free in a compressed table.
    """
    if weight is not None:
        column = source.engine.say.column(weight)
        source = source.where(f"{column} <> 0 OR {column} IS NULL")
    roles = Roles(context=context, items=items, rewards={}, segments=numbers or {}, count=weight)
    return compress(source, roles, "refuse")


def refuse(
    table: Table, wrong: str, describe: Callable[[dict[str, Any]], str], remedy: str
) -> None:
    """Raise if a SELECT gives wrong rows: how many, one example, the remedy."""
    count = f"SELECT count(*) AS n FROM ({wrong}) AS w"
    cases = table.engine.ask(count, pa.schema({"n": pa.int64()}))["n"][0].as_py()
    if cases:
        first = f"SELECT * FROM ({wrong}) AS w ORDER BY {CONTEXT} LIMIT 1"
        example = table.engine.ask(first).to_pylist()[0]
        raise PolicyError(f"{describe(example)} ({number_of(cases, 'such case')}): {remedy}.")
