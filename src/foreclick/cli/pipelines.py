"""A gate's verdict as pipelines show it: annotations of GitHub Actions, and JUnit's XML."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from foreclick.questions.verdicts import BETTER, UNKNOWN
from foreclick.results import format_value
from foreclick.secrets import printable

if TYPE_CHECKING:
    from foreclick.results import Result

_MARKS = re.compile(r"[\\`*\[\]<>|]")
_COLUMNS = ("estimator", "metric", "lift", "lift_low", "lift_high", "covered", "verdict")


def github(result: Result) -> str:
    """An annotation of the run; a table for its summary goes where GitHub wants it.

    A gate that says no is an error, one that cannot tell a warning.
    """
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
    columns = [name for name in _COLUMNS if name in result.columns]
    lines = [
        f"### foreclick gate: {result['verdict'][0]}",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
    ]
    for row in result.rows:
        cells = (_plain(format_value(name, row[name])) for name in columns)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {_plain(note)}" for note in result.notes), ""]
    return "\n".join(lines) + "\n"


def junit(result: Result) -> str:
    """A suite with one test: passed, failed, or skipped where the log cannot tell."""
    row, verdict = result.rows[0], result["verdict"][0]
    text = _sentence(result)
    name = quoteattr(f"{row['metric']} by {row['estimator']}")
    body = {
        BETTER: "",
        UNKNOWN: f"<skipped message={quoteattr(text)}/>",
    }.get(verdict, f"<failure message={quoteattr(text)} type={quoteattr(str(verdict))}/>")
    failed, skipped = int("<failure" in body), int("<skipped" in body)
    notes = escape("\n".join(map(printable, result.notes)))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuite name="foreclick gate" tests="1" failures="{failed}" skipped="{skipped}">\n'
        f'<testcase classname="foreclick.gate" name={name}>{body}'
        f"<system-out>{notes}</system-out></testcase>\n</testsuite>\n"
    )


def _sentence(result: Result) -> str:
    """The verdict of a gate in one line."""
    row = result.rows[0]
    lift, low, high = (format_value(name, row[name]) for name in ("lift", "lift_low", "lift_high"))
    said = f"{row['metric']}: {lift} ({low} to {high}) by {row['estimator']}: {row['verdict']}."
    return printable(said)


def _plain(text: str) -> str:
    """Text in Markdown that is shown as it is: no link, no markup, no end of a cell."""
    return _MARKS.sub(r"\\\g<0>", printable(text))
