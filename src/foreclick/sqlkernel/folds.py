"""The estimators under the paper's protocol: each period predicted from the others, in one plan.

For a context x and a held-out period d, the candidate h is what d showed, the log is every other
period (or every earlier one), and the truth is d's own mean reward. With own and training sums of a
cell, the ratio of exposures and the estimate are

    R_g = (P_g,own / n_own) / (P_g,train / n_train)        V̂ = Σ_g C_g,train / n_train · min(R_g, M)

Three things keep this from being a loop over periods and values of M:

1. training = total − own, on the cells that the period shows: the others have h = 0;
2. every cell falls into the interval (M_{j−1}, M_j] of its ratio. A (context, period) then needs
   only two sums per interval, a = Σ C R and b = Σ C: V̂(M_j) = Σ_{i ≤ j} a_i + M_j Σ_{i > j} b_i;
3. as M grows, V̂ changes its formula only at intervals that have cells. Squared errors are summed
   over contexts as *steps* at those intervals, and cumulated on a table of a few hundred rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, Any, Literal

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from foreclick._tally import Tally
from foreclick.engines import force, real, total, whole
from foreclick.logs import CONTEXT, PERIOD, N
from foreclick.metrics import Metric
from foreclick.models import POSITION, ClickModel
from foreclick.sqlkernel.cells import Ask, credit, grouped_cells, looked_up
from foreclick.sqlkernel.climb import CREDIT, RATE, Climb, classes_of, fitted
from foreclick.sqlkernel.firsts import with_firsts
from foreclick.sqlkernel.hazard import LIST, scores
from foreclick.sqlkernel.ladder import Fitted, Ladder
from foreclick.sqlkernel.logged import RECORDS, Keep, Logged
from foreclick.sqlkernel.question import check_clips
from foreclick.sqlkernel.weighed import ratio
from foreclick.sqlkernel.weighted import Weighted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FOLD, TRAINED, WEIGHT = "fold", "trained", "weight"
PART_ROWS = 6_000_000
"""Rows of a tally that are held out at once on one machine: about 2 GB of cells."""

_PAIR = [CONTEXT, FOLD]
_COUNTS = (N, CREDIT)
_STEPS = ("aa", "ab", "bb", "a", "b")
_ROUNDING = 1e-12  # of a sum of doubles; a record in a cell of a trillion of them is less


@dataclass(frozen=True)
class Protocol:
    """How a log is held out.

    Attributes:
        folds: the periods, each with the number of its fold; others are left out.
        forward: whether only earlier folds predict a fold, rather than all others.
        weight: whether (context, fold) pairs count equally, or by their records.
        contexts: which contexts take part, one column; None for all.
        fewest: held-out records that a pair must have to be judged.
        truth: the reward that says what a list is worth, if not the reward that is predicted: in a
            simulated log, its expected clicks.
    """

    folds: dict[Any, int]
    forward: bool = False
    fewest: float = 0
    weight: Literal["pairs", "records"] = "pairs"
    contexts: ir.Table | None = None
    truth: str | None = None

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

    def __add__(self, other: FoldErrors) -> FoldErrors:
        """The errors of the same in other contexts too."""
        return replace(self, squared=self.squared + other.squared, error=self.error + other.error)


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
        """Of all contexts; NaN where no list was shown twice."""
        usual = self.spread / self.free if self.free else math.nan
        return self.known + np.where(self.unknown > 0, self.unknown * usual, 0)

    def __add__(self, other: Noise) -> Noise:
        """That of other contexts too."""
        return Noise(
            self.known + other.known,
            self.unknown + other.unknown,
            self.spread + other.spread,
            self.free + other.free,
        )


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

    @property
    def noise(self) -> dict[Metric, Floats]:
        """Σ weight · Var(f | list) / n by fold, for each metric: what no estimator can avoid."""
        return {metric: noise.whole for metric, noise in self.noises.items()}

    def __add__(self, other: Folds) -> Folds:
        """What came of the contexts of both, which are others."""
        return Folds(
            errors=[a + b for a, b in zip(self.errors, other.errors, strict=True)],
            weight=self.weight + other.weight,
            pairs=self.pairs + other.pairs,
            records=self.records + other.records,
            truth={m: v + other.truth[m] for m, v in self.truth.items()},
            noises={m: v + other.noises[m] for m, v in self.noises.items()},
            contexts=self.contexts + other.contexts,
            shown=self.shown + other.shown,
            untrained=self.untrained + other.untrained,
            selected=self.selected + other.selected,
        )


def fold_errors(
    tally: Tally,
    estimators: Sequence[Weighted | Ladder],
    metrics: Sequence[Metric],
    protocol: Protocol,
    say: Callable[[str], None] = lambda _: None,
) -> Folds:
    """Hold out each fold in turn and sum up the errors of every estimator.

    Contexts are judged each on its own and errors add, so a large tally is worked on part by part:
    what is kept in between then fits into memory.
    """
    for estimator, metric in itertools.product(estimators, metrics):
        check_clips(estimator, metric)
    tally = with_firsts(tally, metrics)
    asks = [Ask.of(e, metric) for e in estimators for metric in metrics]
    parts = _parts(tally)
    fits = {
        (a.ladder, a.metric.reward): fitted(tally, a.ladder, a.metric.reward)
        for a in {a.cell: a for a in asks}.values()
        if a.ladder is not None
    }
    found = []
    for number, part in enumerate(parts, start=1):
        of = f", part {number} of {len(parts)} of the contexts" if len(parts) > 1 else ""
        with tally.engine.scratch() as keep:
            # A ladder learns from all positions, whichever a metric counts.
            depth = tally.shape.depth if fits else 1
            cut = _Cut(replace(tally, table=part), metrics, protocol, keep, depth)
            answers: dict[Ask, list[FoldErrors]] = {}
            for cell in dict.fromkeys(ask.cell for ask in asks):
                same = [ask for ask in asks if ask.cell == cell]
                say(f"Predicting each period by {same[0].model.name}{of}")
                ladder = same[0].ladder
                answers |= (
                    cut.errors(same)
                    if ladder is None
                    else cut.climbed(same, fits[ladder, same[0].metric.reward])
                )
            found.append(cut.summary([own for ask in asks for own in answers[ask]]))
    return reduce(add, found)


def _parts(tally: Tally) -> list[ir.Table]:
    """The tally by contexts, in parts that this machine can hold; a cluster has its own way."""
    table = tally.table
    if tally.engine.far:
        return [table]
    rows = tally.engine.rows(table.aggregate(rows=table.count()))[0]["rows"]
    count = math.ceil(rows / PART_ROWS)
    if count <= 1:
        return [table]
    return [table.filter(tally.engine.part(table[CONTEXT], count) == k) for k in range(count)]


class _Cut:
    """A log cut into folds."""

    def __init__(
        self,
        tally: Tally,
        metrics: Sequence[Metric],
        protocol: Protocol,
        keep: Keep,
        depth: int = 1,
    ) -> None:
        self.engine, self.keep, self.tally = tally.engine, keep, tally
        self.metrics, self.protocol = list(metrics), protocol
        self.count = max(protocol.folds.values(), default=-1) + 1
        judged = [protocol.judge(metric) for metric in metrics]
        weighed = [metric.reward for metric in (*metrics, *judged)]
        derived = [metric.at_risk for metric in metrics if metric.first]
        rewards = tuple(dict.fromkeys([*weighed, *derived]))
        depth = max([*(metric.depth for metric in metrics), depth])
        self.table = self._folded(tally)
        fold = {FOLD: self.table[FOLD]}
        self.log = Logged(tally, rewards, depth, keep, fold, table=self.table)
        self.summed = keep(self.log.summed(), "pairs")
        self.everyone = keep(self._pairs(), "held_out")
        enough = self.everyone[RECORDS] >= real(protocol.fewest)
        self.pairs = self.everyone.filter((self.everyone[TRAINED] > 0) & enough)

    def _folded(self, tally: Tally) -> ir.Table:
        """The tally with the number of its fold, without what is left out."""
        table, folds = tally.table, self.protocol.folds
        names = self.engine.show(
            pa.table(
                {
                    PERIOD: pa.array(list(folds), table[PERIOD].type().to_pyarrow()),
                    FOLD: pa.array(list(folds.values()), pa.int32()),
                }
            )
        )
        table = table.join(names, PERIOD).select(*table.columns, FOLD)
        chosen = self.protocol.contexts
        return table if chosen is None else table.semi_join(chosen, CONTEXT)

    def _pairs(self) -> ir.Table:
        """(context, fold) → records and training records, its weight, and the truth by metric."""
        summed = self.summed
        own = summed.select(*_PAIR, RECORDS)
        trained = self._trained(own, [CONTEXT], [RECORDS]).rename({TRAINED: f"{RECORDS}_t"})
        rows = trained.join(summed.drop(RECORDS), _PAIR)
        n = rows[RECORDS].cast("float64")
        by_records = self.protocol.weight == "records"
        return rows.select(
            *_PAIR,
            RECORDS,
            TRAINED,
            **{WEIGHT: n if by_records else real(1)},
            **{
                f"v_{i}": credit(rows, self.protocol.judge(m)) / n
                for i, m in enumerate(self.metrics)
            },
        )

    def _trained(
        self, rows: ir.Table, keys: list[str], sums: list[str], gains: Sequence[str] = ()
    ) -> ir.Table:
        """Rows by (keys, fold), each with its sums over the folds that predict it: x_t for x.

        Rows may be left out that no fold gains anything from.
        """
        if self.protocol.forward:
            before = ibis.window(group_by=keys, order_by=FOLD, preceding=(None, 1))
            return rows.mutate(**{f"{c}_t": _earlier(rows[c], before) for c in sums})
        everything = rows.group_by(keys).aggregate(**{f"{c}_t": total(rows[c]) for c in sums})
        if gains:
            everything = everything.filter(_sum_of(everything, [f"{c}_t" for c in gains]) > 0)
        joined = rows.join(everything, keys)
        return joined.select(*rows.columns, **{f"{c}_t": joined[f"{c}_t"] - rows[c] for c in sums})

    # --- errors ---------------------------------------------------------------------------------

    def errors(self, asks: list[Ask]) -> dict[Ask, list[FoldErrors]]:
        """The errors by asks that share their cells."""
        model = asks[0].model
        rows = self.log.rows(model, self.summed)
        cell, cells = grouped_cells(rows, asks, _PAIR, "log")
        if asks[0].hazard:
            return self._by_hazard(asks, cell, cells)
        # Asks of the same metric earn the same, whatever their models call exposed.
        gain = {ask: f"c_{[a.metric for a in asks].index(ask.metric)}" for ask in asks}
        gains = list(dict.fromkeys(gain.values()))
        if model.pins_position:
            # All slots of such a cell are examined alike, so examination cancels out of the ratio:
            # it is one for all metrics, and a ratio of counts.
            earned = {c: _earned(cells, i, asks[i]) for i, c in enumerate(gains)}
            cells = cells.select(*_PAIR, *cell, N, **earned)
            trained = self._trained(cells, [CONTEXT, *cell], [N, *gains], gains)
            return self._judged(trained, asks, gains, N)
        exposures = [f"p_{i}" for i in range(len(asks))]
        sums = [*exposures, *gains]
        cells = self.keep(cells.select(*_PAIR, *cell, *sums), "cells")
        trained = self.keep(self._trained(cells, [CONTEXT, *cell], sums, gains), "trained")
        found: dict[Ask, list[FoldErrors]] = {}
        for ask, exposure in zip(asks, exposures, strict=True):
            found |= self._judged(trained, [ask], [gain[ask]], exposure)
        return found

    def _by_hazard(
        self, asks: list[Ask], cell: list[str], cells: ir.Table
    ) -> dict[Ask, list[FoldErrors]]:
        """The same where the lists of a fold are worth a product of hazards, without an M."""
        numbers = range(len(asks))
        sums = [f"{stem}_{i}" for i in numbers for stem in ("c", "p")]
        cells = self.keep(cells.select(*_PAIR, *cell, *sums), "cells")
        trained = self._trained(cells, [CONTEXT, *cell], sums)
        left = {i: trained[f"p_{i}_t"] > trained[f"p_{i}"] * real(_ROUNDING) for i in numbers}
        rates = trained.select(
            *_PAIR,
            *cell,
            **{
                f"rate_{i}": left[i].ifelse(
                    ratio(trained[f"c_{i}_t"], trained[f"p_{i}_t"]), real(0)
                )
                for i in numbers
            },
        )
        lists = self.keep(self.engine.identified(self.log.lists, LIST), "identified")
        scored = scores(lists, self.keep(rates, "rates"), asks, _PAIR)
        n = scored[N].cast("float64")
        predicted = {f"e_{i}": (n * scored[f"z_{i}_0"]).sum() for i in numbers}
        return self._off(asks, scored.group_by(_PAIR).aggregate(**predicted))

    def _judged(
        self, cells: ir.Table, asks: list[Ask], gains: list[str], exposure: str
    ) -> dict[Ask, list[FoldErrors]]:
        """Errors from cells with their training sums.

        Args:
            cells: own sums, and training sums under the same names with `_t`.
            asks: what is judged; their cells have the same ratios.
            gains: the column of each ask's credit.
            exposure: the column of the cells' exposures, or of counts in proportion to them.
        """
        clips = sorted({clip for ask in asks for clip in ask.clips})
        intervals = self._intervals(cells, gains, exposure, clips)
        rows = self.engine.fetch(self._steps(intervals, asks))
        fold, interval = (rows[c].to_numpy() for c in (FOLD, "interval"))
        found = {}
        for i, ask in enumerate(asks):
            steps = np.zeros((len(_STEPS), self.count, len(clips) + 1))
            for name, step in zip(_STEPS, steps, strict=True):
                step[fold, interval] = rows[f"{name}_{i}"].to_numpy()
            found[ask] = [self._finish(ask, clip, clips.index(clip), steps) for clip in ask.clips]
        return found

    def _intervals(
        self, cells: ir.Table, gains: list[str], exposure: str, clips: list[float]
    ) -> ir.Table:
        """(context, fold, interval) → for each gain, Σ C R · n_own and Σ C · n_train."""
        own, trained = cells[exposure].cast("float64"), cells[f"{exposure}_t"].cast("float64")
        # What a period does not show, what was never shown before and what was never clicked
        # predict nothing. Total − own may leave rounding where nothing is left, far below any part
        # of it that a record could be.
        earned = _sum_of(cells, [f"{c}_t" for c in gains]) > 0
        seen = cells.filter((own > 0) & (trained > own * real(_ROUNDING)) & earned)
        own, trained = seen[exposure].cast("float64"), seen[f"{exposure}_t"].cast("float64")
        seen = seen.select(*_PAIR, *(f"{c}_t" for c in gains), share=own / trained)
        joined = seen.join(self.pairs.select(*_PAIR, RECORDS, TRAINED), _PAIR)
        share = joined["share"]
        ratio = share * joined[TRAINED].cast("float64") / joined[RECORDS].cast("float64")
        rows = joined.mutate(interval=_interval(ratio, clips))
        sums = {f"a_{i}": (rows[f"{c}_t"] * rows["share"]).sum() for i, c in enumerate(gains)}
        sums |= {f"b_{i}": rows[f"{c}_t"].sum() for i, c in enumerate(gains)}
        return rows.group_by([*_PAIR, "interval"]).aggregate(**sums)

    def _steps(self, intervals: ir.Table, asks: list[Ask]) -> ir.Table:
        """(fold, interval) → by how much the sums of errors change where M passes the interval.

        With `a` summed up to M's interval and `b` beyond it, V̂ = a + M b, and its squared error is
        (a − V)² + 2 M (a − V) b + M² b².
        """
        rows = intervals.join(self.pairs, _PAIR)
        # R = share · n_train / n_own, and both sums are per training record.
        own, trained = rows[RECORDS].cast("float64"), rows[TRAINED].cast("float64")
        rows = rows.mutate(
            **{f"a_{i}": rows[f"a_{i}"] / own for i in range(len(asks))},
            **{f"b_{i}": rows[f"b_{i}"] / trained for i in range(len(asks))},
        )
        below = ibis.window(group_by=_PAIR, order_by="interval", preceding=(None, 1))
        above = ibis.window(group_by=_PAIR, order_by="interval", following=(1, None))
        rows = rows.mutate(
            **{f"below_{i}": _running(rows[f"a_{i}"], below) for i in range(len(asks))},
            **{f"above_{i}": _running(rows[f"b_{i}"], above) for i in range(len(asks))},
        )
        weight = rows[WEIGHT]
        sums: dict[str, ir.Value] = {}
        for i, ask in enumerate(asks):
            truth = rows[f"v_{self.metrics.index(ask.metric)}"]
            a, b, above_it = rows[f"a_{i}"], rows[f"b_{i}"], rows[f"above_{i}"]
            before = rows[f"below_{i}"] - truth
            changes = (
                (2 * before + a) * a,
                before * (above_it + b) - (before + a) * above_it,
                (2 * above_it + b) * b,
                a,
                b,
            )
            sums |= {
                f"{name}_{i}": (weight * change).sum()
                for name, change in zip(_STEPS, changes, strict=True)
            }
        return rows.group_by([FOLD, "interval"]).aggregate(**sums)

    def _finish(self, ask: Ask, clip: float, j: int, steps: Floats) -> FoldErrors:
        """Cumulate the steps: those of a from below, those of b from above.

        Summed from above, b is small where it is multiplied by a large M, and loses no digits.
        """
        upto, beyond = steps[:, :, : j + 1].sum(axis=2), steps[:, :, j + 1 :].sum(axis=2)
        i = self.metrics.index(ask.metric)
        squared = self.truths[f"vv_{i}"] + upto[0]
        error = upto[3] - self.truths[f"v_{i}"]
        if math.isfinite(clip):
            squared = squared + 2 * clip * beyond[1] + clip * clip * beyond[2]
            error = error + clip * beyond[4]
        return FoldErrors(ask.model, ask.metric, clip, np.maximum(squared, 0.0), error)

    # --- ladders --------------------------------------------------------------------------------

    def climbed(self, asks: list[Ask], fit: Fitted) -> dict[Ask, list[FoldErrors]]:
        """The errors of a ladder, whose strengths and examination are those of the whole log."""
        depth = asks[0].metric.depth if fit.ladder.top == "list" else self.log.depth
        climb = Climb(fit, _PAIR, [FOLD], depth, self.keep, classes_of(self.tally, fit.ladder))
        sums = {N: N, CREDIT: asks[0].metric.reward}
        cell, cells = climb.cells(self.log.lists, _PAIR, sums)
        own = self.keep(cells, "own")
        rungs = self._rungs(climb, own, cell)
        rates = climb.beside(own.drop(CREDIT).rename(own=N), rungs, cell)
        predicted = rates.group_by(_PAIR).aggregate(
            **{
                f"e_{i}": (
                    rates["own"] * rates[RATE] * looked_up(rates[POSITION], ask.metric.theta)
                ).sum()
                for i, ask in enumerate(asks)
            }
        )
        return self._off(asks, predicted)

    def _off(self, asks: list[Ask], predicted: ir.Table) -> dict[Ask, list[FoldErrors]]:
        """Errors of what has no M: `predicted` has e_i by (context, fold), times its records."""
        rows = self.pairs.left_join(predicted, _PAIR)
        n, weight = rows[RECORDS].cast("float64"), rows[WEIGHT]
        errors = [
            rows[f"e_{i}"].fill_null(real(0)) / n - rows[f"v_{self.metrics.index(ask.metric)}"]
            for i, ask in enumerate(asks)
        ]
        sums = {f"error_{i}": (weight * error).sum() for i, error in enumerate(errors)}
        sums |= {f"squared_{i}": (weight * error * error).sum() for i, error in enumerate(errors)}
        found = self._by_fold(rows, sums)
        return {
            ask: [
                FoldErrors(
                    ask.model, ask.metric, math.inf, found[f"squared_{i}"], found[f"error_{i}"]
                )
            ]
            for i, ask in enumerate(asks)
        }

    def _rungs(self, climb: Climb, own: ir.Table, cell: list[str]) -> list[ir.Table]:
        """The rungs that each fold is predicted from: n and c that the others leave to it.

        What a cell tells the next rung is no sum over folds. But what the fold itself has a part
        in is all that differs from the whole, so the differences add up: Σ told(all) − told(left).
        """
        keys = [[*_PAIR, *cell], *climb.rung_keys[1:]]
        whole, rungs = self._whole(own, keys[0]), []
        for i, on in enumerate(keys):
            left = self._left(own, whole, on)
            rows = self.keep(climb.classed(left, i), f"rung_{i}")
            whole = climb.classed(whole, i)
            rungs.append(rows)
            if i + 1 < len(keys):
                told = climb.told(rows, i), climb.told(rows, i, "all_")
                differing = rows.mutate(**{c: told[1][c] - told[0][c] for c in _COUNTS})
                own = differing.group_by(keys[i + 1]).aggregate(
                    **{c: differing[c].sum() for c in _COUNTS}
                )
                whole = self._whole(whole.mutate(**climb.told(whole, i)), keys[i + 1])
        return rungs

    def _whole(self, rows: ir.Table, keys: list[str]) -> ir.Table:
        """Counts by everything but the fold."""
        apart = [key for key in keys if key != FOLD]
        sums = {c: rows[c].sum() for c in _COUNTS}
        return rows.group_by(apart).aggregate(**sums) if apart else rows.aggregate(**sums)

    def _left(self, own: ir.Table, whole: ir.Table, keys: list[str]) -> ir.Table:
        """Counts of cells by fold: those left to predict it from, and with its own, all_n and c."""
        apart = [key for key in keys if key != FOLD]
        if self.protocol.forward:
            before = ibis.window(group_by=apart, order_by=FOLD, preceding=(None, 1))
            left = {c: _running(own[c], before) for c in _COUNTS}
            return own.select(*keys, **left, **{f"all_{c}": left[c] + own[c] for c in _COUNTS})
        named = whole.rename({f"all_{c}": c for c in _COUNTS})
        joined = own.join(named, apart) if apart else own.cross_join(named)
        return joined.select(
            *keys,
            *named.columns[-len(_COUNTS) :],
            # A difference of sums may be off by their rounding.
            **{c: ibis.greatest(joined[f"all_{c}"] - joined[c], real(0)) for c in _COUNTS},
        )

    # --- what errors are measured against -------------------------------------------------------

    @cached_property
    def truths(self) -> dict[str, Floats]:
        """By fold, over the pairs that are judged: weights, counts, Σ V and Σ V²."""
        pairs = self.pairs
        weight = pairs[WEIGHT]
        sums: dict[str, ir.Value] = {
            WEIGHT: weight.sum(),
            "pairs": pairs.count(),
            RECORDS: total(pairs[RECORDS]),
        }
        for i in range(len(self.metrics)):
            v = pairs[f"v_{i}"]
            sums |= {f"v_{i}": (weight * v).sum(), f"vv_{i}": (weight * v * v).sum()}
        return self._by_fold(pairs, sums)

    def _by_fold(self, pairs: ir.Table, sums: dict[str, ir.Value]) -> dict[str, Floats]:
        rows = self.engine.fetch(pairs.group_by(FOLD).aggregate(**sums))
        found = {}
        for name in sums:
            values = np.zeros(self.count)
            values[rows[FOLD].to_numpy()] = rows[name].to_numpy()
            found[name] = values
        return found

    def _noises(self) -> dict[Metric, Noise]:
        """Σ weight · Var(f | list) / n by fold.

        The variance of a list's reward is pooled within each context, over lists shown twice or
        more in a fold; contexts without any take that of all contexts.
        """
        table, lists = self.table, self.log.lists
        of_list = {
            f"mean_{i}": (credit(lists, m) ** 2 / lists[N].cast("float64")).sum()
            for i, m in enumerate(self.metrics)
        }
        free = lists[N].cast("float64").sum() - lists.count().cast("float64")
        within = lists.group_by(CONTEXT).aggregate(free=free, **of_list)
        n = table[N].cast("float64")
        squares = {f"sq_{i}": (n * credit(table, m) ** 2).sum() for i, m in enumerate(self.metrics)}
        both = within.join(table.group_by(CONTEXT).aggregate(**squares), CONTEXT)
        numbers = range(len(self.metrics))
        left = {
            f"ss_{i}": ibis.greatest(both[f"sq_{i}"] - both[f"mean_{i}"], real(0)) for i in numbers
        }
        spread = self.keep(both.select(CONTEXT, "free", **left), "noise")
        known = spread["free"] > 0
        pooled = self.engine.rows(
            spread.filter(known).aggregate(
                free=spread["free"].sum(), **{c: spread[c].sum() for c in left}
            )
        )[0]
        pairs = self.pairs.join(spread, CONTEXT)
        share = pairs[WEIGHT] / pairs[RECORDS].cast("float64")
        known = pairs["free"] > 0
        freedom = known.ifelse(pairs["free"], real(1))
        sums = {c: known.ifelse(share * pairs[c] / freedom, real(0)).sum() for c in left}
        sums["unknown"] = known.ifelse(real(0), share).sum()
        found = self._by_fold(pairs, sums)
        return {
            m: Noise(
                found[f"ss_{i}"],
                found["unknown"],
                pooled[f"ss_{i}"] or 0.0,
                pooled["free"] or 0.0,
            )
            for i, m in enumerate(self.metrics)
        }

    def summary(self, errors: list[FoldErrors]) -> Folds:
        """The errors with all that they are to be read beside."""
        pairs, everyone = self.pairs, self.everyone
        untrained = everyone[TRAINED] <= 0
        counts = self.engine.rows(
            everyone.aggregate(
                selected=everyone[CONTEXT].nunique(),
                shown=everyone.count(),
                untrained=total(untrained.ifelse(1, 0)),
            )
        )[0]
        counts |= self.engine.rows(pairs.aggregate(contexts=pairs[CONTEXT].nunique()))[0]
        return Folds(
            errors=errors,
            weight=self.truths[WEIGHT],
            pairs=self.truths["pairs"],
            records=self.truths[RECORDS],
            truth={m: self.truths[f"v_{i}"] for i, m in enumerate(self.metrics)},
            noises=self._noises(),
            **counts,
        )


def _sum_of(rows: ir.Table, columns: Sequence[str]) -> ir.Value:
    return reduce(add, [rows[c] for c in columns])


def _earned(cells: ir.Table, i: int, ask: Ask) -> ir.Value:
    """The credit of a cell, none where nobody examines it."""
    credit = cells[f"c_{i}"]
    if ask.model.examination is None:
        return credit
    return (cells[f"p_{i}"] > 0).ifelse(credit, real(0))


def _interval(ratio: ir.Value, clips: list[float]) -> ir.Value:
    """The number of the first M that the ratio does not exceed; as many as there are, if none."""
    finite = [(ratio <= real(m), whole(j)) for j, m in enumerate(clips) if math.isfinite(m)]
    last = whole(len(finite))
    return ibis.cases(*finite, else_=last) if finite else last


def _earlier(column: ir.Column, window: Any) -> ir.Value:  # noqa: ANN401 - an Ibis window
    """The sum over a window; of integers, as wide as `total` makes them."""
    if column.type().is_integer():
        return force(column.sum().over(window).fill_null(0), "int64")
    return _running(column, window)


def _running(column: ir.Column, window: Any) -> ir.Value:  # noqa: ANN401 - an Ibis window
    return column.sum().over(window).fill_null(real(0))
