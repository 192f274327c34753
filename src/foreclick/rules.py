"""Rules of options: what a value may be, and how it is read from texts of the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from foreclick.errors import OptionError
from foreclick.words import did_you_mean, one_of

_PER_CENT = 100
_SEVERAL = 2  # per cent: 1.5 is rather a share that is too large


class ValueRule:
    """What an option may be. This one accepts any value, which a verb parses itself."""

    repeats = False
    """Whether a command takes the option several times."""

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401 - whatever a user gives
        """Raise an `OptionError` if the value makes no sense."""

    @property
    def metavar(self) -> str:
        """What stands for the value in the help of a command."""
        return "TEXT"

    def parse(self, texts: list[str]) -> Any:  # noqa: ANN401 - what the verb takes
        """The value of the texts of a command line."""
        return texts[0]


def is_number(value: object) -> bool:
    """Whether a value is a number, and not True or False."""
    return not isinstance(value, bool) and isinstance(value, Real)


@dataclass(frozen=True)
class Number(ValueRule):
    """A number.

    Attributes:
        give: what to give instead, in words.
        fits: whether a number will do.
        such_as: an example.
        optional: whether None will do.
        whole: whether it must be an integer.
        share: whether 5 and "5%" probably mean 0.05.
    """

    give: str
    fits: Callable[[float], bool]
    such_as: str = ""
    optional: bool = False
    whole: bool = False
    share: bool = False

    @property
    def metavar(self) -> str:
        """A share, or N."""
        return "SHARE" if self.share else "N"

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Refuse what is no number, and numbers that do not fit."""
        if value is None and self.optional:
            return
        fits = is_number(value) and self.fits(float(value))
        if fits and (not self.whole or isinstance(value, Integral)):
            return
        hint = self._hint(value)
        example = f", such as {self.such_as}" if self.such_as and not hint else ""
        raise OptionError(f"{name}={value!r}: give {self.give}{example}.{hint}")

    def _hint(self, value: Any) -> str:  # noqa: ANN401
        """What was probably meant: a number that was written as text, or per cent."""
        text = isinstance(value, str)
        per_cent = text and value.strip().endswith("%")
        try:
            number = float(value.strip().rstrip("%")) if text else float(value)
        except (TypeError, ValueError):
            return ""
        if isinstance(value, bool) or not (text or self.share):
            return ""
        meant = number / _PER_CENT if per_cent or (self.share and number >= _SEVERAL) else number
        if not self.fits(meant) or (self.whole and not meant.is_integer()):
            return ""
        return f" Did you mean {int(meant) if self.whole else f'{meant:g}'}?"

    def parse(self, texts: list[str]) -> float | str:
        """A number, a share perhaps in per cent; a text that is no number is left to the rule.

        Examples:
            >>> PART.parse(["1%"]), PART.parse(["0.01"]), PART.parse(["much"])
            (0.01, 0.01, 'much')
        """
        text = texts[0]
        if self.share and text.endswith("%"):
            number = self.parse([text.removesuffix("%")])
            return text if isinstance(number, str) else number / _PER_CENT
        for kind in (int, float):
            with suppress(ValueError):
                return kind(text)
        return text


@dataclass(frozen=True)
class Choice(ValueRule):
    """One of some words.

    Attributes:
        words: those to choose from.
        optional: what None means, in words; None: it means nothing, and is refused.
        others: what else can be given: values of this type.
        also: the same in words.
    """

    words: tuple[str, ...]
    optional: str | None = None
    others: type | None = None
    also: str = ""

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Refuse other words."""
        if (value is None and self.optional) or (isinstance(value, str) and value in self.words):
            return
        if self.others is not None and isinstance(value, self.others):
            return
        last = f", or None {self.optional}" if self.optional else ""
        hint = did_you_mean(value, self.words) if isinstance(value, str) else ""
        raise OptionError(f"{name}={value!r}: say {one_of(self.words)}{self.also}{last}.{hint}")


class Flag(ValueRule):
    """True or False, and not a word that is true because it is not empty."""

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Refuse what is no truth value of Python or NumPy."""
        of_numpy = str(getattr(value, "dtype", "")) == "bool" and value.ndim == 0
        if not isinstance(value, bool) and not of_numpy:
            raise OptionError(f"{name}={value!r}: give True or False.")


class Column(ValueRule):
    """The name of a column, or None."""

    metavar = "COLUMN"

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Refuse what is no name."""
        if value is not None and not isinstance(value, str):
            raise OptionError(f"{name}={value!r}: give the name of a column, or None.")


class Names(ValueRule):
    """Names of columns: one, or several; on the command line separated by commas."""

    metavar, repeats = "NAME,…", True

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Refuse what are no names, and names that are there twice."""
        if value is None or isinstance(value, str):
            return
        if not isinstance(value, Iterable) or not all(isinstance(each, str) for each in value):
            raise OptionError(f"{name}={value!r}: give the name of a column, or a list of names.")
        listed = list(value)
        twice = [each for each in listed if listed.count(each) > 1]
        if twice:
            raise OptionError(f"{name}={value!r}: {twice[0]!r} is there twice. Name it once.")

    def parse(self, texts: list[str]) -> Any:  # noqa: ANN401
        """All names."""
        return [name for text in texts for name in split_names(text)]


class Columns(Names):
    """A column of lists as a text; one column per position as a list."""

    metavar = "COLUMN"

    def parse(self, texts: list[str]) -> str | list[str]:
        """One name as a text; several as a list. A trailing comma makes a list of one name."""
        listed: list[str] = super().parse(texts)
        return listed[0] if texts == listed and len(listed) == 1 else listed


class ColumnPair(Names):
    """The columns of a list's id and of the position."""

    metavar = "LIST,POSITION"

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Refuse what is no pair of columns."""
        if value is not None and not (isinstance(value, tuple | list) and len(value) == 2):
            raise OptionError(
                f"{name}={value!r}: give the column of the list's id and that of the position, "
                "such as ('list_id', 'position')."
            )
        super().__call__(name, value)


class Guardrails(ValueRule):
    """Metrics that must not fall, each with the share that it may lose."""

    metavar, repeats = "METRIC=SHARE", True

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Refuse what is no mapping to shares."""
        if value is None:
            return
        if not isinstance(value, Mapping):
            raise OptionError(
                f"{name}={value!r}: give each metric with the share of production that it may "
                "lose, such as {'orders@3': 0.01}."
            )
        for metric, share in value.items():
            LOSS(f"{name}[{str(metric)!r}]", share)

    def parse(self, texts: list[str]) -> dict[str, float | str]:
        """From metrics to shares.

        Examples:
            >>> Guardrails().parse(["orders@3=1%", "clicks@3"])
            {'orders@3': 0.01, 'clicks@3': 0}
        """
        pairs = (text.partition("=") for text in texts)
        return {metric: LOSS.parse([share or "0"]) for metric, _, share in pairs}


class SampleSize(ValueRule):
    """How many lists of a log are read: "auto", a number, or all."""

    metavar = "N"
    least = 1_000

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Refuse other words, and numbers that are too small to say anything."""
        if value is None or value in ("auto", "all"):
            return
        if not is_number(value) or not isinstance(value, Integral) or value < self.least:
            raise OptionError(
                f"{name}={value!r}: give a whole number of lists from {self.least:,} on, 'auto', "
                "or None for all."
            )

    def parse(self, texts: list[str]) -> int | str:
        """A number, or a word."""
        return int(texts[0]) if texts[0].isdecimal() else texts[0]


@dataclass(frozen=True)
class Text(ValueRule):
    """A value that the verb parses itself; `read` makes it of a text of the command line.

    Attributes:
        metavar: what stands for it in the help.
        read: gives the value, or a list of values if the option repeats.
        repeats: whether it may be given several times.
    """

    metavar: str = "TEXT"
    read: Callable[[str], Any] = str
    repeats: bool = False

    def parse(self, texts: list[str]) -> Any:  # noqa: ANN401
        """The value; of an option that repeats, all values."""
        if self.repeats:
            return [value for text in texts for value in self.read(text)]
        return self.read(texts[0])


def split_names(text: str) -> list[str]:
    """Names between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def pair(example: str) -> Callable[[str], list[tuple[str, str]]]:
    """The function that reads NAME=VALUE as a list of one pair."""

    def read(text: str) -> list[tuple[str, str]]:
        name, _, value = text.partition("=")
        if not (name and value):
            raise OptionError(f"{text!r} is not {example}.")
        return [(name, value)]

    return read


def count(text: str) -> int:
    """A whole number above 0."""
    if not (text.isdecimal() and int(text)):
        raise OptionError(f"{text!r} is not a whole number above 0.")
    return int(text)


def rank_range(text: str) -> int | tuple[int, int]:
    """100 for the first hundred, 101-1000 for those from one rank to another."""
    first, dash, last = text.partition("-")
    if not dash:
        return count(first)
    if count(first) > count(last):
        raise OptionError(f"{text!r} is no range of ranks. Write, for instance, 101-1000.")
    return count(first), count(last)


def size(text: str) -> str:
    """An amount of memory, with its unit."""
    if not re.fullmatch(r"\d+(\.\d+)? ?([kmgt]i?)?b", text, re.IGNORECASE):
        raise OptionError(f"{text!r} is not a size such as 2GB.")
    return text


def choice(*words: str) -> Choice:
    """One of some words."""
    return Choice(words)


def whole(
    least: int, what: str, such_as: str = "", *, optional: bool = False, most: float = math.inf
) -> Number:
    """A whole number."""
    upto = "on" if most == math.inf else f"to {most:g}"
    give = f"{what}, a whole number from {least} {upto}"
    return Number(give, lambda v: least <= v <= most, such_as, optional, whole=True)


def share(such_as: str, *, optional: bool = False) -> Number:
    """A share between 0 and 1."""
    fits = lambda v: 0 < v < 1  # noqa: E731
    return Number("a share above 0 and below 1", fits, such_as, optional, share=True)


def above(what: str, such_as: str = "", *, optional: bool = False) -> Number:
    """A number above 0."""
    return Number(f"{what} above 0", lambda v: 0 < v < math.inf, such_as, optional)


def from_zero(what: str, such_as: str = "", *, optional: bool = False) -> Number:
    """A number from 0 on."""
    return Number(f"{what}, from 0 on", lambda v: 0 <= v < math.inf, such_as, optional)


def below_one(what: str) -> Number:
    """A share from 0 to below 1."""
    return Number(f"{what} from 0 to below 1", lambda v: 0 <= v < 1, "0.01", share=True)


PART = Number("a share from 0 to 1", lambda v: 0 <= v <= 1, "0.1", share=True)
"""A share from 0 to 1."""

LOSS = below_one("the share of production that it may lose,")
flag, column, names, columns = Flag(), Column(), Names(), Columns()
