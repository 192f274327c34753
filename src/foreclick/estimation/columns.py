"""Columns: what every estimator gives for a batch, and how records move it.

Every estimate is a *column*: a candidate by an estimator, a metric and a clip; production is a
column for each metric. An estimator turns a batch and C candidates into a `ColumnBatch`. From there
on nothing depends on which estimator it was: the influence ψ says how far each record moves a
column, and sums of ψ over clusters are error vectors, from which all covariances follow.

    ψ_t + V = common_x + Σ_slots of t (gain · reward − cost),

where x is the context of record t. Sizes: R rows, X contexts, J slots that some column counts, A
targets, C candidates, E = A · C columns, S parts of the answer. Columns come first in shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from foreclick.batches import Batch, Bools, Candidate, CandidateSet, Coding, Floats, Ints
from foreclick.batches.arrays import ratio
from foreclick.estimation.sums import Coverage, RecordSums, Uncovered, whole_number
from foreclick.kept import kept_latest
from foreclick.metrics import AnyMetric, Metric, Ratio
from foreclick.models import ClickModel
from foreclick.policies import Policy
from foreclick.question import Target
from foreclick.results import Value


@dataclass(frozen=True, eq=False)
class View:
    """A batch with C candidates in its numbers.

    Attributes:
        batch: the log's records.
        members: the candidates one by one.
        policies: all of them together: whatever any of them shows.
        known: Shape (X, C): the contexts that each candidate has lists for.
    """

    batch: Batch
    members: Sequence[Candidate]
    policies: Candidate
    known: Bools

    @classmethod
    def of(cls, batch: Batch, policies: Sequence[Policy], depth: int) -> View:
        """Candidates in the numbers of a batch, asked down to a depth."""
        return _view(batch, tuple(policies), depth)

    @property
    def count(self) -> int:
        """C."""
        return len(self.members)


@kept_latest
def _view(batch: Batch, policies: tuple[Policy, ...], depth: int) -> View:
    coding = Coding(batch, depth)
    members = [Candidate(coding, policy) for policy in policies]
    known = np.stack([member.known for member in members], axis=1)
    every = members[0] if len(members) == 1 else CandidateSet(members)
    return View(batch, members, every, known)


class ModelError(NamedTuple):
    """Independent model errors: of rates, given what is expected of them. No record shows them.

    Attributes:
        context: Shape (Z,): of each; None if they are of no context.
        error: Shape (E, Z): the error of columns by each, times records.
    """

    context: Ints | None
    error: Floats


class CoefficientInfluence(NamedTuple):
    """How far records move the N coefficients that contexts share.

    Attributes:
        rows: Shape (Z,): the rows of the batch that a fit has learnt from.
        influence: Shape (N, Z): ψ of one record of each.
    """

    rows: Ints
    influence: Floats


@dataclass(eq=False)
class ColumnBatch:
    """Some columns in one batch; all values are times records.

    Attributes:
        value: Shape (E, X): n_x V_x; 0 in contexts that the candidate does not know.
        coverage: Shape (E, X) each: how far the log covers the columns.
        rungs: Shape (rungs, E, X): of a ladder, how much exposure took its rate from which rung.
        influence: Shape (E, R): ψ_t + V of one record of each row; None: not asked for.
        of_coefficients: ψ_t of N coefficients, which contexts share.
        cluster_influence: Shape (E, T): Σ (ψ_t + V) over the records of each cluster, where that is
            all that is asked for.
        model_errors: independent errors of E columns, or of these and N coefficients.
        sensitivity: Shape (N, E, X): how far n_x V_x moves with coefficients.
        shared_errors: Shape (D, E, X) by source: the error of n_x V_x by model errors that
            contexts share.
        click_value_gradient: Shape (E, I + F): by how much what clicks on items are worth, and γ,
            move each column.
        own_clicks: Shape (E, R): of a ladder in parts, the score of a rate of the part's own: how
            far clicks of rows would move columns beyond the rates that parts share.
    """

    value: Floats
    coverage: Coverage[Floats]
    rungs: Floats | None = None
    influence: Floats | None = None
    of_coefficients: CoefficientInfluence | None = None
    cluster_influence: Floats | None = None
    model_errors: list[ModelError] = field(default_factory=list)
    sensitivity: Floats | None = None
    shared_errors: dict[str, Floats] = field(default_factory=dict)
    click_value_gradient: Floats | None = None
    own_clicks: Floats | None = None

    def all_influence(self) -> Floats | None:
        """Shape (E + N, R): ψ_t + V of columns, and ψ_t of coefficients."""
        own, of = self.influence, self.of_coefficients
        if own is None or of is None:
            return own
        every = np.zeros((len(own) + len(of.influence), own.shape[1]))
        every[: len(own)], every[len(own) :, of.rows] = own, of.influence
        return every


# --- what an estimate rests on --------------------------------------------------------------------


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
class Stratum:
    """What a part of the answer rests on, for one candidate.

    Attributes:
        segment: the values of the columns it is split by.
        number: among the parts of the answer.
        known: the records of contexts that the candidate has lists for.
        unknown: the others; they count as production does, or not at all.
        used: whether the unknown contexts count.
    """

    segment: dict[str, Value]
    number: int
    known: RecordSums
    unknown: RecordSums
    used: bool

    @property
    def contexts(self) -> int:
        """How many contexts the estimate uses."""
        return round(float(self._used.contexts))

    @property
    def records(self) -> float:
        """How many records the estimate uses."""
        return whole_number(float(self._used.records))

    @property
    def missing_contexts(self) -> int:
        """Contexts of the log that the candidate has no list for."""
        return round(float(self.unknown.contexts))

    @cached_property
    def _used(self) -> RecordSums:
        return self.known + self.unknown if self.used else self.known

    def production(self, metric: AnyMetric) -> float | None:
        """The mean reward of the records that are used, or the ratio of two."""
        if not self.records:
            return None
        if isinstance(metric, Ratio):
            over, under = (self.production(part) for part in metric.parts)
            return over / under if over is not None and under else None
        return self._used.credit(metric) / self.records

    def best_rate(self, model: ClickModel, metric: Metric) -> float:
        """The mean reward of the best position, per unit of examination."""
        looked, earned = self._used.looked_at(model, metric), self._used.rewards[metric]
        size = min(metric.depth, len(looked))
        return float(ratio(earned[:size], looked[:size]).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over cells for one column in one part of the answer.

    Attributes:
        column: its number.
        credit: Σ n_x C_g W_g, the estimate times the number of records.
        exposure: Σ E, with E_g = n_x P_g.
        coverage: how far the log covers it.
        rungs: of a ladder, how much of the exposure took its rate from which rung.
        repeated: the share of what is covered that was seen in several periods, if that is known.
        least_covered: contexts with most of the uncovered exposure, for `support`.
    """

    target: Target
    stratum: Stratum
    column: int
    credit: float
    exposure: float
    coverage: Coverage[float]
    rungs: dict[str, float] | None = None
    repeated: float | None = None
    least_covered: Sequence[Uncovered] = ()

    @property
    def metric(self) -> Metric:
        """What is counted."""
        return self.target.metric

    @property
    def value(self) -> float | None:
        """The estimate of V(h), or None where the log shows nothing of the candidate."""
        if not self.stratum.records or self.coverage.covered <= 0:
            return None
        return self.credit / self.stratum.records

    def share(self, of: float) -> float:
        """A part of the exposure as a share of it."""
        return of / self.coverage.mass if self.coverage.mass else 0.0

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
            return Unseen(0.0, self.coverage.unreachable_gain / self.stratum.records)
        cap = None if caps is None else caps.get(self.metric)
        if cap is None:
            cap = self.stratum.best_rate(self.target.model, self.metric)
        found = self.coverage
        new = cap * max(found.mass - found.covered, 0.0)
        more = found.lost + max(new - found.borrowed, 0.0)
        return Unseen(found.borrowed / self.stratum.records, more / self.stratum.records)
