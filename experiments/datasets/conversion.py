"""From a source in any of the formats to canonical Parquet, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.datasets.formats import ITEMS
from experiments.datasets.ledger import Ledger, Oddity
from experiments.datasets.source import Source
from foreclick.engines.files import whole_file
from foreclick.errors import SourceError
from foreclick.logs import Log, read_log
from foreclick.progress import working
from foreclick.results import Result, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.datasets.formats import Format, Record
    from foreclick.progress import Progress, WriteLine

_BATCH = 2_000
"""Records held as Python objects. Many more would keep the garbage collector busy."""
_GROUP = 100_000
"""Records held as Arrow, until they make a row group."""

_COLUMNS = ("fact", "found", "done", "example")


@dataclass(frozen=True, repr=False)
class Conversion(Result):
    """What a conversion wrote, and every oddity it met: one row per fact.

    | column | meaning |
    |---|---|
    | fact | what was counted: first lines, records and clicks, then each oddity by its name |
    | found | how many |
    | done | what became of such lines, lists or clicks |
    | example | where the first one stands |

    Attributes:
        path: the canonical Parquet.
        roles: the keywords with which `read_log` reads it.
    """

    path: str = ""
    roles: Mapping[str, Any] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """How many records were written."""
        return int(self["found"][self["fact"].index("records")])

    @property
    def oddities(self) -> dict[str, int]:
        """How many of each oddity, by its name."""
        return {row["fact"]: row["found"] for row in self.rows if row["done"]}  # type: ignore[misc]

    def log(self, **options: Any) -> Log:  # noqa: ANN401 - those of read_log
        """The log that was written, read with its roles and further options of `read_log`."""
        return read_log(self.path, **{**self.roles, **options})


def convert(
    layout: Format, path: str | Path, out: str | Path, progress: WriteLine | None = None
) -> Conversion:
    """Stream the source to Parquet, and report. The file appears only when it is whole."""
    target = Path(out)
    if target.suffix not in {".parquet", ".pq"} or not target.parent.is_dir():
        raise SourceError(
            f"the records cannot be written to {str(out)!r}: it is a Parquet file in a directory "
            "that exists. Give, for instance, log.parquet."
        )
    source = Source(path, tables=layout.tables)
    ledger = Ledger(source, layout.unit)
    with whole_file(target) as part:
        with source.explained(), working(progress) as shown:
            records, clicks = _write(layout, source, ledger, part, shown)
        ledger.judge(ledger.lines)
        if not records:
            raise SourceError(
                f"{str(path)!r} holds no records: {ledger.lines:,} {layout.unit}s were read"
                f"{_told(ledger)}. Check the path and the name of the dataset."
            )
    return _report(layout, ledger, target, records, clicks)


def _write(
    layout: Format, source: Source, ledger: Ledger, path: Path, progress: Progress
) -> tuple[int, int]:
    """Write all records; how many, and how many clicks they have."""
    stream = layout.records(source, ledger)
    records = clicks = 0
    with pq.ParquetWriter(path, layout.schema, compression="zstd") as writer:
        batches = iter(lambda: _batch(list(islice(stream, _BATCH)), layout.schema), None)
        while group := list(islice(batches, _GROUP // _BATCH)):
            table = pa.Table.from_batches(group)
            writer.write_table(table, row_group_size=_GROUP)
            records += table.num_rows
            clicks += sum(batch["clicks"].flatten().sum().as_py() or 0 for batch in group)
            progress(f"Converting {source.size / 1e9:,.1f} GB", source.done / source.size)
    return records, clicks


def _batch(rows: list[Record], schema: pa.Schema) -> pa.RecordBatch | None:
    """The rows as Arrow; None if there are none."""
    if not rows:
        return None
    columns = dict(zip(schema.names, zip(*rows, strict=True), strict=True))
    try:
        arrays = [
            _lists(values) if name == ITEMS.name else pa.array(values, schema.field(name).type)
            for name, values in columns.items()
        ]
    except (pa.ArrowException, OverflowError) as error:
        raise SourceError(
            f"a number is too large for its column: {error}. Ids have up to 18 digits; check that "
            "the source is whole and of this dataset."
        ) from error
    return pa.record_batch(arrays, schema=schema)


def _lists(lists: Sequence[Sequence[bytes | None]]) -> pa.ListArray:
    """Lists of numbers that are written as texts."""
    values = pa.array(list(chain.from_iterable(lists)), pa.binary())
    offsets = pa.array(accumulate(map(len, lists), initial=0), pa.int32())
    return pa.ListArray.from_arrays(offsets, values.cast(pa.string()).cast(pa.int64()))


def _report(layout: Format, ledger: Ledger, path: Path, records: int, clicks: int) -> Conversion:
    facts: list[tuple[Value, ...]] = [
        (f"{layout.unit}s read", ledger.lines, None, None),
        ("records", records, None, None),
        ("clicks", clicks, None, None),
    ]
    facts += [
        (oddity.label, ledger.counts[oddity], oddity.done, ledger.examples[oddity])
        for oddity in Oddity
        if oddity in ledger.counts
    ]
    rows = tuple(dict(zip(_COLUMNS, fact, strict=True)) for fact in facts)
    roles = ", ".join(f"{role}={column!r}" for role, column in layout.roles.items())
    notes = (f"Read it with read_log({str(path)!r}, {roles}).",)
    return Conversion(rows, _COLUMNS, notes, "", str(path), layout.roles)


def _told(ledger: Ledger) -> str:
    return "".join(f", {oddity.label}: {n:,}" for oddity, n in ledger.counts.items())
