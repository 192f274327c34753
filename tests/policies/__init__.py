"""What a policy shows."""

from __future__ import annotations

from typing import Any

import foreclick as fc


def shown_by(policy: Any) -> dict[Any, list[Any]]:  # noqa: ANN401 - lists, or slots of one list
    """The one list of each context."""
    if isinstance(policy, fc.Marginals):
        found: dict[Any, list[Any]] = {}
        for row in policy._slots.to_pyarrow().sort_by("place").to_pylist():
            found.setdefault(row["context"], []).append(row["item_1"])
        return found
    rows = policy._rows
    return {
        row["context"]: [row[c] for c in rows.shape.items if row[c] is not None]
        for row in rows.stored.to_pylist()
    }
