"""Lines: an estimator's numbers over M, or over periods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
    PercentFormatter,
)

from foreclick.rendering.style import GAIN, GREY, INK, MOST_NAMES, TEXT, End, Look, name_ends
from foreclick.results import format_value

Rows = Sequence[Mapping[str, Any]]

_WIDE = 10  # from so many times the smallest on, an axis counts in powers
_MANY = 20  # numbers of positions that stand side by side
_FEW = 8  # so many points have a mark each, and so many ticks their numbers side by side
_STEEP = 20  # where so few make half of it, an axis counts in powers
_POINTS = 200  # of a line that is none in powers
_ROUNDING = 1e-9
_THOUSAND, _MILLION = 10_000, 1_000_000


@dataclass(frozen=True)
class Curve:
    """A line and its name; a single point is drawn as a level with one mark."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    look: Look


@dataclass(frozen=True)
class Level:
    """What the lines are to be read against: one height, or one for each x."""

    name: str
    heights: tuple[float, ...]


class Clips:
    """Where each M stands on the axis: powers of ten, and ∞ beyond a gap after the last of them.

    Examples:
        >>> place = Clips([1.0, 100.0, math.inf])
        >>> place(100.0), place(math.inf) > 100
        (100.0, True)
    """

    def __init__(self, clips: Sequence[float]) -> None:
        self.finite = sorted({m for m in clips if math.isfinite(m)})
        self.infinite = any(math.isinf(m) for m in clips)
        low, high = (self.finite[0], self.finite[-1]) if self.finite else (1.0, 1.0)
        span = math.log10(high / low) or 1.0
        self.beyond = high * 10 ** (0.16 * span)
        self.limits = (
            low / 10 ** (0.03 * span),
            (self.beyond if self.infinite else high) * 10 ** (0.03 * span),
        )

    def __call__(self, clip: float) -> float:
        """The place of M."""
        return clip if math.isfinite(clip) else self.beyond

    def ticks(self) -> dict[float, str]:
        """Places and what is written there: each M if they are few, else powers of ten."""
        shown = self.finite
        if len(shown) > _FEW or (shown and _crowded(shown)):
            low, high = (math.log10(m) for m in (self.finite[0], self.finite[-1]))
            powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
            shown = [10.0**power for power in powers][:: math.ceil(len(powers) / _FEW) or 1]
            if len(shown) < 2:
                shown = [self.finite[0], self.finite[-1]]
        written = {m: _short(m) for m in shown}
        return written | ({self.beyond: "∞"} if self.infinite else {})

    def set_up(self, axes: Axes) -> None:
        """The axis of M."""
        axes.set_xscale("log")
        axes.set_xlim(*self.limits)
        ticks = self.ticks()
        axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
        axes.xaxis.set_major_formatter(FixedFormatter(list(ticks.values())))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("clip M")
        if self.infinite:  # which is small among numbers of the same size
            axes.xaxis.get_major_ticks()[len(ticks) - 1].label1.set_fontsize(TEXT + 2)


def _crowded(clips: Sequence[float]) -> bool:
    """Whether two numbers would be written over each other."""
    logs = np.log10(clips)
    return len(logs) > 1 and float(np.diff(logs).min()) < 0.07 * float(logs[-1] - logs[0])


def _short(m: float) -> str:
    if m >= _MILLION:
        return f"{m / _MILLION:.3g}M"
    return f"{m / 1000:.3g}k" if m >= _THOUSAND else f"{m:,.4g}"


# --- drawing ------------------------------------------------------------------------------------


def over_clips(axes: Axes, curves: Sequence[Curve], place: Clips, levels: Sequence[Level]) -> None:
    """One line per estimator over M; from the last number to ∞ it is dotted."""
    place.set_up(axes)
    for i, curve in enumerate(curves):
        look, xs = curve.look, [place(m) for m in curve.xs]
        if len(xs) == 1:  # its own M, whatever the others': a level, with a mark where M is
            axes.axhline(curve.ys[0], color=look.colour, linewidth=1, dashes=(5, 3))
        solid = [i for i, m in enumerate(curve.xs) if math.isfinite(m)]
        ys = list(curve.ys)
        every: list[int] | None = None if len(solid) <= _FEW else []
        axes.plot(
            [xs[i] for i in solid],
            [ys[i] for i in solid],
            color=look.colour,
            marker=look.marker,
            markersize=3.5,
            markevery=every,
            linestyle=_dashes(curve, curves[:i]),
            label=curve.name,
        )
        if len(solid) < len(xs):
            axes.plot(xs[-2:], ys[-2:], color=look.colour, linewidth=0.9, linestyle=(0, (2, 2)))
            axes.plot(xs[-1], ys[-1], color=look.colour, marker=look.marker, markersize=4.5)
    for level in levels:
        axes.axhline(level.heights[0], color=GREY, linestyle=":", linewidth=1.3, label="_level")


def over_periods(
    axes: Axes, curves: Sequence[Curve], periods: Sequence[object], levels: Sequence[Level]
) -> None:
    """One line per estimator over the periods, in their order."""
    for i, curve in enumerate(curves):
        axes.plot(
            curve.xs,
            curve.ys,
            color=curve.look.colour,
            marker=curve.look.marker,
            markersize=3.5,
            linestyle=_dashes(curve, curves[:i]),
            label=curve.name,
        )
    over_level(axes, levels)
    thin = math.ceil(len(periods) / _FEW)
    shown = range(0, len(periods), thin)
    axes.set_xticks(list(shown), [format_value("period", periods[i]) for i in shown])  # type: ignore[arg-type]
    axes.set_xlim(-0.02 * len(periods), len(periods) - 1 + 0.02 * len(periods))


def over_level(axes: Axes, levels: Sequence[Level]) -> None:
    """Heights that are another for each x, in grey."""
    for level in levels:
        axes.plot(
            range(len(level.heights)),
            level.heights,
            color=GREY,
            linestyle=":",
            linewidth=1.3,
            label="_level",
        )


def over_places(
    axes: Axes,
    curves: Sequence[Curve],
    intervals: Sequence[tuple[Sequence[float], Sequence[float]]],
    second: Sequence[Sequence[float]],
    labels: Sequence[object],
) -> None:
    """One line over the places of a page, from 0 up.

    Args:
        axes: where to.
        curves: the lines; where there is no answer they have a gap.
        intervals: the low and high ends of each line's points.
        second: another opinion of each line, drawn as rings.
        labels: the names of the places.
    """
    apart = 0.5 / max(len(curves), 5)  # so that the intervals of several lines do not overlap
    for i, (curve, (low, high), other) in enumerate(zip(curves, intervals, second, strict=True)):
        xs = [x + apart * (i - (len(curves) - 1) / 2) for x in curve.xs]
        colour = curve.look.colour
        axes.plot(
            xs,
            curve.ys,
            color=colour,
            marker=curve.look.marker,
            markersize=3.5,
            linewidth=1.3,
            label=curve.name or "_curve",
        )
        axes.vlines(xs, low, high, color=colour, linewidth=1.6)
        axes.plot(
            xs,
            other,
            linestyle="",
            marker="o",
            markersize=8.5,
            markerfacecolor="none",
            markeredgecolor=GREY,
            markeredgewidth=0.8,
            label="_second",
        )
    thin = math.ceil(len(labels) / _MANY)
    shown = range(0, len(labels), thin)
    axes.set_xticks(list(shown), [format_value("position", labels[i]) for i in shown])  # type: ignore[arg-type]
    axes.set_xlim(-0.4, len(labels) - 0.6)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")


@dataclass(frozen=True)
class Growing:
    """A sum that grows as one counts on; between two numbers, evenly.

    Attributes:
        counts: so many, from 0 on.
        sums: what they make together.
    """

    counts: tuple[float, ...]
    sums: tuple[float, ...]

    def share(self, count: float) -> float:
        """What so many of them make, of the whole.

        Examples:
            >>> Growing((0, 2, 4), (0.0, 6.0, 8.0)).share(3)
            0.875
        """
        return float(np.interp(count, self.counts, self.sums)) / self.sums[-1]

    def first(self, share: float) -> int:
        """How many it takes for a share of the whole.

        Examples:
            >>> Growing((0, 2, 4), (0.0, 6.0, 8.0)).first(0.5)
            2
        """
        return math.ceil(np.interp(share * self.sums[-1], self.sums, self.counts) - _ROUNDING)

    @property
    def grown(self) -> int:
        """How many it takes for all of it."""
        return int(self.counts[self.sums.index(self.sums[-1])])


def over_ranks(axes: Axes, growing: Growing, share: float) -> int:
    """A sum over how many are counted; what adds nothing is grey.

    Args:
        axes: where to.
        growing: the sum.
        share: a part of it, to be marked.

    Returns:
        How many make that part together.
    """
    few, all_of_it, last = growing.first(share), growing.grown, int(growing.counts[-1])
    start = 0
    if last > _STEEP * few:  # most of it would be lost in the axis
        axes.set_xscale("log")
        start = 1
    # The numbers between, too: in powers, what grows evenly is no straight line.
    between = np.geomspace(1, last, _POINTS if start else 0).astype(int)
    rising = [x for x in sorted({*growing.counts, *between, few}) if start <= x <= all_of_it]
    heights = [growing.share(x) for x in rising]
    axes.fill_between(rising, heights, color=GAIN, alpha=0.1, linewidth=0, label="_area")
    axes.plot([all_of_it, last], [1, 1], color=GREY, label="_rest")
    axes.plot(rising, heights, color=GAIN, label="_growing")
    y = growing.share(few)
    axes.plot([start, few, few], [y, y, 0], color=GREY, linestyle=":", linewidth=1.3, label="_lead")
    axes.plot(few, y, "o", color=GAIN, markersize=5, label="_mark", clip_on=False, zorder=5)
    axes.set_xlim(start, last)
    axes.set_ylim(0, 1.05)
    axes.grid(axis="y")
    if not start:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: _short(count)))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    return few


def _dashes(curve: Curve, before: Sequence[Curve]) -> Any:  # noqa: ANN401 - a style of matplotlib
    """Solid, but for a line that would hide another: through its gaps the other is seen."""
    hidden = any(
        len(other.ys) == len(curve.ys) and np.allclose(other.ys, curve.ys, rtol=1e-9, atol=0)
        for other in before
    )
    return (0, (4, 4)) if hidden else "-"


def scale_y(
    axes: Axes, curves: Sequence[Curve], levels: Sequence[Level], *, powers: bool = True
) -> None:
    """An axis that holds all.

    Args:
        axes: whose axis.
        curves: the lines that it holds.
        levels: likewise.
        powers: in powers, where the largest is many times the smallest.
    """
    heights = [y for curve in curves for y in curve.ys] + [y for one in levels for y in one.heights]
    heights = [y for y in heights if not math.isnan(y)] or [0.0, 1.0]
    low, high = min(heights), max(heights)
    axes.grid(axis="y")
    if powers and low > 0 and high > _WIDE * low:
        axes.set_yscale("log")
        margin = (high / low) ** 0.06
        axes.set_ylim(low / margin, high * margin)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        margin = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)


def name_lines(
    axes: Axes,
    curves: Sequence[Curve],
    levels: Sequence[Level],
    size: tuple[float, float],
    end: float,
) -> None:
    """The names of lines and levels beside their ends; of levels alone if there are many lines.

    Args:
        axes: with everything drawn.
        curves: the lines.
        levels: what they are read against.
        size: width and height of the axes in inches, about.
        end: the place where lines end.
    """
    ends = [End(level.name, end, level.heights[-1], GREY) for level in levels]
    if len(curves) <= MOST_NAMES:
        ends += [End(curve.name, end, _last(curve.ys), curve.look.colour) for curve in curves]
    if ends:
        name_ends(axes, ends, size)


def _last(ys: Sequence[float]) -> float:
    """Where a line ends, which need not be where the others do."""
    return next((y for y in reversed(ys) if not math.isnan(y)), 0.0)


def ring(axes: Axes, x: float, y: float) -> None:
    """Mark the winner."""
    axes.plot(
        x,
        y,
        marker="o",
        markersize=11,
        markerfacecolor="none",
        markeredgecolor=INK,
        markeredgewidth=1.2,
        clip_on=False,
        zorder=5,
        label="_winner",
    )
