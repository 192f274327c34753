"""`examination`: how much each position is looked at, from items that moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from foreclick import inference
from foreclick.analysis.curves import DIFFER, WORTH, contexts_differ, learnt_curves, listed
from foreclick.batches import Batches, batches_of
from foreclick.errors import ModelError
from foreclick.estimators import check_columns
from foreclick.estimators.examination import Examined, Segment, Spread
from foreclick.options import checked, choice
from foreclick.progress import Say, say
from foreclick.results import Result
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle

Floats = NDArray[np.float64]
Slots = Mapping[int, Any] | Sequence[Any] | None

_SURE = 0.99  # that the two methods disagree, all positions together


@dataclass(frozen=True, repr=False)
class Examination(Result):
    """How much each position is looked at: one row per position, or slot (× segment).

    | column | meaning |
    |---|---|
    | position | from 1; or `slot`, its label |
    | examination | p_k, relative to the first position; None where the log cannot tell |
    | se, low, high | its standard error and interval, if the position-based model holds |
    | allpairs | the same by another method, AllPairs |
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
        rows: dict[Any, list[float | None]] = {}
        for row in self.rows:
            segment = tuple(row[b] for b in by)
            key = segment[0] if len(segment) == 1 else segment
            rows.setdefault(key, []).append(row["examination"])  # type: ignore[arg-type]
        return {key: self._down(values) for key, values in rows.items()}

    def _down(self, values: list[float | None]) -> tuple[float, ...]:
        found: list[float] = []
        for place in self.places:
            value = values[place] if place >= 0 else None
            if value is None:
                break
            found.append(value)
        return tuple(found)


@checked(clusters=choice("auto", "record"))
def examination(  # noqa: PLR0913 - all but the log are keywords
    log: LogLike,
    *,
    depth: int | None = None,
    slots: Slots = None,
    by: str | Sequence[str] | None = None,
    within: Literal["auto", "context", "period"] = "auto",
    reward: str = "clicks",
    confidence: float = 0.95,
    clusters: Literal["auto", "record"] = "auto",
    progress: Say | None = None,  # noqa: ARG001 - `checked` heeds it
) -> Examination:
    """How much each position is looked at, from items that stood at several of them.

    An item a that context x showed n_xak times at position k is clicked there w_xak times, with
    mean n_xak μ_xa p_k: its attraction times the position's examination. p is found by maximum
    likelihood, with Poisson clicks; p_1 = 1. A second opinion, AllPairs (Agarwal et al.,
    "Estimating Position Bias without Intrusive Interventions", WSDM 2019), compares two positions
    at a time.

    It assumes the position-based model: whether a position is looked at depends on nothing else
    on the page. Positions can be compared if items moved between them, directly or by way of
    others; where they did not, the answer is None, and a note says so.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        depth: down to which position; by default to the end of the longest list.
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
        clusters: whose records vary together: by default those of a period and those of a unit
            (user), if the log has them, whichever is wider; "record" for none.
        progress: called with what is being done; by default it is shown on a terminal.

    Examples:
        Both items get half as many clicks at position 2:

        >>> found = examination(
        ...     {
        ...         "context": ["q"] * 8,
        ...         "items": [[1, 2], [2, 1]] * 4,
        ...         "clicks": [[1, 0], [1, 0], [0, 1], [1, 1], [0, 0], [0, 0], [1, 0], [0, 0]],
        ...     }
        ... )
        >>> found.curve
        (1.0, 0.5)
        >>> from foreclick import Weighted
        >>> Weighted("pbm", examination=found.curve).model.examined(2)
        (1.0, 0.5)
    """
    counted, notes = settle(log)
    strata = (by,) if isinstance(by, str) else tuple(by or ())
    check_columns(counted.shape, [reward], strata)
    labels, places = _places(counted, depth, slots)
    say("Comparing positions")
    found, rests_on = learnt_curves(
        counted, places, reward, by=strata, within=within, clusters=clusters
    )
    batches = batches_of(counted)
    name = "position" if slots is None else "slot"
    segments = {code: _values(batches, strata, code) for code in found}
    rows = [
        segments[code] | {name: label} | row
        for code, one in found.items()
        for label, row in zip(labels, _rows(one, confidence), strict=True)
    ]
    notes += rests_on
    about = [(_named(segments[code]), _notes(one, labels, name)) for code, one in found.items()]
    notes += _told(about)
    return Examination(tuple(rows), tuple(rows[0]), tuple(notes), places=places)


def curve_notes(found: Examined) -> list[str]:
    """What a reader of a curve by position should know of it."""
    return _notes(found, list(range(1, len(found.p) + 1)), "position")


def _places(counted: Tally, depth: int | None, slots: Slots) -> tuple[list[Any], tuple[int, ...]]:
    """The labels, and for each position the number of its label."""
    deepest = counted.shape.depth
    positions = range(1, min(deepest, depth or deepest) + 1)
    if slots is None:
        return list(positions), tuple(k - 1 for k in positions)
    if isinstance(slots, str) or not isinstance(slots, Mapping | Sequence):
        raise ModelError(
            f"slots={slots!r}: give a label for each position, such as ['top', 'top', 'row 2'], or "
            "a mapping from the position to its label."
        )
    named = slots if isinstance(slots, Mapping) else dict(enumerate(slots, start=1))
    strange = [k for k in named if type(k) is not int or k < 1]
    if strange:
        raise ModelError(f"slots: {strange[0]!r} is no position; positions count from 1.")
    labels = list(dict.fromkeys(named[k] for k in positions if named.get(k) is not None))
    if not labels:
        raise ModelError(f"slots: none of the positions 1 to {positions[-1]} has a label.")
    return labels, tuple(
        labels.index(named[k]) if named.get(k) is not None else -1 for k in positions
    )


def _values(batches: Batches, by: Sequence[str], segment: Segment) -> dict[str, Any]:
    """The values of a segment, by column."""
    columns = [batches.codebook.column(name) for name in by]
    return {
        name: column.values[number].as_py()
        for name, column, number in zip(by, columns, segment, strict=True)
    }


# --- rows ---------------------------------------------------------------------------------------


def _rows(found: Examined, confidence: float) -> list[dict[str, Any]]:
    """One row per place; the intervals are symmetric in log p, where the likelihood is."""
    rows = []
    for k, p in enumerate(found.p):
        known = found.graph.told[k]
        at_one = k == found.graph.reference
        ends = [_reach(spread, k, confidence) for spread in found.spreads if not at_one]
        spread, wide = max(ends, key=_least_known, default=(0.0, 0.0))
        rows.append(
            {
                "examination": _number(p),
                "se": _number(p * spread) if known else None,
                "low": _number(p * math.exp(-wide)) if known else None,
                "high": _number(p * math.exp(wide)) if known else None,
                "allpairs": _number(found.allpairs[k]),
                "items": int(found.graph.items[k]),
                "records": found.records[k],
            }
        )
    return rows


def _reach(spread: Spread, k: int, confidence: float) -> tuple[float, float]:
    """The standard error of log p_k, and how far its interval reaches."""
    error = math.sqrt(spread.covariance[k, k])
    return error, error * inference.quantile(confidence, spread.freedom) if error else 0.0


def _least_known(reach: tuple[float, float]) -> float:
    """Wider intervals say less, and those that nobody knows say nothing."""
    return math.inf if math.isnan(reach[1]) else reach[1]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


# --- notes --------------------------------------------------------------------------------------


def _notes(found: Examined, labels: list[Any], name: str) -> list[str]:
    """What a reader of one curve should know."""
    graph, notes = found.graph, []
    at = graph.reference
    linked = graph.linked[at]

    def these(places: np.ndarray) -> str:
        return listed([labels[k] for k in np.flatnonzero(places)], name)

    told = these(graph.told)
    if graph.told.sum() < 2:  # noqa: PLR2004 - one place is no curve
        return [f"No curve: no two {name}s can be compared by items that moved between them."]
    if at:
        notes.append(
            f"Nothing compares {these(np.arange(len(labels)) == 0)} with others, so examination "
            f"is relative to {these(np.arange(len(labels)) == at)}."
        )
    if not linked.all():
        verb = "never exchanged an item that was clicked with"
        notes.append(
            f"{_upper(these(~linked))} {verb} {told}, so the log cannot tell how much they are "
            f"looked at. {_remedy(linked, name)}"
        )
    if graph.nothing.any():
        notes.append(
            f"{_upper(these(graph.nothing))} got no click from items that stood there and "
            "elsewhere: examination is 0 as far as the log tells."
        )
    unclear = linked & ~graph.told & ~graph.nothing
    if unclear.any():
        notes.append(
            f"{_upper(these(unclear))} cannot be compared with {told}: of the items that stood at "
            f"both, none was clicked at the latter. {_remedy(~unclear, name)}"
        )
    if not found.converged:
        notes.append("The maximum of the likelihood was not found; do not use this curve.")
    return notes + _differences(found, labels, name) + _disagreement(found, labels, name)


def _differences(found: Examined, labels: list[Any], name: str) -> list[str]:
    """Notes where one curve does not fit all contexts, or all items."""
    notes = []
    spread = contexts_differ(found)
    if spread:
        notes.append(
            f"Contexts are not looked at alike: examination differs between them by about "
            f"{math.expm1(spread):.0%}, so one curve is a mean of several. "
            "examination(…, by=…) has one for each segment."
        )
        return notes
    slope, se = found.lean
    free = found.graph.free
    reach = inference.quantile(1 - (1 - _SURE) / max(len(free), 1), math.inf)
    far = free[(np.abs(slope[free]) > np.maximum(reach * se[free], DIFFER)) & (se[free] > 0)]
    if len(far):
        worst = far[np.argmax(np.abs(slope[far]))]
        word = "more" if slope[worst] > 0 else "less"
        notes.append(
            f"Items are not looked at alike: at {name} {labels[worst]} attractive items get {word} "
            "clicks, compared with others, than one curve allows. Users may trust what stands at "
            "the top whatever it is; then attraction times examination is not how they click."
        )
    return notes


def _remedy(fine: np.ndarray, name: str) -> str:
    first = int(np.argmin(fine))
    stop = f"Stop at depth={first}, " if name == "position" and fine[:first].all() and first else ""
    rest = "let some share a label with others by slots=, or swap items between them for a while."
    return stop + rest if stop else rest[0].upper() + rest[1:]


def _disagreement(found: Examined, labels: list[Any], name: str) -> list[str]:
    """A note where the two methods differ by more than chance, and by enough to matter."""
    free = found.graph.free
    freedom = found.spreads[0].freedom
    if not len(free) or not 1 <= freedom < math.inf:
        return []
    gap = np.abs(np.log(found.allpairs[free] / found.p[free]))
    reach = inference.quantile(1 - (1 - _SURE) / len(free), freedom)
    far = (gap > reach * found.apart[free]) & (np.abs(found.allpairs[free] - found.p[free]) > WORTH)
    if not far.any():
        return []
    worst = free[far][np.argmax(gap[far])]
    said = (
        f"The two methods disagree by more than chance, most at {name} {labels[worst]}: "
        f"{found.p[worst]:.3f} by maximum likelihood, {found.allpairs[worst]:.3f} by AllPairs. "
        "Items are not all looked at alike there, so one curve is a summary at best; see by=."
    )
    return [said]


def _told(notes: list[tuple[str, list[str]]]) -> list[str]:
    """Each note once, with the segments that it is about."""
    about: dict[str, list[str]] = {}
    for segment, said in notes:
        for note in said:
            about.setdefault(note, []).append(segment)
    if len(notes) == 1:
        return list(about)
    few = 3
    found = []
    for note, segments in about.items():
        more = f" and {len(segments) - few} more" if len(segments) > few else ""
        where = ", ".join(segments[:few]) + more
        found.append(note if len(segments) == len(notes) else f"{where}: {note}")
    return found


def _named(segment: Mapping[str, Any]) -> str:
    return ", ".join(str(value) for value in segment.values())


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
