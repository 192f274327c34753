"""The words of the command line as an application: commands, their help, and how they are found."""

from __future__ import annotations

import inspect
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import App, Group, Parameter
from cyclopts.help import DefaultFormatter

from foreclick import __version__
from foreclick.cli.options import SHARED
from foreclick.cli.run import execute as run

if TYPE_CHECKING:
    from collections.abc import Callable

    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

DESCRIPTION = "Know the clicks before you ship the ranking: offline evaluation from click logs."
_START = (
    "New here? foreclick demo tells the whole story in 20 seconds. "
    "foreclick COMMAND --help explains a command, --help-all all of its options."
)
HELP_ALL, _FIRST = "--help-all", "--metric"

app = App(
    name="foreclick",
    help=DESCRIPTION,
    help_epilogue=_START,
    help_format="plaintext",
    version=f"foreclick {__version__}",
    version_format="plaintext",
    usage="foreclick COMMAND …",
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)
_OPTIONS = Group("Options", sort_key=9)
for _flag in ("--help", "--version"):
    app[_flag].group = _OPTIONS

C = TypeVar("C", bound=type)
typed: list[str] = []
"""The words of the command that is run."""

COMMANDS: dict[str, Any] = {}
"""Classes of options by the name of the command, each with `words` and a method `run`."""

_Hidden = Annotated[str, Parameter(show=False)]
_GROUPS = {
    title: Group(title, sort_key=place)
    for place, title in enumerate(("Start here", "Ask a log", "Make files"))
}


def command(words: str, group: str = "Ask a log") -> Callable[[C], C]:
    """Registers a group of options as the command of its name.

    The first sentence of its docstring is its summary; "Examples" and what follows ends its help.
    `words` are what stands after the options, such as LOG… CANDIDATE.
    """

    def register(cls: C) -> C:
        made: Any = cls
        name = cls.__name__.lower()
        made.words = words
        COMMANDS[name] = made

        def execute(*files: str, given: Any) -> int:  # noqa: ANN401 - `made`
            return run(name, list(files), given)

        execute.__annotations__ = {"files": _Hidden, "given": made}
        execute.__kwdefaults__ = {"given": made()}
        about, _, examples = str(inspect.getdoc(cls)).partition("Examples:\n")
        lines = "\n".join(line.strip() for line in examples.splitlines())
        app.command(
            execute,
            name=name,
            help=about.strip(),
            help_epilogue=f"Examples ({HELP_ALL}: also columns, candidates and output)\n\n{lines}",
            sort_key=len(COMMANDS),
            usage=f"foreclick {name} [options] {words}".rstrip(),
            group=_GROUPS[group],
            help_formatter=_Help(made),
            version_flags=(),
        )
        return cls

    return register


class _Help(DefaultFormatter):
    """Help that shows the library's own defaults, and shared options only where all are wanted."""

    def __init__(self, command: type) -> None:
        super().__init__()
        self.command = command

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print a group of options."""
        title = str(panel.title)
        if (title in SHARED or title == "Reading") and HELP_ALL not in typed:
            return
        shown = shown_defaults(self.command)
        entries = [
            entry.copy(default=shown.get(next(iter(entry.positive_names), "")))
            for entry in sorted(panel.entries, key=lambda entry: _FIRST not in entry.positive_names)
            if "--help" not in entry.positive_names
        ]
        if entries:
            super().__call__(console, options, panel.copy(entries=entries))


def shown_defaults(command: type) -> dict[str, str]:
    """From options to the defaults of the library, as one would write them here."""
    import foreclick as fc

    verb = getattr(fc, getattr(command, "verb", ""), None)
    found = {}
    for function in (fc.read_log, *([verb] if verb else [])):
        for name, parameter in inspect.signature(function).parameters.items():
            usual = getattr(command, "usual", {}).get(name, parameter.default)
            if usual in (None, (), parameter.empty) or isinstance(usual, bool):
                continue
            text = ",".join(map(str, usual)) if isinstance(usual, list | tuple) else f"{usual}"
            spelt = {"metrics": "metric", "estimators": "estimator"}.get(name, name)
            if name in {field.name for field in fields(command)}:
                found[f"--{spelt.replace('_', '-')}"] = text
    return found


def help_on_error() -> None:
    """The help, on stderr."""
    from rich.console import Console

    app.help_print([], console=Console(file=sys.stderr))
