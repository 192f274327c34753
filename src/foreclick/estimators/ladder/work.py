"""A ladder's part of an answer: three maps over batches, from records to values of contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from foreclick.batches import Candidate, Floats, ratio
from foreclick.estimators import variance
from foreclick.estimators.cells import Ask
from foreclick.estimators.influence import Clustering, Counting
from foreclick.estimators.ladder.estimate import Influence, LadderEstimate
from foreclick.estimators.spread import BOTH
from foreclick.policies import Observed

Values = dict[Any, Floats]
"""Shape (X, …) each, by the number of the ask and a name."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A batch with the candidate in its numbers, and which of its contexts count."""

    candidate: Candidate
    counting: Counting


@dataclass(frozen=True, eq=False)
class LadderWork:
    """One ladder, asked for metrics of one reward.

    Attributes:
        estimate: the ladder over the batches of the log.
        asks: what is asked, by number.
        clusters: whose records vary together.
        drops: whether contexts that the candidate does not know are left out of everything.
        sample: whether the candidate is the frequencies of another log.
        two_way: whether periods and units count both.
        products: whether ψ_t of rows is handed on, for products with other metrics.
    """

    estimate: LadderEstimate
    asks: list[tuple[int, Ask]]
    clusters: tuple[str, ...]
    drops: bool
    sample: bool
    two_way: bool = False
    products: bool = False

    def values(self, placed: Iterable[Placed]) -> Iterator[tuple[Placed, Values, Values]]:
        """What every batch adds to the answer: values of contexts, and of rows.

        The batches come twice: with values, then with variances.

        Args:
            placed: the batches of the log, which are gone through three times.
        """
        for number, each in enumerate(placed):
            known = each.counting.known if self.drops else None
            self.estimate.count(number, each.counting.batch, known)
        earned = []
        for number, each in enumerate(placed):
            found = self.estimate.values(number, each.counting.batch, each.candidate)
            earned.append(found["credit"])
            yield each, self._sums(found), {}
        if not self.clusters:
            return
        for number, (each, credit) in enumerate(zip(placed, earned, strict=True)):
            influence = self.estimate.influence(number, each.counting.batch, each.candidate)
            values = self._variance(number, each, influence, credit)
            yield each, values, self._rows(each, influence, credit)

    def _sums(self, found: dict[str, Floats]) -> Values:
        values: Values = {}
        for j, (i, _) in enumerate(self.asks):
            for name in ("mass", "covered", "cells", "seen"):
                values[i, None, name] = found[name][:, j]
            for name in ("credit", "borrowed"):
                values[i, 0, name] = found[name][:, j]
            values[i, "rungs"] = found["share"][:, j]
        return values

    def _variance(
        self, number: int, placed: Placed, influence: Influence, credit: Floats
    ) -> Values:
        counting, batch = placed.counting, placed.counting.batch
        values: Values = {}
        worth = None
        if self.sample:
            worth = self.estimate.scored(number, batch, placed.candidate)
        clusterings = {
            kind: Clustering(counting, kind)  # type: ignore[arg-type]
            for kind in self.clusters
            if kind != "record"
        }
        for j, (i, ask) in enumerate(self.asks):
            values[i, 0, "weighted"] = influence.weighted[:, j]
            values[i, 0, "squared"] = influence.squared[:, j]
            values[i, 0, "borrowed variance"] = influence.unsettled[:, j]
            common = _common(counting, credit[:, j])
            for kind in self.clusters:
                clustering = clusterings.get(kind)
                values |= self._cluster(clustering, j, i, ask, counting, influence, common)
            own: dict[Any, Floats] = {}
            if worth is not None and isinstance(placed.candidate.policy, Observed):
                sizes = placed.candidate.policy.records(placed.candidate.coding.view)
                own = variance.sampled_candidate(
                    placed.candidate, sizes[batch.context_value], [worth[:, j]]
                )
            values |= {(i, *name): each for name, each in own.items()}
        return values

    def _rows(self, placed: Placed, influence: Influence, credit: Floats) -> Values:
        """ψ_t + V of rows: n times it where periods and units count both, or else by itself."""
        if not self.two_way and not self.products:
            return {}
        counting = placed.counting
        values: Values = {}
        for j, (i, ask) in enumerate(self.asks):
            common, f = _common(counting, credit[:, j]), counting.rewards(ask.metric)
            psi = _psi(counting, influence.per_record(j), common, f)
            if self.two_way:
                values[i, 0, BOTH, "psi"] = counting.by_row(psi)
            else:
                values[i, 0] = psi
        return values

    def _cluster(
        self,
        clustering: Clustering | None,
        j: int,
        i: int,
        ask: Ask,
        counting: Counting,
        influence: Influence,
        common: Floats,
    ) -> Values:
        """Σ (ψ_t + V) of clusters, or of records where there are none.

        Contexts that the candidate does not know are worth what they were. Records of all contexts
        move the rates of the rungs that contexts share.
        """
        if clustering is None:
            f = counting.rewards(ask.metric)
            psi = _psi(counting, influence.per_record(j), common, f)
            moments = variance.record_moments(counting, psi, ask.metric)
            return {(i, 0, "record", name): each for name, each in moments.items()}
        kind, known = clustering.kind, counting.known[:, None]
        own = np.where(known, clustering.records * common[:, None], clustering.rewards(ask.metric))
        return {(i, 0, kind, "psi"): influence.by_cluster(j, kind) + own}


def _common(counting: Counting, credit: Floats) -> Floats:
    """Shape (X,): what all records of a context have in common, V_x."""
    return ratio(credit, counting.batch.context_n)


def _psi(counting: Counting, moved: Floats, common: Floats, reward: Floats) -> Floats:
    """Shape (R,): ψ_t + V; contexts that the candidate does not know are worth what they were."""
    context = counting.batch.row_context
    return moved + np.where(counting.known[context], common[context], reward)
