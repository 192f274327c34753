"""The paper's experiments and readers of public data sets: beside the package, not installed."""
