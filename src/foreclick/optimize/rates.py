"""Click rates of every item at every position of some contexts, and how sure they are; in NumPy.

Rows are items of contexts, columns are positions: what was never shown there has a rate too, from
the ladder, and none from the estimators of the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foreclick.sqlkernel.strengths import ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


class Counts(NamedTuple):
    """What a log has of some contexts.

    Attributes:
        owner: Shape (I,): the context of each item, by number.
        n, c: Shape (I, D): how often the item was shown at the position, and its clicks there.
        records: Shape (X,): of each context.
    """

    owner: Integers
    n: Floats
    c: Floats
    records: Floats

    def without(self, other: Counts) -> Counts:
        """The same contexts and items without some of the records."""
        return self._replace(
            n=np.maximum(self.n - other.n, 0.0),
            c=np.maximum(self.c - other.c, 0.0),
            records=np.maximum(self.records - other.records, 0.0),
        )


class Climbing(NamedTuple):
    """A ladder over items at positions, fitted, and the rate of the whole log that it ends at.

    Attributes:
        strengths: of the rungs position, item and context.
        examined: p_1, p_2, ….
        base: the click rate of the log, of a slot that is examined for certain.
    """

    strengths: tuple[float, float, float]
    examined: tuple[float, ...]
    base: float

    def rates(self, counts: Counts) -> tuple[Floats, Floats]:
        """The rate of every item at every position, and its variance given the log.

        Rates are those of `Ladder("ip")` (see there). A rate r that n records of its own and
        strength s of the rung below tell is off by r / (n + s), and by what that rung is off.
        """
        owner, n, c, records = counts
        s_position, s_item, s_context = self.strengths
        p = np.array(self.examined[: n.shape[1]])
        passed = _passed(n, s_position)
        n_item, c_item = (n * passed) @ p, (c * passed).sum(axis=1)
        passed_item = _passed(n_item, s_item)
        n_context = _by(owner, n_item * passed_item, len(records))
        c_context = _by(owner, c_item * passed_item, len(records))
        base = np.full(len(records), self.base)
        rate, off = _shrunk(n_context, c_context, s_context, base, np.zeros(len(records)))
        rate, off = _shrunk(n_item, c_item, s_item, rate[owner], off[owner])
        return _shrunk(n, c, s_position, rate[:, None] * p, off[:, None] * p * p)


def _by(owner: Integers, values: Floats, count: int) -> Floats:
    return np.asarray(np.bincount(owner, values, count), dtype=np.float64)


def _passed(n: Floats, s: float) -> Floats:
    """Which share of a rate comes from the rung below."""
    return np.ones_like(n) if np.isinf(s) else s / (n + s)


def _shrunk(n: Floats, c: Floats, s: float, below: Floats, off: Floats) -> tuple[Floats, Floats]:
    passed = _passed(n, s)
    own = (1.0 - passed) * ratio(c, n)
    rate = own + passed * below
    alone = np.zeros_like(n) if np.isinf(s) else rate / (n + s)
    return rate, alone + passed * passed * off
