"""`judgments`: which items are relevant to a context, from clicks and how much is examined."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import Batch, Floats, batches_of
from foreclick.engines import write_rows
from foreclick.engines.files import checked_file, ending, whole_file
from foreclick.errors import ReportError
from foreclick.estimation.sums import whole_number
from foreclick.estimators import Ladder
from foreclick.ladder.fit import checked, production_covariance, production_fit
from foreclick.ladder.fitted import LadderFit
from foreclick.ladder.log_chain import pairs_of
from foreclick.logs import CONTEXT, ITEM
from foreclick.metrics import CLICKS
from foreclick.options import verb
from foreclick.policies.base import Names
from foreclick.policies.runs import trec_query
from foreclick.progress import report_step
from foreclick.question import check_columns, check_earned
from foreclick.results import Result
from foreclick.tallies import LogLike, local_tally, refuse_drawn
from foreclick.words import number_of, plural

ENDINGS = (".qrels", ".txt", ".json", ".csv", ".parquet")

TOP = 3  # the highest grade


@dataclass(frozen=True, repr=False)
class Judgments(Result):
    """Grades of items, counted: one row per grade, from the highest, and one for no grade.

    | column | meaning |
    |---|---|
    | grade | 3 (as good as the best of the context) to 0; None: too few records |
    | pairs | the number of (context, item) pairs with this grade |
    | contexts | the number of contexts with such an item |
    | records | how often these items were shown |
    | clicks | how often they were clicked |

    Attributes:
        items: an Arrow table with one row per item of a context: `context`, `item`; `rate`, its
            click rate when examined, with its interval `low`, `high`; `examined`, the equivalent
            number of records at the first position; `clicks`; `records`; and `grade`, which may be
            null.
        names: the log's own column names, by role.
    """

    items: pa.Table = field(kw_only=True, compare=False)
    names: Names = field(default_factory=dict, kw_only=True, compare=False)

    def save(self, path: str | os.PathLike[str], title: str = "") -> None:
        """Write the judgments, as `write` does, or a page or picture of the counts.

        Args:
            path: the file; an existing one is replaced.
            title: the title of the page.
        """
        if title or ending(os.fspath(path)) not in ENDINGS:
            super().save(path, title)
        else:
            self.write(path)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the judgments for other tools; the extension decides the format.

        | extension | content |
        |---|---|
        | .qrels, .txt | lines ``context 0 item grade``, for trec_eval, ir_measures, ranx |
        | .json | the request body for OpenSearch's Search Relevance Workbench |
        | .csv, .parquet | all of `items`, with and without a grade, with the log's own names |

        Fields of a TREC file cannot contain blanks: contexts are percent-encoded, ``red%20shoes``,
        which `Ranking` decodes in runs and ``urllib.parse.unquote`` anywhere.

        Args:
            path: the file; an existing one is replaced.
        """
        target = checked_file(path, ENDINGS)
        kind = ending(target)
        if kind in (".csv", ".parquet"):
            write_rows(self._named(), target)
            return
        graded = self.items.filter(self.items["grade"].is_valid())
        graded = graded.select(["context", "item", "grade"])
        if kind != ".json":
            graded = _as_trec(graded)
        batches = graded.to_batches(max_chunksize=50_000)
        rows = (r for b in batches for r in zip(*(c.to_pylist() for c in b.columns), strict=True))
        with (
            whole_file(target) as partial,
            partial.open("w", encoding="utf-8", newline="") as file,
        ):
            if kind != ".json":
                file.writelines(f"{context} 0 {item} {grade}\n" for context, item, grade in rows)
            else:
                ratings = [
                    {
                        "query": str(context),
                        "ratings": [
                            {"docId": str(i), "rating": str(grade)} for _, i, grade in some
                        ],
                    }
                    for context, some in groupby(rows, key=lambda row: row[0])
                ]
                body = {
                    "name": PurePath(path).stem,
                    "description": "Click rates corrected for examination, as grades from 0 to 3",
                    "type": "IMPORT_JUDGMENT",
                    "judgmentRatings": ratings,
                }
                json.dump(body, file, ensure_ascii=False, indent=1)
                file.write("\n")

    def _named(self) -> pa.Table:
        """`items`, with context and item called as in the log, unless another column is."""
        own = {role: self.names.get(role) or role for role in (CONTEXT, ITEM)}
        called = [own.get(name, name) for name in self.items.column_names]
        return self.items if len(set(called)) < len(called) else self.items.rename_columns(called)


def _as_trec(graded: pa.Table) -> pa.Table:
    """Contexts and items as fields of a TREC file, which have no blank and are not empty."""
    for name, wrong in ((CONTEXT, "^$"), (ITEM, r"\s|^$")):
        values = graded[name].cast(pa.string())
        at = np.flatnonzero(np.asarray(pc.match_substring_regex(values, wrong)))
        if len(at):
            what = f"a blank in the {name}" if name == ITEM else f"an empty {name}"
            raise ReportError(
                f"{number_of(len(at), 'judgment')} {plural(len(at), 'has', 'have')} {what}, for "
                f"example {values[int(at[0])].as_py()!r}, which a TREC file cannot hold. Read the "
                f"log with ids as {name}s, or write .json or .csv."
            )
    if pa.types.is_string(graded[CONTEXT].type):
        contexts = pc.dictionary_encode(graded[CONTEXT].combine_chunks())
        fields = pa.array(map(trec_query, contexts.dictionary.to_pylist()), pa.string())
        graded = graded.set_column(0, CONTEXT, fields.take(contexts.indices))
    return graded


@verb()
def judgments(
    log: LogLike,
    *,
    examination: Sequence[float] | None = None,
    confidence: float = 0.95,
) -> Judgments:
    """Grade the items of each context, from clicks and the examination of positions.

    Click rates are the ladder's. With C clicks in records that amount to E at the first position,
    and m the rate that is expected of an item that production ranks alike, the rate of an item is

        μ = (C + a) / (E + a / m),

    so that an item with few clicks leans on how often and how high production shows it. Its
    interval is that of a gamma distribution, with the errors of clicks, of the context's level, of
    the expected rate, and of examination.

    The best item of a context is the one whose interval has the highest lower end. With b its rate,
    an item gets the grade 3 μ / b, rounded, and at most 3, if half the width of its interval is at
    most one grade. Other items have no grade: their records are too few.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        examination: p_1, p_2, …, if it is known, such as the curve of another log. By default it is
            learnt from items that moved, and its errors count.
        confidence: the confidence level of intervals.

    Returns:
        A `Judgments`: one row per grade; `items` has one row per item of a context.

    Examples:
        The second position is examined half as much, and item 2 is as good as item 1:

        >>> log = {
        ...     "context": ["q"] * 400,
        ...     "items": [[1, 2]] * 400,
        ...     "clicks": [[1, 0]] * 150 + [[1, 1]] * 50 + [[0, 1]] * 50 + [[0, 0]] * 150,
        ... }
        >>> found = judgments(log, examination=[1, 0.5])
        >>> found.items["rate"].to_numpy().round(2).tolist(), found.items["grade"].to_pylist()
        ([0.5, 0.5], [3, 3])
    """
    tally, notes = local_tally(log)
    refuse_drawn(tally, "judgments")
    check_columns(tally.shape, [CLICKS], ())
    check_earned(tally, CLICKS)
    batches, ladder = batches_of(tally), Ladder(examination=examination)
    report_step("Grading items")
    fit = checked(production_fit(batches, ladder, CLICKS))
    shared = production_covariance(batches, fit)
    table = pa.concat_tables(
        [_graded(batch, fit, shared, confidence) for batch in batches]
    ).combine_chunks()
    rows = []
    for grade in range(TOP, -2, -1):  # the last: none
        some = table.filter(pc.equal(pc.fill_null(table["grade"], -1), grade))
        row = {"grade": str(grade) if grade >= 0 else "none", "pairs": some.num_rows}
        row["contexts"] = len(some["context"].unique())
        for name in ("records", "clicks"):
            row[name] = whole_number(float(np.asarray(some[name]).sum()))
        rows.append(row)
    graded = table.filter(table["grade"].is_valid())
    contexts, every = (len(t["context"].unique()) for t in (graded, table))
    share = (
        f"{graded.num_rows:,} of {table.num_rows:,} items of contexts have a grade, in "
        f"{contexts:,} of {every:,} contexts."
    )
    if graded.num_rows < table.num_rows:
        share += " The others may be more than 1 grade off; `write` leaves them out."
    notes = [share, *notes]
    if tally.decayed:
        notes.append(
            "Some periods count less than others, so that a record counts as less than one. "
            "Intervals are then too wide."
        )
    return Judgments(tuple(rows), tuple(rows[0]), tuple(notes), items=table, names=tally.names)


def _graded(batch: Batch, fit: LadderFit, shared: Floats, confidence: float) -> pa.Table:
    """Rates, intervals and grades of the pairs of a batch; `shared` is what all contexts share."""
    from scipy.special import gammaincinv  # noqa: PLC0415 - slow to import

    owner, none = batch.pair_context, np.zeros((0, batch.pair_count, 2))
    parameters, unit = fit.parameters, fit.spec.unit
    part = pairs_of(batch, fit, parameters.p).with_candidates(none)
    r, jacobian = part.rates(parameters), part.rate_jacobian(parameters)
    variance = r.alpha / (r.exposure + parameters.a / r.m)
    variance += (r.alpha * r.prior_share) ** 2 / r.weight[owner]
    variance += np.maximum(((jacobian @ shared) * jacobian).sum(axis=1), 0.0)
    rate, shape, tail = r.alpha * unit, r.alpha**2 / variance, (1 - confidence) / 2
    low, high = (gammaincinv(shape, q) * rate / shape for q in (tail, 1 - tail))
    earned = batch.rewards[fit.spec.reward]
    clicks = batch.by_slot(batch.earned_slot(earned), batch.n[earned.row] * earned.value)
    # The best of each context, as every context has a pair, is the one that begins highest.
    surest = np.lexsort((np.arange(len(low)), -low, owner))
    best = surest[np.unique(owner[surest], return_index=True)[1]]
    step = rate[best][owner] / TOP
    graded = (high - low) / 2 <= step
    grade = np.floor(np.minimum(rate / step, TOP) + 0.5).astype(np.int8)
    return pa.table(
        {
            "context": batch.contexts.take(pa.array(owner)),
            "item": batch.items.take(pa.array(batch.pair_item)),
            "rate": rate,
            "low": low,
            "high": high,
            "examined": r.exposure,
            "clicks": clicks.sum(axis=1),
            "records": batch.shown.sum(axis=1),
            "grade": pa.array(grade, mask=~graded),
        }
    )
