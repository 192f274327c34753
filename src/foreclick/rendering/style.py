"""How charts look: colours, letters, panels, names at the ends of lines. It stands here once."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.optimize import isotonic_regression

from foreclick.errors import ReportError
from foreclick.questions import verdicts
from foreclick.secrets import printable

INK = "#222222"
GREY = "#6b6b6b"
FAINT = "#e4e4e4"

# The colours of Okabe and Ito, which people with any colour vision tell apart, without yellow,
# which nobody sees on white.
PALETTE = {
    "list": "#000000",
    "prefix": "#56b4e9",
    "ip": "#0072b2",
    "item": "#009e73",
    "pbm": "#d55e00",
    "rctr": "#cc79a7",
    "rcm": "#e69f00",
}
MARKERS = "osD^vPX"
"""Shapes in the order of the palette, for who sees no colours at all."""

DPI = 200
"""Twice the pixels of a page, so that letters stay sharp on a dense screen."""

MOST_PANELS = 24
MOST_NAMES = 12
"""More lines than this are named in a legend: beside a panel there is no room for them."""

TEXT = 9.0  # points
SMALL = 8.0

STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so charts are alike everywhere
    "font.size": TEXT,
    "text.color": INK,
    "text.parse_math": False,  # a segment called "$5 to $10" is no formula
    "axes.edgecolor": "#b0b0b0",
    "axes.labelcolor": GREY,
    "axes.labelsize": SMALL,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": "#b0b0b0",
    "ytick.color": "#b0b0b0",
    "xtick.labelcolor": GREY,
    "ytick.labelcolor": GREY,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "svg.fonttype": "path",  # a page must not depend on the reader's fonts
    "svg.hashsalt": "foreclick",  # the same chart is the same file
    "pdf.fonttype": 42,  # letters that can be searched and edited
}


@contextmanager
def styled() -> Iterator[None]:
    """Our style for a while, whatever the user's; theirs is back afterwards."""
    with matplotlib.style.context(["default", STYLE]):
        yield


class Chart(Figure):
    """A matplotlib figure that knows its style and shows itself in a notebook.

    It is no figure of pyplot: it opens no window, and there is nothing to close.
    """

    def savefig(self, fname: Any, **options: Any) -> None:  # noqa: ANN401
        """Write the chart, as `Figure.savefig` does, in its own style and without secrets."""
        for text in self.findobj(Text):
            text.set_text(printable(text.get_text(), lines=True))
        with styled():
            super().savefig(fname, **options)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        out = io.BytesIO()
        self.savefig(out, format="png")
        width, height = self.get_size_inches() * self.dpi / 2
        return out.getvalue(), {"width": int(width), "height": int(height)}


@dataclass(frozen=True)
class Look:
    """The colour and shape of one estimator, or of a verdict."""

    colour: str
    marker: str


VERDICTS = {
    verdicts.BETTER: Look(PALETTE["item"], "^"),
    verdicts.WORSE: Look(PALETTE["pbm"], "v"),
    verdicts.SAME: Look(GREY, "o"),
    verdicts.UNKNOWN: Look("#a8a8a8", "d"),
}
PRODUCTION = Look(GREY, "o")
NAIVE = Look(PALETTE["rcm"], "s")
GAIN = PALETTE["ip"]


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name: the paper's estimators have theirs in every chart, others what is left.

    Examples:
        >>> looks(["mine", "ip"])["ip"]
        Look(colour='#0072b2', marker='D')
    """
    wanted = list(dict.fromkeys(names))
    own = dict(zip(PALETTE, MARKERS, strict=True))
    free = [name for name in PALETTE if name not in wanted] or list(PALETTE)
    others = [name for name in wanted if name not in PALETTE]
    like = {name: free[i % len(free)] for i, name in enumerate(others)}
    taken = {name: like.get(name, name) for name in wanted}
    return {name: Look(PALETTE[model], own[model]) for name, model in taken.items()}


# --- panels -------------------------------------------------------------------------------------


def panels(
    count: int, *, columns: int, width: float, height: float, title: str = ""
) -> tuple[Chart, list[Axes]]:
    """A chart of equal panels, in rows of so many columns; the size is that of one, in inches."""
    if count > MOST_PANELS:
        raise ReportError(
            f"the chart would have {count} panels, one per metric and segment; {MOST_PANELS} can "
            "be read. Ask for fewer metrics or coarser segments."
        )
    rows = math.ceil(count / columns)
    size = (width * columns, height * rows + (0.35 if title else 0))
    chart = Chart(figsize=size, dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(chart)
    made = [chart.add_subplot(rows, columns, i + 1) for i in range(count)]
    if title:
        chart.suptitle(title, x=0.01, ha="left", fontsize=TEXT + 1.5, fontweight="bold")
    return chart, made


def room(names: Iterable[str]) -> float:
    """The inches that long names need beyond those that a panel has for names."""
    longest = max((len(name) for name in names), default=0)
    return 0.065 * max(0, longest - 12)


def legend_below(chart: Chart, names: int) -> None:
    """The names of so many lines, that no panel has room for, below all panels."""
    found: dict[str, Any] = {}
    for axes in chart.axes:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    columns = max(1, int((chart.get_figwidth() - 0.2) / (1.1 + room(found))))
    width, height = chart.get_size_inches()
    chart.set_size_inches(width, height + 0.19 * math.ceil(names / columns) + 0.1)
    chart.legend(list(found.values()), list(found), loc="outside lower left", ncols=columns)


def head(axes: Axes, title: str, remark: str = "") -> None:
    """What a panel shows, and in grey below what is to be seen in it."""
    axes.set_title(title, loc="left", fontweight="bold", fontsize=TEXT, pad=17 if remark else 6)
    if remark:
        axes.annotate(
            remark,
            (0, 1),
            (0, 6),
            xycoords="axes fraction",
            textcoords="offset points",
            color=GREY,
            fontsize=SMALL,
        )


# --- names at the ends of lines -----------------------------------------------------------------


@dataclass(frozen=True)
class End:
    """Where a line ends, in units of the data, and what it is called."""

    name: str
    x: float
    y: float
    colour: str


def name_ends(axes: Axes, ends: Sequence[End], size: tuple[float, float]) -> None:
    """Write each line's name beside its end, moved apart where they would overlap.

    Args:
        axes: its limits and scales are final.
        ends: the lines, by their last points.
        size: width and height of the axes in inches, about.
    """
    width, height = size
    to_fraction = axes.transScale + axes.transLimits
    fractions = to_fraction.transform([(end.x, end.y) for end in ends])
    gap = 1.25 * SMALL / 72 / height
    heights = spread([float(y) for _, y in fractions], gap)
    for end, (x, y), moved in zip(ends, fractions, heights, strict=True):
        axes.plot(
            [x + 0.04 / width, 1 + 0.06 / width, 1 + 0.16 / width],
            [y, y, moved],
            color=end.colour,
            linewidth=0.7,
            alpha=0.7,
            transform=axes.transAxes,
            clip_on=False,
            label="_leader",
        )
        axes.text(
            1 + 0.19 / width,
            moved,
            end.name,
            color=darker(end.colour),
            fontsize=SMALL,
            va="center_baseline",
            transform=axes.transAxes,
            label="_name",
        )


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """The places nearest to those wanted that keep a gap, and their order.

    Examples:
        >>> [round(y, 2) for y in spread([0.5, 0.5, 0.9], gap=0.1)]
        [0.45, 0.55, 0.9]
    """
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(order))
    # Places at least a gap apart are places that rise, once the gaps are taken out.
    places = isotonic_regression(np.asarray(wanted)[order] - steps).x
    places = np.clip(places, 0, max(0.0, 1 - gap * (len(order) - 1))) + steps
    found = np.empty(len(order))
    found[order] = places
    return [float(y) for y in found]


def darker(colour: str) -> str:
    """A colour for letters, which need more contrast than lines."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(0.72 * part):02x}" for part in parts)
