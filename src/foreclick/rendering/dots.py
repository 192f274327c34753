"""Dots and bars: one number per estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, PercentFormatter

from foreclick.rendering.style import FAINT, GREY, INK, SMALL, TEXT, Look
from foreclick.secrets import printable


@dataclass(frozen=True)
class Dot:
    """A number on its line; without a number, the words that stand instead.

    Attributes:
        name: of the estimator, at the left.
        value: where the dot is; None if there is none.
        look: its colour and shape.
        words: what is written at the right, in full ink and in grey.
        low: lower end of its interval, if any.
        high: upper end.
        against: what the number is to be read against, where that differs by line.
        wider: ends of a second interval around the first.
    """

    name: str
    value: float | None
    look: Look
    words: tuple[str, str] = ("", "")
    low: float | None = None
    high: float | None = None
    against: float | None = None
    wider: tuple[float, float] | None = None


def dots(axes: Axes, entries: Sequence[Dot], *, winner: int | None = None) -> None:
    """One line per entry, from the top down."""
    _lines(axes, [entry.name for entry in entries])
    axes.grid(axis="x")
    for y, entry in enumerate(entries):
        axes.axhline(y, color=FAINT, linewidth=0.6, zorder=0)
        if entry.value is None:
            axes.text(
                0.02,
                y,
                entry.words[0],
                transform=axes.get_yaxis_transform(),
                va="center",
                color=GREY,
                fontsize=SMALL,
                fontstyle="italic",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
            continue
        look = entry.look
        if entry.wider is not None:
            axes.plot(entry.wider, [y, y], color=look.colour, linewidth=0.9, label="_wider")
        if entry.low is not None and entry.high is not None:
            ends = [entry.low, entry.high]
            axes.plot(ends, [y, y], color=look.colour, linewidth=2.2, alpha=0.55, label="_interval")
        if entry.against is not None:
            axes.plot(entry.against, y, "|", color=GREY, markersize=12, label="_against")
        axes.plot(
            entry.value, y, look.marker, color=look.colour, markersize=6.5, label="_dot", zorder=3
        )
        if y == winner:
            axes.plot(
                entry.value,
                y,
                "o",
                markersize=13,
                markerfacecolor="none",
                markeredgecolor=INK,
                markeredgewidth=1.2,
                label="_winner",
            )
        _words(axes, y, entry.words)
    axes.margins(x=0.12)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def upright(axes: Axes, x: float, name: str) -> None:
    """A dotted line that all dots are read against, named at its foot."""
    axes.axvline(x, color=GREY, linestyle=":", linewidth=1.3, zorder=1, label="_level")
    low, high = axes.get_xlim()
    right = x < low + 0.6 * (high - low)
    axes.annotate(
        name,
        (x, 0),
        (4 if right else -4, 4),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        ha="left" if right else "right",
        color=GREY,
        fontsize=SMALL,
        label="_name",
    )


def bars(axes: Axes, names: Sequence[str], shares: Sequence[float], words: Sequence[str]) -> None:
    """Shares of a whole, which is drawn pale behind each."""
    _lines(axes, names)
    places = range(len(names))
    axes.barh(places, [1.0] * len(names), height=0.62, color="#f0f0f0", label="_whole")
    axes.barh(places, shares, height=0.62, color="#0072b2", label="_share")
    for y, text in enumerate(words):
        _words(axes, y, (text, ""))
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.spines["left"].set_visible(False)


def _lines(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(list(range(len(names))), list(map(printable, names)))
    axes.set_ylim(len(names) - 0.4, -0.6)  # the first on top, and room for a name at the foot
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=TEXT)


def _words(axes: Axes, y: float, words: tuple[str, str]) -> None:
    place = axes.get_yaxis_transform()
    number, remark = words
    axes.text(1.03, y, number, transform=place, va="center_baseline", fontsize=SMALL, color=INK)
    if remark:
        axes.annotate(
            remark,
            (1.03, y),
            (0, -8),
            xycoords=place,
            textcoords="offset points",
            va="center",
            fontsize=SMALL - 1.5,
            color=GREY,
        )
