"""One table for every answer of the library: rows, notes, and ways to show and hand them on.

Results hold plain Python values, so that they can be pickled, compared and read without any other
package. Arrow, pandas, Polars and Rich are imported when they are asked for.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import textwrap
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from foreclick.errors import optional

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.figure import Figure

Value: TypeAlias = str | int | float | None
Side: TypeAlias = Literal["left", "right"]

_TERMINAL_WIDTH = 120
"""Tables are set tighter when they would be wider than this; they are never cut."""

_NOTE_WIDTH = 100


class Kind(Enum):
    """What a column holds, which decides how it is shown and typed."""

    TEXT = "text"
    COUNT = "count"  # of whole things
    SIZE = "size"  # a count that need not be whole
    VALUE = "value"
    CHANGE = "change"  # difference of two values
    SHARE = "share"  # part of a whole, 0 to 1
    LIFT = "lift"  # change relative to what was
    BOUND = "bound"  # a setting, shown as it was given
    FACT = "fact"  # a count or a value, whichever it is


KINDS: dict[str, Kind] = {
    "estimator": Kind.TEXT,
    "metric": Kind.TEXT,
    "model": Kind.TEXT,
    "policy": Kind.TEXT,
    "candidate": Kind.TEXT,
    "against": Kind.TEXT,
    "verdict": Kind.TEXT,
    "clip": Kind.BOUND,
    "value": Kind.VALUE,
    "se": Kind.VALUE,
    "low": Kind.VALUE,
    "high": Kind.VALUE,
    "margin": Kind.VALUE,
    "other": Kind.VALUE,
    "p": Kind.VALUE,
    "holm": Kind.VALUE,
    "bh": Kind.VALUE,
    "all_low": Kind.CHANGE,
    "all_high": Kind.CHANGE,
    "production": Kind.VALUE,
    "naive": Kind.VALUE,
    "rmse": Kind.VALUE,
    "floor": Kind.VALUE,
    "truth": Kind.VALUE,
    "bias": Kind.CHANGE,
    "change": Kind.CHANGE,
    "change_low": Kind.CHANGE,
    "change_high": Kind.CHANGE,
    "lift": Kind.LIFT,
    "lift_low": Kind.LIFT,
    "lift_high": Kind.LIFT,
    "covered": Kind.SHARE,
    "clipped": Kind.SHARE,
    "share": Kind.SHARE,
    "differs": Kind.SHARE,
    "part": Kind.SHARE,
    "reduction": Kind.SHARE,
    "test": Kind.TEXT,
    "variance": Kind.VALUE,
    "days": Kind.VALUE,
    "cut": Kind.SHARE,
    "paper": Kind.SHARE,
    "ess": Kind.SIZE,
    "gain": Kind.CHANGE,
    "adds": Kind.CHANGE,
    "contexts": Kind.COUNT,
    "changed": Kind.COUNT,
    "kept": Kind.COUNT,
    "lists": Kind.COUNT,
    "records": Kind.COUNT,
    "clicks": Kind.COUNT,
    "grade": Kind.TEXT,
    "missing_contexts": Kind.COUNT,
    "dropped": Kind.COUNT,
    "folds": Kind.COUNT,
    "replicates": Kind.COUNT,
    "pairs": Kind.COUNT,
    "rows": Kind.COUNT,
    "files": Kind.COUNT,
    "bytes": Kind.COUNT,
    "cells": Kind.COUNT,
    "seen": Kind.COUNT,
    "largest": Kind.VALUE,
    "pareto_k": Kind.VALUE,
    "lowest": Kind.VALUE,
    "highest": Kind.VALUE,
    "repeated": Kind.SHARE,
    "out_of_sight": Kind.COUNT,
    "out_share": Kind.SHARE,
    "cell": Kind.TEXT,
    "exposure": Kind.VALUE,
    "found": Kind.FACT,
    "position": Kind.COUNT,
    "examination": Kind.VALUE,
    "allpairs": Kind.VALUE,
    "items": Kind.COUNT,
}
"""The kind of every column of ours. Others, such as a user's segments, are shown as they are."""


@dataclass(frozen=True, repr=False)
class Result:
    """A table of plain values with notes in plain language; the base of every result.

    Assumption:
        Every row has exactly the columns named in `columns`. NumPy scalars become Python values.

    Attributes:
        rows: The rows, each from column to value; None where there is no answer.
        columns: The names of the columns, in the order they are shown.
        notes: What a reader should know before using the numbers, printed below the table.
        title: A line above the table, if any.

    Example:
        >>> rows = ({"estimator": "ip", "value": 0.51234, "lift": 0.0213, "records": 120_000},)
        >>> result = Result(rows, tuple(rows[0]), notes=("All is well.",))
        >>> print(result)
        estimator   value    lift  records
        ──────────────────────────────────
        ip         0.5123  +2.13%  120,000
        <BLANKLINE>
        • All is well.
        >>> result["value"]
        [0.51234]
    """

    rows: tuple[Mapping[str, Value], ...]
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()
    title: str = ""

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "notes", tuple(self.notes))
        object.__setattr__(self, "rows", tuple(_plain_row(row, columns) for row in self.rows))

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns that are printed."""
        return self.columns

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, as copies: a result does not change."""
        return iter(self.to_dicts())

    def __getitem__(self, column: str) -> list[Any]:
        """The values of a column, in the order of the rows."""
        if column not in self.columns:
            raise KeyError(f"no column {column!r}; there are {', '.join(self.columns)}")
        return [row[column] for row in self.rows]

    def __str__(self) -> str:
        """The table for a terminal, with its notes below."""
        return _text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        return self.to_html()

    def chart(self, **options: Any) -> Figure:  # noqa: ANN401 - each kind of result has its own
        """The result as a picture, for results that have one; needs the extra ``charts``.

        | result | chart | options |
        |---|---|---|
        | Backtest | RMSE over M by estimator; dots if there is one M | ``by="period"``, ``title`` |
        | Comparison | change of every pair, with both intervals | ``title`` |
        | Evaluation | value by estimator beside production; over M if several | ``title`` |
        | Examination | examination by position, with both methods | ``title`` |
        | Explored | the share of each context that is shown the candidate | ``title`` |
        | Optimized | production, naive and honest value; gain over contexts | ``title`` |
        | Support | covered share by click model | ``title`` |

        Returns:
            A matplotlib ``Figure``, which a notebook shows and ``savefig`` writes.
        """
        # The one import that points up: a result is asked for its chart, and rendering draws it.
        from foreclick import rendering  # noqa: PLC0415

        return rendering.chart(self, **options)

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:  # noqa: ANN401
        """Write the result to a file, as its ending says.

        | ending | content |
        |---|---|
        | .png, .svg, .pdf | the chart |
        | .html | a page of its own: chart (if there is one, and matplotlib), table and notes |
        | .csv, .json, .parquet | the rows (in JSON with title and notes) |

        Args:
            path: where to; an existing file is replaced.
            options: those of `chart`.
        """
        from foreclick import rendering  # noqa: PLC0415 - as in chart

        rendering.save(self, path, **options)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dicts, free to change."""
        return [dict(row) for row in self.rows]

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; the types of our columns do not depend on the values."""
        arrow = optional("pyarrow", "pip install pyarrow")
        types = {
            Kind.TEXT: arrow.string(),
            Kind.COUNT: arrow.int64(),
            **dict.fromkeys(_FLOATS, arrow.float64()),
        }
        arrays = {}
        for name in self.columns:
            kind = _kind(name)
            if kind is Kind.COUNT and any(_broken(value) for value in self[name]):
                kind = Kind.SIZE  # weighted records need not be whole
            arrays[name] = arrow.array(self[name], types.get(kind))
        return arrow.table(arrays)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas data frame."""
        optional("pandas", "pip install pandas")
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The rows as a Polars data frame."""
        polars = optional("polars", "pip install 'foreclick[polars]'")
        frame: pl.DataFrame = polars.DataFrame(self.to_arrow())
        return frame

    def to_html(self) -> str:
        """The table with title and notes, as part of a page."""
        return _html(self)

    def to_json(self) -> str:
        """Title, rows and notes as a JSON object.

        JSON has no infinity and no NaN: they become "inf" (or "-inf") and null.
        """
        rows = [{name: _json_value(value) for name, value in row.items()} for row in self.rows]
        content = {"title": self.title, "rows": rows, "notes": list(self.notes)}
        return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2, default=str)

    def to_csv(self) -> str:
        """The rows as comma-separated values with a header; None is empty, infinity "inf"."""
        out = io.StringIO()
        writer = csv.DictWriter(out, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


def format_value(column: str, value: Value) -> str:
    """A value as a person wants to read it, according to its column's kind.

    Example:
        >>> format_value("covered", 0.931), format_value("clip", math.inf)
        ('93.1%', '∞')
    """
    if value is None or value != value:  # noqa: PLR0124 - NaN, the one value unlike itself
        return "–"
    if not isinstance(value, int | float):  # text, or a user's dates
        return _printable(str(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    kind = _kind(column)
    if kind is None:
        return str(value) if isinstance(value, int) else _significant(value, "")
    return _FORMATS[kind](value)


# --- numbers ------------------------------------------------------------------------------------

_FLOATS = (Kind.SIZE, Kind.VALUE, Kind.CHANGE, Kind.SHARE, Kind.LIFT, Kind.BOUND, Kind.FACT)
_LARGE = 1_000  # from here on the places before the point are digits enough
_ROUNDING = 12  # decimal places; what is left of a difference beyond them is rounding


def _significant(value: float, sign: str, digits: int = 4) -> str:
    """A number with a few significant digits; `sign` is "" or "+"."""
    if value == 0:
        return "0"
    if abs(value) >= _LARGE:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}#.{digits}g}".removesuffix(".")


def _share(value: float) -> str:
    """A share in per cent that says 0% and 100% only where it is exactly that."""
    value = round(value, _ROUNDING)
    if value in {0, 1}:
        return f"{value:.0%}"
    if 0 < value < 0.0005:  # noqa: PLR2004 - would be rounded to 0.0%
        return "<0.1%"
    if 0.9995 <= value < 1:  # noqa: PLR2004 - would be rounded to 100.0%
        return ">99.9%"
    return f"{value:.1%}"


def _lift(value: float) -> str:
    """A relative change in per cent, with more digits where it is small."""
    value = round(value, _ROUNDING)
    if value == 0:
        return "0%"
    if abs(value) < 0.001:  # noqa: PLR2004 - 0.1 %, below which two places lose the number
        return f"{100 * value:+.2g}%"
    digits = 2 if abs(value) < 0.1 else 1 if abs(value) < _LARGE else 0  # noqa: PLR2004
    return f"{value:+,.{digits}%}"


_FORMATS: dict[Kind, Callable[[float], str]] = {
    Kind.TEXT: str,
    Kind.COUNT: lambda value: f"{value:,.0f}",
    Kind.SIZE: lambda value: f"{value:,.0f}",
    Kind.VALUE: lambda value: _significant(value, ""),
    Kind.CHANGE: lambda value: _significant(round(value, _ROUNDING), "+", digits=3),
    Kind.SHARE: _share,
    Kind.LIFT: _lift,
    Kind.BOUND: lambda value: f"{value:,.10g}",
    Kind.FACT: lambda value: (
        f"{value:,.0f}" if float(value).is_integer() else _significant(value, "")
    ),
}


# --- text and HTML ------------------------------------------------------------------------------


def _text(result: Result) -> str:
    table = _terminal_table(result, gap=2)
    if _width(table) > _TERMINAL_WIDTH:
        table = _terminal_table(result, gap=1)
    width = max(_NOTE_WIDTH, _width(table))
    notes = [textwrap.fill(f"• {note}", width, subsequent_indent="  ") for note in result.notes]
    parts = [result.title, table, "\n".join(notes)]
    return "\n\n".join(part for part in parts if part)


def _terminal_table(result: Result, gap: int) -> str:
    """The rows as text with `gap` blanks between columns, as wide as they need."""
    # Rich takes longer to import than this whole room, and most results are never printed.
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
    for name in result.shown:
        # Long names break at the underscore, not the table at the margin of the terminal.
        header = Text(name.replace("_", "\n"))
        side = _side(result, name)
        table.add_column(header, justify=side, vertical="bottom", no_wrap=True)
    for row in result.rows:
        # Text, because a query in square brackets is not markup.
        table.add_row(*(Text(format_value(name, row[name])) for name in result.shown))
    out = io.StringIO()
    # Nothing of the environment may change the text: no colour, no notebook, no terminal's width.
    Console(
        file=out, width=10_000, color_system=None, force_terminal=False, force_jupyter=False
    ).print(table, soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _width(text: str) -> int:
    return max((len(line) for line in text.splitlines()), default=0)


_TABLE_STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_HEAD_STYLE = "padding:.2em .6em;border-bottom:1px solid;vertical-align:bottom"
_CELL_STYLE = "padding:.2em .6em;white-space:nowrap"


def _html(result: Result) -> str:
    sides = {name: _side(result, name) for name in result.shown}
    head = "".join(
        f'<th scope="col" style="text-align:{sides[name]};{_HEAD_STYLE}">'
        f"{html.escape(name).replace('_', '_<wbr>')}</th>"
        for name in result.shown
    )
    body = "".join(f"<tr>{_html_cells(row, sides)}</tr>\n" for row in result.rows)
    title = _html_caption(result.title)
    notes = "".join(f"<li>{html.escape(note)}</li>\n" for note in result.notes)
    return (
        f'<div class="foreclick">\n<table style="{_TABLE_STYLE}">{title}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"
        + (f"<ul>\n{notes}</ul>\n" if notes else "")
        + "</div>"
    )


def _html_cells(row: Mapping[str, Value], sides: dict[str, Side]) -> str:
    return "".join(
        f'<td style="text-align:{side};{_CELL_STYLE}">'
        f"{html.escape(format_value(name, row[name]))}</td>"
        for name, side in sides.items()
    )


def _html_caption(title: str) -> str:
    if not title:
        return ""
    return f'<caption style="text-align:left;font-weight:bold">{html.escape(title)}</caption>'


# --- columns and values -------------------------------------------------------------------------


def _kind(column: str) -> Kind | None:
    """The declared kind of a column; None for a user's own."""
    return KINDS.get(column)


def _side(result: Result, column: str) -> Side:
    """Numbers stand on the right, texts on the left."""
    kind = _kind(column)
    if kind is not None:
        return "left" if kind is Kind.TEXT else "right"
    values = [value for value in result[column] if value is not None]
    numbers = bool(values) and all(isinstance(value, int | float) for value in values)
    return "right" if numbers else "left"


def _plain_row(row: Mapping[str, Value], columns: tuple[str, ...]) -> dict[str, Value]:
    """A copy of the row in the order of the columns, with Python values."""
    if row.keys() != set(columns):
        differ = ", ".join(sorted(row.keys() ^ set(columns)))
        raise ValueError(f"a row needs the columns {', '.join(columns)}; these differ: {differ}")
    return {name: _plain(row[name]) for name in columns}


def _plain(value: object) -> Value:
    """The Python value of a NumPy or Arrow scalar."""
    for method in ("item", "as_py"):
        if hasattr(value, method):
            value = getattr(value, method)()
    return cast("Value", value)


def _broken(count: Value) -> bool:
    """Whether a count has a fraction."""
    return isinstance(count, float) and not count.is_integer()


def _json_value(value: Value) -> Value:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def _printable(text: str) -> str:
    """Text that stays on its line and cannot steer the terminal: logged queries hold anything."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
