"""`judgments`: which items are relevant to a context, from clicks and how much is examined."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick import inference
from foreclick.batches import Batch, Floats, batches_of, padded, ratio
from foreclick.engines import ending, has_place, located, whole_file, write_rows
from foreclick.errors import ModelError, ReportError
from foreclick.estimate.sums import whole_number
from foreclick.learn.curves import learn_curves
from foreclick.learn.examination import CurveError
from foreclick.models import ClickModel
from foreclick.options import choice, verb
from foreclick.progress import say
from foreclick.question import check_columns
from foreclick.questions.examination import curve_notes
from foreclick.results import Result
from foreclick.tallies import LogLike
from foreclick.tallies.base import settle
from foreclick.words import number_of

Format = Literal["trec", "opensearch", "quepid", "table"]
_ENDINGS: dict[str, Format] = {
    ".qrels": "trec",
    ".txt": "trec",
    ".json": "opensearch",
    ".csv": "quepid",
    ".parquet": "table",
}

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
        _write(self.items, path, checked_format(path, format))


@verb(clusters=choice("auto", "period", "unit", "record"))
def judgments(
    log: LogLike,
    *,
    examination: Sequence[float] | None = None,
    reward: str = "clicks",
    max_error: float = 1.0,
    confidence: float = 0.95,
    clusters: Literal["auto", "record"] = "auto",
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
    tally, notes = settle(log)
    check_columns(tally.shape, [reward], ())
    depth, given = tally.shape.depth, cast("Any", examination)
    errors: tuple[CurveError, ...] = ()
    if given is None:
        curves, said = learn_curves(tally, tuple(range(depth)), reward, clusters=clusters)
        (curve,) = curves.values()
        p, errors = np.nan_to_num(curve.p), curve.errors
        notes += said + curve_notes(curve, range(1, depth + 1), "position")
    elif isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise ModelError(
            f"examination={given!r}: give a number for each position, such as [1, 0.6, 0.4]."
        )
    else:  # positions that it does not reach do not count
        model = ClickModel("pbm", (), tuple(given))
        p = padded(model.examined(min(len(given), depth)), depth)
    say("Grading items")
    table = pa.concat_tables(
        [_graded(b, reward, p, errors, max_error, confidence) for b in batches_of(tally)]
    ).combine_chunks()
    rows = []
    for grade in range(TOP, -2, -1):  # the last: none
        some = table.filter(pc.equal(pc.fill_null(table["grade"], -1), grade))
        row = {"grade": str(grade) if grade >= 0 else "none", "pairs": some.num_rows}
        row["contexts"] = len(some["context"].unique())
        for name in ("records", "clicks"):
            row[name] = whole_number(float(np.asarray(some[name]).sum()))
        rows.append(row)
    notes = _notes(table, max_error, notes)
    if tally.decayed:
        notes.append(
            "Some periods count less than others. Intervals take what a record counts for a number "
            "of records, so they are too wide where that is less than one."
        )
    return Judgments(tuple(rows), tuple(rows[0]), tuple(notes), items=table)


def _graded(
    batch: Batch,
    reward: str,
    p: Floats,
    errors: Sequence[CurveError],
    max_error: float,
    confidence: float,
) -> pa.Table:
    """Rates, intervals and grades of the pairs of a batch."""
    earned, n = batch.rewards[reward], batch.shown
    slot, times = batch.earned_slot(earned), batch.n[earned.row]
    clicks, squares = (
        batch.by_slot(slot, times * earned.value**power)[:, p > 0].sum(axis=1) for power in (1, 2)
    )
    # With w_k clicks in n_k records at position k, μ = Σ_k w_k / Σ_k p_k n_k is the maximum of the
    # likelihood that p comes from, and ∂ log μ / ∂ log p_k = − p_k n_k / Σ p n.
    examined = (p * n).sum(axis=1)
    rate, gradient, known = ratio(clicks, examined), ratio(-p * n, examined[:, None]), examined > 0
    # As many clicks of 0 or 1 as have the same error, and the exposure that gives the same rate.
    effective = ratio(clicks**2, squares)
    exposure = examined * np.where(clicks > 0, ratio(effective, clicks), 1.0)
    reach = np.zeros(len(rate))  # of the interval of log μ by the errors of p; the widest
    for covariance, freedom in errors:
        told = np.isfinite(np.diag(covariance))
        if told.any():
            some = gradient[:, told]
            variance = ((some @ covariance[np.ix_(told, told)]) * some).sum(axis=1)
            wide = inference.quantile(confidence, freedom) * np.sqrt(np.maximum(variance, 0.0))
            reach = np.maximum(reach, wide)
        else:  # nobody knows how far
            reach[:] = math.inf
    low, high = inference.rate_intervals(
        effective, np.where(known, exposure, 1.0), np.where(known, reach, 0.0), confidence
    )
    # The best of each context, as every context has a pair, is the one that begins highest.
    owner = batch.pair_context
    surest = np.lexsort((np.arange(len(low)), -np.where(known, low, -1.0), owner))
    best = surest[np.unique(owner[surest], return_index=True)[1]]
    top = np.where(low[best] > 0, rate[best], 0.0)[owner]
    step = np.where(top > 0, top, 1.0) / TOP
    graded = known & (top > 0) & ((high - low) / 2 <= max_error * step)
    grade = np.floor(np.minimum(rate / step, TOP) + 0.5).astype(np.int8)
    return pa.table(
        {
            "context": batch.contexts.take(pa.array(batch.context_value[owner])),
            "item": batch.items.take(pa.array(batch.pair_item)),
            "rate": pa.array(rate, mask=~known),
            "low": pa.array(low, mask=~known),
            "high": pa.array(high, mask=~(known & np.isfinite(high))),
            "examined": examined,
            "clicks": clicks,
            "records": n.sum(axis=1),
            "grade": pa.array(grade, mask=~graded),
        }
    )


def _notes(table: pa.Table, max_error: float, notes: list[str]) -> list[str]:
    """How many items have a grade and what it is, the notes on the curve, and what is left out."""
    graded = table.filter(table["grade"].is_valid())
    contexts, every = (len(t["context"].unique()) for t in (graded, table))
    share = (
        f"{graded.num_rows:,} of {table.num_rows:,} items of contexts have a grade, in "
        f"{contexts:,} of {every:,} contexts."
    )
    if graded.num_rows < table.num_rows:
        share += (
            " The others were not shown often enough to be within "
            f"{max_error:g} {'grade' if max_error == 1 else 'grades'} of the truth, and are left "
            "out of what `write` writes."
        )
    rule = (
        "A grade is 3 × the item's click rate where it is examined, relative to the best of its "
        "context, rounded."
    )
    found = [share, rule, *notes]
    if lost := table["rate"].null_count:
        found.append(
            f"{number_of(lost, 'item')} of contexts stood only at positions whose examination the "
            "log cannot tell. Say what is known: judgments(…, examination=[1, 0.6, …])."
        )
    return found


# --- files ----------------------------------------------------------------------------------------


def checked_format(path: str | Path, asked: str | None) -> Format:
    """The format of a file that can be written; to be known before the work, not after."""
    target, formats = located(path), dict.fromkeys(_ENDINGS.values())
    found = _ENDINGS.get(ending(target)) if asked is None else asked
    if found not in formats:
        raise ReportError(
            f"judgments cannot be written to {str(path)!r} as {asked or 'what it ends in'}: end it "
            f"in {', '.join(_ENDINGS)}, or say format= {', '.join(formats)}."
        )
    if not has_place(target):
        raise ReportError(f"there is no directory for {str(path)!r}. Make it first.")
    return found


def _write(table: pa.Table, path: str | Path, format_: Format) -> None:
    """Write judgments, those without a grade only in the table."""
    if format_ == "table":
        write_rows(table, path)
        return
    graded = table.filter(table["grade"].is_valid()).select(["context", "item", "grade"])
    if format_ == "trec":  # a field ends at a blank
        for name in ("context", "item"):
            wrong = pc.match_substring_regex(graded[name].cast("string"), r"\s|^$")
            at = np.flatnonzero(np.asarray(wrong))
            if len(at):
                raise ReportError(
                    f"{len(at):,} judgments have a blank in the {name}, for example "
                    f"{graded[name][int(at[0])].as_py()!r}, which a TREC file cannot hold. Read "
                    f"the log with ids as {name}s, or write .json or .csv."
                )
    batches = graded.to_batches(max_chunksize=50_000)
    rows = (row for b in batches for row in zip(*(c.to_pylist() for c in b.columns), strict=True))
    with (
        whole_file(located(path)) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        if format_ == "trec":
            file.writelines(f"{context} 0 {item} {grade}\n" for context, item, grade in rows)
        elif format_ == "quepid":
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("query", "docid", "rating"))
            writer.writerows(rows)
        else:
            ratings = [
                {
                    "query": str(context),
                    "ratings": [{"docId": str(i), "rating": str(grade)} for _, i, grade in some],
                }
                for context, some in groupby(rows, key=lambda row: row[0])
            ]
            body = {
                "name": Path(path).stem,
                "description": "Click rates corrected for examination, as grades from 0 to 3",
                "type": "IMPORT_JUDGMENT",
                "judgmentRatings": ratings,
            }
            json.dump(body, file, ensure_ascii=False, indent=1)
            file.write("\n")
