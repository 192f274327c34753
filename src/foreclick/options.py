"""The options of all verbs: what each may be, said once.

An option means the same in every verb that has it, so it is checked by its name. A verb wears
`checked`, which refuses wrong values before any work is done: what is wrong, what was given, and
what to give instead. Whether this log can answer what is asked is another question, put later.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from numbers import Integral, Real
from typing import Any, Literal, ParamSpec, Protocol, TypeVar

import numpy as np

from foreclick.errors import OptionError
from foreclick.progress import set_output, working
from foreclick.words import did_you_mean, one_of

P = ParamSpec("P")
R = TypeVar("R")

AT_ONCE = max(64, 4 * (os.cpu_count() or 1))
"""The most threads or processes: more only cost memory, and far more take the machine with them."""

_PER_CENT = 100


class Rule(Protocol):
    """Refuses what an option cannot be."""

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401 - whatever a user gives
        """Raise an `OptionError` if the value makes no sense."""
        ...


def _number(value: object) -> float | None:
    """A number that is one, and not True or False."""
    return None if isinstance(value, bool) or not isinstance(value, Real) else float(value)


@dataclass(frozen=True)
class Number:
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

    def __call__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Refuse what is no number, and numbers that do not fit."""
        if value is None and self.optional:
            return
        number = _number(value)
        fits = number is not None and self.fits(number)
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
        meant = number / _PER_CENT if per_cent or (self.share and number > 1) else number
        if not self.fits(meant) or (self.whole and not meant.is_integer()):
            return ""
        return f" Did you mean {int(meant) if self.whole else f'{meant:g}'}?"


@dataclass(frozen=True)
class Choice:
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


def choice(*words: str) -> Choice:
    """One of some words."""
    return Choice(words)


def flag(name: str, value: Any) -> None:  # noqa: ANN401
    """True or False, and not a word that is true because it is not empty."""
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{name}={value!r}: say True or False.")


def clips(name: str, value: Any) -> None:  # noqa: ANN401
    """M: one number above 0, or several."""
    many = isinstance(value, list | tuple)
    listed = list(value) if many else [value]
    right = [m for m in listed if (_number(m) or 0.0) > 0]
    if len(right) < len(listed) or not listed:
        raise OptionError(
            f"{name}={value!r}: give the largest weight, a number above 0 such as 100, or a list "
            "of such; math.inf for none."
        )


def names(name: str, value: Any) -> None:  # noqa: ANN401
    """Names of columns: one, or several."""
    if value is None or isinstance(value, str):
        return
    if not isinstance(value, Iterable) or not all(isinstance(each, str) for each in value):
        raise OptionError(f"{name}={value!r}: give the name of a column, or a list of names.")
    listed = list(value)
    twice = [each for each in listed if listed.count(each) > 1]
    if twice:
        raise OptionError(f"{name}={value!r}: {twice[0]!r} is there twice. Name it once.")


def column(name: str, value: Any) -> None:  # noqa: ANN401
    """The name of a column."""
    if value is not None and not isinstance(value, str):
        raise OptionError(f"{name}={value!r}: give the name of a column, or None.")


def guardrails(name: str, value: Any) -> None:  # noqa: ANN401
    """Metrics that must not fall, each with the share that it may lose, if any."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise OptionError(
            f"{name}={value!r}: give each metric with the share of production that it may lose, "
            "such as {'orders@3': 0.01}."
        )
    for metric, share in value.items():
        _LOSS(f"{name}[{str(metric)!r}]", share)


@dataclass(frozen=True)
class Confidence:
    """How sure intervals and verdicts are, where a number does not say it all.

    Args:
        level: how often an interval holds, such as 0.95.
        clusters: "auto": records of a period vary together, and so do those of a unit (user), if
            the log has them. "record": every record varies on its own.
        anytime: whether intervals hold at every look together, of a log that is looked at again
            and again as it grows.
        past: what `backtest` or `replay` returned: verdicts then allow for how far off the same
            estimators, by the same metrics, were there.

    Examples:
        >>> Confidence(0.9, anytime=True).level
        0.9
    """

    level: float = 0.95
    clusters: Literal["auto", "record"] = "auto"
    anytime: bool = False
    past: Any = None

    def __post_init__(self) -> None:
        _LEVEL("level", self.level)
        choice("auto", "record")("clusters", self.clusters)
        flag("anytime", self.anytime)
        if self.past is not None and not hasattr(self.past, "error"):
            raise OptionError(
                f"past={self.past!r}: give what fc.backtest or fc.replay returned, or None."
            )


def sure(name: str, value: Any) -> None:  # noqa: ANN401
    """A share, a `Confidence`, or None for no intervals."""
    if value is not None and not isinstance(value, Confidence):
        _LEVEL(name, value)


def _share(such_as: str, *, optional: bool = False) -> Number:
    fits = lambda v: 0 < v < 1  # noqa: E731
    return Number("a share above 0 and below 1", fits, such_as, optional, share=True)


def _part(such_as: str, *, optional: bool = False) -> Number:
    fits = lambda v: 0 <= v <= 1  # noqa: E731
    return Number("a share from 0 to 1", fits, such_as, optional, share=True)


def _above(what: str, such_as: str = "", *, optional: bool = False) -> Number:
    return Number(f"{what} above 0", lambda v: 0 < v < math.inf, such_as, optional)


def _from_zero(what: str, such_as: str = "", *, optional: bool = False) -> Number:
    return Number(f"{what}, from 0 on", lambda v: 0 <= v < math.inf, such_as, optional)


def whole(
    least: int, what: str, such_as: str = "", *, optional: bool = False, most: float = math.inf
) -> Number:
    """A whole number."""
    upto = "on" if most == math.inf else f"to {most:g}"
    give = f"{what}, a whole number from {least} {upto}"
    return Number(give, lambda v: least <= v <= most, such_as, optional, whole=True)


_LEVEL = _share("0.95")
PART = _part("0.1")
"""A share from 0 to 1."""

_LOSS = Number(
    "the share of production that it may lose, from 0 to below 1",
    lambda v: 0 <= v < 1,
    "0.01",
    share=True,
)
OPTIONS: dict[str, Rule] = {
    "by": names,
    "confidence": _LEVEL,
    "days": _above("a number of days", "14", optional=True),
    "depth": whole(1, "the number of positions", optional=True),
    "deterministic": flag,
    "forward": flag,
    "guardrails": guardrails,
    "half_life": _above("a number of days or steps", "30", optional=True),
    "invalid": choice("error", "drop"),
    "k": whole(1, "how many items a list shows", "10", optional=True),
    "max_change": _part("0.2", optional=True),
    "max_error": _above("a number of grades", "1"),
    "min_effect": Number(
        "the smallest change worth having, a share of production from 0 to below 1",
        lambda v: 0 <= v < 1,
        "0.01",
        share=True,
    ),
    "max_share": _share("0.5"),
    "min_held": _from_zero("a number of records"),
    "min_records": _from_zero("a number of records", optional=True),
    "min_shown": _from_zero("how often an item must have been shown"),
    "missing": choice("error", "production", "drop"),
    "pessimism": _from_zero("a number of standard errors", "1"),
    "power": _share("0.8"),
    "seed": whole(0, "the seed"),
    "share": _share("0.1", optional=True),
    "threads": whole(1, "the number of threads", optional=True, most=AT_ONCE),
    "within": choice("auto", "context", "period"),
    "workers": whole(1, "the number of processes", most=AT_ONCE),
}
"""What every option may be, by its name."""


_workers = [1]


def settings(*, progress: Any = None, workers: int | None = None) -> None:  # noqa: ANN401
    """How all verbs work from now on.

    Args:
        progress: "auto": a bar on a terminal, few lines elsewhere, and nothing of short work.
            "never": nothing. A function, such as ``print``: it is called with each line.
        workers: how many processes work on a log too large for memory, and on `optimize`. In a
            script, more than one need the usual ``if __name__ == "__main__":``.

    Examples:
        >>> settings(progress="never", workers=2)
        >>> settings(progress="auto", workers=1)
    """
    if progress is not None:
        if progress not in ("auto", "never") and not callable(progress):
            raise OptionError(
                f"progress={progress!r}: give 'auto', 'never', or a function of one line of text, "
                "such as print."
            )
        set_output(progress)
    if workers is not None:
        check(workers=workers)
        _workers[0] = workers


def worker_count() -> int:
    """How many processes work, by the last call of `settings`."""
    return _workers[0]


def check(**given: Any) -> None:  # noqa: ANN401
    """Refuse options of these names that make no sense."""
    for name, value in given.items():
        OPTIONS[name](name, value)


def verb(**others: Rule) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function a verb: as `checked`, and while it works it shows its progress."""

    def wear(function: Callable[P, R]) -> Callable[P, R]:
        asked = checked(**others)(function)

        @wraps(function)
        def working_verb(*args: P.args, **kwargs: P.kwargs) -> R:
            with working():
                return asked(*args, **kwargs)

        return working_verb

    return wear


def checked(**others: Rule) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function refuse options that make no sense, before it does any work.

    Args:
        others: rules of options that mean something else, or less, in this function.
    """
    rules = OPTIONS | others

    def wear(function: Callable[P, R]) -> Callable[P, R]:
        known = list(inspect.signature(function).parameters)

        @wraps(function)
        def checking(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in kwargs.items():
                if name not in known:
                    raise OptionError(_unknown(function.__name__, name, known))
                if name in rules:
                    rules[name](name, value)
            return function(*args, **kwargs)

        return checking

    return wear


_INSTEAD = {
    "clip": "estimators=Weighted('ip', clip=100)",
    "clusters": "confidence=Confidence(clusters='record')",
    "interval": "confidence=Confidence(anytime=True)",
    "layout": "long=('list_id', 'position'): the columns of a row's list and position",
    "practical": "min_effect=0.01: the smallest change worth having, a share of production",
    "progress": "fc.settings(progress='never')",
    "workers": "fc.settings(workers=4)",
}
"""What to use in place of options that other verbs, other packages or drafts of this one have."""


def _unknown(verb: str, name: str, known: list[str]) -> str:
    if name in _INSTEAD:
        return f"{verb} has no option {name!r}. Use {_INSTEAD[name]}."
    hint = did_you_mean(name, known) or f" It has {', '.join(known)}."
    return f"{verb} has no option {name!r}.{hint}"
