"""Engines: where tables live and SELECTs are answered. Only this package knows a vendor."""

from foreclick.engines.base import BUCKETS, HASHES, Engine, Table, Value, hashed_here
from foreclick.engines.duckdb import default_engine, laptop
from foreclick.engines.sources import (
    TableLike,
    bring,
    engine_of,
    filter_by,
    open_source,
    read_schemas,
    unchanged,
    write_rows,
)
from foreclick.engines.spelling import DUCKDB, SPELLINGS, Spelling
