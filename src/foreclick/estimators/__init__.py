"""Estimators: one kernel, and the values that say how it is used."""

from foreclick.estimators.kernel import Estimate, Sums, estimate
from foreclick.estimators.question import Missing, Question, Stratum, propensities_answer
from foreclick.estimators.weighted import Weighted, clips, parse_estimators

__all__ = [
    "Estimate",
    "Missing",
    "Question",
    "Stratum",
    "Sums",
    "Weighted",
    "clips",
    "estimate",
    "parse_estimators",
    "propensities_answer",
]
