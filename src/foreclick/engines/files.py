"""Files by path or by URL, on a disk or in an object store through fsspec; written whole or not.

Credentials come from where each store's own tools look for them (environment, profile, role). They
are never part of a path, so no message can show them.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import itertools
import os
import platform
import re
import shutil
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePath, PurePosixPath
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from foreclick.errors import ForeclickError, ReportError, SourceError, optional
from foreclick.secrets import masked
from foreclick.words import did_you_mean

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_URL = re.compile(r"([a-z][a-z0-9]+)://", re.IGNORECASE)
_QUERY = re.compile(r"\?.*=.*")  # without = it is a glob
_SQUEEZED = re.compile(r"(s3a?|gs|gcs|az|abfss?|https?):/(?!/)", re.IGNORECASE)
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az"}
_EXTRAS |= {"abfss": "az", "http": "s3", "https": "s3"}
_WEB = ("http", "https")
_FRESH = 10  # seconds for which an answer about a file is not asked for again
_ACCOUNTS = ("abfs", "abfss", "az")  # whose URLs may name container@account
_TABLES = (".parquet", ".csv")
_SAID = 3  # lines of an engine's message that are shown
_ASIDE = re.compile(r"[\s'+(]|Candidate|LINE \d|HINT")  # begin what is for people who write SQL
_CASTS = ". You might need to add explicit type casts."
_POINTED = re.compile(r"\n(?P<number>LINE \d+: )(?P<line>.*)\n(?P<blanks> *)\^")
_QUOTED = re.compile(r'(?:(?! AS | FROM ).)*?"(\w+)"')  # in the expression that is pointed to
_OPERAND = re.compile(r'"(\w+)"\)* ?$')  # before the operator that is pointed to
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}


def located(path: str | Path) -> str:
    """A path or URL as text. `Path("s3://…")` has lost a slash, which it gets back."""
    text = _SQUEEZED.sub(r"\1://", str(path), count=1)
    scheme = scheme_of(text)
    if scheme is None or scheme in _ACCOUNTS:
        return text
    if urlsplit(text).username is not None:
        raise SourceError(
            f"a URL of {scheme}:// with a name or a key in it is not read, because it would end "
            "up in messages and files. Set the credentials in the environment "
            "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for instance)."
        )
    return text.removeprefix("file://") if scheme == "file" else text


def scheme_of(path: str) -> str | None:
    """What stands before :// in a URL; None for a path."""
    match = _URL.match(path)
    return match[1].lower() if match else None


def on_web(path: str) -> bool:
    """Whether it is the URL of a web server, which lists no files."""
    return scheme_of(path) in _WEB


def is_remote(path: str) -> bool:
    """Whether it is the URL of an object store or of the web."""
    return scheme_of(path) is not None


def shown(path: str) -> str:
    """A path as messages show it: a URL without its query, which may be a signature."""
    return _QUERY.sub("", masked(path)) if is_remote(path) else path


def filesystem(path: str) -> AbstractFileSystem:
    """The fsspec filesystem of a URL."""
    scheme = scheme_of(path) or "file"
    extra = _EXTRAS.get(scheme)
    if extra is None:
        known = ", ".join(f"{name}://" for name in _EXTRAS)
        raise SourceError(f"{scheme}:// is not read: give a path, or a URL of {known}.")
    remedy = f'pip install "foreclick[{extra}]"'
    spec = optional("fsspec", remedy)
    optional({"s3": "s3fs", "gs": "gcsfs", "az": "adlfs"}[extra], remedy)
    options = {} if scheme in _WEB else {"use_listings_cache": False}  # others write there too
    store: AbstractFileSystem = spec.filesystem(scheme, **options)
    return store


def scanned(path: str) -> AbstractFileSystem:
    """The same for a scan of files that are opened now: what was known of them is forgotten."""
    store = filesystem(path)
    kind: Any = type(store)
    once = _asking_once(kind)
    once.known.clear()
    scanner: AbstractFileSystem = once(**store.storage_options)
    return scanner


@cache
def _asking_once(kind: Any) -> Any:  # noqa: ANN401 - a class of fsspec's
    """DuckDB asks eight times about a file that it opens, and stores take their time to answer."""

    class Once(kind):  # type: ignore[misc]
        known: ClassVar[dict[Any, tuple[float, Any]]] = {}

        async def _info(self, path: str, *args: Any, **options: Any) -> Any:  # noqa: ANN401
            key = (self._strip_protocol(path), *options.items())
            at, listing = self.known.get(key, (-_FRESH, None))
            if time.monotonic() - at >= _FRESH:
                listing = await super()._info(path, *args, **options)
                self.known[key] = time.monotonic(), listing
            return listing

    return Once


def matches(path: str) -> list[str]:
    """The files that a path, a glob or a URL names, in order."""
    if not is_remote(path):
        paths = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - takes absolute patterns
        for file in paths:
            if not Path(file).exists():
                raise SourceError(
                    f"{file!r} is a link to nothing: no file is there. Check the path."
                )
        return paths
    if on_web(path):
        return [path]
    store, (folder, _, name) = filesystem(path), path.rpartition("/")
    with explained(path):
        if not glob.has_magic(path):
            listed = [path] * store.isfile(path)
        elif glob.has_magic(folder) or "**" in name:
            listed = store.glob(path)
        else:  # by one listing, which fsspec's glob does not do
            try:
                paths = store.ls(folder, detail=False)
            except FileNotFoundError:
                paths = []
            listed = [file for file in paths if fnmatchcase(file.rpartition("/")[2], name)]
        return sorted(store.unstrip_protocol(file) for file in listed)


def no_file(path: str) -> str:
    """That there is no such file, and which one may be meant."""
    message = f"no file matches {shown(path)!r}."
    if is_remote(path) or glob.has_magic(path):
        return f"{message} Check the path."
    folder = Path(path).parent
    if not folder.is_dir():
        return f"{message} There is no directory {str(folder)!r}."
    hint = did_you_mean(Path(path).name, (file.name for file in folder.iterdir()))
    return message + (hint or " Check the path.")


def opened(path: str) -> IO[bytes]:
    """A file to read bytes from."""
    if not is_remote(path):
        return Path(path).open("rb")
    with explained(path):
        file: IO[bytes] = filesystem(path).open(path, "rb")
        return file


def states(files: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Of files of this machine that are there, what tells whether they have changed."""
    stats = {file: Path(file).stat() for file in files if Path(file).is_file()}
    return {file: (stat.st_size, stat.st_mtime_ns) for file, stat in stats.items()}


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Files that are not the same as before, in order."""
    return sorted(file for file in before | after if before.get(file) != after.get(file))


def same_files(files: Sequence[str]) -> tuple[str, str] | None:
    """Two of the files that are the same: one given twice, a link, or a copy; None if all differ.

    Only files of one size are read; of those in a store, the URLs are compared.
    """
    sizes = [file if is_remote(file) else Path(file).stat().st_size for file in files]
    often, known = Counter(sizes), dict[object, str]()
    for file, size in zip(files, sizes, strict=True):
        key: object = size
        if often[size] > 1 and not is_remote(file):
            with Path(file).open("rb") as opened:
                key = hashlib.file_digest(opened, "blake2b").digest()
        if key in known:
            return known[key], file
        known[key] = file
    return None


def given_twice(one: str, other: str) -> str:
    """That two files are the same."""
    return (
        f"{shown(one)!r} and {shown(other)!r} are the same file, or a copy of it: its records "
        "would count twice. Name one of them."
    )


@contextmanager
def readable(what: str, failed: str = "cannot be read") -> Iterator[None]:
    """Turn the failure of a package into one error that names what was read, and no credentials."""
    try:
        yield
    except ForeclickError:
        raise
    except Exception as error:  # noqa: BLE001 - each package has errors of its own
        gone = isinstance(error, FileNotFoundError)
        reason = "there is no such file, or nobody answers" if gone else brief(error)
        raise SourceError(f"{what} {failed}: {reason}") from harmless(error)


def explained(path: str) -> AbstractContextManager[None]:
    """The same of a file of a store."""
    return readable(repr(shown(path)), "cannot be reached")


def brief(error: Exception) -> str:
    """What an error says first, and the column if it points to one in the statement.

    Advice for people who write SQL is left out: functions that would do, plans, stacks.
    """
    text = str(error) or type(error).__name__
    first, *others = text.split("\n\n")[0].splitlines()
    plain = itertools.takewhile(lambda line: not _ASIDE.match(line), others[: _SAID - 1])
    said = " ".join(line.strip() for line in (first, *plain)).removesuffix(_CASTS)
    if pointed := _POINTED.search(text):
        line, blanks = pointed["line"], len(pointed["blanks"]) - len(pointed["number"])
        before, after = line[: max(blanks, 0)], line[max(blanks, 0) :]
        named = _OPERAND.search(before) or _QUOTED.match(after)
        if named and named[1] not in said:
            said += f" (at the column {named[1]!r})"
    return said


def harmless(error: Exception) -> Exception | None:
    """The cause of an error, unless its own text would show what is masked."""
    return error if masked(str(error)) == str(error) else None


# --- writing --------------------------------------------------------------------------------------


def machine() -> str:
    """Where a process number means one process: this machine since its start, this container of it.

    Machines that share a volume, and perhaps their name, count processes alike; so do containers.
    """
    parts = [platform.node()]
    with suppress(OSError):  # no Linux
        start = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        space = str(Path("/proc/self/ns/pid").readlink())
        parts += [start[:8], *re.findall(r"\d+", space)]
    return "-".join(parts)


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` at the end: a file is there completely or not.

    A file of an object store is written here and sent when it is whole. Where `path` is a link, the
    file that it points to is replaced.
    """
    target = located(path)
    if is_remote(target):
        scratch = ScratchFile(PurePosixPath(target).name)
        yield Path(scratch.path)
        with explained(target):
            filesystem(target).put_file(scratch.path, target)
        return
    final = _replaceable(target)
    with _partial(final, target) as partial:
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
    with _partial(final, str(path)) as partial:
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
def _partial(final: Path, path: str) -> Iterator[Path]:
    """A name beside `final` that no other writer uses, removed at the end.

    What killed processes left beside it is removed first. Errors of writing name the file; Arrow's
    and those of rename do not.
    """
    for left in final.parent.glob(f"{glob.escape(final.name)}.*.partial"):
        if _abandoned(left.name.removesuffix(".partial")):
            _remove(left)
    partial = final.with_name(f"{final.name}.{token_hex(4)}-{machine()}-{os.getpid()}.partial")
    try:
        yield partial
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        reason = os.strerror(error.errno)
        raise SourceError(f"{path!r} cannot be written: {reason}.") from error
    finally:
        _remove(partial)


def _remove(path: Path) -> None:
    """Remove a file or a directory, if there is one."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # on a read-only disk, what failed is more worth saying
            path.unlink(missing_ok=True)


def _replaceable(path: str) -> Path:
    """Where a file goes; never a device or a pipe, which renaming would replace by a file."""
    final = Path(os.path.realpath(path))
    if final.exists() and not final.is_file():
        what = "a directory" if final.is_dir() else "a device or a pipe"
        raise SourceError(f"{path!r} cannot be written: it is {what}. Name a file.")
    return final


def own_scratch() -> Path:
    """A place for temporary files of this process; what killed processes left there is removed."""
    place, name = Path(tempfile.gettempdir()), f"foreclick-{machine()}-"
    for left in place.glob(f"*{name}*"):
        if _abandoned(left.name):
            shutil.rmtree(left, ignore_errors=True)
    return place / f"{name}{os.getpid()}"


def _abandoned(name: str) -> bool:
    """Whether a name ends with this machine and the number of a process that is gone."""
    rest, _, pid = name.rpartition("-")
    return rest.endswith(f"-{machine()}") and pid.isdigit() and not _alive(int(pid))


def _alive(pid: int) -> bool:
    """Whether a process of this machine is running, or may be."""
    if os.name == "nt":  # where asking is as good as stopping it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return True


class ScratchFile:
    """A file that is there as long as this object.

    Attributes:
        path: where it is to be written.
    """

    def __init__(self, name: str) -> None:
        ending = f"-foreclick-{machine()}-{os.getpid()}"
        place = Path(tempfile.mkdtemp(prefix="foreclick_scratch_", suffix=ending))
        self.path = str(place / name)
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)


def checked_file(path: str | os.PathLike[str], endings: Sequence[str] = _TABLES) -> str:
    """A path or URL that can be written to, with one of these endings: before hours of work."""
    target = located(os.fspath(path))
    if ending(target) not in endings:
        raise ReportError(
            f"{str(path)!r} does not say what to write: its ending must be one of "
            f"{', '.join(endings)}."
        )
    if is_remote(target):
        filesystem(target)  # or it says what is missing
        return target
    place = _replaceable(target).parent
    if not place.is_dir():
        there = str(PurePath(target).parent)
        raise ReportError(f"{str(path)!r} cannot be written: there is no {there!r}.")
    if not os.access(place, os.W_OK):
        raise SourceError(
            f"{target!r} cannot be written: there is no permission to write in {str(place)!r}."
        )
    return target


def ending(path: str) -> str:
    """The ending of a file, in small letters."""
    return PurePosixPath(path).suffix.lower()


def local_path(path: str | os.PathLike[str]) -> Path:
    """A path on this machine; a URL is refused, rather than taken for a directory called s3:."""
    target = located(os.fspath(path))
    if is_remote(target):
        raise SourceError(
            f"{shown(target)!r} is in an object store, and this is written to this machine "
            "only. Give a path, and copy the files there."
        )
    return Path(target)


def fetched(files: Sequence[str]) -> tuple[list[str], ScratchFile]:
    """Copies of files of an object store, which are there as long as the second object."""
    scratch = ScratchFile("files")
    copies = [f"{scratch.path}-{i}.parquet" for i in range(len(files))]
    for file, copy in zip(files, copies, strict=True):
        with explained(file):
            filesystem(file).get_file(file, copy)
    return copies, scratch
