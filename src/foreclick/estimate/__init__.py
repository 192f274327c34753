"""Estimates of what candidates are worth, from a tally, each with its errors."""
