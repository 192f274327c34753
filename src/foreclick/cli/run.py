"""Runs one command: warnings, progress, the answer, and the exit code."""

from __future__ import annotations

import sys
import traceback
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from foreclick.cli.output import complain, hear, show, warn
from foreclick.errors import STATEMENT, ForeclickError, SourceError
from foreclick.progress import working
from foreclick.secrets import printable

if TYPE_CHECKING:
    from foreclick.results import Result

DONE, NO, BAD_INPUT, CANNOT_TELL, OWN_ERROR = 0, 1, 2, 3, 70

_EXPECTED = (ForeclickError, OSError)
"""Errors that a user can do something about."""


def execute(name: str, files: list[str], given: Any) -> int:  # noqa: ANN401 - any command
    """Runs a command; what goes wrong is said on stderr.

    Args:
        name: which one.
        files: the words that are no options.
        given: its options, and its `run`.

    Returns:
        The exit code.
    """
    try:
        _check_words(given.words, files)
        result = _answered(files, given)
    except BrokenPipeError:
        raise  # it is the process's, not a file's
    except Exception as error:  # noqa: BLE001 - a gate that fails must not exit with 1, its "no"
        if given.debug:
            sys.stderr.write(printable(traceback.format_exc(), lines=True))
        complain(_said(error, debug=bool(given.debug)))
        return BAD_INPUT if isinstance(error, (*_EXPECTED, MemoryError)) else OWN_ERROR
    return _verdict(result) if name == "gate" else DONE


def _said(error: Exception, *, debug: bool) -> str:
    """What went wrong, without the statement that an engine was sent: --debug shows that."""
    if isinstance(error, MemoryError):
        return (
            f"there is not enough memory: {error}" if str(error) else "there is not enough memory."
        )
    if not isinstance(error, _EXPECTED):
        return (
            f"something failed that should not: {type(error).__name__}: {error}\nPlease report it, "
            "with what --debug prints."
        )
    text, _, statement = str(error).partition(STATEMENT)
    return f"{text}\n(--debug shows the statement.)" if statement and not debug else str(error)


def _check_words(words: str, files: list[str]) -> None:
    """Refuse too few or too many words, such as LOG… without a CANDIDATE."""
    names = words.partition(" -")[0].split()
    least = [name for name in names if "[" not in name]
    if len(files) < len(least):
        missing = " and ".join(name.removesuffix("…") for name in least[len(files) :])
        raise SourceError(f"{missing} is missing: give {words}.")
    if len(files) > len(names) and "…" not in "".join(names):
        raise SourceError(f"{files[len(names)]!r} is one word too many: give {words}.")


def _answered(files: list[str], given: Any) -> Result:  # noqa: ANN401 - any command
    path = None if getattr(given, "writes", False) else getattr(given, "output", None)
    if path is not None:
        from foreclick.rendering import checked

        path = checked(path)  # before the work, not after
    failed: Exception | None = None
    with ExitStack() as stack:
        warnings = stack.enter_context(hear())
        say = stack.enter_context(working((lambda _: None) if given.quiet else None))
        if given.debug:
            from foreclick.cli.explain import explained

            say = stack.enter_context(working(stack.enter_context(explained(say))))
        result: Result = given.run(files, say)
        if path is not None:
            say(f"Writing {path}")
            try:
                result.save(path)
            except (ForeclickError, OSError) as error:
                failed = error
    form = given.format or "answer"
    if not given.quiet:
        warn(warnings, result, form)
    show(result, form)
    if failed is not None:  # the answer is not lost with its file
        raise failed
    return result


def _verdict(result: Result) -> int:
    """What a gate exits with: no is what is neither better nor unknown."""
    from foreclick.questions.verdicts import BETTER, UNKNOWN

    return {BETTER: DONE, UNKNOWN: CANNOT_TELL}.get(result["verdict"][0], NO)
