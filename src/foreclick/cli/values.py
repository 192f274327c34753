"""Words of the command line as values: numbers, names, and pairs of both.

Each function takes the text of one word; what it cannot read it refuses with a `ValueError` that
says what to write instead. `one` and `several` make converters of them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cyclopts import Token

T = TypeVar("T")


def one(parse: Callable[[str], Any], metavar: str) -> Parameter:
    """An option whose single word is read by a function."""

    def convert(_: object, tokens: Sequence[Token]) -> Any:  # noqa: ANN401 - what `parse` gives
        return parse(tokens[0].value)

    return Parameter(converter=convert, metavar=metavar, n_tokens=1, allow_leading_hyphen=True)


def several(parse: Callable[[str], list[Any]], metavar: str) -> Parameter:
    """An option that may be repeated; the values of all its words are put together."""

    def convert(_: object, tokens: Sequence[Token]) -> list[Any]:
        return [value for token in tokens for value in parse(token.value)]

    return Parameter(converter=convert, metavar=metavar, n_tokens=1, allow_leading_hyphen=True)


# --- numbers --------------------------------------------------------------------------------------


def number(text: str) -> float:
    """A number; NaN, which is in no range, if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def between(low: float, high: float, what: str) -> Callable[[str], float]:
    """A function that reads numbers from low to high, both allowed; `what` they are called."""

    def parse(text: str) -> float:
        found = number(text)
        if not low <= found <= high:
            raise ValueError(f"{text!r} is not {what}")
        return found

    return parse


_LEAST = 5e-324
_MOST = 1.7e308
above_zero = between(_LEAST, _MOST, "a number above 0")
from_zero = between(0, _MOST, "a number from 0 on")


def share(text: str) -> float:
    """A part of a whole, as a number or in per cent.

    Examples:
        >>> share("1%"), share("0.01")
        (0.01, 0.01)
    """
    found = number(text.removesuffix("%"))
    if math.isnan(found):
        raise ValueError(f"{text!r} is not a share such as 1% or 0.01")
    return found / 100 if text.endswith("%") else found


def whole(text: str) -> int:
    """A whole number from 0 on."""
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def count(text: str) -> int:
    """A whole number above 0."""
    if not (text.isdecimal() and int(text)):
        raise ValueError(f"{text!r} is not a whole number above 0")
    return int(text)


def size(text: str) -> str:
    """An amount of memory, with its unit."""
    if not re.fullmatch(r"\d+(\.\d+)? ?([kmgt]i?)?b", text, re.IGNORECASE):
        raise ValueError(f"{text!r} is not a size such as 2GB")
    return text


def rank_range(text: str) -> int | tuple[int, int]:
    """100 for the first hundred, 101-1000 for those from one rank to another."""
    first, dash, last = text.partition("-")
    if not dash:
        return count(first)
    found = count(first), count(last)
    if found[0] > found[1]:
        raise ValueError(f"{text!r} is no range; write 101-1000")
    return found


# --- names and pairs ------------------------------------------------------------------------------


def names(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def columns(_: object, tokens: Sequence[Token]) -> str | list[str]:
    """One column as a text; several, by commas or repetition, as a list. A trailing comma counts.

    This is how `read_log` tells a column of lists from one column per position.
    """
    words = [token.value for token in tokens]
    found = [name for word in words for name in names(word)]
    return words[0] if words == found and len(words) == 1 else found


def _pair(text: str, example: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not (name and value):
        raise ValueError(f"{text!r} is not {example}")
    return name, value


def reward(text: str) -> list[tuple[str, str | list[str]]]:
    """NAME=COLUMN, or NAME=COLUMN,COLUMN,… with one column per position."""
    name, found = _pair(text, "NAME=COLUMN, such as orders=n_orders")
    return [(name, names(found) if "," in found else found)]


def pair(text: str) -> list[tuple[str, str]]:
    """NAME=VALUE, such as a name and a file."""
    return [_pair(text, "NAME=VALUE, such as new=new.parquet or items=docs")]


def guardrail(text: str) -> list[tuple[str, float]]:
    """A metric and the share that it may lose.

    Examples:
        >>> guardrail("orders@3=1%"), guardrail("orders@3=0.02"), guardrail("orders@3")
        ([('orders@3', 0.01)], [('orders@3', 0.02)], [('orders@3', 0.0)])
    """
    name, _, lost = text.partition("=")
    try:
        return [(name, share(lost or "0"))]
    except ValueError:
        said = f"{text!r}: write a metric and the share that it may lose, orders@3=1%"
        raise ValueError(said) from None


# --- types of options -----------------------------------------------------------------------------

Column = Annotated[str | None, Parameter(metavar="COLUMN")]
Columns = Annotated[
    str | list[str] | None,
    Parameter(metavar="COLUMN", converter=columns, n_tokens=1, accepts_keys=False),
]
Names = Annotated[list[str] | None, several(names, "NAME,…")]
File = Annotated[str | None, Parameter(metavar="FILE")]
Period = Annotated[str | None, Parameter(metavar="PERIOD")]
Sql = Annotated[str | None, Parameter(metavar="SQL")]
Flag = bool | None
Count = Annotated[int | None, one(count, "N")]
Whole = Annotated[int | None, one(whole, "N")]
Positive = Annotated[float | None, one(above_zero, "N")]
Share = Annotated[float | None, one(share, "SHARE")]
