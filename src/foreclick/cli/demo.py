"""`foreclick demo`: the whole story, as commands that are run and can be run again."""

# No `from __future__ import annotations`: `command` reads the types of fields.
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from foreclick.cli.app import app, command
from foreclick.cli.options import Run, options
from foreclick.errors import ForeclickError

if TYPE_CHECKING:
    from foreclick.progress import WriteLine
    from foreclick.results import Result

_DIRECTORY = "foreclick-demo"
_COLUMNS = "--context query --period day --unit user"
_CANDIDATES = " ".join(
    f"--candidate {name}={{0}}/{name}.parquet" for name in ("better", "equal", "worse")
)
_STORY = (
    (
        "A search shop: a log of four weeks, and three new models that nobody has shown yet.",
        "simulate {0} --world shop --records 60000 --queries 200",
    ),
    (
        "Compress the log once. The tally answers everything that the log would.",
        f"tally {{0}}/log.parquet {_COLUMNS} -o {{0}}/tally.parquet",
    ),
    (
        "How many clicks would the first model get?",
        "evaluate {0}/tally.parquet {0}/better.parquet -m clicks@3",
    ),
    (
        "Which of the three is the best?",
        f"compare {{0}}/tally.parquet -m clicks@3 {_CANDIDATES}",
    ),
    (
        "Was that right? The A/B tests that came later: predicted by the control, and measured.",
        f"replay {{0}}/tests.parquet -m clicks@3 --experiment model {_COLUMNS}",
    ),
)
_NEXT = (
    "foreclick report {0}/tally.parquet {0}/better.parquet -o {0}/report.html",
    "foreclick optimize {0}/tally.parquet -m clicks@3 -o {0}/policy.parquet",
    "foreclick check {0}/tally.parquet --candidate {0}/equal.parquet",
    "foreclick check your_log.parquet --context … --period …",
)


@command("[DIRECTORY]", "Start here")
@options()
class Demo(Run):
    """The whole story in 20 seconds, on a simulated shop and its A/B tests.

    Its files go to the directory foreclick-demo, or to another one that is named.

    Examples:
      foreclick demo
      foreclick demo /tmp/demo
    """

    def run(self, files: list[str], say: "WriteLine") -> "Result":
        from foreclick.results import Result

        directory = files[0] if files else _DIRECTORY
        Path(directory).mkdir(parents=True, exist_ok=True)
        for number, (why, words) in enumerate(_STORY, start=1):
            line = words.format(shlex.quote(directory))
            say(f"Step {number} of {len(_STORY)}")
            sys.stdout.write(f"\n{number}. {why}\n\n$ foreclick {line}\n\n")
            if app(shlex.split(line)):
                raise ForeclickError(f"the demo ends here, at its step {number}.")
        lines = "".join(f"$ {line.format(shlex.quote(directory))}\n" for line in _NEXT)
        sys.stdout.write(f"\nTry next, on these files and on yours:\n\n{lines}\n")
        return Result((), (), (f"The files are in {directory}.",))
