"""The paper's protocol: each fold of the log is predicted from the others, context by context.

For a context x and a held-out fold d, the candidate is what d showed, the log is every other fold
(or every earlier one), and the truth is d's own mean reward. Errors add up over contexts, so this
is one map over the batches of a tally and one sum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import Batches, Floats, Totals, batches_of, sums
from foreclick.batches.arrays import numbered
from foreclick.estimators.cells import Ask, row_credit
from foreclick.estimators.holdout.cells import Cases, Cut
from foreclick.estimators.holdout.ladder import LadderErrors
from foreclick.estimators.holdout.weighted import WeightedErrors
from foreclick.estimators.ladder.fit import fitted
from foreclick.estimators.ladder.spec import Ladder
from foreclick.estimators.question import check_clips
from foreclick.estimators.spec import Weighted
from foreclick.metrics import Metric
from foreclick.models import ClickModel
from foreclick.progress import Say
from foreclick.tallies.base import Tally


@dataclass(frozen=True)
class Protocol:
    """How a log is held out.

    Attributes:
        folds: the periods, each with the number of its fold; others are left out.
        forward: whether only earlier folds predict a fold, rather than all others.
        min_held: held-out records that a context must have in a fold to be judged there.
        weight: whether (context, fold) pairs count equally, or by their records.
        contexts: the contexts that take part; None for all.
        truth: the reward that says what a list is worth, if not the reward that is predicted: in a
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
        """How many folds there are."""
        return max(self.folds.values(), default=-1) + 1

    def judge(self, metric: Metric) -> Metric:
        """The metric that a prediction is compared with."""
        return metric if self.truth is None else Metric(metric.theta, self.truth)


@dataclass(frozen=True)
class FoldErrors:
    """The errors of one estimator, metric and clip, summed over contexts, by fold."""

    model: ClickModel
    metric: Metric
    clip: float
    squared: Floats
    error: Floats


@dataclass(frozen=True)
class Noise:
    """The randomness of rewards themselves, by fold.

    Attributes:
        known: Σ weight · Var(f | list) / n, of the contexts whose variance is known.
        unknown: Σ weight / n of the others; they take the variance of all contexts, `spread` over
            `free` degrees of freedom.
    """

    known: Floats
    unknown: Floats
    spread: float
    free: float

    @property
    def whole(self) -> Floats:
        """Σ weight · Var(f | list) / n of all contexts; NaN where no list was shown twice."""
        usual = self.spread / self.free if self.free else math.nan
        return self.known + np.where(self.unknown > 0, self.unknown * usual, 0)


@dataclass(frozen=True)
class Folds:
    """What came of every fold.

    Attributes:
        errors: one entry per estimator, metric and clip, in the order they were asked.
        weight: Σ weights of the pairs, by fold.
        pairs: how many (context, fold) pairs were judged, by fold.
        records: how many records were held out in them, by fold.
        truth: Σ weight · V by fold, for each metric.
        noises: for each metric, what its `noise` is made of.
        contexts: how many contexts were judged at all.
        shown: how many pairs have records at all.
        untrained: those of them that nothing could be learnt for.
        selected: how many contexts took part.
    """

    errors: list[FoldErrors]
    weight: Floats
    pairs: Floats
    records: Floats
    truth: dict[Metric, Floats]
    noises: dict[Metric, Noise]
    contexts: int
    shown: int
    untrained: int
    selected: int

    @cached_property
    def noise(self) -> dict[Metric, Floats]:
        """Σ weight · Var(f | list) / n by fold, for each metric: what no estimator can avoid."""
        return {metric: noise.whole for metric, noise in self.noises.items()}


def fold_errors(
    tally: Tally,
    estimators: Sequence[Weighted | Ladder],
    metrics: Sequence[Metric],
    protocol: Protocol,
    say: Say = lambda *_: None,
) -> Folds:
    """Hold out each fold in turn and sum up the errors of every estimator."""
    for estimator, metric in itertools.product(estimators, metrics):
        check_clips(estimator, metric)
    batches = batches_of(tally)
    asks = [Ask.of(e, metric) for e in estimators for metric in metrics]
    groups = [
        _errors_of(tally, [a for a in asks if a.cell == cell], protocol)
        for cell in dict.fromkeys(ask.cell for ask in asks)
    ]
    truths = _Truths(metrics, protocol)
    for cut in _cuts(batches, protocol):
        cases = truths.add(cut)
        for group in groups:
            say("Predicting each period from the others")
            group.add(cut, cases)
    found = {ask: sums for group in groups for ask, sums in group.sums().items()}
    return truths.folds(
        [
            FoldErrors(ask.model, ask.metric, clip, squared[:, j], error[:, j])
            for ask in asks
            for squared, error in [found[ask]]
            for j, clip in enumerate(ask.clips)
        ]
    )


def _errors_of(tally: Tally, asks: list[Ask], protocol: Protocol) -> WeightedErrors | LadderErrors:
    """An empty sum for asks that share their cells."""
    ladder, metric = asks[0].ladder, asks[0].metric
    if ladder is None:
        return WeightedErrors(asks, protocol.count)
    fit = fitted(tally, ladder, metric.reward)
    return LadderErrors(asks, fit, protocol.count, forward=protocol.forward)


def _cuts(batches: Batches, protocol: Protocol) -> Iterator[Cut]:
    """The records of every batch that belong to a fold."""
    periods = batches.codebook.periods
    values = [] if periods is None else periods.values.to_pylist()
    fold_of = np.array([protocol.folds.get(value, -1) for value in values], dtype=np.int64)
    for batch in batches:
        fold = fold_of[batch.clusters["period"]]
        used = fold >= 0
        if protocol.contexts is not None:
            chosen = pc.is_in(batch.contexts, value_set=protocol.contexts)
            used &= np.asarray(chosen)[batch.context_value][batch.row_context]
        if used.all():
            yield Cut(batch, fold, protocol.count, protocol.forward)
            continue
        rows = np.flatnonzero(used)
        held = batch.take(rows, batch.n[rows])
        yield Cut(held, fold[rows], protocol.count, protocol.forward)


class _Truths:
    """What errors are measured against: weights, counts, truths and their noise, by fold.

    Args:
        metrics: what is predicted.
        protocol: how the log is held out.
    """

    def __init__(self, metrics: Sequence[Metric], protocol: Protocol) -> None:
        self.metrics, self.protocol = metrics, protocol
        self._by_fold, self._once = Totals(protocol.count), Totals()

    def add(self, cut: Cut) -> Cases:
        """Add the contexts of a batch, and say which cases are judged."""
        trained = cut.training_n > 0
        number = np.flatnonzero(trained & (cut.case_n >= self.protocol.min_held))
        records, fold = cut.case_n[number], cut.case_fold[number]
        weight = records if self.protocol.weight == "records" else np.ones(len(number))
        truth = {m: cut.case_mean(self.protocol.judge(m))[number] for m in self.metrics}
        self._by_fold.add("weight", weight, fold)
        self._by_fold.add("pairs", np.ones(len(number)), fold)
        self._by_fold.add("records", records, fold)
        for metric, values in truth.items():
            self._by_fold.add(("truth", metric), weight * values, fold)
        counts = {
            "contexts": len(np.unique(cut.case_context[number])),
            "shown": len(trained),
            "untrained": int((~trained).sum()),
            "selected": len(np.unique(cut.case_context)),
        }
        for name, count in counts.items():
            self._once.add(name, np.array([float(count)]), np.zeros(1, dtype=np.int64))
        cases = Cases(number, fold, weight, truth)
        self._add_noise(cut, cases, weight / records)
        return cases

    def _add_noise(self, cut: Cut, cases: Cases, share: Floats) -> None:
        """Add Σ weight · Var(f | list) / n.

        The variance of a list's reward is pooled within each context, over lists shown twice or
        more in a fold; contexts without any take that of all contexts. Lists are whole lists,
        however few positions a metric counts, so that no metric's noise depends on others.
        """
        batch = cut.batch
        key = cut.showing_list.astype(np.int64) * cut.folds
        found, group = numbered(key + cut.showing_fold, len(batch.lists) * cut.folds)
        records, context = sums(group, cut.showing_n, len(found)), np.zeros(len(found), np.int64)
        context[group] = batch.list_context[cut.showing_list]
        lists = np.bincount(context, minlength=batch.context_count)
        free = np.maximum(batch.context_n - lists, 0.0)
        known, of_case = free > 0, cut.case_context[cases.number]
        group, zero = group[cut.row_showing], batch.stratum
        self._once.add("free", free, zero)
        self._by_fold.add("unknown", np.where(known[of_case], 0.0, share), cases.fold)
        for metric in self.metrics:
            credit = row_credit(batch, metric)
            mean = sums(group, batch.n * credit, len(found)) / records
            squares = batch.n * (credit - mean[group]) ** 2
            spread = np.where(known, sums(batch.row_context, squares, batch.context_count), 0.0)
            self._once.add(("spread", metric), spread, zero)
            variance = spread / np.where(known, free, 1.0)
            self._by_fold.add(("noise", metric), share * variance[of_case], cases.fold)

    def folds(self, errors: list[FoldErrors]) -> Folds:
        """The errors, with all that they are compared with."""
        by_fold, once = self._by_fold.sum, self._once.sum
        free = float(once("free")[0])
        return Folds(
            errors=errors,
            weight=by_fold("weight"),
            pairs=by_fold("pairs"),
            records=by_fold("records"),
            truth={m: by_fold(("truth", m)) for m in self.metrics},
            noises={
                m: Noise(
                    by_fold(("noise", m)),
                    by_fold("unknown"),
                    float(once(("spread", m))[0]),
                    free,
                )
                for m in self.metrics
            },
            contexts=int(once("contexts")[0]),
            shown=int(once("shown")[0]),
            untrained=int(once("untrained")[0]),
            selected=int(once("selected")[0]),
        )
