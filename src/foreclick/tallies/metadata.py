"""What a tally's file says of itself, checked: the file may be a stranger's, or damaged."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from foreclick.engines.kinds import REAL, TEXT, WHOLE, kind_of
from foreclick.errors import TallyError
from foreclick.logs import BUCKET, CONTEXT, DEEPEST, N, Shape
from foreclick.tallies.seal import DIGEST

KEY = b"foreclick"
SCHEMA_VERSION = 3
READABLE = (1, 2, 3)
"""Versions that are read. 1 had no masks, and its rows were in no order; 2 had no digest."""

_REMEDY = "Tally the log again with this version."


def metadata_of(schema: pa.Schema) -> dict[str, Any] | None:
    """What a tally's file says of itself; None if it is the file of something else."""
    text = (schema.metadata or {}).get(KEY)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def checked_metadata(file: str, schema: pa.Schema) -> dict[str, Any]:
    """The same of a file that must be a tally, after a look at every value that is used."""
    meta = metadata_of(schema)
    if meta is None:
        raise TallyError(f"{file!r} is not a tally. Make one with fc.tally(log).write_parquet.")
    version = meta.get("version")
    if isinstance(version, int) and version not in READABLE:
        raise TallyError(
            f"{file!r} has the tally schema {version}, this foreclick reads "
            f"{READABLE[0]} to {READABLE[-1]}. {_REMEDY}"
        )
    wrong = _wrong_values(meta) or _wrong_columns(Shape.from_dict(meta["shape"]), schema)
    if wrong:
        raise TallyError(f"{file!r} is no tally that can be read: {wrong}. {_REMEDY}")
    return meta


def _wrong_values(meta: dict[str, Any]) -> str:
    """Which value is missing or cannot be."""
    sealed = meta.get("version") == SCHEMA_VERSION
    for name, rule in _RULES.items():
        if name not in meta and name not in _OPTIONAL and (sealed or name not in _SEALED):
            return f"its metadata has no {name!r}"
        if name in meta and not rule(meta[name]):
            return f"{name!r} in its metadata is {_short(meta[name])}"
    records = math.inf if meta.get("decayed") else meta.get("records", math.inf)
    if meta.get("inflation", 1) > max(records, 1):
        return f"'inflation' in its metadata is {meta['inflation']}, of {records} records"
    given = meta["shape"]
    for name, value in given.items():
        if name not in _SHAPE or not _SHAPE[name](value):
            return f"the shape in its metadata has {name!r}: {_short(value)}"
    return "" if "depth" in given else "the shape in its metadata has no 'depth'"


def _wrong_columns(shape: Shape, schema: pa.Schema) -> str:
    """Which column is missing, or holds something else than a tally's does."""
    if not set(shape.masks) <= set(shape.rewards):
        return f"'masks' in its metadata are {_short(shape.masks)}, which are no rewards"
    missing = [name for name in shape.stored if name not in schema.names]
    if missing:
        return f"it has no column {missing[0]!r}"
    ids = {CONTEXT, *shape.items}
    whole = {*shape.masks, *([BUCKET] if shape.unit else [])}
    rewards = {c for name in shape.rewards for c in shape.stored_reward(name)} - whole
    numbers = {N, *shape.propensities, *rewards}
    for names, fit, what in (
        (ids, (WHOLE, TEXT), "numbers or text"),
        (whole, (WHOLE,), "whole numbers"),
        (numbers, (WHOLE, REAL), "numbers"),
    ):
        for name in sorted(names):
            kind = schema.field(name).type
            if kind_of(kind) not in fit:
                return f"its column {name!r} holds {kind}, not {what}"
    return ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _number(value: object, most: float = math.inf) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < most


_RULES: dict[str, Callable[[Any], bool]] = {
    "version": _count,
    "shape": lambda v: isinstance(v, dict),
    "dropped": lambda v: isinstance(v, dict) and all(map(_count, v.values())),
    "dropped_rows": _count,
    "sorted": _flag,
    "periods": lambda v: v is None or _texts(v),
    "decayed": _flag,
    "inflation": lambda v: _number(v, _MOST),
    "names": lambda v: (
        isinstance(v, dict) and all(x is None or isinstance(x, str) for x in v.values())
    ),
    "notes": _texts,
    "rows": _count,
    "records": _number,
    DIGEST: lambda v: isinstance(v, str) and re.fullmatch(r"[0-9a-f]{32}", v) is not None,
}
_OPTIONAL = ("sorted", "periods", "decayed", "inflation", "names", "notes")
_SEALED = ("rows", "records", DIGEST)
_MOST = 1e12  # records for which a row may have been kept
_SHAPE: dict[str, Callable[[Any], bool]] = {
    "depth": lambda v: _count(v) and 1 <= v <= DEEPEST,
    "rewards": _texts,
    "segments": _texts,
    "period": _flag,
    "unit": _flag,
    "propensity": lambda v: v in (None, "list", "slot"),
    "masks": _texts,
}
"""What each key may be: of the metadata, and of the shape in it."""
