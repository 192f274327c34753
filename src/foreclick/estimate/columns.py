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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from foreclick.batches import Batch, Bools, Candidate, CandidateSet, Coding, Floats, Ints, sums
from foreclick.batches.arrays import ratio
from foreclick.estimate.cells import RewardCounts, group_sums
from foreclick.metrics import AnyMetric, Metric, Ratio
from foreclick.models import ClickModel
from foreclick.policies import Policy
from foreclick.question import Target, by_hazard


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
        shared: Shape (D, E, X) by source: how far n_x V_x is off by errors that contexts share.
        pull: Shape (E, I + F): how what clicks on items are worth, and γ, move each column.
        unshared: Shape (E, R): of a ladder in parts, what clicks of rows say besides of their part.
    """

    value: Floats
    facts: dict[str, Floats]
    largest: Floats | None = None
    psi: Floats | None = None
    by_cluster: Floats | None = None
    loose: list[Loose] = field(default_factory=list)
    slope: Floats | None = None
    shared: dict[str, Floats] = field(default_factory=dict)
    pull: Floats | None = None
    unshared: Floats | None = None


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


# --- what an estimate rests on --------------------------------------------------------------------

Row = dict[str, Any]


class Unseen(NamedTuple):
    """How far a value may be off for what the log cannot see: how much less, how much more."""

    less: float
    more: float

    def against(self, other: Unseen) -> Unseen:
        """How far a difference may be off: what either side may be worth is on its own side."""
        return Unseen(self.less + other.more, self.more + other.less)


Caps: TypeAlias = Mapping[Metric, float] | None
"""The highest reward of what was never shown, by metric; None: as the log suggests."""


@dataclass(frozen=True)
class Part:
    """Sums over some records, and by position how often it was filled and what it earned.

    Attributes:
        shown: by position.
        rewards: by metric and position, what the metric's reward sums to.
        at_risk: by metric and position, for metrics of first clicks: records without a click above.
        examined: by model with a curve for each context, and position: Σ p(k | x) over the records.
    """

    contexts: int
    records: float
    shown: Floats
    rewards: dict[Metric, Floats]
    at_risk: dict[Metric, Floats]
    examined: dict[ClickModel, Floats]

    def credit(self, metric: Metric) -> float:
        """Σ_k θ_k w_k over the records."""
        return along(metric.theta, self.rewards[metric])

    def counts(self, model: ClickModel, metric: Metric) -> Floats:
        """By position, how many records a click rate is of: all, or those at risk."""
        return self.at_risk[metric] if by_hazard(model, metric) else self.shown

    def looked_at(self, model: ClickModel, metric: Metric, *, at_risk: bool = True) -> Floats:
        """By position, Σ p_k over the records, or over those that click rates are taken from."""
        if model.by_context:
            return self.examined[model][: metric.depth]
        counts = (self.counts(model, metric) if at_risk else self.shown)[: metric.depth]
        return counts * model.examined(metric.depth)[: len(counts)]

    def exposure(self, target: Target, *, at_risk: bool = True) -> float:
        """Σ_k e_k over the records, or over those that click rates are taken from."""
        return along(target.theta, self.looked_at(target.model, target.metric, at_risk=at_risk))

    def without(self, other: Part) -> Part:
        """The other records."""
        return Part(
            self.contexts - other.contexts,
            whole_number(self.records - other.records),
            self.shown - other.shown,
            {m: each - other.rewards[m] for m, each in self.rewards.items()},
            {m: each - other.at_risk[m] for m, each in self.at_risk.items()},
            {m: each - other.examined[m] for m, each in self.examined.items()},
        )


def along(values: Sequence[float], by_position: Floats) -> float:
    """Σ_k of values times sums by position."""
    size = min(len(values), len(by_position))
    return float(np.dot(values[:size], by_position[:size]))


def whole_number(value: float) -> float:
    """A count as an integer, if it is one."""
    return int(value) if float(value).is_integer() else float(value)


@dataclass(frozen=True)
class Stratum:
    """What a part of the answer rests on, for one candidate.

    Attributes:
        segment: the values of the columns it is split by.
        number: among the parts of the answer.
        known: the records of contexts that the candidate has lists for.
        unknown: the others; they count as production does, or not at all.
        used: whether the unknown contexts count.
    """

    segment: dict[str, Any]
    number: int
    known: Part
    unknown: Part
    used: bool

    @property
    def contexts(self) -> int:
        """How many contexts the estimate uses."""
        return self.known.contexts + (self.unknown.contexts if self.used else 0)

    @property
    def records(self) -> float:
        """How many records the estimate uses."""
        return self.known.records + (self.unknown.records if self.used else 0)

    @property
    def missing_contexts(self) -> int:
        """Contexts of the log that the candidate has no list for."""
        return self.unknown.contexts

    def production(self, metric: AnyMetric) -> float | None:
        """The mean reward of the records that are used, or the ratio of two."""
        if not self.records:
            return None
        if isinstance(metric, Ratio):
            over, under = (self.production(part) for part in metric.parts)
            return over / under if over is not None and under else None
        absent = self.unknown.credit(metric) if self.used else 0.0
        return (self.known.credit(metric) + absent) / self.records

    def best_rate(self, model: ClickModel, metric: Metric) -> float:
        """The mean reward of the best position, per unit of examination."""
        parts = (self.known, self.unknown) if self.used else (self.known,)
        looked = np.sum([p.looked_at(model, metric) for p in parts], axis=0)
        earned = np.sum([p.rewards[metric] for p in parts], axis=0)
        size = min(metric.depth, len(looked))
        return float(ratio(earned[:size], looked[:size]).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over cells for one column in one part of the answer.

    Attributes:
        credit: Σ n_x C_g W_g, the estimate times the number of records.
        mass: Σ n_x H_g; `covered`: that of the cells that were logged; `clipped`: what M cut off.
        exposure, weighted, squared: Σ E, Σ E W and Σ E W², with E_g = n_x P_g.
        cells, seen: how many cells the candidate would use, and how many of them were logged.
        out, out_records: contexts of which nothing is covered, and their records.
        largest: the largest weight that a record can have, before it is clipped.
        unlogged: records in cells that the given logging policy calls impossible.
        lost: Σ n_x r_g (H_g − M P_g)₊, what the clip took from cells whose rate is known.
        borrowed: of a ladder, the part of the credit that went to items never shown in the context.
        further: how much more that is, if production could not have shown them.
        rungs: of a ladder, how much of the exposure took its rate from which rung.
        repeated: the share of what is covered that was seen in several periods, if that is known.
        least_covered: contexts with most of the uncovered exposure, for `support`.
    """

    target: Target
    stratum: Stratum
    column: int
    credit: float
    mass: float
    covered: float
    exposure: float
    weighted: float
    squared: float
    clipped: float = 0.0
    cells: float = 0.0
    seen: float = 0.0
    out: float = 0.0
    out_records: float = 0.0
    largest: float = 0.0
    unlogged: float = 0.0
    lost: float = 0.0
    borrowed: float = 0.0
    further: float = 0.0
    rungs: dict[str, float] | None = None
    repeated: float | None = None
    least_covered: Sequence[Row] = ()

    @property
    def metric(self) -> Metric:
        """What is counted."""
        return self.target.metric

    @property
    def value(self) -> float | None:
        """The estimate of V(h), or None where the log shows nothing of the candidate."""
        if not self.stratum.records or self.covered <= 0:
            return None
        return self.credit / self.stratum.records

    def unseen(self, caps: Caps) -> Unseen:
        """What the log cannot see: how much less and how much more than `value` it may be worth.

        What a ladder borrowed for items never shown may be worth nothing. On the other side, what
        the clip cut off is worth its own click rate, and what was never shown at most its cap per
        unit of exposure: by default the click rate of the best position, as if all that is new were
        as good.
        """
        if not self.stratum.records:
            return Unseen(0.0, 0.0)
        if self.target.ladder is not None:
            return Unseen(0.0, self.further / self.stratum.records)
        cap = None if caps is None else caps.get(self.metric)
        if cap is None:
            cap = self.stratum.best_rate(self.target.model, self.metric)
        new = cap * max(self.mass - self.covered, 0.0)
        more = self.lost + max(new - self.borrowed, 0.0)
        return Unseen(self.borrowed / self.stratum.records, more / self.stratum.records)
