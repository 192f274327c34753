"""Click rates of every item at every position by the ladder, and how uncertain they are.

What was never shown at a position has a rate too, from the rungs below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foreclick.batches import Floats, Ints
from foreclick.estimate.ladder import borrowed, climb, descend, own_weight


class SlotCounts(NamedTuple):
    """Records and clicks of items at positions, in some contexts.

    Attributes:
        owner: Shape (P,): the context of each item.
        n: Shape (P, K): how many records show the item at the position.
        c: Shape (P, K): their clicks there.
        records: Shape (X,): records of each context.
    """

    owner: Ints
    n: Floats
    c: Floats
    records: Floats

    def without(self, other: SlotCounts) -> SlotCounts:
        """The counts of all records but those of `other`, for the same contexts and items."""
        return self._replace(
            n=np.maximum(self.n - other.n, 0.0),
            c=np.maximum(self.c - other.c, 0.0),
            records=np.maximum(self.records - other.records, 0.0),
        )


class LadderRates(NamedTuple):
    """A fitted ladder over items at positions.

    Attributes:
        strengths: of the rungs position, item and context.
        examined: p_1, p_2, ….
        base: the click rate of the whole log, of a slot that is examined for certain.
    """

    strengths: tuple[float, float, float]
    examined: tuple[float, ...]
    base: float = 0.0

    def passed_on(self, counts: SlotCounts) -> tuple[Floats, Floats]:
        """Shape (X,) each: the records and clicks that contexts pass on to the whole log's rung."""
        _, (n, c) = self._climbed(counts)
        every = np.arange(len(n))
        return climb(n, c, self.strengths[2], every, len(n))

    def rates(self, counts: SlotCounts) -> tuple[Floats, Floats]:
        """The rate of every item at every position, and its variance given the log.

        Rates are those of `Ladder("ip")`. A rate r of a cell with n records, on a rung of strength
        s, has the variance r / (n + s), plus (s / (n + s))² times that of the rung below.

        Returns:
            Shape (P, K) each.
        """
        owner, n, c, _ = counts
        of_position, of_item, of_context = self.strengths
        p = np.array(self.examined[: n.shape[1]])
        items, contexts = self._climbed(counts)
        rate, variance = _on_rung(*contexts, of_context, np.array(self.base), np.array(0.0))
        rate, variance = _on_rung(*items, of_item, rate[owner], variance[owner])
        return _on_rung(n, c, of_position, rate[:, None] * p, variance[:, None] * p * p)

    def _climbed(self, counts: SlotCounts) -> list[tuple[Floats, Floats]]:
        """Records and clicks of items, shape (P,) each, and of contexts, (X,) each."""
        owner, n, c, records = counts
        count, depth = n.shape
        p = np.tile(self.examined[:depth], count)
        item = np.repeat(np.arange(count), depth)
        items = climb(n.ravel(), c.ravel(), self.strengths[0], item, count, p)
        return [items, climb(*items, self.strengths[1], owner, len(records))]


def _on_rung(
    n: Floats, c: Floats, s: float, expected: Floats, variance: Floats
) -> tuple[Floats, Floats]:
    """Rates on a rung and their variance, from those expected by the rung below."""
    rate = descend(n, c, s, expected)
    return rate, np.asarray(rate * own_weight(n, s) + borrowed(n, s) ** 2 * variance)
