"""`examination`: how much each position is looked at, from items that moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from foreclick import inference
from foreclick.batches import Bools, batches_of
from foreclick.curves.errors import DIFFER, Examined
from foreclick.curves.learnt import learn_curves, named_positions
from foreclick.errors import ModelError
from foreclick.metrics import CLICKS
from foreclick.options import verb
from foreclick.progress import report_step
from foreclick.question import check_columns, check_earned
from foreclick.results import Result
from foreclick.tallies import LogLike, local_tally
from foreclick.words import few

_SURE = 0.99  # that items are not looked at alike, all positions together
_FEW = 3  # segments that a note names


@dataclass(frozen=True, repr=False)
class Examination(Result):
    """How often users examine each position: one row per position (× segment).

    | column | meaning |
    |---|---|
    | position | from 1 |
    | examination | p_k, relative to the first position; None where the log cannot tell |
    | se, low, high | its standard error and interval, if the position-based model holds |
    | items | the items with clicks that were shown here and elsewhere in the same context |
    | records | how often the position showed an item |
    """

    @property
    def curve(self) -> tuple[float, ...]:
        """The tuple p_1, p_2, … down to the first position that is None: what `pbm` takes.

        Raises:
            ModelError: there are several curves, one for each segment.
        """
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
        """The curve of each segment, by its value (by a tuple for several columns)."""
        by = self.columns[: self.columns.index("examination") - 1]
        rows: dict[Any, list[Any]] = {}
        for row in self.rows:
            segment = tuple(row[b] for b in by)
            rows.setdefault(segment[0] if len(by) == 1 else segment, []).append(row["examination"])
        return {key: tuple(p[: [*p, None].index(None)]) for key, p in rows.items()}


@verb()
def examination(
    log: LogLike,
    *,
    by: str | Sequence[str] | None = None,
    within: Literal["auto", "context", "period"] = "auto",
    confidence: float = 0.95,
) -> Examination:
    """Estimate how often users examine each position, from items that were shown at several.

    An item a that context x showed n_xak times at position k is clicked there w_xak times, with
    mean n_xak μ_xa p_k: its attraction times the position's examination. The curve p is the maximum
    of the likelihood with Poisson clicks; p_1 = 1.

    It assumes the position-based model: whether a position is examined depends on nothing else on
    the page. Positions can be compared if items moved between them, directly or through other
    positions; where none did, `examination` is None, and a note says so.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        by: segment columns (device, query class, page layout), to estimate a curve for each
            segment.
        within: which moves count: "period", those within a period of a context, which no change of
            season, taste or ranker can disturb; or "context", all within a context. "auto" takes
            those within a period, if the log has periods; where they cover fewer positions or have
            twice the standard error, those within a context.
        confidence: the confidence level of intervals.

    Returns:
        An `Examination`: one row per position (× segment); `curve` is what `pbm` takes.

    Raises:
        ModelError: a column of `by` is not a segment of the log.

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
    tally, notes = local_tally(log)
    columns = (by,) if isinstance(by, str) else tuple(by or ())
    check_columns(tally.shape, [CLICKS], columns)
    check_earned(tally, CLICKS)
    report_step("Comparing positions")
    places, codes = tuple(range(tally.shape.depth)), batches_of(tally).codebook
    curves, rests_on = learn_curves(tally, places, CLICKS, by=columns, within=within)
    rows: list[dict[str, Any]] = []
    segments_of: dict[str, list[str]] = {}  # each note once, with the segments that it is about
    for numbers, curve in curves.items():
        values = zip(columns, numbers, strict=True)
        segment = {b: codes.columns[b].values[number].as_py() for b, number in values}
        rows += [segment | row for row in _rows(curve, confidence)]
        for note in _curve_notes(curve):
            segments_of.setdefault(note, []).append(", ".join(map(str, segment.values())))
    notes += rests_on
    for note, segments in segments_of.items():
        notes.append(note if len(segments) == len(curves) else f"{few(segments, _FEW)}: {note}")
    return Examination(tuple(rows), tuple(rows[0]), tuple(notes))


def _rows(curve: Examined, confidence: float) -> list[dict[str, Any]]:
    """One row per position; the intervals are symmetric in log p, where the likelihood is."""
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
                "position": k + 1,
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


def _curve_notes(curve: Examined) -> list[str]:
    """What a reader of one curve should know."""
    places, notes = curve.places, []

    def these(some: Bools) -> str:
        return named_positions((np.flatnonzero(some) + 1).tolist())

    if places.identified.sum() < 2:
        return ["No curve: no two positions can be compared by items that moved between them."]
    if places.reference:
        notes.append(
            f"Position 1 cannot be compared with others, so examination is relative to position "
            f"{places.reference + 1}."
        )
    unknown = ~places.identified & ~places.zero
    if unknown.any():
        text, first = these(unknown), int(np.argmax(unknown))
        swap = "swap items between these positions for a while."
        remedy = f"Read the log with depth={first}, or {swap}" if first else swap.capitalize()
        notes.append(
            f"{text[0].upper() + text[1:]} cannot be compared with {these(places.identified)} by "
            "items that stood at both and were clicked, so the log cannot tell how much they are "
            f"looked at. {remedy}"
        )
    if places.zero.any():
        text = these(places.zero)
        notes.append(
            f"{text[0].upper() + text[1:]} got no click from items that stood there and "
            "elsewhere, so examination there is estimated as 0."
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
            f"Examination differs between contexts by about "
            f"{math.expm1(curve.context_spread):.0%}, so one curve is a mean of several. "
            "examination(…, by=…) has one for each segment."
        )
    elif steep.any():
        worst = np.argmax(steep)
        word = "more" if slope[worst] > 0 else "less"
        notes.append(
            f"Examination depends on the item: at position {free[worst] + 1}, attractive items get "
            f"{word} clicks, compared with others, than one curve allows. Users may trust the top "
            "whatever stands there; then clicks are not attraction times examination."
        )
    return notes
