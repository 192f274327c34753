"""Estimators: one kernel on arrays, and the values that say how it is used."""

from foreclick.estimators.answer import Estimate, estimate
from foreclick.estimators.ladder.spec import Ladder
from foreclick.estimators.paired import pair_up
from foreclick.estimators.question import (
    Clusters,
    Missing,
    Question,
    Stratum,
    check_columns,
    check_metrics,
    propensities_answer,
)
from foreclick.estimators.ratios import AnySums, RatioSums
from foreclick.estimators.spec import EstimatorLike, Weighted, clips, parse_estimators
from foreclick.estimators.spread import Spread, between, joint_covariance
from foreclick.estimators.sums import Caps, Seen, Sums, Unseen
from foreclick.estimators.variance import ENOUGH_PERIODS

__all__ = [
    "ENOUGH_PERIODS",
    "AnySums",
    "Caps",
    "Clusters",
    "Estimate",
    "EstimatorLike",
    "Ladder",
    "Missing",
    "Question",
    "RatioSums",
    "Seen",
    "Spread",
    "Stratum",
    "Sums",
    "Unseen",
    "Weighted",
    "between",
    "check_columns",
    "check_metrics",
    "clips",
    "estimate",
    "joint_covariance",
    "pair_up",
    "parse_estimators",
    "propensities_answer",
]
