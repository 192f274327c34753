"""Estimators: one kernel, and the values that say how it is used."""

from foreclick.sqlkernel.climb import climbed, fitted
from foreclick.sqlkernel.examined import Examined, examine
from foreclick.sqlkernel.folds import FoldErrors, Folds, Protocol, fold_errors
from foreclick.sqlkernel.influence import Spread, clustered, together
from foreclick.sqlkernel.kernel import Estimate, Sums, estimate
from foreclick.sqlkernel.ladder import Ladder
from foreclick.sqlkernel.prepared import order_of, segments_of
from foreclick.sqlkernel.question import (
    Clusters,
    Missing,
    Question,
    Stratum,
    check_columns,
    propensities_answer,
)
from foreclick.sqlkernel.repeated import ENOUGH_PERIODS
from foreclick.sqlkernel.sight import Sight
from foreclick.sqlkernel.weighted import Weighted, clips, parse_estimators

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
