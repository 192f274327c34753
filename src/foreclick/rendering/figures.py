"""Small charts as SVG that takes its colours from the page and its width from where it stands.

Places across are per cent, heights are pixels: a chart fits a telephone as it fits a wide screen,
and its letters stay as large as the page's. What is drawn has a class, and the page's style says
how it looks by day, by night and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from foreclick.rendering.markup import Child, Markup, element, joined

_EDGE = 1.5  # per cent that a scale leaves free on either side
_MIDDLE = "50%"  # of a row
_ABOVE, _BELOW = 22.0, 24.0  # pixels of a plot for what is written above and below
_TICKS = 4
_NEAR = 5  # per cent from an edge
_CROWDED = 14  # columns or points; more of them have no number each
_SHAPES = ("circle", "square", "diamond", "triangle")


@dataclass(frozen=True)
class Scale:
    """From numbers to per cent of the width.

    Attributes:
        low, high: the numbers at both ends.
    """

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float | None], *, zero: bool = False) -> Scale:
        """A scale that holds all values, and 0 if it should."""
        known = [v for v in values if v is not None and math.isfinite(v)] + ([0.0] if zero else [])
        low, high = (min(known), max(known)) if known else (0.0, 1.0)
        room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
        return cls(low if zero and low == 0 else low - room, high + room)

    def __call__(self, value: float) -> float:
        """The place of a number; beyond an end, the end."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return _EDGE + (100 - 2 * _EDGE) * min(max(share, 0.0), 1.0)

    def holds(self, value: float) -> bool:
        """Whether a number is between both ends."""
        return self.low <= value <= self.high

    def ticks(self, count: int = _TICKS) -> list[float]:
        """Round numbers between both ends.

        Examples:
            >>> Scale(0.0, 1.0).ticks()
            [0.0, 0.5, 1.0]
        """
        raw = (self.high - self.low) / count or 1.0
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(s for s in (1, 2, 5, 10) if s * power >= raw * (1 - 1e-9)) * power
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]


def strip(*marks: Child) -> Markup:
    """One row of a chart that is a table; its numbers stand beside it, for screen readers too."""
    return element("svg", *marks, class_="strip", width="100%", height="100%", aria_hidden="true")


def upright(x: float, name: str = "level") -> Markup:
    """A line from top to bottom, which goes on in the next row."""
    return element("line", x1=f"{x:.3f}%", x2=f"{x:.3f}%", y1="0", y2="100%", class_=name)


def interval(
    scale: Scale, low: float | None, high: float | None, value: float, look: str
) -> Markup:
    """A dot with its interval; an end beyond the scale is an arrow."""
    parts: list[Child] = []
    ends = (value, value) if low is None or high is None else (low, high)
    if ends[1] > ends[0]:
        parts.append(_across(scale(ends[0]), scale(ends[1]), _MIDDLE, f"span {look}"))
    if ends[0] < scale.low:
        parts.append(_arrow(scale(ends[0]), left=True, look=look))
    if ends[1] > scale.high:
        parts.append(_arrow(scale(ends[1]), left=False, look=look))
    if scale.holds(value):
        parts.append(mark(scale(value), _MIDDLE, look))
    return joined(*parts)


def bar(share: float, look: str = "one") -> Markup:
    """A bar from the left, of a share of the width, on a track."""
    return joined(_bar(100.0, "track"), _bar(100 * share, look))


def _bar(width: float, look: str) -> Markup:
    drawn = element("rect", y=-7, width="100%", height=14, rx=2, class_=look)
    return element("svg", drawn, y=_MIDDLE, width=_at(width), height=1, overflow="visible")


def axis(scale: Scale, names: Sequence[tuple[float, str]]) -> Markup:
    """Numbers below rows that share a scale."""
    marks = [
        joined(
            element("line", x1=_at(scale(x)), x2=_at(scale(x)), y1="0", y2="5", class_="tick"),
            _text(scale(x), 18, name, _side(scale(x))),
        )
        for x, name in names
    ]
    return element("svg", *marks, class_="axis", width="100%", height=24, aria_hidden="true")


# --- plots ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A line of a plot.

    Attributes:
        name: what it is.
        ys: its heights, one for each place; None where there is none.
        look: its colour and shape: "one", "two", …
    """

    name: str
    ys: Sequence[float | None]
    look: str


def lines(
    places: Sequence[str],
    drawn: Sequence[Line],
    levels: Sequence[tuple[float, str]],
    ticks: Sequence[tuple[float, str]],
    *,
    height: int = 220,
) -> Markup:
    """Lines over places, with levels across.

    Args:
        places: what is written below each place.
        drawn: the lines.
        levels: heights that lines are read against, and their looks.
        ticks: heights with a number, rising; the scale reaches from the first to the last.
        height: in pixels.
    """
    y = _Heights(ticks, height)
    parts = [y.grid()]
    for level, look in levels:
        parts.append(_across(0, 100, y(level), f"level {look}"))
    xs = _places(len(places))
    for line in drawn:
        known = [(x, y(v)) for x, v in zip(xs, line.ys, strict=True) if v is not None]
        path = " ".join(f"{a:.3f},{b:.2f}" for a, b in known)
        # Within a box of its own that is stretched to the width of the plot.
        stretched = element(
            "svg",
            element("polyline", points=path, class_=f"line {line.look}"),
            x="0",
            y="0",
            width="100%",
            height=height,
            viewBox=f"0 0 100 {height}",
            preserveAspectRatio="none",
        )
        parts.append(stretched)
        if len(places) <= 2 * _CROWDED:
            parts += [mark(a, b, line.look) for a, b in known]
    return joined(*parts, _below(places, xs, height))


def columns(
    places: Sequence[str], heights: Sequence[float], written: Sequence[str], *, height: int = 200
) -> Markup:
    """Upright bars with their numbers above them, if they are few."""
    top = max(heights, default=0.0) or 1.0
    xs, y = _places(len(places)), _Heights([(0.0, ""), (top, "")], height)
    width = 0.62 * (100 - 2 * _EDGE) / max(len(places), 1)
    parts = [_across(0, 100, height - _BELOW, "base")]
    for x, value, text in zip(xs, heights, written, strict=True):
        up = height - _BELOW - y(value)
        parts.append(
            element(
                "rect", x=_at(x - width / 2), y=y(value), width=_at(width), height=up, class_="one"
            )
        )
        if len(places) <= _CROWDED:
            parts.append(_text(x, y(value) - 6, text))
    return joined(*parts, _below(places, xs, height))


def figure(drawn: Markup, title: str, caption: Child, *more: Child, height: int = 220) -> Markup:
    """A plot with a title that a screen reader says, and a caption that all read."""
    svg = element(
        "svg", drawn, class_="plot", width="100%", height=height, role="img", aria_label=title
    )
    return element("figure", svg, element("figcaption", caption), *more)


def legend(names: Sequence[tuple[str, str]]) -> Markup:
    """Names of lines beside their marks."""
    entries = [
        element(
            "li",
            element("svg", _sample(look), class_="key", width=26, height=14, aria_hidden="true"),
            name,
        )
        for name, look in names
    ]
    return element("ul", *entries, class_="legend")


def mark(x: float, y: float | str, look: str) -> Markup:
    """A mark whose shape tells looks apart without colours; x in per cent, y in pixels."""
    shape = _SHAPES[_LOOKS.index(look) % len(_SHAPES)] if look in _LOOKS else "circle"
    if shape == "circle":
        return element("circle", cx=_at(x), cy=y, r="5", class_=f"mark {look}")
    # Others are drawn around 0, in a box without size at their place.
    path = {"square": "M-4.5-4.5h9v9h-9z", "diamond": "M0-6L6 0L0 6L-6 0z"}.get(
        shape, "M0-6L6 5H-6z"
    )
    drawn = element("path", d=path, class_=f"mark {look}")
    return element("svg", drawn, x=_at(x), y=y, overflow="visible", width=1, height=1)


_LOOKS = ("one", "two", "three", "four")


class _Heights:
    """From numbers to pixels from the top; ticks are its first and last numbers."""

    def __init__(self, ticks: Sequence[tuple[float, str]], height: int) -> None:
        self._ticks, self._height = ticks, height
        self._low, self._high = ticks[0][0], ticks[-1][0]

    def __call__(self, value: float) -> float:
        share = (value - self._low) / ((self._high - self._low) or 1.0)
        return _ABOVE + (self._height - _ABOVE - _BELOW) * (1 - share)

    def grid(self) -> Markup:
        rows = [
            joined(
                _across(0, 100, self(value), "grid"),
                element("text", name, x="0", y=self(value) - 4, class_="number start"),
            )
            for value, name in self._ticks
        ]
        return joined(*rows)


def _places(count: int) -> list[float]:
    """Places of the same width, side by side."""
    return [_EDGE + (100 - 2 * _EDGE) * (i + 0.5) / count for i in range(count)]


def _below(places: Sequence[str], xs: Sequence[float], height: int) -> Markup:
    """What is written below places: all if they are short and few, else the ends and the middle."""
    last = len(places) - 1
    shown = range(len(places))
    if len(places) > _CROWDED or sum(map(len, places)) > 40:
        shown = sorted({0, last // 2, last})  # type: ignore[assignment]
    parts = []
    for i in shown:
        crowded = len(shown) != len(places)
        side = "start" if crowded and i == 0 else "end" if crowded and i == last else ""
        x = 0.0 if side == "start" else 100.0 if side == "end" else xs[i]
        parts.append(_text(x, height - 7, places[i], side))
    return joined(*parts)


def _side(x: float) -> str:
    """How a number is set at its place, so that it does not leave the picture."""
    return "start" if x < _NEAR else "end" if x > 100 - _NEAR else ""


def _across(x1: float, x2: float, y: float | str, look: str) -> Markup:
    return element("line", x1=_at(x1), x2=_at(x2), y1=y, y2=y, class_=look)


def _arrow(x: float, *, left: bool, look: str) -> Markup:
    path = "M0-5L-7 0L0 5z" if left else "M0-5L7 0L0 5z"
    drawn = element("path", d=path, class_=f"tip {look}")
    return element("svg", drawn, x=_at(x), y=_MIDDLE, overflow="visible", width=1, height=1)


def _sample(look: str) -> Markup:
    """A piece of a line, as a legend shows it."""
    line = element("line", x1="0", x2="26", y1="7", y2="7", class_=f"line {look}")
    return line if look not in _LOOKS else joined(line, mark(50, 7, look))


def _text(x: float, y: float, text: str, side: str = "") -> Markup:
    return element("text", text, x=_at(x), y=float(y), class_=f"number {side}".strip())


def _at(x: float) -> str:
    return f"{x:.3f}%"
