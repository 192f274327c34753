"""How much each place is examined, from items that stood at several places of one context.

Under the position-based model an item a of context x earns w_xak clicks in n_xak records at place
k, with mean n_xak μ_xa p_k. With μ_xa profiled out, the Poisson log-likelihood is

    ℓ(p) = Σ_k w_k log p_k − Σ_xa c_xa log D_xa,     D_xa = Σ_k p_k n_xak,     c_xa = Σ_k w_xak,

concave in log p, and the same as that of which place got each click of an item: no number of items
biases it. A *pair* (x, a) that stood at one place only, or that was never clicked, says nothing;
the others are counted once, and every pass of Newton's method sums score and information over them.

The second opinion is AllPairs (Agarwal et al., WSDM 2019): the click rates of items that stood at
both of two places, for all pairs of places. Here an item is weighed by n_k n_j / (n_k + n_j), as
Mantel and Haenszel did, and the pairs of places are brought to one curve as Bradley and Terry did.

Sizes: M pairs that moved, S places, R rows, L lists, K positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foreclick.batches import Batch, Batches, Bools, Cluster, Floats, Ints, ratio, sums
from foreclick.batches.arrays import accumulate, numbered
from foreclick.estimators.moves import (
    Fit,
    Gradients,
    Moves,
    graphs_of,
    information_at,
    maximum,
)
from foreclick.estimators.places import Graph, bradley_terry_information

KEPT_NUMBERS = 50_000_000
"""Counts of pairs that stay in memory between passes, 400 MB; more are counted anew each time."""

Segment = tuple[int, ...]
"""The numbers of a segment's values, one per column, as the log's codebook has them."""


@dataclass(frozen=True)
class Spread:
    """A covariance of log p.

    Attributes:
        covariance: Shape (S, S): NaN where p has none; that of the reference is 0.
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
        spreads: the covariance of log p, by everything that may make it vary.
        allpairs: Shape (S,): the same as `p`, by AllPairs.
        apart: Shape (S,): the standard error of log allpairs − log p; NaN where it is not known.
        graph: which places exchanged items, and which of them are told.
        records: Shape (S,): how many records filled each place.
        converged: whether the maximum was found.
        scatter: Shape (3,): Σ s², Σ v and Σ v² over contexts and places. The score s of a context
            is how many clicks of its moved items are at a place beyond what p expects of them, and
            v its variance if p is the same in all contexts.
        contexts: the covariance of log p if contexts differ.
        lean: Shape (2, S): by how much the log of an item's clicks at a place goes up with the log
            of its attraction, beyond what p says, and the standard error of that; both are about 0
            if p is the same for all items.
    """

    p: Floats
    spreads: tuple[Spread, ...]
    allpairs: Floats
    apart: Floats
    graph: Graph
    records: Floats
    converged: bool
    scatter: Floats
    contexts: Floats
    lean: Floats


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
    log = _Log(batches, reward, tuple(places), tuple(by), tuple(clusters), dated=dated)
    fits = maximum(log, log.graphs())
    scores, (scatter, between, lean) = log.scores(fits), log.scatter(fits)
    independent = not clusters or set(clusters) - ({"period"} if dated else set())
    return {
        segment: _result(
            fits[s],
            (log.records[s], scatter[s], between[:, s], lean[s]),
            [found[s] for found in scores],
            independent=bool(independent),
        )
        for s, segment in enumerate(log.segments)
        if log.filled[s]
    }


def examination_curve(n: Floats, w: Floats) -> Floats:
    """Shape (K,): p_1 … p_K of all positions, for a ladder, from counts of all pairs.

    Positions that items with clicks moved between have the p of `examine`: the maximum of the same
    likelihood, which maximising p and μ in turn also reaches, to about 1e-6. Where they fall into
    several parts that no such item connects, each part, a single position included, keeps the
    height that the positions' click rates give it: their geometric mean, weighted by clicks, stays
    (in turn it does so to second order). A position whose moved items got no click there has p = 0.

    Args:
        n: Shape (P, K): how many records show each pair at each position.
        w: Shape (P, K): the clicks there.

    Examples:
        >>> n = np.array([[10.0, 10.0], [20.0, 20.0]])
        >>> examination_curve(n, np.array([[4.0, 2.0], [6.0, 3.0]])).tolist()
        [1.0, 0.5]
    """
    p = ratio(w.sum(axis=0), n.sum(axis=0))
    moves = Moves.of(n, w, np.zeros(len(n), dtype=np.intp))
    (graph,) = graphs_of([moves], 1, n.shape[1])
    p[(graph.items > 0) & (graph.clicks == 0)] = 0.0
    for part in np.unique(graph.comparable, axis=0):
        places = np.flatnonzero(part)
        if len(places) > 1:
            inner = graph.at(places)
            (fit,) = maximum([moves.at(places)], [inner])
            height = np.average(np.log(p[places] / fit.p), weights=inner.clicks)
            p[places] = fit.p * np.exp(height)
    scale = p[0] if p[0] > 0 else p.max()
    return np.asarray(p / scale if scale > 0 else np.ones(len(p)))


def curve_information(n: Floats, w: Floats, p: Floats) -> Floats:
    """Shape (K, K): what pairs that moved say about log p; nothing about parts they do not connect.

    Args:
        n: Shape (P, K): how many records show each pair at each position.
        w: Shape (P, K): the clicks there.
        p: Shape (K,): where the likelihood is looked at, such as `examination_curve`.
    """
    return information_at(Moves.of(n, w, np.zeros(len(n), dtype=np.intp)), p)


# --- pairs of a log -------------------------------------------------------------------------------


class _Log:
    """The pairs of a log that moved: gone through batch by batch, and kept if they are few."""

    def __init__(
        self,
        batches: Batches,
        reward: str,
        places: tuple[int, ...],
        by: tuple[str, ...],
        clusters: tuple[Cluster, ...],
        *,
        dated: bool,
    ) -> None:
        self.batches, self.reward, self.places = batches, reward, places
        self.by, self.dated, self.clusters = by, dated, clusters
        self.size = max(places) + 1
        self.periods = batches.codebook.periods
        self.radix = [len(batches.codebook.column(name)) for name in by]
        self.codes = self._codes()
        self.records = np.zeros((len(self.codes), self.size))
        self.filled = np.zeros(len(self.codes), dtype=np.bool_)
        self._kept: list[_Part] | None = None

    # --- segments -----

    @property
    def segments(self) -> list[Segment]:
        """The numbers of the values of each segment."""
        columns = np.unravel_index(self.codes, self.radix) if self.by else ()
        return [tuple(int(c[s]) for c in columns) for s in range(len(self.codes))]

    def _codes(self) -> Ints:
        """All segments that occur, each as one number, in their order."""
        found = [np.unique(self._code(batch)) for batch in self.batches] if self.by else []
        return np.unique(np.concatenate(found)) if found else np.zeros(1, dtype=np.int64)

    def _code(self, batch: Batch) -> Ints:
        """Shape (R,): the segment of each row, as one number."""
        return np.asarray(np.ravel_multi_index([batch.codes(b) for b in self.by], self.radix))

    def split(self, batch: Batch) -> tuple[Batch, Ints]:
        """Every segment, and period if moves are to be within one, of a context on its own.

        Returns:
            The batch, and of each of its contexts (X,) the segment.
        """
        if self.periods is not None and (self.dated or "period" in self.clusters):
            known = batch.clusters["period"] < self.periods.known
            if not known.all():
                rows = np.flatnonzero(known)
                batch = batch.take(rows, batch.n[rows])
        if not self.by and not self.dated:
            return batch, np.zeros(batch.context_count, dtype=np.intp)
        zero = np.zeros(len(batch.n), dtype=np.int64)
        part = np.searchsorted(self.codes, self._code(batch)) if self.by else zero
        periods = 1
        if self.dated and self.periods is not None:
            periods = len(self.periods)
            part = part * periods + batch.clusters["period"]
        found = batch.split(part, len(self.codes) * periods)
        return found, found.stratum // periods

    # --- counts -----

    def __iter__(self) -> Iterator[Moves]:
        return (part.moves for part in self._parts())

    def _parts(self) -> Iterator[_Part]:
        if self._kept is not None:
            yield from self._kept
            return
        for batch, stratum in self._split():
            yield self._part(batch, stratum)

    def _split(self) -> Iterator[tuple[Batch, Ints]]:
        return map(self.split, self.batches)

    def _part(self, batch: Batch, stratum: Ints) -> _Part:
        moves = self._moves(batch, stratum)
        context = batch.pair_context[moves.pair]
        period: Ints = np.zeros(0, dtype=np.int64)
        if self.dated:
            first = batch.context_rows[:-1][context]  # all rows of a split context are of a period
            period = batch.clusters["period"][first]
        return _Part(moves, len(batch.contexts), batch.context_value[context], period)

    def graphs(self) -> list[Graph]:
        """Of each segment, how places exchanged items; counts what else is counted once."""
        return graphs_of(self._first(), len(self.codes), self.size)

    def _first(self) -> Iterator[Moves]:
        """The pairs, kept for the next pass as long as they are few."""
        kept: list[_Part] = []
        numbers = 0
        for batch, stratum in self._split():
            of_pair = stratum[batch.pair_context]
            accumulate(self.records, of_pair, self._by_place(batch.shown))
            self.filled[of_pair[(batch.shown[:, : len(self.places)] > 0).any(axis=1)]] = True
            part = self._part(batch, stratum)
            numbers += 2 * part.moves.n.size + 4 * len(part.context)
            kept.append(part)
            if numbers > KEPT_NUMBERS:
                kept.clear()
            yield part.moves
        if numbers <= KEPT_NUMBERS:
            self._kept = kept

    def _moves(self, batch: Batch, stratum: Ints) -> Moves:
        reward = batch.rewards[self.reward]
        size = batch.pair_count * batch.depth
        worth = reward.value * batch.n[reward.row]
        clicked = sums(batch.earned_slot(reward), worth, size + 1)[:size]
        w = self._by_place(clicked.reshape(batch.pair_count, batch.depth))
        return Moves.of(self._by_place(batch.shown), w, stratum[batch.pair_context])

    def _by_place(self, counts: Floats) -> Floats:
        """Counts by position (P, K) as counts by place (P, S)."""
        if self.places == tuple(range(self.size)):
            return counts[:, : self.size]
        found = np.zeros((len(counts), self.size))
        for position, place in enumerate(self.places):
            if place >= 0:
                found[:, place] += counts[:, position]
        return found

    # --- errors -----

    def scatter(self, fits: Sequence[Fit]) -> tuple[Floats, Floats, Floats]:
        """How clicks differ from what p expects of them, in each segment.

        Returns:
            `Examined.scatter`; Σ s sᵀ over contexts, shape (S, segments, S); and sums for
            `Examined.lean`, shape (segments, 4, S).
        """
        p, strata = np.stack([fit.p for fit in fits]), len(self.codes)
        scatter, between = np.zeros((strata, 3)), np.zeros((self.size, strata, self.size))
        lean = np.zeros((strata, 4, self.size))
        for moves, contexts, context, _ in self._parts():
            if not len(moves.pair):
                continue
            total, rate = moves.rates(p)
            q = ratio(p[moves.stratum] * moves.n, total[:, None])
            expected = (rate * total)[:, None] * q
            groups, group = numbered(context * strata + moves.stratum, contexts * strata)
            beyond, chance = np.where(q > 0, moves.w - expected, 0.0), expected * (1 - q)
            x = np.log(np.where(rate > 0, rate, 1.0))[:, None]
            accumulate(
                lean,
                moves.stratum,
                np.stack([beyond * x, chance, chance * x, chance * x * x], axis=1),
            )
            off, v = np.zeros((2, len(groups), self.size))
            accumulate(off, group, beyond)
            accumulate(v, group, chance)
            each = np.stack([(off**2).sum(axis=1), v.sum(axis=1), (v**2).sum(axis=1)], axis=1)
            accumulate(scatter, groups % strata, each)
            for j in range(self.size):
                accumulate(between[j], groups % strata, off[:, [j]] * off)
        return scatter, between, lean

    def scores(self, fits: Sequence[Fit]) -> list[list[Floats]]:
        """What each cluster adds to the scores: for each kind, for each segment (clusters, 2 S).

        The first S columns are of the likelihood, the others of AllPairs. Clusters without a record
        of a pair that moved are left out.
        """
        counts = {kind: self.batches.codebook.clusters(kind) for kind in self.clusters}
        strata, width = len(self.codes), 2 * self.size
        found = {kind: np.zeros((strata * counts[kind], width)) for kind in self.clusters}
        there = {kind: np.zeros(strata * counts[kind], np.bool_) for kind in self.clusters}
        for kind, influence, cluster, stratum in self._influences(fits):
            group = stratum * counts[kind] + cluster
            accumulate(found[kind], group, influence)
            there[kind][group] = True
        return [
            [
                mine[some]
                for mine, some in zip(
                    found[kind].reshape(strata, -1, width),
                    there[kind].reshape(strata, -1),
                    strict=True,
                )
            ]
            for kind in self.clusters
        ]

    def _influences(self, fits: Sequence[Fit]) -> Iterator[tuple[Cluster, Floats, Ints, Ints]]:
        """A kind of clusters, influence (N, 2 S), and the cluster and segment it belongs to, (N,).

        Where moves are those within a period, a pair is of one period, and a period's influence is
        that of its pairs. Otherwise it is that of rows.
        """
        by_pair: list[Cluster] = ["period"] if self.dated and "period" in self.clusters else []
        by_row = [kind for kind in self.clusters if kind not in by_pair]
        for part in self._parts() if by_pair else ():
            moves = part.moves
            yield "period", Gradients(moves, fits).of_pairs(), part.period, moves.stratum
        for batch, stratum in self._split() if by_row else ():
            gradients = Gradients(self._moves(batch, stratum), fits)
            influence, concerned = self._influence(batch, gradients)
            for kind in by_row:
                cluster = batch.clusters[kind][concerned]
                yield kind, influence[concerned], cluster, stratum[batch.row_context[concerned]]

    def _influence(self, batch: Batch, gradients: Gradients) -> tuple[Floats, Bools]:
        """What each row adds to both scores, shape (R, 2 S), and the rows with pairs that moved.

        A row adds what its clicks add, less what its list was expected to earn.
        """
        moved = gradients.moves.pair
        number = np.full(batch.pair_count + 1, len(moved))  # the last: that of an empty position
        number[moved] = np.arange(len(moved))
        pair = number[batch.lists[:, : len(self.places)]]
        of_list = np.zeros((len(pair), 2 * self.size))
        of_row = np.zeros((len(batch.n), 2 * self.size))
        reward = batch.rewards[self.reward]
        for place in range(self.size):
            at, click, record = gradients.at(place)
            for k in np.flatnonzero(np.array(self.places) == place):
                here = at[pair[:, k]]
                of_list += np.take(record, here, axis=0)
                entries = np.flatnonzero(reward.position == k)
                row = reward.row[entries]
                earned = np.take(click, here[batch.row_list[row]], axis=0)
                of_row[row] += reward.value[entries, None] * earned
        of_row += of_list[batch.row_list]
        of_row *= batch.n[:, None]
        return of_row, np.asarray((pair < len(moved)).any(axis=1))[batch.row_list]


class _Part(NamedTuple):
    """The pairs of a batch that moved, and what is kept of them between passes.

    Attributes:
        moves: the pairs.
        contexts: how many the batch has.
        context: Shape (M,): the context of each pair, in the numbers of its batch.
        period: Shape (M,): the period of each pair, where moves are those within one.
    """

    moves: Moves
    contexts: int
    context: Ints
    period: Ints


def _result(
    fit: Fit, counted: tuple[Floats, ...], scores: Sequence[Floats], *, independent: bool
) -> Examined:
    """What was found of a segment.

    Where a pair is spread over several clusters, its rate hides part of how much they differ: half
    of it, if they are two. So the variance of independent clicks is a floor there.
    """
    graph, size = fit.graph, len(fit.p)
    inverse = graph.inverse(fit.information)
    other = graph.inverse(bradley_terry_information(graph, fit.allpairs))
    spreads = [_spread(graph, score[:, :size] @ inverse) for score in scores]
    if independent:
        spreads.append(Spread(graph.only(inverse), np.inf))
    apart = np.full(size, np.nan)
    if scores:
        difference = scores[0][:, size:] @ other - scores[0][:, :size] @ inverse
        apart = np.sqrt(np.diag(_spread(graph, difference).covariance))
    return Examined(
        p=graph.with_zeros(fit.p),
        spreads=tuple(spreads),
        allpairs=graph.with_zeros(fit.allpairs),
        apart=apart,
        graph=graph,
        records=counted[0],
        converged=fit.done,
        scatter=counted[1],
        contexts=graph.only(inverse @ counted[2] @ inverse),
        lean=_lean(*counted[3]),
    )


def _lean(score: Floats, chance: Floats, first: Floats, second: Floats) -> Floats:
    """Shape (2, S): a slope by x, and its standard error.

    Args:
        score: Σ s x, where s are clicks beyond those expected, and sum to 0.
        chance: Σ v, the variance of s.
        first: Σ v x.
        second: Σ v x².
    """
    information = np.maximum(second - ratio(first**2, chance), 0.0)
    return np.stack([ratio(score, information), np.sqrt(ratio(np.ones(len(score)), information))])


def _spread(graph: Graph, influence: Floats) -> Spread:
    """The covariance over G clusters, G / (G − 1) Σ ψ ψᵀ; unknown if there is only one."""
    count = len(influence)
    covariance = influence.T @ influence * (count / (count - 1) if count > 1 else np.nan)
    return Spread(graph.only(covariance), count - 1)
