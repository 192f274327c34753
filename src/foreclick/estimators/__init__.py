"""Estimators: the kernel on arrays, and the values that say how it is used."""
