"""Engines: where tables live and expressions are executed. Only this room knows a vendor."""

from foreclick.engines.base import BUCKETS, HASHES, Engine, hashed_here
from foreclick.engines.duckdb import default_engine, laptop
from foreclick.engines.files import (
    Fetched,
    ScratchFile,
    checked_file,
    ending,
    has_place,
    local_path,
    whole_directory,
    whole_file,
    write_rows,
)
from foreclick.engines.readable import write_readable
from foreclick.engines.sources import (
    TableLike,
    bring,
    engine_of,
    filter_by,
    flag_by,
    open_source,
    read_schemas,
    unchanged,
)
from foreclick.engines.statements import Statement
from foreclick.engines.stores import is_remote, located, no_file, opened, state
from foreclick.engines.values import absent, count_of, force, real, total, unordered, whole, zero

__all__ = [
    "BUCKETS",
    "HASHES",
    "Engine",
    "Fetched",
    "ScratchFile",
    "Statement",
    "TableLike",
    "absent",
    "bring",
    "checked_file",
    "count_of",
    "default_engine",
    "ending",
    "engine_of",
    "filter_by",
    "flag_by",
    "force",
    "has_place",
    "hashed_here",
    "is_remote",
    "laptop",
    "local_path",
    "located",
    "no_file",
    "open_source",
    "opened",
    "read_schemas",
    "real",
    "state",
    "total",
    "unchanged",
    "unordered",
    "whole",
    "whole_directory",
    "whole_file",
    "write_readable",
    "write_rows",
    "zero",
]
