"""`foreclick demo`: the whole story, as commands that are run and can be run again."""

# No `from __future__ import annotations`: `command` reads the types of fields.
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from foreclick.cli.app import app, command
from foreclick.cli.options import Output, Run
from foreclick.errors import ForeclickError

if TYPE_CHECKING:
    from foreclick.progress import Say
    from foreclick.results import Result

_DIRECTORY = "foreclick-demo"
_STORY = (
    (
        "A search log of four weeks, and a candidate ranking. Nobody has shown the candidate yet.",
        "simulate {0}/log.parquet --records 60000 --queries 100 --candidate {0}/candidate.parquet",
    ),
    (
        "Compress the log once. The tally answers everything that the log would.",
        "tally {0}/log.parquet --context query --period day --unit user -o {0}/tally.parquet",
    ),
    ("What is in it?", "check {0}/tally.parquet"),
    (
        "Does the log know what the candidate would show?",
        "support {0}/tally.parquet {0}/candidate.parquet -m clicks@3",
    ),
    (
        "How many clicks would the candidate get?",
        "evaluate {0}/tally.parquet {0}/candidate.parquet -m clicks@3",
    ),
    (
        "Can the estimates be trusted? Predict each day from the others, and compare.",
        "backtest {0}/tally.parquet -m clicks@3",
    ),
    (
        "What is the best ranking that this log supports?",
        "optimize {0}/tally.parquet -m clicks@3 -o {0}/policy.parquet",
    ),
)
_NEXT = (
    "foreclick report {0}/tally.parquet {0}/candidate.parquet -o {0}/report.html",
    "foreclick evaluate {0}/tally.parquet {0}/policy.parquet --all --format table",
    "foreclick contexts {0}/tally.parquet --long -o {0}/pairs.csv",
    "foreclick check your_log.parquet --context … --period …",
)


@command("[DIRECTORY]", title="Output", group="Start here")
class Demo(Run, Output):
    """The whole story in 20 seconds, on a simulated log and candidate.

    Its files go to the directory foreclick-demo, or to another one that is named.

    Examples:
      foreclick demo
      foreclick demo /tmp/demo
    """

    def run(self, files: list[str], say: "Say") -> "Result":
        from foreclick.results import Result

        directory = files[0] if files else self.output or _DIRECTORY
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
