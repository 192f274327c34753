"""Engines: where tables live and expressions are executed. Only this room knows a vendor."""

from foreclick.engines.base import BUCKETS, HASHES, Engine, hashed_here
from foreclick.engines.duckdb import default_engine, laptop
from foreclick.engines.files import (
    ScratchFile,
    checked_file,
    sweep_partial,
    whole_file,
    write_rows,
)
from foreclick.engines.sources import (
    TableLike,
    bring,
    engine_of,
    files_of,
    filter_by,
    flag_by,
    open_source,
    read_schemas,
)
from foreclick.engines.statements import Statement
from foreclick.engines.values import absent, count_of, force, real, total, unordered, whole, zero

__all__ = [
    "BUCKETS",
    "HASHES",
    "Engine",
    "ScratchFile",
    "Statement",
    "TableLike",
    "absent",
    "bring",
    "checked_file",
    "count_of",
    "default_engine",
    "engine_of",
    "files_of",
    "filter_by",
    "flag_by",
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
    "whole_file",
    "write_rows",
    "zero",
]
