"""`examination`: how much each position is looked at, from items that moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from foreclick import inference
from foreclick.batches import Bools, batches_of
from foreclick.errors import ModelError
from foreclick.learn.curves import learn_curves, listed
from foreclick.learn.examination import DIFFER, Examined
from foreclick.options import verb
from foreclick.progress import report_step
from foreclick.question import check_columns
from foreclick.results import Result
from foreclick.tallies import LogLike
from foreclick.tallies.base import settle
from foreclick.words import few

Slots = Mapping[int, Any] | Sequence[Any] | None

_SURE = 0.99  # that items are not looked at alike, all positions together
_FEW = 3  # segments that a note names


@dataclass(frozen=True, repr=False)
class Examination(Result):
    """How much each position is looked at: one row per position, or slot (× segment).

    | column | meaning |
    |---|---|
    | position | from 1; or `slot`, its label |
    | examination | p_k, relative to the first position; None where the log cannot tell |
    | se, low, high | its standard error and interval, if the position-based model holds |
    | items | the items with clicks that stood here and elsewhere in the same context |
    | records | how often the position was filled |

    Attributes:
        places: for each position which of the rows of its segment is its own; −1 for none.
    """

    places: tuple[int, ...] = ()

    @property
    def curve(self) -> tuple[float, ...]:
        """p_1, p_2, … down to the first position that the log cannot tell: what `pbm` takes."""
        curves = self.curves
        if len(curves) > 1:
            some = next(iter(curves))
            raise ModelError(
                f"there are {len(curves)} curves, one for each segment. Choose one of them, for "
                f"instance curves[{some!r}]."
            )
        return next(iter(curves.values()))

    @property
    def curves(self) -> dict[Any, tuple[float, ...]]:
        """The curve of each segment, by its value (by a tuple if they are of several columns)."""
        by = self.columns[: self.columns.index("examination") - 1]
        rows: dict[Any, list[Any]] = {}
        for row in self.rows:
            segment = tuple(row[b] for b in by)
            rows.setdefault(segment[0] if len(by) == 1 else segment, []).append(row["examination"])
        curves = {}
        for key, values in rows.items():
            by_position: list[Any] = [values[k] if k >= 0 else None for k in self.places]
            curves[key] = tuple(by_position[: [*by_position, None].index(None)])
        return curves


@verb()
def examination(
    log: LogLike,
    *,
    slots: Slots = None,
    by: str | Sequence[str] | None = None,
    within: Literal["auto", "context", "period"] = "auto",
    reward: str = "clicks",
    confidence: float = 0.95,
) -> Examination:
    """How much each position is looked at, from items that stood at several of them.

    An item a that context x showed n_xak times at position k is clicked there w_xak times, with
    mean n_xak μ_xa p_k: its attraction times the position's examination. p is found by maximum
    likelihood, with Poisson clicks; p_1 = 1.

    It assumes the position-based model: whether a position is looked at depends on nothing else
    on the page. Positions can be compared if items moved between them, directly or by way of
    others; where they did not, the answer is None, and a note says so.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        slots: labels of positions, from the first one on or by position, for pages that are no
            list: positions with the same label (a row of a grid, a carousel) are looked at alike.
            Positions without a label are left out.
        by: segment columns (device, query class, page layout) with a curve each.
        within: which moves count: those within a "period" of a context, which no change of
            season, taste or ranker can disturb, or all within a "context". By default those within
            a period, if the log has periods; where they tell of fewer positions, or err twice as
            much, those within a context.
        reward: what is counted as a click.
        confidence: of the intervals.

    Examples:
        Both items get half as many clicks at position 2:

        >>> found = examination(
        ...     {
        ...         "context": ["q"] * 8,
        ...         "items": [[1, 2], [2, 1]] * 4,
        ...         "clicks": [[1, 0], [1, 0], [0, 1], [1, 1], [0, 0], [0, 0], [1, 0], [0, 0]],
        ...     }
        ... )
        >>> [round(p, 6) for p in found.curve]
        [1.0, 0.5]
        >>> from foreclick import Weighted
        >>> by = Weighted("pbm", examination=found.curve)
    """
    tally, notes = settle(log)
    columns = (by,) if isinstance(by, str) else tuple(by or ())
    check_columns(tally.shape, [reward], columns)
    labels, places = _places(tally.shape.depth, slots)
    report_step("Comparing positions")
    curves, rests_on = learn_curves(tally, places, reward, by=columns, within=within)
    name, codes = "position" if slots is None else "slot", batches_of(tally).codebook
    rows: list[dict[str, Any]] = []
    segments_of: dict[str, list[str]] = {}  # each note once, with the segments that it is about
    for numbers, curve in curves.items():
        values = zip(columns, numbers, strict=True)
        segment = {b: codes.column(b).values[number].as_py() for b, number in values}
        for label, row in zip(labels, _rows(curve, confidence), strict=True):
            rows.append(segment | {name: label} | row)
        for note in _curve_notes(curve, labels, name):
            segments_of.setdefault(note, []).append(", ".join(map(str, segment.values())))
    notes += rests_on
    for note, segments in segments_of.items():
        notes.append(note if len(segments) == len(curves) else f"{few(segments, _FEW)}: {note}")
    return Examination(tuple(rows), tuple(rows[0]), tuple(notes), places=places)


def _places(depth: int, slots: Slots) -> tuple[list[Any], tuple[int, ...]]:
    """The labels of positions down to a depth, and for each position the number of its label."""
    positions = range(1, depth + 1)
    if slots is None:
        return list(positions), tuple(range(depth))
    if isinstance(slots, str) or not isinstance(slots, Mapping | Sequence):
        raise ModelError(
            f"slots={slots!r}: give a label for each position, such as ['top', 'top', 'row 2'], or "
            "a mapping from the position to its label."
        )
    named = slots if isinstance(slots, Mapping) else dict(enumerate(slots, start=1))
    if strange := [k for k in named if type(k) is not int or k < 1]:
        raise ModelError(f"slots: {strange[0]!r} is no position; positions count from 1.")
    by_position = [named.get(k) for k in positions]
    labels = [label for label in dict.fromkeys(by_position) if label is not None]
    if not labels:
        raise ModelError(f"slots: none of the positions 1 to {depth} has a label.")
    return labels, tuple(-1 if label is None else labels.index(label) for label in by_position)


def _rows(curve: Examined, confidence: float) -> list[dict[str, Any]]:
    """One row per place; the intervals are symmetric in log p, where the likelihood is."""
    rows = []
    for k, p in enumerate(curve.p.tolist()):
        ends = []  # how far intervals reach, and standard errors; if unknown, infinitely far
        for covariance, freedom in curve.errors if k != curve.places.reference else ():
            se = math.sqrt(covariance[k, k])
            wide = se * inference.quantile(confidence, freedom) if se else 0.0
            ends.append((math.inf if math.isnan(wide) else wide, se))
        wide, se = max(ends, key=lambda end: end[0], default=(0.0, 0.0))
        unknown = not curve.places.identified[k] or math.isinf(wide)
        rows.append(
            {
                "examination": None if math.isnan(p) else p,
                "se": None if unknown else p * se,
                "low": None if unknown else p * math.exp(-wide),
                "high": None if unknown else p * math.exp(wide),
                "items": int(curve.places.items[k]),
                "records": curve.places.records[k],
            }
        )
    return rows


# --- notes --------------------------------------------------------------------------------------


def _curve_notes(curve: Examined, labels: Sequence[Any], name: str) -> list[str]:
    """What a reader of one curve should know."""
    places, notes = curve.places, []
    at, linked = places.reference, places.linked[places.reference]

    def these(some: Bools, *, begin: bool = False) -> str:
        text = listed([labels[k] for k in np.flatnonzero(some).tolist()], name)
        return text[0].upper() + text[1:] if begin else text

    def remedy(fine: Bools) -> str:
        first = int(np.argmin(fine))
        rest = (
            "et some share a label with others by slots=, or swap items between them for a while."
        )
        stops = name == "position" and first and fine[:first].all()
        return f"Read the log with depth={first}, l{rest}" if stops else f"L{rest}"

    known = these(places.identified)
    if places.identified.sum() < 2:
        return [f"No curve: no two {name}s can be compared by items that moved between them."]
    if at:
        first, other = (these(np.arange(len(labels)) == k) for k in (0, at))
        notes.append(
            f"Nothing compares {first} with others, so examination is relative to {other}."
        )
    if not linked.all():
        notes.append(
            f"{these(~linked, begin=True)} never exchanged an item that was clicked with {known}, "
            f"so the log cannot tell how much they are looked at. {remedy(linked)}"
        )
    if places.zero.any():
        notes.append(
            f"{these(places.zero, begin=True)} got no click from items that stood there and "
            "elsewhere: examination is 0 as far as the log tells."
        )
    unclear = linked & ~places.identified & ~places.zero
    if unclear.any():
        notes.append(
            f"{these(unclear, begin=True)} cannot be compared with {known}: of the items that "
            f"stood at both, none was clicked at the latter. {remedy(~unclear)}"
        )
    if not curve.converged:
        notes.append("The maximum of the likelihood was not found; do not use this curve.")
    # Where one curve does not fit all contexts or all items.
    free = places.free
    sure = 1 - (1 - _SURE) / max(len(free), 1)
    slope, se = curve.item_slope[:, free]
    reach = np.maximum(inference.quantile(sure, math.inf) * se, DIFFER)
    steep = np.where((np.abs(slope) > reach) & (se > 0), np.abs(slope), 0.0)
    if curve.context_spread:
        notes.append(
            f"Contexts are not looked at alike: examination differs between them by about "
            f"{math.expm1(curve.context_spread):.0%}, so one curve is a mean of several. "
            "examination(…, by=…) has one for each segment."
        )
    elif steep.any():
        worst = np.argmax(steep)
        word = "more" if slope[worst] > 0 else "less"
        notes.append(
            f"Items are not looked at alike: at {name} {labels[free[worst]]} attractive items get "
            f"{word} clicks, compared with others, than one curve allows. Users may trust what "
            "stands at the top whatever it is; then attraction times examination is not how they "
            "click."
        )
    return notes
