"""Holding out: each fold of a log predicted from the others, context by context.

For a context x and a held-out fold d (a *case*), the candidate is what d showed, the log is every
other fold (or every earlier one), and the truth is d's own mean reward. An **entry** is a cell in a
fold; only those with records are kept. With the exposure P and the credit C of a cell, in the fold
itself and in training, an estimator of the paper predicts

    V̂ = Σ_g C_g,train / n_train · min(R_g, M),    R_g = (P_g,own / n_own) / (P_g,train / n_train).

A ladder climbs with the counts of the other folds in each cell, and comes down from the rates that
production's rank features predict. What all contexts share is fitted once, to the whole log.

Sizes: R rows, L lists, X contexts, K positions, T folds, Q cases, E entries, A targets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import (
    EMPTY,
    Batch,
    Batches,
    Candidate,
    CodedLists,
    CodedSlots,
    Coding,
    Floats,
    Ints,
    batches_of,
    padded,
    ratio,
    sums,
)
from foreclick.batches.arrays import numbered, taken, value_of_each
from foreclick.batches.encode import wide
from foreclick.estimation.cells import CellEntries, Cells, cell_entries, cells_of, list_atoms
from foreclick.estimation.slots import earned_in, group_sums, log_slots, row_credit, slot_entries
from foreclick.estimation.sums import Adds, added
from foreclick.estimators import Estimator
from foreclick.ladder.click_value import ClickValue
from foreclick.ladder.features import expected_by_production
from foreclick.ladder.fit import checked, production_values
from foreclick.ladder.fitted import LadderFit
from foreclick.ladder.log_chain import ladder_chain
from foreclick.ladder.rungs import RungChain, log_cells
from foreclick.metrics import Metric
from foreclick.progress import report_step
from foreclick.question import Question, Target, check_clips
from foreclick.tallies.base import Tally
from foreclick.weighting.weighted import product_of

_ROUNDING = 1e-12  # of a difference of sums; a record in a cell of a trillion of them is less


@dataclass(frozen=True)
class Protocol:
    """How a log is held out.

    Attributes:
        folds: the periods, each with the number of its fold; others are left out.
        forward: whether only earlier folds predict a fold, rather than all others.
        min_held: held-out records that a context must have in a fold to be judged there.
        weight: whether (context, fold) pairs count equally, or by their records.
        contexts: the contexts that take part; None for all.
        truth: the reward that predictions are compared with, if not the one that is predicted: in a
            simulated log, its expected clicks.
    """

    folds: dict[Any, int]
    forward: bool = False
    min_held: float = 0
    weight: Literal["pairs", "records"] = "pairs"
    contexts: pa.Array | None = None
    truth: str | None = None

    @property
    def count(self) -> int:
        """T."""
        return max(self.folds.values(), default=-1) + 1


@dataclass(frozen=True)
class FoldErrors:
    """The errors of one estimator, metric and clip, summed over contexts, by fold.

    Attributes:
        squared, error: Σ weight · (V̂ − V)² and Σ weight · (V̂ − V).
        traffic: Σ records · (V̂ − V), the error of the mean over the fold's traffic, times records.
        traffic_new: the same, times the share of the case's slots that training never showed.
    """

    target: Target
    squared: Floats
    error: Floats
    traffic: Floats
    traffic_new: Floats


@dataclass(frozen=True, eq=False)
class MetricSums(Adds):
    """What the errors of a metric are measured against, by fold.

    With ν the share of a case's slots (an item at a position, as the metric counts them) that
    training never showed, noise has four factors: weight / n, n, n ν and n ν².

    Attributes:
        truth: Shape (T,): Σ weight · V.
        new: Shape (2, T): Σ n ν and Σ n ν².
        noise: Shape (4, T): Σ Var(f | list) times each factor, where it is known.
        unknown: Shape (4, T): the factors of cases where it is not.
        spread: squared deviations from the means of lists.
    """

    truth: Floats
    new: Floats
    noise: Floats
    unknown: Floats
    spread: float


@dataclass(frozen=True, eq=False)
class Folds(Adds):
    """What came of every fold, summed over contexts.

    Attributes:
        weight: Σ weights of the cases, by fold.
        pairs: how many cases were judged, by fold.
        records: how many records were held out in them, by fold.
        contexts: how many contexts were judged at all.
        shown: how many cases have records at all.
        untrained: those of them that nothing could be learnt for.
        selected: how many contexts took part.
        free: the degrees of freedom of the metrics' `spread`.
        metrics: by metric.
    """

    weight: Floats
    pairs: Floats
    records: Floats
    contexts: int
    shown: int
    untrained: int
    selected: int
    free: float
    metrics: dict[Metric, MetricSums]

    def noise(self, metric: Metric) -> Floats:
        """Shape (4, T): what no estimator can avoid, by factor; see `MetricSums`.

        Cases whose variance is unknown take that of all contexts: NaN if no list was shown twice.
        """
        own = self.metrics[metric]
        usual = own.spread / self.free if self.free else math.nan
        return np.asarray(own.noise + np.where(own.unknown > 0, own.unknown * usual, 0.0))


def fold_errors(
    tally: Tally, estimators: Sequence[Estimator], metrics: Sequence[Metric], protocol: Protocol
) -> tuple[list[FoldErrors], Folds]:
    """Hold out each fold in turn and sum up the errors of every estimator.

    Returns:
        One entry per estimator, metric and clip, in the order they were asked; and the folds.
    """
    for estimator in estimators:
        for metric in metrics:
            check_clips(estimator, metric)
    question = Question((), estimators, metrics)
    batches, found = batches_of(tally), []
    for cut in _cuts(batches, protocol):
        report_step("Predicting each period from the others")
        cases = _judged(cut, metrics)
        found.append((_errors(batches, question, cut, cases), _case_sums(cut, cases)))
    errors, folds = reduce(added, found)
    asked = ((e, metric) for e in range(len(estimators)) for metric in metrics)
    targets = [target for e, metric in asked for target in question.targets_of(e, metric)]
    return [FoldErrors(target, *errors[target]) for target in targets], folds


def _errors(batches: Batches, question: Question, cut: Cut, cases: Cases) -> dict[Target, Floats]:
    """Shape (4, T) by target: the sums that `FoldErrors` has."""
    found, n, w = {}, cut.case_n[cases.number], cases.weight
    everything = _Everything(cut.batch)
    for targets in question.groups:
        ladder, reward = targets[0].ladder, targets[0].metric.reward
        if ladder is None:
            predicted = _weighted(cut, everything, targets)
        else:
            fit, values = production_values(batches, ladder, reward)
            predicted = _by_ladder(cut, targets, checked(fit, values), values)
        for own, target in zip(predicted, targets, strict=True):
            error = own[cases.number] - cases.truth[target.metric]
            new = n * cases.new[target.metric]
            each = np.stack([w * error**2, w * error, n * error, new * error])
            found[target] = group_sums(cases.fold, each, cut.protocol.count)
    return found


# --- folds and cases ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Cut:
    """The records of a batch that belong to a fold, which stands in the place of their period."""

    batch: Batch
    protocol: Protocol

    @property
    def fold(self) -> Ints:
        """Shape (R,)."""
        return self.batch.clusters["period"]

    @cached_property
    def _cases(self) -> tuple[Ints, Ints]:
        count = self.protocol.count
        key = self.batch.row_context.astype(np.int64) * count + self.fold
        return numbered(key, self.batch.context_count * count)

    @property
    def row_case(self) -> Ints:
        """Shape (R,)."""
        return self._cases[1]

    @cached_property
    def case_key(self) -> Ints:
        """Shape (Q,), rising: context * T + fold."""
        return self._cases[0]

    @cached_property
    def case_context(self) -> Ints:
        """Shape (Q,)."""
        return self.case_key // self.protocol.count

    @cached_property
    def case_n(self) -> Floats:
        """Shape (Q,): records held out."""
        return sums(self.row_case, self.batch.n, len(self.case_key))

    @cached_property
    def training_n(self) -> Floats:
        """Shape (Q,): records that the case is predicted from."""
        return self.training(self.case_n, self.case_context, self.batch.context_n)

    def new_shares(self, metrics: Sequence[Metric]) -> Floats:
        """Shape (metrics, Q): which share of each case's slots training never showed."""
        batch, depth = self.batch, self.batch.depth
        entries = slot_entries(log_slots(batch, "pair"), "period")
        own, position = entries.n, np.repeat(np.arange(depth), [len(key) for key in entries.key])
        pair = np.concatenate(entries.key).astype(np.int64) // batch.cluster_count["period"]
        group = position * batch.pair_count + pair
        whole = sums(group, own, depth * batch.pair_count)
        unseen = self.training(own, group, whole) <= 0
        context = batch.pair_context[pair].astype(np.int64)
        case = np.searchsorted(self.case_key, context * self.protocol.count + entries.cluster)
        weight = own * np.stack([taken(padded(m.theta, depth), position) for m in metrics])
        new, all_ = (
            group_sums(case, each, len(self.case_key)) for each in (weight * unseen, weight)
        )
        return ratio(new, all_)

    def training(self, own: Floats, group: Ints, whole: Floats) -> Floats:
        """Shape (…, E): the sums of the other folds, or of earlier ones, that predict each fold.

        Args:
            own: Shape (…, E): the sum of each fold itself.
            group: Shape (E,), sorted: the context or cell; its folds in order.
            whole: Shape (…, G): the sum of each group over all folds.
        """
        if not self.protocol.forward:
            others = whole[..., group] - own
            return np.where(others > own * _ROUNDING, others, 0.0)
        training = np.zeros(own.shape)
        start = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(group) else group
        size, step = np.diff(np.append(start, len(group))), 1
        while len(start):  # the folds of all groups, one after the other
            more = size > step
            start, size = start[more], size[more]
            at = start + step
            training[..., at] = training[..., at - 1] + own[..., at - 1]
            step += 1
        return training


def _cuts(batches: Batches, protocol: Protocol) -> Iterator[Cut]:
    """The records of every batch that belong to a fold."""
    periods = batches.codebook.periods
    values = [] if periods is None else periods.values.to_pylist()
    fold_of = np.array([protocol.folds.get(value, -1) for value in values], dtype=np.int64)
    same = protocol.contexts is None and np.array_equal(fold_of, np.arange(protocol.count))
    for batch in batches:
        if same:  # every period is a fold, so that all that is kept with the batch is of use
            yield Cut(batch, protocol)
            continue
        fold = fold_of[batch.clusters["period"]]
        used = fold >= 0
        if protocol.contexts is not None:
            chosen = pc.is_in(batch.contexts, value_set=protocol.contexts)
            used &= np.asarray(chosen)[batch.row_context]
        rows = np.flatnonzero(used)
        held = batch.take(rows, batch.n[rows])
        count: Any = {"period": wide(protocol.count, len(rows) * batch.depth)}
        yield Cut(replace(held, clusters={"period": fold[rows]}, cluster_count=count), protocol)


class Cases(NamedTuple):
    """The cases that are judged, J of them.

    Attributes:
        number: Shape (J,): which cases of the cut.
        fold, weight: Shape (J,).
        truth: Shape (J,) by metric: the mean reward that is to be predicted.
        new: Shape (J,) by metric: the share of slots that training never showed.
    """

    number: Ints
    fold: Ints
    weight: Floats
    truth: dict[Metric, Floats]
    new: dict[Metric, Floats]


def _judged(cut: Cut, metrics: Sequence[Metric]) -> Cases:
    """The cases that are judged."""
    protocol, batch, count = cut.protocol, cut.batch, cut.protocol.count
    number = np.flatnonzero((cut.training_n > 0) & (cut.case_n >= protocol.min_held))
    weight = cut.case_n[number] if protocol.weight == "records" else np.ones(len(number))
    if batch.context_weight is not None:
        weight = weight * batch.context_weight[cut.case_context[number]]
    truth = {}
    for metric in metrics:
        judge = metric if protocol.truth is None else Metric(metric.theta, protocol.truth)
        earned = sums(cut.row_case, batch.n * row_credit(batch, judge), len(cut.case_n))
        truth[metric] = (earned / cut.case_n)[number]
    new = dict(zip(metrics, cut.new_shares(metrics)[:, number], strict=True))
    return Cases(number, cut.case_key[number] % count, weight, truth, new)


def _case_sums(cut: Cut, cases: Cases) -> Folds:
    """What the errors of cases are measured against.

    The noise of a case is Var(f | list) / n. The variance of a list's reward is pooled within each
    context, over lists shown twice or more in a fold; contexts without any take that of all
    contexts. Lists are whole lists, however few positions a metric counts.
    """
    batch, count, fold, weight = cut.batch, cut.protocol.count, cases.fold, cases.weight
    n, of_case = cut.case_n[cases.number], cut.case_context[cases.number]
    lists, group = numbered(
        batch.row_list.astype(np.int64) * count + cut.fold, len(batch.lists) * count
    )
    shown = np.bincount(batch.list_context[lists // count], minlength=batch.context_count)
    free = batch.context_n - shown
    free[free < 1e-9 * batch.context_n] = 0.0  # counts of thirds add up to 1 and a last digit
    known, records = free > 0, sums(group, batch.n, len(lists))
    metrics = {}
    for metric, new in cases.new.items():
        factors = np.stack([weight / n, n, n * new, n * new**2])
        credit = row_credit(batch, metric)
        mean = sums(group, batch.n * credit, len(lists)) / records
        squares = batch.n * (credit - mean[group]) ** 2
        spread = np.where(known, sums(batch.row_context, squares, batch.context_count), 0.0)
        variance = (spread / np.where(known, free, 1.0))[of_case]
        metrics[metric] = MetricSums(
            truth=sums(fold, weight * cases.truth[metric], count),
            new=group_sums(fold, factors[2:], count),
            noise=group_sums(fold, factors * variance, count),
            unknown=group_sums(fold, np.where(known[of_case], 0.0, factors), count),
            spread=float(spread.sum()),
        )
    return Folds(
        weight=sums(fold, weight, count),
        pairs=sums(fold, np.ones(len(n)), count),
        records=sums(fold, n, count),
        contexts=len(np.unique(of_case)),
        shown=len(cut.case_n),
        untrained=int((cut.training_n <= 0).sum()),
        selected=len(np.unique(cut.case_context)),
        free=float(free.sum()),
        metrics=metrics,
    )


# --- estimators of the paper ----------------------------------------------------------------------


class _Everything(Candidate):
    """All lists of a batch, as if a candidate showed them."""

    def __init__(self, batch: Batch) -> None:
        whoever: Any = SimpleNamespace(complete=True)
        super().__init__(Coding(batch, batch.depth), whoever)
        mass = np.ones(len(batch.lists))
        self.__dict__ |= {
            "lists": CodedLists(batch.list_context, batch.lists, mass),
            "begins": batch.prefix,
            "slots": CodedSlots(
                np.arange(batch.pair_count), batch.pair_context, np.where(batch.shown > 0, 1.0, 0.0)
            ),
        }


def _weighted(cut: Cut, everything: Candidate, targets: list[Target]) -> Floats:
    """Shape (A, Q): what is predicted of every case, by targets that share their cells."""
    count = cut.protocol.count
    cells = cells_of(everything, targets)
    earning = np.zeros(cells.size, dtype=np.bool_)  # other cells predict nothing
    for target in targets:
        earned = earned_in(cells.counts, cells.reward_counts(target))[cells.slot]
        earning[cells.cell[earned > 0]] = True
    entries = cell_entries(cells, "period", targets, earning)
    cell = entries.cell
    training = [
        cut.training(own, cell, entries.by_cell(own)) for own in (entries.exposed, entries.earned)
    ]
    key = cells.context[cell].astype(np.int64) * count + entries.cluster
    case = np.searchsorted(cut.case_key, key)
    if targets[0].hazard:
        return _by_hazard(cut, everything, cells, targets, entries)
    share = ratio(entries.exposed, training[0])
    over = share * ratio(cut.training_n, cut.case_n)[case]
    clip = np.array([[target.clip] for target in targets])
    bound = np.where(np.isfinite(clip), clip, 0.0) * ratio(cut.case_n, cut.training_n)[case]
    value = training[1] * np.where(over <= clip, share, bound)
    return group_sums(case, value, len(cut.case_n)) / cut.case_n


def _by_hazard(
    cut: Cut, everything: Candidate, cells: Cells, targets: list[Target], entries: CellEntries
) -> Floats:
    """Shape (A, Q): the mean over lists of Σ_k θ_k h_k Π_{j<k} (1 − h_j), h_k = min(p_k r_g, 1)."""
    batch, count, values = cut.batch, cut.protocol.count, []
    keys = entries.cell.astype(np.int64) * count + entries.cluster
    for a, target in enumerate(targets):
        atom = list_atoms(cells, everything, target)[batch.row_list]  # (R, K)
        shown = np.flatnonzero(atom.ravel() >= 0)
        # A slot that is shown in a fold may have no records at risk there, and so no entry.
        wanted, number = numbered(
            (cells.cell[atom] * np.int64(count) + cut.fold[:, None]).ravel()[shown],
            cells.size * count,
        )
        at = np.searchsorted(keys, wanted)
        there = np.append(keys, -1)[np.minimum(at, len(keys))] == wanted
        training = []
        for own in (entries.earned[a], entries.exposed[a]):
            hazard = np.where(there, np.append(own, 0.0)[np.minimum(at, len(keys))], 0.0)
            if cut.protocol.forward:
                before = np.append(0.0, np.cumsum(own))
                training.append(before[at] - before[entries.start[wanted // count]])
            else:
                training.append(cut.training(hazard, wanted // count, entries.by_cell(own)))
        rates = np.zeros(atom.size)
        rates[shown] = ratio(*training)[number]
        worth = product_of(rates.reshape(atom.shape), target).total
        values.append(sums(cut.row_case, batch.n * worth, len(cut.case_n)) / cut.case_n)
    return np.stack(values)


# --- the ladder -----------------------------------------------------------------------------------


def _by_ladder(
    cut: Cut, targets: list[Target], fit: LadderFit, values: ClickValue | None
) -> Floats:
    """Shape (A, Q): what is predicted of every case, by a ladder on production's rank features.

    What contexts share, β, examination, κ, strengths and items, is that of the whole log.
    """
    batch, count, spec, parameters = cut.batch, cut.protocol.count, fit.spec, fit.parameters
    expected = expected_by_production(batch, parameters.beta)
    chain = ladder_chain(batch, fit, parameters, expected).whole
    slot = log_cells(batch, fit.top, spec.reward).finest
    # Entries of the top: a slot of the log in a fold, with the cell of each rung that it leads to.
    lines, line = numbered(
        batch.row_list.astype(np.int64) * count + cut.fold, len(batch.lists) * count
    )
    listed, fold = lines // count, lines % count
    at, position = np.nonzero((batch.lists != EMPTY)[listed])
    cell = slot[listed[at], position].astype(np.int64)
    key, entry = numbered(cell * count + fold[at], len(chain.finest.n) * count)
    n = sums(entry, sums(line, batch.n, len(lines))[at], len(key))

    def earned(name: str) -> Floats:
        reward = batch.reward(name)
        own = slot[batch.row_list[reward.row], reward.position].astype(np.int64)
        where = np.searchsorted(key, own * count + cut.fold[reward.row])
        return sums(where, reward.value * batch.n[reward.row], len(key))

    c = earned(spec.reward)
    value = n * _held_out(cut, chain, key, n, c / spec.unit) * spec.unit
    if values is not None:
        above, items = values.chain(batch, fit.top), batch.items.take(pa.array(batch.pair_item))
        examined = (batch.shown @ parameters.p)[None]
        pairs = values.items.of_pairs(items, examined, *above.climb())
        own = np.arange(batch.pair_count)
        pair = pairs.rung._replace(coarser=own, size=len(own), exposure=pairs.expected)
        r = earned(values.reward) / (values.mean or 1.0)
        value *= values.mean * _held_out(cut, RungChain((*above.rungs, pair)), key, c, r)
    context = value_of_each(entry, batch.list_context[listed[at]].astype(np.int64), len(key))
    position = value_of_each(entry, position, len(key))
    case = np.searchsorted(cut.case_key, context * count + key % count)
    theta = np.stack([padded(target.metric.theta, batch.depth)[position] for target in targets])
    return group_sums(case, theta * value, len(cut.case_n)) / cut.case_n


def _held_out(cut: Cut, chain: RungChain, key: Ints, n: Floats, c: Floats) -> Floats:
    """The rates of entries of the finest cells, without their own records and clicks.

    Args:
        cut: the records.
        chain: of the log, on a base rate of 1.
        key: Shape (E,): the entries, cell * T + fold.
        n: Shape (E,): their records.
        c: Shape (E,): their clicks.
    """
    count, held_out = cut.protocol.count, []
    for rung in chain.rungs:
        cell = np.asarray(key // count, dtype=np.int64)
        coarser, of = numbered(
            rung.coarser[cell].astype(np.int64) * count + key % count, rung.size * count
        )
        training = rung.among(cell)._replace(
            n=cut.training(n, cell, rung.n),
            c=cut.training(c, cell, rung.c),
            coarser=of,
            size=len(coarser),
        )
        held_out.append(training)
        whole_n, whole_c = training._replace(n=training.n + n, c=training.c + c).climb()
        training_n, training_c = training.climb()
        n, c, key = whole_n - training_n, whole_c - training_c, coarser
    return RungChain(tuple(held_out)).rates(np.ones(len(key)))[0].rate
