"""Experiments on public data, and notes on what was measured: beside the package, not installed."""
