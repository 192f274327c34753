"""How far an estimate would move if the log were drawn again: influence functions, as arrays.

For a record t of context x, with u_g = 1 where the weight of a cell is not clipped
(STATISTICS, section 2):

    ψ_t = Σ_g W_g (c_g(t) − u_g r_g e_g(t)) − Σ_g (1 − u_g) M C_g  +  V_x − V

and V̂ − V is about the mean of ψ. The reward of the record itself, φ_t = f_t − F, is production's.
Both are summed over clusters of records that vary together (a day, a bucket of users); where
records are independent, every record is a cluster of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foreclick.batches import Batch, Bools, Cluster, Floats, ratio, sums
from foreclick.estimators.cells import row_credit
from foreclick.estimators.kernel import (
    CellClusters,
    WeighedCells,
    row_scores,
)
from foreclick.metrics import Metric


@dataclass(frozen=True, eq=False)
class Counting:
    """Which contexts of a batch count, and how.

    Attributes:
        batch: the log's records.
        known: Shape (X,): the contexts that the candidate has lists for.
        used: whether the others count too, as production does.
    """

    batch: Batch
    known: Bools
    used: bool

    @property
    def counts(self) -> Bools:
        """Shape (X,): the contexts that count."""
        return np.ones_like(self.known) if self.used else self.known

    def rewards(self, metric: Metric) -> Floats:
        """Shape (R,): f_t."""
        return row_credit(self.batch, metric)

    def by_row(self, values: Floats) -> Floats:
        """Shape (R,): n × values of the records of each row that counts."""
        return np.where(self.counts[self.batch.row_context], self.batch.n * values, 0.0)

    def by_cluster(self, values: Floats, kind: Cluster) -> Floats:
        """Shape (X, T): n × values of the records of each context and cluster."""
        batch, count = self.batch, self.batch.cluster_count[kind]
        at = batch.row_context.astype(np.int64) * count + batch.clusters[kind]
        size = batch.context_count * count
        found = sums(at, batch.n * values, size).reshape(batch.context_count, count)
        return found * self.counts[:, None]


@dataclass(frozen=True, eq=False)
class Influence:
    """The influence of one ask's records, before V and F are subtracted.

    Attributes:
        counting: which contexts count.
        weighed: the candidate's cells.
    """

    counting: Counting
    weighed: WeighedCells

    def common(self, m: int) -> Floats:
        """Shape (X,): what all records of a context have in common, V_x less what M cut off."""
        w, batch = self.weighed, self.counting.batch
        value, clip = w.value(m), w.ask.clips[m]
        cut = 0.0 if math.isinf(clip) else w.credit * clip
        taken = value if w.known else np.where(w.unclipped(m) > 0, 0.0, cut)
        return ratio(sums(w.context, value - taken, batch.context_count), batch.context_n)

    def rows(self, m: int) -> Floats:
        """Shape (R,): ψ_t + V; of contexts that the candidate does not know, f_t."""
        batch, known = self.counting.batch, self.counting.known
        own = row_scores(self.weighed, m)
        own += self.common(m)[batch.row_context]
        if known.all():
            return own
        return np.where(
            known[batch.row_context], own, self.counting.rewards(self.weighed.ask.metric)
        )

    def clusters(self, m: int, cells: CellClusters, clustering: Clustering) -> Floats:
        """Shape (X, T): Σ (ψ_t + V) over the records of each context and cluster."""
        a, b = self.weighed.factors(m)
        own = cells.by_cluster(a[cells.cell] * cells.earned - b[cells.cell] * cells.exposed)
        own += clustering.records * self.common(m)[:, None]
        known = self.counting.known
        if known.all():
            return own
        return np.where(known[:, None], own, clustering.rewards(self.weighed.ask.metric))


class Clustering:
    """What the asks of a batch share about clusters of one kind."""

    def __init__(self, counting: Counting, kind: Cluster) -> None:
        self.counting, self.kind = counting, kind
        self._rewards: dict[Metric, Floats] = {}

    @cached_property
    def records(self) -> Floats:
        """Shape (X, T): how many records each context has in each cluster."""
        return self.counting.by_cluster(np.ones(len(self.counting.batch.n)), self.kind)

    def rewards(self, metric: Metric) -> Floats:
        """Shape (X, T): what the records of each context and cluster earned."""
        if metric not in self._rewards:
            f = self.counting.rewards(metric)
            self._rewards[metric] = self.counting.by_cluster(f, self.kind)
        return self._rewards[metric]
