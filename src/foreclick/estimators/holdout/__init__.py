"""Holding out: each period of a log predicted from the others, by any estimator."""

from foreclick.estimators.holdout.protocol import FoldErrors, Folds, Noise, Protocol, fold_errors

__all__ = ["FoldErrors", "Folds", "Noise", "Protocol", "fold_errors"]
