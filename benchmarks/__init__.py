"""Measurements. A package, because old releases of PyArrow install one of the same name."""
