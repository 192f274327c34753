"""Moved to `estimators.ladder.spec`."""

from foreclick.estimators.ladder.spec import LADDERS, Fitted, Ladder, Top

__all__ = ["LADDERS", "Fitted", "Ladder", "Top"]
