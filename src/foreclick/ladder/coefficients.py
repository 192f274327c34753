"""Coefficients: β and the examination p that solve the score of a log.

**A candidate was trained on earlier records.** Then all is learnt from later ones. The earlier
rate of a pair, log α̂, is one more feature with a coefficient of its own, and the earlier p is the
prior mean of p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from foreclick.allowances import (
    COEFFICIENT_PRECISION,
    EXAMINATION_PRECISION,
    INTERCEPT_PRECISION,
)
from foreclick.batches import Bools, Floats
from foreclick.estimation.fits import FitReport
from foreclick.ladder.features import expected_rates
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rates import RateParameters
from foreclick.policies.base import PolicyTable

ROUNDS = 60
"""Newton's steps that a fit may take: one that needs more has not converged."""

_PATIENCE = 20
"""Steps by the expected slope; with few clicks, these converge slowly, and Broyden's take over."""

_LONGEST = 0.5  # step of a coefficient
_SAME = 1e-11


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients that solve a score.

    Attributes:
        parameters: β and p, with the strengths that they were found with.
        slope: Shape (N, N): J, by how much the score falls with β and log p.
        known: Shape (N,): the precision of their prior; 0 of what is given.
        report: how the search ended.
    """

    parameters: RateParameters
    slope: Floats
    known: Floats
    report: FitReport

    @cached_property
    def inverse(self) -> Floats:
        """Shape (N, N): J⁻¹; what is given, or what records do not tell apart, they do not move."""
        scale = (self.known > 0) / np.sqrt(np.maximum(np.abs(np.diag(self.slope)), 1e-300))
        both = np.outer(scale, scale)
        return np.asarray(np.linalg.pinv(self.slope * both) * both)


class Earlier(NamedTuple):
    """Estimates from records before the log.

    Attributes:
        rates: pairs by the values of context and item, with log α̂ above its mean.
        log_p: Shape (K − 1,): log p of positions below the first; `precision`: its precision.
    """

    rates: PolicyTable
    log_p: Floats
    precision: Floats


class _Equations(NamedTuple):
    """The score of all batches, with a normal prior of β and log p.

    Attributes:
        parts: the pairs of each batch.
        mean: Shape (N,): of the prior; `precision`: Shape (N,): its precision.
        free: Shape (N,): which of them are solved for; the others are given.
    """

    parts: Sequence[Pairs]
    mean: Floats
    precision: Floats
    free: Bools

    @classmethod
    def of(
        cls, parts: Sequence[Pairs], start: RateParameters, earlier: Earlier | None, *, given: bool
    ) -> _Equations:
        """Those of pairs with as many coefficients and positions as the start."""
        f, k = len(start.beta), len(start.p)
        log_p, of_log_p = -0.7 * np.log(np.arange(2, k + 1)), np.full(k - 1, EXAMINATION_PRECISION)
        if earlier is not None:
            log_p, of_log_p = earlier.log_p, earlier.precision
        precision = np.append(np.full(f, COEFFICIENT_PRECISION), of_log_p)
        precision[0] = INTERCEPT_PRECISION
        free = np.ones(f + k - 1, dtype=np.bool_)
        free[f:] = not given
        return cls(parts, np.append(np.zeros(f), log_p), precision, free)

    def score(self, at: RateParameters) -> Floats:
        """Shape (N,): the derivative of the logarithm of the posterior, which is to be 0."""
        prior = (self.mean - np.append(at.beta, np.log(at.p[1:]))) * self.precision
        return np.asarray(sum(part.score(at) for part in self.parts) + prior)

    def slope(self, at: RateParameters) -> Floats:
        """Shape (N, N): J, by how much the score falls with β and log p."""
        return np.asarray(sum(part.jacobian(at) for part in self.parts) + np.diag(self.precision))

    def step(self, slope: Floats, score: Floats) -> Floats:
        """Shape (N,): Newton's step, no coefficient's longer than `_LONGEST`."""
        step, free = np.zeros(len(score)), self.free
        step[free] = np.linalg.solve(slope[np.ix_(free, free)], score[free])
        longest = float(np.abs(step).max(initial=0))
        return step * min(1.0, _LONGEST / max(longest, 1e-300))


def solve(
    parts: Sequence[Pairs],
    start: RateParameters,
    *,
    given: bool,
    close: float = 1e-11,
    slope_there: Floats | None = None,
    earlier: Earlier | None = None,
) -> Solution:
    """β and p that solve the score, by Newton's steps; J is found anew where they shrink slowly.

    Args:
        parts: the pairs of each batch.
        start: where to start.
        given: whether p is given.
        close: a step so small ends the search; above 1e-11, J is not found anew at its end.
        slope_there: J near the start, if it is known.
        earlier: estimates from earlier records, with a prior of p.
    """
    equations, at = _Equations.of(parts, start, earlier, given=given), start
    slope = equations.slope(at) if slope_there is None else slope_there
    before, size, iterations = np.inf, np.inf, 0
    score = equations.score(at)
    while iterations < ROUNDS and not size < close:
        iterations += 1
        moved, last = at.moved(equations.step(slope, score)), score
        # What it moved: an intercept at its bound stays there, and moves no rate.
        step = np.append(moved.beta - at.beta, np.log(moved.p[1:] / at.p[1:]))
        size = float(np.abs(step).max(initial=0))
        at, score = moved, equations.score(moved)
        if iterations > _PATIENCE:  # Broyden (1965): the slope along the step, by the two scores
            missed = last - score - slope @ step
            slope = slope + np.outer(missed, step) / max(float(step @ step), 1e-300)
        elif size >= close and (size > 0.5 * before or size > _LONGEST / 5):
            slope = equations.slope(at)
        before = size
    if close <= _SAME:
        slope = equations.slope(at)
    free = equations.free
    slope[~free], slope[:, ~free] = 0.0, 0.0
    slope[~free, ~free] = 1.0
    converged = size < close and all(part.rates(at).settled for part in parts)
    report = FitReport.of(iterations, score * free, slope, converged=converged)
    # At a bound of the intercept no step moves a rate, though the score may be far from 0.
    report = report._replace(converged=converged and report.score < 1)
    return Solution(at, slope, np.where(free, equations.precision, 0.0), report)


def column_z(parts: Sequence[Pairs], at: RateParameters, column: int, *, given: bool) -> float:
    """The z of a coefficient of 0: Newton's step from there, over its standard error by contexts.

    Args:
        parts: the pairs of each batch.
        at: β and p that solve the score without the column.
        column: its number.
        given: whether p is given.
    """
    equations = _Equations.of(parts, at, None, given=given)
    free = equations.free
    unit = (np.arange(len(free)) == column)[free].astype(np.float64)
    row = np.linalg.solve(equations.slope(at)[np.ix_(free, free)].T, unit)
    spread = np.asarray(sum(part.score_covariance(at) for part in parts))[np.ix_(free, free)]
    return float(row @ equations.score(at)[free]) / float(np.sqrt(row @ spread @ row + 1e-300))


class CandidateOnly(NamedTuple):
    """Clicks regressed on the rank features of one candidate alone.

    Attributes:
        coefficients: Shape (3,): of 1, share and height.
        report: how the fit ended.
    """

    coefficients: Floats
    report: FitReport


def solve_candidate_only(
    parts: Sequence[Pairs], parameters: RateParameters, features: Sequence[Floats]
) -> CandidateOnly:
    """The regression of clicks on the features of one candidate alone.

    Args:
        parts: the pairs of each batch.
        parameters: by which they are exposed, and where the search starts.
        features: Shape (P, 2) by batch: of the candidate.
    """
    of_part = []
    for part, own in zip(parts, features, strict=True):
        x = np.column_stack([np.ones(len(own)), own])
        of_part.append((x, part.clicks, part.rates(parameters).exposure, part.weight))
    coefficients = np.array([parameters.beta[0], 0.0, 0.0])
    known = np.array([INTERCEPT_PRECISION, COEFFICIENT_PRECISION, COEFFICIENT_PRECISION])
    size, iterations = np.inf, 0
    while iterations < ROUNDS and not size < _SAME:
        iterations += 1
        score, slope = -known * coefficients, np.diag(known)
        for x, clicks, exposure, drawn in of_part:
            mean = exposure * expected_rates(x, coefficients)
            weight = 1 / (1 + mean / parameters.a)
            score += (drawn * weight * (clicks - mean)) @ x
            spread = drawn * weight**2 * mean * (1 + clicks / parameters.a)
            slope += (x * spread[:, None]).T @ x
        step = np.clip(np.linalg.solve(slope, score), -1, 1)
        coefficients = coefficients + step
        size = float(np.abs(step).max())
    report = FitReport.of(iterations, score, slope, converged=size < _SAME)
    return CandidateOnly(coefficients, report)
