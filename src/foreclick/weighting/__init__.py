"""Weighting: the estimators of the paper."""
