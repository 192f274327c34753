"""Engines: where tables live and SELECTs are answered. Only this package knows a vendor."""

from foreclick.engines.base import BUCKETS, HASHES, Engine, Table, Value, hashed_here, whole_sum
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
from foreclick.engines.spelling import DUCKDB, SPELLINGS, Spelling
from foreclick.engines.stores import (
    given_twice,
    is_remote,
    located,
    no_file,
    opened,
    same_files,
    state,
)

__all__ = [
    "BUCKETS",
    "DUCKDB",
    "HASHES",
    "SPELLINGS",
    "Engine",
    "Fetched",
    "ScratchFile",
    "Spelling",
    "Table",
    "TableLike",
    "Value",
    "bring",
    "checked_file",
    "default_engine",
    "ending",
    "engine_of",
    "filter_by",
    "flag_by",
    "given_twice",
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
    "same_files",
    "state",
    "unchanged",
    "whole_directory",
    "whole_file",
    "whole_sum",
    "write_readable",
    "write_rows",
]
