"""One table for every answer of the library: rows, notes, and ways to show and hand them on.

Results hold plain Python values, so that they can be pickled, compared and read without any other
package. Arrow, pandas, Polars and Rich are imported when they are used.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import foreclick
from foreclick.errors import optional
from foreclick.results.formats import KINDS, Kind, Value, format_value, span
from foreclick.results.text import in_text, table_in_text
from foreclick.secrets import masked

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["KINDS", "Headline", "Kind", "Result", "TableView", "Value", "format_value", "span"]

_FORMULA = "=+-@＝＋－＠"
_UNSEEN = "CZM"  # kinds of characters that a spreadsheet skips: control, zero-width, blank, marks
_NUMBER = re.compile(r"[-+]?[0-9][0-9.]*")


class Chart(Protocol):
    """Charts of a result below each other, which a notebook shows; `Result.save` writes them."""

    def svg(self) -> str:
        """The chart as SVG, with its own colours on white."""
        ...

    def _repr_svg_(self) -> str: ...

    def picture(self, form: str) -> bytes:
        """The chart as PNG or PDF, drawn by matplotlib."""
        ...


class Renderer(Protocol):
    """What draws results."""

    def fragment(self, result: Result, *, answer: bool = True) -> str:
        """The answer for a notebook, and the table below it; or the table alone."""
        ...

    def plot(self, result: Result, title: str) -> Chart:
        """The result as a chart."""
        ...

    def save(self, result: Result, path: str | os.PathLike[str], title: str) -> None:
        """Write the result to a file, as its ending says."""
        ...

    def page(self, result: Result, title: str) -> str:
        """The result as a page of its own."""
        ...


def _renderer() -> Renderer:
    """What draws results, imported when one is drawn: whoever it is, results do not know it."""
    return cast("Renderer", import_module(foreclick.RENDERER))


@dataclass(frozen=True)
class Headline:
    """The answer of a result, printed before its table.

    Attributes:
        title: the question, in a line.
        lines: the answers, each as texts that stand below each other: what, verdict, how much.
        sentences: what else belongs to the answer.
    """

    title: str
    lines: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Result:
    """A table of plain values with notes in plain language; the base of every result.

    Attributes:
        rows: the rows, each a mapping from column to value; None where there is no answer. NumPy
            scalars become Python values.
        columns: the names of the columns, in the order of display; those of every row.
        notes: what a reader should know before using the numbers, printed below the table.
        title: a line above the table, if any.

    Example:
        >>> rows = ({"estimator": "ip", "value": 0.51234, "lift": 0.0213, "records": 120_000},)
        >>> result = Result(rows, tuple(rows[0]), notes=("All is well.",))
        >>> print(result.table)
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
    _hidden: ClassVar[str] = ""  # columns that follow from others
    _idle: ClassVar[Mapping[str, Value]] = {}  # columns that say nothing if all have this value

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "notes", tuple(map(masked, self.notes)))
        object.__setattr__(self, "title", masked(self.title))
        for row in self.rows:
            if differ := row.keys() ^ set(columns):
                raise ValueError(
                    f"a row needs the columns {', '.join(columns)}; these differ: "
                    f"{', '.join(sorted(differ))}"
                )
        rows = tuple({name: _plain(row[name]) for name in columns} for row in self.rows)
        object.__setattr__(self, "rows", rows)

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns that the table prints: without those that follow from others or are idle."""
        idle = [c for c in self.columns if c in self._idle and {*self[c]} <= {self._idle[c]}]
        return tuple(c for c in self.columns if c not in {*self._hidden.split(), *idle})

    def displayed(self, row: Mapping[str, Value]) -> Mapping[str, Value]:
        """A row as the table prints it, without numbers that rest on next to nothing."""
        return row

    @property
    def headline(self) -> Headline | None:
        """The answer above the table; None where the table is the answer."""
        return None

    @property
    def answer(self) -> str:
        """The answer as printed, text of 80 columns; the table, where that is the answer."""
        return in_text(self)

    @property
    def table(self) -> TableView:
        """All rows, for printing or for a notebook: ``print(result.table)``."""
        return TableView(self)

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
        """The answer, with its notes below."""
        return self.answer

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The answer for a notebook, and the table below it, to be opened."""
        return _renderer().fragment(self)

    def plot(self, title: str = "") -> Chart:
        """The result as a chart, which a notebook shows.

        | result | chart |
        |---|---|
        | Backtest | errors by estimator |
        | Comparison | lift of every pair, with its interval |
        | Evaluation | value by estimator beside production, or by segment |
        | Examination | examination by position |
        | Replay | predicted and measured lift of each A/B test |
        | Support | covered share by click model |

        Args:
            title: a line above the chart.

        Raises:
            ReportError: the result has no chart, or no rows.
        """
        return _renderer().plot(self, title)

    def save(self, path: str | os.PathLike[str], title: str = "") -> None:
        """Write the result to a file; the extension decides the format.

        | extension | content |
        |---|---|
        | .svg | the chart |
        | .png, .pdf | the chart, drawn by matplotlib (the extra ``charts``) |
        | .html | a page: chart, table and notes |
        | .html of an evaluation | the page of `report`, with the sections it has |
        | .csv, .json, .parquet | the rows (in JSON with title and notes) |

        Args:
            path: the file; an existing one is replaced.
            title: the title of the chart or page.

        Raises:
            ReportError: the extension is unknown, or the result has no chart.
            SourceError: the file cannot be written.
        """
        _renderer().save(self, path, title)

    def page(self, title: str = "") -> str:
        """The result as HTML of a whole page, as `save` writes it to a file that ends in .html."""
        return _renderer().page(self, title)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as a list of dicts, which may be changed."""
        return [dict(row) for row in self.rows]

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, with types that do not depend on the values."""
        arrow = optional("pyarrow", "pip install pyarrow")
        types = dict.fromkeys(Kind, arrow.float64())
        types |= {Kind.TEXT: arrow.string(), Kind.COUNT: arrow.int64()}
        arrays = {}
        for name in self.columns:
            kind, values = KINDS.get(name), self[name]
            fractions = any(isinstance(v, float) and not v.is_integer() for v in values)
            if kind is Kind.COUNT and fractions:
                kind = Kind.SIZE  # weighted records need not be whole
            arrays[name] = arrow.array(values, kind and types[kind])
        return arrow.table(arrays)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for whoever reads Arrow: Polars, DuckDB, pandas 3."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        optional("pandas", "pip install pandas")
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The rows as a Polars DataFrame."""
        polars = optional("polars", "pip install 'foreclick[polars]'")
        frame: pl.DataFrame = polars.DataFrame(self.to_arrow())
        return frame

    def to_html(self) -> str:
        """The table with title and notes, as HTML to be part of a page."""
        return _renderer().fragment(self, answer=False)

    def to_json(self) -> str:
        """Title, rows and notes as a JSON object.

        JSON has no infinity and no NaN: they become "inf" (or "-inf") and null.
        """
        rows = [{name: _json_value(value) for name, value in row.items()} for row in self.rows]
        content = {"title": self.title, "rows": rows, "notes": list(self.notes)}
        return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2, default=str)

    def to_csv(self) -> str:
        """The rows as comma-separated values with a header; None is empty, infinity "inf".

        Text that a spreadsheet would take for a formula gets an apostrophe in front.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(_no_formula, self.columns))
        writer.writerows([_no_formula(row[name]) for name in self.columns] for row in self.rows)
        return out.getvalue()


@dataclass(frozen=True, repr=False)
class TableView:
    """The table of a result: all its rows, with title and notes."""

    result: Result

    def __str__(self) -> str:
        return table_in_text(self.result)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.result.to_html()


def _plain(value: object) -> Value:
    """The Python value of a NumPy or Arrow scalar."""
    for method in ("item", "as_py"):
        if hasattr(value, method):
            value = getattr(value, method)()
    return cast("Value", value)


def _no_formula(value: Value) -> Value:
    """Text that a spreadsheet does not compute: queries and names in a log are anybody's."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    first = next((c for c in value if unicodedata.category(c)[0] not in _UNSEEN), "")
    return f"'{value}" if (first and first in _FORMULA) or value[:1] in {"\t", "\r"} else value


def _json_value(value: Value) -> Value:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
