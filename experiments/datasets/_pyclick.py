"""PyClick's sample of the 2011 challenge: records between semicolons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from experiments.datasets.formats import CLICKS, ITEMS, Format
from experiments.datasets.ledger import ids
from foreclick.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from experiments.datasets.formats import Record
    from experiments.datasets.ledger import Ledger
    from experiments.datasets.source import Source

_CHUNK = 1 << 20
"""Bytes read at once. A record is much shorter."""


def _texts(source: Source, ledger: Ledger) -> Iterator[tuple[int, bytes]]:
    """Each record's number and text; where lines end means nothing."""
    for stream in source.streams():
        rest, number = b"", 0
        while chunk := stream.read(_CHUNK):
            *whole, rest = (rest + chunk).split(b";")
            yield from enumerate(whole, start=number + 1)
            number += len(whole)
            if len(rest) > _CHUNK:
                raise SourceError(
                    f"{str(source.file)!r} is not in this format: its records end in semicolons, "
                    f"and there is none in {len(rest):,} bytes. Check the path and the name of "
                    "the dataset."
                )
        if rest.strip():
            number += 1
            yield number, rest
        ledger.lines += number


def _records(source: Source, ledger: Ledger) -> Iterator[Record]:
    for number, text in _texts(source, ledger):
        try:
            query, shown = text.split(b"\t")
            urls, clicked = shown.translate(None, b" \r\n").split(b":")
            items = ids(urls.split(b","))
            clicks = [(number, url) for url in (ids(clicked.split(b",")) if clicked else [])]
        except ValueError:
            ledger.malformed(number, text)
        else:
            yield (query.strip().decode(errors="replace"), *ledger.mark(items, clicks, number))


PYCLICK = Format(
    name="pyclick",
    schema=pa.schema([("query", pa.string()), ITEMS, CLICKS]),
    roles={"context": "query"},
    records=_records,
    unit="record",
)
