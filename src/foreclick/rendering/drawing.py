"""Charts as marks: lines, boxes, dots and texts, which become SVG or, by matplotlib, a picture.

Places across are per cent of the width and heights are pixels, so that a chart fits a telephone as
it fits a wide screen, and its letters stay as large as the page's. A report's page colours marks by
their looks, by day, by night and on paper; a file of its own has the colours of `COLOURS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from foreclick.secrets import printable

COLOURS = {
    "one": "#0067a3",
    "two": "#b34700",
    "three": "#00755a",
    "four": "#8a3f73",
    "five": "#8a6d00",
    "six": "#3f4fb0",
    "seven": "#17202a",
    "other": "#76828e",
    "good": "#00674f",
    "bad": "#a33c00",
    "open": "#8a7400",
    "even": "#55616e",
    "ink": "#17202a",
    "soft": "#55616e",
    "grid": "#e4e8ec",
    "track": "#e4e8ec",
    "level": "#17202a",
}
"""Colours by day, which people with any colour vision tell apart, with a contrast of 4.5 on white;
the page's style names the same ones."""

SERIES = ("one", "two", "three", "four", "five", "six", "seven")
SHAPES = {"two": "square", "three": "diamond", "four": "triangle", "five": "square"}
SHAPES |= {"six": "diamond", "good": "triangle", "bad": "down", "open": "diamond"}
"""What a dot is, for those who see no colours; a circle for other looks."""

PATHS = {
    "square": "M-4-4H4V4H-4z",
    "diamond": "M0-5.5L5.5 0L0 5.5L-5.5 0z",
    "triangle": "M0-5.5L5 4H-5z",
    "down": "M0 5.5L5-4H-5z",
    "left": "M0 0L7-5V5z",
    "right": "M0 0L-7-5V5z",
}

WIDTH = 860
"""Pixels of a chart that is a file of its own."""

ROW = 34  # pixels of a row of dots
_EDGE = 1.5  # per cent that a scale leaves free on either side
_LETTERS = 30  # of a name beside a picture
_TICKS = 12  # names of places below a plot, at most
_CROWDED = 14  # columns or points; more of them have no number each
_DECADES = 3  # of a logarithmic scale; of more, only 1, 10, 100 … have their number
_FAR = 1.5  # how far beyond the first row, in its range, other rows are drawn


class Mark(NamedTuple):
    """One thing drawn: a line or box from (x, y) to (x2, y2), a dot, or a text.

    Attributes:
        kind: what it is.
        look: its colour by `COLOURS`, with "span" (thick and pale), "thin" or "dashed" before it
            for lines, and how a text is set: "start", "end" or "bold" before it.
        x, x2: per cent of the width.
        y, y2: pixels.
        text: what is written; the shape of a dot, if it is not that of its look.
    """

    kind: Literal["line", "box", "dot", "text"]
    look: str
    x: float
    y: float
    x2: float = 0.0
    y2: float = 0.0
    text: str = ""

    @property
    def shape(self) -> str:
        """The shape of a dot."""
        return self.text or SHAPES.get(self.look, "circle")

    def moved(self, left: float, right: float, down: float) -> Mark:
        """The mark within a part of the width, further down."""
        x, x2 = (left + (right - left) * place / 100 for place in (self.x, self.x2))
        return self._replace(x=x, x2=x2, y=self.y + down, y2=self.y2 + down)


@dataclass(frozen=True)
class Scale:
    """From numbers, of which two are at both ends, to per cent."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Sequence[float | None], *, zero: bool = False) -> Scale:
        """A scale that holds all values, and 0 if it should."""
        known = [v for v in values if v is not None and math.isfinite(v)] + ([0.0] if zero else [])
        low, high = (min(known), max(known)) if known else (0.0, 1.0)
        margin = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
        return cls(low if zero and low == 0 else low - margin, high + margin)

    def __call__(self, value: float) -> float:
        """The place of a number; beyond an end, the end."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return _EDGE + (100 - 2 * _EDGE) * min(max(share, 0.0), 1.0)

    def holds(self, value: float) -> bool:
        """Whether a number is between both ends."""
        return self.low <= value <= self.high

    def ticks(self, count: int = 5) -> list[float]:
        """Round numbers between both ends.

        Examples:
            >>> Scale(0.0, 1.0).ticks()
            [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        """
        raw = (self.high - self.low) / count or 1.0
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(s for s in (1, 2, 5, 10) if s * power >= raw * (1 - 1e-9)) * power
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]

    def powers(self) -> list[float]:
        """Round numbers between both ends, which are logarithms.

        Examples:
            >>> Scale(-1.5, 0.0).powers()
            [0.05, 0.1, 0.2, 0.5, 1.0]
            >>> Scale(-0.3, -0.1).powers()
            [0.6, 0.7]
        """
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        steps = (1, 2, 5) if self.high - self.low < _DECADES else (1,)
        round_ones = (round(step * 10.0**decade, 12) for decade in decades for step in steps)
        found = [y for y in round_ones if self.holds(math.log10(y))]
        # Between ends that are near each other a logarithm is nearly straight.
        return found if len(found) > 1 else Scale(10.0**self.low, 10.0**self.high).ticks()


def tick_text(x: float, *, percent: bool) -> str:
    """A round number, written short."""
    return (f"{100 * x:.6g}%" if percent else f"{x:.6g}").replace("-", "−")


class Span(NamedTuple):
    """A number with its interval, if it has one; a bar from 0 in a chart of bars."""

    value: float
    low: float | None = None
    high: float | None = None
    look: str = "one"


class Row(NamedTuple):
    """A row of a chart: its name, what the name means, what is drawn, and what is written beside.

    Attributes:
        cells: a text each, and a smaller one below it; one for each column of numbers.
        spans: from the top down.
        level: what this row alone is read against.
        strong: whether it is the answer.
    """

    name: str
    note: str
    cells: Sequence[tuple[str, str]]
    spans: Sequence[Span] = ()
    level: float | None = None
    strong: bool = False


@dataclass(frozen=True)
class RowChart:
    """A chart that is a table: a name, a dot with its interval or a bar, and numbers in each row.

    Attributes:
        title: what it shows.
        head: names of the columns: of the rows, of the picture, and of the cells.
        rows: from the top down; the first one decides how far the scale reaches.
        levels: what all rows are read against, and its look.
        percent: whether the scale is of shares.
        bars: whether spans are bars, of a whole that is 1.
        remark: what is to be known of it.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Row]
    levels: Sequence[tuple[float, str]] = ()
    percent: bool = False
    bars: bool = False
    remark: str = ""

    @property
    def scale(self) -> Scale:
        """A scale around the first row and the levels; what is far beyond is cut."""
        if self.bars:
            return Scale(0.0, 1.0)
        ends = [
            [x for span in row.spans for x in span[:3] if x is not None]
            + ([] if row.level is None else [row.level])
            for row in self.rows
        ]
        core = [level for level, _ in self.levels] + next(filter(None, ends), [])
        if not core:
            return Scale.around([])
        margin = _FAR * max(max(core) - min(core), 0.1 * max(map(abs, core)))
        least, most = min(core) - margin, max(core) + margin
        return Scale.around([*core, *(min(max(x, least), most) for row in ends for x in row)])

    def strip(self, row: Row, reach: float = 60) -> list[Mark]:
        """The picture of a row, so far up and down from its middle, whose height is 0."""
        scale, marks = self.scale, []
        if self.bars:
            marks = [Mark("box", "track", 0, -7, 100, 7)]
            return [*marks, *(Mark("box", s.look, 0, -7, 100 * s.value, 7) for s in row.spans)]
        for level, look in self.levels:
            if scale.holds(level):
                marks.append(Mark("line", look, scale(level), -reach, scale(level), reach))
        if row.level is not None:
            marks.append(Mark("line", "level", scale(row.level), -9, scale(row.level), 9))
        for i, span in enumerate(row.spans):
            down = 11 * (i - (len(row.spans) - 1) / 2)  # below each other, if there are two
            marks += [mark.moved(0, 100, down) for mark in interval(scale, span)]
        return marks

    def axis(self) -> list[Mark]:
        """The numbers below the rows."""
        if self.bars:
            return []
        marks = []
        for x in self.scale.ticks():
            at = self.scale(x)
            side = "start " if at < 5 else "end " if at > 95 else ""
            marks.append(Mark("line", "thin other", at, 0, at, 5))
            text = tick_text(x, percent=self.percent)
            marks.append(Mark("text", f"{side}soft", at, 18, text=text))
        return marks

    def marks(self) -> tuple[list[Mark], float]:
        """The chart without a table around it, and its height."""
        marks, y = _headed(self.title, self.remark)

        def share(small: Iterable[str], large: Iterable[str]) -> float:
            """Per cent of the width that the longest of some texts takes."""
            letters = [*(6.6 * len(text) for text in small), *(8.0 * len(text) for text in large)]
            return 100 * (max(letters) + 14) / WIDTH

        columns = zip(self.head[2:], *(row.cells for row in self.rows), strict=True)
        wide = [
            share([name, *(small for _, small in cells)], [text for text, _ in cells])
            for name, *cells in columns
        ]
        starts = [100 - sum(wide[i:]) + 1 for i in range(len(wide))]
        notes = [self.head[1], *(_cut(row.note) for row in self.rows)]
        left = share(notes, [_cut(row.name) for row in self.rows])
        end = max(starts[0] - 3, left + 20)
        for x, name in zip(starts, self.head[2:], strict=True):
            marks.append(Mark("text", "start soft", x, y - 4, text=name))
        for row in self.rows:
            marks.append(Mark("line", "thin grid", 0, y, 100, y))
            middle = y + ROW / 2
            marks += _stacked((_cut(row.name), _cut(row.note)), 0, middle, strong=row.strong)
            marks += [m.moved(left, end, middle) for m in self.strip(row, ROW / 2)]
            for x, cell in zip(starts, row.cells, strict=True):
                marks += _stacked(cell, x, middle, strong=row.strong)
            y += ROW
        marks.append(Mark("line", "thin grid", 0, y, 100, y))
        marks += [m.moved(left, end, y) for m in self.axis()]
        if not self.bars:
            marks.append(Mark("text", "start soft", 0, y + 18, text=self.head[1]))
            y += 24
        return marks, y


class Line(NamedTuple):
    """Points over the places of a plot: a height each, None where there is none; and intervals."""

    name: str
    ys: Sequence[float | None]
    look: str
    lows: Sequence[float | None] = ()
    highs: Sequence[float | None] = ()


@dataclass(frozen=True)
class LineChart:
    """Lines, or columns, over places side by side.

    Attributes:
        title: what it shows.
        head: what places and heights are.
        places: what is written below each place.
        lines: what is drawn; columns show the first alone.
        columns: whether heights are columns, with these numbers above them if they are few.
        zero: whether the scale begins at 0.
        log: whether the scale is logarithmic; all heights are above 0 then.
    """

    title: str
    head: tuple[str, str]
    places: Sequence[str]
    lines: Sequence[Line]
    columns: Sequence[str] | None = None
    zero: bool = False
    log: bool = False

    def legend(self) -> list[tuple[str, str]]:
        """Names and looks, where there are several."""
        named = [(line.name, line.look) for line in self.lines]
        return named if len(named) > 1 else []

    def plot(self, height: float = 200) -> list[Mark]:
        """What is drawn, within a height."""
        known = [y for line in self.lines for y in (*line.ys, *line.lows, *line.highs)]
        if self.log:
            known = [None if y is None else math.log10(y) for y in known]
        scale = Scale.around(known, zero=self.zero or self.columns is not None)
        top, bottom = 14.0, height - 24

        def up(y: float) -> float:
            share = scale(math.log10(y) if self.log else y) - _EDGE
            return bottom - (bottom - top) * share / (100 - 2 * _EDGE)

        count = len(self.places)
        xs = [_EDGE + (100 - 2 * _EDGE) * (i + 0.5) / max(count, 1) for i in range(count)]
        marks: list[Mark] = []
        named, far = self._named()
        dots = range(count) if count <= _CROWDED else [] if far else named
        if self.columns is None:
            xs = [6 + x * 0.94 for x in xs]  # beside the numbers of the scale
            for y in scale.powers() if self.log else scale.ticks():
                marks.append(Mark("line", "thin grid", 0, up(y), 100, up(y)))
                text = tick_text(y, percent=False)
                marks.append(Mark("text", "start soft", 0, up(y) - 3, text=text))
            for line in self.lines:
                marks += self._line(line, xs, up, dots)
        else:
            wide = 0.31 * (100 - 2 * _EDGE) / max(count, 1)
            for x, height_, text in zip(xs, self.lines[0].ys, self.columns, strict=True):
                y = up(height_ or 0.0)
                marks.append(Mark("box", self.lines[0].look, x - wide, y, x + wide, bottom))
                if count <= _CROWDED:
                    marks.append(Mark("text", "soft", x, y - 5, text=text))
            marks.append(Mark("line", "thin other", 0, bottom, 100, bottom))
        for i in named:
            side, at = "", xs[i]
            if far:
                side, at = ("start ", 0.0) if i == 0 else ("end ", 100.0)
            marks.append(Mark("text", f"{side}soft", at, height - 6, text=self.places[i]))
        return marks

    def _named(self) -> tuple[list[int], bool]:
        """Which places have their name below, and whether these are long and stand at the edges."""
        last, letters = len(self.places) - 1, sum(map(len, self.places))
        far = (last >= _CROWDED or letters > 60) and len(self.places[0]) > 5
        step = max(last, 1) if far else max(math.ceil(last / (_TICKS - 1)), 1)
        return [*range(0, last - step // 2, step), last], far

    def _line(
        self,
        line: Line,
        xs: Sequence[float],
        up: Callable[[float], float],
        dots: Iterable[int],
    ) -> Iterator[Mark]:
        points = [None if y is None else (x, up(y)) for x, y in zip(xs, line.ys, strict=True)]
        ends = list(zip(xs, line.lows, line.highs, strict=bool(line.lows)))
        for x, low, high in ends:
            if low is not None and high is not None:
                yield Mark("line", f"span {line.look}", x, up(low), x, up(high))
        for one, other in pairwise(points):
            if one and other:
                yield Mark("line", line.look, *one, *other)
        if " " not in line.look:  # dashed and thin lines are what others are read against
            yield from (Mark("dot", line.look, *p) for p in (points[i] for i in dots) if p)

    def marks(self) -> tuple[list[Mark], float]:
        """The chart with its title and legend, and its height."""
        marks, y = _headed(self.title)
        x = 0.0
        for name, look in self.legend():
            wide = 100 * (48 + 7.8 * len(_cut(name))) / WIDTH
            if x and x + wide > 100:
                x, y = 0.0, y + 18
            marks.append(Mark("line", look, x, y, x + 3, y))
            if " " not in look:
                marks.append(Mark("dot", look, x + 1.5, y))
            marks.append(Mark("text", "start ink", x + 3.6, y + 4, text=_cut(name)))
            x += wide
        y += 14 if x else 0
        height = 260.0
        marks += [m.moved(0, 100, y) for m in self.plot(height)]
        marks.append(
            Mark("text", "start soft", 0, y + height + 12, text=" by ".join(reversed(self.head)))
        )
        return marks, y + height + 18


def interval(scale: Scale, span: Span) -> list[Mark]:
    """A dot with its interval, in the middle of a row; an end beyond the scale is an arrow."""
    low, high = (span.value if end is None else end for end in (span.low, span.high))
    marks = []
    if high > low:  # and within its arrows
        start, end = scale(low) + (low < scale.low), scale(high) - (high > scale.high)
        marks.append(Mark("line", f"span {span.look}", start, 0, end, 0))
    if low < scale.low:
        marks.append(Mark("dot", span.look, scale(low), 0, text="left"))
    if high > scale.high:
        marks.append(Mark("dot", span.look, scale(high), 0, text="right"))
    if scale.holds(span.value):
        marks.append(Mark("dot", span.look, scale(span.value), 0))
    return marks


def _stacked(texts: Sequence[str], x: float, middle: float, *, strong: bool) -> Iterator[Mark]:
    """A text, and a smaller one below it if there is one."""
    shown = [text for text in texts if text]
    for i, text in enumerate(shown):
        at = middle + 4 + (0 if len(shown) == 1 else 13 * i - 6)
        look = "start soft" if i else "start bold ink" if strong else "start ink"
        yield Mark("text", look, x, at, text=text)


def _headed(title: str, remark: str = "") -> tuple[list[Mark], float]:
    marks, y = [], 0.0
    for text, look in ((title, "start bold ink"), (remark, "start soft")):
        if text:
            y += 18
            marks.append(Mark("text", look, 0, y - 4, text=text))
    return marks, y + 16


def _cut(text: str) -> str:
    """A name that fits beside its picture."""
    text = printable(text)
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
