"""Estimators: one kernel, and the values that say how it is used."""

from foreclick.estimators.climb import climbed, fitted
from foreclick.estimators.examined import Examined, examine
from foreclick.estimators.folds import FoldErrors, Folds, Protocol, fold_errors
from foreclick.estimators.influence import Spread, clustered, together
from foreclick.estimators.kernel import Estimate, Sums, estimate
from foreclick.estimators.ladder import Ladder
from foreclick.estimators.prepared import order_of, segments_of
from foreclick.estimators.question import (
    Clusters,
    Missing,
    Question,
    Stratum,
    check_columns,
    propensities_answer,
)
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
    "Ladder",
    "Missing",
    "Protocol",
    "Question",
    "Sight",
    "Spread",
    "Stratum",
    "Sums",
    "Weighted",
    "check_columns",
    "climbed",
    "clips",
    "clustered",
    "estimate",
    "examine",
    "fitted",
    "fold_errors",
    "order_of",
    "parse_estimators",
    "propensities_answer",
    "segments_of",
    "together",
]
