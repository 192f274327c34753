"""Policies that maximise an estimate, beside the linear program of the paper."""
