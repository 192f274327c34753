"""Files by path or by URL: on a disk, or in an object store through fsspec.

Credentials come from where each store's own tools look for them (environment, profile, role). They
are never part of a path, so no message can show them.
"""

from __future__ import annotations

import glob
import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from foreclick.errors import ForeclickError, SourceError, optional
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
            "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for instance) or in a DuckDB secret."
        )
    return text.removeprefix("file://") if scheme == "file" else text


def scheme_of(path: str) -> str | None:
    """What stands before :// in a URL; None for a path."""
    found = _URL.match(path)
    return found[1].lower() if found else None


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
    found: AbstractFileSystem = spec.filesystem(scheme, **options)
    return found


def scanned(path: str) -> AbstractFileSystem:
    """The same for a scan of files that are opened now: what was known of them is forgotten."""
    store = filesystem(path)
    kind: Any = type(store)
    once = _asking_once(kind)
    once.known.clear()
    found: AbstractFileSystem = once(**store.storage_options)
    return found


@cache
def _asking_once(kind: Any) -> Any:  # noqa: ANN401 - a class of fsspec's
    """DuckDB asks eight times about a file that it opens, and stores take their time to answer."""

    class Once(kind):  # type: ignore[misc]
        known: ClassVar[dict[Any, tuple[float, Any]]] = {}

        async def _info(self, path: str, *args: Any, **options: Any) -> Any:  # noqa: ANN401
            asked = (self._strip_protocol(path), *options.items())
            at, found = self.known.get(asked, (-_FRESH, None))
            if time.monotonic() - at >= _FRESH:
                found = await super()._info(path, *args, **options)
                self.known[asked] = time.monotonic(), found
            return found

    return Once


def matches(path: str) -> list[str]:
    """The files that a path, a glob or a URL names, in order."""
    if not is_remote(path):
        found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - takes absolute patterns
        for file in found:
            if not Path(file).exists():
                raise SourceError(f"{file!r} is a link to nothing, or to itself. Check the path.")
        return found
    if on_web(path):
        return [path]
    store = filesystem(path)
    with explained(path):
        listed = _listed(store, path) if glob.has_magic(path) else [path] * store.isfile(path)
        return sorted(store.unstrip_protocol(file) for file in listed)


def _listed(store: AbstractFileSystem, path: str) -> list[str]:
    """The files that a glob names; a directory by one listing, which fsspec's glob does not do."""
    folder, _, name = path.rpartition("/")
    if glob.has_magic(folder) or "**" in name:
        return list(store.glob(path))
    try:
        found = store.ls(folder, detail=False)
    except FileNotFoundError:
        return []
    return [file for file in found if fnmatchcase(file.rpartition("/")[2], name)]


def no_file(path: str) -> str:
    """That there is no such file, and which one may be meant."""
    said = f"no file matches {shown(path)!r}."
    if is_remote(path) or glob.has_magic(path):
        return f"{said} Check the path."
    folder = Path(path).parent
    if not folder.is_dir():
        return f"{said} There is no directory {str(folder)!r}."
    hint = did_you_mean(Path(path).name, (file.name for file in folder.iterdir()))
    return said + (hint or " Check the path.")


def opened(path: str) -> IO[bytes]:
    """A file to read bytes from."""
    if not is_remote(path):
        return Path(path).open("rb")
    with explained(path):
        found: IO[bytes] = filesystem(path).open(path, "rb")
        return found


def state(path: str) -> dict[str, Any]:
    """What tells whether a file of this machine has changed."""
    found = Path(path).stat()
    return {"bytes": found.st_size, "changed": found.st_mtime_ns}


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


def fetch(path: str, target: str) -> None:
    """Copy a file of a store to a local one."""
    with explained(path):
        filesystem(path).get_file(path, target)


def send(source: str, path: str) -> None:
    """Copy a local file to a store, where it appears when it is whole."""
    with explained(path):
        filesystem(path).put_file(source, path)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn a store's failure into one error that names the file, and no credentials."""
    try:
        yield
    except ForeclickError:
        raise
    except Exception as error:  # noqa: BLE001 - each package has errors of its own
        said = str(error) or type(error).__name__
        if isinstance(error, FileNotFoundError) or said == path:
            said = "there is no such file, or nobody answers"
        raise SourceError(f"{shown(path)!r} cannot be reached: {said}") from harmless(error)


def brief(error: Exception) -> str:
    """What an error says first; advice for people who write SQL is left out."""
    return (str(error) or type(error).__name__).split("\n\n")[0]


def harmless(error: Exception) -> Exception | None:
    """The cause of an error, unless its own text would show what is masked."""
    return error if masked(str(error)) == str(error) else None
