"""Answers go to stdout; progress (on a terminal only), warnings and complaints to stderr."""

from __future__ import annotations

import io
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foreclick.errors import ForeclickWarning
from foreclick.secrets import printable, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from foreclick.results import Result


_VERDICTS = {"green": "better", "red": "worse", "yellow": "cannot tell"}
"""Verdicts in the lines of an answer, by their colour."""


def show(result: Result, form: str) -> None:
    """Print a result in the form that was asked for, with colours where a terminal shows them."""
    if form in ("answer", "table") and sys.stdout.isatty():
        from rich.console import Console

        Console().print(_coloured(_text(result, form)), soft_wrap=True)
        return
    if form in ("github", "junit"):
        from foreclick.cli.pipelines import github, junit

        text = (github if form == "github" else junit)(result)
    else:
        forms = {"json": result.to_json, "csv": result.to_csv}
        text = forms[form]() if form in forms else _text(result, form)
    if sys.stdout.isatty():
        text = visible(text, lines=True)
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()  # now, where a broken pipe is expected


def _text(result: Result, form: str) -> str:
    return str(result.table if form == "table" else result)


def complain(message: str) -> None:
    """Say on stderr what is wrong; what a message quotes cannot steer the terminal."""
    _tell("foreclick: " + printable(message.rstrip("\n"), lines=True), "bold red")


def warn(heard: list[str], result: Result, form: str) -> None:
    """Say each warning once on stderr, unless the table prints it among its notes anyway."""
    noted = {note.casefold() for note in result.notes} if form in ("answer", "table") else set()
    for message in dict.fromkeys(heard):
        if message.casefold() not in noted:
            _tell(f"warning: {printable(message)}", "bold yellow")


@contextmanager
def hear() -> Iterator[list[str]]:
    """Collect the library's own warnings; those of others go their usual way."""
    heard: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ForeclickWarning)
        yield heard
    for warning in caught:
        if issubclass(warning.category, ForeclickWarning):
            heard.append(str(warning.message))
        else:
            warnings.showwarning(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def settle_encoding() -> None:
    """Files and pipes get UTF-8; a terminal that lacks a character gets a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper) or stream.encoding.lower() == "utf-8":
            continue
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8")


def _tell(message: str, style: str) -> None:
    """A line on stderr, its first word (up to the colon) in a style."""
    if not sys.stderr.isatty():
        sys.stderr.write(f"{message}\n")
        return
    from rich.console import Console
    from rich.text import Text

    head, colon, rest = message.partition(":")
    Console(stderr=True).print(Text.assemble((head + colon, style), rest), soft_wrap=True)


def _coloured(text: str) -> Text:
    """The text of a result with its heads bold, its rule dim, and a mark before each note."""
    from rich.text import Text

    styled = Text(text)
    head = r"\A[^─]*(?=\n─)" if "─" in text else r"\A[^\n]+(?:\n[^\n]+)*"
    styled.highlight_regex(head, "bold")
    styled.highlight_regex(r"(?m)^─+$", "dim")
    styled.highlight_regex(r"(?m)^•", "bold yellow")
    for style, words in _VERDICTS.items():
        styled.highlight_regex(rf"(?m)^  \S+ +(?P<{style}>{words})\b", style_prefix="")
    return styled
