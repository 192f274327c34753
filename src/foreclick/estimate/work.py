"""The pass over a log: a map over batches of contexts to sums, and estimates from the sums."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
from foreclick.batches.encode import Codes
from foreclick.estimate.cells import curves_of, group_sums, reward_counts, row_credit
from foreclick.estimate.columns import Row, Scored, Totals, View
from foreclick.estimate.covariance import (
    add_hidden,
    cluster_kinds,
    clusters_of_rows,
    entries_of,
)
from foreclick.estimate.estimates import Estimates
from foreclick.estimate.fitting import fit_ladders, known_part
from foreclick.estimate.prior import prior_worth, score_prior
from foreclick.estimate.weighted import (
    least_covered,
    list_worth,
    most_uncovered,
    sampled_errors,
    score_weighted,
    weigh,
)
from foreclick.learn.prior import Prior
from foreclick.logs import CONTEXT, Shape
from foreclick.policies import Observed, Policy
from foreclick.progress import report_step
from foreclick.question import Question, Target, check_question, policy_depth
from foreclick.tallies.base import Tally

BLOCK = 16_000_000
"""Slots of lists times columns that are worked on at a time."""

PRODUCED = -1
"""The number of the group that production's columns are."""

COUNTS = ("cells", "seen", "out")
"""Facts that count something, of which a part of a context has no share."""

_EXAMPLES = 3


@dataclass(frozen=True)
class Strata:
    """The parts of an answer: by the values of some columns, or some contexts and all others.

    Attributes:
        by: the columns.
        codes: the values of each.
        contexts: the contexts, if these are the parts.
    """

    by: tuple[str, ...]
    codes: tuple[Codes, ...]
    contexts: pa.Array | None = None

    @classmethod
    def of(cls, batches: Batches, question: Question) -> Strata:
        """The parts that a question asks for."""
        codes = tuple(batches.codebook.columns[name] for name in question.by)
        return cls(question.by, codes, question.contexts)

    @property
    def split(self) -> bool:
        """Whether there is more than one part."""
        return bool(self.by) or self.contexts is not None

    @property
    def count(self) -> int:
        """S: the parts, and, where there are several, the whole, which comes last."""
        if self.contexts is not None:
            return len(self.contexts) + 2
        return int(np.prod([len(code) for code in self.codes])) + bool(self.by)

    def sums(self, part: Ints, values: NDArray[Any]) -> Floats:
        """Shape (S, …): the sums of values of rows, shape (…, R), by part."""
        if not self.split:
            return np.asarray(values.sum(axis=-1))[None]
        return self.ended(np.moveaxis(group_sums(part, values, self.count - 1), -1, 0))

    def ended(self, values: Floats) -> Floats:
        """Shape (S, …): values of the parts, and their sum, that of the whole."""
        return np.concatenate([values, values.sum(axis=0)[None]]) if self.split else values

    def rows(self, batch: Batch) -> Ints:
        """Shape (R,): the part that each row belongs to."""
        part: Ints = np.zeros(len(batch.n), dtype=np.int64)
        if self.contexts is not None:
            number = pc.fill_null(pc.index_in(batch.contexts, self.contexts), len(self.contexts))
            return np.asarray(number, dtype=np.int64)[batch.row_context]
        for name, code in zip(self.by, self.codes, strict=True):
            part = part * len(code) + batch.codes(name)
        return part

    def segment(self, number: int) -> dict[str, Any]:
        """The values of a part by column; None for the whole, and contexts that are not named."""
        if self.by and number == self.count - 1:
            return dict.fromkeys(self.by)
        if self.contexts is not None:
            named = number < len(self.contexts)
            return {CONTEXT: self.contexts[number].as_py() if named else None}
        values = {}
        for name, code in reversed(list(zip(self.by, self.codes, strict=True))):
            number, own = divmod(number, len(code))
            values[name] = code.values[own].as_py()
        return {name: values[name] for name in self.by}


@dataclass(eq=False)
class BatchResult:
    """What a batch adds to the answer.

    Attributes:
        totals: sums over its contexts.
        shared: for each candidate, how many contexts it has in common with the batch.
        missing: contexts without an answer, by who has none: how many, and some of them.
        strange: by candidate, the log's items and its own; None if it shows one of the log's.
        least_covered: contexts with most of the first candidate's uncovered exposure, by target.
    """

    totals: Totals
    shared: Ints
    missing: dict[str, tuple[int, list[Any]]] = field(default_factory=dict)
    strange: dict[int, tuple[set[Any], set[Any]] | None] = field(default_factory=dict)
    least_covered: dict[Target, list[Row]] = field(default_factory=dict)

    def note_missing(self, who: str, batch: Batch, known: Bools) -> None:
        """Note the contexts of a batch that somebody has no answer for."""
        missing = np.flatnonzero(~known)
        if len(missing):
            before, some = self.missing.get(who, (0, []))
            some = some + [batch.contexts[int(x)].as_py() for x in missing[:_EXAMPLES]]
            self.missing[who] = before + len(missing), some[:_EXAMPLES]

    def merge(self, other: BatchResult, top: int) -> None:
        """What later contexts add too; `top` contexts are named of those that are covered least."""
        self.totals.merge(other.totals)
        self.shared = self.shared + other.shared
        for who, (count, some) in other.missing.items():
            before, first = self.missing.get(who, (0, []))
            self.missing[who] = before + count, (first + some)[:_EXAMPLES]
        for c, theirs in other.strange.items():
            ours = self.strange[c]
            both = ours and theirs and (ours[0] | theirs[0], ours[1] | theirs[1])
            self.strange[c] = both or None
        for target, rows in other.least_covered.items():
            every = [*self.least_covered.get(target, []), *rows]
            self.least_covered[target] = most_uncovered(every, top)


@dataclass(frozen=True, eq=False)
class BatchWork:
    """The work on one batch: from its records to sums.

    Attributes:
        question: what is asked.
        shape: the columns of the log.
        strata: the parts of the answer.
        sampled: which candidates are the frequencies of another log.
        ladders: of each group of targets, the fitted ladder, if it is one.
        pulls: whether only `Scored.pull` is wanted.
    """

    question: Question
    shape: Shape
    strata: Strata
    sampled: tuple[int, ...]
    ladders: tuple[Prior | None, ...]
    pulls: bool = False

    def __call__(self, batch: Batch) -> BatchResult:
        """What the batch adds to the answer, some contexts at a time if there are many columns."""
        columns = max(map(len, self.question.groups)) * len(self.question.candidates)
        size = max(BLOCK // columns, batch.depth)
        if batch.lists.size <= size:
            return self._block(batch)
        blocks = [
            batch.cached(("between", ends), partial(batch.between, *ends))
            for ends in batch.portions(size)
        ]
        first, *others = map(self._block, blocks)
        for other in others:
            first.merge(other, self.question.top)
        return first

    def _block(self, whole: Batch) -> BatchResult:
        q, batch, parts = self.question, whole, self.strata.split
        view = View.of(batch, q.candidates, policy_depth(q, self.shape), self.sampled)
        known, drops = view.known, q.missing == "drop" and not view.known.all()
        if drops:
            batch = known_part(whole, known)
            known = np.repeat(np.asarray(known.all(axis=1))[:, None], view.count, axis=1)
            view = View.of(batch, q.candidates, view.policies.depth, self.sampled)
        if self.pulls:
            pulled = BatchResult(Totals(), np.zeros(0, dtype=np.int64))
            for number, fit in enumerate(self.ladders):
                if fit is not None and fit.worth is not None:
                    scored = score_prior(view, q.groups[number], fit, rows=False)
                    pulled.totals.more((number, "pull"), np.asarray(scored.pull))
            return pulled
        part = self.strata.rows(batch)
        totals = Totals(self.strata.count, self._share(batch, part) if parts else None)
        result = BatchResult(totals, np.array([member.shared for member in view.members]))
        if parts:
            self._positions(totals, "all", batch, part, batch.n)
        else:  # the same whatever candidates are asked about
            counted: Any = batch.cached(("positions", q.parts, *q.curved), Totals)
            if not counted.sums:
                self._positions(counted, "all", batch, part, batch.n)
            totals.merge(counted)
        for c in range(view.count):
            result.note_missing(f"candidate {c}", whole, view.members[c].known)
            strange, longest = view.members[c].strange_items, q.candidates[c].longest
            if strange is not None and longest > view.policies.depth:  # of the whole lists
                depth = int(min(longest, 1000))
                strange = View.of(whole, [q.candidates[c]], depth, ()).members[0].strange_items
            items = None if strange is None else (set(whole.items.to_pylist()), strange)
            result.strange[c] = items
            if not known[:, c].all():
                rows = whole.n * ~known[:, c][whole.row_context]
                self._positions(totals, f"absent {c}", whole, self.strata.rows(whole), rows)
        self._sight(totals, view, known)
        f = np.stack([row_credit(batch, metric) for metric in q.parts])
        psi, wants_rows = [(PRODUCED, f)], bool(q.clusters) or parts
        for number, targets in enumerate(q.groups):
            scored = self._scored(result, view, number, targets, rows=wants_rows)
            metrics = np.repeat([q.parts.index(target.metric) for target in targets], view.count)
            if not known.all() and not drops:  # there, a candidate is worth what production is
                absent = np.tile(~known.T, (len(targets), 1))[:, batch.row_context] * f[metrics]
                earned = batch.n * absent
                scored.value += group_sums(batch.row_context, earned, batch.context_count)
                if scored.psi is not None:
                    scored.psi[: len(metrics)] += absent
                if scored.by_cluster is not None:
                    ((_, cluster, clusters),) = clusters_of_rows(batch, q.clusters)
                    scored.by_cluster += group_sums(cluster, earned, clusters)
            totals.add((number, "value"), scored.value)
            for name, values in scored.facts.items():
                totals.add((number, name), values, power=0 if name in COUNTS else 1)
            if scored.largest is not None:
                totals.most((number, "largest"), scored.largest)
            if q.clusters:
                self._add_errors(totals, number, scored)
            if scored.unshared is not None and q.clusters:
                self._add_unshared(totals, number, batch, part, scored.unshared)
            if scored.psi is not None:
                psi.append((number, scored.psi))
            if scored.by_cluster is not None:
                totals.more((q.clusters[0], number), scored.by_cluster.T[None])
            if parts and scored.psi is not None:
                own = _value_of_records(batch, scored.psi[: len(metrics)], scored.value)
                totals.sums[number, "value"] = self.strata.sums(part, own)
        if q.clusters:
            self._add_influence(totals, batch, part, psi)
        return result

    def _share(self, batch: Batch, part: Ints) -> Any:  # noqa: ANN401 - a sparse matrix
        """Shape (X, S): the share of each context's records that each part has."""
        from scipy import sparse  # noqa: PLC0415 - slow to import

        share = batch.n / batch.context_n[batch.row_context]
        count, last = batch.context_count, self.strata.count - 1
        some = np.flatnonzero(batch.context_n > 0)  # all of which is part of the whole
        values = np.concatenate([share, np.ones(len(some))])
        row = np.concatenate([batch.row_context, some])
        column = np.concatenate([part, np.full(len(some), last)])
        return sparse.csr_array((values, (row, column)), shape=(count, last + 1))

    def _positions(self, totals: Totals, which: str, batch: Batch, part: Ints, n: Floats) -> None:
        """Add records and contexts, and by position what is shown and earned.

        Args:
            totals: the sums.
            which: all records that count, or those a candidate has no list for.
            batch: the records.
            part: Shape (R,): the part of each row.
            n: Shape (R,): how many records of each row count.
        """
        strata, k, shown = self.strata, batch.depth, batch.lists != EMPTY
        totals.more((which, "records"), strata.sums(part, n))
        some = np.flatnonzero(n > 0)
        if strata.split:
            pairs = np.unique(part[some] * np.int64(batch.context_count) + batch.row_context[some])
            contexts = strata.sums(pairs // batch.context_count, np.ones(len(pairs)))
            contexts[-1] = len(np.unique(pairs % batch.context_count))
        else:
            contexts = np.array([float((np.diff(batch.row_context[some], prepend=-1) > 0).sum())])
        totals.more((which, "contexts"), contexts)
        if strata.split:
            totals.more((which, "shown"), strata.sums(part, n * shown[batch.row_list].T))
        else:  # rows of a list show the same
            totals.more((which, "shown"), (sums(batch.row_list, n, len(shown)) @ shown)[None])
        for model in self.question.curved:
            p = curves_of(batch, model, min(k, self.question.depth))[batch.row_context]
            seen = shown[batch.row_list, : p.shape[1]]
            totals.more((which, "examined", model), strata.sums(part, n * (seen * p).T))
        for metric in self.question.parts:
            counts = reward_counts(batch, metric, hazard=metric.first)
            row, position, value = counts.reward
            size = max(strata.count - 1, 1)
            at = part[row] * k + position if strata.split else position
            earned = sums(at, n[row] * value, size * k).reshape(size, k)
            totals.more((which, "reward", metric), strata.ended(earned))
            if counts.at_risk is not None:
                totals.more((which, "risk", metric), strata.sums(part, n * counts.at_risk.T))

    def _sight(self, totals: Totals, view: View, known: Bools) -> None:
        """Add where the log shows any item of a candidate, shape (S, C) for each depth.

        Of the candidate, the positions that a metric counts: its answer must not depend on others.
        Only where an estimator does not see that by itself.
        """
        q, slots, batch = self.question, view.policies.slots, view.batch
        logging = any(isinstance(each, Policy) for each in q.loggings)
        if not logging and all(e.model.sees_items for e in q.estimators):
            return
        shown = np.append((batch.shown > 0).any(axis=1), False)
        logged = shown[np.minimum(slots.pair, batch.pair_count)]
        for depth in {metric.depth for metric in q.parts}:
            both = logged & (view.policies.slot_mass[:, :, :depth] > 0).any(axis=2)  # (C, Q)
            seen = group_sums(slots.context, 1.0 * both, batch.context_count)
            totals.add(("sight", depth), seen + (~known.T & (q.missing == "production")))

    def _scored(
        self, result: BatchResult, view: View, number: int, targets: list[Target], *, rows: bool
    ) -> Scored:
        """The columns of a group, and the errors that only its cells know of."""
        q, totals, ladder = self.question, result.totals, self.ladders[number]
        worth: Any
        if ladder is not None:
            scored = score_prior(view, targets, ladder, rows=rows, apart=self.strata.split)
            worth = lambda _: prior_worth(view, targets, ladder)  # noqa: E731
        else:
            logging: Any = None if targets[0].metric.shown else targets[0].logging
            if isinstance(logging, Policy):
                coding, everywhere = view.members[0].coding, np.asarray(view.known.any(axis=1))
                if "logging policy" not in result.missing:  # which all groups share
                    known = Candidate(coding, logging).known
                    result.note_missing("logging policy", view.batch, known)
                logging = Candidate(coding, logging, everywhere)
                filled = group_sums(logging.slots.context, logging.slots.mass.T, len(everywhere))
                depth = min(targets[0].metric.depth, len(filled))
                for model in {target.model for target in targets}:
                    examined = filled[:depth] * curves_of(view.batch, model, depth).T
                    totals.add((number, "filled", model), examined * view.batch.context_n)
            cells = weigh(view, targets, logging)
            sighted = targets[0].model.sees_items
            dated = self.shape.period and (bool(q.top) or ("period" in q.clusters and sighted))
            kinds = cluster_kinds(q.clusters)
            alone = kinds[0] if len(kinds) == 1 and not self.strata.split else None
            entries = entries_of(cells, q.clusters, dated=dated, rows=alone is None)
            scored = score_weighted(
                view,
                cells,
                rows=rows,
                details=bool(q.top),
                clusters=bool(q.clusters),
                entries=None if alone is None else entries.get(alone),
                kind=alone or "period",
            )
            add_hidden(totals, number, cells, q.clusters, entries, dated=dated)
            if q.top:
                result.least_covered.update(least_covered(cells, view, q.top))
            worth = lambda c: list_worth(cells, view, c)  # noqa: E731
        for c in view.sampled if q.clusters else ():
            totals.add((number, "sample", c), sampled_errors(view, c, worth(c)))
        return scored

    def _add_errors(self, totals: Totals, number: int, scored: Scored) -> None:
        """Add the errors of a group that no record shows.

        Of a part, errors of a context count as far as the part has its records. The rate that all
        contexts share is off for all parts alike: its products with the others count once.
        """
        for source, errors in scored.shared.items():
            totals.add((number, "off by", source), errors)
        if scored.slope is None:
            return
        totals.add((number, "slope"), scored.slope)
        width = scored.slope.shape[1]
        for context, error in scored.loose:
            own, last = error[:width], error[width:]
            totals.more((number, "loose last"), last @ last.T)
            if context is not None:  # errors of no context move the shared rate alone
                totals.gram((number, "loose"), context, own, own, power=2)
                totals.gram((number, "loose across"), context, own, last)

    def _add_influence(
        self, totals: Totals, batch: Batch, part: Ints, groups: list[tuple[int, Floats]]
    ) -> None:
        """Add ψ + V of records by clusters; production's columns end with one that counts records.

        Independent records need the products of all columns, so these are joined.
        """
        q, strata = self.question, self.strata
        groups[0] = PRODUCED, np.concatenate([groups[0][1], np.ones((1, len(batch.n)))])
        if "record" in q.clusters:
            psi = np.concatenate([values for _, values in groups])
            weighted = psi * batch.n
            if strata.split:
                totals.more("record", strata.sums(part, weighted[:, None] * psi))
            else:
                totals.more("record", (weighted @ psi.T)[None])
        size = max(strata.count - 1, 1)
        for kind, cluster, clusters in clusters_of_rows(batch, q.clusters):
            at = part * np.int64(clusters) + cluster
            for number, values in groups:
                # Production's are the same whoever the candidates are.
                key = ("produced", kind, q.parts)
                shared = number == PRODUCED and not strata.split
                each: Any = batch.cache.get(key) if shared else None
                if each is None:
                    each = group_sums(at, values * batch.n, size * clusters)
                if shared:
                    batch.cache[key] = each
                each = each.reshape(-1, size, clusters).transpose(1, 2, 0)
                totals.more((kind, number), strata.ended(each))

    def _add_unshared(
        self, totals: Totals, number: int, batch: Batch, part: Ints, unshared: Floats
    ) -> None:
        """Add, by part and cluster, what the own clicks of parts say; of records, its square."""
        size = max(self.strata.count - 1, 1)
        for kind, cluster, clusters in clusters_of_rows(batch, self.question.clusters):
            at = part * np.int64(clusters) + cluster
            each = group_sums(at, unshared * batch.n, size * clusters)
            each = each.reshape(-1, size, clusters).transpose(1, 2, 0)
            totals.more(("unshared", kind, number), self.strata.ended(each))
        if "record" in self.question.clusters:
            both = np.stack([unshared * batch.n, unshared**2 * batch.n])
            totals.more(("unshared", "record", number), self.strata.sums(part, both))


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
    work = BatchWork(replace(question, earlier=None), tally.shape, strata, sampled, ladders)
    if question.clusters or strata.split:
        work = _with_pulls(batches, work)
    result: BatchResult | None = None
    for part in batches.map(work, question.workers):
        if result is None:
            result = part
        else:
            result.merge(part, question.top)
    if result is None:
        raise ValueError("a log without records")
    for number, fit in enumerate(work.ladders):
        if fit is not None and question.clusters:
            known = (fit.inverse * fit.known) @ fit.inverse.T
            result.totals.more((number, "loose last"), known)
            result.totals.more((number, "known"), known)
            if fit.worth is not None:  # of a part, as far as it has the records
                records = result.totals.sums["all", "records"]
                share = (records / records[-1])[:, None, None]
                more = share**2 * fit.worth.unexplained()
                result.totals.more((number, "loose"), more)
    priors = [fit for fit in work.ladders if fit is not None]
    return Estimates(question, tally.shape, strata, result, priors)


def _with_pulls(batches: Batches, work: BatchWork) -> BatchWork:
    """With how what clicks on items are worth, in all contexts, moves the columns."""
    pulled = Totals()
    if any(fit is not None and fit.worth for fit in work.ladders):
        for part in batches.map(replace(work, pulls=True), work.question.workers):
            pulled.merge(part.totals)
    ladders = list(work.ladders)
    for (number, _), pull in pulled.sums.items():
        fit: Any = ladders[number]
        ladders[number] = replace(fit, worth=fit.worth.with_pull(pull))
    return replace(work, ladders=tuple(ladders))


def context_values(tally: Tally, question: Question) -> tuple[pa.Array, Floats, Floats, Floats]:
    """What each context adds to an answer of one estimator and one metric.

    Returns:
        The contexts in the order of the log, and shape (X,) each: the records that count, what the
        first candidate is worth there, and what the second is, or else production; times records.
    """
    (targets,), (ladder,) = question.groups, fit_ladders(tally, question)
    parts = []
    for batch in batches_of(tally):
        view = View.of(batch, question.candidates, policy_depth(question, tally.shape), ())
        if ladder is not None:
            value = score_prior(view, targets, ladder, rows=False).value
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
