"""The parts of an answer, and sums over records, clusters or contexts for each of them.

A part has its records' share of the whole: where there are several parts, the whole is the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import Batch, Batches, Cluster, Floats, Ints
from foreclick.batches.encode import Codes
from foreclick.estimation.slots import group_sums
from foreclick.logs import CONTEXT
from foreclick.question import Question
from foreclick.results import Value

if TYPE_CHECKING:
    from scipy.sparse import csr_array


BOTH = "both"
"""The kind of clusters that share a period and a unit."""


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

    def rows(self, batch: Batch) -> Ints:
        """Shape (R,): the part that each row belongs to."""
        part: Ints = np.zeros(len(batch.n), dtype=np.int64)
        if self.contexts is not None:
            number = pc.fill_null(pc.index_in(batch.contexts, self.contexts), len(self.contexts))
            return np.asarray(number, dtype=np.int64)[batch.row_context]
        for name, code in zip(self.by, self.codes, strict=True):
            part = part * len(code) + batch.codes(name)
        return part

    def segment(self, number: int) -> dict[str, Value]:
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


@dataclass(frozen=True, eq=False)
class BatchParts:
    """Sums over a batch for each of S parts of the answer.

    Attributes:
        strata: the parts.
        batch: the records.
    """

    strata: Strata
    batch: Batch

    @property
    def split(self) -> bool:
        """Whether there is more than one part."""
        return self.strata.split

    @cached_property
    def of_row(self) -> Ints:
        """Shape (R,): the part that each row belongs to."""
        return self.strata.rows(self.batch)

    def over(self, number: Ints, values: Floats | Ints) -> Floats:
        """Shape (S, …): the sums of values (…, N), of which each belongs to the part `number`."""
        if not self.split:
            return np.asarray(values.sum(axis=-1))[None]
        return self.with_whole(
            np.moveaxis(group_sums(number, values, self.strata.count - 1), -1, 0)
        )

    def over_rows(self, values: Floats | Ints, weight: int = 1) -> Floats:
        """Shape (S, …): the sums of values of rows, shape (…, R).

        Args:
            values: of one record each, times records.
            weight: the power of the sampling weights of a drawn log.
        """
        return self.over(self.of_row, self.row_weighted(values, weight))

    def row_weighted(self, values: Floats | Ints, power: int = 1) -> Floats:
        """Values (…, R), times a power of the sampling weights of a drawn log."""
        drawn = self.batch.drawn
        return np.asarray(values if drawn is None else values * drawn.weight**power)

    def with_whole(self, values: Floats) -> Floats:
        """Shape (S, …): values of the parts, and their sum, that of the whole."""
        return np.concatenate([values, values.sum(axis=0)[None]]) if self.split else values

    def over_kinds(
        self, kinds: Sequence[str], values: Floats, rows: Ints | None = None
    ) -> tuple[Floats, ...]:
        """Shape (S, clusters, E) by kind of clusters: the sums of values of rows.

        Args:
            kinds: of clusters; sums by both periods and units give those by either.
            values: Shape (E, Z).
            rows: Shape (Z,): of which rows; None for all.
        """
        size = max(self.strata.count - 1, 1)
        clusters = clusters_of_rows(self.batch, kinds)
        if not clusters:
            return ()
        if self.batch.drawn is not None:
            weight = self.batch.drawn.weight
            values = values * (weight if rows is None else weight[rows])
        cluster, count = clusters[-1]
        own = self.of_row * np.int64(count) + cluster
        sums_of = group_sums(own if rows is None else own[rows], values, size * count)
        if len(clusters) == 1:
            found = [sums_of.reshape(-1, size, count)]
        else:
            both = sums_of.reshape(-1, size, clusters[0][1], clusters[1][1])
            found = [both.sum(axis=3), both.sum(axis=2), both.reshape(-1, size, count)]
        return tuple(self.with_whole(each.transpose(1, 2, 0)) for each in found)

    def over_contexts(
        self, values: Floats, context: Ints | None = None, power: int = 1, weight: int = 1
    ) -> Floats:
        """Shape (S, …): the sums of values (…, N) of contexts, by default one of each.

        Each part has its share of a context's records. With a power of 2, values are variances of
        errors that all records of a context share. With a power of 0 they are counts: a part has
        all of a context that it has any records of.

        Args:
            values: times records; variances times their squares.
            context: Shape (N,): of each.
            power: of the share.
            weight: the power of the sampling weights of a drawn log.
        """
        weights = self.batch.context_weight
        if weights is not None and weight:
            values = values * (weights if context is None else weights[context]) ** weight
        if not self.split:
            return np.asarray(values.sum(axis=-1))[None]
        share = self._share
        if power != 1:
            share = share.power(2) if power else share.astype(np.bool_).astype(np.float64)
        if context is not None:
            values = group_sums(context, values, share.shape[0])
        flat = values.reshape(math.prod(values.shape[:-1]), values.shape[-1])
        return np.asarray(share.T @ flat.T).reshape(-1, *values.shape[:-1])

    def products(self, context: Ints, left: Floats, right: Floats, power: int = 1) -> Floats:
        """Shape (S, ·, ·): Σ left rightᵀ over N errors of contexts, shape (·, N) each."""
        if not self.split:
            return self.whole_products(context, left, right)[None]
        weights = self.batch.context_weight
        if weights is not None:
            left = left * weights[context] ** 2
        return self.over_contexts(left[:, None] * right[None], context, power, weight=0)

    def whole_products(self, context: Ints | None, left: Floats, right: Floats) -> Floats:
        """Shape (·, ·): the same of all records together; errors may be of no context."""
        weights = self.batch.context_weight
        if weights is not None and context is not None:
            left = left * weights[context] ** 2
        return np.asarray(left @ right.T)

    def drawn_products(self, values: Floats) -> Floats | None:
        """Shape (S, ·, ·): Σ (1 − π) y yᵀ of contexts, with y their values (·, X) times weights.

        It estimates the covariance that the drawing of contexts adds to sums over the log, each
        context on its own with probability π (Horvitz and Thompson, 1952). None if all were drawn.
        """
        weight, inclusion = self.batch.context_weight, self.batch.context_inclusion
        if weight is None or inclusion is None:
            return None
        y, left_out = values * weight, 1 - inclusion
        if not self.split:
            return np.asarray((y * left_out) @ y.T)[None]
        found = []
        for s in range(self.strata.count):
            share = self._share[:, [s]].tocoo()
            own = y[:, share.row] * share.data
            found.append((own * left_out[share.row]) @ own.T)
        return np.stack(found)

    @cached_property
    def _share(self) -> csr_array[np.float64]:
        """Shape (X, S): the share of each context's records that each part has."""
        from scipy import sparse  # noqa: PLC0415 - slow to import

        batch, last = self.batch, self.strata.count - 1
        share = batch.n / batch.context_n[batch.row_context]
        some = np.flatnonzero(batch.context_n > 0)  # all of which is part of the whole
        values = np.concatenate([share, np.ones(len(some))])
        row = np.concatenate([batch.row_context, some])
        column = np.concatenate([self.of_row, np.full(len(some), last)])
        return sparse.csr_array((values, (row, column)), shape=(batch.context_count, last + 1))


def cluster_kinds(kinds: Sequence[str]) -> list[Cluster]:
    """Those of the kinds that are clusters of records."""
    return [kind for kind in ("period", "unit") if kind in kinds]


def kinds_of_clusters(kinds: Sequence[str]) -> list[str]:
    """Those, and where periods and units count both, a bucket of users in a period, too."""
    named = cluster_kinds(kinds)
    return [*named, BOTH] if len(named) > 1 else [*named]


def clusters_of_rows(batch: Batch, kinds: Sequence[str]) -> list[tuple[Ints, int]]:
    """By kind of clusters: the cluster of each row, and how many there are."""
    found: list[tuple[Ints, int]] = [
        (batch.clusters[kind].astype(np.int64), batch.cluster_count[kind])
        for kind in cluster_kinds(kinds)
    ]
    if len(found) > 1:
        (period, periods), (unit, units) = found
        found.append((period * units + unit, periods * units))
    return found
