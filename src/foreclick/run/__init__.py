"""Runs over a log: one pass that answers a question, and held-out periods."""
