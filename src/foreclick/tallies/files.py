"""Files of tallies: Parquet, with the rows in order, written and read part by part.

The rows of a file are sorted by `Shape.order`, and a row group ends where a context does, so a
reader that holds one row group in memory sees whole contexts. A file's metadata have a digest of
all its bytes; while it is computed, zeros stand in its place. What has the right digest is as it
was written, so nothing else of it is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foreclick.engines.files import opened, whole_file
from foreclick.errors import TallyError
from foreclick.logs import CONTEXT, N
from foreclick.secrets import printable

GROUP_ROWS = 250_000
"""Rows of a row group, about."""

VERSION = 3
"""Of the format; files of others are not read."""

_KEY, _DIGEST = b"foreclick", "digest"
_BLANK = "0" * 32
_MARK = f'"{_DIGEST}": "'.encode()
_CHUNK = 1 << 20


def metadata_of(schema: pa.Schema) -> dict[str, Any] | None:
    """What a tally's file says of itself; None if it is the file of something else."""
    text = (schema.metadata or {}).get(_KEY)
    if text is None:
        return None
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        metadata = None
    return metadata if isinstance(metadata, dict) else {}


def checked_metadata(file: str, schema: pa.Schema) -> dict[str, Any]:
    """The same of a file that must be a tally of this version."""
    meta = metadata_of(schema)
    if meta is None:
        raise TallyError(f"{file!r} is not a tally. Make one with fc.tally(log).write_parquet.")
    if meta.get("version") != VERSION:
        version = repr(meta.get("version"))[:60]
        raise TallyError(
            f"{file!r} has the tally schema {version}, this foreclick reads {VERSION}. Tally the "
            "log again with this version."
        )
    return meta


def check_digest(path: str, meta: dict[str, Any], name: str) -> None:
    """Refuse a file that is not as it was written, or without rows.

    Args:
        path: of the file, on this machine.
        meta: what it says of itself.
        name: what the user calls it.
    """
    with Path(path).open("rb") as file:
        written = meta.get(_DIGEST)
        if not isinstance(written, str) or _digest(file, written)[0] != written:
            raise TallyError(
                f"{name!r} is not as it was written: its digest is another. Copy it again, or "
                "tally the log again."
            )
    if not meta["rows"]:
        raise TallyError(f"{name!r} is a tally without rows. Tally the log again.")


def _digest(file: IO[bytes], written: str) -> tuple[str, int]:
    """The digest of a Parquet file that has this one in it, and where its footer begins."""
    file.seek(-8, 2)
    end = file.tell()
    start = max(end - int.from_bytes(file.read(4), "little"), 0)
    digest, left = blake2b(digest_size=len(_BLANK) // 2), start
    file.seek(0)
    while left:
        chunk = file.read(min(left, _CHUNK))
        digest.update(chunk)
        left -= len(chunk)
    digest.update(file.read().replace(written.encode(), _BLANK.encode()))
    return digest.hexdigest(), start


def read_sorted(file: str, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a sorted file in batches of at most so many; in memory is one row group."""
    checked: dict[str, Any] = {"page_checksum_verification": True}
    with opened(file) as stream, pq.ParquetFile(stream, **checked) as parquet:
        for number in range(parquet.num_row_groups):
            try:
                group = parquet.read_row_group(number, columns=schema.names)
                whole = group.select(schema.names).cast(schema)
            except (pa.ArrowException, OSError) as error:
                reason = printable(" ".join(str(error).split()))
                raise TallyError(
                    f"{file!r} is damaged: {reason}. Copy it again, or tally the log again."
                ) from error
            yield from whole.combine_chunks().to_batches(max_chunksize=rows)


def write_sorted(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    path: str | Path,
    meta: dict[str, Any],
    *,
    quick: bool = False,
) -> None:
    """Write rows that come in order to one Parquet file; it is there completely or not at all.

    Beside `meta`, it says how many rows and records it has, and its digest.

    Args:
        batches: the rows.
        schema: their columns in the file.
        path: of the file.
        meta: what it says of itself.
        quick: whether to write in half the time a file that is larger, and soon gone.
    """
    how: dict[str, Any] = (
        {"compression": "lz4", "use_dictionary": False} if quick else {"compression": "zstd"}
    )
    rows, records = 0, 0
    with whole_file(path) as partial:
        with pq.ParquetWriter(partial, schema, write_page_checksum=True, **how) as writer:
            for group in whole_contexts(batches, GROUP_ROWS, cut=True):
                writer.write_table(group.cast(schema), row_group_size=group.num_rows)
                rows += group.num_rows
                records += pc.sum(group[N]).as_py()
            counts = {"version": VERSION, "rows": rows, "records": records, _DIGEST: _BLANK}
            writer.add_key_value_metadata({_KEY: json.dumps(meta | counts)})
        if not quick:
            with partial.open("rb+") as file:
                digest, start = _digest(file, _BLANK)
                file.seek(start)
                file.seek(start + file.read().rindex(_MARK) + len(_MARK))
                file.write(digest.encode())


def whole_contexts(
    batches: Iterable[pa.RecordBatch], rows: int, *, cut: bool = False
) -> Iterator[pa.Table]:
    """Rows in order of contexts, in tables of at most so many rows that end where a context does.

    Args:
        batches: the rows.
        rows: the most that a table holds.
        cut: whether a context with more rows is cut; otherwise its table is larger.
    """
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count > rows:
            table = pa.Table.from_batches(held)
            here = table[CONTEXT][rows]
            end = pc.index(table[CONTEXT], here).as_py()  # before the context that goes on there
            if not end:  # or behind it
                end = max(pc.index(pc.not_equal(table[CONTEXT], here), True).as_py(), 0)
            end = end or (rows if cut else 0)
            if not end:  # the context may go on in the next batch
                held = table.combine_chunks().to_batches()
                break
            yield table.slice(0, end)
            held, count = table.slice(end).to_batches(), count - end
    if count:
        yield pa.Table.from_batches(held)
