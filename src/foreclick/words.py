"""Words that messages are made of: counts, the name that was probably meant, kinds of values."""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ALIKE = 0.6  # how similar a name must be to be suggested, from 0 to 1


def number_of(number: float, one: str, many: str | None = None) -> str:
    """A number of things: "1 record", "2,000 records".

    Examples:
        >>> number_of(1, "record"), number_of(2000, "record"), number_of(0, "query", "queries")
        ('1 record', '2,000 records', '0 queries')
    """
    shown = f"{number:,}" if type(number) is int else f"{number:,.0f}"
    return f"{shown} {plural(number, one, many)}"


def plural(number: float, one: str, many: str | None = None) -> str:
    """The noun alone, for one thing or for several.

    Examples:
        >>> plural(1, "context"), plural(2, "context"), plural(2, "has", "have")
        ('context', 'contexts', 'have')
    """
    return one if number == 1 else many or f"{one}s"


def about(number: float, digits: int = 2) -> str:
    """A number rounded up to a few digits.

    Examples:
        >>> about(13_765, 3), about(41.2), about(7)
        ('13,800', '42', '7')
    """
    return f"{rounded_up(number, digits):,}"


def rounded_up(number: float, digits: int = 2) -> int:
    """The least number of few digits that is no smaller."""
    unit = int(10 ** max(math.floor(math.log10(max(number, 1.0))) + 1 - digits, 0))
    return math.ceil(round(number / unit, 6)) * unit


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: in other letters, or misspelt.

    Examples:
        >>> nearest("Query", ["day", "query"]), nearest("pmb", ["ip", "pbm"]), nearest("x", ["ip"])
        ('query', 'pbm', None)
    """
    names = {each.lower(): each for each in reversed(list(known))}
    close = get_close_matches(str(name).lower().strip(), names, n=1, cutoff=_ALIKE)
    return names[close[0]] if close else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A question to end a message with; empty if nothing is near."""
    close = nearest(name, known)
    return "" if close is None else f" Did you mean {close!r}?"


def one_of(names: Iterable[str]) -> str:
    """Names to choose from: "'a', 'b' or 'c'"."""
    *first, last = [repr(name) for name in names]
    return f"{', '.join(first)} or {last}" if first else last


def listed(names: Sequence[str]) -> str:
    """All of several names: "a, b and c"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def few(names: Sequence[str], most: int = 5) -> str:
    """The first of many names, and how many follow: "a, b and 7 more"."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def examples(values: Iterable[Any]) -> str:
    """Some values with their kind: "'q', 'r' (text)", "7 (integer)"."""
    listed = list(values)
    if not listed:
        return "nothing"
    kinds = {bool: "boolean", int: "integer", float: "number", str: "text"}
    first = type(listed[0])
    return f"{', '.join(map(repr, listed))} ({kinds.get(first, first.__name__)})"


def no_column(option: str, name: object, columns: Iterable[str]) -> str:
    """That a table lacks a column, and which one may be meant."""
    names = list(columns)
    return (
        f"{option}={name!r} is no column of the table.{did_you_mean(name, names)} It has the "
        f"columns {', '.join(names)}."
    )
