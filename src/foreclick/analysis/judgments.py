"""`judgments`: which items are relevant to a context, from clicks and how much is examined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from foreclick import inference
from foreclick.analysis.curves import learnt_curves
from foreclick.analysis.examination import curve_notes
from foreclick.analysis.judgment_files import Format, checked_format, write_judgments
from foreclick.batches import Batch, Bools, Floats, batches_of
from foreclick.errors import ModelError
from foreclick.estimators import check_columns
from foreclick.estimators.answer import whole_number
from foreclick.estimators.attraction import Attractions, attractions
from foreclick.estimators.examination import Spread
from foreclick.models import ClickModel
from foreclick.options import checked, choice
from foreclick.progress import Say, say
from foreclick.results import Result, Value
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, settle
from foreclick.words import number_of

TOP = 3
"""The highest grade."""


@dataclass(frozen=True, repr=False)
class Judgments(Result):
    """Grades of items, counted: one row per grade, from the highest, and one for those without.

    | column | meaning |
    |---|---|
    | grade | 3 (as good as the best of the context) to 0, or none: not enough records |
    | pairs | items of contexts with this grade |
    | contexts | contexts with such an item |
    | records | how often they were shown |
    | clicks | how often they were clicked |

    Attributes:
        items: an Arrow table with a row for each item of a context: `context`, `item`; `rate`, its
            click rate where it is examined, with the ends of its interval, `low` and `high`;
            `examined`, to how many records at the first position its records amount; `clicks` at
            positions whose examination is known; `records`; and `grade`, null for none.
    """

    items: pa.Table = field(kw_only=True, compare=False)

    def write(self, path: str | Path, *, format: Format | None = None) -> None:  # noqa: A002
        """Write the grades for other tools; items without a grade are left out.

        | format | ending | what is written |
        |---|---|---|
        | trec | .qrels, .txt | ``context 0 item grade``, for trec_eval, ir_measures, ranx |
        | opensearch | .json | the body for OpenSearch's Search Relevance Workbench |
        | quepid | .csv | ``query,docid,rating`` |
        | table | .parquet | all of `items`, with and without a grade |

        Args:
            path: the file.
            format: by default by the ending.
        """
        write_judgments(self.items, path, checked_format(path, format))


@checked(clusters=choice("auto", "record"))
def judgments(
    log: LogLike,
    *,
    examination: Sequence[float] | None = None,
    reward: str = "clicks",
    max_error: float = 1.0,
    confidence: float = 0.95,
    clusters: Literal["auto", "record"] = "auto",
    progress: Say | None = None,  # noqa: ARG001 - `checked` heeds it
) -> Judgments:
    """Grades of the items of each context, from clicks and how much each position is examined.

    An item that was shown n_k times at position k and clicked w_k times has the click rate
    μ = Σ w_k / Σ p_k n_k where it is examined. Its interval has two parts: clicks by chance, with
    a Poisson distribution, and the errors of p. It assumes the position-based model, and that
    records are independent but for what they share in p.

    The best item of a context is the one whose interval begins highest. With b its rate, an item
    has the grade 3 μ / b, rounded, 3 at most; but only if half the width of its interval is at most
    `max_error` grades. So contexts and items that were shown too rarely have none.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        examination: p_1, p_2, …, if it is known, such as the curve of another log; positions that
            it does not reach do not count. By default it is learnt from items that moved, as by
            `foreclick.examination`, and its errors count.
        reward: what is counted as a click.
        max_error: how many grades an item with a grade may be off, by its interval.
        confidence: of the intervals.
        clusters: whose records vary together, for the errors of p.
        progress: called with what is being done; by default it is shown on a terminal.

    Examples:
        The second position is examined half as much, and item 2 is as good as item 1:

        >>> log = {
        ...     "context": ["q"] * 400,
        ...     "items": [[1, 2]] * 400,
        ...     "clicks": [[1, 0]] * 200 + [[0, 1]] * 100 + [[0, 0]] * 100,
        ... }
        >>> found = judgments(log, examination=[1, 0.5])
        >>> found.items.select(["item", "rate", "grade"]).to_pylist()
        [{'item': 1, 'rate': 0.5, 'grade': 3}, {'item': 2, 'rate': 0.5, 'grade': 3}]
    """
    counted, notes = settle(log)
    check_columns(counted.shape, [reward], ())
    depth = counted.shape.depth
    if examination is None:
        curves, said = learnt_curves(counted, tuple(range(depth)), reward, clusters=clusters)
        (found,) = curves.values()
        p, spreads = np.nan_to_num(found.p), found.spreads
        said += curve_notes(found)
    else:
        p, spreads, said = _given(examination, depth), (), []
    say("Grading items")
    parts = [
        _judged(batch, attractions(batch, reward, p), spreads, max_error, confidence)
        for batch in batches_of(counted)
    ]
    table = pa.concat_tables(parts).combine_chunks()
    rows = [_row(table, grade) for grade in (*range(TOP, -1, -1), None)]
    return Judgments(
        tuple(rows),
        tuple(rows[0]),
        (*_notes(table, max_error), *notes, *said, *_left_out(table), *_weighted(counted)),
        items=table,
    )


def _given(examination: Any, depth: int) -> Floats:  # noqa: ANN401 - to be checked
    """Shape (K,): a curve from elsewhere, 0 for positions that it does not reach."""
    if isinstance(examination, str) or not isinstance(examination, Sequence | np.ndarray):
        raise ModelError(
            f"examination={examination!r}: give a number for each position, such as [1, 0.6, 0.4]."
        )
    found = np.zeros(depth)
    reaches = min(len(examination), depth)
    model = ClickModel("pbm", (), tuple(examination))
    found[:reaches] = model.examined(reaches)
    return found


def _judged(
    batch: Batch,
    found: Attractions,
    spreads: Sequence[Spread],
    max_error: float,
    confidence: float,
) -> pa.Table:
    """Rates, intervals and grades of the pairs of a batch."""
    known = found.examined > 0
    effective = np.divide(
        found.clicks**2, found.squares, out=np.zeros_like(found.clicks), where=found.squares > 0
    )
    # As many clicks of 0 or 1 as have the same error, and the exposure that gives the same rate.
    exposure = found.examined * np.divide(
        effective, found.clicks, out=np.ones_like(effective), where=found.clicks > 0
    )
    reach = _reach(found.gradient, spreads, confidence)
    low, high = inference.rate_intervals(
        effective, np.where(known, exposure, 1.0), np.where(known, reach, 0.0), confidence
    )
    grade, graded = _grades(batch, found.rate, low, high, known, max_error)
    contexts = batch.contexts.take(pa.array(batch.context_value[batch.pair_context]))

    def where(values: Any, there: Bools) -> pa.Array:  # noqa: ANN401 - numbers
        return pa.array(values, mask=~there)

    return pa.table(
        {
            "context": contexts,
            "item": batch.items.take(pa.array(batch.pair_item)),
            "rate": where(found.rate, known),
            "low": where(low, known),
            "high": where(high, known & np.isfinite(high)),
            "examined": found.examined,
            "clicks": found.clicks,
            "records": found.records,
            "grade": where(grade, graded),
        }
    )


def _reach(gradient: Floats, spreads: Sequence[Spread], confidence: float) -> Floats:
    """Shape (P,): how far the interval of log μ reaches by the errors of p; the widest."""
    found = np.zeros(len(gradient))
    for spread in spreads:
        told = np.isfinite(np.diag(spread.covariance))
        if not told.any():  # nobody knows how far
            return np.full(len(gradient), math.inf)
        some = gradient[:, told]
        variance = ((some @ spread.covariance[np.ix_(told, told)]) * some).sum(axis=1)
        wide = inference.quantile(confidence, spread.freedom) * np.sqrt(np.maximum(variance, 0.0))
        found = np.maximum(found, wide)
    return found


def _grades(
    batch: Batch, rate: Floats, low: Floats, high: Floats, known: Bools, max_error: float
) -> tuple[np.ndarray, Bools]:
    """Shape (P,) each: the grade of every pair, and whether it has one."""
    owner = batch.pair_context
    surest = np.lexsort((np.arange(len(low)), -np.where(known, low, -1.0), owner))
    _, first = np.unique(owner[surest], return_index=True)
    best = surest[first]  # of each context, as every context has a pair
    top = np.where(low[best] > 0, rate[best], 0.0)[owner]
    step = np.where(top > 0, top, 1.0) / TOP
    graded = known & (top > 0) & ((high - low) / 2 <= max_error * step)
    grade = np.floor(np.minimum(rate / step, TOP) + 0.5).astype(np.int8)
    return grade, graded


# --- what is said ---------------------------------------------------------------------------------


def _row(table: pa.Table, grade: int | None) -> dict[str, Value]:
    """What there is of a grade; None: of those without."""
    grades = table["grade"]
    values = np.asarray(grades.fill_null(-1)) if len(grades) else np.zeros(0)
    some = table.filter(pa.array(values == (-1 if grade is None else grade)))
    return {
        "grade": "none" if grade is None else str(grade),
        "pairs": some.num_rows,
        "contexts": len(some["context"].unique()),
        "records": whole_number(float(np.asarray(some["records"]).sum())),
        "clicks": whole_number(float(np.asarray(some["clicks"]).sum())),
    }


def _notes(table: pa.Table, max_error: float) -> list[str]:
    graded = table.filter(table["grade"].is_valid())
    contexts, every = (len(t["context"].unique()) for t in (graded, table))
    unit = "grade" if max_error == 1 else "grades"
    said = (
        f"{graded.num_rows:,} of {table.num_rows:,} items of contexts have a grade, in "
        f"{contexts:,} of {every:,} contexts."
    )
    if graded.num_rows < table.num_rows:
        said += (
            f" The others were not shown often enough to be within {max_error:g} {unit} of the "
            "truth, and are left out of what `write` writes."
        )
    rule = (
        "A grade is 3 × the item's click rate where it is examined, relative to the best of its "
        "context, rounded."
    )
    return [said, rule]


def _weighted(counted: Tally) -> list[str]:
    if not counted.decayed:
        return []
    said = (
        "Some periods count less than others. Intervals take what a record counts for a number of "
        "records, so they are too wide where that is less than one."
    )
    return [said]


def _left_out(table: pa.Table) -> list[str]:
    """Items at positions alone whose examination is not known."""
    lost = table["rate"].null_count
    if not lost:
        return []
    said = (
        f"{number_of(lost, 'item')} of contexts stood only at positions whose examination "
        "the log cannot tell. Say what is known: judgments(…, examination=[1, 0.6, …])."
    )
    return [said]
