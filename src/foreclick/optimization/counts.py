"""What a policy is chosen by, and what it is judged by: records in folds, counted by context.

Folds are made of whole periods or of whole buckets of units, where the log has them, and of single
records otherwise: then the n equal records of a row are dealt out at random, by a hash of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foreclick.batches import (
    EMPTY,
    Batch,
    Batches,
    Floats,
    Ints,
    decode,
    sums,
)
from foreclick.batches.arrays import starts_of
from foreclick.batches.encode import Codebook
from foreclick.engines import HASHES, hashed_here
from foreclick.engines.base import GOLDEN, mixed
from foreclick.kept import kept
from foreclick.logs import Shape
from foreclick.optimization.earned import Choices, by_fold
from foreclick.tallies.base import FEW_PERIODS

ALL = -1  # The fold of policies that are chosen from all records

SLOTS = 500_000  # Positions of lists that are worked on at a time

_FINEST = 2.0**20  # rewards and propensities are hashed up to a millionth


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of some contexts, fold by fold.

    Sizes: F folds, X contexts, P pairs of a context and an item, K positions, M lists that differ
    within the D positions that the metric counts.

    Attributes:
        contexts: (X,) values.
        items: (P,) values: the item of each pair.
        pair_context: Shape (P,): the context of each pair, rising.
        n: Shape (F, P, K): how many records show the pair at the position.
        c: Shape (F, P, K): their clicks there.
        records: Shape (F, X).
        lists: Shape (M, D): pairs, `EMPTY` where nothing is shown.
        list_context: Shape (M,), rising.
        list_n: Shape (F, M): how many records show the list.
        choice: Shape (E,), rising: what earned, a slot, pair · D + position, or a list by number.
            There is a row for each; where records have propensities of their own, for each choice
            and propensity that were clicked.
        chance: Shape (E,): how likely it was to be shown; None: as often as it was.
        credit: Shape (F, E): Σ θ w.
        noise: Shape (F, E): Σ θ² w.
        rows: how many rows of the log these are.
        first: the number of the first context among all contexts of the log.
    """

    contexts: pa.Array
    items: pa.Array
    pair_context: Ints
    n: Floats
    c: Floats
    records: Floats
    lists: Ints
    list_context: Ints
    list_n: Floats
    choice: Ints
    chance: Floats | None
    credit: Floats
    noise: Floats
    rows: int
    first: int

    @cached_property
    def pair_starts(self) -> Ints:
        """Shape (X + 1,): where the pairs of each context begin."""
        return starts_of(self.pair_context, len(self.contexts))

    def without(self, fold: int) -> Counts:
        """The counts of the records outside of a fold, without the axis of folds; or of `ALL`."""
        used = np.arange(len(self.records)) != fold
        names = ("n", "c", "records", "list_n", "credit", "noise")
        return replace(self, **{name: getattr(self, name)[used].sum(axis=0) for name in names})

    def only(self, context: int, *, by_list: bool) -> Counts:
        """One of the contexts, after `without`, whose pairs and lists are numbered from 0.

        Args:
            context: its number.
            by_list: whether it is lists that earn, not slots.
        """
        pairs = slice(*self.pair_starts[context : context + 2].tolist())
        lists = slice(*np.searchsorted(self.list_context, [context, context + 1]).tolist())
        own, each = (lists, 1) if by_list else (pairs, self.lists.shape[1])
        rows = slice(*np.searchsorted(self.choice, [own.start * each, own.stop * each]).tolist())
        pair = self.lists[lists]
        return replace(
            self,
            contexts=self.contexts.slice(context, 1),
            items=self.items[pairs],
            pair_context=np.zeros(pairs.stop - pairs.start, np.int64),
            n=self.n[pairs],
            c=self.c[pairs],
            records=self.records[context : context + 1],
            lists=np.where(pair == EMPTY, EMPTY, pair - pairs.start),
            list_context=np.zeros(len(pair), np.int64),
            list_n=self.list_n[lists],
            choice=self.choice[rows] - own.start * each,
            chance=None if self.chance is None else self.chance[rows],
            credit=self.credit[rows],
            noise=self.noise[rows],
        )


@kept
def _seeds(batch: Batch, shape: Shape, codebook: Codebook, kinds: pa.Schema) -> Ints:
    """Shape (R,): a hash of all keys of each row as text, the same on every machine."""
    columns, texts = decode(batch, shape, codebook), [pa.scalar("__fold")]
    for name in shape.keys:
        column = columns[name].cast(kinds.field(name).type)
        if pa.types.is_floating(column.type):  # engines write 1.0 in ways of their own
            column = pc.floor(pc.multiply(column, _FINEST)).cast(pa.int64())
        texts.append(column.cast(pa.string()))
    keys = pc.binary_join_element_wise(*texts, ":", null_handling="replace", null_replacement="")
    return np.array([hashed_here(key) for key in keys.to_pylist()], dtype=np.uint64)


class FoldedLog:
    """The records of a log in folds; iterated, every fold of a context is a context of its own.

    Args:
        batches: the log.
        count: how many folds there are: 1 or 2.

    Attributes:
        by: what is never divided between folds: "period" if the log has enough of them, else
            "unit" if it has units, else "record"; None if there is one fold.
        codebook, rows: as `Batches` need them of their source. A row whose records are divided
            stands in several folds, which are not counted.
    """

    def __init__(self, batches: Batches, count: int) -> None:
        self.batches, self.count, self.codebook = batches, count, batches.codebook
        periods = self.codebook.periods
        self.by: str | None = None
        if count > 1:
            rest = "unit" if batches.shape.unit else "record"
            self.by = "period" if periods and periods.known >= FEW_PERIODS else rest
        self.rows = batches.rows * (count if self.by == "record" else 1)

    def seeds(self, batch: Batch) -> Ints:
        """Shape (R,): a hash of all keys of each row as text, the same on every machine."""
        return _seeds(batch, self.batches.shape, self.codebook, self.batches.tally.table.kinds)

    def portions(self) -> Iterator[tuple[Batch, Ints, int]]:
        """The log, some whole contexts after others.

        Yields:
            A batch, in which rows whose records are divided stand twice; the fold of each row,
            shape (R,); and how many contexts the log has before the batch.
        """
        before = 0
        for whole in self.batches:
            batch = whole
            fold: Ints = np.zeros(len(batch.n), dtype=np.int64)
            if self.by == "record":
                row, fold, n = dealt_at_random(batch.n, self.seeds(batch))
                batch = batch.take(row, n)
            elif self.by is not None:  # one period after the other goes to the next fold
                fold = batch.clusters[self.by] % self.count  # type: ignore[index]
            for first, last in batch.portions(SLOTS):
                rows = slice(*np.searchsorted(batch.row_context, [first, last]))
                yield batch.between(first, last), fold[rows], before + first
            before += whole.context_count

    def __iter__(self) -> Iterator[Batch]:
        for part, fold, first in self.portions():
            split = part.split(fold, self.count)
            yield replace(split, contexts=pc.add(split.contexts, first * self.count))

    def counts(self, choices: Choices) -> Iterator[Counts]:
        """The counts of the log, some contexts at a time."""
        folds, depth = self.count, len(choices.theta)
        for batch, fold, first in self.portions():
            list_n = by_fold(fold, batch.row_list, batch.n, folds, len(batch.lists))
            n = np.stack([batch.by_slot(batch.slot, np.repeat(of, batch.depth)) for of in list_n])
            # Lists that differ further down than the metric counts are one.
            number = batch.prefix[:, depth - 1]
            lists = np.flatnonzero(np.diff(number, prepend=-1))
            entries = batch.rewards[choices.reward]
            clicks, click_fold = entries.value * batch.n[entries.row], fold[entries.row]
            slots = batch.pair_count * batch.depth
            c = by_fold(click_fold, batch.earned_slot(entries), clicks, folds, slots + 1)
            contexts = batch.context_count
            yield Counts(
                contexts=batch.contexts,
                items=batch.items.take(pa.array(batch.pair_item)),
                pair_context=batch.pair_context,
                n=n,
                c=c[:, :slots].reshape(n.shape),
                records=np.stack([sums(batch.list_context, of, contexts) for of in list_n]),
                lists=batch.lists[lists, :depth],
                list_context=batch.list_context[lists],
                list_n=np.stack([sums(number, of, len(lists)) for of in list_n]),
                **choices.earned(batch, fold, folds),
                rows=len(batch.n),
                first=first,
            )


def fold_number(context: Ints, fold: Ints | int, count: int) -> Ints:
    """The name of a fold of a context, by the number of the context in the whole log."""
    return np.asarray(context * count + fold)


def dealt_at_random(n: Floats, seed: Ints) -> tuple[Ints, Ints, Floats]:
    """Deal the n equal records of each row to two folds, each to either of them alike.

    The first gets a binomial share. What n has beyond a whole number goes with one more record.

    Args:
        n: Shape (R,): records of each row.
        seed: Shape (R,): what decides, 64 bits without sign.

    Returns:
        Row, fold and records of each share, in the order of rows.
    """
    from scipy import special  # noqa: PLC0415 - slow to import

    def uniform(stream: int) -> Floats:
        """A number between 0 and 1 for each seed, another one for each stream."""
        with np.errstate(over="ignore"):
            z = mixed((seed + np.uint64(HASHES) * np.uint64(stream)) * GOLDEN)
        return (np.asarray(z >> np.uint64(11), dtype=np.float64) + 0.5) / 2.0**53

    whole, u = np.floor(n), uniform(1)
    # The smallest count whose probability to be that, or less, is at least u.
    share = np.clip(np.ceil(special.bdtrik(u, whole, 0.5)), 0, whole)
    less = np.maximum(share - 1, 0)  # where the inverse is off by rounding
    first = np.where(special.bdtr(less, whole.astype(np.int64), 0.5) >= u, less, share)
    first = np.where(whole > 0, first, 0.0)
    counts = np.stack([first, whole - first], axis=1)
    last = np.floor(uniform(3) * 2).astype(np.int64)
    counts[np.arange(len(n)), last] += n - whole
    row, fold = np.nonzero(counts)
    return row, fold, counts[row, fold]
