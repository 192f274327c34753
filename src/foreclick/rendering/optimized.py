"""The chart of an optimised policy: what it is worth, and where its gain comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes

from foreclick.optimization.result import Optimized
from foreclick.rendering.curves import Growing, over_ranks
from foreclick.rendering.dots import Dot, dots, upright
from foreclick.rendering.style import NAIVE, PRODUCTION, VERDICTS, Chart, head, panels
from foreclick.results import format_value

Row = Mapping[str, Any]

_HALF = 0.5


def optimized(result: Optimized, *, title: str = "") -> Chart:
    """What production earns, what the policy is said to and does; and its gain over contexts.

    Args:
        result: an optimised policy.
        title: a line above the panels.
    """
    (row,) = result.rows
    several = _several(row, result.gains.rows)
    count = 2 if several else 1
    chart, axes = panels(count, columns=count, width=5.2, height=2.3, title=title)
    _worth(axes[0], row, judged=result.evaluation is not None)
    if several:
        _where(axes[1], row, result.gains.rows)
    return chart


# --- what it is worth ---------------------------------------------------------------------------


def _worth(axes: Axes, row: Row, *, judged: bool) -> None:
    """Three dots, to be read against production."""
    start = row["production"]
    entries = [
        Dot("production", start, PRODUCTION, (format_value("production", start), "")),
        Dot("naive", row["naive"], NAIVE, (_beside("naive", row["naive"], start), "")),
        _honest(row) if judged or not row["changed"] else _NOBODY,
    ]
    dots(axes, entries)
    upright(axes, start, "")
    head(axes, "What it earns", _remark(row, judged=judged))
    axes.set_xlabel(f"{row['metric']} per list")


_NOBODY = Dot("honest", None, PRODUCTION, ("not judged by records of its own", ""))


def _honest(row: Row) -> Dot:
    if row["value"] is None:
        return Dot("honest", None, PRODUCTION, ("no answer: nothing of it was ever shown", ""))
    look = VERDICTS.get(row["verdict"], PRODUCTION)
    number = _beside("value", row["value"], row["production"])
    if row["verdict"] is not None:
        number += f"   {row['verdict']}"
    ends = [row["lift_low"], row["lift_high"]]
    said = [] if None in ends else [" to ".join(format_value("lift", end) for end in ends)]
    if row["covered"] is not None and format_value("covered", row["covered"]) != "100%":
        said.append(f"{format_value('covered', row['covered'])} covered")
    words = number, ", ".join(said)
    return Dot("honest", row["value"], look, words, row["low"], row["high"])


def _beside(column: str, value: float, production: float) -> str:
    """A number, and by how much it is more than production's."""
    text = format_value(column, value)
    if not production:
        return text
    return f"{text}   {format_value('lift', value / production - 1)}"


def _remark(row: Row, *, judged: bool) -> str:
    if not row["changed"]:
        return "nothing is changed: production stays everywhere"
    if judged:
        return "honest: by records that had no say in choosing it"
    return "naive: by the records that it was chosen by"


# --- where the gain comes from ------------------------------------------------------------------


def _several(row: Row, found: Sequence[Row]) -> bool:
    """Whether there is a gain, and not all of it from one context."""
    return row["contexts"] > 1 and any(gain["gain"] > 0 for gain in found)


def _where(axes: Axes, row: Row, found: Sequence[Row]) -> None:
    """The gain of so many contexts, those that gain most first, as a share of all gains."""
    gains = [max(0.0, gain["gain"]) for gain in found]
    counts = tuple(accumulate((gain["contexts"] for gain in found), initial=0))
    growing = Growing(counts, tuple(accumulate(gains, initial=0.0)))
    records = Growing(counts, tuple(accumulate((gain["records"] for gain in found), initial=0.0)))
    few = over_ranks(axes, growing, _HALF)
    share = records.share(few)
    head(
        axes,
        "Where the gain comes from",
        f"half of it: {few:,} of {row['contexts']:,} contexts, {format_value('share', share)} of "
        "the records",
    )
    axes.set_ylabel("share of the sure gain")
    axes.set_xlabel(f"contexts by gain: {_kinds(row, found)}")


def _kinds(row: Row, found: Sequence[Row]) -> str:
    """How many contexts there are of each kind, in the order in which they stand."""
    sure = sum(gain["contexts"] for gain in found if gain["gain"] > 0)
    kinds: dict[str, int] = {"changed": row["changed"], "kept": row["kept"]}
    if sure < row["changed"]:
        kinds = {"gain": sure, "may lose": row["changed"] - sure, "kept": row["kept"]}
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
