"""Words of the command line as values: numbers, names, and pairs of both."""

from __future__ import annotations

import argparse
import math
import re
from typing import Any

import numpy as np


class Columns(argparse.Action):
    """One column as a text; several, by commas or repetition, as a list. A trailing comma counts.

    This is how `read_log` tells a column of lists from one column per position.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's signature
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Add to what was given before."""
        before = getattr(namespace, self.dest) or []
        if isinstance(before, str):
            before = [before]
        new = [*before, *names(values)]
        setattr(namespace, self.dest, values if [values] == new else new)


def names(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def clips(text: str) -> list[float]:
    """Values of M with commas; 1..1000 stands for twenty from 1 to 1000, evenly in ratio, and inf.

    Examples:
        >>> clips("1,10"), clips("1..1000")[-3:]
        ([1.0, 10.0], [695.2, 1000.0, inf])
    """
    return [clip for part in names(text) for clip in _clips(part)]


_RANGE = 20


def _clips(text: str) -> list[float]:
    low, dots, high = text.partition("..")
    try:
        first, last = float(low), float(high) if dots else math.inf
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number. Write 10, or inf for none, or 1..1000 for many"
        ) from None
    if not dots:
        return [first]
    if not 0 < first < last < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no range from low to high above 0")
    # Four digits are enough, and make a table that can be read.
    return [float(f"{m:.4g}") for m in np.geomspace(first, last, _RANGE)] + [math.inf]


def ranks(text: str) -> int | tuple[int, int]:
    """100 for the first hundred, 101-1000 for those from one rank to another."""
    first, dash, last = text.partition("-")
    if not dash:
        return count(first)
    found = count(first), count(last)
    if found[0] > found[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is no range; write 101-1000")
    return found


def amount(text: str) -> float:
    """A number of records, which need not be whole where they are weighted."""
    found = _number(text)
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records")
    return found


def from_zero(text: str) -> float:
    """A number from 0 on."""
    found = _number(text)
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return found


def curve(text: str) -> list[float]:
    """Numbers from 0 on, separated by commas."""
    return [from_zero(word) for word in text.split(",")]


def guardrail(text: str) -> tuple[str, float]:
    """A metric and the share that it may lose.

    Examples:
        >>> guardrail("orders@3=1%"), guardrail("orders@3=0.02"), guardrail("orders@3")
        (('orders@3', 0.01), ('orders@3', 0.02), ('orders@3', 0.0))
    """
    name, _, lost = text.partition("=")
    percent = lost.endswith("%")
    try:
        number = float(lost.removesuffix("%") or 0)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: write a metric and the share that it may lose, orders@3=1%"
        ) from None
    return name, number / 100 if percent else number


def share(text: str) -> float:
    """A number between 0 and 1."""
    found = above_zero(text)
    if found >= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share between 0 and 1")
    return found


def above_zero(text: str) -> float:
    """A number above 0."""
    found = _number(text)
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return found


def _number(text: str) -> float:
    """The number that a text is; NaN, which is in no range, if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def count(text: str) -> int:
    """A whole number above 0."""
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def whole(text: str) -> int:
    """A whole number from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def size(text: str) -> str:
    """An amount of memory, with its unit."""
    if not re.fullmatch(r"\d+(\.\d+)? ?([kmgt]i?)?b", text, re.IGNORECASE):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 2GB")
    return text


def reward(text: str) -> tuple[str, str | list[str]]:
    """NAME=COLUMN, or NAME=COLUMN,COLUMN,… with one column per position."""
    name, _, columns = text.partition("=")
    if not (name and columns):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COLUMN, such as orders=n_orders")
    return name, names(columns) if "," in columns else columns


def candidate(text: str) -> tuple[str, str]:
    """NAME=FILE."""
    name, _, path = text.partition("=")
    if not (name and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE, such as new=new.parquet")
    return name, path


def least(text: str) -> tuple[str, float]:
    """FILE=SHARE."""
    path, _, part = text.rpartition("=")
    found = _number(part)
    if not (path and 0 <= found <= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not FILE=SHARE, such as new.csv=0.1")
    return path, found
