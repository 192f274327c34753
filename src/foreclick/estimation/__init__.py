"""Estimation: from what estimators give for a batch to sums, covariances and estimates."""
