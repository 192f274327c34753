"""How numbers and other values are written: one way for tables, answers, notes and charts."""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from foreclick.secrets import printable

if TYPE_CHECKING:
    from collections.abc import Callable

Value: TypeAlias = str | int | float | None


class Kind(Enum):
    """What a column holds, which decides how it is shown and typed."""

    TEXT = "text"
    COUNT = "count"  # of whole things
    SIZE = "size"  # a count that need not be whole
    VALUE = "value"
    CHANGE = "change"  # difference of two values
    SHARE = "share"  # part of a whole, 0 to 1
    LIFT = "lift"  # change relative to what was
    POINTS = "points"  # of a lift: a size without a sign
    BOUND = "bound"  # a setting, shown as it was given
    FACT = "fact"  # a count or a value, whichever it is


_COLUMNS = {
    Kind.TEXT: """
        estimator metric model policy candidate against verdict test grade cell
        kind source
    """,
    Kind.COUNT: """
        contexts changed kept lists records arm_records clicks missing_contexts dropped
        folds replicates pairs rows files bytes cells seen out_of_sight position items
    """,
    Kind.SIZE: "ess",
    Kind.VALUE: """
        value se low high margin other p production naive rmse floor truth variance days
        largest lowest highest exposure examination
    """,
    Kind.CHANGE: "all_low all_high bias change change_low change_high gain adds",
    Kind.SHARE: "shared covered clipped share differs part reduction cut paper repeated out_share",
    Kind.LIFT: """
        lift lift_low lift_high predicted predicted_low predicted_high measured measured_low
        measured_high difference difference_low difference_high
    """,
    Kind.POINTS: "lift_se less more",
    Kind.BOUND: "clip",
    Kind.FACT: "found",
}
KINDS: dict[str, Kind] = {c: kind for kind, names in _COLUMNS.items() for c in names.split()}
"""The kind of every column of ours. Others, such as a user's segments, are shown as they are."""


def format_value(column: str, value: Value) -> str:
    """A value as a person wants to read it, according to its column's kind.

    Example:
        >>> format_value("covered", 0.931), format_value("clip", math.inf)
        ('93.1%', '∞')
    """
    if value is None or value != value:  # noqa: PLR0124 - NaN, the one value unlike itself
        return "–"
    if not isinstance(value, int | float):  # text, or a user's dates
        return printable(str(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    kind = KINDS.get(column)
    if kind is None:
        return str(value) if isinstance(value, int) else _significant(value, "")
    return _FORMATS[kind](value)


def span(column: str, low: Value, high: Value) -> str:
    """Both ends of an interval.

    Example:
        >>> span("lift", 0.0213, 0.05)
        '+2.13% to +5.00%'
    """
    return f"{format_value(column, low)} to {format_value(column, high)}"


_LARGE = 1_000  # from here on the places before the point are digits enough
_ROUNDING = 12  # decimal places; what is left of a share beyond them is rounding
_NOISE = 10  # and of a difference of sums


def _significant(value: float, sign: str, digits: int = 4) -> str:
    """A number with a few significant digits; `sign` is "" or "+"."""
    if value == 0:
        return "0"
    if abs(value) >= _LARGE:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}#.{digits}g}".removesuffix(".")


def _share(value: float) -> str:
    """A share in per cent that says 0% and 100% only where it is exactly that."""
    value = round(value, _ROUNDING)
    if value in {0, 1}:
        return f"{value:.0%}"
    if 0 < value < 0.0005:
        return "<0.1%"
    if 0.9995 <= value < 1:
        return ">99.9%"
    return f"{value:.1%}"


def _lift(value: float) -> str:
    """A relative change in per cent, with more digits where it is small."""
    value = round(value, _NOISE)
    if value == 0:
        return "0%"
    if abs(value) < 0.000005:
        return "0.000%"
    if abs(value) < 0.001:
        return f"{value:+.3%}"
    digits = 2 if abs(value) < 0.1 else 1 if abs(value) < _LARGE else 0
    return f"{value:+,.{digits}%}"


_FORMATS: dict[Kind, Callable[[float], str]] = {
    Kind.TEXT: str,
    Kind.COUNT: lambda value: f"{value:,.0f}",
    Kind.SIZE: lambda value: f"{value:,.0f}",
    Kind.VALUE: lambda value: _significant(value, ""),
    Kind.CHANGE: lambda value: _significant(round(value, _NOISE), "+", digits=3),
    Kind.SHARE: _share,
    Kind.LIFT: _lift,
    Kind.POINTS: lambda value: _lift(value).removeprefix("+"),
    Kind.BOUND: lambda value: f"{value:,.10g}",
    Kind.FACT: lambda value: (
        f"{value:,.0f}" if float(value).is_integer() else _significant(value, "")
    ),
}
