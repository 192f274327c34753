"""The files of a dataset as streams: plain or gzip, lines or table rows, never held as a whole."""

from __future__ import annotations

import csv
import glob
import gzip
import io
import zlib
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from foreclick.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from experiments.datasets.ledger import Ledger

GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
_BUFFER = 1 << 20
_TABLES = {".csv", ".parquet", ".pq"}


class Source:
    """The files that a path names, one after the other, and how far they are read.

    Args:
        path: a file, a glob, or a directory, which stands for all files in it except hidden ones.
        tables: of a directory, only CSV and Parquet files.
    """

    def __init__(self, path: str | Path, *, tables: bool = False) -> None:
        self.path = str(path)
        self.files = _files(self.path, tables=tables)
        self.size = sum(file.stat().st_size for file in self.files)
        self.file = self.files[0]
        self._before = 0
        self._raw: io.BufferedReader | None = None

    @property
    def done(self) -> int:
        """Bytes read so far, as they lie on the disk."""
        return self._before + (self._raw.tell() if self._raw is not None else 0)

    def streams(self) -> Iterator[io.BufferedReader]:
        """The bytes of each file, decompressed; `file` is the one that is being read."""
        for file in self.files:
            self.file = file
            with file.open("rb") as raw:
                self._raw = raw
                if raw.peek(len(GZIP))[: len(GZIP)] == GZIP:
                    # Around it a buffer in C, because gzip's own lines are made in Python.
                    yield io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER)
                else:
                    yield raw
            self._raw = None
            self._before += file.stat().st_size

    def rows(self, columns: Sequence[str], ledger: Ledger) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The rows of CSV or Parquet files: their numbers, and these columns as text."""
        for stream in self.streams():
            if stream.peek(len(PARQUET))[: len(PARQUET)] == PARQUET:
                yield from self._parquet_rows(stream, columns, ledger)
            else:
                yield from self._csv_rows(stream, columns, ledger)

    def _csv_rows(
        self, stream: io.BufferedReader, columns: Sequence[str], ledger: Ledger
    ) -> Iterator[tuple[int, tuple[str, ...]]]:
        with io.TextIOWrapper(stream, "utf-8", errors="replace", newline="") as text:
            reader = csv.reader(text)
            header = next(reader, [])
            self._demand(columns, header)
            wanted = itemgetter(*(header.index(name) for name in columns))
            number = 0
            for number, row in enumerate(reader, start=1):
                if len(row) == len(header):
                    yield number, wanted(row)
                else:
                    ledger.malformed(number, ",".join(row))
            ledger.lines += number

    def _parquet_rows(
        self, stream: io.BufferedReader, columns: Sequence[str], ledger: Ledger
    ) -> Iterator[tuple[int, tuple[str, ...]]]:
        file = pq.ParquetFile(stream)
        self._demand(columns, file.schema_arrow.names)
        number = 0
        for batch in file.iter_batches(columns=list(columns)):
            texts = [batch[name].cast(pa.string()).fill_null("").to_pylist() for name in columns]
            for row in zip(*texts, strict=True):
                number += 1
                yield number, row
        ledger.lines += number

    @contextmanager
    def explained(self) -> Iterator[None]:
        """What a damaged file makes readers raise, in words; around all that reads."""
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise SourceError(
                f"{str(self.file)!r} is gzip, but damaged or cut off: {error}. Fetch it again; "
                "gzip -t tells whether it is whole."
            ) from error
        except (csv.Error, pa.ArrowException) as error:
            raise SourceError(
                f"{str(self.file)!r} cannot be read: {error}. Check that it is whole, and this "
                "dataset."
            ) from error

    def _demand(self, columns: Sequence[str], there: Sequence[str]) -> None:
        missing = [name for name in columns if name not in there]
        if missing:
            raise SourceError(
                f"{str(self.file)!r} lacks {len(missing)} of the columns that this dataset has: "
                f"{', '.join(missing)}. Its own are {', '.join(there[:12]) or 'none'}. Check the "
                "path, and that it is this dataset."
            )


def _files(path: str, *, tables: bool) -> list[Path]:
    folder = Path(path).is_dir()
    # pathlib's glob cannot take an absolute pattern.
    pattern = f"{glob.escape(path.rstrip('/'))}/**" if folder else path
    found = [Path(path)] if Path(path).is_file() else _glob(pattern)
    if folder:
        found = [file for file in found if not file.name.startswith("_")]
    if folder and tables:
        found = [file for file in found if _TABLES & set(file.suffixes)]
    if not found:
        kind = "CSV or Parquet file" if folder and tables else "file"
        raise SourceError(f"no {kind} matches {path!r}. Give a file, a glob or a directory.")
    return found


def _glob(pattern: str) -> list[Path]:
    matches = glob.glob(pattern, recursive=True)  # noqa: PTH207
    return sorted(file for file in map(Path, matches) if file.is_file())
