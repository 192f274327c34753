"""Tests of the solvers of one context."""
