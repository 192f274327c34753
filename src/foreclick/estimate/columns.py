"""Columns: what every estimator gives for a batch, and how records move it.

Every estimate is a *column*: a candidate by an estimator, a metric and a clip; production is a
column for each metric. An estimator turns a batch and C candidates into `Scored`. From there on
nothing depends on which estimator it was: ψ says how far each record moves a column, and sums of
ψ over clusters are error vectors, from which all covariances follow.

    ψ_t + V = common_x + Σ_slots of t (gain · reward − cost),

where x is the context of record t. Sizes: R rows, X contexts, J slots that some column counts, A
targets, C candidates, E = A · C columns, S parts of the answer. Columns come first in shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from foreclick.batches import Batch, Bools, Candidate, CandidateSet, Coding, Floats, Ints, sums
from foreclick.estimate.cells import RewardCounts, group_sums
from foreclick.policies import Policy


@dataclass(frozen=True, eq=False)
class View:
    """A batch with C candidates in its numbers.

    Attributes:
        batch: the log's records.
        members: the candidates one by one.
        policies: all of them together: whatever any of them shows.
        known: Shape (X, C): the contexts that each candidate has lists for.
        sampled: which candidates are the frequencies of another log.
    """

    batch: Batch
    members: Sequence[Candidate]
    policies: Candidate
    known: Bools
    sampled: Sequence[int]

    @classmethod
    def of(
        cls, batch: Batch, policies: Sequence[Policy], depth: int, sampled: Sequence[int]
    ) -> View:
        """Candidates in the numbers of a batch, asked down to a depth; the last are kept."""
        asked = (*policies, depth)
        before, last = batch.cache.get("view", ((), None))
        if isinstance(last, cls) and len(asked) == len(before) and all(map(is_, asked, before)):
            return replace(last, sampled=sampled)
        coding = Coding(batch, depth)
        members = [Candidate(coding, policy) for policy in policies]
        known = np.stack([member.known for member in members], axis=1)
        every = members[0] if len(members) == 1 else CandidateSet(members)
        view = cls(batch, members, every, known, sampled)
        batch.cache["view"] = asked, view
        return view

    @property
    def count(self) -> int:
        """C."""
        return len(self.members)


class Loose(NamedTuple):
    """Errors that no record shows: independent of each other, one a row.

    Attributes:
        context: Shape (Z,): of each; None if they are of no context.
        error: Shape (E, Z): by how much each puts the columns off, times records.
    """

    context: Ints | None
    error: Floats


@dataclass(eq=False)
class Scored:
    """Some columns in one batch; all values are times records.

    Attributes:
        value: Shape (E, X): n_x V_x; 0 in contexts that the candidate does not know.
        facts: Shape (…, E, X) each: sums over cells, by name.
        largest: Shape (E, X): the largest weight, before it is clipped.
        psi: Shape (E + N, R): ψ_t + V; the last N are what contexts share: a click rate, or
            coefficients. None: not asked for.
        by_cluster: Shape (E, T): Σ (ψ_t + V) over the records of each cluster, where that is all
            that is asked for.
        loose: errors that no record shows, with as many columns as `psi`.
        slope: Shape (N, E, X): how far n_x V_x moves with what contexts share.
        shared: Shape (D, E, X): how far n_x V_x is off by each of D errors that contexts share.
        pull: Shape (E, I + F): how what clicks on items are worth, and γ, move each column.
    """

    value: Floats
    facts: dict[str, Floats]
    largest: Floats | None = None
    psi: Floats | None = None
    by_cluster: Floats | None = None
    loose: list[Loose] = field(default_factory=list)
    slope: Floats | None = None
    shared: Floats | None = None
    pull: Floats | None = None


def influence(
    batch: Batch,
    line: Ints,
    slot: Ints,
    common: Floats,
    gain: Floats,
    expected: Floats | None,
    rewards: Sequence[RewardCounts],
) -> Floats:
    """Shape (E, R): ψ_t + V of one record of each row.

    Args:
        batch: the records.
        line: Shape (R,): the line of `slot` that each row has.
        slot: Shape (lines, W): which of J slots stands at each position; J for none.
        common: Shape (E, X): what all records of a context have in common.
        gain: Shape (E, J + 1): how far a reward of 1 at a slot moves each column; the last is 0.
        expected: Shape (E, lines): Σ cost, what a record was expected to earn; None for nothing.
        rewards: for each column, what is counted.
    """
    psi = common[:, batch.row_context]
    if expected is not None:
        psi -= expected[:, line]
    at: dict[object, Ints] = {}
    for own, column, counts in zip(psi, gain, rewards, strict=True):
        reward = counts.reward
        if counts.name not in at:
            at[counts.name] = slot[line[reward.row], reward.position]
        earned = sums(reward.row, column[at[counts.name]] * reward.value, len(batch.n))
        np.add(own, earned, out=own)
    return psi


class Totals:
    """Sums over contexts, by name and part of the answer: shape (S, …).

    Args:
        strata: S, how many parts the answer has.
        share: Shape (X, S), sparse: the share of each context's records that each part has; None
            if there is one part.
    """

    def __init__(self, strata: int = 1, share: Any = None) -> None:  # noqa: ANN401
        self.strata, self._share = strata, share
        self.sums: dict[Any, Floats] = {}
        self.largest: dict[Any, Floats] = {}

    def more(self, name: Any, values: Floats) -> None:  # noqa: ANN401 - a dict's key
        """Add to a sum of any shape."""
        before = self.sums.get(name)
        self.sums[name] = values if before is None else before + values

    def add(
        self,
        name: Any,  # noqa: ANN401 - a dict's key
        values: Floats,
        context: Ints | None = None,
        power: int = 1,
    ) -> None:
        """Add values (…, N) of contexts, by default one of each: each part has its share.

        With a power of 2, values are variances of errors that all records of a context share. With
        a power of 0 they are counts: a part has all of a context that it has any records of.
        """
        if self._share is None:
            self.more(name, values.sum(axis=-1)[None])
            return
        share = self._share
        if power != 1:
            share = share.power(2) if power else share.astype(np.bool_).astype(np.float64)
        if context is not None:
            values = group_sums(context, values, share.shape[0])
        flat = values.reshape(math.prod(values.shape[:-1]), values.shape[-1])
        self.more(name, (share.T @ flat.T).reshape(self.strata, *values.shape[:-1]))

    def gram(
        self,
        name: Any,  # noqa: ANN401 - a dict's key
        context: Ints,
        left: Floats,
        right: Floats,
        power: int = 1,
    ) -> None:
        """Add Σ left rightᵀ over N errors, shape (·, N) each."""
        if self._share is None:
            self.more(name, (left @ right.T)[None])
        else:
            self.add(name, left[:, None] * right[None], context, power)

    def most(self, name: Any, values: Floats) -> None:  # noqa: ANN401 - a dict's key
        """Take the largest of the values (…, X) of contexts, in every part."""
        largest = values.max(axis=-1, initial=0.0)
        self.largest[name] = np.maximum(largest, self.largest.get(name, 0.0))

    def merge(self, other: Totals) -> None:
        """Those of other contexts too."""
        for name, values in other.sums.items():
            self.more(name, values)
        for name, values in other.largest.items():
            self.largest[name] = np.maximum(values, self.largest.get(name, 0.0))

    def get(self, name: Any, stratum: int) -> Any:  # noqa: ANN401 - an array, or 0
        """The sum of a part; 0 for what was never added."""
        total = self.sums.get(name)
        return 0.0 if total is None else total[stratum]
