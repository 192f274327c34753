"""What can go wrong, in words the user can act on.

Every error says what is wrong, how much of it there is, one example, and the remedy.
All of them descend from `ForeclickError`, so one `except` catches the library's own errors
and no others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from foreclick.secrets import masked as _without_secrets

if TYPE_CHECKING:
    from types import ModuleType


STATEMENT = "\nThe statement was:\n"
"""What stands between the message of an `EngineError` and the SQL that it shows."""


class ForeclickError(Exception):
    """The root of all errors raised by foreclick on purpose."""

    def __init__(self, *args: object) -> None:
        super().__init__(*_masked(args))


class OptionError(ForeclickError, ValueError):
    """An option has an impossible value, or there is no such option."""


class SourceError(ForeclickError):
    """A source cannot be read, or lacks a named column."""


class InvalidLogError(ForeclickError):
    """The rows of a log (or of a policy's table) break a rule; the message lists every cause."""


class TallyError(ForeclickError):
    """A tally cannot be read, written or added."""


class MetricError(ForeclickError):
    """A metric is misspelt or impossible for this log."""


class ModelError(ForeclickError):
    """A click model or estimator is misspelt or cannot be used here."""


class PolicyError(ForeclickError):
    """A table is not a policy, or a policy cannot answer for a log or a click model."""


class EngineError(ForeclickError):
    """The engine that holds the data failed, or cannot do what is needed."""


class SimulationError(ForeclickError):
    """A simulated world, or the log to draw from it, has impossible parameters."""


class ReportError(ForeclickError):
    """A result has no such chart, or cannot be written."""


class MissingDependency(ForeclickError):  # noqa: N818 - reads better where it is caught
    """An optional package is not installed; the message says which extra brings it."""


class ForeclickWarning(UserWarning):
    """The answer stands, but on weaker ground than it looks."""

    def __init__(self, *args: object) -> None:
        super().__init__(*_masked(args))


class BacktestError(ForeclickError):
    """The log cannot be split into held-out periods as asked."""


def _masked(args: tuple[object, ...]) -> list[object]:
    """What an error or a warning is made of, without secrets."""
    return [_without_secrets(each) if isinstance(each, str) else each for each in args]


def optional(package: str, remedy: str) -> ModuleType:
    """Import an optional package.

    Raises:
        MissingDependency: it is not installed; the message names the remedy.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingDependency(f"{package} is not installed; run: {remedy}") from error
