"""Tables of a lake, and streams of Arrow: the rows that such a table has now.

The Parquet files of a Delta or Iceberg table also hold rows that were deleted or replaced. Which
ones count stands in its metadata, so its files are never read without it.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from foreclick.engines.files import matches, on_web, readable, shown
from foreclick.errors import SourceError, optional


class ArrowDataset(Protocol):
    """A dataset of pyarrow, whose module is slow to import."""

    schema: pa.Schema

    def to_table(self) -> pa.Table:
        """All rows, in memory."""
        ...


Rows: TypeAlias = ArrowDataset | pa.RecordBatchReader
"""Rows that can be scanned again and again, or once."""

Look: TypeAlias = Callable[[str], list[str]]
"""Lists the files that a glob names."""

_DELTA = 'pip install "foreclick[delta]"'
_ICEBERG = re.compile(r".*/v?\d+[^/]*\.metadata\.json")
_PARTITION = re.compile(r"[^/=]+=[^/]*")


def rows_of(source: Any) -> Rows | None:  # noqa: ANN401 - whatever a user holds
    """The rows of a table of a lake, or of an Arrow stream; None for anything else."""
    package = type(source).__module__.split(".")[0]
    if package == "pyarrow" and hasattr(source, "get_fragments"):
        return source
    if package == "pyarrow" and hasattr(source, "to_reader"):  # a scanner, or a batch
        return source.to_reader()
    if package == "deltalake" and hasattr(source, "to_pyarrow_dataset"):
        return _delta_rows(source)
    if package == "pyiceberg":
        scan = source if hasattr(source, "to_arrow_batch_reader") else source.scan()
        return scan.to_arrow_batch_reader()
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source)
    return None


def kind_of(place: str, look: Look = matches) -> str | None:
    """What kind of table lies in a directory, if one does."""
    if on_web(place):
        return None
    here = glob.escape(place.rstrip("/"))
    if any(file.endswith((".json", ".parquet")) for file in look(f"{here}/_delta_log/*")):
        return "Delta"
    iceberg = any(map(_ICEBERG.fullmatch, look(f"{here}/metadata/*.metadata.json")))
    return "Iceberg" if iceberg else None


def open_table(path: str, look: Look = matches) -> Any | None:  # noqa: ANN401
    """The Delta table that lies in a directory; None if none does.

    Args:
        path: of the directory.
        look: lists the files that a glob names.
    """
    place = path.rstrip("/")
    kind = kind_of(place, look)
    if kind == "Iceberg":  # only a catalog tells which of its metadata files counts
        raise SourceError(
            f"{shown(path)!r} is an Iceberg table. Give the table of its catalog: "
            "read_log(catalog.load_table(…))."
        )
    if kind is None:
        return None
    with readable(f"the Delta table {shown(path)!r}"):
        return optional("deltalake", _DELTA).DeltaTable(place)


def refuse_files_of_tables(files: list[str], look: Look = matches) -> None:
    """Refuse to read files of a Delta or Iceberg table as if they were a log by themselves."""
    above = set()  # all directories above but partitions
    for file in files:
        scheme, mark, rest = file.rpartition("://")
        parts = rest.split("/")[:-1]
        while parts and _PARTITION.fullmatch(parts[-1]):
            parts.pop()
        ends = [end for end in range(1, len(parts) + 1) if parts[end - 1]]
        above |= {f"{scheme}{mark}{'/'.join(parts[:end])}" for end in ends}
    for place in sorted(above):
        kind = kind_of(place, look)
        if kind is not None:
            table = "catalog.load_table(…)" if kind == "Iceberg" else repr(shown(place))
            raise SourceError(
                f"these are files of the {kind} table {shown(place)!r}, which also hold rows that "
                f"were deleted or replaced. Read the table itself: read_log({table})."
            )


def _delta_rows(table: Any) -> Rows:  # noqa: ANN401 - a deltalake.DeltaTable
    """Files that DuckDB scans, or a stream of what deltalake makes of them."""
    settings = table.metadata().configuration
    features = table.protocol().reader_features or []
    renamed = settings.get("delta.columnMapping.mode", "none") != "none"
    if not renamed and not {"columnMapping", "deletionVectors"} & set(features):
        return table.to_pyarrow_dataset()
    if not hasattr(table, "scan"):
        raise SourceError(
            "the Delta table has renamed columns or deletion vectors, which this version of "
            f"deltalake does not read. Run: {_DELTA}"
        )
    return pa.RecordBatchReader.from_stream(table.scan())
