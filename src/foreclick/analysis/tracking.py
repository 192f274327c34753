"""An evaluation as a flat dict, for trackers of experiments such as MLflow and W&B."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from foreclick.results import Value

COLUMNS = (
    *("value", "se", "low", "high", "production", "change", "change_low", "change_high"),
    *("lift", "lift_low", "lift_high", "covered", "ess", "records"),
)
"""What is worth tracking."""


def flat_metrics(
    rows: Sequence[Mapping[str, Value]], answering: str, by: Sequence[str]
) -> dict[str, float]:
    """Numbers by a key that says what they are; those that do not exist are left out.

    Args:
        rows: of an evaluation.
        answering: the estimator that need not be named.
        by: the segments that they are split by.
    """
    clips = {row["clip"] for row in rows}
    found = {}
    for row in rows:
        parts = [str(row["metric"]).replace("@", "_at_").replace("/", "_per_")]
        parts += [] if row["estimator"] == answering else [str(row["estimator"])]
        parts += [f"clip_{row['clip']:g}"] if len(clips) > 1 else []
        parts += [f"{name}_{row[name]}" for name in by]
        key = "/".join(_legal(part) for part in parts)
        for column in COLUMNS:
            number = row.get(column)
            if isinstance(number, int | float) and math.isfinite(number):
                found[f"{key}/{column}"] = float(number)
    return found


def _legal(text: str) -> str:
    """Text with the characters that every tracker takes: of others MLflow refuses the key."""
    return re.sub(r"[^\w .-]", "_", text)
