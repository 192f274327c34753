"""Files that appear only when they are whole, and what killed processes leave behind."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyarrow.csv import write_csv

from foreclick.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_PARTIAL = ".partial"
_TABLES = (".parquet", ".csv")


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` at the end: a file is there completely or not."""
    partial = Path(f"{path}.{platform.node()}.{os.getpid()}{_PARTIAL}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def sweep_partial(directory: Path) -> None:
    """Remove what processes of this machine were writing when they were killed."""
    for file in abandoned(directory, f".{platform.node()}.", _PARTIAL):
        file.unlink(missing_ok=True)


def abandoned(directory: Path, before: str, after: str = "") -> Iterator[Path]:
    """Whose name ends in `before`, the number of a process that is gone, and `after`."""
    name = re.compile(rf".*{re.escape(before)}(\d+){re.escape(after)}")
    for path in directory.glob(f"*{after}"):
        found = name.fullmatch(path.name)
        if found and not _alive(int(found[1])):
            yield path


def _alive(pid: int) -> bool:
    """Whether a process of this machine is running, or may be."""
    if os.name == "nt":  # where asking is as good as stopping it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


class ScratchFile:
    """A file that is there as long as this object; `laptop` removes what killed processes left.

    Attributes:
        path: where it is to be written.
    """

    def __init__(self, name: str) -> None:
        ending = f"-foreclick-{platform.node()}-{os.getpid()}"
        place = Path(tempfile.mkdtemp(prefix="foreclick_scratch_", suffix=ending))
        self.path = str(place / name)
        self._removed = weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)

    def remove(self) -> None:
        """Remove it now."""
        self._removed()


def write_rows(rows: pa.Table, path: str | Path) -> None:
    """Write rows to one file, Parquet or CSV by its ending."""
    target = checked_file(path)
    with whole_file(target) as file:
        if target.suffix.lower() == ".csv":
            write_csv(rows, file)
        else:
            pq.write_table(rows, file, compression="zstd")


def checked_file(path: str | Path, endings: Sequence[str] = _TABLES) -> Path:
    """A path that a table can be written to; to be known before the work, not after."""
    target = Path(path)
    if target.suffix.lower() not in endings or not target.parent.is_dir():
        raise SourceError(
            f"a table cannot be written to {str(path)!r}: give a file that ends in "
            f"{' or '.join(endings)}, in a directory that exists."
        )
    return target
