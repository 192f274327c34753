"""The pass over a log: a map over batches of contexts to sums, and estimates from the sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import numpy as np
import pyarrow as pa

from foreclick.batches import (
    EMPTY,
    Batch,
    Batches,
    Bools,
    Candidate,
    Floats,
    Ints,
    batches_of,
    sums,
)
from foreclick.estimation.columns import ColumnBatch, View
from foreclick.estimation.estimates import Estimates
from foreclick.estimation.parts import BatchParts, Strata, cluster_kinds, clusters_of_rows
from foreclick.estimation.slots import curves_of, group_sums, reward_counts, row_credit
from foreclick.estimation.sums import (
    EXAMPLES,
    Absent,
    GroupSums,
    ItemNames,
    LogSums,
    ModelErrors,
    RecordSums,
    added,
)
from foreclick.kept import kept_latest
from foreclick.ladder.click_value import ItemGradient
from foreclick.ladder.fit import fit_ladders, known_part
from foreclick.ladder.fitted import CandidateFit
from foreclick.ladder.score import list_values, score_ladder
from foreclick.logs import Shape
from foreclick.models import ClickModel
from foreclick.policies import Observed, Policy
from foreclick.progress import report_step
from foreclick.question import Question, Target, check_question, policy_depth
from foreclick.tallies.base import Tally
from foreclick.weighting.small_cells import entries_of, hidden_sums, repeated_exposure
from foreclick.weighting.weighted import (
    least_covered,
    list_worth,
    sampled_errors,
    score_weighted,
    weigh,
)

T = TypeVar("T")

BLOCK = 16_000_000
"""Slots of lists times columns that are worked on at a time."""

_DEEPEST = 1000  # positions of whole lists that are searched for an item of the log


@dataclass(frozen=True, eq=False)
class _Block:
    """Some contexts of a batch with the candidates.

    Attributes:
        whole: the records, with those of contexts that are dropped.
        view: those that count.
        known: Shape (X, C): the contexts that each candidate has lists for; of contexts that are
            dropped if any does not, all candidates alike.
        produced: Shape (C, X): the contexts where a candidate is worth what production is.
        parts: the parts of the answer.
    """

    whole: Batch
    view: View
    known: Bools
    produced: Bools
    parts: BatchParts

    @property
    def batch(self) -> Batch:
        """The records that count."""
        return self.view.batch


@dataclass(frozen=True, eq=False)
class BatchWork:
    """The work on one batch: from its records to sums.

    Attributes:
        question: what is asked.
        shape: the columns of the log.
        strata: the parts of the answer.
        sampled: which candidates are the frequencies of another log.
        ladders: of each group of targets, the fitted ladder, if it is one.
        items: of each group, how columns move with what clicks on items earn, if that is needed.
    """

    question: Question
    shape: Shape
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

    def _by_blocks(self, batch: Batch, do: Callable[[_Block], T]) -> T:
        """What is done adds up: some contexts at a time if there are many columns."""
        columns = max(map(len, self.question.groups)) * len(self.question.candidates)
        size = max(BLOCK // columns, batch.depth)
        if batch.lists.size <= size:
            return do(self._block(batch))
        return reduce(added, (do(self._block(block)) for block in _blocks(batch, size)))

    def _block(self, whole: Batch) -> _Block:
        q = self.question
        view = View.of(whole, q.candidates, policy_depth(q, self.shape))
        known, drops = view.known, q.missing == "drop" and not view.known.all()
        if drops:
            batch = known_part(whole, known)
            known = np.repeat(np.asarray(known.all(axis=1))[:, None], view.count, axis=1)
            view = View.of(batch, q.candidates, view.policies.depth)
        produced = np.zeros_like(known.T) if drops else ~known.T
        return _Block(whole, view, known, produced, BatchParts(self.strata, view.batch))

    def _click_value_gradients(self, block: _Block) -> tuple[Floats | None, ...]:
        return tuple(
            None
            if fit is None or fit.click_values is None
            else score_ladder(block.view, targets, fit, rows=False).click_value_gradient
            for targets, fit in zip(self.question.groups, self.ladders, strict=True)
        )

    def _sums(self, block: _Block) -> LogSums:
        """All that a block adds to the answer."""
        q, view, batch = self.question, block.view, block.batch
        credit = np.stack([row_credit(batch, metric) for metric in q.parts])
        psi, groups = [np.concatenate([credit, np.ones((1, len(batch.n)))])], []
        for targets, fit, items in zip(q.groups, self.ladders, self.items, strict=True):
            group, own = self._group(block, targets, fit, items, credit)
            groups.append(group)
            if own is not None and "record" in q.clusters:
                psi.append(own)
        return LogSums(
            all=self._all_records(block),
            absent=tuple(self._absent_records(block, known) for known in block.known.T),
            groups=tuple(groups),
            production=self._production(block, psi[0]),
            products=self._products(block, np.concatenate(psi)) if "record" in q.clusters else None,
            visible=self._visible(block),
            shared=np.array([member.shared for member in view.members]),
            unlisted=tuple(_absent(block.whole, member.known) for member in view.members),
            unlogged=self._unlogged(block),
            items=tuple(self._items(block, c) for c in range(view.count)),
        )

    # --- records ----------------------------------------------------------------------------------

    def _all_records(self, block: _Block) -> RecordSums:
        """The records that count: the same whatever candidates are asked about."""
        return record_sums(block.parts, self.question, block.batch.n)

    def _absent_records(self, block: _Block, known: Bools) -> RecordSums | None:
        """The records of contexts that a candidate has no list for."""
        if known.all():
            return None
        n = block.whole.n * ~known[block.whole.row_context]
        return record_sums(BatchParts(self.strata, block.whole), self.question, n)

    def _items(self, block: _Block, c: int) -> ItemNames:
        """Whether a candidate shows any item of the log, in its whole lists."""
        policy, view = self.question.candidates[c], block.view
        strange = view.members[c].strange_items
        if strange is not None and policy.longest > view.policies.depth:
            depth = int(min(policy.longest, _DEEPEST))
            strange = View.of(block.whole, [policy], depth).members[0].strange_items
        if strange is None:
            return ItemNames()
        return ItemNames(frozenset(block.whole.items.to_pylist()), frozenset(strange))

    def _unlogged(self, block: _Block) -> Absent:
        """The contexts that a logging policy has no list for, which all groups share."""
        for targets, fit in zip(self.question.groups, self.ladders, strict=True):
            logging = _logging_policy(targets)
            if logging is not None and fit is None:
                known = Candidate(block.view.members[0].coding, logging).known
                return _absent(block.batch, known)
        return Absent()

    def _visible(self, block: _Block) -> dict[int, Floats]:
        """By depth, shape (S, C): where the log shows any item of a candidate.

        Of the candidate, the positions that a metric counts: its answer must not depend on others.
        Only where an estimator does not see that by itself.
        """
        q, slots, batch, found = self.question, block.view.policies.slots, block.batch, {}
        logging = any(isinstance(each, Policy) for each in q.loggings)
        if not logging and all(e.model.sees_items for e in q.estimators):
            return {}
        shown = np.append((batch.shown > 0).any(axis=1), False)
        logged = shown[np.minimum(slots.pair, batch.pair_count)]
        for depth in {metric.depth for metric in q.parts}:
            both = logged & (block.view.policies.slot_mass[:, :, :depth] > 0).any(axis=2)  # (C, Q)
            seen = group_sums(slots.context, 1.0 * both, batch.context_count)
            seen = seen + (~block.known.T & (q.missing == "production"))
            found[depth] = block.parts.over_contexts(seen)
        return found

    # --- columns ----------------------------------------------------------------------------------

    def _group(
        self,
        block: _Block,
        targets: list[Target],
        fit: CandidateFit | None,
        items: ItemGradient | None,
        credit: Floats,
    ) -> tuple[GroupSums, Floats | None]:
        """The sums of a group, and ψ + V of records."""
        if fit is None:
            return self._of_weights(block, targets, credit)
        view, split = block.view, self.strata.split
        rows = bool(self.question.clusters) or split
        scored = score_ladder(view, targets, fit, rows=rows, by_context=split, items=items)
        return self._group_sums(
            block, targets, scored, credit, lambda _: list_values(view, targets, fit)
        ), scored.influence

    def _of_weights(
        self, block: _Block, targets: list[Target], credit: Floats
    ) -> tuple[GroupSums, Floats | None]:
        """The same by an estimator of the paper."""
        q, view, parts = self.question, block.view, block.parts
        logging, filled = self._logging(block, targets)
        w = weigh(view, targets, logging)
        sighted = targets[0].model.sees_items
        dated = self.shape.period and (bool(q.top) or ("period" in q.clusters and sighted))
        kinds = cluster_kinds(q.clusters)
        alone = kinds[0] if len(kinds) == 1 and not parts.split else None
        entries = entries_of(w, q.clusters, dated=dated, rows=alone is None)
        scored = score_weighted(
            view,
            w,
            rows=bool(q.clusters) or parts.split,
            details=bool(q.top),
            clusters=bool(q.clusters),
            entries=None if alone is None else entries.get(alone),
            kind=alone or "period",
        )
        repeated = repeated_exposure(w, entries["period"]) if dated else None
        found = replace(
            self._group_sums(block, targets, scored, credit, lambda c: list_worth(w, view, c)),
            filled=filled,
            hidden=hidden_sums(parts, w, q.clusters, entries),
            repeated=None if repeated is None else parts.over_contexts(repeated),
            least_covered=least_covered(w, view, q.top) if q.top else (),
        )
        return found, scored.influence

    def _logging(
        self, block: _Block, targets: list[Target]
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
        self,
        block: _Block,
        targets: list[Target],
        scored: ColumnBatch,
        credit: Floats,
        worth: Callable[[int], Floats],
    ) -> GroupSums:
        """What the columns of a group add up to.

        Args:
            block: the records.
            targets: of the group.
            scored: its columns.
            credit: Shape (metrics, R): what records earn.
            worth: Shape (A, M), of a candidate: what each of the lists shown is worth.
        """
        parts, clusters = block.parts, self.question.clusters
        if block.produced.any():
            _add_production(block, self.question, scored, targets, credit)
        value = parts.over_contexts(scored.value)
        if parts.split and scored.influence is not None:
            own = _value_of_records(
                block.batch, scored.influence[: len(scored.value)], scored.value
            )
            value = parts.over_rows(own)
        influence: tuple[Floats, ...] = ()
        if scored.cluster_influence is not None:
            influence = (scored.cluster_influence.T[None],)
        elif scored.influence is not None:
            influence = parts.over_kinds(clusters, scored.influence * block.batch.n)
        shared = scored.shared_errors if clusters else {}
        sampled = self.sampled if clusters else ()
        return GroupSums(
            value=value,
            coverage=scored.coverage.over_contexts(parts),
            rungs=None if scored.rungs is None else parts.over_contexts(scored.rungs),
            errors=model_errors(parts, scored) if clusters else None,
            off_by={source: parts.over_contexts(each) for source, each in shared.items()},
            samples={
                c: parts.over_contexts(sampled_errors(block.view, c, worth(c))) for c in sampled
            },
            influence=influence,
            own_clicks=self._own_clicks(parts, scored.own_clicks),
        )

    # --- influence --------------------------------------------------------------------------------

    def _own_clicks(self, parts: BatchParts, unshared: Floats | None) -> tuple[Floats, ...]:
        """By kind of clusters, see `GroupSums.own_clicks`."""
        if unshared is None:
            return ()
        n, clusters = parts.batch.n, self.question.clusters
        if "record" in clusters:
            return (parts.over_rows(np.stack([unshared * n, unshared**2 * n])),)
        return parts.over_kinds(clusters, unshared * n)

    def _production(self, block: _Block, psi: Floats) -> tuple[Floats, ...]:
        """By kind of clusters, production's influence."""
        return block.parts.over_kinds(self.question.clusters, psi * block.batch.n)

    def _products(self, block: _Block, psi: Floats) -> Floats:
        """Shape (S, ·, ·): products of the influence of independent records."""
        weighted = psi * block.batch.n
        if block.parts.split:
            return block.parts.over_rows(weighted[:, None] * psi)
        return np.asarray(weighted @ psi.T)[None]


@kept_latest
def _blocks(batch: Batch, slots: int) -> tuple[Batch, ...]:
    """The contexts of a batch, some with about so many positions of lists after others."""
    return tuple(batch.between(*ends) for ends in batch.portions(slots))


def _absent(batch: Batch, known: Bools) -> Absent:
    """The contexts of a batch that somebody has no answer for."""
    missing = np.flatnonzero(~known)
    some = (batch.contexts[int(x)].as_py() for x in missing[:EXAMPLES])
    return Absent(len(missing), tuple(some))


def _logging_policy(targets: list[Target]) -> Policy | None:
    """The logging policy of a group, if it is given, and the metric depends on it."""
    logging = targets[0].logging
    return logging if isinstance(logging, Policy) and not targets[0].metric.shown else None


def _add_production(
    block: _Block, question: Question, scored: ColumnBatch, targets: list[Target], credit: Floats
) -> None:
    """Where a candidate has no list, it is worth what production is."""
    batch = block.batch
    metrics = np.repeat([question.parts.index(t.metric) for t in targets], block.view.count)
    absent = np.tile(block.produced, (len(targets), 1))[:, batch.row_context] * credit[metrics]
    earned = batch.n * absent
    scored.value += group_sums(batch.row_context, earned, batch.context_count)
    if scored.influence is not None:
        scored.influence[: len(metrics)] += absent
    if scored.cluster_influence is not None:
        ((cluster, clusters),) = clusters_of_rows(batch, question.clusters)
        scored.cluster_influence += group_sums(cluster, earned, clusters)


def record_sums(parts: BatchParts, question: Question, n: Floats) -> RecordSums:
    """How many records there are, and what is shown and earned at each position.

    Args:
        parts: the records, and the parts of the answer.
        question: what is asked.
        n: Shape (R,): how many records of each row count.
    """
    batch, k = parts.batch, parts.batch.depth
    shown, rewards, at_risk, examined = batch.lists != EMPTY, {}, {}, {}
    for model in question.curved:
        p = curves_of(batch, model, min(k, question.depth))[batch.row_context]
        seen = shown[batch.row_list, : p.shape[1]]
        examined[model] = parts.over_rows(n * (seen * p).T)
    for metric in question.parts:
        counts = reward_counts(batch, metric, hazard=metric.first)
        row, position, value = counts.reward
        size = max(parts.strata.count - 1, 1)
        at = parts.of_row[row] * k + position if parts.split else position
        earned = sums(at, n[row] * value, size * k).reshape(size, k)
        rewards[metric] = parts.with_whole(earned)
        if counts.at_risk is not None:
            at_risk[metric] = parts.over_rows(n * counts.at_risk.T)
    by_position = (
        parts.over_rows(n * shown[batch.row_list].T)
        if parts.split  # else, rows of a list show the same
        else (sums(batch.row_list, n, len(shown)) @ shown)[None]
    )
    contexts = _contexts(parts, np.flatnonzero(n > 0))
    return RecordSums(parts.over_rows(n), contexts, by_position, rewards, at_risk, examined)


def _contexts(parts: BatchParts, rows: Ints) -> Floats:
    """Shape (S,): how many contexts some rows are of."""
    batch, own = parts.batch, parts.batch.row_context[rows]
    if not parts.split:
        return np.array([float((np.diff(own, prepend=-1) > 0).sum())])
    pairs = np.unique(parts.of_row[rows] * np.int64(batch.context_count) + own)
    contexts = parts.over(pairs // batch.context_count, np.ones(len(pairs)))
    contexts[-1] = len(np.unique(pairs % batch.context_count))
    return contexts


def model_errors(parts: BatchParts, scored: ColumnBatch) -> ModelErrors | None:
    """Products of errors that no record shows.

    Of a part, errors of a context count as far as the part has its records. What contexts share is
    off for all parts alike: its products with the others count once.
    """
    if scored.sensitivity is None:
        return None
    shared, width, _ = scored.sensitivity.shape
    count = parts.strata.count
    columns, across = np.zeros((count, width, width)), np.zeros((count, width, shared))
    coefficients = np.zeros((shared, shared))
    for context, error in scored.model_errors:
        own, last = error[:width], error[width:]
        coefficients += last @ last.T
        if context is not None:  # errors of no context move coefficients alone
            columns += parts.products(context, own, own, power=2)
            across += parts.products(context, own, last)
    known = np.zeros_like(coefficients)
    return ModelErrors(
        parts.over_contexts(scored.sensitivity), columns, across, coefficients, known
    )


def _value_of_records(batch: Batch, psi: Floats, value: Floats) -> Floats:
    """Shape (E, R): what the records of each row have of n_x V_x, which they add up to."""
    own = batch.n * psi
    left = value - group_sums(batch.row_context, own, batch.context_count)
    share = batch.n / batch.context_n[batch.row_context]
    return np.asarray(own + share * left[:, batch.row_context])


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
    ladders = fit_ladders(tally, question)
    none = (None,) * len(ladders)
    work = BatchWork(replace(question, earlier=None), tally.shape, strata, sampled, ladders, none)
    if question.clusters or strata.split:
        work = replace(work, items=_item_gradients(batches, work))
    found = reduce(added, batches.map(work, question.workers))
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
    if (
        fit.click_values is not None and items is not None
    ):  # of a part, as far as it has the records
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
    (targets,), (ladder,) = question.groups, fit_ladders(tally, question)
    parts = []
    for batch in batches_of(tally):
        view = View.of(batch, question.candidates, policy_depth(question, tally.shape))
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
        other = produced if view.count == 1 else value[1]
        parts.append((batch.context_n * used, value[0] * used, other * used))
    contexts = [batch.contexts for batch in batches_of(tally)]
    records, candidate, compared = (np.concatenate(column) for column in zip(*parts, strict=True))
    return pa.concat_arrays(contexts), records, candidate, compared
