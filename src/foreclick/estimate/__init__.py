"""Estimates of what a log says: examination, and what else is learnt from clicks."""
