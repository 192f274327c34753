"""Estimates of candidates, each with its errors.

An estimate is one column, or a ratio of two. What is asked of it (a change, a lift, a difference of
candidates) is a Jacobian over columns, see `covariance`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from foreclick.batches import Floats
from foreclick.errors import PolicyError
from foreclick.estimation.columns import Caps, ColumnSums, Stratum, Unseen
from foreclick.estimation.covariance import ENOUGH_PERIODS, Covariance, root_of
from foreclick.estimation.fits import BELIEVED_Z, FitSummary
from foreclick.estimation.parts import Strata
from foreclick.estimation.sources import SharedErrors
from foreclick.estimation.sums import Absent, Coverage, LogSums, RecordSums, along
from foreclick.logs import Shape
from foreclick.metrics import AnyMetric, Metric
from foreclick.policies import Policy
from foreclick.question import Question, Target
from foreclick.words import examples, number_of

_LEAST = 1e-150  # of what something is divided by: its square is a number


@dataclass(frozen=True, eq=False)
class Estimate:
    """The estimate of one metric of a candidate by one estimator, in one part of the answer.

    Attributes:
        estimates: all estimates of the question.
        candidate: the number of the candidate.
        metric: what is counted: a sum over positions, or a ratio of two.
        clip: M.
        parts: the sums over cells that it is made of: one, or two of a ratio.
    """

    estimates: Estimates
    candidate: int
    metric: AnyMetric
    clip: float
    parts: tuple[ColumnSums, ...]

    @property
    def estimator(self) -> str:
        """What the `estimator` column shows."""
        return self.parts[0].target.model.name

    @property
    def ladder(self) -> bool:
        """Whether it is a ladder's."""
        return self.parts[0].rungs is not None

    @property
    def leakage_z(self) -> float:
        """The z of a test that the candidate knows the log's clicks, by a ladder; 0 if chance.

        Whoever says that it was trained before them is believed, unless z is very large.
        """
        fits = self.estimates.fits if self.ladder else ()
        z = max((fit.leakages[self.candidate].alarm for fit in fits), default=0.0)
        return z if z > BELIEVED_Z or not self.estimates.question.trained_before else 0.0

    @property
    def own_clicks_z(self) -> float:
        """Z of a part's own clicks against the click rates that all parts share; 0 of the whole."""
        number, each = self.stratum.number, [0.0]
        for column in self.columns:
            shift, se = self.estimates.own_clicks(number, column)
            each.append(abs(shift) / se if se > 0 else 0.0)
        return max(each)

    @property
    def converged(self) -> bool:
        """Whether the fits that it rests on are solved."""
        return not self.ladder or all(fit.converged for fit in self.estimates.fits)

    @property
    def sees_items(self) -> bool:
        """Whether the estimate depends on which items are shown."""
        return any(part.target.model.sees_items for part in self.parts)

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
        return min(part.share(part.coverage.covered) for part in self.parts)

    @property
    def clipped(self) -> float:
        """The share of the candidate's exposure that the clip cut off, of the part cut most."""
        return max(part.share(part.coverage.clipped) for part in self.parts)

    @property
    def repeated(self) -> float | None:
        """The share of what is covered that was seen in several periods, of the part seen least.

        None where the log has too few periods for anything to have been seen in several.
        """
        if self.value is None:
            return None
        kind, periods = self.estimates.clusters(self.stratum.number)
        if kind != "period" or periods < ENOUGH_PERIODS:
            return None
        return min((p.repeated for p in self.parts if p.repeated is not None), default=None)

    @property
    def unlogged(self) -> float:
        """Records in cells that the given logging policy calls impossible."""
        return max(part.coverage.unlogged for part in self.parts)

    @property
    def ess(self) -> float | None:
        """The effective number of records, n (Σ E W)² / (Σ E · Σ E W²), of the part with fewer.

        None for a ladder whose variance was not asked for: its weights are its influence.
        """
        sizes = []
        for part in self.parts:
            if part.metric.shown and len(self.parts) > 1:
                continue
            if (
                part.rungs is not None
                and not self.estimates.question.clusters
                and part.coverage.covered > 0
            ):
                continue
            square = part.exposure * part.coverage.squared if part.coverage.covered > 0 else 0.0
            sizes.append(
                part.stratum.records * part.coverage.weighted**2 / square if square else 0.0
            )
        return min(sizes, default=None)

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
    def has_variance(self) -> bool:
        """Whether its variance is known."""
        if not self.estimates.question.clusters or self.value is None or self.slopes is None:
            return False
        return self.estimates.freedom(self.stratum.number) >= 1

    @cached_property
    def slopes(self) -> Floats | None:
        """Shape (2, parts): by how much its parts move the value, and production's.

        None where there is nothing to divide by, or so little that its square is no number.
        """
        if len(self.parts) == 1:
            return np.ones((2, 1))
        rows = []
        for over, under in (
            (part.value for part in self.parts),
            (self.stratum.production(part.metric) for part in self.parts),
        ):
            if over is None or not under or under < _LEAST:
                return None
            rows.append([1 / under, -over / under**2])
        return np.array(rows)

    @property
    def _known_slopes(self) -> Floats:
        """The same of an estimate that has a variance."""
        assert self.slopes is not None  # noqa: S101 - see `has_variance`
        return self.slopes

    @property
    def columns(self) -> list[int]:
        """The columns of its parts."""
        return [part.column for part in self.parts]

    def design(self) -> Floats:
        """Shape (2, columns): the Jacobian of the value and of production's."""
        slopes = self._known_slopes
        jacobian = np.zeros((2, self.estimates.width))
        jacobian[0, self.columns] = slopes[0]
        jacobian[1, [self.estimates.production_column(part.metric) for part in self.parts]] = (
            slopes[1]
        )
        return jacobian

    @cached_property
    def hidden(self) -> Floats:
        """Shape (2, 2): the covariance of value and production that no record shows.

        Without what a candidate that is a sample adds, and without errors that candidates share.
        """
        shrunk = [self.estimates.of_shrinkage(self.stratum.number, c) for c in self.columns]
        return self.of_small_cells + np.diag([self.joined(shrunk), 0.0])

    @cached_property
    def of_small_cells(self) -> Floats:
        """Shape (2, 2): the part of `hidden` that small cells hide."""
        s, slopes = self.stratum.number, self._known_slopes
        cells = [self.estimates.of_small_cells(s, column) for column in self.columns]
        if len(cells) == 1:
            return cells[0]
        both = self._correlation() * root_of(cells[0]) @ root_of(cells[1])
        design = np.zeros((2, 4))
        design[0, [0, 2]], design[1, [1, 3]] = slopes
        return np.asarray(design @ np.block([[cells[0], both], [both.T, cells[1]]]) @ design.T)

    def joined(self, variances: Sequence[float]) -> float:
        """The variance of the value by those of its parts, correlated as records show."""
        if len(variances) == 1:
            return variances[0]
        shared = self._correlation() * math.sqrt(variances[0] * variances[1])
        slopes, both = self._known_slopes[0], [[variances[0], shared], [shared, variances[1]]]
        return float(slopes @ np.array(both) @ slopes)

    def _correlation(self) -> float:
        """The correlation of the two parts of a ratio, as records show it."""
        both = self.estimates.shown(self.stratum.number, np.eye(self.estimates.width)[self.columns])
        one, other = (max(float(variance), 0.0) for variance in np.diag(both))
        scale = math.sqrt(one * other)
        return float(both[0, 1]) / scale if scale > 0 else 0.0

    @cached_property
    def sampling_variance(self) -> float:
        """The variance of its own sample, if it is one, which it shares with no other."""
        own = [self.estimates.of_sample(self.stratum.number, column) for column in self.columns]
        return self.joined(own) if any(own) else 0.0

    @cached_property
    def shared_errors(self) -> SharedErrors:
        """How far errors that all contexts share put it off."""
        s, errors = self.stratum.number, SharedErrors()
        for slope, column in zip(self._known_slopes[0].tolist(), self.columns, strict=True):
            errors += slope * self.estimates.shared_errors(s, column)
        return errors

    @cached_property
    def sampled(self) -> float:
        """The variance that its sample adds, if it is one, to what shrinkage hides."""
        if len(self.parts) == 1 or not self.sampling_variance:
            return self.sampling_variance
        # What a part hides and what its sample adds are one error, correlated as records show.
        s = self.stratum.number
        shrunk = [self.estimates.of_shrinkage(s, column) for column in self.columns]
        own = [self.estimates.of_sample(s, column) for column in self.columns]
        return self.joined(np.add(shrunk, own).tolist()) - self.joined(shrunk)

    @cached_property
    def covariance(self) -> Floats:
        """Shape (2, 2): of the value and of production's."""
        own = self.sampled + self.shared_errors.covariance(self.shared_errors)
        shown = self.estimates.shown(self.stratum.number, self.design())
        return np.asarray(shown + self.hidden + np.diag([own, 0.0]))

    def memory(self) -> tuple[float, float]:
        """What the value varies besides if neighbouring periods vary together, and its freedom."""
        return self.estimates.memory(self.stratum.number, self.design()[0])


def _of_difference(hidden: Floats) -> float:
    """The variance that value − production hides."""
    return float(hidden[0, 0] - 2 * hidden[0, 1] + hidden[1, 1])


class Estimates(Covariance):
    """All estimates of a question, with one covariance.

    Args:
        question: what was asked.
        shape: the columns of the log.
        strata: the parts of the answer.
        found: sums over the log.
        fits: summaries of the fits of click rates.
    """

    def __init__(
        self,
        question: Question,
        shape: Shape,
        strata: Strata,
        found: LogSums,
        fits: Sequence[FitSummary] = (),
    ) -> None:
        super().__init__(question, found)
        self.shape, self.strata, self.fits = shape, strata, fits
        self._place = {
            target: (g, a)
            for g, targets in enumerate(question.groups)
            for a, target in enumerate(targets)
        }
        self._refuse_missing()

    def production_column(self, metric: Metric) -> int:
        """The column of production's mean of a metric."""
        return self.question.parts.index(metric)

    def ignored_contexts(self, candidate: int) -> int:
        """How many contexts only the candidate has; 0 if those of the log are not all known."""
        if self.shape.drawn:
            return 0
        return self.question.candidates[candidate].context_count() - int(
            self.found.shared[candidate]
        )

    # --- estimates --------------------------------------------------------------------------------

    def of_candidate(self, candidate: int = 0, *, whole: bool = False) -> list[Estimate]:
        """By estimator, metric, clip and part, in the order they were asked; or of the whole."""
        q = self.question
        strata = self.strata_of(candidate)
        if self.strata.split:
            strata = strata[-1:] if whole else strata[:-1]
        estimates = []
        for e, estimator in enumerate(q.estimators):
            for metric in q.metrics:
                for m, clip in enumerate(estimator.clip or (math.inf,)):
                    targets = [q.targets_of(e, part)[m] for part in metric.parts]
                    for s in strata:
                        parts = tuple(self._sums(target, candidate, s) for target in targets)
                        estimates.append(Estimate(self, candidate, metric, clip, parts))
        return estimates

    def strata_of(self, candidate: int) -> list[Stratum]:
        """The parts of the answer that have any records."""
        used = self.question.missing == "production"
        strata = []
        for s in range(self.strata.count):
            whole, unlisted = self.found.all.of_part(s), self.found.absent[candidate]
            absent = whole - whole if unlisted is None else unlisted.of_part(s)
            known = whole - absent if self.question.missing != "drop" else whole
            if whole.contexts + absent.contexts > 0:
                strata.append(Stratum(self.strata.segment(s), s, known, absent, used))
        return strata

    def _sums(self, target: Target, candidate: int, stratum: Stratum) -> ColumnSums:
        """Sums over cells for one column."""
        (g, a), s = self._place[target], stratum.number
        group, at, rungs, repeated = self.found.groups[g], a * self.count + candidate, None, None
        if target.ladder is not None and group.rungs is not None:
            shares = group.rungs[s, :, at].tolist()
            rungs = dict(zip(target.ladder.rungs, shares, strict=True))
        if group.repeated is not None:
            covered, often = group.repeated[s, :, at].tolist()
            repeated = often / covered if covered else None
        exposed = stratum.known.exposure(target)
        if target.model in group.filled:
            exposed = along(target.theta, group.filled[target.model][s])
        if stratum.used:
            exposed += stratum.unknown.exposure(target)
        return ColumnSums(
            target=target,
            stratum=stratum,
            column=int(self._starts[g]) + at,
            credit=float(group.value[s, at]),
            exposure=exposed,
            coverage=self._coverage(target, candidate, stratum),
            rungs=rungs,
            repeated=repeated,
            least_covered=group.least_covered[a].contexts if group.least_covered else (),
        )

    def _coverage(self, target: Target, candidate: int, stratum: Stratum) -> Coverage[float]:
        """Of a column, with the contexts in which the candidate shows what production did.

        Their weights are 1 and their exposure is their own, whatever the clip.
        """
        (g, a), s = self._place[target], stratum.number
        found = self.found.groups[g].coverage.of_column(s, a * self.count + candidate)
        if target.ladder is not None:
            found = replace(found, squared=found.squared * _even(stratum.known, target))
        if target.logging == "propensity":
            found = replace(found, largest=math.inf)
        if stratum.used:
            whole = stratum.unknown.exposure(target, at_risk=False)
            risk = stratum.unknown.exposure(target)
            found += Coverage(whole, whole, risk, risk)
        doubtful = isinstance(target.logging, Policy) or not target.model.sees_items
        if doubtful and not target.metric.shown:  # which is known without a log
            # Where no item of the candidate was ever shown, nothing of it is covered.
            visible = self.found.visible.get(target.metric.depth)
            if visible is None or not visible[s, candidate]:
                found = replace(found, covered=0.0)
        return found

    def joint(self, estimates: Sequence[Estimate], *, production: bool = False) -> Floats:
        """Shape (Q, Q): the covariance of Q estimates; or (Q + 1, Q + 1), with production last.

        With production, only differences are asked of it, so what production hides stands with the
        candidates. Estimates that are equal to the last bit are one, whatever eigenvalues are cut.
        """
        s = estimates[0].stratum.number
        designs = [each.design() for each in estimates]
        rows, covariance = self._rows(s)
        numbers: dict[bytes, int] = {}
        keys = [
            b"".join((each.error @ d[0]).tobytes() for each in rows)
            if covariance is None
            else (covariance @ d[0]).tobytes()
            for d in designs
        ]
        number = [numbers.setdefault(key, len(numbers)) for key in keys]
        first = [number.index(i) for i in range(len(numbers))]
        whose = [*number, *([len(first)] if production else [])]
        questions = [designs[i][0] for i in first] + ([designs[0][1]] if production else [])
        shown = self.paired if production else self.shown
        joint = shown(s, np.stack(questions))[np.ix_(whose, whose)]
        correlation = joint / np.sqrt(np.maximum(np.outer(np.diag(joint), np.diag(joint)), _LEAST))
        for i, one in enumerate(estimates):
            for j, two in enumerate(estimates[: i + 1]):
                more = self._hidden_pair(one, two, float(correlation[i, j]), production=production)
                more += one.shared_errors.covariance(two.shared_errors)
                joint[i, j] += more + (one.sampling_variance if i == j else 0.0)
                joint[j, i] = joint[i, j]
        return joint

    def _hidden_pair(
        self, one: Estimate, two: Estimate, correlation: float, *, production: bool
    ) -> float:
        """The covariance that two estimates hide, or that their differences with production do."""
        own, other = (
            _of_difference(each.hidden) if production else float(each.hidden[0, 0])
            for each in (one, two)
        )
        if one is two:
            return own
        scale = math.sqrt(max(own, 0.0) * max(other, 0.0))
        if one.parts[0].target != two.parts[0].target:  # correlated as records show
            return min(max(correlation, -1.0), 1.0) * scale
        s, (a, b) = one.stratum.number, (one.columns[0], two.columns[0])
        first, second, both = (
            float(self.of_small_cells(s, i, j)[0, 0]) + self.of_shrinkage(s, i, j)
            for i, j in ((a, a), (b, b), (a, b))
        )
        if len(one.parts) > 1:  # correlated as their numerators
            correlation = both / math.sqrt(first * second) if first * second > 0 else 0.0
            correlation = min(max(correlation, -1.0), 1.0)
            first, second = (max(float(each.hidden[0, 0]), 0.0) for each in (one, two))
            both = correlation * math.sqrt(first * second)
        # Their own difference hides mine + theirs − 2 both, whatever production hides.
        apart = first + second - 2 * both
        return (own + other - (max(apart, 0.0) if self.partial(s) else apart)) / 2

    # --- refusals ---------------------------------------------------------------------------------

    def _refuse_missing(self) -> None:
        """A context without a list is an error, unless the user says what to do with it."""
        _complain(self.found.unlogged, "the logging policy has no list for")
        for c, (absent, items) in enumerate(
            zip(self.found.unlisted, self.found.items, strict=True)
        ):
            known = sum(s.known.contexts for s in self.strata_of(c))
            if not known and absent.count:
                theirs = self.question.candidates[c].first_contexts()
                raise PolicyError(
                    "the candidate has no list for any context of the log: the log has "
                    f"{examples(absent.examples)}, the candidate {examples(theirs)}. Write them "
                    "alike; '7', '07' and '7 ' are different texts."
                )
            if items.candidate and items.log.isdisjoint(items.candidate):
                ours, theirs = sorted(items.log)[:3], self.question.candidates[c].first_items()
                mixed = isinstance(ours[0], str) != isinstance(theirs[0], str)
                raise PolicyError(
                    f"the candidate shows no item of the log: the log has {examples(ours)}, the "
                    f"candidate {examples(theirs)}. "
                    + ("Text against integers is the likely cause. " * mixed)
                    + "Write them alike, as ids of the same things."
                )
            if self.question.missing == "error":
                _complain(
                    absent,
                    "the candidate has no list for",
                    " Say what they should count as: missing='production' (as they are today) or "
                    "missing='drop' (leave them out of everything).",
                )


def _even(known: RecordSums, target: Target) -> float:
    """The factor by which weights are as if all positions counted the same.

    Then production's effective sample size is its number of records.
    """
    size = min(len(target.metric.theta), len(known.shown))
    t, n = np.array(target.metric.theta[:size]), known.shown[:size]
    return float(t @ n) / float((t * t) @ n) if (t * t) @ n else 0.0


def _complain(absent: Absent, what: str, remedy: str = "") -> None:
    if absent.count:
        raise PolicyError(
            f"{what} {number_of(absent.count, 'context')} of the log, for example "
            f"{', '.join(map(repr, absent.examples))}.{remedy}"
        )
