"""Coefficients: β and the examination p that solve the score of a log.

**A candidate was trained on earlier records.** Then all is learnt from later ones. What earlier
records say of a pair, log α̂, is one more feature with a coefficient of its own, and what they say
of p is known beforehand.
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
from foreclick.batches import Floats
from foreclick.estimation.fits import FitReport
from foreclick.ladder.features import expected_rates
from foreclick.ladder.pairs import Pairs
from foreclick.ladder.rates import RateParameters
from foreclick.policies.base import PolicyTable

ROUNDS = 60
"""Newton's steps that a fit may take: one that needs more has not converged."""

_PATIENCE = 20
"""Steps by the slope that clicks have on average; where few clicks decide, it converges slowly."""

_LONGEST = 0.5  # step of a coefficient
_SAME = 1e-11


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients that solve a score.

    Attributes:
        parameters: β and p, with the strengths that they were found with.
        slope: Shape (N, N): J, by how much the score falls with β and log p.
        known: Shape (N,): the precision of what was known of them beforehand; 0 of what is given.
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
    """What records before the log say.

    Attributes:
        rates: pairs by the values of context and item, with log α̂ above its mean.
        log_p: Shape (K − 1,): log p of positions below the first; `precision`: its precision.
    """

    rates: PolicyTable
    log_p: Floats
    precision: Floats


def solve(
    parts: Sequence[Pairs],
    start: RateParameters,
    *,
    given: bool,
    close: float = 1e-11,
    slope_there: Floats | None = None,
    earlier: Earlier | None = None,
) -> Solution:
    """β and p that solve the score.

    Args:
        parts: the pairs of each batch.
        start: where to start.
        given: whether p is given.
        close: a step so small ends the search; J is of its start unless this is the last word.
        slope_there: J near the start, if it is known.
        earlier: what earlier records say of p.
    """
    at, f, k = start, len(start.beta), len(start.p)
    usual, precision = -0.7 * np.log(np.arange(2, k + 1)), np.full(k - 1, EXAMINATION_PRECISION)
    if earlier is not None:
        usual, precision = earlier.log_p, earlier.precision
    known = np.append(np.full(f, COEFFICIENT_PRECISION), precision)
    known[0] = INTERCEPT_PRECISION
    free = np.ones(f + k - 1, dtype=np.bool_)
    free[f:] = not given

    def slope_at(at: RateParameters) -> Floats:
        return np.asarray(sum(part.jacobian(at) for part in parts) + np.diag(known))

    def score_at(at: RateParameters) -> Floats:
        prior = np.append(-at.beta, usual - np.log(at.p[1:])) * known
        return np.asarray(sum(part.score(at) for part in parts) + prior)

    slope = slope_at(at) if slope_there is None else slope_there
    before, size, iterations = np.inf, np.inf, 0
    score = score_at(at)
    while iterations < ROUNDS and not size < close:
        iterations += 1
        step = np.zeros(f + k - 1)
        step[free] = np.linalg.solve(slope[np.ix_(free, free)], score[free])
        longest = float(np.abs(step).max(initial=0))
        moved, last = at.moved(step * min(1.0, _LONGEST / max(longest, 1e-300))), score
        # What it moved: an intercept at its bound stays there, and moves no rate.
        step = np.append(moved.beta - at.beta, np.log(moved.p[1:] / at.p[1:]))
        size = float(np.abs(step).max(initial=0))
        at, score = moved, score_at(moved)
        if iterations > _PATIENCE:  # Broyden (1965): what the step has shown of the slope
            missed = last - score - slope @ step
            slope = slope + np.outer(missed, step) / max(float(step @ step), 1e-300)
        elif size >= close and (size > 0.5 * before or size > _LONGEST / 5):
            slope = slope_at(at)
        before = size
    if close <= _SAME:
        slope = slope_at(at)
    slope[~free], slope[:, ~free] = 0.0, 0.0
    slope[~free, ~free] = 1.0
    converged = size < close and all(part.rates(at).settled for part in parts)
    report = FitReport.of(iterations, score * free, slope, converged=converged)
    return Solution(at, slope, np.where(free, known, 0.0), report)


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
        of_part.append((x, part.clicks, part.rates(parameters).exposure))
    coefficients = np.array([parameters.beta[0], 0.0, 0.0])
    known = np.array([INTERCEPT_PRECISION, COEFFICIENT_PRECISION, COEFFICIENT_PRECISION])
    size, iterations = np.inf, 0
    while iterations < ROUNDS and not size < _SAME:
        iterations += 1
        score, slope = -known * coefficients, np.diag(known)
        for x, clicks, exposure in of_part:
            mean = exposure * expected_rates(x, coefficients)
            weight = 1 / (1 + mean / parameters.a)
            score += (weight * (clicks - mean)) @ x
            slope += (x * (weight**2 * mean * (1 + clicks / parameters.a))[:, None]).T @ x
        step = np.clip(np.linalg.solve(slope, score), -1, 1)
        coefficients = coefficients + step
        size = float(np.abs(step).max())
    report = FitReport.of(iterations, score, slope, converged=size < _SAME)
    return CandidateOnly(coefficients, report)
