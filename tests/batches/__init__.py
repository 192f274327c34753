"""Tests of a tally as arrays."""
