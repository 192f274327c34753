"""Estimators: one kernel, and the values that say how it is used."""

from foreclick.estimators.examined import Examined, examined
from foreclick.estimators.folds import FoldErrors, Folds, Protocol, fold_errors
from foreclick.estimators.influence import Spread, together
from foreclick.estimators.kernel import Estimate, Sums, estimate
from foreclick.estimators.question import Clusters, Missing, Question, Stratum, propensities_answer
from foreclick.estimators.repeated import ENOUGH_PERIODS
from foreclick.estimators.sight import Sight
from foreclick.estimators.weighted import Weighted, clips, parse_estimators

__all__ = [
    "ENOUGH_PERIODS",
    "Clusters",
    "Estimate",
    "Examined",
    "FoldErrors",
    "Folds",
    "Missing",
    "Protocol",
    "Question",
    "Sight",
    "Spread",
    "Stratum",
    "Sums",
    "Weighted",
    "clips",
    "estimate",
    "examined",
    "fold_errors",
    "parse_estimators",
    "propensities_answer",
    "together",
]
