"""What is printed: answers on stdout; progress, warnings and errors on stderr."""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from xml.sax.saxutils import escape, quoteattr

from foreclick.progress import Progress
from foreclick.results import format_value
from foreclick.results.text import MOST_NOTES, in_text
from foreclick.secrets import printable, visible

if TYPE_CHECKING:
    from rich.text import Text

    from foreclick.results import Result

_VERDICTS = {"green": "better", "red": "worse", "yellow": "cannot tell"}
"""Verdicts in the lines of an answer, by their colour."""


Worded: TypeAlias = Callable[[str], str]
"""What the library says, with options in place of its parameters."""


def show(result: Result, form: str, worded: Worded) -> None:
    """Print a result as an answer or in another form, in colours where a terminal shows them."""
    forms = {"json": lambda r: r.to_json(), "csv": lambda r: r.to_csv(), "github": github}
    forms |= {
        "junit": junit,
        "table": lambda r: str(r.table),
        "answer": lambda r: in_text(r, worded),
    }
    text = forms[form](result)
    if sys.stdout.isatty():
        if form in ("answer", "table"):
            from rich.console import Console

            Console().print(_coloured(text), soft_wrap=True)
            return
        text = visible(text, lines=True)
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()  # now, where a broken pipe is expected


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


# --- stderr ---------------------------------------------------------------------------------------


def print_error(message: str) -> None:
    """Print an error; what it quotes cannot steer the terminal."""
    _print_line("foreclick: " + printable(message.rstrip("\n"), lines=True), "bold red")


def print_warnings(messages: list[str], result: Result, form: str, worded: Worded) -> None:
    """Print each warning once, unless the answer has it among its notes."""
    noted = {note.casefold() for note in result.notes} if form in ("answer", "table") else set()
    for message in dict.fromkeys(messages):
        if message.casefold() not in noted:
            _print_line(f"warning: {printable(worded(message))}", "bold yellow")


def print_written(paths: Iterable[str]) -> None:
    """Print which files were written, and how large they are."""
    for path in map(Path, paths):
        if path.is_file():
            size = path.stat().st_size
            shown = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size / 1e3, 0.1):.1f} kB"
            _print_line(f"Wrote: {printable(str(path))}, {shown}", "bold")


def _print_line(message: str, style: str) -> None:
    """Print a line, its first word (up to the colon) in a style."""
    if not sys.stderr.isatty():
        sys.stderr.write(f"{message}\n")
        return
    from rich.console import Console
    from rich.text import Text

    head, colon, rest = message.partition(":")
    Console(stderr=True).print(Text.assemble((head + colon, style), rest), soft_wrap=True)


@contextmanager
def debugging(progress: Progress) -> Iterator[Progress]:
    """`--debug`: print each step with its seconds, and statements that engines were sent.

    A statement whose rows are read in batches takes as long as the work on them.
    """
    from foreclick.engines.base import listeners

    began = started = time.perf_counter()
    current = "Starting"

    def end_step() -> None:
        sys.stderr.write(f"{time.perf_counter() - started:9.3f} s  {current}\n")

    def statement(engine: str, step: str | None, sql: str, seconds: float) -> None:
        name = f"{engine}, {step}" if step else engine
        lines = "\n".join(f"    {line}" for line in printable(sql, lines=True).splitlines())
        sys.stderr.write(f"  {seconds:7.3f} s  {name}\n{lines}\n")

    class Steps(Progress):
        def __call__(self, step: str, share: float | None = None, of: str = "") -> None:
            nonlocal current, started
            self.step = step = printable(step)
            if step != current:
                end_step()
                current, started = step, time.perf_counter()
            progress.plan = self.plan
            progress(step, share, of)

    listeners.append(statement)
    try:
        steps = Steps(progress, announce=progress.announce)
        steps.detail = _indented
        yield steps
    finally:
        listeners.remove(statement)
        end_step()
        sys.stderr.write(f"{time.perf_counter() - began:9.3f} s  in all\n")


def show_more(result: Result) -> None:
    """Print all notes of an answer, and what its intervals consist of, if it knows."""
    if len(result.notes) > MOST_NOTES:
        _indented("\n".join(f"• {note}" for note in result.notes))
    from foreclick.questions.answers import Evaluation

    if isinstance(result, Evaluation):
        _indented(str(result.errors().table))


def _indented(text: str) -> None:
    lines = printable(text, lines=True).splitlines()
    sys.stderr.write("".join(f"    {line}".rstrip() + "\n" for line in lines))


def set_encoding() -> None:
    """Files and pipes get UTF-8; a terminal that lacks a character gets a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper) or stream.encoding.lower() == "utf-8":
            continue
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8")


# --- a gate's verdict for pipelines ---------------------------------------------------------------

_MARKS = re.compile(r"[\\`*\[\]<>|]")
COLUMNS = ("estimator", "metric", "lift", "lift_low", "lift_high", "covered", "verdict")
"""Columns of the table that `markdown` writes."""


def github(result: Result) -> str:
    """An annotation of GitHub Actions; a table goes to the file of the run's summary.

    A gate that says no is an error, one that cannot tell a warning.
    """
    from foreclick.questions.verdicts import BETTER, UNKNOWN

    verdict = result["verdict"][0]
    level = {BETTER: "notice", UNKNOWN: "warning"}.get(verdict, "error")
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(markdown(result))
    # Of a workflow command, these characters would end or split the message.
    text = _sentence(result)
    for sign, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(sign, code)
    return f"::{level} title=foreclick gate: {verdict}::{text}"


def markdown(result: Result) -> str:
    """The verdict, the estimates as a table, and the notes."""
    columns = [name for name in COLUMNS if name in result.columns]
    lines = [f"### foreclick gate: {result['verdict'][0]}", "", f"| {' | '.join(columns)} |"]
    lines.append(f"|{'---|' * len(columns)}")
    for row in result.rows:
        cells = (_plain(format_value(name, row[name])) for name in columns)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {_plain(said)}" for said in _said(result)), ""]
    return "\n".join(lines) + "\n"


def junit(result: Result) -> str:
    """JUnit's XML of one test: passed, failed, or skipped where the log cannot tell."""
    from foreclick.questions.verdicts import BETTER, UNKNOWN

    row, verdict = result.rows[0], result["verdict"][0]
    text = quoteattr(_sentence(result))
    name = quoteattr(f"{row['metric']} by {row['estimator']}")
    body = {BETTER: "", UNKNOWN: f"<skipped message={text}/>"}.get(
        verdict, f"<failure message={text} type={quoteattr(str(verdict))}/>"
    )
    failed, skipped = int("<failure" in body), int("<skipped" in body)
    notes = escape("\n".join(map(printable, _said(result))))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuite name="foreclick gate" tests="1" failures="{failed}" skipped="{skipped}">\n'
        f'<testcase classname="foreclick.gate" name={name}>{body}'
        f"<system-out>{notes}</system-out></testcase>\n</testsuite>\n"
    )


def _said(result: Result) -> tuple[str, ...]:
    """What the answer says besides its numbers: what was seen and compared, and notes."""
    return (*(result.headline.sentences if result.headline else ()), *result.notes)


def _sentence(result: Result) -> str:
    """The verdict of a gate in one line."""
    row = result.rows[0]
    lift, low, high = (format_value(name, row[name]) for name in ("lift", "lift_low", "lift_high"))
    verdict = f"{row['metric']}: {lift} ({low} to {high}) by {row['estimator']}: {row['verdict']}."
    return printable(verdict)


def _plain(text: str) -> str:
    """Text in Markdown that is shown as it is: no link, no markup, no end of a cell."""
    return _MARKS.sub(r"\\\g<0>", printable(text))
