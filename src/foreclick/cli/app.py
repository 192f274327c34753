"""The command line as an application: commands, their help, and how one is run."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import App, Group, Parameter
from cyclopts.help import DefaultFormatter

from foreclick import __version__
from foreclick.cli.output import (
    debugging,
    print_error,
    print_warnings,
    print_written,
    show,
    show_more,
)
from foreclick.cli.wording import in_options
from foreclick.errors import STATEMENT, ForeclickError, ForeclickWarning, SourceError
from foreclick.options import OPTIONS, Option
from foreclick.progress import report_step, working
from foreclick.rules import Choice, Flag
from foreclick.secrets import printable

if TYPE_CHECKING:
    from cyclopts import Token
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

    from foreclick.results import Result

DONE, NO, BAD_INPUT, CANNOT_TELL, OWN_ERROR = 0, 1, 2, 3, 70
HELP_ALL = "--help-all"

Options: TypeAlias = SimpleNamespace
"""The options of a command by their names in `OPTIONS`; None where one was not given."""

Run: TypeAlias = "Callable[[list[str], Options], Result]"

READING = "propensity count invalid long sample memory_limit threads"
LOG = "context items clicks period unit segments rewards where"
CANDIDATE = "score k candidate_columns"
OUTPUT = "output format quiet debug"
_PANELS = {
    "Reading": (READING, ""),
    "Log": (
        LOG,
        "Which column plays which role. A tally knows its own; `tally` has more of these.",
    ),
    "Candidate": (CANDIDATE, "Its columns have the names of the log's, or those listed here."),
    "Output": (OUTPUT, ""),
}
"""Options that many commands share: --help shows the first ones, --help-all all."""

_FIRST = {"--context", "--items", "--clicks", "--period", "--unit", "--output"}

_PATHS = {"FILE", "DIRECTORY"}  # what values of such options are, in the words of help

_OPTIONS = Group("Options", sort_key=2)
_SHARED = {
    name: Group(title, sort_key=place, help=text)
    for place, (title, (names, text)) in zip((0, 1, 3, 4), _PANELS.items(), strict=True)
    for name in names.split()
}
_COMMANDS = {
    title: Group(title, sort_key=place)
    for place, title in enumerate(("Start here", "Ask a log", "Make files"))
}

app = App(
    name="foreclick",
    help="Know the clicks before you ship the ranking: offline evaluation from click logs.",
    help_epilogue=(
        "New here? foreclick demo shows every step in 20 seconds. "
        "foreclick COMMAND --help explains a command, --help-all all of its options."
    ),
    help_format="plaintext",
    version=f"foreclick {__version__}",
    version_format="plaintext",
    usage="foreclick COMMAND …",
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)
_GENERAL = Group("Options", sort_key=9)
app["--help"].group = app["--version"].group = _GENERAL

typed: list[str] = []
"""The words of the command that is run."""


@dataclass
class Command:
    """A command.

    Attributes:
        run: from files and options to a result.
        words: what stands after the options, such as LOG… CANDIDATE.
        options: names of options; NAME:ENTRY where the entry in `OPTIONS` is called otherwise.
        defaults: those of the library's verb that differ from the table's.
        saves: whether `--output` is a file for the result, and not for what the command makes.
    """

    run: Run
    words: str
    options: tuple[str, ...]
    defaults: dict[str, Any]
    saves: bool

    @property
    def flags(self) -> dict[str, str]:
        """The options as they are typed, by their names in the library."""
        return {
            key: _flags(key, OPTIONS[entry or key])[0]
            for key, _, entry in (option.partition(":") for option in self.options)
        }

    def signature(self, *, completing: bool = False) -> inspect.Signature:
        """Its parameters as Cyclopts reads them; if `completing`, files have the type of paths."""
        hint = Annotated[Path, None] if completing else Annotated[str, Parameter(show=False)]
        files = inspect.Parameter("files", inspect.Parameter.VAR_POSITIONAL, annotation=hint)
        options = (_parameter(each, self.defaults, completing) for each in self.options)
        return inspect.Signature([files, *options])


COMMANDS: dict[str, Command] = {}


def command(
    words: str,
    *options: str,
    group: str = "Ask a log",
    saves: bool = True,
    **defaults: Any,  # noqa: ANN401 - values of options
) -> Callable[[Run], Run]:
    """Register a function as the command of its name; see `Command`.

    The first sentence of its docstring is its summary; "Examples" and what follows ends its help.
    """

    def register(function: Run) -> Run:
        name = function.__name__
        made = Command(function, words, tuple(" ".join(options).split()), defaults, saves)
        COMMANDS[name] = made
        keys = list(made.flags)

        def execute(*files: str, **given: Any) -> int:  # noqa: ANN401
            return _execute(name, list(files), Options(**dict.fromkeys(keys) | given))

        execute.__annotations__ = {}
        execute.__signature__ = made.signature()  # type: ignore[attr-defined]
        about, _, examples = str(inspect.getdoc(function)).partition("Examples:\n")
        about = re.sub(r"(?<!\n)\n(?!\n)", " ", about.strip())
        lines = "\n".join(line.strip() for line in examples.splitlines())
        app.command(
            execute,
            name=name,
            help=about,
            help_epilogue=f"Examples ({HELP_ALL} has all options)\n\n{lines}",
            sort_key=len(COMMANDS),
            usage=f"foreclick {name} [options] {words}".rstrip(),
            group=_COMMANDS[group],
            help_formatter=_Help(),
            version_flags=(),
        )
        return function

    return register


def _parameter(option: str, defaults: dict[str, Any], completing: bool) -> inspect.Parameter:  # noqa: FBT001
    """An option of the table as a keyword of a command."""
    key, _, entry = option.partition(":")
    row = OPTIONS[entry or key]
    rule, default = row.rule, defaults.get(key, row.default)
    flags = _flags(key, row)
    text = ",".join(default) if isinstance(default, tuple) else f"{default}"
    shared: dict[str, Any] = {
        "name": flags,
        "help": row.help + (f" [default: {text}]" if default is not None else ""),
        "group": _SHARED.get(entry or key, _OPTIONS),
        "negative": "",
        "show_default": False,
    }

    def convert(_: object, tokens: Sequence[Token]) -> Any:  # noqa: ANN401
        value = rule.parse([token.value for token in tokens])
        rule(flags[0], value)
        return value

    if completing and rule.metavar in _PATHS:
        hint: Any = Annotated[Path | None, Parameter(**shared)]
    elif isinstance(rule, Flag):
        hint = Annotated[bool | None, Parameter(**shared)]
    elif isinstance(rule, Choice):
        hint = Annotated[Literal[rule.words] | None, Parameter(**shared)]
    else:
        shared |= {"converter": convert, "metavar": rule.metavar, "n_tokens": 1}
        shared |= {"allow_leading_hyphen": True, "accepts_keys": False}
        # Any: Cyclopts holds what was converted against the type where Pydantic is imported.
        hint = Annotated[(list[str] | Any if rule.repeats else Any) | None, Parameter(**shared)]
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)


def _flags(key: str, row: Option) -> list[str]:
    """What an option is called on the command line, the long name first."""
    return row.flags.split() or [f"--{key.replace('_', '-')}"]


class _Help(DefaultFormatter):
    """Help with the first of shared options, or with all where all are wanted."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print a group of options."""
        entries = [entry for entry in panel.entries if "--help" not in entry.positive_names]
        if str(panel.title) in _PANELS and HELP_ALL not in typed:
            entries = [entry for entry in entries if _FIRST & set(entry.positive_names)]
            panel = panel.copy(description=None)
        if entries:
            super().__call__(console, options, panel.copy(entries=entries))


def given(options: Options, names: str) -> dict[str, Any]:
    """Those of some options that were given, by their keywords in the library."""
    return {n: value for n in names.split() if (value := getattr(options, n, None)) is not None}


def worded(text: str, called: Command) -> str:
    """What the library says, with the options of a command in place of parameters.

    What a command has no option for, `tally` may have, which reads what is unusual, or `evaluate`.
    """
    flags = {
        key: f"foreclick {name} {flag}"
        for name in ("evaluate", "tally")
        for key, flag in COMMANDS[name].flags.items()
    }
    return in_options(text, flags | called.flags, COMMANDS)


@app.command(name="--install-completion", group=_GENERAL, version_flags=())
def install_completion(
    shell: Literal["bash", "zsh", "fish", "powershell"] | None = None,
) -> None:
    """Let the shell complete commands and options.

    Args:
        shell: which shell; by default the one that runs this.
    """
    from cyclopts.completion.detect import ShellDetectionError

    for name, each in COMMANDS.items():  # this process ends with it
        function: Any = app[name].default_command
        function.__signature__ = each.signature(completing=True)
    try:
        path = app.install_completion(shell=shell)
    except ShellDetectionError:
        print_error("the shell is not known. Name it: --shell bash, zsh, fish or powershell.")
        sys.exit(BAD_INPUT)
    print_written([str(path)])
    sys.stderr.write("Open a new shell, or type: exec $SHELL\n")


# --- running a command ----------------------------------------------------------------------------


def _execute(name: str, files: list[str], options: Options) -> int:
    """Run a command and print its result; the exit code. Errors are printed on stderr."""
    try:
        _check_words(COMMANDS[name].words, files)
        result = _run(COMMANDS[name], files, options)
    except BrokenPipeError:
        raise  # it is the process's, not a file's
    except Exception as error:  # noqa: BLE001 - a gate that fails must not exit with 1, its "no"
        if options.debug:
            sys.stderr.write(printable(traceback.format_exc(), lines=True))
        expected = isinstance(error, (ForeclickError, OSError))
        if isinstance(error, MemoryError):
            text = "there is not enough memory" + (f": {error}" if str(error) else ".")
        elif not expected:
            text = f"unexpected error: {type(error).__name__}: {error}\n"
            text += "Please report it, with what --debug prints."
        else:
            text, _, statement = str(error).partition(STATEMENT)
            if statement:  # which was sent to an engine
                text = str(error) if options.debug else f"{text}\n(--debug shows the statement.)"
        print_error(worded(text, COMMANDS[name]))
        return BAD_INPUT if expected or isinstance(error, MemoryError) else OWN_ERROR
    if name != "gate":
        return DONE
    from foreclick.questions.verdicts import BETTER, UNKNOWN

    return {BETTER: DONE, UNKNOWN: CANNOT_TELL}.get(result["verdict"][0], NO)


def _check_words(words: str, files: list[str]) -> None:
    """Refuse too few or too many words, such as LOG… without a CANDIDATE."""
    names = words.partition(" -")[0].split()
    least = [name for name in names if "[" not in name]
    if len(files) < len(least):
        missing = " and ".join(name.removesuffix("…") for name in least[len(files) :])
        raise SourceError(f"{missing} is missing: give {words}.")
    if len(files) > len(names) and "…" not in "".join(names):
        raise SourceError(f"{files[len(names)]!r} is one word too many: give {words}.")


def _run(called: Command, files: list[str], options: Options) -> Result:
    path = getattr(options, "output", None) if called.saves else None
    if path is not None:
        from foreclick.rendering import checked

        path = checked(path)  # before the work, not after
    failed: Exception | None = None
    with ExitStack() as stack:
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always", ForeclickWarning)
        progress = stack.enter_context(working((lambda _: None) if options.quiet else None))
        if options.debug:
            stack.enter_context(working(stack.enter_context(debugging(progress))))
        result = called.run(files, options)
        if options.debug:
            show_more(result)
        if path is not None:
            report_step(f"Writing {path}")
            try:
                result.save(path)
            except (ForeclickError, OSError) as error:
                failed = error
    messages, form = [], options.format or "answer"
    for each in caught:
        if issubclass(each.category, ForeclickWarning):
            messages.append(str(each.message))
        else:  # another package's, which goes its usual way
            warnings.showwarning(each.message, each.category, each.filename, each.lineno)
    if not options.quiet:
        print_warnings(messages, result, form, partial(worded, called=called))
    show(result, form, partial(worded, called=called))
    if failed is None and not options.quiet:
        print_written(given(options, "output contexts").values())
    if failed is not None:  # the answer is not lost with its file
        raise failed
    return result
