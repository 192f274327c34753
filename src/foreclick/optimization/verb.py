"""`optimize`: the best policy that a log supports, and what it is honestly worth."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from foreclick.batches import batches_of, pooled, regrouped
from foreclick.engines import TableLike, open_source
from foreclick.errors import ModelError, PolicyError
from foreclick.estimate.fitting import production_covariance, production_prior
from foreclick.estimators import EstimatorLike, Ladder, Weighted, parse_estimators
from foreclick.learn.curves import with_curves
from foreclick.learn.trend import ITEMS_CHANGE, drift_of
from foreclick.logs import CONTEXT, ITEM, numbered
from foreclick.metrics import USUAL_METRICS, Metric, only_metric
from foreclick.optimization.choice import Constraints, LadderRates, Solver
from foreclick.optimization.counts import FoldedLog
from foreclick.optimization.result import Chosen, Optimized, summary
from foreclick.options import verb, worker_count
from foreclick.policies import Lists
from foreclick.progress import working
from foreclick.question import check_metrics
from foreclick.questions.answers import Evaluation
from foreclick.questions.evaluate import evaluate
from foreclick.tallies import LogLike
from foreclick.tallies.base import Tally, local_tally
from foreclick.words import did_you_mean

# Rows times positions up to which a split log stays in memory; a judge keeps ten times as much.
KEPT = 4_000_000


@verb()
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
) -> Optimized:
    """The ranking policy that would earn most, as far as the log can show.

    In every context, among all policies, the one with the largest estimate (Li et al., KDD 2018,
    section 4.3), where each click rate is lowered by `pessimism` standard errors: whoever takes the
    best of many estimates takes their errors too. For the same reason its value is not that
    estimate: the records are dealt to two halves, a policy is chosen without each of them, and
    judged by it. So `value` is that of policies chosen from a part of the log: the policy itself,
    chosen from all of it, is rather better.

    Args:
        log: a Log, a Tally, or anything `read_log` accepts with the default column names.
        metrics: what is to be large. Lists are as long as it counts, or as those of the log.
        estimators: "ladder-ip" (which other ladders stand for too: the best list is found by what
            an item earns at a position), or one of the paper's with a cell of items and positions:
            "ip", "item", "pbm", or a `ClickModel` of that kind.
        pessimism: by how many standard errors rates are lowered. A context stays as it is unless
            the new policy is better even so, or production breaks a constraint, for example shows
            what is banned. 0 for the paper's plain optimum, everywhere.
        min_shown: how often an item must have been shown (at the position, if the estimator has
            cells by position) to be shown.
        max_change: the share of a context's slots that may differ from production's, for a careful
            first step.
        pinned: a table of `context`, `item`, `position`: what must be where.
        banned: items that must not be shown; or a table of `context` and `item`.
        deterministic: one list a context.
        judge: the estimator of what the policy is worth; None: nothing is held out, and
            `value` is the naive one, which flatters.

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
    tally, notes = local_tally(log)
    check_metrics(tally.shape, [metric])
    (by,), assumed = with_curves(tally, [by], [metric])
    depth, folds = min(tally.shape.depth, metric.depth), 1 if judge is None else 2
    named = _named_constraints(tally, depth, pinned, banned)
    constraints = Constraints(*named, max_change, deterministic, min_shown, fallback=pessimism > 0)
    with working() as report:
        report("Counting")
        batches = batches_of(tally)
        log_folds = FoldedLog(batches, folds)
        by_position, theta, p, ladder = True, np.array(metric.theta[:depth]), (1.0,) * depth, None
        if isinstance(by, Ladder):
            fit = production_prior(batches, by, metric.reward)
            ladder = LadderRates(fit, production_covariance(batches, fit))
        else:
            by_position, p = by.model.pins_position, by.model.examined(depth)
        q = theta * np.array(p)
        solver = Solver(by_position, theta, q, ladder, pessimism, constraints, folds)
        counts = log_folds.counts(metric.reward, depth)
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
            notes += drift_of(batches, metric.reward, ladder.fit.theta.p).notes()
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
    by_slot = not callable(cell) and not by.model.over_lists and by.model.sees_items
    if not by_slot or clips != (math.inf,):
        raise ModelError(
            f"{by.name!r} cannot choose a policy: it needs a cell of 'item', or of 'item' and "
            "'position', and no clip. Use 'ladder-ip', 'ip', 'item' or 'pbm'."
        )
    return metric, by


def _named_constraints(
    log: Tally,
    depth: int,
    pinned: object,
    banned: Any,  # noqa: ANN401 - items, or any table
) -> tuple[Any, Any, Any]:
    """The first three `Constraints`, which name items; lists have `depth` positions."""

    def typed(value: Hashable, column: str) -> Hashable:
        """As the log has it, text or a whole number: otherwise nothing would match."""
        kind = log.table.kinds.field(CONTEXT if column == CONTEXT else f"{ITEM}_1").type
        if pa.types.is_string(kind):
            return str(value)
        try:
            return int(value)  # type: ignore[call-overload,no-any-return]
        except (TypeError, ValueError):
            raise PolicyError(
                f"{value!r} is no {column} of the log, whose {column}s are whole numbers."
            ) from None

    pins: dict[Hashable, dict[int, Hashable]] = {}
    for row in _rows(pinned, (CONTEXT, ITEM, "position")):
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
    everywhere, banned_in = frozenset[Hashable](), dict[Hashable, frozenset[Hashable]]()
    if isinstance(banned, list | tuple | set | frozenset):
        everywhere = frozenset(typed(item, ITEM) for item in banned)
    else:
        for row in _rows(banned, (CONTEXT, ITEM)):
            context = typed(row[CONTEXT], CONTEXT)
            banned_in[context] = banned_in.get(context, frozenset()) | {typed(row[ITEM], ITEM)}
    return pins, everywhere, banned_in


def _rows(source: object, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a small table of constraints."""
    if source is None:
        return []
    table = open_source(source)
    missing = [c for c in columns if c not in table.columns]
    if missing:
        raise PolicyError(
            f"the table needs the columns {', '.join(columns)}, and {missing[0]!r} is not there."
            f"{did_you_mean(missing[0], table.columns)} It has {', '.join(table.columns)}."
        )
    return table.select(*columns).to_pylist()


def _judged(folds: FoldedLog, held_out: pa.Table, metric: Metric, judge: object) -> Evaluation:
    """What policies are worth to the records that they were not chosen from.

    A fold of a context is a context of its own, whose policy was chosen without it: so this is one
    evaluation like any other.
    """
    tally = folds.batches.tally
    (by,), _ = with_curves(tally, parse_estimators(judge), [metric])
    apart = regrouped(tally, folds, KEPT)
    judged = evaluate(apart, Lists(held_out), metrics=metric, estimators=by, missing="production")
    # A note on drift is about the whole log.
    notes = tuple(note for note in judged.notes if not note.startswith(ITEMS_CHANGE))
    return replace(judged, notes=notes)
