"""The kernel and the estimators as values."""
