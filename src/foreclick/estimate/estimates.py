"""Estimates and their covariance: from sums over a log to what can be said of candidates.

Records of one cluster (a day, a bucket of users) vary together, clusters do not. With the sums s_c
of ψ over the records of cluster c, divided by all n records, and any question as a Jacobian J over
columns (a value, a change, a lift, a ratio, a pair of candidates),

    Cov = G / (G − 1) Σ_c (J s_c)(J s_c)ᵀ        of G clusters.

**Two kinds at once.** Records of one day vary together, and so do those of one user. A pair of
records counts if it shares the day or the user, so the sums over days and over users count the
pairs that share both twice (Cameron, Gelbach and Miller, 2011): Cov_day + Cov_user − Cov_both.

**Days with memory.** If a good day is followed by good days, neighbouring days vary together, too.
Newey and West's variance with L lags counts them, by weights that fall to 0 (1987). It has few
degrees of freedom, 3/2 G / (L + 1) − 1. A change against production on the same days hardly has
memory: what makes a day good for one makes it good for both.

**What no record shows** is added: what small cells hide, what shrinkage takes from cells, errors of
an examination that was learnt, and of a candidate that is itself a sample. Two candidates share
these errors exactly; those of two metrics are as alike as what records show of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from foreclick.batches import Floats, ratio
from foreclick.errors import PolicyError
from foreclick.estimate.question import Ask, Question, by_hazard
from foreclick.logs import Shape
from foreclick.metrics import AnyMetric, Metric, Ratio
from foreclick.models import ClickModel
from foreclick.policies import Policy
from foreclick.words import examples, number_of

if TYPE_CHECKING:
    from foreclick.estimate.support import SupportDetail
    from foreclick.estimate.work import BatchResult, Strata

BOTH = "both"
"""The kind of clusters that share a period and a unit."""

LAGS = 4
"""Days back that a day may remember."""

FEW_TO_JUDGE = 30
"""With fewer records than this, nothing is called better or worse."""

ENOUGH_PERIODS = 5
"""In so many periods a cell must have been seen for its click rate to be more than theirs."""

_ENOUGH = 10  # periods; fewer say nothing of how they follow each other
_ROUNDING = 1e-12  # the part of a sum that a difference must have to be more than rounding
_LEAST = 1e-150  # of what something is divided by: its square is a number


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
    """

    contexts: int
    records: float
    shown: Floats
    rewards: dict[Metric, Floats]
    at_risk: dict[Metric, Floats]

    def credit(self, metric: Metric) -> float:
        """Σ_k θ_k w_k over the records."""
        return _along(metric.theta, self.rewards[metric])

    def counts(self, model: ClickModel, metric: Metric) -> Floats:
        """By position, how many records a click rate is of: all, or those at risk."""
        return self.at_risk[metric] if by_hazard(model, metric) else self.shown

    def exposure(self, ask: Ask, *, at_risk: bool = True) -> float:
        """Σ_k e_k over the records, or over those that click rates are taken from."""
        counts = self.counts(ask.model, ask.metric) if at_risk else self.shown
        return _along(ask.exposure, counts)

    def without(self, other: Part) -> Part:
        """The other records."""
        return Part(
            self.contexts - other.contexts,
            whole_number(self.records - other.records),
            self.shown - other.shown,
            {m: each - other.rewards[m] for m, each in self.rewards.items()},
            {m: each - other.at_risk[m] for m, each in self.at_risk.items()},
        )


def _along(values: Sequence[float], by_position: Floats) -> float:
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
        parts = self.known, self.unknown
        shown = np.sum([p.counts(model, metric) for p in parts], axis=0)
        earned = np.sum([p.rewards[metric] for p in parts], axis=0)
        examined = model.examined(metric.depth)
        rates = [w / n / p for w, n, p in zip(earned, shown, examined, strict=False) if n * p > 0]
        return float(max(rates, default=0.0))


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
        rungs: of a ladder, how much of the exposure took its rate from which rung.
        repeated: the share of what is covered that was seen in several periods, if that is known.
        detail: what of the candidate the log covers, if that was asked.
    """

    ask: Ask
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
    rungs: dict[str, float] | None = None
    repeated: float | None = None
    detail: SupportDetail | None = None

    @property
    def metric(self) -> Metric:
        """What is counted."""
        return self.ask.metric

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
        cap = None if caps is None else caps.get(self.metric)
        if cap is None:
            cap = self.stratum.best_rate(self.ask.model, self.metric)
        new = cap * max(self.mass - self.covered, 0.0)
        more = self.lost + max(new - self.borrowed, 0.0)
        return Unseen(self.borrowed / self.stratum.records, more / self.stratum.records)


@dataclass(frozen=True, eq=False)
class Estimate:
    """What an estimator says of one metric of a candidate, in one part of the answer.

    Attributes:
        of: all estimates of the question.
        candidate: the number of the candidate.
        metric: what is counted: a sum over positions, or a ratio of two.
        clip: M.
        parts: the sums over cells that it is made of: one, or two of a ratio.
    """

    of: Estimates
    candidate: int
    metric: AnyMetric
    clip: float
    parts: tuple[ColumnSums, ...]

    @property
    def estimator(self) -> str:
        """What the `estimator` column shows."""
        return self.parts[0].ask.model.name

    @property
    def ladder(self) -> bool:
        """Whether it is a ladder's."""
        return self.parts[0].rungs is not None

    @property
    def sighted(self) -> bool:
        """Whether to the estimator it matters which items are shown."""
        return any(part.ask.model.sees_items for part in self.parts)

    @property
    def stratum(self) -> Stratum:
        """What it rests on."""
        return self.parts[0].stratum

    @cached_property
    def value(self) -> float | None:
        """The estimate; None where the log shows nothing of it, or nothing to divide by."""
        values = [part.value for part in self.parts]
        if len(values) == 1 or values[0] is None:
            return values[0]
        return values[0] / values[1] if values[1] else None

    @cached_property
    def production(self) -> float | None:
        """The mean reward of the records that are used, or the ratio of two."""
        return self.stratum.production(self.metric)

    @property
    def covered(self) -> float:
        """The share of the candidate's exposure that was ever logged, of the part seen least."""
        return min(p.covered / p.mass if p.mass else 0.0 for p in self.parts)

    @property
    def clipped(self) -> float:
        """The share of the candidate's exposure that the clip cut off, of the part cut most."""
        return max(p.clipped / p.mass if p.mass else 0.0 for p in self.parts)

    @property
    def repeated(self) -> float | None:
        """The share of what is covered that was seen in several periods, of the part seen least.

        None where the log has too few periods for anything to have been seen in several.
        """
        kind, periods = self.of.clusters(self.stratum.number)
        if kind != "period" or periods < ENOUGH_PERIODS or self.value is None:
            return None
        return min((p.repeated for p in self.parts if p.repeated is not None), default=None)

    @property
    def unlogged(self) -> float:
        """Records in cells that the given logging policy calls impossible."""
        return max(part.unlogged for part in self.parts)

    @property
    def ess(self) -> float | None:
        """The effective number of records, n (Σ E W)² / (Σ E · Σ E W²), of the part with fewer.

        None for a ladder whose variance was not asked for: its weights are its influence.
        """
        found = []
        for part in self.parts:
            if part.metric.shown and len(self.parts) > 1:
                continue
            if part.rungs is not None and not self.of.question.clusters and part.covered > 0:
                continue
            square = part.exposure * part.squared if part.covered > 0 else 0.0
            found.append(part.stratum.records * part.weighted**2 / square if square else 0.0)
        return min(found, default=None)

    def unseen(self, caps: Caps = None) -> Unseen:
        """What the log cannot see: how much less and how much more than `value` it may be.

        Of a ratio, the numerator is at one end as low as it may be and the denominator as high, and
        at the other end the other way round: what was never shown may be clicked and not bought.
        """
        each = [part.unseen(caps) for part in self.parts]
        if len(each) == 1:
            return each[0]
        (n, d), value = (part.value for part in self.parts), self.value
        if n is None or d is None or value is None:
            return Unseen(0.0, 0.0)
        least = max(d - each[1].less, 0.0)
        most = (n + each[0].more) / least if least > 0 else math.inf
        return Unseen(value - (n - each[0].less) / (d + each[1].more), most - value)

    # --- errors -----------------------------------------------------------------------------------

    @cached_property
    def told(self) -> bool:
        """Whether its variance is known."""
        if not self.of.question.clusters or self.value is None or self.slopes is None:
            return False
        return self.of.freedom(self.stratum.number) >= 1

    @cached_property
    def slopes(self) -> Floats | None:
        """Shape (2, parts): by how much its parts move the value, and production's.

        None where there is nothing to divide by, or so little that its square is no number.
        """
        if len(self.parts) == 1:
            return np.ones((2, 1))
        found = []
        for over, under in (
            (part.value for part in self.parts),
            (self.stratum.production(part.metric) for part in self.parts),
        ):
            if over is None or not under or under < _LEAST:
                return None
            found.append([1 / under, -over / under**2])
        return np.array(found)

    @property
    def columns(self) -> list[int]:
        """The columns of its parts."""
        return [part.column for part in self.parts]

    def design(self) -> Floats:
        """Shape (2, columns): the Jacobian of the value and of production's."""
        slopes = self.slopes
        assert slopes is not None  # noqa: S101 - see `told`
        found = np.zeros((2, self.of.width))
        found[0, self.columns] = slopes[0]
        found[1, [self.of.production_column(part.metric) for part in self.parts]] = slopes[1]
        return found

    @cached_property
    def hidden(self) -> Floats:
        """Shape (2, 2): the covariance of value and production that no record shows.

        Without what a candidate that is a sample adds, and without errors that candidates share.
        """
        s, slopes = self.stratum.number, self.slopes
        assert slopes is not None  # noqa: S101 - see `told`
        cells = [self.of.of_small_cells(s, column) for column in self.columns]
        shrunk = [self.of.of_shrinkage(s, column) for column in self.columns]
        if len(cells) == 1:
            return cells[0] + np.diag([shrunk[0], 0.0])
        alike = self._alike()
        both = alike * _root(cells[0]) @ _root(cells[1])
        design = np.zeros((2, 4))
        design[0, [0, 2]], design[1, [1, 3]] = slopes
        found = design @ np.block([[cells[0], both], [both.T, cells[1]]]) @ design.T
        return np.asarray(found + np.diag(np.array([_joined(shrunk, alike, slopes[0]), 0.0])))

    def _alike(self) -> float:
        """The correlation of the two parts of a ratio, as records show it."""
        both = self.of.shown(self.stratum.number, np.eye(self.of.width)[self.columns])
        one, other = (max(float(variance), 0.0) for variance in np.diag(both))
        scale = math.sqrt(one * other)
        return float(both[0, 1]) / scale if scale > 0 else 0.0

    @cached_property
    def alone(self) -> float:
        """The variance that it shares with no other: that of its sample, if it is one."""
        assert self.slopes is not None  # noqa: S101 - see `told`
        own = [self.of.of_sample(self.stratum.number, column) for column in self.columns]
        if len(own) == 1 or not any(own):
            return own[0] if len(own) == 1 else 0.0
        return _joined(own, self._alike(), self.slopes[0])

    @cached_property
    def off_by(self) -> Floats:
        """Shape (D,): how far errors of an examination that was learnt put it off."""
        assert self.slopes is not None  # noqa: S101 - see `told`
        each = [self.of.off_by(self.stratum.number, column) for column in self.columns]
        found = np.zeros(max(map(len, each)))
        for slope, error in zip(self.slopes[0], each, strict=True):
            found[: len(error)] += slope * error
        return found

    @cached_property
    def covariance(self) -> Floats:
        """Shape (2, 2): of the value and of production's."""
        s, own = self.stratum.number, self.alone + float(self.off_by @ self.off_by)
        found = self.of.shown(s, self.design()) + self.hidden
        if len(self.parts) > 1 and self.alone and self.slopes is not None:
            # What a part hides and what its sample adds are one error, as alike as what shows.
            shrunk = [self.of.of_shrinkage(s, column) for column in self.columns]
            both = [
                self.of.of_sample(s, c) + more for c, more in zip(self.columns, shrunk, strict=True)
            ]
            apart = [_joined(each, self._alike(), self.slopes[0]) for each in (shrunk, both)]
            own += apart[1] - apart[0] - self.alone
        return np.asarray(found + np.diag([own, 0.0]))

    def memory(self) -> tuple[float, float]:
        """What the value varies besides if neighbouring periods vary together, and its freedom."""
        return self.of.memory(self.stratum.number, self.design()[0])


def _joined(variances: Sequence[float], alike: float, slopes: Floats) -> float:
    """The variance of a ratio by that of its parts, which have this correlation."""
    shared = alike * math.sqrt(variances[0] * variances[1])
    both = np.array([[variances[0], shared], [shared, variances[1]]])
    return float(slopes @ both @ slopes)


def _root(covariance: Floats) -> Floats:
    """The symmetric square root; what is below 0 counts as 0."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


class Estimates:
    """All estimates of a question, with one covariance.

    Args:
        question: what was asked.
        shape: the columns of the log.
        strata: the parts of the answer.
        found: sums over the log.
    """

    def __init__(
        self, question: Question, shape: Shape, strata: Strata, found: BatchResult
    ) -> None:
        self.question, self.shape, self.strata = question, shape, strata
        self._found, self.totals = found, found.totals
        self.count = len(question.candidates)
        ladders = [asks[0].ladder is not None for asks in question.groups]
        widths = [
            len(asks) * self.count + shared
            for asks, shared in zip(question.groups, ladders, strict=True)
        ]
        self._starts = np.cumsum([len(question.parts), *widths])
        self.width = int(self._starts[-1])
        self._place = {
            ask: (g, a) for g, asks in enumerate(question.groups) for a, ask in enumerate(asks)
        }
        self._refuse_missing()

    def production_column(self, metric: Metric) -> int:
        """The column of production's mean of a metric."""
        return self.question.parts.index(metric)

    def ignored_contexts(self, candidate: int) -> int:
        """How many contexts only the candidate has."""
        return self.question.candidates[candidate].context_count() - int(
            self._found.shared[candidate]
        )

    # --- estimates --------------------------------------------------------------------------------

    def of_candidate(self, candidate: int = 0, *, whole: bool = False) -> list[Estimate]:
        """By estimator, metric, clip and part, in the order they were asked; or of the whole."""
        q = self.question
        strata = self.strata_of(candidate)
        if self.strata.split:
            strata = strata[-1:] if whole else strata[:-1]
        found = []
        for e, estimator in enumerate(q.estimators):
            for metric in q.metrics:
                for m, clip in enumerate(estimator.clip or (math.inf,)):
                    asks = [q.asks_of(e, part)[m] for part in metric.parts]
                    for s in strata:
                        parts = tuple(self._sums(ask, candidate, s) for ask in asks)
                        found.append(Estimate(self, candidate, metric, clip, parts))
        return found

    def strata_of(self, candidate: int) -> list[Stratum]:
        """The parts of the answer that have any records."""
        used = self.question.missing == "production"
        found = []
        for s in range(self.strata.count):
            whole, absent = self._part(s, "all"), self._part(s, f"absent {candidate}")
            known = whole.without(absent) if self.question.missing != "drop" else whole
            if whole.contexts + absent.contexts > 0:
                found.append(Stratum(self.strata.segment(s), s, known, absent, used))
        return found

    def _part(self, s: int, which: str) -> Part:
        def by_position(*name: Any) -> Floats:  # noqa: ANN401 - parts of a name
            found = self.totals.sums.get((which, *name))
            return np.zeros(self.shape.depth) if found is None else found[s]

        metrics = self.question.parts
        return Part(
            contexts=round(float(self.totals.get((which, "contexts"), s))),
            records=whole_number(float(self.totals.get((which, "records"), s))),
            shown=by_position("shown"),
            rewards={m: by_position("reward", m) for m in metrics},
            at_risk={m: by_position("risk", m) for m in metrics if m.first},
        )

    def _sums(self, ask: Ask, candidate: int, stratum: Stratum) -> ColumnSums:
        """Sums of cells, and of the contexts in which the candidate shows what production did.

        Their weights are 1 and their exposure is their own, whatever the clip.
        """
        (g, a), s = self._place[ask], stratum.number
        at = a * self.count + candidate

        def number(name: str) -> float:
            found = self.totals.sums.get((g, name))
            return 0.0 if found is None else float(found[s, at])

        names = ("mass", "covered", "weighted", "squared", "clipped", "lost", "unlogged")
        found: dict[str, Any] = {name: number(name) for name in (*names, "cells", "seen", "out")}
        found["out_records"] = number("out records")
        exposed = stratum.known.exposure(ask)
        filled = self.totals.sums.get((g, "filled"))
        if filled is not None:
            exposed = _along(ask.exposure, filled[s])
        if ask.ladder is not None:
            # As if all positions counted alike: then production is worth as many as it has.
            shown, theta = stratum.known.shown, ask.metric.theta
            size = min(len(theta), len(shown))
            t, n = np.array(theta[:size]), shown[:size]
            even = float(t @ n) / float((t * t) @ n) if (t * t) @ n else 0.0
            if self.question.clusters:
                slope = number("slope")
                last, square = (
                    float(self.totals.sums[g, f"last {name}"][s, 0])
                    for name in ("weighted", "squared")
                )
                found["weighted"] += slope * last
                found["squared"] += 2 * slope * number("crossed") + slope**2 * square
            found["squared"] *= even
            found["borrowed"] = number("borrowed")
            shares = self.totals.sums[g, "rungs"][s, at].tolist()
            found["rungs"] = dict(zip(ask.ladder.rungs, shares, strict=True))
        if stratum.used:
            whole, risk = (
                stratum.unknown.exposure(ask, at_risk=False),
                stratum.unknown.exposure(ask),
            )
            for name, more in (
                ("mass", whole),
                ("covered", whole),
                ("weighted", risk),
                ("squared", risk),
            ):
                found[name] += more
            exposed += risk
        often = self.totals.sums.get((g, "repeated"))
        if often is not None and often[s, at, 0]:
            found["repeated"] = float(often[s, at, 1] / often[s, at, 0])
        largest = self.totals.largest.get((g, "largest"))
        doubtful = isinstance(ask.logging, Policy) or not ask.model.sees_items
        if doubtful and not ask.metric.shown:  # which is known without a log
            # Where no item of the candidate was ever shown, nothing of it is covered.
            sight = self.totals.sums.get(("sight", ask.metric.depth))
            if sight is None or not sight[s, candidate]:
                found["covered"] = 0.0
        return ColumnSums(
            ask=ask,
            stratum=stratum,
            column=int(self._starts[g]) + at,
            credit=number("value"),
            exposure=exposed,
            largest=math.inf
            if ask.logging == "propensity"
            else 0.0
            if largest is None
            else float(largest[at]),
            detail=self._found.details.get(ask),
            **found,
        )

    # --- what records show ------------------------------------------------------------------------

    @cached_property
    def _influence(self) -> dict[int, Any]:
        """By part: the covariance of means of independent records, or sums over clusters."""
        return {}

    def _rows(self, s: int) -> tuple[list[tuple[str, Floats]], Floats | None]:
        """Kinds of clusters with Σψ / n of each, shape (clusters, columns); or of records, Cov."""
        if s in self._influence:
            return self._influence[s]  # type: ignore[no-any-return]
        n = float(self.totals.get(("all", "records"), s))
        turn, centre = np.eye(self.width), np.zeros(self.width)
        parts = self.question.parts
        for m, metric in enumerate(parts):
            earned = self.totals.sums["all", "reward", metric][s]
            centre[m] = _along(metric.theta, earned) / n
        for g in range(len(self.question.groups)):
            value = self.totals.sums[g, "value"][s]
            start, end = int(self._starts[g]), int(self._starts[g + 1])
            centre[start : start + len(value)] = value / n
            slope = self.totals.sums.get((g, "slope"))
            if slope is not None:
                turn[start : start + len(value), end - 1] = slope[s]
        found: list[tuple[str, Floats]] = []
        covariance = None
        if "record" in self.question.clusters:
            raw = self.totals.sums["record"][s]
            mean = raw[:-1, -1] / n
            centred = raw[:-1, :-1] - n * np.outer(mean, mean)
            covariance = turn @ centred @ turn.T / (n * max(n - 1, 1))
        for kind in ("period", "unit", BOTH):
            if kind in self.totals.sums:
                each = self.totals.sums[kind][s]
                each = each[each[:, -1] > 0]
                rows = each[:, :-1] - each[:, -1:] * centre
                found.append((kind, rows @ turn.T / n))
        self._influence[s] = found, covariance
        return found, covariance

    def freedom(self, s: int) -> float:
        """Degrees of freedom of Student's t; infinite for independent records."""
        rows, _ = self._rows(s)
        return min((len(each) - 1 for kind, each in rows if kind != BOTH), default=math.inf)

    def clusters(self, s: int) -> tuple[str, float]:
        """Whose records vary together, of several kinds the first, and how many of them."""
        rows, _ = self._rows(s)
        if not rows:
            return "record", float(self.totals.get(("all", "records"), s))
        return rows[0][0], float(len(rows[0][1]))

    def shown(self, s: int, design: Floats) -> Floats:
        """Shape (Q, Q): the covariance of Q questions, Jacobians (Q, columns), that records show.

        Of two kinds of clusters, no variance is below 0: where one would be, eigenvalues below 0
        are cut, with all questions scaled alike before.
        """
        found, size = self._added_up(s, design)
        return found if size is None else _cut(found, size)

    def _added_up(self, s: int, design: Floats) -> tuple[Floats, Floats | None]:
        """The same before eigenvalues are cut; and, shape (Q,), the scale of each question."""
        rows, covariance = self._rows(s)
        if covariance is not None:
            return np.asarray(design @ covariance @ design.T), None
        outer = [(-1.0 if kind == BOTH else 1.0, _outer(each @ design.T)) for kind, each in rows]
        found = np.asarray(np.sum([sign * each for sign, each in outer], axis=0))
        if len(outer) == 1:
            return found, None
        size = np.sqrt(np.sum([np.diag(each) for sign, each in outer if sign > 0], axis=0))
        return found, np.where(size > 0, size, 1.0)

    def _paired(self, s: int, design: Floats) -> Floats:
        """The covariance of questions, of which differences are as if only two had been asked.

        What is cut of all questions together depends on each of them.
        """
        found, size = self._added_up(s, design)
        if size is None:
            return found
        i, j = np.triu_indices(len(found), 1)
        both = np.stack([i, j], axis=1)
        pairs = _cut(found[both[:, :, None], both[:, None, :]], size[both])
        own = np.maximum(np.diag(found), 0.0)
        apart = pairs[:, 0, 0] + pairs[:, 1, 1] - 2 * pairs[:, 0, 1]
        result = np.diag(own)
        result[i, j] = result[j, i] = (own[i] + own[j] - apart) / 2
        return result

    def memory(self, s: int, design: Floats) -> tuple[float, float]:
        """What a question, shape (columns,), varies besides if neighbouring periods vary together.

        It may be below 0. And the degrees of freedom with it.
        """
        rows, freedom = self._rows(s)[0], self.freedom(s)
        if not rows or rows[0][0] != "period" or len(rows[0][1]) < _ENOUGH:
            return 0.0, freedom
        days = rows[0][1] @ design
        lasting = newey_west(days) - float(_outer(days[:, None])[0, 0])
        return lasting, min(1.5 * len(days) / (LAGS + 1) - 1, freedom)

    # --- what no record shows ---------------------------------------------------------------------

    def _group(self, column: int) -> tuple[int, int, int]:
        """The group of a column, the ask in it, and the candidate."""
        g = int(np.searchsorted(self._starts, column, side="right")) - 1
        a, c = divmod(column - int(self._starts[g]), self.count)
        return g, a, c

    def of_small_cells(self, s: int, column: int, other: int | None = None) -> Floats:
        """Shape (2, 2): the variance of value and production that cells of few records hide.

        With another candidate's column of the same ask, shape (1, 1): the covariance of the two.
        """
        if other is not None:  # each by its own estimate of how much cells vary
            return (self._of_cells(s, column, other) + self._of_cells(s, other, column)) / 2
        found = self._of_cells(s, column)
        if not self._partial(s):
            return found
        root = _root(found)
        return np.asarray(root @ root)

    def _partial(self, s: int) -> bool:
        """Whether a part of independent records takes no less than 0 from what cells hide.

        A cell whose records vary more than usual is taken to vary less than they do. Which part
        they are in, the sums over cells do not know: nothing may be left of the part's variance.
        """
        last = self.strata.count - 1
        return self.strata.split and s < last and "record" in self.question.clusters

    def _of_cells(self, s: int, column: int, other: int | None = None) -> Floats:
        g, a, c = self._group(column)
        found = np.zeros((2, 2) if other is None else (1, 1))
        pool = self.totals.sums.get((g, "pool"))
        if pool is None:
            return found
        n = float(self.totals.get(("all", "records"), s))
        at = a * self.count + c
        scale = np.array([1.0, ratio(*pool[s, at])[()] if pool[s, at, 1] > 0 else 0.0, 0.0])
        # What few periods hide and what few units hide are different things. Of both together,
        # which are many, hardly anything is hidden.
        for kind in self.question.clusters:
            tau = self.totals.sums.get((g, kind, "tau"))
            scale[2] = 0.0
            if tau is not None:
                known, pooled, under = tau[s, at].tolist()
                over = known + scale[1] * pooled
                # A difference of equal numbers, which large rewards would make large.
                rounding = _ROUNDING * (abs(known) + abs(scale[1] * pooled))
                scale[2] = over / under if over > rounding and under > 0 else 0.0
            for rank, by in enumerate(scale):
                if (g, kind, rank, "vf") not in self.totals.sums:
                    continue
                vv = self.totals.sums[g, kind, rank, "vv", a][s]
                if other is not None:
                    found[0, 0] += by * vv[c, self._group(other)[2]]
                    continue
                vf, ff = (self.totals.sums[g, kind, rank, name][s, at] for name in ("vf", "ff"))
                found += by * np.array([[vv[c, c], vf], [vf, ff]])
        return found / n**2

    def of_shrinkage(self, s: int, column: int, other: int | None = None) -> float:
        """The variance that shrinkage hides, or its covariance with another of the columns."""
        g = self._group(column)[0]
        loose = self.totals.sums.get((g, "loose"))
        if loose is None:
            return 0.0
        start = int(self._starts[g])
        i, j = column - start, (column if other is None else other) - start
        slope, across = (self.totals.sums[g, name][s] for name in ("slope", "loose across"))
        last = float(self.totals.sums[g, "loose last"][0, 0])
        found = loose[s, i, j] + slope[i] * across[j] + slope[j] * across[i]
        n = float(self.totals.get(("all", "records"), s))
        return float(found + slope[i] * slope[j] * last) / n**2

    def of_sample(self, s: int, column: int) -> float:
        """The variance of a candidate that is itself a sample."""
        g, a, c = self._group(column)
        sample = self.totals.sums.get((g, "sample", c))
        if sample is None:
            return 0.0
        own, squares, freedom, alone = sample[s, a].tolist()
        usual = squares / freedom if freedom else 0.0
        return float(own + usual * alone) / float(self.totals.get(("all", "records"), s)) ** 2

    def off_by(self, s: int, column: int) -> Floats:
        """Shape (D,): how far errors that contexts share put a column off."""
        g = self._group(column)[0]
        found = self.totals.sums.get((g, "off by"))
        if found is None:
            return np.zeros(1)
        n = float(self.totals.get(("all", "records"), s))
        return np.asarray(found[s, column - int(self._starts[g])] / n)

    def joint(self, estimates: Sequence[Estimate], *, production: bool = False) -> Floats:
        """Shape (Q, Q): the covariance of Q estimates; or (Q + 1, Q + 1), with production last.

        With production, only differences are asked of it, so what production hides stands with the
        candidates. Estimates that are alike to the last bit are one, whatever eigenvalues are cut.
        """
        s = estimates[0].stratum.number
        designs = [each.design() for each in estimates]
        rows, covariance = self._rows(s)
        numbers: dict[bytes, int] = {}
        keys = [
            b"".join((each @ d[0]).tobytes() for _, each in rows)
            if covariance is None
            else (covariance @ d[0]).tobytes()
            for d in designs
        ]
        number = [numbers.setdefault(key, len(numbers)) for key in keys]
        first = [number.index(i) for i in range(len(numbers))]
        whose = [*number, *([len(first)] if production else [])]
        questions = [designs[i][0] for i in first] + ([designs[0][1]] if production else [])
        shown = self._paired if production else self.shown
        found = shown(s, np.stack(questions))[np.ix_(whose, whose)]
        alike = found / np.sqrt(np.maximum(np.outer(np.diag(found), np.diag(found)), _LEAST))
        for i, one in enumerate(estimates):
            for j, two in enumerate(estimates[: i + 1]):
                size = min(len(one.off_by), len(two.off_by))
                more = self._hidden_pair(one, two, float(alike[i, j]), production=production)
                more += float(one.off_by[:size] @ two.off_by[:size])
                found[i, j] += more + (one.alone if i == j else 0.0)
                found[j, i] = found[i, j]
        return found

    def _hidden_pair(
        self, one: Estimate, two: Estimate, alike: float, *, production: bool
    ) -> float:
        """The covariance that two estimates hide, or that their differences with production do."""
        own, other = (
            _of_difference(each.hidden) if production else float(each.hidden[0, 0])
            for each in (one, two)
        )
        if one is two:
            return own
        scale = math.sqrt(max(own, 0.0) * max(other, 0.0))
        if one.parts[0].ask != two.parts[0].ask:  # as alike as what shows
            return min(max(alike, -1.0), 1.0) * scale
        s, (a, b) = one.stratum.number, (one.columns[0], two.columns[0])
        mine, theirs, both = (
            float(self.of_small_cells(s, i, j)[0, 0]) + self.of_shrinkage(s, i, j)
            for i, j in ((a, a), (b, b), (a, b))
        )
        if len(one.parts) > 1:  # as alike as their numerators
            shared = both / math.sqrt(mine * theirs) if mine * theirs > 0 else 0.0
            return min(max(shared, -1.0), 1.0) * scale
        # Their own difference hides mine + theirs − 2 both, whatever production hides.
        apart = mine + theirs - 2 * both
        return (own + other - (max(apart, 0.0) if self._partial(s) else apart)) / 2

    # --- refusals ---------------------------------------------------------------------------------

    def _refuse_missing(self) -> None:
        """A context without a list is an error, unless the user says what to do with it."""
        self._complain("logging policy", "the logging policy has no list for")
        for c in range(self.count):
            who = f"candidate {c}"
            known = sum(s.known.contexts for s in self.strata_of(c))
            if not known and who in self._found.missing:
                _, ours = self._found.missing[who]
                theirs = self.question.candidates[c].first_contexts()
                raise PolicyError(
                    "the candidate has no list for any context of the log: the log has "
                    f"{examples(ours)}, the candidate {examples(theirs)}. Write them alike; '7', "
                    "'07' and '7 ' are different texts."
                )
            if self.question.missing == "error":
                self._complain(
                    who,
                    "the candidate has no list for",
                    " Say what they should count as: missing='production' (as they are today) or "
                    "missing='drop' (leave them out of everything).",
                )

    def _complain(self, who: str, what: str, remedy: str = "") -> None:
        if who in self._found.missing:
            count, some = self._found.missing[who]
            raise PolicyError(
                f"{what} {number_of(count, 'context')} of the log, for example "
                f"{', '.join(map(repr, some))}.{remedy}"
            )


def _of_difference(hidden: Floats) -> float:
    """The variance that value − production hides."""
    return float(hidden[0, 0] - 2 * hidden[0, 1] + hidden[1, 1])


def _cut(covariance: Floats, size: Floats) -> Floats:
    """Covariances (…, Q, Q) of questions of these sizes (…, Q), without eigenvalues below 0."""
    values, vectors = np.linalg.eigh(covariance / size[..., None, :] / size[..., :, None])
    root = size[..., :, None] * vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    some = np.asarray(values[..., :1, None] < 0)
    return np.where(some, root @ np.swapaxes(root, -1, -2), covariance)


def _outer(rows: Floats) -> Floats:
    return np.asarray(rows.T @ rows * (len(rows) / max(len(rows) - 1, 1)))


def newey_west(values: Floats, lags: int = LAGS) -> float:
    """The variance of the total of values in order, of which neighbours vary together.

    Args:
        values: Shape (G,): they add up to about 0.
        lags: how far back one of them may remember.
    """
    count = len(values)
    centred = values - values.mean()
    found = float(centred @ centred)
    for lag in range(1, lags + 1):
        found += 2 * (1 - lag / (lags + 1)) * float(centred[lag:] @ centred[:-lag])
    lost = 1 - 2 / 3 * (lags + 1) / count
    return max(found, 0.0) * count / (count - 1) / lost
