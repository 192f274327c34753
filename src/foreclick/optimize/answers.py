"""The columns of counts and of answers, and the words in them. Light: everybody imports it."""

from __future__ import annotations

import pyarrow as pa

from foreclick.logs import CONTEXT, ITEM, numbered

FOLD, CREDIT, OFFERED = "__fold", "c", "offered"
PROBABILITY = "probability"

ALL = -1
"""The fold of what was learnt from all records."""

NOBODY = -1
"""Marks a position that no item takes."""

CHANGED, UNSURE, IMPOSSIBLE = "changed", "nothing sure", "not possible"
"""Why a context has the policy that it has: a new one, or production's."""

_NUMBERS = ("records", "production", "naive", "sure", "se", "se_next")


def schema(counted: pa.Schema, depth: int) -> pa.Schema:
    """The columns of an answer, from those of the counts."""
    item = ITEM if ITEM in counted.names else f"{ITEM}_1"
    return pa.schema(
        [
            (CONTEXT, counted.field(CONTEXT).type),
            (FOLD, pa.int64()),
            *((name, counted.field(item).type) for name in numbered(ITEM, depth)),
            (PROBABILITY, pa.float64()),
            ("why", pa.string()),
            *((name, pa.float64()) for name in _NUMBERS),
        ]
    )
