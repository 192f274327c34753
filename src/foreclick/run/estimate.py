"""One pass over a log: n V = Σ_batches Σ_x n_x V_x, and the sums that its errors follow from.

`estimate` maps batches of whole contexts to `LogSums`, adds them up, and makes `Estimates` of them.
Of a batch, `BatchWork` takes what its records are (`run.block`), production's influence, and what
each group of targets gives: value, coverage, influence by cluster, and model errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import numpy as np
import pyarrow as pa

from foreclick.batches import Batch, Batches, Candidate, Floats, batches_of, sums
from foreclick.estimation.columns import ColumnBatch, View
from foreclick.estimation.estimates import Estimates
from foreclick.estimation.parts import BatchParts, Strata, cluster_kinds, clusters_of_rows
from foreclick.estimation.slots import curves_of, group_sums, row_credit
from foreclick.estimation.sums import Absent, GroupSums, LogSums, ModelErrors, added
from foreclick.ladder.click_value import ItemGradient
from foreclick.ladder.fit import fit_ladders
from foreclick.ladder.fitted import CandidateFit
from foreclick.ladder.score import list_values, score_ladder
from foreclick.models import ClickModel
from foreclick.policies import Observed, Policy
from foreclick.progress import report_step
from foreclick.question import Question, Target, check_question, policy_depth
from foreclick.run.block import (
    Block,
    absent_contexts,
    absent_records,
    item_names,
    portions_of,
    record_sums,
    visible_contexts,
)
from foreclick.run.whole import of_all_records
from foreclick.tallies.base import Tally
from foreclick.weighting.small_cells import entries_of, hidden_sums, repeated_exposure
from foreclick.weighting.weighted import (
    least_covered,
    sampled_errors,
    score_weighted,
    weigh,
    weighted_list_values,
)

T = TypeVar("T")

BLOCK = 16_000_000
"""Slots of lists times columns that are worked on at a time."""


def estimate(tally: Tally, question: Question) -> Estimates:
    """All estimates that a question asks for, in one pass over the log."""
    check_question(tally, question)
    batches = batches_of(tally)
    names = dict.fromkeys(e.name for e in question.estimators)
    report_step(f"Estimating by {', '.join(names)}")
    sampled = tuple(
        c
        for c, policy in enumerate(question.candidates)
        if isinstance(policy, Observed) and not policy.counted.same(tally)
    )
    strata = Strata.of(batches, question)
    depth = policy_depth(question, tally.shape)
    ladders = fit_ladders(tally, question, depth)
    none = (None,) * len(ladders)
    work = BatchWork(replace(question, earlier=None), depth, strata, sampled, ladders, none)
    if question.clusters or strata.split:
        work = replace(work, items=_item_gradients(batches, work))
    found = reduce(added, batches.map(work, question.workers))
    found = of_all_records(found, batches, question, strata)
    groups = [
        _with_fit_errors(group, fit, items, found.all.records)
        for group, fit, items in zip(found.groups, ladders, work.items, strict=True)
    ]
    fits = [fit.summary for fit in ladders if fit is not None]
    return Estimates(question, tally.shape, strata, replace(found, groups=tuple(groups)), fits)


def _with_fit_errors(
    group: GroupSums, fit: CandidateFit | None, items: ItemGradient | None, records: Floats
) -> GroupSums:
    """With errors of what a ladder learnt from all contexts together."""
    if fit is None or group.errors is None:
        return group
    errors = group.errors
    inverse = fit.solution.inverse
    known = (inverse * fit.solution.known) @ inverse.T
    coefficients = errors.coefficients + known
    columns = errors.columns
    if fit.click_values is not None and items is not None:
        # Of a part, as far as it has the records.
        share = (records / records[-1])[:, None, None]
        columns = columns + share**2 * fit.click_values.covariance(items)
    more = replace(errors, columns=columns, coefficients=coefficients, known=known)
    return replace(group, errors=more)


def _item_gradients(batches: Batches, work: BatchWork) -> tuple[ItemGradient | None, ...]:
    """By group, how columns move with what clicks on items earn, which all contexts decide."""
    if not any(fit is not None and fit.click_values for fit in work.ladders):
        return work.items
    sums_of_log = reduce(added, batches.map(work.click_value_gradients, work.question.workers))
    return tuple(
        None
        if fit is None or fit.click_values is None or sensitivity is None
        else fit.click_values.items.gradient(sensitivity)
        for fit, sensitivity in zip(work.ladders, sums_of_log, strict=True)
    )


def context_values(tally: Tally, question: Question) -> tuple[pa.Array, Floats, Floats, Floats]:
    """What each context adds to an answer of one estimator and one metric.

    Returns:
        The contexts in the order of the log, and shape (X,) each: the records that count, what the
        first candidate is worth there, and what the second is, or else production; times records.
    """
    depth = policy_depth(question, tally.shape)
    (targets,), (ladder,) = question.groups, fit_ladders(tally, question, depth)
    contexts, parts = [], []
    for batch in batches_of(tally):
        contexts.append(batch.contexts)
        view = View.of(batch, question.candidates, depth)
        if ladder is not None:
            value = score_ladder(view, targets, ladder, rows=False).value
        else:
            value = score_weighted(view, weigh(view, targets, None)).value
        earned = batch.n * row_credit(batch, question.parts[0])
        produced = sums(batch.row_context, earned, batch.context_count)
        value = np.where(view.known.T, value, produced)
        used = np.ones(batch.context_count)
        if question.missing == "drop":
            used = np.where(view.known.all(axis=1), 1.0, 0.0)
        if batch.context_weight is not None:
            used = used * batch.context_weight
        other = produced if view.count == 1 else value[1]
        parts.append((batch.context_n * used, value[0] * used, other * used))
    records, candidate, compared = (np.concatenate(column) for column in zip(*parts, strict=True))
    return pa.concat_arrays(contexts), records, candidate, compared


# --- the work on a batch --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BatchWork:
    """The work on one batch: from its records to sums.

    Attributes:
        question: what is asked.
        depth: down to which position policies are asked.
        strata: the parts of the answer.
        sampled: which candidates are the frequencies of another log.
        ladders: of each group of targets, the fitted ladder, if it is one.
        items: of each group, how columns move with what clicks on items earn, if that is needed.
    """

    question: Question
    depth: int
    strata: Strata
    sampled: tuple[int, ...]
    ladders: tuple[CandidateFit | None, ...]
    items: tuple[ItemGradient | None, ...]

    def __call__(self, batch: Batch) -> LogSums:
        """What the batch adds to the answer."""
        return self._by_blocks(batch, self._sums)

    def click_value_gradients(self, batch: Batch) -> tuple[Floats | None, ...]:
        """By group, shape (E, I + F): how click values move columns, where a ladder has them."""
        return self._by_blocks(batch, self._click_value_gradients)

    def _by_blocks(self, batch: Batch, do: Callable[[Block], T]) -> T:
        """What is done adds up: some contexts at a time if there are many columns."""
        q = self.question
        size = max(BLOCK // (max(map(len, q.groups)) * len(q.candidates)), batch.depth)
        some = (batch,) if batch.lists.size <= size else portions_of(batch, size)
        return reduce(added, (do(Block.of(each, q, self.depth, self.strata)) for each in some))

    def _click_value_gradients(self, block: Block) -> tuple[Floats | None, ...]:
        return tuple(
            None
            if fit is None or fit.click_values is None
            else score_ladder(block.view, targets, fit, rows=False).click_value_gradient
            for targets, fit in zip(self.question.groups, self.ladders, strict=True)
        )

    def _sums(self, block: Block) -> LogSums:
        """All that a block adds to the answer."""
        q, view, batch = self.question, block.view, block.batch
        credit = np.stack([row_credit(batch, metric) for metric in q.parts])
        production = np.concatenate([credit, np.ones((1, len(batch.n)))])
        influence, groups = [production], []
        by_context = [group_sums(batch.row_context, production * batch.n, batch.context_count)]
        for targets, fit, items in zip(q.groups, self.ladders, self.items, strict=True):
            group, columns = self._group(block, targets, fit, items, credit)
            groups.append(group)
            own = columns.all_influence() if "record" in q.clusters else None
            if own is not None:
                influence.append(own)
            by_context += _of_contexts(batch, columns)
        return LogSums(
            all=record_sums(block.parts, q, batch.n),
            absent=absent_records(block, q),
            groups=tuple(groups),
            production=block.parts.over_kinds(q.clusters, production * batch.n),
            products=_products(block.parts, influence) if "record" in q.clusters else None,
            drawing=block.parts.drawn_products(np.concatenate(by_context)) if q.clusters else None,
            visible=visible_contexts(block, q),
            shared=np.array([member.shared for member in view.members]),
            unlisted=tuple(absent_contexts(block.whole, member.known) for member in view.members),
            unlogged=self._unlogged(block),
            items=item_names(block, q.candidates),
        )

    def _unlogged(self, block: Block) -> Absent:
        """The contexts that a logging policy has no list for, which all groups share."""
        for targets, fit in zip(self.question.groups, self.ladders, strict=True):
            logging = _logging_policy(targets)
            if logging is not None and fit is None:
                known = Candidate(block.view.members[0].coding, logging).known
                return absent_contexts(block.batch, known)
        return Absent()

    def _group(
        self,
        block: Block,
        targets: list[Target],
        fit: CandidateFit | None,
        items: ItemGradient | None,
        credit: Floats,
    ) -> tuple[GroupSums, ColumnBatch]:
        """The sums of a group, and its columns."""
        if fit is None:
            return self._weighted(block, targets, credit)
        view, split = block.view, self.strata.split
        rows = bool(self.question.clusters) or split
        columns = score_ladder(view, targets, fit, rows=rows, own_clicks=split, items=items)
        columns = _with_production(block, self.question, columns, targets, credit)
        found = self._group_sums(block, columns, lambda _: list_values(view, targets, fit))
        return found, columns

    def _weighted(
        self, block: Block, targets: list[Target], credit: Floats
    ) -> tuple[GroupSums, ColumnBatch]:
        """The same by the paper's estimators."""
        q, view, parts = self.question, block.view, block.parts
        logging, filled = self._logging(block, targets)
        w = weigh(view, targets, logging)
        sees_items = targets[0].model.sees_items
        dated = bool(q.top) or ("period" in q.clusters and sees_items)
        dated = dated and "period" in view.batch.clusters
        kinds = cluster_kinds(q.clusters)
        whole = not parts.split and parts.batch.drawn is None
        only = kinds[0] if len(kinds) == 1 and whole else None
        entries = entries_of(w, q.clusters, dated=dated, rows=only is None)
        columns = score_weighted(
            view,
            w,
            rows=bool(q.clusters) or parts.split,
            details=bool(q.top),
            clusters=bool(q.clusters),
            entries=None if only is None else entries.get(only),
            kind=only or "period",
        )
        columns = _with_production(block, q, columns, targets, credit)
        repeated = repeated_exposure(w, entries["period"]) if dated else None
        found = replace(
            self._group_sums(block, columns, lambda c: weighted_list_values(w, view, c)),
            filled=filled,
            hidden=hidden_sums(parts, w, q.clusters, entries),
            repeated=None if repeated is None else parts.over_contexts(repeated),
            least_covered=least_covered(w, view, q.top) if q.top else (),
        )
        return found, columns

    def _logging(
        self, block: Block, targets: list[Target]
    ) -> tuple[Candidate | str | None, dict[ClickModel, Floats]]:
        """Where logging probabilities come from; and the exposure that a policy gives positions."""
        policy, view = _logging_policy(targets), block.view
        if policy is None:
            propensity = targets[0].logging == "propensity" and not targets[0].metric.shown
            return "propensity" if propensity else None, {}
        everywhere = np.asarray(view.known.any(axis=1))
        logging = Candidate(view.members[0].coding, policy, everywhere)
        shown = group_sums(logging.slots.context, logging.slots.mass.T, len(everywhere))
        depth, filled = min(targets[0].metric.depth, len(shown)), {}
        for model in {target.model for target in targets}:
            examined = shown[:depth] * curves_of(view.batch, model, depth).T
            filled[model] = block.parts.over_contexts(examined * view.batch.context_n)
        return logging, filled

    def _group_sums(
        self, block: Block, columns: ColumnBatch, list_values_of: Callable[[int], Floats]
    ) -> GroupSums:
        """What the columns of a group add up to.

        Args:
            block: the records.
            columns: of the group's targets.
            list_values_of: Shape (A, M), of a candidate: the value of each of the lists shown.
        """
        parts, clusters = block.parts, self.question.clusters
        shared = columns.shared_errors if clusters else {}
        return GroupSums(
            value=_values(parts, columns),
            coverage=columns.coverage.over_contexts(parts),
            rungs=None if columns.rungs is None else parts.over_contexts(columns.rungs),
            errors=model_errors(parts, columns) if clusters else None,
            shared_errors={source: parts.over_contexts(each) for source, each in shared.items()},
            samples={
                c: parts.over_contexts(sampled_errors(block.view, c, list_values_of(c)))
                for c in (self.sampled if clusters else ())
            },
            influence=_cluster_influence(parts, clusters, columns),
            own_clicks=_own_clicks(parts, clusters, columns.own_clicks),
        )


def _logging_policy(targets: list[Target]) -> Policy | None:
    """The logging policy of a group, if it is given, and the metric depends on it."""
    logging = targets[0].logging
    return logging if isinstance(logging, Policy) and not targets[0].metric.shown else None


def _with_production(
    block: Block, question: Question, columns: ColumnBatch, targets: list[Target], credit: Floats
) -> ColumnBatch:
    """The columns with production's value where a candidate has no list."""
    if not block.produced.any():
        return columns
    batch, influence, by_cluster = block.batch, columns.influence, columns.cluster_influence
    metrics = np.repeat([question.parts.index(t.metric) for t in targets], block.view.count)
    absent = np.tile(block.produced, (len(targets), 1))[:, batch.row_context] * credit[metrics]
    earned = batch.n * absent
    if influence is not None:
        influence = influence + absent
    if by_cluster is not None:
        ((cluster, clusters),) = clusters_of_rows(batch, question.clusters)
        by_cluster = by_cluster + group_sums(cluster, earned, clusters)
    value = columns.value + group_sums(batch.row_context, earned, batch.context_count)
    return replace(columns, value=value, influence=influence, cluster_influence=by_cluster)


def _values(parts: BatchParts, columns: ColumnBatch) -> Floats:
    """Shape (S, E): Σ n_x V_x. Of parts, what their own records have of it."""
    batch, value = parts.batch, columns.value
    if not parts.split or columns.influence is None:
        return parts.over_contexts(value)
    own = batch.n * columns.influence
    rest = value - group_sums(batch.row_context, own, batch.context_count)
    share = batch.n / batch.context_n[batch.row_context]
    return parts.over_rows(own + share * rest[:, batch.row_context])


def _cluster_influence(
    parts: BatchParts, clusters: Sequence[str], columns: ColumnBatch
) -> tuple[Floats, ...]:
    """Shape (S, clusters, E + N) by kind of clusters: Σ (ψ + V)."""
    if columns.cluster_influence is not None:
        return (columns.cluster_influence.T[None],)
    if columns.influence is None:
        return ()
    n, of = parts.batch.n, columns.of_coefficients
    found = parts.over_kinds(clusters, columns.influence * n)
    if of is None:
        return found
    more = parts.over_kinds(clusters, of.influence * n[of.rows], of.rows)
    return tuple(np.concatenate(each, axis=-1) for each in zip(found, more, strict=True))


def _of_contexts(batch: Batch, columns: ColumnBatch) -> list[Floats]:
    """Shape (E, X) and (N, X): what contexts add to columns, and move coefficients; if drawn."""
    if batch.drawn is None:
        return []
    of = columns.of_coefficients
    if of is None:
        return [columns.value]
    moved = of.influence * batch.n[of.rows]
    return [columns.value, group_sums(batch.row_context[of.rows], moved, batch.context_count)]


def _own_clicks(
    parts: BatchParts, clusters: Sequence[str], own: Floats | None
) -> tuple[Floats, ...]:
    """By kind of clusters, see `GroupSums.own_clicks`."""
    if own is None:
        return ()
    n = parts.batch.n
    if "record" in clusters:
        each = parts.over_rows(own * n), parts.over_rows(own**2 * n, weight=2)
        return (np.stack(each, axis=1),)
    return parts.over_kinds(clusters, own * n)


def _products(parts: BatchParts, influence: Sequence[Floats]) -> Floats:
    """Shape (S, ·, ·): products of the influence of independent records, of all columns."""
    each = np.concatenate(influence)
    weighted = each * parts.batch.n
    if parts.split:
        return parts.over_rows(weighted[:, None] * each, weight=2)
    return np.asarray(parts.row_weighted(weighted, 2) @ each.T)[None]


def model_errors(parts: BatchParts, columns: ColumnBatch) -> ModelErrors | None:
    """Products of errors that no record shows.

    Of a part, errors of a context count as far as the part has its records. What contexts share is
    off for all parts alike: its products with the others count once.
    """
    if columns.sensitivity is None:
        return None
    shared, width, _ = columns.sensitivity.shape
    count = parts.strata.count
    own_products = np.zeros((count, width, width))
    across = np.zeros((count, width, shared))
    coefficients = np.zeros((shared, shared))
    for context, error in columns.model_errors:
        own, last = error[:width], error[width:]
        if len(last):
            coefficients += parts.whole_products(context, last, last)
        if context is not None:  # errors of no context move coefficients alone
            own_products += parts.products(context, own, own, power=2)
            if len(last):
                across += parts.products(context, own, last)
    known = np.zeros_like(coefficients)
    return ModelErrors(
        parts.over_contexts(columns.sensitivity), own_products, across, coefficients, known
    )
