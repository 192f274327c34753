"""How much the places of a log are examined, with errors.

The curve is the maximum of the likelihood of `places`. Its errors come from the score, whose mean
is 0 at the truth: what each cluster (a day, a user) adds to it, times the inverse of the
information, is what the cluster moves log p by, and the covariance is that of the clusters' sums.

Sizes: P pairs, M pairs that moved, S places, R rows, L lists, K positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from foreclick import inference
from foreclick.batches import Batch, Batches, Bools, Cluster, Floats, Ints, ratio
from foreclick.batches.arrays import accumulate, numbered
from foreclick.curves.likelihood import Exchanges, Moved, exchanges_of, likelihood, products

KEPT_NUMBERS = 50_000_000
"""Counts of pairs that stay in memory between passes, 400 MB; more are counted anew each time."""

DIFFER = 0.1
"""Of log p; contexts or items that differ by less count as equal."""

_SURE_SE = 3.0  # standard errors from which they differ

Segment = tuple[int, ...]
"""The numbers of a segment's values, one per column, as the log's codebook has them."""


class CurveError(NamedTuple):
    """An error of a curve.

    Attributes:
        covariance: Shape (S, S): of log p; NaN where p has none; that of the reference is 0.
        freedom: its degrees of freedom.
    """

    covariance: Floats
    freedom: float


@dataclass(frozen=True)
class Examined:
    """How much the places of one segment are examined.

    Attributes:
        p: Shape (S,): 1 at the reference; 0 where nothing was clicked; NaN where the log cannot
            tell.
        places: which places exchanged items, and which of them are identified.
        converged: whether the maximum was found.
        errors: of log p, by everything that may make it vary.
        context_spread: by how much log p differs between contexts; 0 if that may be chance.
        context_error: the error of log p if contexts differ.
        item_slope: Shape (2, S): by how much the log of an item's clicks at a place goes up with
            the log of its attraction, beyond what p expects, and the standard error of that; both
            are about 0 if p is the same for all items.
    """

    p: Floats
    places: Exchanges
    converged: bool
    errors: tuple[CurveError, ...]
    context_spread: float
    context_error: CurveError
    item_slope: Floats


def examine(
    batches: Batches,
    *,
    reward: str,
    places: Sequence[int],
    by: Sequence[str] = (),
    dated: bool = False,
    clusters: Sequence[Cluster] = (),
) -> dict[Segment, Examined]:
    """How much each place is examined, by segment, in the order of their values.

    Args:
        batches: the log.
        reward: what is counted as clicks.
        places: for each position its place, from 0, which positions may share; −1 for positions
            that are left out, as those beyond the last are.
        by: the columns that make segments.
        dated: whether an item's attraction may be another in each period: then only moves within
            a period count.
        clusters: whose records vary together; without, clicks are taken as independent.
    """
    log = _Log(batches, reward, tuple(places), tuple(by), dated, dated or "period" in clusters)
    exchanged = exchanges_of(log, log.strata, log.size)
    start = np.stack([each.identified.astype(np.float64) for each in exchanged])
    fitted = likelihood(log, exchanged, start)
    scores, scatter, between, slope = _deviations(log, fitted.p)
    by_row = [kind for kind in clusters if kind not in scores]
    scores |= _scores_by_row(log, by_row, fitted.p)
    columns = np.unravel_index(log.codes, log.radix) if by else ()
    answer = {}
    for s, of in enumerate(exchanged):
        if not of.records.any():
            continue
        unknown = ~np.outer(of.identified, of.identified)
        inverse, square = np.zeros((log.size, log.size)), np.ix_(of.free, of.free)
        inverse[square] = np.linalg.inv(fitted.information[s][square])
        errors = []
        for kind in clusters:
            total, there = (each[s] for each in scores[kind])
            influence, g = total[there] @ inverse, np.sum(there)
            factor = g / (g - 1) if g > 1 else np.nan  # how much a single cluster varies is unknown
            errors.append(
                CurveError(np.where(unknown, np.nan, factor * influence.T @ influence), g - 1)
            )
        # Where a pair is spread over several clusters, its rate hides part of how much they
        # differ: half of it, if they are two. So independent clicks are a floor there.
        if by_row or not clusters:
            errors.append(CurveError(np.where(unknown, np.nan, inverse), math.inf))
        spread, sure = inference.excess(*scatter[s].tolist())
        contexts = np.where(unknown, np.nan, inverse @ between[s] @ inverse)
        answer[tuple(int(column[s]) for column in columns)] = Examined(
            p=np.where(of.identified, fitted.p[s], np.where(of.zero, 0.0, np.nan)),
            places=of,
            converged=bool(fitted.converged[s]),
            errors=tuple(errors),
            context_spread=spread if sure > _SURE_SE and spread > DIFFER else 0.0,
            context_error=CurveError(contexts, math.inf),
            item_slope=slope[s],
        )
    return answer


_Counted: TypeAlias = tuple[Batch, Moved, Ints]
"""A batch, its pairs that moved, and the segment of each of its contexts."""


@dataclass(eq=False)
class _Log:
    """The pairs of a log that moved, batch by batch; kept between passes if they are few.

    Attributes:
        batches: the log.
        reward: what is counted as clicks.
        places: for each position its place.
        by: the columns that make segments.
        dated: whether a pair is another one in each period.
        known: whether records without a period are left out.
    """

    batches: Batches
    reward: str
    places: tuple[int, ...]
    by: tuple[str, ...]
    dated: bool
    known: bool

    def __post_init__(self) -> None:
        self.size, book = max(self.places) + 1, self.batches.codebook
        self.periods = book.clusters("period") if self.dated else 1
        self.radix = [len(book.columns[name]) for name in self.by]
        codes = [np.unique(self._code(batch)) for batch in self.batches] if self.by else []
        self.codes = np.unique(np.concatenate(codes)) if codes else np.zeros(1, dtype=np.int64)
        self.strata = len(self.codes)
        self._kept: list[Moved] | None = None
        self._rows: list[_Counted] | None = None

    def _code(self, batch: Batch) -> Ints:
        """Shape (R,): the segment of each row, as one number."""
        return np.asarray(np.ravel_multi_index([batch.codes(b) for b in self.by], self.radix))

    def __iter__(self) -> Iterator[Moved]:
        if self._kept is not None:
            yield from self._kept
            return
        kept, rows = list[Moved](), list[_Counted]()
        numbers = numbers_of_rows = 0
        for each in map(self.counted, self.batches):
            batch, moved, _ = each
            numbers += 2 * moved.n.size + 4 * len(moved.pair)
            numbers_of_rows += batch.lists.size + 4 * len(batch.n)
            kept.append(moved)
            rows.append(each)
            if numbers > KEPT_NUMBERS:
                kept.clear()
            if numbers + numbers_of_rows > KEPT_NUMBERS:
                rows.clear()
            yield moved
        self._kept = kept if numbers <= KEPT_NUMBERS else None
        self._rows = rows if numbers + numbers_of_rows <= KEPT_NUMBERS else None

    def by_rows(self) -> Iterable[_Counted]:
        """What `counted` gives of every batch: as a pass before has kept it, if it is little."""
        return map(self.counted, self.batches) if self._rows is None else self._rows

    def counted(self, batch: Batch) -> _Counted:
        """The batch with every segment, and period, of a context on its own.

        Returns:
            The batch, its pairs that moved, and the segment of each of its contexts, shape (X,).
        """
        periods = self.batches.codebook.periods
        if self.known and periods is not None and periods.known < len(periods):
            rows = np.flatnonzero(batch.clusters["period"] < periods.known)
            batch = batch.take(rows, batch.n[rows])
        context, part = np.arange(batch.context_count), np.zeros(batch.context_count, np.int64)
        if self.by or self.dated:
            code = np.searchsorted(self.codes, self._code(batch)) if self.by else 0
            own, count = batch.clusters["period"] if self.dated else 0, self.strata * self.periods
            batch = batch.split(np.asarray(code * self.periods + own), count)
            context, part = np.divmod(np.asarray(batch.contexts), count)
        stratum, period = np.divmod(part, self.periods)
        of, reward = batch.pair_context, batch.rewards[self.reward]
        clicked = batch.by_slot(batch.earned_slot(reward), reward.value * batch.n[reward.row])
        n, w = (counts[:, : len(self.places)] for counts in (batch.shown, clicked))
        if self.places != tuple(range(self.size)):
            to_place = np.eye(self.size + 1)[list(self.places), : self.size]  # of −1, all are 0
            n, w = n @ to_place, w @ to_place
        groups = stratum[of], context[of], period[of]
        return batch, Moved.from_counts(n, w, groups, self.strata), stratum


# --- scores ---------------------------------------------------------------------------------------

_Scores = dict[Cluster, tuple[Floats, Bools]]
"""By kind of clusters, what each cluster adds to the score of ℓ, shape (strata, clusters, S), and
whether it has a record of a pair that moved, (strata, clusters)."""


def _no_scores(log: _Log, kinds: Sequence[Cluster]) -> _Scores:
    sizes = {kind: (log.strata, log.batches.codebook.clusters(kind)) for kind in kinds}
    return {k: (np.zeros((*n, log.size)), np.zeros(n, np.bool_)) for k, n in sizes.items()}


def _gradients(place: int, p: Floats, rate: Floats, q: Floats) -> Floats:
    """Shape (2, M, S): what a click, and a record, of each pair at a place add to the score.

    A click at place i adds q_k = p_k n_k / D to the score of i and takes it from those of the other
    places k. A record there is expected to earn μ p_i clicks.

    Args:
        place: i.
        p: Shape (M, S): of the segment of each pair.
        rate: Shape (M,): μ.
        q: Shape (M, S).
    """
    own = p[:, place, None]
    gradients = -np.stack([q * (own > 0), -rate[:, None] * own * q])
    gradients[..., place] -= gradients.sum(axis=2)
    return gradients


def _deviations(log: _Log, p: Floats) -> tuple[_Scores, Floats, Floats, Floats]:
    """How the clicks of pairs that moved differ from what p expects of them, in each segment.

    Returns:
        The scores by period, where pairs are of one period; over contexts and places, Σ s², Σ v and
        Σ v², shape (strata, 3), where the score s of a context is how many clicks of its pairs are
        at a place beyond what p expects, and v its variance if p is the same in all contexts;
        Σ s sᵀ over contexts, shape (strata, S, S); and `Examined.item_slope` of each segment.
    """
    strata, size = p.shape
    scores = _no_scores(log, ["period"] if log.dated else [])
    scatter, between = np.zeros((strata, 3)), np.zeros((strata, size, size))
    sums = np.zeros((strata, 4, size))
    for moved in log:
        stratum, (total, rate, q) = moved.stratum, moved.shares(p)
        expected = (rate * total)[:, None] * q
        residual, variance = np.where(q > 0, moved.w - expected, 0.0), expected * (1 - q)
        x = np.log(np.where(rate > 0, rate, 1.0))[:, None]
        values = np.stack([residual * x, variance, variance * x, variance * x * x], axis=1)
        accumulate(sums, stratum, values)
        key = moved.context * strata + stratum
        groups, group = numbered(key, int(key.max(initial=-1)) + 1)
        both = np.zeros((len(groups) + 1, 2, size))  # one more, as there may be none
        accumulate(both, group, np.stack([residual, variance], axis=1))
        s, v = both[:-1].swapaxes(0, 1)
        each = np.stack([(s**2).sum(axis=1), v.sum(axis=1), (v**2).sum(axis=1)], axis=1)
        accumulate(scatter, groups % strata, each)
        between += products(groups % strata, s, s, strata)
        for score, there in scores.values():  # what records are expected to earn cancels
            group, added = stratum * log.periods + moved.period, np.zeros((len(stratum), size))
            for i in range(size):
                added += moved.w[:, i, None] * _gradients(i, p[stratum], rate, q)[0]
            accumulate(score.reshape(-1, size), group, added)
            there.reshape(-1)[group] = True
    score, variance, first, square = sums.swapaxes(0, 1)
    information = np.maximum(square - ratio(first**2, variance), 0.0)
    slope = ratio(score, information), np.sqrt(ratio(np.ones_like(score), information))
    return scores, scatter, between, np.stack(slope, axis=1)


def _scores_by_row(log: _Log, kinds: Sequence[Cluster], p: Floats) -> _Scores:
    """The scores by clusters of rows: what their clicks add, and what their lists do."""
    scores = _no_scores(log, kinds)
    for batch, moved, stratum in log.by_rows() if kinds else ():
        m, (_, rate, q), reward = len(moved.pair), moved.shares(p), batch.rewards[log.reward]
        number = np.full(batch.pair_count + 1, m)  # the last: that of an empty position
        number[moved.pair] = np.arange(m)
        pair = number[batch.lists[:, : len(log.places)]]
        of_list, of_row = (np.zeros((len(rows), log.size)) for rows in (pair, batch.n))
        for k, i in enumerate(log.places):
            if i >= 0:
                click, record = _gradients(i, p[moved.stratum], rate, q)
                lists = np.flatnonzero(pair[:, k] < m)
                of_list[lists] += record[pair[lists, k]]
                at = np.flatnonzero(reward.position == k)
                at = at[pair[batch.row_list[reward.row[at]], k] < m]
                row = reward.row[at]
                earned = click[pair[batch.row_list[row], k]]
                of_row[row] += reward.value[at, None] * earned
        influence = (of_row + of_list[batch.row_list]) * batch.n[:, None]
        rows = np.flatnonzero(np.any(pair < m, axis=1)[batch.row_list])
        for kind, (score, there) in scores.items():
            group = stratum[batch.row_context[rows]] * there.shape[1] + batch.clusters[kind][rows]
            accumulate(score.reshape(-1, log.size), group, influence[rows])
            there.reshape(-1)[group] = True
    return scores
