"""`optimize`: the best policy that a log supports, and what it is honestly worth."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import batches_of, pooled, regrouped
from foreclick.batches.arrays import padded
from foreclick.curves.learnt import with_curves
from foreclick.engines import TableLike, open_source, write_rows
from foreclick.errors import ModelError, PolicyError
from foreclick.estimation.fits import ITEMS_CHANGE
from foreclick.estimators import EstimatorLike, Ladder, Weighted, parse_estimators
from foreclick.ladder.fit import checked, production_covariance, production_fit
from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.metrics import USUAL_METRICS, Metric, only_metric
from foreclick.optimization.choice import (
    ANY,
    CHANGED,
    IMPOSSIBLE,
    PROBABILITY,
    UNSURE,
    Cell,
    Constraints,
    LadderRates,
    Solver,
)
from foreclick.optimization.counts import FoldedLog
from foreclick.optimization.earned import Choices
from foreclick.options import verb, worker_count
from foreclick.policies import Lists, Policy, policy_for
from foreclick.policies.base import Names
from foreclick.policies.serving import ITEMS
from foreclick.progress import working
from foreclick.question import check_question
from foreclick.questions.answers import Evaluation, line_of
from foreclick.questions.asked import LOGGING, make_question
from foreclick.questions.evaluate import evaluate
from foreclick.results import Headline, Result, Value, format_value
from foreclick.tallies import LogLike, Tally, local_tally, refuse_drawn
from foreclick.words import did_you_mean, number_of

# Rows times positions up to which a split log stays in memory; a judge keeps ten times as much.
KEPT = 4_000_000

_WHY = {
    UNSURE: "nothing is sure to be better",
    IMPOSSIBLE: "no policy keeps to the constraints, with what was shown",
}


class Chosen(Lists):
    """Lists that `optimize` chose. Their probabilities sum to 1, and are not looked at again."""

    def __getstate__(self) -> dict[str, Any]:
        """With the table that is written, which says which contexts are changed."""
        names = ("table", "context", "items", "probability")
        return super().__getstate__() | {name: self.__dict__[name] for name in names}

    @property
    def _what(self) -> str:
        return Lists.__name__

    @cached_property
    def optimized(self) -> bool:
        """Whether `optimize` chose it: always."""
        return True

    def _check(self) -> None:
        """Nothing: reading a policy that lies in a file would fill the memory."""


@dataclass(frozen=True, repr=False)
class Optimized(Result):
    """The best policy that a log supports.

    | column | meaning |
    |---|---|
    | value, se, low, high | its value by records that did not choose it, with its interval |
    | naive | the estimate that chose it, which is too large |
    | production | the mean reward of the log |
    | change, lift | value − production, and that divided by production, with paired intervals |
    | covered | the share of its exposure that was ever logged |
    | contexts, changed, kept | the numbers of contexts: all, with a new policy, as today |
    | lists | the number of lists of changed contexts |
    | verdict | better, worse, no difference (worth having), or cannot tell |

    Printed, it leaves out columns that follow from others; `rows` has them all.

    Attributes:
        policy: the policy, with production's own lists where these stay.
        evaluation: the evaluation that judged it.
        contexts: an Arrow table with one row per context: why it was changed or not, its records,
            and its rewards. `naive` is the estimate of the new policy, `sure` the same after
            pessimism, and `se` its standard error by the ladder.
        names: the log's own column names, by role.
    """

    policy: Lists = field(kw_only=True, compare=False)
    evaluation: Evaluation | None = field(kw_only=True)
    contexts: pa.Table = field(kw_only=True, compare=False)
    names: Names = field(default_factory=dict, kw_only=True, compare=False)
    _hidden = "se change change_low change_high contexts"

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns that the table prints; `lists` only if a context has more than one."""
        one_each = self["lists"] == self["changed"]
        return tuple(c for c in super().shown if c != "lists" or not one_each)

    @property
    def headline(self) -> Headline:
        """The policy's value, judged by records that did not choose it."""
        row = self.rows[0]
        if row["covered"] is None:  # nobody judged it
            worth = (format_value("value", row["production"]), format_value("value", row["value"]))
            line: tuple[str, ...] = (str(row["metric"]), "not judged", " → ".join(worth))
        else:
            line = line_of(row)
        title = f"The policy chosen by {row['estimator']}, against production"
        return Headline(title, (line,))

    @property
    def value(self) -> float:
        """The value by records that did not choose it; NaN if the judge covers none of it."""
        value = self["value"][0]
        return math.nan if value is None else float(value)

    @property
    def naive(self) -> float:
        """The estimate that chose the policy."""
        return float(self["naive"][0])

    @property
    def production(self) -> float:
        """The mean reward of production."""
        return float(self["production"][0])

    def write(self, path: str | Path) -> None:
        """Write the policy as Parquet or CSV, by the file's extension; `fc.Lists` reads it.

        The columns are the context and the list of items, named as in the log, `probability`, and
        whether the context is `changed`. The lists of a context are adjacent, the likeliest first.
        In CSV a list is JSON, for instance ``[7, 3]``.

        Args:
            path: the file; an existing one is replaced.
        """
        write_rows(as_lists(self.policy.table, self.names), path)


@verb(logging=LOGGING)
def optimize(
    log: LogLike,
    *,
    metrics: str | Metric | Sequence[str | Metric] = USUAL_METRICS[1],
    estimators: EstimatorLike | Sequence[EstimatorLike] = "ladder-ip",
    pessimism: float = 1.0,
    min_shown: float = 0,
    max_change: float | None = None,
    pinned: TableLike | None = None,
    banned: Iterable[Hashable] | TableLike | None = None,
    deterministic: bool = False,
    judge: EstimatorLike | None = "ladder",
    logging: Policy | Literal["frequency", "propensity"] | None = None,
) -> Optimized:
    """Find the ranking policy that would earn most, as far as the log can show.

    In every context, the policy with the largest estimate is chosen among all policies (Li et al.,
    KDD 2018, section 4.3). The maximum of many estimates also selects their errors, so each click
    rate is lowered by `pessimism` standard errors first, and the policy is not judged by the
    estimate that chose it: the log is split into halves, a policy is chosen without each of them,
    and judged by it. `value` is therefore that of policies chosen from a part of the log; the
    returned policy, chosen from all of it, is rather better.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        metrics: the metric to maximise. Lists are as long as it counts, or as those of the log.
        estimators: the one estimator that chooses: "ladder-ip" (which other ladders stand for too:
            the best list is found by what an item earns at a position); or "list", which chooses
            among the lists of the log, "ip", "item", "pbm", or a `ClickModel` with such cells. With
            `Weighted("ip", clip=100)`, exposure counts up to M = 100 times the log's.
        pessimism: the number of standard errors by which rates are lowered. A context keeps its
            lists unless the new policy is better even so, or production breaks a constraint, for
            example shows a banned item. 0 for the paper's plain optimum, everywhere.
        min_shown: how often an item must have been shown (at the position, if the estimator has
            cells by position) to be chosen.
        max_change: the largest share of a context's slots that may differ from production's, for a
            careful first step.
        pinned: a table of `context`, `item`, `position`: items with a fixed position.
        banned: items that must not be shown; or a table of `item`, or of `context` and `item`.
        deterministic: whether each context gets a single list.
        judge: the estimator that judges the policy; None: nothing is held out, and `value` is the
            estimate that chose the policy, which is too large.
        logging: the logging policy, if it is known; "propensity" or "frequency", as in `evaluate`:
            how the estimator that chooses weighs clicks. Judges use frequencies.

    Returns:
        An `Optimized`: its `policy`, and one row with its value.

    Raises:
        ModelError: the estimator or the metric cannot choose a policy slot by slot.
        PolicyError: `pinned` or `banned` lacks a column, or contradicts itself.

    Examples:
        >>> log = {
        ...     "context": ["q"] * 400,
        ...     "items": [[1, 2], [2, 1]] * 200,
        ...     "clicks": [[0, 1], [1, 0]] * 100 + [[0, 0], [1, 0]] * 100,
        ... }
        >>> best = optimize(log, metrics="clicks@1")
        >>> best.policy.table.to_pylist()
        [{'context': 'q', 'item_1': 2, 'probability': 1.0, 'changed': True}]
        >>> best.production, round(best.value, 2)
        (0.5, 1.0)
    """
    metric, by = _chosen_by(metrics, estimators)
    for each in (by, *([] if judge is None else parse_estimators(judge))):
        each.model.examined(0)  # refuses a curve for each context: folds number contexts anew
    tally, notes = local_tally(log)
    refuse_drawn(tally, "optimize")
    if isinstance(logging, Policy):
        logging = policy_for(tally, logging, "logging")
    question, assumed = make_question(tally, [], [metric], [by], logging=logging)
    check_question(tally, question)
    (by,), source = question.estimators, question.logging_of(0)
    depth, folds = min(tally.shape.depth, metric.depth), 1 if judge is None else 2
    theta, model = np.array(metric.theta[:depth]), by.model
    if model.over_lists and source == "propensity":  # that of the whole list
        depth, theta = tally.shape.depth, padded(theta, tally.shape.depth)
    named = _named_constraints(tally, depth, pinned, banned)
    constraints = Constraints(*named, max_change, deterministic, min_shown, fallback=pessimism > 0)
    with working() as report:
        report("Counting")
        batches = batches_of(tally)
        log_folds, ladder = FoldedLog(batches, folds), None
        if isinstance(by, Ladder):
            fit = checked(production_fit(batches, by, metric.reward, rise=False))
            ladder = LadderRates(fit, production_covariance(batches, fit))
        q, (clip,) = theta * np.array(model.examined(depth)), by.clip or (math.inf,)
        # Cells: lists of the log, items at positions, or items. One position is every position.
        alone = model.pins_position or depth == 1
        cell: Cell = "list" if model.over_lists else "ip" if alone else "item"
        solver = Solver(cell, theta, q, clip, ladder, pessimism, constraints, folds)
        counts = log_folds.counts(Choices(metric.reward, theta, solver.by_list, source))
        parts, done = [], 0
        for *tables, rows in pooled(solver, counts, worker_count()):
            parts.append(tables)
            done += rows
            report("Choosing the best lists", min(done / max(batches.rows, 1), 1))
        contexts, policy, held_out = map(pa.concat_tables, zip(*parts, strict=True))
        report("Judging")
        judged = None
        if judge is not None and len(held_out):
            judged = _judged(log_folds, held_out, metric, judge)
        notes = [*notes, *assumed]
        if ladder is not None:
            notes += ladder.fit.drift.notes()
    row, words = summary(contexts, judged, (by.name, metric.name), held_out=judge is not None)
    return Optimized(
        (row,),
        tuple(row),
        (*notes, *words),
        policy=Chosen(policy, items=numbered(ITEM, depth)),
        evaluation=judged,
        contexts=contexts,
        names=tally.names,
    )


def _chosen_by(metrics: object, estimators: object) -> tuple[Metric, Weighted | Ladder]:
    """The metric and the one estimator, if a policy can be chosen by them."""
    metric = only_metric(metrics, "a policy is the best by")
    if metric.first:
        raise ModelError(
            f"{metric.name} counts first clicks, which depend on all that stands above, so that "
            "the best list is not found slot by slot. Optimise clicks@K or dcg@K, and evaluate the "
            f"policy by {metric.name}."
        )
    by, *others = parse_estimators(estimators)
    if others:
        raise ModelError(
            f"estimators={estimators!r}: a policy is chosen by one estimator. Give one."
        )
    if isinstance(by, Ladder):  # the rungs from the position down: by these the best list is found
        return metric, by if by.top == "ip" else Ladder("ip", by.examination)
    cell, clips = by.model.cell, by.clip or (math.inf,)
    if callable(cell) or cell == "prefix" or not by.model.sees_items or len(clips) > 1:
        raise ModelError(
            f"{by.name!r} cannot choose a policy: it needs a cell of 'list', of 'item', or of "
            "'item' and 'position', and no more than one clip. Use 'ladder-ip', 'list', 'ip', "
            "'item' or 'pbm'."
        )
    return metric, by


def _named_constraints(log: Tally, depth: int, pinned: object, banned: object) -> tuple[Any, Any]:
    """The first two `Constraints`, which name items; lists have `depth` positions."""

    def typed(value: Hashable, column: str) -> Hashable:
        """As the log has it, text or a whole number: otherwise nothing would match."""
        kind = log.stored.kinds.field(CONTEXT if column == CONTEXT else f"{ITEM}_1").type
        if pa.types.is_string(kind):
            return str(value)
        try:
            return int(value)  # type: ignore[call-overload,no-any-return]
        except (TypeError, ValueError):
            raise PolicyError(
                f"{value!r} is no {column} of the log, whose {column}s are whole numbers."
            ) from None

    def rows_of(option: str, source: object, columns: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of a small table."""
        table = open_source(source)
        missing = [c for c in columns if c not in table.columns]
        if missing:
            raise PolicyError(
                f"{option}: the table needs the columns {', '.join(columns)}, and {missing[0]!r} "
                f"is not there.{did_you_mean(missing[0], table.columns)} It has "
                f"{', '.join(table.columns)}."
            )
        also = [CONTEXT] if CONTEXT in table.columns and CONTEXT not in columns else []
        return table.select(*also, *columns).to_pylist()

    pins: dict[Hashable, dict[int, Hashable]] = {}
    columns = (CONTEXT, ITEM, "position")
    for row in [] if pinned is None else rows_of("pinned", pinned, columns):
        context, item = typed(row[CONTEXT], CONTEXT), typed(row[ITEM], ITEM)
        position = int(row["position"])
        if not 1 <= position <= depth:
            raise PolicyError(
                f"pinned: position {position} for {item!r} in context {context!r}, but lists "
                f"have {depth} positions. Pin it higher, or use a metric that counts further."
            )
        at = pins.setdefault(context, {})
        if at.setdefault(position, item) != item:
            raise PolicyError(
                f"pinned: {at[position]!r} and {item!r} are both to be at position {position} "
                f"of context {context!r}. Pin one item there."
            )
    if isinstance(banned, list | tuple | set | frozenset):
        rows: list[dict[str, Any]] = [{ITEM: item} for item in banned]
    else:
        rows = [] if banned is None else rows_of("banned", banned, (ITEM,))
    bans: dict[Hashable, set[Hashable]] = {}
    for row in rows:
        context = typed(row[CONTEXT], CONTEXT) if CONTEXT in row else ANY
        bans.setdefault(context, set()).add(typed(row[ITEM], ITEM))
    return pins, bans


def _judged(folds: FoldedLog, held_out: pa.Table, metric: Metric, judge: object) -> Evaluation:
    """What policies are worth to the records that they were not chosen from.

    A fold of a context is a context of its own, whose policy was chosen without it: so this is one
    evaluation like any other.
    """
    tally = folds.batches.tally
    (by,), _ = with_curves(tally, parse_estimators(judge), [metric])
    if isinstance(by, Ladder):  # of what production has shown
        by = Ladder(by.top, by.examination, by.stopping, same_retrieval=True)
    apart = regrouped(tally, folds, KEPT)
    judged = evaluate(apart, Lists(held_out), metrics=metric, estimators=by, missing="production")
    # A note on drift is about the whole log.
    notes = tuple(note for note in judged.notes if not note.startswith(ITEMS_CHANGE))
    return replace(judged, notes=notes)


# --- the answer -----------------------------------------------------------------------------------


def summary(
    contexts: pa.Table, judged: Evaluation | None, names: tuple[str, str], *, held_out: bool
) -> tuple[dict[str, Value], list[str]]:
    """What all contexts earn together, by the naive estimate and honestly: one row, and notes.

    Args:
        contexts: see `Optimized`.
        judged: how the policies of halves were judged, if they were.
        names: of the estimator and the metric.
        held_out: whether records were held out to judge by.
    """
    n = np.asarray(contexts["records"])
    production, naive = (
        float(n @ np.asarray(contexts[c])) / (float(n.sum()) or 1.0)
        for c in ("production", "naive")
    )
    changed = int(pc.sum(pc.equal(contexts["why"], CHANGED)).as_py() or 0)
    # Where no half has a sure improvement, nothing was judged, and production would stay.
    honest: dict[str, Value] = {"value": production if held_out else naive}
    honest |= judged.to_dicts()[0] if judged else {}
    paired = ("change", "change_low", "change_high", "lift", "lift_low", "lift_high")
    row: dict[str, Value] = {
        "estimator": names[0],
        "metric": names[1],
        **{column: honest.get(column) for column in ("value", "se", "low", "high")},
        "naive": naive,
        "production": production,
        **{column: honest.get(column) for column in paired},
        "covered": honest.get("covered"),
        "contexts": contexts.num_rows,
        "changed": changed,
        "kept": contexts.num_rows - changed,
        "lists": int(np.asarray(contexts["lists"]).sum()),
        "verdict": honest.get("verdict"),
    }
    reasons = contexts["why"].value_counts().to_pylist()
    stay = (
        f" {one['counts']:,} stay as they are: {_WHY[one['values']]}."
        for one in sorted(reasons, key=lambda one: -one["counts"])
        if one["values"] != CHANGED
    )
    notes = [f"{changed:,} of {contexts.num_rows:,} contexts get a new policy." + "".join(stay)]
    if judged is not None:
        value = "nothing" if row["value"] is None else f"{float(row['value']):.4g}"
        notes.append(
            f"Policies chosen from half of the log are worth {value} to the other half; this one, "
            f"chosen from all of it, may be better. The estimate that chose it says {naive:.4g}, "
            f"and production earns {production:.4g}."
        )
        notes += judged.notes
    elif not held_out:
        notes.append(
            "No records were held out to evaluate the policy (judge=None), so `value` is the "
            "estimate that chose it, which is too high."
        )
    elif changed:
        notes.append(
            "Half of the log is too small to find an improvement, so this policy was not tested, "
            f"and value is production's. Next: log {number_of(float(n.sum()), 'more record')}."
        )
    return row, notes


def as_lists(policy: pa.Table, names: Mapping[str, str | None]) -> pa.Table:
    """A policy as a file has it: columns called as in the log, and each list in one column.

    Args:
        policy: `context`, `item_1` …, `probability`, and perhaps `changed`.
        names: what the log's columns are called, by their roles. Where one is called as another
            column of the policy, both keep the names of their roles.
    """
    context, items = names.get(CONTEXT) or CONTEXT, names.get(ITEMS) or ITEMS
    others = {PROBABILITY, "changed"}
    if {context, items} & others or context in {ITEMS, items} or items == CONTEXT:
        context, items = CONTEXT, ITEMS
    slots = [name for name in policy.column_names if name.startswith(f"{ITEM}_")]
    rest = [name for name in policy.column_names if name in others]
    tables = []
    for batch in policy.to_batches():
        columns = [batch[name] for name in slots]
        shown = np.stack([np.asarray(column.is_valid()) for column in columns], axis=1)
        position = np.arange(1, len(slots) + 1)
        length = (shown * position).max(axis=1, initial=0)
        row, at = np.nonzero(position <= length[:, None])
        values = pa.concat_arrays(columns).take(pa.array(at * len(batch) + row))
        lists = pa.ListArray.from_arrays(np.append(0, np.cumsum(length)).astype(np.int32), values)
        arrays = {context: batch[CONTEXT], items: lists} | {name: batch[name] for name in rest}
        tables.append(pa.table(arrays))
    return pa.concat_tables(tables)
