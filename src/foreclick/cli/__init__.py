"""The command line: the library's questions, asked of files, answered as a table, JSON or CSV.

Exit codes: 0 done, 2 bad input, 130 interrupted, 141 the reader of the output went away; of `gate`
alone also 1, the answer is no, and 3, the log cannot tell.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from foreclick import inference
from foreclick.cli.commands import COMMANDS
from foreclick.cli.options import build_parser
from foreclick.cli.output import complain, hear, settle_encoding, show, warn
from foreclick.errors import ForeclickError
from foreclick.progress import working
from foreclick.rendering import checked_picture

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from foreclick.results import Result

__all__ = ["main"]

DONE, NO, BAD_INPUT, CANNOT_TELL, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141
GATE = {inference.BETTER: DONE, inference.UNKNOWN: CANNOT_TELL}
"""What a gate's verdict exits with; all else is a no."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is returned.

    Args:
        argv: the words after `foreclick`; by default those of this process.
    """
    parser = build_parser()
    args = parser.parse_args(argv)
    settle_encoding()
    if args.command is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    try:
        result = _run(args)
    except BrokenPipeError:
        # Python flushes stdout once more at exit, which would complain about the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (ForeclickError, OSError) as error:
        complain(error)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    return GATE.get(result["verdict"][0], NO) if args.command == "gate" else DONE


def _run(args: argparse.Namespace) -> Result:
    wanted = getattr(args, "chart", None)
    picture = None if wanted is None else checked_picture(wanted)  # before the work, not after
    undrawn: Exception | None = None
    with hear() as warnings, working() as say:
        result = COMMANDS[args.command](args, say)
        if picture is not None:
            say(f"Drawing {Path(picture).name}")
            try:
                result.save(picture)
            except (ForeclickError, OSError) as error:
                undrawn = error
    warn(warnings, result, args.format)
    show(result, args.format)
    if undrawn is not None:  # the answer is not lost with its chart
        raise undrawn
    return result
