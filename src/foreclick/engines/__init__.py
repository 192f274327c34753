"""Engines: where tables live and expressions are executed. Only this room knows a vendor."""

from foreclick.engines.base import (
    BUCKETS,
    HASHES,
    Engine,
    absent,
    checked_file,
    force,
    hashed_here,
    real,
    sweep_partial,
    total,
    unordered,
    whole,
    write_rows,
    zero,
)
from foreclick.engines.duckdb import default_engine, laptop
from foreclick.engines.sources import (
    bring,
    engine_of,
    files_of,
    filter_by,
    open_source,
    read_schemas,
)

__all__ = [
    "BUCKETS",
    "HASHES",
    "Engine",
    "absent",
    "bring",
    "checked_file",
    "default_engine",
    "engine_of",
    "files_of",
    "filter_by",
    "force",
    "hashed_here",
    "laptop",
    "open_source",
    "read_schemas",
    "real",
    "sweep_partial",
    "total",
    "unordered",
    "whole",
    "write_rows",
    "zero",
]
