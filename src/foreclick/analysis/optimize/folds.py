"""Records in folds, so that a policy can be judged by records it was not chosen from.

Folds are made of whole periods or of whole buckets of units, where the log has them, and of single
records otherwise: then the n equal records of a row are dealt out at random, by a hash of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import (
    Batch,
    Batches,
    Codebook,
    Floats,
    Ints,
    decode,
    regrouped,
    row_schema,
)
from foreclick.engines import HASHES, default_engine, hashed_here
from foreclick.engines.mixing import GOLDEN, mixed
from foreclick.logs import N, Shape
from foreclick.tallies.base import FEW_PERIODS, Tally

_SALT, _BETWEEN = "__fold", ":"
By = Literal["period", "unit", "record"]
SLOTS = 500_000
"""Positions of lists that are worked on at a time."""

KEPT = 4_000_000
"""Rows times positions up to which a split log stays in memory; a judge keeps ten times as much."""

_FINEST = 2.0**20  # rewards and propensities are hashed up to a millionth


@dataclass(frozen=True)
class Folds:
    """How the records of a log are dealt to folds.

    Attributes:
        count: how many folds there are.
        by: what is never divided between folds; None if there is one fold.
        shape: of the tally; `codebook`: the values behind its numbers.
        schema: the columns of its rows.
    """

    count: int
    by: By | None
    shape: Shape
    codebook: Codebook
    schema: pa.Schema

    @classmethod
    def of_log(cls, batches: Batches, count: int) -> Folds:
        """Whole periods if there are enough of them, or whole buckets of units, or records."""
        shape, codebook = batches.shape, batches.codebook
        schema = row_schema(shape, batches.tally.table.schema().to_pyarrow())
        schema = schema.set(schema.get_field_index(N), pa.field(N, pa.float64()))
        periods = codebook.periods
        known = 0 if periods is None else len(periods) - periods.values.null_count
        by: By | None = None
        if count > 1:
            rest: By = "unit" if shape.unit else "record"
            by = "period" if known >= max(FEW_PERIODS, count) else rest
        return cls(count, by, shape, codebook, schema)

    def of(self, batch: Batch) -> tuple[Batch, Ints]:
        """The batch, and the fold of each row; rows whose records are divided stand in it again.

        Returns:
            The batch, and the folds, shape (R,).
        """
        if self.by is None:
            return batch, np.zeros(len(batch.n), dtype=np.int64)
        if self.by != "record":  # one period after the other goes to the next fold
            return batch, batch.clusters[self.by] % self.count
        row, fold, n = dealt_at_random(batch.n, self.seeds(batch), self.count)
        return batch.take(row, n), fold

    def seeds(self, batch: Batch) -> Ints:
        """Shape (R,): a hash of all keys of each row, the same on every machine."""

        def make() -> Ints:
            rows = decode(batch, self.shape, self.codebook, self.schema)
            text = [_text(rows[name]) for name in self.shape.keys]
            salt = pa.scalar(_SALT)
            keys = pc.binary_join_element_wise(
                salt, *text, _BETWEEN, null_handling="replace", null_replacement=""
            )
            return np.array([hashed_here(key) for key in keys.to_pylist()], dtype=np.uint64)

        return cast("Ints", batch.keep("fold seeds", make))

    def split(self, batches: Batches) -> Tally:
        """The log in which every fold of a context is a context of its own: see `fold_number`."""
        return regrouped(batches.tally, default_engine(), _Split(self, batches), KEPT)


class _Split:
    """Batches in which every fold of a context is a context of its own."""

    def __init__(self, folds: Folds, batches: Batches) -> None:
        self._folds, self._batches, self.codebook = folds, batches, batches.codebook
        # A row whose records are divided stands in several folds, which are not counted here.
        self.rows = batches.rows * (folds.count if folds.by == "record" else 1)

    def __iter__(self) -> Iterator[Batch]:
        before = 0
        for whole in self._batches:
            batch, fold = self._folds.of(whole)
            for first, last in batch.portions(SLOTS):
                rows = slice(*np.searchsorted(batch.row_context, [first, last]))
                split = batch.between(first, last).split(fold[rows], self._folds.count)
                yield self._numbered(split, before)
            before += whole.context_count

    def _numbered(self, split: Batch, before: int) -> Batch:
        """A batch whose contexts are called by their numbers."""
        context = before + split.context_value.astype(np.int64)
        number = fold_number(context, split.stratum, self._folds.count)
        return replace(
            split,
            contexts=pa.array(number),
            context_value=np.arange(len(number)),
            stratum=np.zeros_like(split.stratum),
        )


def fold_number(context: Ints, fold: Ints | int, count: int) -> Ints:
    """What the fold of a context is called, by the number of the context in the whole log."""
    return np.asarray(context * count + fold)


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as text, the same on every engine: these write 1.0 in ways of their own."""
    if pa.types.is_floating(column.type):
        column = pc.floor(pc.multiply(column, _FINEST)).cast(pa.int64())
    return column.cast(pa.string())


def dealt_at_random(n: Floats, seed: Ints, folds: int) -> tuple[Ints, Ints, Floats]:
    """Deal the n equal records of each row to folds, each to any of them alike.

    The counts are multinomial: fold by fold, a binomial share of what is left. What n has beyond a
    whole number goes with one more record.

    Args:
        n: Shape (R,): records of each row.
        seed: Shape (R,): what decides, 64 bits without sign.
        folds: how many there are.

    Returns:
        Row, fold and records of each share, in the order of rows.
    """
    counts = np.zeros((len(n), folds))
    left = np.floor(n)
    for fold in range(folds - 1):
        some = np.flatnonzero(left)
        u = _uniform(seed[some], fold)
        counts[some, fold] = _binomial(u, left[some], 1.0 / (folds - fold))
        left = left - counts[:, fold]
    counts[:, folds - 1] = left
    rest = n - np.floor(n)
    last = np.floor(_uniform(seed, folds) * folds).astype(np.int64)
    counts[np.arange(len(n)), last] += rest
    row, fold_of = np.nonzero(counts)
    return row, fold_of, counts[row, fold_of]


def _binomial(u: Floats, n: Floats, p: float) -> Floats:
    """The smallest count of n whose probability to be that, or less, is at least u."""
    from scipy import special  # noqa: PLC0415 - slow to import

    found = np.clip(np.ceil(special.bdtrik(u, n, p)), 0, n)
    less = np.maximum(found - 1, 0)  # where the inverse is off by rounding
    return np.where(special.bdtr(less, n.astype(np.int64), p) >= u, less, found)


def _uniform(seed: Ints, stream: int) -> Floats:
    """A number between 0 and 1 for each seed, another one for each stream."""
    with np.errstate(over="ignore"):
        z = mixed((seed + np.uint64(HASHES) * np.uint64(stream + 1)) * GOLDEN)
    return (np.asarray(z >> np.uint64(11), dtype=np.float64) + 0.5) / 2.0**53
