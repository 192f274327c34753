"""Moved to `estimators.spec`."""

from foreclick.estimators.spec import Weighted, clips, parse_estimators

__all__ = ["Weighted", "clips", "parse_estimators"]
