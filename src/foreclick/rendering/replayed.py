"""The chart of past A/B tests: predicted against measured, with intervals of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.ticker import MaxNLocator, PercentFormatter

from foreclick.questions.replay import Replay
from foreclick.rendering.style import GREY, SMALL, VERDICTS, Chart, head, panels


def replayed(result: Replay, *, title: str = "") -> Chart:
    """What was predicted of each test from the control, beside what was measured.

    Args:
        result: a replay.
        title: a line above the panels.
    """
    rows: list[Mapping[str, Any]] = [
        row
        for row in result.rows
        if row["forward"] and row["estimator"] == result.answering and row["predicted"] is not None
    ]
    metrics = list(dict.fromkeys(str(row["metric"]) for row in rows))
    chart, axes = panels(
        max(len(metrics), 1),
        columns=min(2, max(len(metrics), 1)),
        width=4.2,
        height=4.1,
        title=title,
    )
    for panel, metric in zip(axes, metrics, strict=False):
        mine = [row for row in rows if row["metric"] == metric]
        kinds = [f"{kind}_{end}" for kind in ("predicted", "measured") for end in ("low", "high")]
        ends = [row[kind] for row in mine for kind in kinds if row[kind] is not None]
        low, high = min([*ends, 0.0]), max([*ends, 0.01])
        room = 0.06 * (high - low)
        low, high = low - room, high + room
        panel.axhline(0, color="#d0d0d0", linewidth=0.8, zorder=0)
        panel.axvline(0, color="#d0d0d0", linewidth=0.8, zorder=0)
        panel.plot([low, high], [low, high], ":", color=GREY, linewidth=1.3, label="_equal")
        for row in mine:
            look, x, y = VERDICTS[str(row["verdict"])], row["predicted"], row["measured"]
            if row["predicted_low"] is not None:
                panel.plot(
                    [row["predicted_low"], row["predicted_high"]],
                    [y, y],
                    color=look.colour,
                    linewidth=1.6,
                    alpha=0.5,
                    label="_predicted",
                )
            panel.plot(
                [x, x],
                [row["measured_low"], row["measured_high"]],
                color=look.colour,
                linewidth=1.6,
                alpha=0.5,
                label="_measured",
            )
            panel.plot(x, y, look.marker, color=look.colour, markersize=6.5, label="_dot", zorder=3)
        for word, look in VERDICTS.items():
            if any(row["verdict"] == word for row in mine):
                panel.plot([], [], look.marker, color=look.colour, label=word)
        panel.legend(loc="upper left", title="predicted as", title_fontsize=SMALL)
        panel.set_xlim(low, high)
        panel.set_ylim(low, high)
        panel.set_aspect("equal")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(MaxNLocator(5))
            axis.set_major_formatter(PercentFormatter(1, decimals=0))
        total = result.total(result.answering, metric)
        remark = ""
        if total is not None:
            remark = f"{total['right']} right, {total['wrong']} wrong of {total['tests']}"
        head(panel, metric, remark)
        panel.set_xlabel(f"lift predicted by {result.answering}, from the control's clicks")
        panel.set_ylabel("lift measured by the A/B test")
    return chart
