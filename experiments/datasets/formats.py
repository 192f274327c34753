"""What a format declares: its columns, the roles they play, and how its records are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from experiments.datasets.ledger import Ledger
    from experiments.datasets.source import Source

    Record = tuple[Any, ...]
    """The values of a row, in the order of the schema."""

ITEMS = pa.field("items", pa.list_(pa.int64()))
CLICKS = pa.field("clicks", pa.list_(pa.int8()))


@dataclass(frozen=True)
class Format:
    """A dataset's format.

    Attributes:
        name: as it is called in `convert` and on the command line.
        schema: the columns of the canonical Parquet.
        roles: the keywords with which `read_log` reads it.
        records: reads a source, counts what is odd, and yields rows of the schema.
        unit: what numbers in the report's examples count.
        tables: whether the source is CSV or Parquet rather than lines of its own.
    """

    name: str
    schema: pa.Schema
    roles: Mapping[str, Any]
    records: Callable[[Source, Ledger], Iterator[Record]]
    unit: str = "line"
    tables: bool = False
