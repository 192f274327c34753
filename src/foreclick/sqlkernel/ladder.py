"""The value `Ladder`, which lives with the estimators on arrays."""

from __future__ import annotations

from foreclick.estimators.ladder.spec import LADDERS, Fitted, Ladder, Top

__all__ = ["LADDERS", "Fitted", "Ladder", "Top"]
