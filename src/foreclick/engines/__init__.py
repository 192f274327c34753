"""Engines: where tables live and expressions are executed. Only this room knows a vendor."""

from foreclick.engines.base import (
    BUCKETS,
    Engine,
    absent,
    force,
    real,
    total,
    unordered,
    whole,
    zero,
)
from foreclick.engines.duckdb import laptop
from foreclick.engines.sources import bring, engine_of, filter_by, open_source, read_metadata

__all__ = [
    "BUCKETS",
    "Engine",
    "absent",
    "bring",
    "engine_of",
    "filter_by",
    "force",
    "laptop",
    "open_source",
    "read_metadata",
    "real",
    "total",
    "unordered",
    "whole",
    "zero",
]
