"""The command line: the library's verbs on files, with answers in words or numbers.

Exit codes: 0 done, 2 bad input, 70 an error of foreclick's own, 130 interrupted, 141 the reader of
the output went away, 143 terminated; of `gate` alone also 1, the answer is no, and 3, the log
cannot tell.

`app` makes commands of functions and of the table in `foreclick.options`, and runs one;
`commands` and `start` are these functions; `inputs` reads what a command names, `output` prints;
`process` is what the shell sees: streams, signals and exit codes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from foreclick import __version__

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is returned.

    Args:
        argv: the words after `foreclick`; by default those of this process.
    """
    from foreclick.cli.process import guarded

    words = list(sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _run(words), last=argv is None)


def _run(words: list[str]) -> int:
    if words == ["--version"]:
        sys.stdout.write(f"foreclick {__version__}\n")
        return 0
    from cyclopts import CycloptsError

    from foreclick.cli import commands, start  # noqa: F401 - they register their commands
    from foreclick.cli.app import BAD_INPUT, DONE, HELP_ALL, app, typed
    from foreclick.cli.output import print_error, set_encoding
    from foreclick.errors import OptionError

    set_encoding()
    if not words:
        from rich.console import Console

        app.help_print([], console=Console(file=sys.stderr))
        return BAD_INPUT
    typed[:] = words
    try:
        code: int | None = app(["--help" if word == HELP_ALL else word for word in words])
    except SystemExit as ended:  # rich, whose output nobody reads, ends the process with 1
        if ended.code == 1:
            raise BrokenPipeError from ended
        raise
    except CycloptsError as error:
        name = " ".join(["foreclick", *(error.command_chain or ())])
        cause = error.__cause__ if isinstance(error.__cause__, OptionError) else error
        print_error(f"{cause}\nTry {name} --help.")
        return BAD_INPUT
    return DONE if code is None else code  # help and version have none
