"""Trends of click rates over the periods of a log, from items compared with themselves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Batches, Floats, Totals, batches_of, padded, ratio, sums
from foreclick.estimators.ladder.work import Placed
from foreclick.estimators.question import Question
from foreclick.estimators.work import BatchWork, Strata
from foreclick.metrics import Metric
from foreclick.tallies.base import Tally

_ENOUGH = 3  # periods in which an item must have been shown for its slope to be one


def item_trends(batches: Batches, reward: str, examined: Floats) -> Floats | None:
    """Shape (5,): sums over items for `inference.trend`; None where there are too few periods.

    An item of a context is compared with itself. Positions count by how much they are examined.

    Args:
        batches: the log.
        reward: what is counted as clicks.
        examined: Shape (K,): p_1, p_2, ….
    """
    periods = batches.codebook.periods
    if periods is None or periods.known < _ENOUGH:
        return None
    totals = Totals()
    for batch in batches:
        values, context = _of_items(batch, reward, examined, periods.known)
        by_context = np.stack([sums(context, v, batch.context_count) for v in values], axis=1)
        totals.add("trend", by_context, np.zeros(batch.context_count, dtype=np.int64))
    return np.asarray(totals.sum("trend")[0])


class _Items(NamedTuple):
    """What the periods of a log have of every pair, shape (P,) each; times are from the middle.

    Attributes:
        exposed, moment, square: the sums of e, e t and e t² over records.
        clicks, dated: the sums of w and w t.
    """

    exposed: Floats
    moment: Floats
    square: Floats
    clicks: Floats
    dated: Floats


def _items(batch: Batch, reward: str, examined: Floats, known: int) -> _Items:
    row_period = batch.clusters["period"]
    n = np.where(row_period < known, batch.n, 0.0)
    # Counted from the middle, so that squares of large numbers do not cancel.
    time = row_period - (known - 1) / 2
    pairs = np.where(batch.lists < 0, batch.pair_count, batch.lists)
    exposed = []
    for power in (0, 1, 2):
        of_list = sums(batch.row_list, n * time**power, len(batch.lists))
        weight = of_list[:, None] * examined[: batch.depth]
        exposed.append(sums(pairs, weight, batch.pair_count + 1)[:-1])
    earned = batch.rewards[reward]
    pair = pairs[batch.row_list[earned.row], earned.position]
    worth = earned.value * n[earned.row]
    clicks, moment = (
        sums(pair, worth * time[earned.row] ** power, batch.pair_count + 1)[:-1] for power in (0, 1)
    )
    return _Items(exposed[0], exposed[1], exposed[2], clicks, moment)


def _of_items(
    batch: Batch, reward: str, examined: Floats, known: int
) -> tuple[list[Floats], np.ndarray]:
    """S, I, S², S I and I² of every pair, shape (P,) each, and their contexts."""
    e, et, ett, clicks, moment = _items(batch, reward, examined, known)
    some = (e > 0) & (clicks > 0)
    mean = np.divide(et, e, out=np.zeros_like(e), where=some)
    score = np.where(some, moment - clicks * mean, 0.0)
    rate = np.divide(clicks, e, out=np.zeros_like(e), where=some)
    information = np.where(some, np.maximum(rate * (ett - et * mean), 0.0), 0.0)
    score = np.where(information > 0, score, 0.0)
    return [score, information, score**2, score * information, information**2], batch.pair_context


def drift_covariance(
    tally: Tally, question: Question, metric: Metric, examined: Floats, spread: float
) -> Floats:
    """Shape (strata, 2, 2): how far V and F of n records are from those at the end of the log.

    The rate of an item was seen at the mean time t̄ of its records. At the end T of the log it is
    exp(b (T − t̄)) times that, with slopes b of spread τ that are independent of each other, so

        Cov = Σ_xa (n_x)² (v_xa, f_xa)ᵀ (v_xa, f_xa) E(exp(b (T − t̄_xa)) − 1)²

    with v and f what the candidate and production earn by the item, as far as it was ever shown.

    A ranker that follows trends shows items at the top on their good days. Then slopes are not
    independent of when a slot was shown: all rates may be off to the same side, each by τ times the
    time between the records of its slot and those of its context, as far as that is more than
    chance. The sum of these counts as two standard errors of V.

    Args:
        tally: the log, with periods.
        question: the candidate, and what counts.
        metric: a sum over positions.
        examined: Shape (K,): p_1, p_2, ….
        spread: τ, of log rates from one period to the next.
    """
    batches = batches_of(tally)
    strata, periods = Strata.of(batches, question.by), batches.codebook.periods
    work, totals = BatchWork(question, tally.shape, strata), Totals(strata.count)
    known = 0 if periods is None else periods.known
    for batch in batches:
        shifts = _Shifts(work.placed(batch), metric, examined, known)
        each = np.column_stack([shifts.independent(spread), spread * shifts.common()])
        totals.add("drift", each, strata.numbers(shifts.batch))
    vv, vf, ff, common = totals.sum("drift").T
    found = np.array([[vv + (common / 2) ** 2, vf], [vf, ff]])
    return np.moveaxis(found, 2, 0)


class _Shifts:
    """How far what a candidate and production earn by items is from the end of the log.

    Args:
        placed: a batch and the candidate.
        metric: a sum over positions.
        examined: Shape (K,): p_1, p_2, ….
        known: how many periods the log has.
    """

    def __init__(self, placed: Placed, metric: Metric, examined: Floats, known: int) -> None:
        self.counting, self.batch, self._known = placed.counting, placed.counting.batch, known
        batch, slots, depth = self.batch, placed.candidate.slots, placed.candidate.depth
        self._items = _items(batch, metric.reward, examined, known)
        theta, p = padded(metric.theta, depth), padded(examined, depth)
        seen = slots.pair < batch.pair_count
        self._shown = np.zeros((batch.pair_count, depth))
        self._shown[slots.pair[seen]] = slots.mass[seen] * theta * p
        rate = ratio(self._items.clicks, self._items.exposed)
        self._shown *= (rate * batch.context_n[batch.pair_context])[:, None]
        earned = batch.rewards[metric.reward]
        pair = batch.lists[batch.row_list[earned.row], earned.position]
        credit = earned.value * batch.n[earned.row] * theta[earned.position]
        self._production = sums(pair, credit, batch.pair_count)

    def independent(self, spread: float) -> Floats:
        """Shape (X, 3): Σ v², v f and f² times the square of how far rates are from the end."""
        context, count = self.batch.pair_context, self.batch.context_count
        f = self._production
        v = np.where(self.counting.known[context], self._shown.sum(axis=1), f)
        time = ratio(self._items.moment, self._items.exposed)
        variance = (spread * ((self._known - 1) / 2 - time)) ** 2
        off = np.exp(2 * variance) - 2 * np.exp(variance / 2) + 1
        off *= self.counting.counts[context]
        return np.stack(
            [sums(context, each * off, count) for each in (v * v, v * f, f * f)], axis=1
        )

    def common(self) -> Floats:
        """Shape (X,): Σ v times the time from what is seen of a slot to its context."""
        batch, context = self.batch, self.batch.pair_context
        period = batch.clusters["period"]
        n = np.where(period < self._known, batch.n, 0.0)
        records, moment, square = (
            sums(batch.row_context, n * period**power, batch.context_count) for power in (0, 1, 2)
        )
        center = ratio(moment, records)
        spread = ratio(square, records) - center**2
        size = batch.pair_count * batch.depth
        slot, there = batch.slot.ravel(), (batch.lists >= 0).ravel()
        seen, time = (
            sums(
                slot[there],
                np.repeat(sums(batch.row_list, n * period**power, len(batch.lists)), batch.depth)[
                    there
                ],
                size,
            ).reshape(-1, batch.depth)
            for power in (0, 1)
        )
        away = (ratio(time, seen) - center[context][:, None]) ** 2
        chance = ratio(np.broadcast_to(spread[context][:, None], seen.shape), seen)
        far = np.where(seen > 0, np.sqrt(np.maximum(away - chance, 0.0)), 0.0)
        off = (self._shown[:, : batch.depth] * far).sum(axis=1) * self.counting.known[context]
        return sums(context, off, batch.context_count)
