"""Tables that are written to be read again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from foreclick.engines.duckdb import default_engine
from foreclick.engines.files import checked_file, ending, whole_file, write_file
from foreclick.errors import SourceError


def write_readable(rows: pa.Table, path: str | Path) -> None:
    """Write rows that are to be read again, as Parquet or CSV by the ending of the file.

    Whoever reads a CSV file guesses types, and takes an empty text for nothing. Text that would
    come back as another is refused, and no file is left behind.
    """
    with whole_file(checked_file(path)) as file:
        write_file(rows, path, file)
        if ending(str(path)) == ".csv":
            _check_text(rows, str(file), path)


def _check_text(rows: pa.Table, file: str, path: str | Path) -> None:
    """Refuse a CSV file that does not have every text of the rows."""
    engine = default_engine()
    read = engine.fetch(engine.read_files("read_csv", [file]))
    for name in rows.column_names:
        if not pa.types.is_string(rows.schema.field(name).type):
            continue
        wrote, found = rows[name].unique(), read[name].unique()
        if pa.types.is_string(found.type) or pa.types.is_integer(found.type):
            there = pc.is_in(wrote, value_set=found.cast(pa.string()))
            wrote = wrote.filter(pc.invert(there))
        if len(wrote):
            raise SourceError(
                f"{str(path)!r}: {name}={wrote[0].as_py()!r} would not be read again as it is, "
                "because a CSV file has no types and no empty text. Write a .parquet file."
            )
