"""Tables of a lake, and streams of Arrow: the rows that such a table has now.

The Parquet files of a Delta or Iceberg table also hold rows that were deleted or replaced. Which
ones count stands in its metadata, so its files are never read without it.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from foreclick.engines import stores
from foreclick.errors import ForeclickError, SourceError, optional


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
_ICEBERG = 'pip install "foreclick[iceberg]"'
_VERSION = re.compile(r"v?(\d+)[^/]*\.metadata\.json")
_PARTITION = re.compile(r"[^/=]+=[^/]*")


def rows_of(source: Any) -> Rows | None:  # noqa: ANN401 - whatever a user holds
    """The rows of a table of a lake, or of an Arrow stream; None for anything else."""
    room = type(source).__module__.split(".")[0]
    if room == "pyarrow" and hasattr(source, "get_fragments"):
        return source
    if room == "pyarrow" and hasattr(source, "to_reader"):  # a scanner, or a batch
        return source.to_reader()
    if room == "deltalake" and hasattr(source, "to_pyarrow_dataset"):
        return _delta_rows(source)
    if room == "pyiceberg":
        scan = source if hasattr(source, "to_arrow_batch_reader") else source.scan()
        return scan.to_arrow_batch_reader()
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source)
    return None


def kind_of(place: str, look: Look = stores.matches) -> str | None:
    """What kind of table lies in a directory, if one does."""
    if stores.on_web(place):
        return None
    here = glob.escape(place.rstrip("/"))
    if any(file.endswith((".json", ".parquet")) for file in look(f"{here}/_delta_log/*")):
        return "Delta"
    found = look(f"{here}/metadata/*.metadata.json")
    return "Iceberg" if any(_version(file) != "-1" for file in found) else None


def open_table(path: str, look: Look = stores.matches) -> Any | None:  # noqa: ANN401
    """The Delta or Iceberg table that lies in a directory; None if none does.

    Args:
        path: of the directory.
        look: lists the files that a glob names.
    """
    place = path.rstrip("/")
    kind = kind_of(place, look)
    if kind is None:
        return None
    try:
        if kind == "Delta":
            return optional("deltalake", _DELTA).DeltaTable(place)
        tables = optional("pyiceberg.table", _ICEBERG)
        return tables.StaticTable.from_metadata(_latest(place), _settings())
    except ForeclickError:
        raise
    except Exception as error:  # noqa: BLE001 - each package has errors of its own
        said = stores.brief(error)
        raise SourceError(
            f"the {kind} table {stores.shown(path)!r} cannot be read: {said}"
        ) from stores.harmless(error)


def refuse_files_of_tables(files: list[str], look: Look = stores.matches) -> None:
    """Refuse to read files of a Delta or Iceberg table as if they were a log by themselves."""
    for place in sorted({above for file in files for above in _above(file)}):
        kind = kind_of(place, look)
        if kind is not None:
            raise SourceError(
                f"these are files of the {kind} table {stores.shown(place)!r}, which also hold "
                "rows that were deleted or replaced. Read the table itself: "
                f"read_log({stores.shown(place)!r})."
            )


def _above(file: str) -> list[str]:
    """The directories in which the table of a file could lie: all above it but partitions."""
    scheme, _, rest = file.rpartition("://")
    parts = rest.split("/")[:-1]
    while parts and _PARTITION.fullmatch(parts[-1]):
        parts.pop()
    start = f"{scheme}://" if scheme else ""
    return [start + "/".join(parts[:end]) for end in range(1, len(parts) + 1) if parts[end - 1]]


def _settings() -> dict[str, str]:
    """What pyiceberg does not take from the environment by itself."""
    names = {"s3.endpoint": "AWS_ENDPOINT_URL", "s3.region": "AWS_DEFAULT_REGION"}
    return {key: os.environ[name] for key, name in names.items() if name in os.environ}


def _latest(place: str) -> str:
    """The newest metadata of an Iceberg table: what its hint names, or the highest number."""
    here = glob.escape(place)
    files = stores.matches(f"{here}/metadata/*.metadata.json")
    hint = stores.matches(f"{here}/metadata/version-hint.text")
    if hint:
        with stores.opened(hint[0]) as file:
            named = file.read().decode().strip()
        files = [f for f in files if named in (_version(f), f.rsplit("/", 1)[-1])] or files
    newest = max((int(_version(file)) for file in files), default=-1)
    latest = [file for file in files if int(_version(file)) == newest]
    if len(latest) != 1 or newest < 0:
        raise SourceError(
            f"{stores.shown(place)!r} is an Iceberg table, and its files do not tell which of "
            f"{len(files):,} metadata files is the newest. Give the table of its catalog: "
            "read_log(catalog.load_table(…))."
        )
    return latest[0]


def _version(file: str) -> str:
    found = _VERSION.fullmatch(file.rsplit("/", 1)[-1])
    return found[1] if found else "-1"


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
