"""Files that appear only when they are whole, and what killed processes leave behind."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyarrow.csv import write_csv

from foreclick.engines import stores
from foreclick.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_PARTIAL = ".partial"
_TABLES = (".parquet", ".csv")
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}


def machine() -> str:
    """Where a process number means one process: this machine, and this container of it.

    Containers that share a volume, and perhaps the name of their machine, count processes alike.
    """
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # no Linux
        space = ""
    return "-".join([platform.node(), *re.findall(r"\d+", space)])


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` at the end: a file is there completely or not.

    A file of an object store is written here and sent when it is whole. Where `path` is a link, the
    file that it points to is replaced.
    """
    target = stores.located(path)
    if stores.is_remote(target):
        scratch = ScratchFile(PurePosixPath(target).name)
        try:
            yield Path(scratch.path)
            stores.send(scratch.path, target)
        finally:
            scratch.remove()
        return
    final = _replaceable(target)
    with _partial(final) as partial, _named_if_unwritable(target):
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())  # or a power cut leaves an empty file under the name
        partial.replace(final)


@contextmanager
def whole_directory(path: str | Path) -> Iterator[Path]:
    """A directory to write to, which becomes `path` at the end: all files are there or none.

    Where `path` holds other files, these stay, and the new ones are moved there one by one.
    """
    final = Path(os.path.realpath(path))
    with _partial(final) as partial, _named_if_unwritable(str(path)):
        partial.mkdir()
        yield partial
        if final.is_dir() and any(final.iterdir()):
            for file in sorted(partial.iterdir()):
                file.replace(final / file.name)
            return
        if final.is_dir():
            final.rmdir()
        partial.replace(final)


@contextmanager
def _partial(final: Path) -> Iterator[Path]:
    """A name beside `final` that no other writer uses; what was written to it is removed again."""
    _sweep(abandoned(final.parent, f".{machine()}.", _PARTIAL, final.name))
    own = f"{token_hex(4)}.{machine()}.{os.getpid()}{_PARTIAL}"
    partial = final.with_name(f"{final.name}.{own}")
    try:
        yield partial
    finally:
        _sweep([partial])


@contextmanager
def _named_if_unwritable(path: str) -> Iterator[None]:
    """Errors of writing that name the file; Arrow's and those of rename do not."""
    try:
        yield
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        said = os.strerror(error.errno)
        raise SourceError(f"{path!r} cannot be written: {said}.") from error


def _replaceable(path: str) -> Path:
    """Where a file goes; never a device or a pipe, which renaming would replace by a file."""
    final = Path(os.path.realpath(path))
    if final.exists() and not final.is_file():
        what = "a directory" if final.is_dir() else "a device or a pipe"
        raise SourceError(f"{path!r} cannot be written: it is {what}. Name a file.")
    return final


def _sweep(paths: Iterable[Path]) -> None:
    """Remove what can be removed; on a read-only disk, what failed is more worth saying."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def abandoned(directory: Path, before: str, after: str = "", start: str = "") -> Iterator[Path]:
    """Whose name is `start`, anything, `before`, the number of a process that is gone, `after`."""
    name = re.compile(rf"{re.escape(start)}.*{re.escape(before)}(\d+){re.escape(after)}")
    for path in directory.glob(f"{escape(start)}*{after}"):
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
        ending = f"-foreclick-{machine()}-{os.getpid()}"
        place = Path(tempfile.mkdtemp(prefix="foreclick_scratch_", suffix=ending))
        self.path = str(place / name)
        self._removed = weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)

    def remove(self) -> None:
        """Remove it now."""
        self._removed()


def write_rows(rows: pa.Table, path: str | Path) -> None:
    """Write rows to one file, Parquet or CSV by its ending."""
    with whole_file(checked_file(path)) as file:
        write_file(rows, path, file)


def write_file(rows: pa.Table, path: str | Path, file: Path) -> None:
    """Write rows to the file that becomes `path`, by whose ending it is Parquet or CSV."""
    if ending(str(path)) == ".csv":
        write_csv(rows, file)
    else:
        pq.write_table(rows, file, compression="zstd")


def checked_file(path: str | Path) -> str:
    """A path that a table can be written to; to be known before the work, not after."""
    target = stores.located(path)
    if ending(target) not in _TABLES or not has_place(target):
        raise SourceError(
            f"a table cannot be written to {str(path)!r}: give a file that ends in "
            f"{' or '.join(_TABLES)}, in a directory that exists."
        )
    return target


def ending(path: str) -> str:
    """The ending of a file, in small letters."""
    return PurePosixPath(path).suffix.lower()


def has_place(path: str) -> bool:
    """Whether a file can be put there: its directory exists, or its store can be reached.

    A directory in which nothing can be written is an error that says so.
    """
    if stores.is_remote(path):
        return stores.filesystem(path) is not None  # else it says what is missing
    place = _replaceable(path).parent
    if place.is_dir() and not os.access(place, os.W_OK):
        raise SourceError(f"{path!r} cannot be written: nothing may be written in {str(place)!r}.")
    return place.is_dir()


def local_path(path: str | os.PathLike[str]) -> Path:
    """A path on this machine; a URL is refused, rather than taken for a directory called s3:."""
    target = stores.located(os.fspath(path))
    if stores.is_remote(target):
        raise SourceError(
            f"{stores.shown(target)!r} is in an object store, and this is written to this machine "
            "only. Give a path, and copy the files there."
        )
    return Path(target)


class Fetched:
    """Files of an object store, copied to this machine for as long as this object is there.

    Attributes:
        files: where the copies are.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._scratch = [ScratchFile(PurePosixPath(file).name) for file in files]
        self.files = [scratch.path for scratch in self._scratch]
        for file, copy in zip(files, self.files, strict=True):
            stores.fetch(file, copy)

    def remove(self) -> None:
        """Remove the copies now."""
        for scratch in self._scratch:
            scratch.remove()
