"""Results as parts of a page, for a notebook."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from foreclick.results.formats import format_value
from foreclick.results.text import Side, side_of
from foreclick.secrets import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from foreclick.results import Result
    from foreclick.results.formats import Value
    from foreclick.results.headline import Headline

# Colours are those of the page around it, light or dark.
_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_HEAD = "padding:.2em .6em;border-bottom:1px solid;vertical-align:bottom"
_CELL = "padding:.2em .6em;white-space:nowrap"
_ANSWER = "padding:.25em 1.2em .25em 0;text-align:left;vertical-align:baseline;background:none"


def in_html(result: Result) -> str:
    """The answer, with the table to be opened; or the table of a result without one."""
    found = result.headline
    if found is None:
        return table_in_html(result)
    return (
        f'<div class="foreclick">\n{_headline(found)}{_noted(result.notes)}'
        f"<details><summary>All rows and columns</summary>\n"
        f'<div style="overflow-x:auto">{_table(result)}</div></details>\n</div>'
    )


def table_in_html(result: Result) -> str:
    """The table with its title above and its notes below."""
    return f'<div class="foreclick">\n{_table(result)}\n{_noted(result.notes)}</div>'


def _headline(found: Headline) -> str:
    rows = "".join(f"<tr>{_line(line)}</tr>\n" for line in found.lines)
    said = "".join(f"<p>{_escaped(sentence)}</p>\n" for sentence in found.said)
    table = f'<table style="{_TABLE};font-size:1.1em">\n<tbody>\n{rows}</tbody>\n</table>\n'
    return f"<p><strong>{_escaped(found.title)}</strong></p>\n{table}{said}"


def _line(line: tuple[str, ...]) -> str:
    name, *rest = line
    cells = "".join(f'<td style="{_ANSWER}">{_escaped(text)}</td>' for text in rest)
    return f'<th scope="row" style="{_ANSWER}">{_escaped(name)}</th>{cells}'


def _noted(notes: Iterable[str]) -> str:
    items = "".join(f"<li>{_escaped(note)}</li>\n" for note in notes)
    return f"<ul>\n{items}</ul>\n" if items else ""


def _table(result: Result) -> str:
    sides = {name: side_of(result, name) for name in result.shown}
    head = "".join(
        f'<th scope="col" style="text-align:{sides[name]};{_HEAD}">'
        f"{_escaped(name).replace('_', '_<wbr>')}</th>"
        for name in result.shown
    )
    rows = map(result.displayed, result.rows)
    body = "".join(f"<tr>{_cells(row, sides)}</tr>\n" for row in rows)
    return (
        f'<table style="{_TABLE}">{_caption(result.title)}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"
    )


def _cells(row: Mapping[str, Value], sides: dict[str, Side]) -> str:
    return "".join(
        f'<td style="text-align:{side};{_CELL}">{html.escape(format_value(name, row[name]))}</td>'
        for name, side in sides.items()
    )


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _caption(title: str) -> str:
    if not title:
        return ""
    return f'<caption style="text-align:left;font-weight:bold">{_escaped(title)}</caption>'
