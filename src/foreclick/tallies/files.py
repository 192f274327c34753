"""Files of tallies: Parquet, with the rows in order, written and read part by part.

The rows of a file are sorted by `Shape.order`, and a row group ends where a context does, so a
reader that holds one row group in memory sees whole contexts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foreclick.engines import given_twice, opened, read_schemas, same_files, whole_file
from foreclick.errors import SourceError, TallyError
from foreclick.logs import CONTEXT, N, Shape
from foreclick.secrets import printable
from foreclick.tallies.metadata import KEY, checked_metadata
from foreclick.tallies.seal import BLANK, DIGEST, seal

if TYPE_CHECKING:
    from pathlib import Path

GROUP_ROWS = 250_000
"""Rows of a row group, about."""

_INT32 = range(-(2**31), 2**31)


def described(path: str | list[str]) -> dict[str, tuple[dict[str, Any], pa.Schema]]:
    """What each tally says of itself, and its columns, by file."""
    try:
        schemas = read_schemas(path)
    except SourceError as error:
        raise TallyError(f"no tally: {error}") from error
    found, copies = {}, same_files(list(schemas))
    known: dict[str, str] = {}
    for file, schema in schemas.items():
        meta = checked_metadata(file, schema)
        other = known.setdefault(meta.get(DIGEST, file), file)
        copies = copies or (None if other == file else (other, file))  # in a store, for instance
        found[file] = (meta, schema.remove_metadata())
    if copies:
        raise TallyError(given_twice(*copies))
    return found


def count_rows(files: Iterable[str]) -> int:
    """How many rows some Parquet files have, by their footers."""
    rows = 0
    for file in files:
        with opened(file) as found:
            rows += pq.read_metadata(found).num_rows
    return rows


def read_sorted(file: str, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a sorted file in batches of at most so many; in memory is one row group."""
    checked: dict[str, Any] = {"page_checksum_verification": True}
    with opened(file) as found, pq.ParquetFile(found, **checked) as parquet:
        for number in range(parquet.num_row_groups):
            try:
                group = parquet.read_row_group(number, columns=schema.names)
                whole = group.select(schema.names).cast(schema)
            except (pa.ArrowException, OSError) as error:
                said = printable(" ".join(str(error).split()))
                raise TallyError(
                    f"{file!r} is damaged: {said}. Copy it again, or tally the log again."
                ) from error
            yield from in_batches(whole, rows)


def in_batches(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """A table in batches of at most so many rows."""
    yield from table.combine_chunks().to_batches(max_chunksize=rows)


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
            counts = {"rows": rows, "records": records, DIGEST: BLANK}
            writer.add_key_value_metadata({KEY: json.dumps(meta | counts)})
        if not quick:
            seal(partial)


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
            end = _end(table[CONTEXT], rows) or (rows if cut else 0)
            if not end:  # the context may go on in the next batch
                held = table.combine_chunks().to_batches()
                break
            yield table.slice(0, end)
            held, count = table.slice(end).to_batches(), count - end
    if count:
        yield pa.Table.from_batches(held)


def _end(context: pa.ChunkedArray, rows: int) -> int:
    """Where to cut: before the context that goes on at `rows`, or behind it; 0 for nowhere."""
    here = context[rows]
    before = pc.index(context, here).as_py()
    if before:
        return int(before)
    others = pc.index(pc.not_equal(context, here), True).as_py()
    return max(int(others), 0)


def integer_columns(schema: pa.Schema, shape: Shape) -> list[list[str]]:
    """Columns that are 64-bit integers in memory and may be narrower in a file; items together."""
    together = [[CONTEXT], shape.items, *([name] for name in shape.masks), [N]]
    return [names for names in together if pa.types.is_integer(schema.field(names[0]).type)]


def narrowed(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The schema with 32-bit integers for these columns."""
    return _typed(schema, columns, pa.int32())


def widened(schema: pa.Schema, shape: Shape) -> pa.Schema:
    """The schema with 64-bit integers for columns that a file may have narrowed."""
    columns = [name for names in integer_columns(schema, shape) for name in names]
    return _typed(schema, columns, pa.int64())


def fits(least: int | None, greatest: int | None) -> bool:
    """Whether numbers in these bounds are 32-bit integers; bounds of nothing are None."""
    return all(bound is None or bound in _INT32 for bound in (least, greatest))


def _typed(schema: pa.Schema, columns: Sequence[str], kind: pa.DataType) -> pa.Schema:
    return pa.schema(
        [field.with_type(kind) if field.name in columns else field for field in schema]
    )
