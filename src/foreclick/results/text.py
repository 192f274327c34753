"""Results as text, for a terminal."""

from __future__ import annotations

import io
import re
import textwrap
from typing import TYPE_CHECKING, Literal, TypeAlias

from foreclick.results.formats import KINDS, Kind, format_value
from foreclick.secrets import printable
from foreclick.words import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from foreclick.results import Result

Side: TypeAlias = Literal["left", "right"]

WIDTH = 80
"""An answer is never wider; a table is as wide as its columns."""

_TABLE_WIDTH = 120  # a table that would be wider is set tighter
_MARGIN = "  "
_GAP = "   "
_NUMBER = re.compile(r"[-+]?[0-9]")
MOST_NOTES = 3
"""So many notes are printed under an answer; more are read by nobody."""


def in_text(result: Result, worded: Callable[[str], str] = str) -> str:
    """The answer, or the table of a result without one.

    Args:
        result: what is printed.
        worded: puts a sentence in other words, before it is broken into lines.
    """
    headline = result.headline
    if headline is None:
        return table_in_text(result, worded)
    parts = [
        _filled(worded(headline.title)),
        grid([[worded(text) for text in line] for line in headline.lines]),
        "\n".join(_filled(worded(sentence)) for sentence in headline.sentences),
        _noted(map(worded, result.notes[:MOST_NOTES]), WIDTH),
        more_notes(result),
    ]
    return "\n\n".join(part for part in parts if part)


def more_notes(result: Result) -> str:
    """Where the notes are that are not printed under an answer; empty if all are."""
    unsaid = len(result.notes) - MOST_NOTES
    if unsaid <= 0:
        return ""
    return f"{number_of(unsaid, 'more note')}: .notes in Python, --debug on the command line."


def table_in_text(result: Result, worded: Callable[[str], str] = str) -> str:
    """The table with its title above and its notes below, these as in `in_text`."""
    table = _table(result, gap=2)
    if _widest(table.splitlines()) > _TABLE_WIDTH:
        table = _table(result, gap=1)
    width = max(WIDTH, _widest(table.splitlines()))
    title = textwrap.fill(printable(worded(result.title)), width, break_on_hyphens=False)
    parts = [title, table, _noted(map(worded, result.notes), width)]
    return "\n\n".join(part for part in parts if part)


def grid(lines: Sequence[Sequence[str]]) -> str:
    """Lines of texts below each other; what does not fit 80 columns goes on a line of its own."""
    shown = [[printable(text) for text in line] for line in lines]
    columns = max(map(len, shown), default=0)
    widths = [_widest(line[i] for line in shown if i < len(line) - 1) for i in range(columns)]
    indent = _MARGIN + " " * ((widths[0] if widths else 0) + len(_GAP))
    numbers = [
        all(_NUMBER.match(line[i]) for line in shown if i < len(line)) for i in range(columns)
    ]
    rows = []
    for line in shown:
        row = _MARGIN
        for i, text in enumerate(line):
            last = i == len(line) - 1  # a text without neighbours may be as long as it likes
            placed = text.rjust(widths[i]) if numbers[i] else text.ljust(widths[i])
            if i > 1 and len(row) + len(placed.rstrip()) > WIDTH:
                rows.append(row.rstrip())
                row = indent
            row += placed if last else placed + _GAP
        row = row.rstrip()
        if len(row) > WIDTH:
            rows += textwrap.wrap(row, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
        else:
            rows.append(row)
    return "\n".join(rows)


def side_of(result: Result, column: str) -> Side:
    """Numbers stand on the right, texts on the left."""
    kind = KINDS.get(column)
    if kind is not None:
        return "left" if kind is Kind.TEXT else "right"
    values = [value for value in result[column] if value is not None]
    numbers = bool(values) and all(isinstance(value, int | float) for value in values)
    return "right" if numbers else "left"


def _filled(sentence: str) -> str:
    return textwrap.fill(printable(sentence), WIDTH, break_on_hyphens=False)


def _noted(notes: Iterable[str], width: int) -> str:
    return "\n".join(
        textwrap.fill(f"• {printable(note)}", width, subsequent_indent="  ", break_on_hyphens=False)
        for note in notes
    )


def _table(result: Result, gap: int) -> str:
    """The rows as text with `gap` blanks between columns, as wide as they need."""
    # Rich takes longer to import than this package, and most results are never printed.
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
    for name in result.shown:
        # Long names break at the underscore, not the table at the margin of the terminal.
        header = Text(printable(name).replace("_", "\n"))
        side = side_of(result, name)
        table.add_column(header, justify=side, vertical="bottom", no_wrap=True)
    for row in map(result.displayed, result.rows):
        # Text, because a query in square brackets is not markup.
        table.add_row(*(Text(format_value(name, row[name])) for name in result.shown))
    out = io.StringIO()
    # Nothing of the environment may change the text: no colour, no notebook, no terminal's width.
    Console(
        file=out, width=10_000, color_system=None, force_terminal=False, force_jupyter=False
    ).print(table, soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)
