"""Some contexts of a batch with the candidates, and sums over their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foreclick.batches import EMPTY, Batch, Bools, Floats, Ints, sums
from foreclick.estimation.columns import View
from foreclick.estimation.parts import BatchParts, Strata
from foreclick.estimation.slots import curves_of, group_sums, reward_counts
from foreclick.estimation.sums import EXAMPLES, Absent, ItemNames, RecordSums
from foreclick.kept import kept_latest
from foreclick.ladder.fit import known_part
from foreclick.policies import Policy
from foreclick.question import Question

_DEEPEST = 1000  # positions of whole lists that are searched for an item of the log


@dataclass(frozen=True, eq=False)
class Block:
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

    @classmethod
    def of(cls, whole: Batch, question: Question, depth: int, strata: Strata) -> Block:
        """The records of some contexts, and candidates down to a depth."""
        view = View.of(whole, question.candidates, depth)
        known, drops = view.known, question.missing == "drop" and not view.known.all()
        if drops:
            batch = known_part(whole, known)
            known = np.repeat(np.asarray(known.all(axis=1))[:, None], view.count, axis=1)
            view = View.of(batch, question.candidates, depth)
        produced = np.zeros_like(known.T) if drops else ~known.T
        return cls(whole, view, known, produced, BatchParts(strata, view.batch))

    @property
    def batch(self) -> Batch:
        """The records that count."""
        return self.view.batch


@kept_latest
def portions_of(batch: Batch, slots: int) -> tuple[Batch, ...]:
    """The contexts of a batch, some with about so many positions of lists after others."""
    return tuple(batch.between(*ends) for ends in batch.portions(slots))


def record_sums(parts: BatchParts, question: Question, n: Floats) -> RecordSums:
    """How many records there are, and what is shown and earned at each position.

    Args:
        parts: the records, and the parts of the answer.
        question: what is asked.
        n: Shape (R,): how many records of each row count.
    """
    batch, k = parts.batch, parts.batch.depth
    contexts = _contexts(parts, np.flatnonzero(n > 0))
    n = parts.row_weighted(n)
    shown, rewards, at_risk, examined = batch.lists != EMPTY, {}, {}, {}
    for model in question.curved:
        p = curves_of(batch, model, min(k, question.depth))[batch.row_context]
        seen = shown[batch.row_list, : p.shape[1]]
        examined[model] = parts.over(parts.of_row, n * (seen * p).T)
    for metric in question.parts:
        counts = reward_counts(batch, metric, hazard=metric.first)
        row, position, value = counts.reward
        size = max(parts.strata.count - 1, 1)
        at = parts.of_row[row] * k + position if parts.split else position
        earned = sums(at, n[row] * value, size * k).reshape(size, k)
        rewards[metric] = parts.with_whole(earned)
        if counts.at_risk is not None:
            at_risk[metric] = parts.over(parts.of_row, n * counts.at_risk.T)
    by_position = (
        parts.over(parts.of_row, n * shown[batch.row_list].T)
        if parts.split  # else, rows of a list show the same
        else (sums(batch.row_list, n, len(shown)) @ shown)[None]
    )
    records = parts.over(parts.of_row, n)
    return RecordSums(records, contexts, by_position, rewards, at_risk, examined)


def _contexts(parts: BatchParts, rows: Ints) -> Floats:
    """Shape (S,): how many contexts some rows are of."""
    batch, own = parts.batch, parts.batch.row_context[rows]
    if not parts.split:
        return np.array([float((np.diff(own, prepend=-1) > 0).sum())])
    pairs = np.unique(parts.of_row[rows] * np.int64(batch.context_count) + own)
    contexts = parts.over(pairs // batch.context_count, np.ones(len(pairs)))
    contexts[-1] = len(np.unique(pairs % batch.context_count))
    return contexts


def absent_records(block: Block, question: Question) -> tuple[RecordSums | None, ...]:
    """By candidate, the records of contexts that it has no list for; None: there are none."""
    whole = BatchParts(block.parts.strata, block.whole)
    return tuple(
        None
        if known.all()
        else record_sums(whole, question, block.whole.n * ~known[block.whole.row_context])
        for known in block.known.T
    )


def absent_contexts(batch: Batch, known: Bools) -> Absent:
    """The contexts of a batch that somebody has no answer for."""
    missing = np.flatnonzero(~known)
    some = (batch.contexts[int(x)].as_py() for x in missing[:EXAMPLES])
    return Absent(len(missing), tuple(some))


def item_names(block: Block, policies: Sequence[Policy]) -> tuple[ItemNames, ...]:
    """By candidate, whether it shows any item of the log, in its whole lists."""
    found, depth = [], block.view.policies.depth
    for policy, member in zip(policies, block.view.members, strict=True):
        unknown = member.unknown_items
        if unknown is not None and policy.longest > depth:
            deepest = int(min(policy.longest, _DEEPEST))
            unknown = View.of(block.whole, [policy], deepest).members[0].unknown_items
        ours = frozenset(block.whole.items.to_pylist()) if unknown is not None else frozenset()
        found.append(ItemNames(ours, frozenset(unknown or ())))
    return tuple(found)


def visible_contexts(block: Block, question: Question) -> dict[int, Floats]:
    """By depth, shape (S, C): in how many contexts the log shows any item of a candidate.

    Of the candidate, the positions that a metric counts: its answer must not depend on others.
    Only where an estimator does not see that by itself.
    """
    q, slots, batch, found = question, block.view.policies.slots, block.batch, {}
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
