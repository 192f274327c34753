"""The words of the command line as an application: commands, their help, and how they are found."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import App, Group, Parameter
from cyclopts.help import DefaultFormatter

from foreclick import __version__
from foreclick.cli.defaults import option_names, shown_defaults
from foreclick.cli.options import Title, options
from foreclick.cli.run import execute as run

if TYPE_CHECKING:
    from collections.abc import Callable

    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


DESCRIPTION = "Know the clicks before you ship the ranking: offline evaluation from click logs."
_START = (
    "New here? foreclick demo tells the whole story in 20 seconds. "
    "foreclick COMMAND --help explains a command."
)
_SPELLING = "Messages spell options as in Python: context='query' is --context query here."

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


def command(words: str, *, title: Title = "Question", group: str = "Ask a log") -> Callable[[C], C]:
    """Registers a class as the command of its name.

    The first sentence of its docstring is its summary, the rest its examples. `words` are what
    stands after the options, such as LOG… CANDIDATE. Its own fields are shown under `title`.
    """

    def register(cls: C) -> C:
        made: Any = options(title)(cls)
        name = cls.__name__.lower()
        made.words = words
        COMMANDS[name] = made

        def execute(*files: str, given: Any) -> int:  # noqa: ANN401 - `made`
            return run(name, list(files), given)

        execute.__annotations__ = {"files": _Hidden, "given": made}
        execute.__kwdefaults__ = {"given": made()}
        app.command(
            execute,
            name=name,
            # A section called "Examples:" would be taken for part of a docstring, and left out.
            help=str(inspect.getdoc(cls)).replace("Examples:", "Examples"),
            help_epilogue=_SPELLING,
            sort_key=len(COMMANDS),
            usage=f"foreclick {name} [options] {words}".rstrip(),
            group=_GROUPS[group],
            help_formatter=_Help(made),
            version_flags=(),
        )
        return made  # type: ignore[no-any-return]

    return register


_GROUPS = {
    title: Group(title, sort_key=place)
    for place, title in enumerate(("Start here", "Ask a log", "Make files"))
}


class _Help(DefaultFormatter):
    """Help that shows the library's own defaults."""

    def __init__(self, command: type) -> None:
        super().__init__()
        self.command = command

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print a group of options."""
        defaults, order = shown_defaults(self.command), option_names(self.command)
        entries = [
            entry.copy(default=defaults.get(next(iter(entry.positive_names), "")))
            for entry in sorted(
                panel.entries, key=lambda entry: _place(entry.positive_names, order)
            )
        ]
        super().__call__(console, options, panel.copy(entries=entries))


def _place(names: tuple[str, ...], order: list[str]) -> int:
    """Where an option stands in the help: those of the first base first."""
    return next((order.index(name) for name in names if name in order), len(order))


@app.command(group=_GROUPS["Start here"], help_epilogue="", sort_key=99)
def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes words in bash, zsh or fish.

    Examples:
      bash: foreclick completion bash > ~/.local/share/bash-completion/completions/foreclick
      zsh:  foreclick completion zsh > ~/.zfunc/_foreclick      (a directory of $fpath)
      fish: foreclick completion fish > ~/.config/fish/completions/foreclick.fish
    """
    sys.stdout.write(app.generate_completion(shell=shell))


def help_on_error() -> None:
    """The help, on stderr."""
    from rich.console import Console

    app.help_print([], console=Console(file=sys.stderr))
