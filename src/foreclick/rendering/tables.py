"""What sections of a report are made of: headings, tables that are charts, numbers below a plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from foreclick.rendering.figures import Scale, axis
from foreclick.rendering.markup import Child, Markup, element, joined
from foreclick.rendering.wording import VERDICTS

Row = Mapping[str, Any]


class Section(NamedTuple):
    """A part of the page that can be linked to.

    Attributes:
        name: its id.
        title: its heading.
        content: what follows the heading.
    """

    name: str
    title: str
    content: Sequence[Child]

    def markup(self) -> Markup:
        """The section with its heading."""
        title = f"{self.name}-title"
        heading = element("h2", self.title, id=title)
        return element("section", heading, *self.content, id=self.name, aria_labelledby=title)


def paragraph(*content: Child, class_: str | None = None) -> Markup:
    """A paragraph."""
    return element("p", *content, class_=class_)


def badge(word: str) -> Markup:
    """A verdict with its sign, which says it without colours."""
    sign, look = VERDICTS.get(word, ("", "unknown"))
    shown = element("span", sign, class_="sign", aria_hidden="true")
    return element("strong", shown, f" {word}", class_=f"badge {look}")


def table(
    head: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[Child]],
    *foot: Child,
    caption: str = "",
    label: str = "",
    class_: str = "",
) -> Markup:
    """A table that scrolls in its own box where it is too wide; the first cell names its row.

    Args:
        head: names of columns and their classes.
        rows: the cells, in their order.
        foot: rows below, as markup.
        caption: what stands above it.
        label: what a screen reader calls its box, if that is not the caption.
        class_: "chart" where the second column is a picture: on a telephone its rows are stacked.
    """
    top = [element("th", name, scope="col", class_=look or None) for name, look in head]
    body = []
    for cells in rows:
        first = element("th", cells[0], scope="row")
        rest = [
            element("td", cell, class_=look or None, data_label=name)
            for cell, (name, look) in zip(cells[1:], head[1:], strict=True)
        ]
        body.append(element("tr", first, *rest))
    return element(
        "div",
        element(
            "table",
            element("caption", caption) if caption else None,
            element("thead", element("tr", *top)),
            element("tbody", *body),
            element("tfoot", *foot) if foot else None,
        ),
        class_=f"table {class_}".strip(),
        tabindex="0",
        role="region",
        aria_label=label or caption or head[0][0],
    )


def two_lines(first: str, second: str) -> Markup:
    """A number, and its interval in smaller letters below."""
    return joined(first, element("small", second) if second else None)


def heights(values: Sequence[float | None], *, zero: bool = False) -> list[tuple[float, str]]:
    """Round heights from below the smallest to above the largest value, with their numbers."""
    scale = Scale.of(values, zero=zero)
    inner = scale.ticks()
    step = inner[1] - inner[0] if len(inner) > 1 else (scale.high - scale.low)
    first = inner[0] if inner[0] <= scale.low + 1e-12 else inner[0] - step
    last = inner[-1] if inner[-1] >= scale.high - 1e-12 else inner[-1] + step
    if min((v for v in values if v is not None), default=0.0) >= 0:
        first = max(first, 0.0)  # nobody gets fewer clicks than none
    count = round((last - first) / step)
    heights = [round(first + i * step, 12) for i in range(count + 1)]
    return [(y, f"{y:.6g}".replace("-", "−")) for y in heights]


def numbers_below(head: Sequence[tuple[str, str]], body: Sequence[Sequence[Child]]) -> Markup:
    """The numbers of a plot, for those who cannot see it or want them."""
    return element("details", element("summary", "Numbers"), table(head, body, label="Numbers"))


def axis_row(scale: Scale, ticks: Sequence[tuple[float, str]], columns: int) -> Markup:
    """The last row of a table whose second column is a chart: the numbers of its scale."""
    return element(
        "tr",
        element("td"),
        element("td", axis(scale, ticks), class_="picture"),
        element("td", colspan=columns - 2) if columns > 2 else None,
    )


def tick_words(scale: Scale, *, percent: bool = False) -> list[tuple[float, str]]:
    """Round numbers of a scale, written short."""

    def written(x: float) -> str:
        text = f"{100 * x:.6g}%" if percent else f"{x:.6g}"
        return text.replace("-", "−")

    return [(x, written(x)) for x in scale.ticks()]
